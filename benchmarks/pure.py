"""How long the arithmetic of one step takes: `python -m benchmarks.pure`.

In: nothing.  Out: a table of milliseconds on standard output, one line a part, then the sum for other numbers of
samples and domains.  Pure maths only: no engine, no trainer, so that a slow line here is our own doing.  A step is
16,384 samples in groups of 8 over 1,000 domains.  The driver does all of it but the last line, which the trainer ranks
share.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from rewards.advantages import group_advantages, has_signal
from rewards.normalise import DomainStatistics
from rollouts.mixture import Mixture, Outcome, Ticket
from train.policy.packing import Sample, build_row, loss_token_weights, plan_rows

NUM_SAMPLES, NUM_DOMAINS, GROUP_SIZE, NUM_REPEATS = 16_384, 1000, 8, 5
ROW_TOKENS, NUM_RANKS = 4096, 8
RANGE = (0.0, 1.0)
RANKS_PART = "rows from token lists (ranks)"

Group = tuple[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Timing:
    """Best and worst of several runs, in milliseconds."""

    part: str
    best: float
    worst: float


@dataclass(frozen=True, slots=True)
class Step:
    """The size of a step."""

    num_samples: int
    num_domains: int

    @property
    def names(self) -> list[str]:
        return [f"family{number % 14}/domain{number}" for number in range(self.num_domains)]

    @property
    def num_groups(self) -> int:
        return self.num_samples // GROUP_SIZE


def timed(part: str, run: Callable[[], object]) -> Timing:
    elapsed = []
    for _ in range(NUM_REPEATS):
        start = time.perf_counter()
        run()
        elapsed.append(1000 * (time.perf_counter() - start))
    return Timing(part, min(elapsed), max(elapsed))


def make_mixture(step: Step) -> Mixture:
    rng = random.Random(0)
    weights = {name: round(rng.paretovariate(1.0), 3) for name in step.names}
    return Mixture(weights, dict.fromkeys(weights, ("low", "high", "max")))


def make_groups(step: Step) -> list[Group]:
    """One step's rewards: mostly right or wrong, some unscored."""
    rng, names = random.Random(1), step.names
    return [
        (rng.choice(names), [rng.choice([0.0, 1.0, 1.0, rng.random(), None]) for _ in range(GROUP_SIZE)])
        for _ in range(step.num_groups)
    ]


def make_samples(step: Step) -> list[Sample]:
    """Prompts of 100 and completions of 125 tokens on average."""
    rng, names = random.Random(2), step.names
    samples = []
    for number in range(step.num_samples):
        prompt, completion = rng.randrange(50, 150), rng.randrange(50, 200)
        total = prompt + completion
        samples.append(
            Sample(
                ids=[5] * total,
                loss_mask=[False] * prompt + [True] * completion,
                behaviour_logprobs=[-0.5] * total,
                versions=[3] * total,
                advantages=[0.1] * total,
                domain=names[number % len(names)],
                tier="low",
                task_id="t",
                sample=0,
                truncated=False,
            )
        )
    return samples


def draw_and_settle(mixture: Mixture, step: Step) -> None:
    tickets: list[Ticket] = [mixture.next_ticket() for _ in range(step.num_groups)]
    for ticket in tickets:
        mixture.take_index(ticket, lambda index: index % 5 != 0)
        mixture.settle(ticket, Outcome.ACCEPTED)


def advantages_of(groups: list[Group], statistics: DomainStatistics) -> None:
    for domain, values in groups:
        if has_signal(values, RANGE):
            group_advantages(values, statistics.scale(domain))


def changed_mixture(step: Step) -> Mixture:
    mixture = make_mixture(step)
    mixture.set_weights(dict.fromkeys(mixture.weights, 1))
    return mixture


def driver_parts(step: Step) -> list[Timing]:
    """What the driver does in every step."""
    groups, statistics = make_groups(step), DomainStatistics(dict.fromkeys(step.names, RANGE))
    mixture, rng = make_mixture(step), random.Random(3)
    domains = [step.names[number % step.num_domains] for number in range(step.num_samples)]
    counts = [rng.randrange(50, 200) for _ in domains]
    lengths = [count + rng.randrange(50, 150) for count in counts]
    return [
        timed("mixture: draw and settle", lambda: draw_and_settle(mixture, step)),
        timed("statistics: update", lambda: statistics.update(groups)),
        timed("advantages", lambda: advantages_of(groups, statistics)),
        timed("packing: weights of tokens", lambda: loss_token_weights(domains, counts, "domain")),
        timed("packing: plan of rows", lambda: plan_rows(lengths, ROW_TOKENS, NUM_RANKS)),
    ]


def other_parts(step: Step) -> list[Timing]:
    """What happens once, with checkpoints, or after a change of weights; and what ranks do with the plan."""
    mixture, changed, samples = make_mixture(step), changed_mixture(step), make_samples(step)
    index = {name: number for number, name in enumerate(step.names)}
    rows = [row for rank in plan_rows([len(s.ids) for s in samples], ROW_TOKENS, NUM_RANKS) for row in rank]

    def build() -> None:
        for row in rows:
            build_row([samples[number] for number in row], [1e-6] * len(row), row, index)

    return [
        timed("mixture: make", lambda: make_mixture(step)),
        timed("mixture: draw and settle, changed weights", lambda: draw_and_settle(changed, step)),
        timed("mixture: save", mixture.state_dict),
        timed(RANKS_PART, build),
    ]


def table(title: str, timings: list[Timing]) -> str:
    lines = [f"  {timing.part:<42} {timing.best:9.1f}  {timing.worst:9.1f}" for timing in timings]
    return "\n".join([f"{title:<44} {'best':>9}  {'worst':>9}", *lines])


def main() -> None:
    full = Step(NUM_SAMPLES, NUM_DOMAINS)
    print(f"{NUM_SAMPLES:,} samples in groups of {GROUP_SIZE} over {NUM_DOMAINS:,} domains; milliseconds")
    parts = driver_parts(full)
    print(table("every step", parts))
    print(f"  {'together':<42} {sum(part.best for part in parts):9.1f}  {sum(part.worst for part in parts):9.1f}")
    print(table("besides", other_parts(full)))
    print(f"\n{'samples':>9}  {'domains':>9}  {'together':>9}")
    for samples in (NUM_SAMPLES // 2, NUM_SAMPLES, 2 * NUM_SAMPLES, 4 * NUM_SAMPLES):
        for domains in (NUM_DOMAINS // 2, NUM_DOMAINS, 2 * NUM_DOMAINS, 4 * NUM_DOMAINS):
            total = sum(part.best for part in driver_parts(Step(samples, domains)))
            print(f"{samples:9,}  {domains:9,}  {total:9.1f}", flush=True)


if __name__ == "__main__":
    main()
