"""XML, YAML, TOML and INI: written from facts or JSON, and read back.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.structured.patches import judge_value
from envs.families.structured.reading import Refused, read_xml, read_yaml, same
from envs.families.structured.worlds import (
    GOODS,
    KEYS,
    NAMES,
    WORDS,
    asked_json,
    nested,
    show,
)
from envs.skills import Question, Skill
from envs.types import Task

# ---- XML -------------------------------------------------------------------------------------------------------------

Node = list[Any]  # [tag, attributes, text, children]


def _xml(node: Node) -> str:
    tag, attributes, text, children = node
    head = tag + "".join(f' {key}="{_quoted(value)}"' for key, value in attributes.items())
    inner = _quoted(text) + "".join(map(_xml, children))
    return f"<{head}>{inner}</{tag}>" if inner else f"<{head}/>"


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _marked(rng: random.Random, share: float) -> str:
    word, other = rng.sample(WORDS, 2)
    return f"{word} {rng.choice(['&', '<', '&&', '<<'])} {other}" if rng.random() < share else word


def ask_write_xml(rng: random.Random, items: int, share: float) -> Question:
    """Facts as XML with told elements and attributes; some texts need an escape."""
    name, kind = rng.choice(NAMES), rng.choice(["order", "parcel", "offer"])
    root: Node = [kind, {"by": name}, "", []]
    told = []
    for number in range(1, items + 1):
        note, count, good = _marked(rng, share), rng.randint(2, 40), rng.choice(GOODS)
        noted = rng.random() < share
        children = [["note", {}, note, []]] if noted else []
        root[3].append(["item", {"count": str(count)}, "", [["what", {}, good, []], *children]])
        told.append(f"{number}. {count} of: {good}{f', with the note [{note}]' if noted else ''}")
    noted_rule = " and, where there is a note, an element <note> with what stands in the brackets" if share else ""
    text = (
        f"An {kind} by {name}:\n".replace("An p", "A p") + "\n".join(told) + f"\n\nWrite it as XML: the root is "
        f"<{kind}> with the attribute by; it has one <item> for each line, in order, with the attribute count (digits) "
        f"and in it an element <what>{noted_rule}."
    )
    return Question(text=text, answer=_xml(root), facts={"tree": root})


def judge_xml(answer: str, task: Task) -> float:
    """The same tree: white space between elements and the order of attributes do not matter."""
    try:
        return float(same(read_xml(answer), task.metadata["tree"]))
    except Refused:
        return 0.0


def _converted(node: Node) -> Any:
    """XML to JSON by rules that the prompt states."""
    _, attributes, text, children = node
    if not attributes and not children:
        return text
    found: dict[str, Any] = {f"@{key}": value for key, value in attributes.items()}
    if text:
        found["#"] = text
    for child in children:
        found.setdefault(child[0], []).append(_converted(child))
    return found


def _random_xml(rng: random.Random, size: int, depth: int, share: float) -> Node:
    node: Node = [rng.choice(KEYS), {}, "", []]
    if rng.random() < 0.5:
        node[1] = {
            key: _marked(rng, share) for key in rng.sample(["id", "at", "to"], rng.randint(1, 2 if share else 1))
        }
    if size <= 1 or depth == 1:
        node[2] = _marked(rng, share)
        return node
    left = size - 1
    tags = rng.sample(KEYS, 2)
    while left > 0:
        part = rng.randint(1, left)
        child = _random_xml(rng, part, depth - 1, share)
        child[0] = rng.choice(tags)
        node[3].append(child)
        left -= part
    return node


def ask_xml_to_json(rng: random.Random, size: int, depth: int, share: float) -> Question:
    """XML as JSON by stated rules."""
    root = _random_xml(rng, size, depth, share)
    text = (
        f"XML:\n{_xml(root)}\n\nWrite it as JSON by these rules. An element with neither attributes nor children is "
        'its text, a string. Any other is an object: attribute a is the key "@a", its text (if any) the key "#", and '
        "for each name of child elements there is a key with the array of those children, in order. The result is an "
        "object whose only key is the root's name, with the root's value (no array)."
    )
    return asked_json(text, {root[0]: _converted(root)})


def ask_json_to_xml(rng: random.Random, size: int, depth: int) -> Question:
    """JSON as XML by stated rules: keys are elements, arrays repeat, types are attributes."""
    value = nested(rng, size, depth)
    root: Node = ["root", {}, "", _elements(value)]
    text = (
        f"JSON:\n{show(value)}\n\nWrite it as XML with the root element <root>, by these rules. Each key is an "
        "element, in the order of the keys. A string is its text. A number or boolean is its text and has "
        'type="number" or type="boolean". null is an empty element with type="null". An object has its keys as child '
        "elements. An array is repeated: one element with the key's name for each of its values."
    )
    return Question(text=text, answer=_xml(root), facts={"tree": root})


def _elements(value: dict[str, Any]) -> list[Node]:
    return [_element(key, item) for key, one in value.items() for item in (one if isinstance(one, list) else [one])]


def _element(key: str, value: Any) -> Node:
    if isinstance(value, dict):
        return [key, {}, "", _elements(value)]
    if isinstance(value, str):
        return [key, {}, value, []]
    if value is None:
        return [key, {"type": "null"}, "", []]
    return [key, {"type": "boolean" if isinstance(value, bool) else "number"}, show(value), []]


# ---- YAML ------------------------------------------------------------------------------------------------------------

# Strings that YAML reads as something else unless they are quoted.
TRAPS = (
    "yes",
    "no",
    "on",
    "off",
    "true",
    "null",
    "~",
    "007",
    "1.50",
    "12",
    "3e2",
    "a: b",
    "- x",
    "#tag",
    "",
    "2024-05-01",
)


def _trapped(rng: random.Random, value: Any, share: float) -> Any:
    if isinstance(value, dict):
        return {key: _trapped(rng, one, share) for key, one in value.items()}
    if isinstance(value, list):
        return [_trapped(rng, one, share) for one in value]
    return rng.choice(TRAPS) if isinstance(value, str) and rng.random() < share else value


def _yaml_lines(value: Any, indent: int) -> list[str]:
    """Block style with JSON scalars, which are YAML as well."""
    blank = " " * indent
    if isinstance(value, dict) and value:
        found = []
        for key, one in value.items():
            if isinstance(one, dict | list) and one:
                found += [f"{blank}{key}:", *_yaml_lines(one, indent + 2)]
            else:
                found.append(f"{blank}{key}: {show(one)}")
        return found
    return [f"{blank}- {show(one)}" for one in value]


def ask_write_yaml(rng: random.Random, size: int, depth: int, share: float) -> Question:
    """JSON as block YAML; strings that look like something else must stay strings."""
    value = _trapped(rng, nested(rng, size, depth), share)
    care = " Strings stay strings, also where YAML 1.1 would read something else." if share else ""
    text = (
        f"JSON:\n{show(value)}\n\nWrite it as YAML in block style: no curly brackets and, unless it is empty, no "
        f"square ones. No anchors, tags or comments.{care}"
    )
    return Question(text=text, answer="\n".join(_yaml_lines(value, 0)), facts={"value": value})


def judge_write_yaml(answer: str, task: Task) -> float:
    """The same value, types included; a line that begins a flow collection is no block style."""
    wanted = task.metadata["value"]
    for line in answer.split("\n"):
        content = line.strip().removeprefix("- ").lstrip()
        after = content.partition(": ")[2].lstrip() if not content.startswith(('"', "'")) else ""
        if content[:1] in ("{", "[") or (after[:1] in ("{", "[") and after.rstrip() not in ("[]", "{}")):
            return 0.0
    try:
        return float(same(read_yaml(answer), wanted, strict=True))
    except Refused:
        return 0.0


def ask_yaml_to_json(rng: random.Random, size: int, depth: int, odd: int) -> Question:
    """YAML with scalars of all kinds as JSON: blocks of text, words that mean true, comments."""
    value = nested(rng, size, depth)
    lines = _yaml_lines(value, 0)
    lines = [line.replace('"', "") for line in lines]
    for key in rng.sample(["alpha", "beta", "gamma", "delta", "omega", "sigma"], odd):
        words = rng.sample(WORDS, 3)
        number = rng.randint(2, 99)
        shown, meant = rng.choice(
            [
                (f"{key}: |\n  {words[0]}\n  {words[1]}", f"{words[0]}\n{words[1]}\n"),
                (f"{key}: >-\n  {words[0]}\n  {words[1]}", f"{words[0]} {words[1]}"),
                (f"{key}: |-\n  {words[0]}\n    {words[1]}", f"{words[0]}\n  {words[1]}"),
                (f'{key}: "{number}"', str(number)),
                (f"{key}: yes  # {words[0]}", True),
                (f"{key}: off", False),
                (f"{key}: ~", None),
                (f"{key}: '{words[0]}: {words[1]}'", f"{words[0]}: {words[1]}"),
                (f"{key}: {words[0]}#{words[1]} # {words[2]}", f"{words[0]}#{words[1]}"),
                (f"{key}: [{words[0]}, {number}, '{number}']", [words[0], number, str(number)]),
                (f"{key}: {{{words[0]}: {number}}}", {words[0]: number}),
                (f"{key}:\n- {words[0]}: 1\n  {words[1]}: 2\n- {words[2]}", [{words[0]: 1, words[1]: 2}, words[2]]),
            ]
        )
        lines.append(shown)
        value[key] = meant
    text = "YAML (version 1.1, so that yes, on, no and off are booleans):\n" if odd else "YAML:\n"
    return asked_json(text + "\n".join(lines) + "\n\nWrite the same value as JSON.", value)


def _levels(easy: dict[str, Any], medium: dict[str, Any], hard: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"easy": easy, "medium": medium, "hard": hard}


SKILLS = [
    Skill(
        name="write_xml",
        ask=ask_write_xml,
        judge=judge_xml,
        levels=_levels({"items": 1, "share": 0.0}, {"items": 3, "share": 0.6}, {"items": 8, "share": 0.9}),
    ),
    Skill(
        name="xml_to_json",
        ask=ask_xml_to_json,
        judge=judge_value,
        levels=_levels(
            {"size": 2, "depth": 2, "share": 0.0},
            {"size": 6, "depth": 3, "share": 0.3},
            {"size": 16, "depth": 5, "share": 0.5},
        ),
    ),
    Skill(
        name="json_to_xml",
        ask=ask_json_to_xml,
        judge=judge_xml,
        levels=_levels({"size": 2, "depth": 1}, {"size": 7, "depth": 3}, {"size": 20, "depth": 5}),
    ),
    Skill(
        name="write_yaml",
        ask=ask_write_yaml,
        judge=judge_write_yaml,
        levels=_levels(
            {"size": 3, "depth": 2, "share": 0.2},
            {"size": 8, "depth": 3, "share": 0.5},
            {"size": 20, "depth": 5, "share": 0.8},
        ),
    ),
    Skill(
        name="yaml_to_json",
        ask=ask_yaml_to_json,
        judge=judge_value,
        levels=_levels(
            {"size": 3, "depth": 2, "odd": 0},
            {"size": 5, "depth": 3, "odd": 3},
            {"size": 12, "depth": 4, "odd": 6},
        ),
    ),
]
