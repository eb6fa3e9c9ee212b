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
            length = len(resolve(document, [str(step) for step in path]))
            end = "-" if rng.random() < 0.5 else str(rng.randint(0, length))
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
]
