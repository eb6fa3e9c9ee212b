"""What the skills of the code family share: reading a program out of an answer, and judging a function by hidden tests.

In: specifications as templates of this package.  Out: `Question`s whose answer is Python source, and verdicts on what a
model wrote.  Called by the other modules of the package.

Programs of a model run in the sandbox only.  `own_function` is for text that this package's own templates made, from
numbers and names of its own tables: reference solutions, and the programs that tracing questions show.
"""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envs.grading import grade_function
from envs.questions import extract_answer
from envs.sandbox import Limits, Programs
from envs.skills import Ask, Question
from envs.types import Task

PROGRAMS = Programs(limits=Limits(wall_seconds=8, cpu_seconds=4, memory_mib=512))
FENCE = "```"
MAX_JSON = 4_000  # characters of a JSON answer: more is not read
PYTHON_ANSWER = (
    "Write your solution as one fenced Python code block (the last one counts, if there are several), with few words "
    "besides it."
)
NAMES = "solve compute process transform evaluate derive collect handle resolve produce build analyze".split()
WORDS = (
    "amber basil cedar delta ember fjord grove haven inlet jolly knoll lemon maple noble ocean pearl quartz "
    "river sable "
    "tulip umber velvet willow xenon yonder zephyr acorn birch coral dune echo fern gale holly iris jade kelp "
    "lilac moss"
).split()

Cases = Sequence[tuple[Sequence[Any], Any]]


def source_of(answer: str) -> str:
    """The last fenced block, or else all of the answer.

    Example: ``source_of("Here:\\n```python\\nx = 1\\n```") == "x = 1"``
    """
    end = answer.rfind(FENCE)
    start = answer.rfind(FENCE, 0, max(end, 0))
    if start < 0:
        return extract_answer(answer)
    first_line, newline, rest = answer[start + len(FENCE) : end].partition("\n")
    is_label = newline and first_line.strip().casefold() in ("", "python", "python3", "py", "sql", "sqlite")
    return (rest if is_label else first_line + newline + rest).strip("\n")


def fenced(source: str) -> str:
    """The source as the gold answer writes it."""
    return f"{FENCE}python\n{source.strip()}\n{FENCE}"


@functools.lru_cache(maxsize=256)
def own_space(source: str) -> dict[str, Any]:
    """The names that a program of this package defines.  Never given what a model wrote: see above."""
    space: dict[str, Any] = {"__name__": "own"}
    exec(compile(source, "<own>", "exec"), space)
    return space


def own_function(source: str, name: str) -> Callable[..., Any]:
    """The function of that name in a program of this package."""
    function: Callable[..., Any] = own_space(source)[name]
    return function


def plain(value: Any) -> Any:
    """The value as JSON gives it back: tuples become lists, keys become texts.  Also a deep copy."""
    return json.loads(json.dumps(value))


def results(source: str, name: str, arguments: Sequence[Any]) -> list[tuple[list[Any], Any]]:
    """Cases: each of the arguments with what our own source gives for it."""
    function = own_function(source, name)
    return [(plain(list(each)), plain(function(*plain(list(each))))) for each in arguments]


def function_question(
    *,
    task: str,
    name: str,
    signature: str,
    source: str,
    arguments: Sequence[Any],
    shown: int = 2,
    ending: str = PYTHON_ANSWER,
) -> Question:
    """A function to write; the first `shown` arguments become examples, and all of them hidden tests."""
    cases = results(source, name, arguments)
    examples = [f"{name}({', '.join(map(repr, inputs))}) == {expected!r}" for inputs, expected in cases[:shown]]
    text = f"Write a Python function `{signature}`.\n\n{task}\n"
    if examples:
        text += "\nExamples:\n" + "\n".join(examples) + "\n"
    return Question(f"{text}\n{ending}", fenced(source), {"name": name, "cases": cases})


def passes(answer: str, task: Task) -> float:
    """1 where the model's function gives what each hidden test expects, else 0."""
    return passes_cases(source_of(answer), task.metadata["name"], task.metadata["cases"])


def passes_cases(source: str, name: str, cases: Cases, limits: Limits = PROGRAMS.limits) -> float:
    """All or nothing: a function that is right on some inputs is a wrong function."""
    if not source.strip() or "\0" in source:
        return 0.0
    return float(all(grade_function(source, name, cases, limits)))


def read_json(answer: str) -> Any:
    """A short JSON text, in a fenced block or not; None where it is none (or too long, too deep, too large)."""
    text = answer.strip()
    if text.startswith(FENCE) and text.endswith(FENCE) and len(text) > 2 * len(FENCE):
        text = text[len(FENCE) : -len(FENCE)].removeprefix("json")
    if len(text) > MAX_JSON or text.count("[") + text.count("{") > 500:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_numbers(value: Any, most: int, bound: int) -> bool:
    """A list of at most `most` whole numbers of at most `bound` in size; True and 1.0 are none."""
    return (
        isinstance(value, list)
        and len(value) <= most
        and all(type(each) is int and abs(each) <= bound for each in value)
    )


def numbers(rng: random.Random, low: int = -20, high: int = 40, most: int = 10, least: int = 0) -> list[int]:
    return [rng.randint(low, high) for _ in range(rng.randint(least, most))]


def varied(ask: Ask) -> Ask:
    """The same questions without those whose hidden tests mostly expect one and the same result.

    Else a function that always returns None would now and then be right.
    """

    def asked(rng: random.Random, **settings: Any) -> Question:
        while True:
            question = ask(rng, **settings)
            cases = question.facts.get("cases")
            expected = question.facts["outputs"] if cases is None else [case[1] for case in cases]
            found = Counter(json.dumps(each, sort_keys=True) for each in expected)
            if len(found) >= 3 and max(found.values()) <= 0.6 * len(expected) and expected[0] != expected[1]:
                return question

    return asked


def three(easy: Mapping[str, Any], medium: Mapping[str, Any], hard: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {"easy": easy, "medium": medium, "hard": hard}
