"""What an extraction is worth: 1 where it is right as a whole; below that, at hard levels only, a part.

In: an answer, JSON, and what is right.  Out: a number from 0 to 1.  Called by the skills of this family.

The part.  Items found are compared with items wanted as multisets; F is the harmonic mean of precision and recall, and
the part is 0.8 × (2F − 1), never below 0.  So whoever lists everything, or one thing only, gets nothing; at least two
thirds must be right for a quarter; and 1.0 is for the exact answer alone.  The items of an object are its innermost
values with their places, null left out: a null is never worth something.  At easy and medium levels there is no part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from envs.families.structured.reading import Refused, read_json, same
from envs.skills import Question
from envs.types import Task

MOST_PART = 0.8


def asked_set(text: str, items: list[Any], partial: bool) -> Question:
    """A question for a JSON array whose order does not matter."""
    return Question(text=text, answer=json.dumps(items), facts={"value": items, "partial": partial})


def asked_value(text: str, value: Any, partial: bool) -> Question:
    """A question for a JSON value, arrays in order."""
    return Question(text=text, answer=json.dumps(value), facts={"value": value, "partial": partial})


def levels(key: str, easy: int, medium: int, hard: int, /, **more: Any) -> dict[str, dict[str, Any]]:
    """Three levels of one number; there is partial credit at the hard one only."""
    sizes = {"easy": easy, "medium": medium, "hard": hard}
    extra = {level: {name: values[place] for name, values in more.items()} for place, level in enumerate(sizes)}
    return {level: {key: size, **extra[level], "partial": level == "hard"} for level, size in sizes.items()}


def judge_set(answer: str, task: Task) -> float:
    """A JSON array with the right elements in any order, none twice."""
    try:
        given = read_json(answer)
    except Refused:
        return 0.0
    wanted = task.metadata["value"]
    if not isinstance(given, list):
        return 0.0
    found, right = _counted(given), _counted(wanted)
    return 1.0 if found == right else part(found, right) if task.metadata["partial"] else 0.0


def judge_value(answer: str, task: Task) -> float:
    """A JSON value, arrays in order."""
    try:
        given = read_json(answer)
    except Refused:
        return 0.0
    wanted = task.metadata["value"]
    if same(given, wanted):
        return 1.0
    if not task.metadata["partial"] or type(given) is not type(wanted):
        return 0.0
    return part(Counter(_places(given, "")), Counter(_places(wanted, "")))


def part(found: Counter[str], right: Counter[str]) -> float:
    """0.8 × (2F − 1), where F is the harmonic mean of precision and recall; never below 0."""
    size = found.total() + right.total()
    shared = (found & right).total()
    share = 2 * shared / size if size else 0.0
    return MOST_PART * max(0.0, 2 * share - 1)


def canonical(value: Any) -> str:
    """One text for all spellings of a value: 3 and 3.0, keys in any order."""
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 10**15 else value


def _counted(items: list[Any]) -> Counter[str]:
    return Counter(canonical(item) for item in items)


def _places(value: Any, place: str) -> Iterator[str]:
    """Innermost values with their places, as texts; null is left out."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, f"{place}/{key}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _places(one, f"{place}/{index}")
    elif value is not None:
        yield f"{place}={canonical(value)}"
