"""Places in documents: pointers, path queries, flat keys, and small notations that nest.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random
import string
from typing import Any

from envs.families.structured.patches import judge_value
from envs.families.structured.reading import same
from envs.families.structured.worlds import (
    GOODS,
    NAMES,
    TOWNS,
    WORDS,
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

# ---- pointers --------------------------------------------------------------------------------------------------------


def _odd_keys(rng: random.Random, value: Any, share: float) -> Any:
    """Some keys get a slash, a tilde, a blank or a number, which a pointer must write otherwise."""
    if isinstance(value, list):
        return [_odd_keys(rng, one, share) for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, one in value.items():
        word = rng.choice(WORDS)
        odd = rng.choice([f"{key}/{word}", f"~{key}", f"{key}~1", f"{key} {word}", f"{key}.{word}"])
        found[odd if rng.random() < share else key] = _odd_keys(rng, one, share)
    return found


def ask_pointers(rng: random.Random, size: int, depth: int, count: int, share: float) -> Question:
    """The values at pointers; `share` of the keys need an escape."""
    document = _odd_keys(rng, nested(rng, size, depth), share)
    found = [(path, value) for path, value in places(document) if path]
    deep = [one for one in found if len(one[0]) > 1] or found
    chosen = rng.sample(deep, min(count, len(deep)))
    rule = " In a pointer ~1 stands for / and ~0 for ~." if share else ""
    listed = "\n".join(pointer(path) for path, _ in chosen)
    text = (
        f"Document:\n{show(document)}\n\nJSON Pointers (RFC 6901), indices from 0:\n{listed}\n\nGive the values there "
        f"as one JSON array, in the order of the pointers.{rule}"
    )
    return asked_json(text, [value for _, value in chosen])


def ask_find_pointers(rng: random.Random, size: int, depth: int, share: float) -> Question:
    """Where in the document a value stands: one that stands in one place only."""
    while True:
        document = _odd_keys(rng, nested(rng, size, depth), share)
        every = leaves(document)
        single = [path for path, value in every if sum(same(value, other) for _, other in every) == 1]
        options = [path for path in single if len(path) >= min(depth, 2)]
        if options:
            break
    path = max(rng.sample(options, min(3, len(options))), key=len)
    value = next(one for other, one in every if other == path)
    rule = " In a pointer ~1 stands for / and ~0 for ~." if share else ""
    text = (
        f"Document:\n{show(document)}\n\nThe value {show(value)} stands in one place. Give the JSON Pointer (RFC 6901, "
        f"indices from 0) to it, and nothing else.{rule}"
    )
    return Question(text=text, answer=pointer(path))


# ---- path queries ----------------------------------------------------------------------------------------------------

Step = tuple[str, Any]


def select(values: list[Any], step: Step) -> list[Any]:
    """One step of a path, on all values that the steps before have selected."""
    kind, argument = step
    found: list[Any] = []
    for value in values:
        if kind == "key":
            found += [value[argument]] if isinstance(value, dict) and argument in value else []
        elif kind == "any":
            found += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        elif kind == "at" and isinstance(value, list):
            found += value[argument : argument + 1 or None]
        elif kind == "slice" and isinstance(value, list):
            found += value[argument[0] : argument[1]]
        elif kind == "deep":
            found += [one[argument] for _, one in places(value) if isinstance(one, dict) and argument in one]
        elif kind == "filter" and isinstance(value, list):
            found += [one for one in value if _passes(one, *argument)]
    return found


def _passes(value: Any, key: str, sign: str, limit: Any) -> bool:
    if not isinstance(value, dict) or key not in value:
        return False
    left = value[key]
    if sign == "==":
        return same(left, limit)
    return isinstance(left, int) and (left > limit if sign == ">" else left < limit)


def _written(step: Step) -> str:
    kind, argument = step
    if kind == "key":
        return f".{argument}"
    if kind == "any":
        return "[*]"
    if kind == "at":
        return f"[{argument}]"
    if kind == "slice":
        return f"[{argument[0]}:{argument[1]}]"
    return f"..{argument}" if kind == "deep" else f"[?{argument[0]}{argument[1]}{show(argument[2])}]"


def _shop(rng: random.Random, count: int) -> dict[str, Any]:
    """A shop with orders, each with lines."""
    orders = [
        {
            "id": number,
            "by": rng.choice(NAMES),
            "town": rng.choice(TOWNS[:4]),
            "lines": [
                {"item": rng.choice(GOODS), "n": rng.randint(1, 9), "price": rng.randint(2, 60)}
                for _ in range(rng.randint(1, 3))
            ],
        }
        for number in rng.sample(range(10, 99), count)
    ]
    return {"shop": {"town": rng.choice(TOWNS), "orders": orders}}


def _query(rng: random.Random, document: Any, length: int) -> list[Step]:
    orders: list[list[Step]] = [
        [("key", "shop"), ("key", "orders"), ("at", rng.choice([0, 1, -1]))],
        [("key", "shop"), ("key", "orders"), ("slice", [rng.randint(0, 1), rng.randint(2, 3)])],
        [("key", "shop"), ("key", "orders"), ("filter", ["id", rng.choice("<>"), rng.randint(30, 80)])],
        [
            ("key", "shop"),
            ("key", "orders"),
            ("filter", ["town", "==", rng.choice(document["shop"]["orders"])["town"]]),
        ],
        [("deep", "orders"), ("filter", ["id", rng.choice("<>"), rng.randint(30, 80)])],
        [("deep", "orders"), ("any", None)],
    ]
    short: list[Step] = [("key", rng.choice(["id", "by", "town"]))]
    lines: list[list[Step]] = [
        [("key", "lines"), ("any", None), ("key", rng.choice(["item", "n", "price"]))],
        [("key", "lines"), ("at", -1), ("key", "item")],
        [("key", "lines"), ("filter", ["n", rng.choice("<>"), rng.randint(3, 7)]), ("key", "item")],
        [("key", "lines"), ("filter", ["price", ">", rng.randint(15, 40)])],
        [("deep", rng.choice(["item", "n"]))],
    ]
    return [*rng.choice(orders), *(short if length < 2 else rng.choice(lines))]


PATH_RULES = {
    "key": ".k: the value of key k",
    "any": "[*]: all elements",
    "at": "[2]: the element with that index, from 0; [-1]: the last one",
    "slice": "[a:b]: the elements from index a up to, but without, b",
    "deep": "..k: the values of key k at every depth, in the order of the document",
    "filter": "[?k>5]: those elements of an array (objects) whose k fulfils the condition",
}


def ask_path_query(rng: random.Random, count: int, length: int, queries: int) -> Question:
    """Path queries in a notation like JSONPath, every step of which the prompt explains."""
    document = _shop(rng, count)
    chosen: list[list[Step]] = []
    for _ in range(400):
        query = _query(rng, document, length)
        if query not in chosen and (_run(document, query) or rng.random() < 0.05):
            chosen.append(query)
        if len(chosen) == queries:
            break
    used = {kind for query in chosen for kind, _ in query}
    rules = "\n".join(f"- {rule}" for kind, rule in PATH_RULES.items() if kind in used)
    listed = "\n".join("$" + "".join(_written(step) for step in query) for query in chosen)
    many = queries > 1
    text = (
        f"Document:\n{show(document)}\n\nA path selects values, step by step; $ is the document.\n{rules}\nA step that "
        f"fits nothing selects nothing.\n\n{'Paths' if many else 'Path'}:\n{listed}\n\n"
    ) + (
        "Give a JSON array with one array for each path: the values that it selects, in order."
        if many
        else "Give all selected values as a JSON array, in order."
    )
    results = [_run(document, query) for query in chosen]
    return asked_json(text, results if many else results[0])


def _run(document: Any, query: list[Step]) -> list[Any]:
    values = [document]
    for step in query:
        values = select(values, step)
    return values


# ---- flat keys -------------------------------------------------------------------------------------------------------


def flat_key(path: Path) -> str:
    """`("a", "b", 0)` -> `a.b[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _flat(document: Any) -> dict[str, Any]:
    return {flat_key(path): value for path, value in leaves(document)}


def ask_flatten(rng: random.Random, size: int, depth: int) -> Question:
    """One object with a key for every innermost value."""
    document = nested(rng, size, depth)
    while all(len(path) == 1 for path, _ in leaves(document)):
        document = nested(rng, size, depth)
    text = (
        f"Flatten this document:\n{show(document)}\n\nThe result is one JSON object with a key for every innermost "
        'value: the keys on the way joined by dots, an index in brackets, from 0, such as "a.b[0]".'
    )
    return asked_json(text, _flat(document))


def ask_unflatten(rng: random.Random, size: int, depth: int) -> Question:
    """The nested document again; flat keys stand in random order, so that indices must be heeded."""
    document = nested(rng, size, depth)
    while all(len(path) == 1 for path, _ in leaves(document)):
        document = nested(rng, size, depth)
    flat = list(_flat(document).items())
    rng.shuffle(flat)
    shown = "\n".join(f"{key} = {show(value)}" for key, value in flat)
    text = (
        f"Each line gives one innermost value of a JSON document; dots part keys, [0] is the first element of an "
        f"array:\n{shown}\n\nWrite the whole document as nested JSON."
    )
    return asked_json(text, document)


# ---- small notations -------------------------------------------------------------------------------------------------


def _tree(rng: random.Random, size: int, depth: int) -> list[Any]:
    items: list[Any] = [rng.choice(WORDS)]
    while size > 1:
        part = rng.randint(2, min(4, size)) if depth > 1 and size > 2 and rng.random() < 0.5 else 1
        items.append(_tree(rng, part, depth - 1) if part > 1 else _atom(rng))
        size -= part
    return items


def _atom(rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return f"{rng.choice(WORDS)}{rng.choice([' ', ' (', ') '])}{rng.choice(WORDS)}"
    return rng.randint(-9, 99) if rng.random() < 0.5 else rng.choice(WORDS)


def _lisp(value: Any, quotes: bool) -> str:
    if isinstance(value, list):
        return "(" + " ".join(_lisp(one, quotes) for one in value) + ")"
    odd = isinstance(value, str) and any(character in value for character in " ()")
    return f"'{value}'" if odd and quotes else str(value).split()[0].strip("()") if odd else str(value)


def ask_brackets(rng: random.Random, size: int, depth: int, quotes: bool) -> Question:
    """Lists in round brackets as JSON arrays."""
    tree = _tree(rng, size, depth)
    shown = _lisp(tree, quotes)
    value = tree if quotes else _bare(tree)
    rule = " What stands in '…' is one string, with its blanks and brackets.".replace("…", "...") if quotes else ""
    text = (
        f"{shown}\n\nHere round brackets make lists, and blanks part their items. A whole number is a number, "
        f"everything else is a string.{rule} Write it as JSON arrays."
    )
    return asked_json(text, value)


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(one) for one in value]
    return _lisp(value, False) if isinstance(value, str) else value


def _percent(text: str) -> str:
    kept = string.ascii_letters + string.digits
    return "".join(one if one in kept else "+" if one == " " else f"%{ord(one):02X}" for one in text)


def ask_query_string(rng: random.Random, count: int, odd: float, repeats: bool) -> Question:
    """The parameters of a URL as an object: percent signs decoded, repeated keys as arrays."""
    keys = rng.sample(["q", "page", "sort", "from", "to", "tag", "view", "lang", "id", "max"], count)
    pairs: list[tuple[str, str]] = []
    for key in keys:
        for _ in range(rng.choice([1, 1, 2, 3]) if repeats else 1):
            word = rng.choice(WORDS) if rng.random() < 0.6 else str(leaf(rng))
            if rng.random() < odd:
                word += rng.choice([" & ", "=", "/", "?", " + ", "%", "#", ", "]) + rng.choice(WORDS)
            pairs.append((key, "" if repeats and rng.random() < 0.12 else word))
    rng.shuffle(pairs)
    value: dict[str, Any] = {}
    for key, word in pairs:
        value.setdefault(key, []).append(word)
    value = {key: words if len(words) > 1 else words[0] for key, words in value.items()}
    query = "&".join(f"{key}={_percent(word)}" for key, word in pairs)
    rule = " A key that stands more than once gets an array of its values, in order." if repeats else ""
    more = " A plus sign is a blank, %2F and the like are the character with that ASCII code." if odd else ""
    text = (
        f"https://{rng.choice(WORDS)}.example/{rng.choice(GOODS)}?{query}#{rng.choice(WORDS)}\n\nGive the query "
        f"parameters of this address as one JSON object; all values are strings.{more}{rule}"
    )
    return asked_json(text, value)


def _levels(easy: dict[str, Any], medium: dict[str, Any], hard: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"easy": easy, "medium": medium, "hard": hard}


SKILLS = [
    Skill(
        name="pointers",
        ask=ask_pointers,
        judge=judge_value,
        levels=_levels(
            {"size": 4, "depth": 2, "count": 2, "share": 0.0},
            {"size": 10, "depth": 3, "count": 4, "share": 0.3},
            {"size": 24, "depth": 5, "count": 8, "share": 0.6},
        ),
    ),
    Skill(
        name="find_pointer",
        ask=ask_find_pointers,
        levels=_levels(
            {"size": 4, "depth": 2, "share": 0.0},
            {"size": 12, "depth": 4, "share": 0.4},
            {"size": 30, "depth": 6, "share": 0.8},
        ),
    ),
    Skill(
        name="path_query",
        ask=ask_path_query,
        judge=judge_value,
        levels=_levels(
            {"count": 2, "length": 1, "queries": 1},
            {"count": 4, "length": 2, "queries": 2},
            {"count": 7, "length": 2, "queries": 5},
        ),
    ),
    Skill(
        name="flatten",
        ask=ask_flatten,
        judge=judge_value,
        levels=_levels({"size": 3, "depth": 2}, {"size": 9, "depth": 4}, {"size": 24, "depth": 6}),
    ),
    Skill(
        name="unflatten",
        ask=ask_unflatten,
        judge=judge_value,
        levels=_levels({"size": 3, "depth": 2}, {"size": 9, "depth": 4}, {"size": 24, "depth": 6}),
    ),
    Skill(
        name="brackets",
        ask=ask_brackets,
        judge=judge_value,
        levels=_levels(
            {"size": 5, "depth": 2, "quotes": False},
            {"size": 12, "depth": 4, "quotes": True},
            {"size": 30, "depth": 7, "quotes": True},
        ),
    ),
    Skill(
        name="query_string",
        ask=ask_query_string,
        judge=judge_value,
        levels=_levels(
            {"count": 2, "odd": 0.0, "repeats": False},
            {"count": 4, "odd": 0.5, "repeats": True},
            {"count": 8, "odd": 0.8, "repeats": True},
        ),
    ),
]
