"""JSON schemas: values that fit one, places that break one, and schemas written for given examples.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.

A model's own schema is never given to the library before `plain_schema` has seen that it uses a few keywords only:
no references, no patterns, no lists of values.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.structured.merges import judge_differences
from envs.families.structured.patches import resolve
from envs.families.structured.reading import Refused, is_number, read_json, same
from envs.families.structured.worlds import (
    COLOURS,
    GOODS,
    KEYS,
    WORDS,
    leaves,
    pointer,
    pretty,
    show,
)
from envs.skills import Question, Skill
from envs.types import Task


def fits(value: Any, schema: Any) -> bool:
    """Whether the value is valid under a schema of our own or a `plain_schema`; the library is imported late."""
    from jsonschema import Draft202012Validator

    return bool(Draft202012Validator(schema).is_valid(value))


# ---- a value that fits a schema and states facts ---------------------------------------------------------------------


def _field(rng: random.Random, told: bool) -> tuple[dict[str, Any], Any, str]:
    """A property's schema, a value that fits, and what is said about the value; an untold one has narrow limits."""
    kind = rng.randrange(6)
    if kind == 0:
        word = rng.choice(WORDS)
        schema: dict[str, Any] = {"type": "string", "minLength": rng.randint(1, 3), "maxLength": rng.randint(9, 12)}
        return schema if told else {**schema, "minLength": 13, "maxLength": 15}, word if told else "x" * 14, show(word)
    if kind == 1:
        low, step = rng.randint(10, 90), rng.choice([3, 4, 6, 7])
        value = (low // step + rng.randint(1, 4)) * step
        limits = {"type": "integer", "minimum": low, "maximum": value + rng.randint(0, step - 1)}
        return {**limits, "multipleOf": step}, value, str(value)
    if kind == 2:
        flag = rng.choice([True, False])
        return {"type": "boolean"}, flag, show(flag)
    if kind == 3:
        options = rng.sample(COLOURS, 3)
        return {"enum": options}, options[1], show(options[1])
    if kind == 4:
        count = rng.randint(2, 3)
        items = rng.sample(range(1, 40), count)
        # The lengths come first: a very long array is refused before its items are compared with each other.
        schema = {"type": "array", "maxItems": count, "minItems": count, "items": {"type": "integer"}}
        return {**schema, "uniqueItems": True}, items, show(items)
    number = rng.randint(1, 99)
    return {"type": ["integer", "null"], "exclusiveMinimum": number - 1}, number, str(number)


def _object(rng: random.Random, size: int, depth: int, told: float) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """A schema, a value, and told facts: `[pointer, value, words]`."""
    properties: dict[str, Any] = {}
    value: dict[str, Any] = {}
    facts: list[Any] = []
    for place, key in enumerate(rng.sample(KEYS, size)):
        if depth > 1 and place == 0:
            properties[key], value[key], inner = _object(rng, max(size - 1, 2), depth - 1, told)
            facts += [[f"/{key}{path}", fact, words] for path, fact, words in inner]
            continue
        is_told = not facts or rng.random() < told
        properties[key], value[key], words = _field(rng, is_told)
        facts += [[f"/{key}", value[key], words]] if is_told else []
    schema = {
        "type": "object",
        "properties": properties,
        "required": rng.sample(list(properties), len(properties)),
        "additionalProperties": False,
    }
    return schema, value, facts


def ask_fit_schema(rng: random.Random, size: int, depth: int, told: float) -> Question:
    """A JSON value that fits a schema, with some values told and others free."""
    schema, value, facts = _object(rng, size, depth, told)
    listed = "\n".join(f"- {path.removeprefix('/').replace('/', ' / ')}: {words}" for path, _, words in facts)
    text = (
        f"JSON schema:\n{show(schema)}\n\nThese values are known:\n{listed}\n\nWrite a JSON object that is valid "
        "under the schema and has the known values; what is not known may be anything valid."
    )
    return Question(
        text=text,
        answer=show(value),
        facts={"schema": schema, "known": [[path, fact] for path, fact, _ in facts]},
    )


def judge_fit_schema(answer: str, task: Task) -> float:
    facts = task.metadata
    try:
        value = read_json(answer)
        known = all(same(resolve(value, path.split("/")[1:]), fact) for path, fact in facts["known"])
    except Refused:
        return 0.0
    return float(known and fits(value, facts["schema"]))


# ---- where a document breaks a schema --------------------------------------------------------------------------------


def ask_invalid_places(rng: random.Random, size: int, depth: int, faults: int) -> Question:
    """Pointers to the values that break a schema."""
    schema, value, _ = _object(rng, size, depth, 1.0)
    options = [(path, one) for path, one in leaves(value) if all(isinstance(step, str) for step in path)]
    chosen = rng.sample(options, min(faults, len(options)))
    for path, one in chosen:
        parent = resolve(value, [str(step) for step in path[:-1]])
        inner = schema
        for step in path:
            inner = inner["properties"][step]
        parent[path[-1]] = _misfit(rng, one, inner)
    text = (
        f"JSON schema:\n{show(schema)}\n\nDocument:\n{pretty(value)}\n\nWhich innermost values break the schema? Give "
        'their JSON Pointers as a JSON array of strings in any order, such as ["/a/b"].'
    )
    found = [pointer(path) for path, _ in chosen]
    return Question(text=text, answer=show(found), facts={"pointers": found})


def _misfit(rng: random.Random, value: Any, schema: dict[str, Any]) -> Any:
    """A value near the given one that the schema refuses."""
    near: list[Any] = ["", str(value), "purple", f"{value}-{rng.choice(WORDS)}-{rng.choice(WORDS)}"]
    if is_number(value):
        near += [value + 1, value - 1, -value, value + 0.5, value + 1000]
    rng.shuffle(near)
    return next(one for one in near if not fits(one, schema))


# ---- a schema for given examples -------------------------------------------------------------------------------------

KEYWORDS = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
}
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def plain_schema(schema: Any) -> bool:
    """Only the keywords above, each with a value of the right type, so that running it is cheap and cannot fail."""
    if not isinstance(schema, dict) or not schema.keys() <= KEYWORDS:
        return False
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if not isinstance(types, list) or any(one not in _TYPES for one in types if isinstance(one, str)):
        return False
    if not all(isinstance(one, str) for one in types) or len(set(types)) < len(types):
        return False
    inner = schema.get("properties", {})
    required = schema.get("required", [])
    more = schema.get("additionalProperties", True)
    limits = [schema[key] for key in KEYWORDS if key.startswith(("min", "max")) and key in schema]
    return (
        isinstance(inner, dict)
        and isinstance(required, list)
        and all(isinstance(key, str) for key in required)
        and (isinstance(more, bool) or plain_schema(more))
        and all(is_number(limit) for limit in limits)
        and all(plain_schema(one) for one in inner.values())
        and ("items" not in schema or plain_schema(schema["items"]))
    )


def _refusals(rng: random.Random, rules: dict[str, list[Any]]) -> list[tuple[Any, dict[str, Any]]]:
    """Each rule of a flat schema with an example that breaks it alone."""
    found: list[tuple[Any, dict[str, Any]]] = []
    for key, (kind, low, high) in rules.items():
        if kind == "integer":
            found += [
                ([key, "low"], {key: low - 1}),
                ([key, "high"], {key: high + 1}),
                ([key, "type"], {key: str(low)}),
            ]
            found += [([key, "whole"], {key: low + 0.5})]
        elif kind == "string":
            found += [([key, "low"], {key: "abcdefghi"[: low - 1]}), ([key, "high"], {key: "a" * (high + 1)})]
            found += [([key, "type"], {key: rng.randint(2, 9)})]
        elif kind == "array":
            found += [([key, "low"], {key: [1] * (low - 1)}), ([key, "items"], {key: [1] * (low - 1) + ["1"]})]
            found += [([key, "high"], {key: [2] * (high + 1)})]
        else:
            found += [([key, "type"], {key: rng.choice(["true", 1, 0])})]
        found += [([key, "required"], {key: None})]
    return found


def _example(rng: random.Random, rules: dict[str, list[Any]], edge: int) -> dict[str, Any]:
    """A good value; `edge` 0 takes all lower limits, 1 all upper ones."""
    value: dict[str, Any] = {}
    for key, (kind, low, high) in rules.items():
        at = low if edge == 0 else high if edge == 1 else rng.randint(low, high)
        if kind == "integer":
            value[key] = at
        elif kind == "string":
            word = rng.choice(WORDS) + rng.choice(GOODS) + rng.choice(WORDS)
            value[key] = word[:at]
        elif kind == "array":
            value[key] = [rng.randint(1, 20) for _ in range(at)]
        else:
            value[key] = rng.choice([True, False])
    return value


def ask_infer_schema(rng: random.Random, size: int, refused: int) -> Question:
    """A schema that accepts some values and refuses others, with a few keywords."""
    rules: dict[str, list[Any]] = {}
    for key in rng.sample(KEYS, size):
        kind = rng.choice(["integer", "integer", "string", "array", "boolean"])
        low = rng.randint(5, 30) if kind == "integer" else rng.randint(2, 4)
        rules[key] = [kind, low, low + rng.randint(2, 5)]
    good = [_example(rng, rules, edge) for edge in (0, 1)]
    bad: list[Any] = []
    every = [*_refusals(rng, rules), (["", "extra"], {"extra": 1})]
    for (_, rule), change in rng.sample(every, min(refused, len(every))):
        broken = {**_example(rng, rules, 2), **change}
        bad.append({key: one for key, one in broken.items() if rule != "required" or one is not None})
    shown = [f"{mark}:\n" + "\n".join(map(show, values)) for mark, values in (("Accept", good), ("Refuse", bad))]
    text = (
        "\n\n".join(shown) + "\n\nWrite a JSON schema that accepts all values of the first list and refuses each of "
        "the second. It may use only these keywords: type, properties, required, additionalProperties, items, "
        "minimum, maximum, minItems, maxItems, minLength, maxLength."
    )
    return Question(text=text, answer=show(_shortest(rules, good, bad)), facts={"good": good, "bad": bad})


def _full(rules: dict[str, list[Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key, (kind, low, high) in rules.items():
        suffix = {"integer": "imum", "string": "Length", "array": "Items"}.get(kind, "")
        limits = {f"min{suffix}": low, f"max{suffix}": high} if suffix else {}
        properties[key] = {"type": kind, **limits, **({"items": {"type": "integer"}} if kind == "array" else {})}
    return {"properties": properties, "required": list(rules), "additionalProperties": False}


def _shortest(rules: dict[str, list[Any]], good: list[Any], bad: list[Any]) -> dict[str, Any]:
    """The full schema without the parts that these examples do not need."""
    schema = _full(rules)
    for path in [(), *(("properties", key) for key in rules)]:
        inner = resolve(schema, list(path))
        for key in list(inner):
            kept = inner.pop(key)
            if not _sorts(schema, good, bad):
                inner[key] = kept
    for key in list(schema.get("properties", {})):
        kept = schema["properties"].pop(key)
        if not _sorts(schema, good, bad):
            schema["properties"][key] = kept
    return schema


def _sorts(schema: Any, good: list[Any], bad: list[Any]) -> bool:
    return all(fits(one, schema) for one in good) and not any(fits(one, schema) for one in bad)


def judge_infer_schema(answer: str, task: Task) -> float:
    try:
        schema = read_json(answer)
    except Refused:
        return 0.0
    return float(plain_schema(schema) and _sorts(schema, task.metadata["good"], task.metadata["bad"]))


SKILLS = [
    Skill(
        name="fit_schema",
        ask=ask_fit_schema,
        judge=judge_fit_schema,
        levels={
            "easy": {"size": 2, "depth": 1, "told": 1.0},
            "medium": {"size": 4, "depth": 2, "told": 0.6},
            "hard": {"size": 5, "depth": 3, "told": 0.5},
        },
    ),
    Skill(
        name="invalid_places",
        ask=ask_invalid_places,
        judge=judge_differences,
        levels={
            "easy": {"size": 3, "depth": 1, "faults": 1},
            "medium": {"size": 4, "depth": 2, "faults": 2},
            "hard": {"size": 6, "depth": 3, "faults": 5},
        },
    ),
    Skill(
        name="infer_schema",
        ask=ask_infer_schema,
        judge=judge_infer_schema,
        levels={
            "easy": {"size": 1, "refused": 1},
            "medium": {"size": 2, "refused": 4},
            "hard": {"size": 4, "refused": 9},
        },
    ),
]
