"""Merge patches, applied and written, and what differs between two documents.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from envs.families.structured.patches import judge_value, resolve
from envs.families.structured.reading import Refused, read_json, same
from envs.families.structured.worlds import asked_json, leaf, leaves, nested, places, pointer, pretty, show
from envs.skills import Question, Skill
from envs.types import Task

# ---- merge patch -----------------------------------------------------------------------------------------------------


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _without_nulls(value: Any) -> Any:
    """No null anywhere, which a merge patch could not write."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return 0 if value is None else value


def _merge_patch(rng: random.Random, document: Any, count: int) -> dict[str, Any]:
    """A merge patch with `count` changes in places of the document."""
    patch: dict[str, Any] = {}
    options = [path for path, _ in places(document) if path and all(isinstance(step, str) for step in path)]
    for path in rng.sample(options, min(count, len(options))):
        inner, blocked = patch, False
        for step in path[:-1]:
            inner = inner.setdefault(str(step), {})
            if not isinstance(inner, dict):
                blocked = True
                break
        if blocked or path[-1] in inner:
            continue
        kind = rng.randrange(4)
        if kind == 0:
            inner[str(path[-1])] = None
        elif kind == 1:
            inner[f"new{rng.randint(1, 99)}"] = _without_nulls(leaf(rng))
        elif kind == 2:
            inner[str(path[-1])] = [_without_nulls(leaf(rng)) for _ in range(2)]
        else:
            inner[str(path[-1])] = _without_nulls(leaf(rng))
    return patch


def _merged(rng: random.Random, size: int, depth: int, count: int) -> tuple[Any, Any, Any]:
    while True:
        document = _without_nulls(nested(rng, size, depth))
        patch = _merge_patch(rng, document, count)
        result = merge(document, patch)
        if len(leaves(patch)) >= count and not same(result, document):
            return document, patch, result


def ask_merge_patch(rng: random.Random, size: int, depth: int, count: int) -> Question:
    """What a merge patch makes of a document."""
    document, patch, result = _merged(rng, size, depth, count)
    text = (
        f"Document:\n{show(document)}\n\nJSON Merge Patch (RFC 7396):\n{show(patch)}\n\nObjects merge key by key, null "
        "removes a key, any other value (an array as a whole) replaces. Write the document after the merge, as JSON."
    )
    return asked_json(text, result)


def _smallest(before: Any, after: Any) -> dict[str, Any]:
    """The one merge patch in which nothing stands that changes nothing."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _smallest(old, value):
                patch[key] = inner
        elif not same(old, value):
            patch[key] = value
    return patch


def ask_write_merge_patch(rng: random.Random, size: int, depth: int, count: int) -> Question:
    """The merge patch between two documents, with nothing in it that is not needed."""
    before, _, after = _merged(rng, size, depth, count)
    text = (
        f"Before:\n{show(before)}\n\nAfter:\n{show(after)}\n\nWrite the JSON Merge Patch (RFC 7396) that turns the "
        "first document into the second: objects merge key by key, null removes a key, any other value (an array as a "
        "whole) replaces. Leave out every key whose value stays the same."
    )
    patch = _smallest(before, after)
    return Question(text=text, answer=show(patch), facts={"before": before, "after": after, "size": len(show(patch))})


def judge_write_merge_patch(answer: str, task: Task) -> float:
    """It works, and it is as short as the smallest one, whatever the order of its keys."""
    facts = task.metadata
    try:
        patch = read_json(answer)
    except Refused:
        return 0.0
    works = isinstance(patch, dict) and same(merge(facts["before"], patch), facts["after"])
    return float(works and len(show(patch)) <= facts["size"])


# ---- differences -----------------------------------------------------------------------------------------------------


def ask_differences(rng: random.Random, size: int, depth: int, count: int) -> Question:
    """Pointers to all values that differ between two documents of the same shape, which may be in another order."""
    before = nested(rng, size, depth)
    after = copy.deepcopy(before)
    changed = rng.sample(leaves(after), count)
    for path, value in changed:
        parent = resolve(after, [str(step) for step in path[:-1]])
        while same(parent[path[-1]], value):
            parent[path[-1]] = str(value) if isinstance(value, int) and rng.random() < 0.3 else leaf(rng)
    shuffled = _reordered(rng, after)
    text = (
        f"First:\n{pretty(before)}\n\nSecond:\n{show(shuffled)}\n\nThe order of keys does not matter. Give the JSON "
        "Pointers (RFC 6901) of all values that differ, as a JSON array of strings in any order, each to the "
        'innermost place, such as "/a/0".'
    )
    found = [pointer(path) for path, _ in changed]
    return Question(text=text, answer=show(found), facts={"pointers": found})


def _reordered(rng: random.Random, value: Any) -> Any:
    if isinstance(value, list):
        return [_reordered(rng, one) for one in value]
    if isinstance(value, dict):
        return {key: _reordered(rng, value[key]) for key in rng.sample(list(value), len(value))}
    return value


def judge_differences(answer: str, task: Task) -> float:
    """The same set, nothing twice."""
    try:
        given = read_json(answer)
    except Refused:
        return 0.0
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return 0.0
    return float(sorted(given) == sorted(task.metadata["pointers"]))


SKILLS = [
    Skill(
        name="merge_patch",
        ask=ask_merge_patch,
        judge=judge_value,
        levels={
            "easy": {"size": 3, "depth": 2, "count": 1},
            "medium": {"size": 8, "depth": 3, "count": 3},
            "hard": {"size": 18, "depth": 4, "count": 6},
        },
    ),
    Skill(
        name="write_merge_patch",
        ask=ask_write_merge_patch,
        judge=judge_write_merge_patch,
        levels={
            "easy": {"size": 3, "depth": 2, "count": 1},
            "medium": {"size": 8, "depth": 3, "count": 3},
            "hard": {"size": 18, "depth": 4, "count": 6},
        },
    ),
    Skill(
        name="differences",
        ask=ask_differences,
        judge=judge_differences,
        levels={
            "easy": {"size": 4, "depth": 2, "count": 1},
            "medium": {"size": 9, "depth": 3, "count": 3},
            "hard": {"size": 20, "depth": 4, "count": 5},
        },
    ),
]
