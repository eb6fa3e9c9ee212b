"""What worlds cost: `python -m benchmarks.envs [--tasks 20] [--family dialogue]`.

In: nothing.  Out: two tables.  The first: tasks and scores a second by family, on one thread, and the slowest domain of
each; a task or a verdict that is asked for again is made anew.  For reasoning-gym, the library's own generation and
scoring beside it.  The second: what an episode adds to the time of its engine, in milliseconds a turn, with an engine
that answers at once: on gold conversations of this project's multi-turn games, and on a made-up talk of many turns;
beside it, what rendering the whole history by transformers' `apply_chat_template` takes each turn, which is what a loop
does that keeps messages instead of tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envs.base import StepResult
from envs.demonstrate import run_policy_sync
from envs.domain import Domain, Draft
from envs.families import FAMILIES
from envs.types import FinishReason, Message, Status, Task, Trajectory
from rewards.score import scored
from rollouts.chat import ChatRenderer
from rollouts.engine import Completion, TurnRequest
from rollouts.episode import EpisodeLimits, EpisodeSettings, run_episode
from train.policy.tiny import build_tokenizer

MIN_TASKS = 2
LONG_TURNS, LONG_CHARACTERS = 64, 400
GAMES_A_FAMILY = 12  # multi-turn domains whose episodes are timed
REPEATS = 3  # of an episode; the quickest counts
LIMITS = EpisodeLimits(turn_tokens=10**6, trajectory_tokens=10**7, context=10**8)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return call(), time.perf_counter() - began


# ---- tasks and scores ------------------------------------------------------------------------------------------------


def cost_of(domain: Domain, num_tasks: int) -> tuple[float, float]:
    """Mean seconds of a task and of a verdict on its gold episode; the first task pays for imports and is left out."""
    making, judging = [], []
    for index in range(num_tasks + 1):
        task, made = timed(lambda index=index: domain.task(index))  # type: ignore[misc]
        trajectory = run_policy_sync(domain, task, domain.gold)
        score, judged = timed(lambda task=task, found=trajectory: domain.score(task, found))  # type: ignore[misc]
        if score.value is None:
            raise RuntimeError(f"{domain.name}: the gold episode of task {index} has no verdict: {score.reason}")
        making.append(made)
        judging.append(judged)
    return statistics.fmean(making[1:]), statistics.fmean(judging[1:])


def medium_of(domains: Sequence[Domain]) -> list[Domain]:
    """One level of each skill: what is neither easy nor hard, or else all."""
    return [domain for domain in domains if not domain.name.endswith(("-easy", "-hard", "-long"))] or list(domains)


def table_of_costs(names: Sequence[str], num_tasks: int) -> None:
    print(f"{'family':<16}{'domains':>8}{'tasks/s':>11}{'scores/s':>11}   slowest task, slowest verdict")
    for name in names:
        costs = {domain.name: cost_of(domain, num_tasks) for domain in medium_of(list(FAMILIES[name].domains()))}
        tasks, verdicts = ([cost[part] for cost in costs.values()] for part in (0, 1))
        slow_task, slow_verdict = (max(costs, key=lambda key, part=part: costs[key][part]) for part in (0, 1))  # type: ignore[misc]
        print(
            f"{name:<16}{len(costs):>8}{len(tasks) / sum(tasks):>11,.0f}{len(verdicts) / sum(verdicts):>11,.0f}   "
            f"{slow_task.split('/')[1]} {1e3 * max(tasks):.1f} ms, "
            f"{slow_verdict.split('/')[1]} {1e3 * max(verdicts):.1f} ms",
            flush=True,
        )


def library_ratio(num_tasks: int) -> None:
    """The same datasets, configured alike, by the library alone and by us: seconds a task and a score."""
    import reasoning_gym

    ours, theirs = [0.0, 0.0], [0.0, 0.0]
    for name in ("chain_sum", "gcd", "leg_counting", "maze", "number_sorting", "spell_backward", "simple_equations"):
        domain = next(d for d in FAMILIES["reasoning_gym"].domains() if d.name == f"reasoning_gym/{name}")
        for part, cost in enumerate(cost_of(domain, num_tasks)):
            ours[part] += cost
        dataset = reasoning_gym.create_dataset(name, seed=1, size=num_tasks + 1)
        _ = dataset[0]
        entries, made = timed(lambda dataset=dataset: [dataset[i] for i in range(1, num_tasks + 1)])  # type: ignore[misc]
        _, judged = timed(lambda d=dataset, e=entries: [d.score_answer(x["answer"], x) for x in e])  # type: ignore[misc]
        theirs[0] += made / num_tasks
        theirs[1] += judged / num_tasks
    print(
        f"\nreasoning-gym, seven of its datasets: ours / the library alone: task {ours[0] / theirs[0]:.2f}, "
        f"verdict {ours[1] / theirs[1]:.2f}"
    )


# ---- episodes --------------------------------------------------------------------------------------------------------


class InstantEngine:
    """Says what it was given, turn by turn, and keeps how long that took."""

    def __init__(self, completions: Sequence[list[int]]):
        self._completions = completions
        self.seconds = 0.0

    async def generate(self, request: TurnRequest) -> Completion:
        began = time.perf_counter()
        ids = self._completions[request.turn]
        completion = Completion(
            episode=request.episode,
            turn=request.turn,
            token_ids=list(ids),
            logprobs=[-0.1] * len(ids),
            versions=[0] * len(ids),
            finish_reason=FinishReason.STOP,
        )
        self.seconds += time.perf_counter() - began
        return completion

    def release(self, episode: int) -> None:
        return None


class LongTalk:
    """Answers each of many turns with a line."""

    def __init__(self, task: Task):
        self._turns = 0

    async def reset(self) -> None:
        return None

    async def step(self, message: Message) -> StepResult:
        self._turns += 1
        return StepResult(observation=(Message.of("user", f"turn {self._turns}: go on."),))

    async def close(self) -> None:
        return None


LONG_TALK = Domain(
    name="made_up/long_talk",
    family="made_up",
    generate=lambda index: Draft(prompt=(Message.of("user", f"talk {index}"),)),
    score=lambda task, trajectory: scored(1.0),
    gold=lambda task, messages: Message.of("assistant", "word " * (LONG_CHARACTERS // 5)),
    environment=LongTalk,
    max_turns=LONG_TURNS,
    generator_id="benchmarks.envs",
    verifier_id="benchmarks.envs",
    source="jointrl",
    licence="Apache-2.0",
)


def overhead(domain: Domain, renderer: ChatRenderer, num_tasks: int) -> tuple[int, float, float]:
    """Turns, and their seconds without the engine's and the world's; then those of rendering whole histories."""
    turns, ours, rendering = 0, 0.0, 0.0
    for index in range(num_tasks):
        task = domain.task(index)
        gold = run_policy_sync(domain, task, domain.gold)
        said = [turn.message for turn in gold.turns]
        completions = [renderer.assistant_ids(message) for message in said]
        repeats = [episode(domain, task, renderer, completions) for _ in range(REPEATS)]
        worlds = [timed(lambda d=domain, t=task, s=said: replayed(d, t, s))[1] for _ in range(REPEATS)]  # type: ignore[misc]
        turns += len(said)
        ours += min(took for _, took in repeats) - min(worlds)
        trajectory = repeats[0][0]
        rendering += min(
            timed(lambda t=trajectory: render_histories(renderer.tokenizer, t))[1]  # type: ignore[misc]
            for _ in range(REPEATS)
        )
    return turns, ours, rendering


def episode(domain: Domain, task: Task, renderer: ChatRenderer, said: Sequence[list[int]]) -> tuple[Trajectory, float]:
    """One episode of given completions, and its seconds without the engine's."""
    engine = InstantEngine(said)
    prompt = renderer.prompt_ids(task.prompt, domain.tools, domain.tiers[0])
    settings = EpisodeSettings(number=0, sample=0, tier=domain.tiers[0], limits=LIMITS, temperature=1.0, seed=0)
    trajectory, took = timed(lambda: asyncio.run(run_episode(task, domain, settings, renderer, engine, prompt)))
    if trajectory.status not in (Status.DONE, Status.MAX_TURNS) or len(trajectory.turns) != len(said):
        raise RuntimeError(f"{task.id}: the episode ended as {trajectory.status} after {len(trajectory.turns)} turns")
    return trajectory, took - engine.seconds


def replayed(domain: Domain, task: Task, said: Sequence[Message]) -> None:
    """The world alone: the same messages, without tokens."""
    run_policy_sync(domain, task, lambda task, messages: said[sum(m.role == "assistant" for m in messages)])


def render_histories(tokenizer: Any, trajectory: Trajectory) -> None:
    """Before each turn, all messages so far through the chat template."""
    history: list[Mapping[str, str]] = [{"role": m.role, "content": m.text} for m in trajectory.task.prompt]
    for turn in trajectory.turns:
        tokenizer.apply_chat_template(history, add_generation_prompt=True, tokenize=True)
        history += [{"role": m.role, "content": m.text} for m in (turn.message, *turn.observation)]


def table_of_episodes(names: Sequence[str], num_tasks: int) -> None:
    tokenizer = build_tokenizer()
    renderer = ChatRenderer(tokenizer, (tokenizer.convert_tokens_to_ids("<|end|>"),))
    print(f"\n{'episodes of':<16}{'turns':>7}{'ours, ms a turn':>18}{'apply_chat_template':>22}{'ratio':>8}")
    for name in [*names, "made_up"]:
        multi = [d for d in FAMILIES[name].domains() if d.max_turns > 1] if name in FAMILIES else [LONG_TALK]
        chosen = [d for d in multi if d.name.endswith("-hard")] or multi
        if not chosen:
            continue
        overhead(chosen[0], renderer, 1)  # what is loaded or compiled at first use
        step = max(1, len(chosen) // GAMES_A_FAMILY)
        found = [overhead(domain, renderer, num_tasks) for domain in chosen[::step]]
        turns, ours, rendering = (sum(part) for part in zip(*found, strict=True))
        print(
            f"{name:<16}{turns:>7}{1e3 * ours / turns:>18.3f}{1e3 * rendering / turns:>22.3f}{ours / rendering:>8.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=5, help="tasks of each domain")
    parser.add_argument("--family", action="append", choices=sorted(FAMILIES), help="only these families")
    arguments = parser.parse_args()
    names = arguments.family or list(FAMILIES)
    num_tasks = max(MIN_TASKS, arguments.tasks)
    table_of_costs(names, num_tasks)
    if "reasoning_gym" in names:
        library_ratio(10 * num_tasks)
    table_of_episodes(names, num_tasks)


if __name__ == "__main__":
    main()
