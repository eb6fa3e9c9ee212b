"""Small described functions with seeded mistakes: what repairing, reviewing and testing questions are made of.

In: a random stream.  Out: a `Piece`: a description, a right source, and arguments; and its mutants, each with one
changed place.  Called by `envs.families.code.review`.  Loops go over ranges and lists only, so that mutants end too.
"""

from __future__ import annotations

import ast
import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envs.families.code.common import NAMES, WORDS, own_function, plain

# What a function takes, its description, and its body; {a}, {b}, {c} are small numbers, 2 <= a < b.
BANK: tuple[tuple[str, str, str], ...] = (
    (
        "values",
        "Return the sum of the values that are greater than {c}, each counted double if it is divisible by {a}.",
        "total = 0\nfor value in values:\n    if value > {c}:\n        if value % {a} == 0:\n            total "
        "+= value * 2\n"
        "        else:\n            total += value\nreturn total",
    ),
    (
        "values",
        "Return the length of the longest run of neighbours in which each value is greater than the one before "
        "it by at most {b} "
        "(and at least 1); a single value is a run of length 1, and an empty list gives 0.",
        "best = 0\nrun = 0\nfor i in range(len(values)):\n    if i > 0 and 1 <= values[i] - values[i - 1] <= {b}:\n"
        "        run += 1\n    else:\n        run = 1\n    best = max(best, run)\nreturn best",
    ),
    (
        "values",
        "Return the second largest of the different values, or {c} if there are fewer than two different ones.",
        "first = None\nsecond = None\nfor value in values:\n    if first is None or value > first:\n        "
        "second = first\n"
        "        first = value\n    elif value < first and (second is None or value > second):\n        second "
        "= value\n"
        "if second is None:\n    return {c}\nreturn second",
    ),
    (
        "values",
        "A balance starts at {b}. Each value is added to it; whenever the balance falls below 0, it is set to "
        "0 and a penalty is "
        "counted. Return the list [final balance, number of penalties].",
        "balance = {b}\npenalties = 0\nfor value in values:\n    balance += value\n    if balance < 0:\n       "
        " balance = 0\n"
        "        penalties += 1\nreturn [balance, penalties]",
    ),
    (
        "values",
        "Return how many positions hold a value that is greater than the mean of the up to {a} values directly "
        "before it (a "
        "position without values before it does not count).",
        "count = 0\nfor i in range(1, len(values)):\n    before = values[max(0, i - {a}):i]\n"
        "    if values[i] * len(before) > sum(before):\n        count += 1\nreturn count",
    ),
    (
        "values",
        "Return the list of the sums of each {a} neighbours (positions 0 to {a} - 1, then 1 to {a}, and so "
        "on), without the sums "
        "that are below {c}.",
        "sums = []\nfor i in range(len(values) - {a} + 1):\n    total = sum(values[i:i + {a}])\n    if total >= {c}:\n"
        "        sums.append(total)\nreturn sums",
    ),
    (
        "values",
        "Return the largest difference values[j] - values[i] with i < j and j - i <= {b}, or 0 if no such "
        "difference is "
        "positive.",
        "best = 0\nfor i in range(len(values)):\n    for j in range(i + 1, min(len(values), i + {b} + 1)):\n"
        "        if values[j] - values[i] > best:\n            best = values[j] - values[i]\nreturn best",
    ),
    (
        "values",
        "Count points: {a} for each value that equals the one before it, 1 for each value that is greater than "
        "the one before it, "
        "and -1 for each that is smaller. Return the points.",
        "points = 0\nfor i in range(1, len(values)):\n    if values[i] == values[i - 1]:\n        points += {a}\n"
        "    elif values[i] > values[i - 1]:\n        points += 1\n    else:\n        points -= 1\nreturn points",
    ),
    (
        "values",
        "Move through the list from left to right with a bag that holds at most {b} values: a value is put "
        "into the bag, and if the "
        "bag then holds more than {b}, its smallest value is removed. Return the sum of the bag at the end plus {c}.",
        "bag = []\nfor value in values:\n    bag.append(value)\n    if len(bag) > {b}:\n        bag.remove(min(bag))\n"
        "return sum(bag) + {c}",
    ),
    (
        "values",
        "Return the number of values that occur at least {a} times in the list (each such value counted once), "
        "plus {b} if the "
        "list has more than {c} elements.",
        "counts = {{}}\nfor value in values:\n    counts[value] = counts.get(value, 0) + 1\nfound = 0\n"
        "for count in counts.values():\n    if count >= {a}:\n        found += 1\nif len(values) > {c}:\n    "
        "found += {b}\n"
        "return found",
    ),
    (
        "text",
        "Write each run of a character as the character followed by the length of the run, but runs shorter "
        "than {a} as they are. "
        "Return the new text.",
        "out = ''\nrun = 0\nfor i in range(len(text)):\n    run += 1\n    if i + 1 == len(text) or text[i + 1] "
        "!= text[i]:\n"
        "        if run < {a}:\n            out += text[i] * run\n        else:\n            out += text[i] + "
        "str(run)\n"
        "        run = 0\nreturn out",
    ),
    (
        "text",
        "Return the number of positions i where text[i] is a vowel (a, e, i, o, u) and none of the {a} "
        "characters after it (or as "
        "many as there are) is one.",
        "count = 0\nfor i in range(len(text)):\n    if text[i] in 'aeiou':\n        clear = True\n"
        "        for j in range(i + 1, min(len(text), i + {a} + 1)):\n            if text[j] in 'aeiou':\n"
        "                clear = False\n        if clear:\n            count += 1\nreturn count",
    ),
    (
        "text",
        "Each letter has a value: a = 1, b = 2, and so on to z = 26; other characters have none. Return the "
        "sum of the values, "
        "where letters at positions divisible by {a} (0, {a}, ...) count {b} times.",
        "total = 0\nfor i in range(len(text)):\n    if 'a' <= text[i] <= 'z':\n        value = ord(text[i]) - 96\n"
        "        if i % {a} == 0:\n            value *= {b}\n        total += value\nreturn total",
    ),
    (
        "text",
        "Brackets ( and ) open and close levels; other characters are ignored. Return the greatest depth, or "
        "-{a} if a closing "
        "bracket comes without an open one, or -{b} if brackets stay open at the end.",
        "depth = 0\ndeepest = 0\nfor character in text:\n    if character == '(':\n        depth += 1\n"
        "        deepest = max(deepest, depth)\n    elif character == ')':\n        depth -= 1\n        if depth < 0:\n"
        "            return -{a}\nif depth > 0:\n    return -{b}\nreturn deepest",
    ),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A described function.  `kind` is the name of its only parameter, `values` or `text`."""

    name: str
    kind: str
    words: str
    source: str

    @property
    def takes(self) -> str:
        return "`values` is a list of whole numbers." if self.kind == "values" else "`text` is a text."


def draw_piece(rng: random.Random, first: int = 0, last: int = len(BANK)) -> Piece:
    """One of the functions `first` to `last` of the bank, with its own numbers and name."""
    kind, words, body = BANK[rng.randrange(first, last)]
    low = rng.randint(2, 5)
    fill = {"a": low, "b": low + rng.randint(1, 5), "c": rng.randint(1, 9)}
    name = f"{rng.choice(NAMES)}_{rng.choice(WORDS)}"
    lines = "\n".join("    " + line for line in body.format(**fill).split("\n"))
    return Piece(name, kind, words.format(**fill), ast.unparse(ast.parse(f"def {name}({kind}):\n{lines}")))


def draw_argument(rng: random.Random, kind: str) -> Any:
    """A list or a text; some of them with many equal neighbours, some short."""
    size = rng.choice([0, 1, 2, 3, 5, 8, 12])
    if kind == "text":
        letters = rng.choice(["ab", "aeixyz", "(()x)", "abc(", "a)(", "zzya"])
        return "".join(rng.choice(letters) for _ in range(size))
    low, high = rng.choice([(-9, 20), (0, 3), (-4, 4), (1, 40)])
    return [rng.randint(low, high) for _ in range(size)]


def draw_arguments(rng: random.Random, kind: str, count: int) -> list[Any]:
    return [draw_argument(rng, kind) for _ in range(count)]


def outcomes(source: str, name: str, arguments: Sequence[Any]) -> list[Any]:
    """What a piece or a mutant gives; an exception's name in a pair, since a mutant may well raise."""
    function, found = own_function(source, name), []
    for argument in arguments:
        try:
            found.append(plain(function(plain(argument))))
        except Exception as error:
            found.append(("raises", type(error).__name__))
    return found


# ---- mutants ---------------------------------------------------------------------------------------------------------

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt,), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Add,), ast.Mod: (ast.FloorDiv,),
}  # fmt: skip
CALLS = {"max": "min", "min": "max"}


def _changes(node: ast.AST) -> Iterator[tuple[str, Any, Any]]:
    """(attribute, old value, new value) of each mistake that one could make at this node."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            for other in COMPARISONS.get(type(operator), ()):
                yield "ops", node.ops, [*node.ops[:i], other(), *node.ops[i + 1 :]]
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        for swapped in OPERATORS.get(type(node.op), ()):
            yield "op", node.op, swapped()
    elif isinstance(node, ast.BoolOp):
        yield "op", node.op, ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "value", node.value, node.value + 1
        if node.value > 0:
            yield "value", node.value, node.value - 1
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "value", node.value, not node.value
    elif isinstance(node, ast.Name) and node.id in CALLS:
        yield "id", node.id, CALLS[node.id]


@functools.lru_cache(maxsize=512)
def mutants(source: str) -> tuple[tuple[int, str], ...]:
    """(line number from 1, source) of all programs with one small change, each in a form of its own."""
    tree = ast.parse(source)
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        for attribute, old, new in _changes(node):
            setattr(node, attribute, new)
            try:
                changed = ast.unparse(ast.fix_missing_locations(tree))
            finally:
                setattr(node, attribute, old)
            lines = [
                i for i, (a, b) in enumerate(zip(source.split("\n"), changed.split("\n"), strict=True), 1) if a != b
            ]
            if len(lines) == 1:
                found.setdefault(changed, lines[0])
    return tuple((line, changed) for changed, line in found.items())
