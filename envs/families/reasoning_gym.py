"""The sound datasets of reasoning-gym 0.1.25 as single-turn domains, scored by rules that padding cannot exploit.

In: an index.  Out: a task whose answer is the last `<answer>…</answer>` of the final text, or else the whole text.
Listed in `envs.families`; the library is imported when the first task is made, not when domains are listed.

The library's own scorers give credit for padding, for NaN, and for near misses; some raise on odd text.  So `DATASETS`
names a rule for each dataset: plain comparison with the reference where one spelling is right, the dataset's own
scorer (at least 0.99 of it) where several answers are right, and its partial credit in a few cases only.  A scorer that
raises on what a model wrote costs the model the point and is counted in `SCORER_FAILURES`; on the gold it raises.

Generation and scoring silence standard output for the whole process: call from one thread.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
import re
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envs import sandbox
from envs.domain import Domain, Draft, Family
from envs.families.reasoning_gym_rules import COMPARISONS, extract_answer, is_solution
from envs.questions import final_answer
from envs.sandbox import Limits, SandboxDown, SandboxError, SandboxFailed, SandboxTimeout
from envs.types import Message, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

SOURCE = "reasoning-gym 0.1.25"
INSTRUCTION = "Put only the final answer between <answer> and </answer>."
SEED = 1
FULL_SCORE = 0.99  # of the dataset's own scorer
MOST_PARTIAL = 0.9  # partial credit never comes near full credit
LEAST_PARTIAL = 0.1  # below lie the consolation points for any text at all
CACHED_ENTRIES = 512
INSIDE = "envs.families.reasoning_gym_inside"

# (dataset, exception type) -> how often its scorer raised on a model's answer.
SCORER_FAILURES: Counter[tuple[str, str]] = Counter()

# Rules: `text` equal up to white space; `word` also up to case; `number` equal as plain decimals; `numbers` equal as a
# list of plain decimals; `roots` as `numbers`, each within 0.001; `ratio` a decimal or fraction, nearly equal; `roles`
# equal as a set of "X is a Y"; `json` equal as JSON; `own` the dataset's own scorer; `partial` its own partial credit,
# for answers no longer than the reference; `expression` sums, products and quotients of the task's numbers, each used
# once, with the exact value wanted; `sandbox` its own scorer, which executes the answer and so runs in the
# sandbox, on answers made of what `ALLOWED` lets through.
DATASETS: dict[str, str] = {
    "ab": "text",
    "acre": "text",
    "advanced_geometry": "own",
    "aiw": "text",
    "arc_1d": "text",
    "arc_agi": "text",
    "base_conversion": "text",
    "basic_arithmetic": "number",
    "bf": "text",
    "binary_alternation": "number",
    "binary_matrix": "sandbox",
    "bitwise_arithmetic": "own",
    "caesar_cipher": "text",
    "calendar_arithmetic": "word",
    "chain_sum": "number",
    "circuit_logic": "text",
    "coin_flip": "ratio",
    "color_cube_rotation": "word",
    "complex_arithmetic": "own",
    "count_bits": "number",
    "count_primes": "number",
    "countdown": "expression",
    "course_schedule": "word",
    "cryptarithm": "own",
    "decimal_arithmetic": "own",
    "decimal_chain_sum": "number",
    "dice": "text",
    "emoji_mystery": "partial",
    "family_relationships": "word",
    "figlet_font": "word",
    "fraction_simplification": "own",
    "futoshiki": "partial",
    "game_of_life": "json",
    "game_of_life_halting": "word",
    "gcd": "number",
    "graph_color": "own",
    "group_anagrams": "own",
    "gsm_symbolic": "number",
    "intermediate_integration": "sandbox",
    "isomorphic_strings": "word",
    "jugs": "own",
    "kakurasu": "own",
    "knights_knaves": "roles",
    "largest_island": "number",
    "lcm": "number",
    "leg_counting": "number",
    "letter_counting": "number",
    "letter_jumble": "word",
    "list_functions": "text",
    "mahjong_puzzle": "word",
    "manipulate_matrix": "text",
    "maze": "text",
    "mini_sudoku": "partial",
    "modulo_grid": "text",
    "n_queens": "sandbox",
    "needle_haystack": "word",
    "number_filtering": "text",
    "number_format": "own",
    "number_sequence": "number",
    "number_sorting": "numbers",
    "palindrome_generation": "own",
    "palindrome_partitioning": "own",
    "path_star": "text",
    "polynomial_equations": "roots",
    "polynomial_multiplication": "sandbox",
    "pool_matrix": "own",
    "power_function": "own",
    "prime_factorization": "own",
    "products": "number",
    "puzzle24": "expression",
    "quantum_lock": "own",
    "ransom_note": "word",
    "rearc": "text",
    "rectangle_count": "number",
    "rotate_matrix": "text",
    "rotten_oranges": "number",
    "rubiks_cube": "own",
    "self_reference": "number",
    "sentence_reordering": "partial",
    "shortest_path": "own",
    "simple_equations": "number",
    "simple_geometry": "number",
    "simple_integration": "sandbox",
    "sokoban": "own",
    "spell_backward": "word",
    "spiral_matrix": "sandbox",
    "string_insertion": "sandbox",
    "string_manipulation": "text",
    "string_splitting": "text",
    "string_synthesis": "text",
    "sudoku": "partial",
    "survo": "text",
    "syllogism": "word",
    "time_intervals": "text",
    "tower_of_hanoi": "own",
    "tsumego": "word",
    "word_ladder": "own",
    "word_sequence_reversal": "text",
    "word_sorting": "partial",
    "zebra_puzzles": "word",
}

EXCLUDED: dict[str, str] = {
    "knight_swap": "its levels fail an assertion, and its tasks depend on PYTHONHASHSEED",
    "codeio": "it executes packaged code when it makes a task, and tasks depend on the order of access",
    "boxnet": "it ships no solution, and its scorer raises on valid JSON",
    "rush_hour": "it ships no solution",
    "propositional_logic": "restating a premise scores the maximum in nine tasks of ten",
    "composite": "it is a mixture of the others; mixing is the run's task",
}

# Nothing else may reach a scorer that executes it: neither a name to call nor a way to make one.  What is left can only
# take time, which the sandbox bounds.
ALLOWED: dict[str, re.Pattern[str]] = {
    "binary_matrix": re.compile(r"[0-9\s,\[\]]+"),
    "intermediate_integration": re.compile(
        r"(?:[0-9\s()*+/.,^-]|\b(?:C|x|Integral|a?(?:sin|cos|tan)|(?:sin|cos|tan)h|exp|log|sqrt|pi|E)\b)+"
    ),
    "n_queens": re.compile(r"[Q_\s]+"),
    "polynomial_multiplication": re.compile(r"(?:[0-9\s()*+^-]|\b[xyz]\b)+"),
    "simple_integration": re.compile(r"(?:[0-9\s()*+/.^-]|\b[CXxYy]\b)+"),
    "spiral_matrix": re.compile(r"[0-9\s,\[\]-]+"),
    "string_insertion": re.compile(r"[A-E\s,'\"\[\]]+"),
}
# Their tasks depend on PYTHONHASHSEED: made in the sandbox, where it is 0 for everybody.
HASH_SEEDED = {"isomorphic_strings", "polynomial_multiplication", "ransom_note", "word_ladder"}
SCORER_LIMITS = Limits(wall_seconds=2.0, cpu_seconds=2.0, memory_mib=512)
TASK_LIMITS = Limits(wall_seconds=20.0, cpu_seconds=20.0, memory_mib=1024)

# These build all their tasks at construction; an index beyond the size repeats a task.
EAGER_SIZES = {"acre": 2_000, "list_functions": 100_000, "gsm_symbolic": 100_000, "word_ladder": 1_000}
ENDLESS_SIZE = 10**9

GOLD_FROM_METADATA: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "graph_color": lambda metadata: json.dumps(metadata["possible_answer"]),
    "rubiks_cube": lambda metadata: str(metadata["example_correct_answer"]),
}

# What no right answer contains, but what costs a scorer seconds or gigabytes, or deceives it (NaN).
_HOSTILE_NUMBER = re.compile(r"\b[+-]?(?:s?nan|inf|infinity)\b|\d[eE][+-]?\d{4,}|\d{1000,}", re.IGNORECASE)
_HOSTILE: dict[str, re.Pattern[str]] = {
    "rubiks_cube": re.compile(r"\d{2,}"),  # R999999999 is expanded to a list of that length
    "kakurasu": re.compile(r"[^01\s]"),  # the scorer skips any text between the digits
    "quantum_lock": re.compile(r"[^ABC→>,\s-]"),  # … and here between the letters
    "sokoban": re.compile(r"[^UDLR\s]"),  # … and here between the moves
}
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

    @functools.cached_property
    def dataset(self) -> Any:
        with isolated(self.seed):
            import reasoning_gym

            return reasoning_gym.create_dataset(self.name, seed=self.seed, size=self.size, **self._config)

    def entry(self, index: int) -> dict[str, Any]:
        index %= self.size
        if index in self._entries:
            self._entries.move_to_end(index)
            return self._entries[index]
        entry = self._made(index)
        self._entries[index] = entry
        if len(self._entries) > CACHED_ENTRIES:
            self._entries.popitem(last=False)
        return entry

    def _made(self, index: int) -> dict[str, Any]:
        if self.name in HASH_SEEDED:
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
        return entry

    def judged(self, answer: str, entry: Mapping[str, Any]) -> float:
        """The dataset's own score of an answer, in this process."""
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


def make(dataset: str, *, name: str = "", seed: int = SEED, **config: Any) -> Domain:
    """One dataset as a domain; `config` goes to it unchanged.

    Example: ``make("chain_sum", name="reasoning_gym/chain_sum_long", min_terms=6, max_terms=8)``
    """
    if dataset not in DATASETS:
        reason = EXCLUDED.get(dataset, "there is no such dataset")
        raise ValueError(f"reasoning-gym dataset {dataset!r} is not offered: {reason}")
    source, rule = _source(dataset, seed, config), DATASETS[dataset]

    def generate(index: int) -> Draft:
        question = source.entry(index)["question"].strip()
        return Draft(
            prompt=(Message.of("user", f"{question}\n\n{INSTRUCTION}"),),
            reference=source.gold(index),
            metadata={"dataset": dataset, "source_index": index % source.size},
        )

    return Domain(
        name=name or f"reasoning_gym/{dataset}",
        family="reasoning_gym",
        generate=generate,
        score=lambda task, trajectory: _score(source, rule, task, trajectory),
        gold=lambda task, messages: Message.of("assistant", f"<answer>{task.reference}</answer>"),
        generator_id=f"reasoning-gym-0.1.25/{dataset}@1",
        verifier_id=f"reasoning-gym-{rule}@1",
        source=SOURCE,
        licence="Apache-2.0",
        knobs={"seed": seed, **config},
        needs_sandbox=rule == "sandbox" or dataset in HASH_SEEDED,
    )


def domains() -> list[Domain]:
    return [make(dataset) for dataset in DATASETS]


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
    if rule == "expression":
        metadata = source.entry(task.index)["metadata"]
        return scored(float(is_solution(answer, metadata["numbers"], metadata.get("target", 24))))
    try:
        value = _own_score(source, rule, task, answer)
    except SandboxDown as problem:
        return unscored(str(problem))
    if value >= FULL_SCORE:
        return scored(1.0)
    earns_part = rule == "partial" and value >= LEAST_PARTIAL and len(answer) <= len(task.reference)
    return scored(min(value, MOST_PARTIAL) if earns_part else 0.0)


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
        SCORER_FAILURES[source.name, type(problem).__name__] += 1
        return 0.0
    return value if 0.0 <= value <= 1.0 else 0.0


def _is_hostile(dataset: str, answer: str) -> bool:
    if dataset in ALLOWED and not ALLOWED[dataset].fullmatch(answer):
        return True
    extra = _HOSTILE.get(dataset)
    return bool(_HOSTILE_NUMBER.search(answer) or (extra and extra.search(answer)))


FAMILY = Family(name="reasoning_gym", domains=domains, excluded=EXCLUDED)
