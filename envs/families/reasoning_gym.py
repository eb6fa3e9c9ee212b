"""The sound datasets of reasoning-gym 0.1.25 as single-turn domains, scored by rules that padding cannot exploit.

In: an index.  Out: a task whose answer is the last `<answer>…</answer>` of the final text, or else the whole text.
Listed in `envs.families`; the library is imported when the first task is made, not when domains are listed.

`reasoning_gym/<dataset>` is the medium level; `-easy` and `-hard` stand beside it (`LEVELS`).

The library's own scorers give credit for padding, for NaN, and for near misses; some raise on odd text.  So `DATASETS`
names a rule for each dataset: plain comparison with the reference where one spelling is right, the dataset's own
scorer (at least 0.99 of it) where several answers are right, and its partial credit in a few cases only.  A scorer that
raises on what a model wrote costs the model the point and is counted in `SCORER_FAILURES`; on the gold it raises.

Generation and scoring silence standard output for the whole process; threads take turns.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envs import sandbox
from envs.domain import Domain, Draft, Family
from envs.families import rush_hour
from envs.families.reasoning_gym_levels import LEVELS, ONE_LEVEL
from envs.families.reasoning_gym_rules import COMPARISONS, is_expression, is_survo
from envs.families.reasoning_gym_tables import (
    ALLOWED,
    DATASETS,
    EAGER_SIZES,
    ENDLESS_SIZE,
    EXCLUDED,
    GOLD_FROM_METADATA,
    HOSTILE_NUMBER,
    HOSTILE_TEXT,
    MADE_INSIDE,
    SCORER_LIMITS,
    TASK_LIMITS,
)
from envs.identity import code_id
from envs.questions import extract_answer, final_answer
from envs.sandbox import SandboxDown, SandboxError, SandboxFailed, SandboxTimeout
from envs.types import Message, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

SOURCE = "reasoning-gym 0.1.25"
INSTRUCTION = "Put only the final answer between <answer> and </answer>."
# A library's task is a function of seed + index: levels that share a stream would share boards and answers.
SEEDS = {"medium": 1, "easy": 1 + 10**9, "hard": 1 + 2 * 10**9}
FULL_SCORE = 0.99  # of the dataset's own scorer
MOST_PARTIAL = 0.9  # partial credit never comes near full credit
LEAST_PARTIAL = 0.1  # below lie the consolation points for any text at all
CACHED_ENTRIES = 512
SOLVED_STRIDE = 10**6
INSIDE = "envs.families.reasoning_gym_inside"

# (dataset, exception type) -> how often its scorer raised on a model's answer.
SCORER_FAILURES: Counter[tuple[str, str]] = Counter()
_ONE_AT_A_TIME = threading.RLock()  # the library draws from the process's global random streams
_MODEL_CAUSED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


# ---- tasks ----------------------------------------------------------------------------------------------------------


class Source:
    """One configured dataset: built at first use, entries cached, and the same entry for an index in any order."""

    def __init__(self, dataset: str, seed: int, config: Mapping[str, Any]):
        self.name = dataset
        self.seed = seed
        self.size = EAGER_SIZES.get(dataset, ENDLESS_SIZE)
        self._config = dict(config)
        self._entries: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    @functools.cached_property
    def dataset(self) -> Any:
        with isolated(self.seed):
            import reasoning_gym

            return reasoning_gym.create_dataset(self.name, seed=self.seed, size=self.size, **self._config)

    def entry(self, index: int) -> dict[str, Any]:
        index %= self.size
        with self._lock:
            if index not in self._entries:
                self._entries[index] = self._made(index)
            self._entries.move_to_end(index)
            if len(self._entries) > CACHED_ENTRIES:
                self._entries.popitem(last=False)
            return self._entries[index]

    def _made(self, index: int) -> dict[str, Any]:
        if self.name in MADE_INSIDE:
            arguments = (self.name, self.seed, self._config, index)
            try:
                made: dict[str, Any] = sandbox.call(f"{INSIDE}:make_entry", *arguments, limits=TASK_LIMITS)
            except (SandboxTimeout, SandboxFailed) as problem:
                # No model had a hand in it.
                raise SandboxDown(f"{self.name}: task {index} could not be made: {problem}") from problem
            return made
        dataset = self.dataset
        with isolated(self.seed + index):
            entry: dict[str, Any] = dataset[index]
            while self.name == "sokoban" and dataset.score_answer("", entry) >= FULL_SCORE:
                index += SOLVED_STRIDE  # all boxes stand on goals already
                entry = dataset[index]
        if self.name == "rush_hour":  # the library ships none
            entry["answer"] = rush_hour.solution(entry["metadata"]["board_config"])
        return entry

    def judged(self, answer: str, entry: Mapping[str, Any]) -> float:
        """The dataset's own score of an answer, in this process."""
        entry = {**entry, "metadata": dict(entry["metadata"])}  # knight_swap's scorer writes into it
        with isolated(self.seed):
            return float(self.dataset.score_answer(answer, entry))

    def judged_outside(self, answer: str, entry: Mapping[str, Any]) -> float:
        """The same in the sandbox; raises SandboxError."""
        arguments = (self.name, self.seed, self._config, dict(entry), answer)
        return sandbox.number(f"{INSIDE}:judge", *arguments, limits=SCORER_LIMITS)

    def gold(self, index: int) -> str:
        entry = self.entry(index)
        if self.name in GOLD_FROM_METADATA:
            return GOLD_FROM_METADATA[self.name](entry["metadata"]).strip()
        return str(entry["answer"]).strip()


_SOURCES: dict[str, Source] = {}


def _source(dataset: str, seed: int, config: Mapping[str, Any]) -> Source:
    """One source a process for each configuration: some take two seconds to build."""
    key = json.dumps([dataset, seed, dict(config)], sort_keys=True)
    return _SOURCES.setdefault(key, Source(dataset, seed, config))


@contextlib.contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Silence, and the global random streams seeded here and restored after.

    `list_functions` draws from `random`, `pool_matrix` reseeds `numpy.random`; neither may depend on, or disturb, what
    else runs in the process.
    """
    import numpy

    with _ONE_AT_A_TIME:
        python_state, numpy_state = random.getstate(), numpy.random.get_state()
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            random.setstate(python_state)
            numpy.random.set_state(numpy_state)


def make(dataset: str, level: str = "medium", *, name: str = "", seed: int | None = None, **config: Any) -> Domain:
    """One dataset at one level as a domain; `config` overrides the level's settings.

    Example: ``make("chain_sum", name="reasoning_gym/chain_sum-long", min_terms=6, max_terms=8)``
    """
    if dataset not in DATASETS:
        reason = EXCLUDED.get(dataset, "there is no such dataset")
        raise ValueError(f"reasoning-gym dataset {dataset!r} is not offered: {reason}")
    settings = {**(LEVELS[dataset].of(level) if dataset in LEVELS else {}), **config}
    seed = SEEDS[level] if seed is None else seed
    source, rule = _source(dataset, seed, settings), DATASETS[dataset]
    suffix = "" if level == "medium" else f"-{level}"

    def generate(index: int) -> Draft:
        question = source.entry(index)["question"].strip()
        return Draft(
            prompt=(Message.of("user", f"{question}\n\n{INSTRUCTION}"),),
            reference=source.gold(index),
            metadata={"dataset": dataset, "source_index": index % source.size},
        )

    return Domain(
        name=name or f"reasoning_gym/{dataset}{suffix}",
        family="reasoning_gym",
        generate=generate,
        score=lambda task, trajectory: _score(source, rule, task, trajectory),
        gold=lambda task, messages: Message.of("assistant", f"<answer>{task.reference}</answer>"),
        generator_id=code_id(f"reasoning-gym-0.1.25/{dataset}"),
        verifier_id=code_id(_score, f"reasoning-gym-0.1.25/{rule}"),
        source=SOURCE,
        licence="Apache-2.0",
        knobs={"level": level, "seed": seed, **settings},
        needs_sandbox=rule == "sandbox" or dataset in MADE_INSIDE,
    )


def domains() -> list[Domain]:
    """Each dataset at each of its levels."""
    return [make(dataset, level) for dataset in DATASETS for level in levels(dataset)]


def levels(dataset: str) -> tuple[str, ...]:
    """Names of a dataset's levels; the three of `ONE_LEVEL` have no difficulty to set."""
    return ("easy", "medium", "hard") if dataset in LEVELS else ("medium",)


# ---- scoring --------------------------------------------------------------------------------------------------------


def _score(source: Source, rule: str, task: Task, trajectory: Trajectory) -> Score:
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error or "the episode failed")
    text = final_answer(trajectory)
    if text is None:
        return scored(0.0)
    answer = extract_answer(text)
    if len(answer) > 2 * len(task.reference) + 1_000:  # no right answer is that long; slow scorers never see it
        return scored(0.0)
    if rule in COMPARISONS:
        return scored(float(COMPARISONS[rule](answer, task.reference)))
    if rule in PUZZLES:
        return scored(float(PUZZLES[rule](answer, source.entry(task.index)["metadata"])))
    try:
        value = _own_score(source, rule, task, answer)
    except SandboxDown as problem:
        return unscored(str(problem))
    if value >= FULL_SCORE:
        return scored(1.0)
    earns_part = rule == "partial" and value >= LEAST_PARTIAL and len(answer) <= len(task.reference)
    return scored(min(value, MOST_PARTIAL) if earns_part else 0.0)


# Rules that look at the answer and the puzzle, as one of several answers may be right.
PUZZLES: dict[str, Callable[[str, Mapping[str, Any]], bool]] = {
    "expression": lambda answer, puzzle: is_expression(answer, puzzle["numbers"], puzzle.get("target", 24)),
    "moves": lambda answer, puzzle: rush_hour.solves(puzzle["board_config"], answer),
    "survo": lambda answer, puzzle: is_survo(answer, puzzle["puzzle"], puzzle["candidate_numbers"]),
}


def _own_score(source: Source, rule: str, task: Task, answer: str) -> float:
    """The dataset's own verdict in [0, 1]; 0 where its scorer raises on something other than the gold.

    Raises SandboxDown where the scorer needs a sandbox and that does not work.
    """
    is_gold = answer == task.reference
    if not is_gold and _is_hostile(source.name, answer):
        return 0.0
    entry = source.entry(task.index)
    judged = source.judged_outside if rule == "sandbox" else source.judged
    try:
        value = judged(answer, entry)
    except (*_MODEL_CAUSED, SandboxTimeout, SandboxFailed) as problem:
        if is_gold and isinstance(problem, SandboxError):
            # The answer is right, so it is the machine that was too slow or too small: tried again, never a zero.
            raise SandboxDown(f"{source.name}: no verdict on the gold answer: {problem}") from problem
        if is_gold:
            raise
        with _ONE_AT_A_TIME:
            SCORER_FAILURES[source.name, type(problem).__name__] += 1
        return 0.0
    return value if 0.0 <= value <= 1.0 else 0.0


def _is_hostile(dataset: str, answer: str) -> bool:
    if dataset in ALLOWED and not ALLOWED[dataset].fullmatch(answer):
        return True
    extra = HOSTILE_TEXT.get(dataset)
    return bool(HOSTILE_NUMBER.search(answer) or (extra and extra.search(answer)))


_NO_LEVELS = {
    f"{name}-{level}": f"{name} has one level: {why}" for name, why in ONE_LEVEL.items() for level in ("easy", "hard")
}
FAMILY = Family(
    name="reasoning_gym",
    domains=domains,
    excluded=EXCLUDED | _NO_LEVELS,
    about=(
        "The sound datasets of the library reasoning-gym (pinned): algebra, arithmetic, algorithms, cognition, games, "
        "geometry, graphs, induction and logic, one question each with an answer between tags. Verdicts are the "
        "library's own, behind guards: scorers that execute or expand what a model wrote run in the sandbox, and "
        "partial credit for what is no answer is taken away. Some accept any right answer (a plan, a colouring), "
        "others one string. `python -m envs check` warns where one constant answer is often right (`syllogism`)."
    ),
)
