"""How long the arithmetic of one step takes: `python -m benchmarks.pure`.

In: nothing.  Out: a table of milliseconds on standard output, one line a part.  Pure maths only: no engine, no
trainer, so that a slow line here is our own doing.  A step is 16,384 samples in groups of 8 over 1,000 domains.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from rewards.advantages import group_advantages, has_signal
from rewards.normalise import DomainStatistics
from rollouts.mixture import Mixture, Outcome, Ticket

NUM_DOMAINS, NUM_SAMPLES, GROUP_SIZE, NUM_REPEATS = 1000, 16_384, 8, 5
RANGE = (0.0, 1.0)

Group = tuple[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Timing:
    """Best and worst of several runs, in milliseconds."""

    part: str
    best: float
    worst: float


def timed(part: str, run: Callable[[], object]) -> Timing:
    elapsed = []
    for _ in range(NUM_REPEATS):
        start = time.perf_counter()
        run()
        elapsed.append(1000 * (time.perf_counter() - start))
    return Timing(part, min(elapsed), max(elapsed))


def domain_names() -> list[str]:
    return [f"family{i % 14}/domain{i}" for i in range(NUM_DOMAINS)]


def make_mixture() -> Mixture:
    rng = random.Random(0)
    weights = {name: round(rng.paretovariate(1.0), 3) for name in domain_names()}
    return Mixture(weights, dict.fromkeys(weights, ("low", "high", "max")))


def make_groups() -> list[Group]:
    """One step's rewards: mostly right or wrong, some unscored."""
    rng, names = random.Random(1), domain_names()
    return [
        (rng.choice(names), [rng.choice([0.0, 1.0, 1.0, rng.random(), None]) for _ in range(GROUP_SIZE)])
        for _ in range(NUM_SAMPLES // GROUP_SIZE)
    ]


def draw_and_settle(mixture: Mixture) -> None:
    tickets: list[Ticket] = [mixture.next_ticket() for _ in range(NUM_SAMPLES // GROUP_SIZE)]
    for ticket in tickets:
        mixture.take_index(ticket, lambda index: index % 5 != 0)
        mixture.settle(ticket, Outcome.ACCEPTED)


def advantages_of(groups: list[Group], statistics: DomainStatistics) -> None:
    for domain, values in groups:
        if has_signal(values, RANGE):
            group_advantages(values, statistics.scale(domain))


def changed_mixture() -> Mixture:
    mixture = make_mixture()
    mixture.set_weights(dict.fromkeys(mixture.weights, 1))
    return mixture


def measure() -> list[Timing]:
    groups, statistics = make_groups(), DomainStatistics(dict.fromkeys(domain_names(), RANGE))
    fixed, changed = make_mixture(), changed_mixture()
    return [
        timed("mixture: make", make_mixture),
        timed("mixture: draw and settle, fixed weights", lambda: draw_and_settle(fixed)),
        timed("mixture: draw and settle, changed weights", lambda: draw_and_settle(changed)),
        timed("mixture: save", fixed.state_dict),
        timed("statistics: update", lambda: statistics.update(groups)),
        timed("advantages", lambda: advantages_of(groups, statistics)),
    ]


def render(timings: list[Timing]) -> str:
    width = max(len(timing.part) for timing in timings)
    head = f"{NUM_SAMPLES:,} samples in groups of {GROUP_SIZE} over {NUM_DOMAINS:,} domains; milliseconds a step"
    lines = [f"{timing.part:<{width}}  {timing.best:9.1f}  {timing.worst:9.1f}" for timing in timings]
    return "\n".join([head, f"{'part':<{width}}  {'best':>9}  {'worst':>9}", *lines])


if __name__ == "__main__":
    print(render(measure()))
