"""Documents that change: JSON Patch and merge patch, applied and written, and what differs between two documents.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
A written patch is judged by applying it, so that every patch that works counts.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from envs.families.structured.reading import Refused, read_json, same
from envs.families.structured.worlds import (
    Path,
    asked_json,
    leaf,
    leaves,
    nested,
    places,
    pointer,
    pretty,
    show,
)
from envs.skills import Question, Skill
from envs.types import Task

MOST_OPERATIONS = 40
MOST_CHARACTERS = 20_000  # of a document in the course of a patch: copies could make it grow without end


def judge_value(answer: str, task: Task) -> float:
    """The answer is JSON with the right value."""
    try:
        return float(same(read_json(answer), task.metadata["value"]))
    except Refused:
        return 0.0


# ---- JSON Patch ------------------------------------------------------------------------------------------------------


def steps(text: Any) -> list[str]:
    """The steps of a pointer: `/a~1b/0` -> `["a/b", "0"]`."""
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise Refused("no pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _index(step: str, length: int) -> int:
    if not step.isascii() or not step.isdigit() or len(step) > 4 or (step[0] == "0" and step != "0"):
        raise Refused("no index")
    if int(step) >= length:
        raise Refused("an index beyond the end")
    return int(step)


def resolve(document: Any, path: list[str]) -> Any:
    """The value at a pointer's steps."""
    for step in path:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(step, len(document))]
        else:
            raise Refused("no such place")
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = resolve(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1], len(parent) + 1)
        parent.insert(at, value)
    else:
        raise Refused("no such place")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        raise Refused("the whole document")
    parent = resolve(document, path[:-1])
    resolve(parent, path[-1:])
    del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]
    return document


def apply_operation(document: Any, operation: Any) -> Any:
    """One operation of RFC 6902; the document may be changed in place."""
    if not isinstance(operation, dict):
        raise Refused("an operation is an object")
    kind, path = operation.get("op"), steps(operation.get("path"))
    if kind in ("add", "replace", "test") and "value" not in operation:
        raise Refused("no value")
    if kind == "add":
        return _add(document, path, copy.deepcopy(operation["value"]))
    if kind == "remove":
        return _remove(document, path)
    if kind == "replace":
        resolve(document, path)
        return _add(_remove(document, path), path, copy.deepcopy(operation["value"])) if path else operation["value"]
    if kind == "test":
        if not same(resolve(document, path), operation["value"]):
            raise Refused("a test failed")
        return document
    if kind in ("move", "copy"):
        source = steps(operation.get("from"))
        value = copy.deepcopy(resolve(document, source))
        if kind == "move":
            if path[: len(source)] == source and path != source:
                raise Refused("moved into itself")
            document = _remove(document, source)
        return _add(document, path, value)
    raise Refused("unknown operation")


def apply_patch(document: Any, operations: Any) -> Any:
    """All operations in turn, on a copy; refused where one fails or the document grows too large."""
    if not isinstance(operations, list) or len(operations) > MOST_OPERATIONS:
        raise Refused("a patch is a short array")
    try:
        document = copy.deepcopy(document)
        for operation in operations:
            document = apply_operation(document, operation)
            if len(show(document)) > MOST_CHARACTERS:
                raise Refused("the document grows too large")
    except RecursionError as problem:
        raise Refused("copies within copies") from problem
    return document


def _operation(rng: random.Random, document: Any, kinds: str) -> dict[str, Any]:
    found = list(places(document))
    lists = [path for path, value in found if isinstance(value, list)]
    objects = [path for path, value in found if isinstance(value, dict)]
    inner: list[Path] = [path for path, value in leaves(document) if path]
    kind = rng.choice(kinds.split())
    if not inner:
        kind = "add"
    if kind == "add":
        if lists and rng.random() < 0.5:
            path = rng.choice(lists)
            end = rng.choice(["-", rng.randint(0, len(resolve(document, [str(step) for step in path])))])
            return {"op": "add", "path": pointer((*path, end)), "value": leaf(rng)}
        return {"op": "add", "path": pointer((*rng.choice(objects), f"new{rng.randint(1, 99)}")), "value": leaf(rng)}
    if kind == "remove":
        return {"op": "remove", "path": pointer(rng.choice(inner))}
    if kind == "replace":
        return {"op": "replace", "path": pointer(rng.choice(inner)), "value": leaf(rng)}
    target = pointer((*rng.choice(objects), rng.choice(["kept", "spare", "moved", "other"])))
    return {"op": kind, "from": pointer(rng.choice(inner)), "path": target}


def _patched(rng: random.Random, size: int, depth: int, count: int, kinds: str) -> tuple[Any, list[Any], Any]:
    """A document, a patch that works on it, and what comes out: something else."""
    while True:
        document = nested(rng, size, depth)
        patch: list[Any] = []
        result: Any = document
        while len(patch) < count:
            operation = _operation(rng, result, kinds)
            try:
                result = apply_patch(result, [operation])
            except Refused:  # moved into itself
                continue
            patch.append(operation)
        if not same(result, document):
            return document, patch, result


def ask_json_patch(rng: random.Random, size: int, depth: int, count: int, kinds: str) -> Question:
    """What a JSON Patch makes of a document."""
    document, patch, result = _patched(rng, size, depth, count, kinds)
    listed = "[\n" + ",\n".join(f"  {show(operation)}" for operation in patch) + "\n]"
    text = (
        f"Document:\n{show(document)}\n\nJSON Patch (RFC 6902), applied from top to bottom:\n{listed}\n\n"
        "Write the document after the patch, as JSON."
    )
    return asked_json(text, result)


def ask_write_patch(rng: random.Random, size: int, depth: int, count: int) -> Question:
    """A JSON Patch, of at most so many operations, that leads from one document to another."""
    before, patch, after = _patched(rng, size, depth, count, "add remove replace move copy")
    text = (
        f"Before:\n{show(before)}\n\nAfter:\n{show(after)}\n\nWrite a JSON Patch (RFC 6902: a JSON array of objects "
        f'with "op", "path" and, where needed, "value" or "from") that turns the first document into the second. At '
        f"most {count} operation{'s' * (count > 1)}, and none may add, replace, move or copy the whole document or "
        "test anything."
    )
    return Question(text=text, answer=show(patch), facts={"before": before, "after": after, "most": count})


def judge_write_patch(answer: str, task: Task) -> float:
    facts = task.metadata
    try:
        patch = read_json(answer)
        if not isinstance(patch, list) or not 0 < len(patch) <= facts["most"]:
            return 0.0
        if any(not isinstance(one, dict) or one.get("op") == "test" or not one.get("path") for one in patch):
            return 0.0
        return float(same(apply_patch(facts["before"], patch), facts["after"]))
    except Refused:
        return 0.0


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


_SIMPLE, _ALL = "add remove replace", "add remove replace move copy"
SKILLS = [
    Skill(
        name="json_patch",
        ask=ask_json_patch,
        judge=judge_value,
        levels={
            "easy": {"size": 3, "depth": 2, "count": 1, "kinds": _SIMPLE},
            "medium": {"size": 8, "depth": 3, "count": 4, "kinds": _ALL},
            "hard": {"size": 16, "depth": 4, "count": 9, "kinds": _ALL},
        },
    ),
    Skill(
        name="write_patch",
        ask=ask_write_patch,
        judge=judge_write_patch,
        levels={
            "easy": {"size": 3, "depth": 2, "count": 1},
            "medium": {"size": 8, "depth": 3, "count": 3},
            "hard": {"size": 14, "depth": 4, "count": 6},
        },
    ),
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
