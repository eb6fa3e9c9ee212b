"""When two answers are the same: plain comparisons with a reference, and two puzzles that we check ourselves.

In: an answer and its reference as text.  Out: bool, never an exception.  Called by `envs.families.reasoning_gym`.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction


def _normal_text(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _same_text(answer: str, reference: str) -> bool:
    return _normal_text(answer) == _normal_text(reference)


def _same_word(answer: str, reference: str) -> bool:
    return _same_text(answer.casefold(), reference.casefold())


_PLAIN_DECIMAL = re.compile(r"[+-]?(?:0|[1-9][0-9,]{0,60})(?:\.[0-9]{1,60})?")


def _decimal(text: str) -> Decimal | None:
    """A plain decimal number (`1,000.0` is one, `1e3`, `007` and `nan` are not)."""
    text = text.strip()
    return Decimal(text.replace(",", "")) if _PLAIN_DECIMAL.fullmatch(text) else None


def _same_number(answer: str, reference: str) -> bool:
    number, wanted = _decimal(answer), _decimal(reference)
    assert wanted is not None, f"the reference {reference!r} is no plain decimal"
    return number == wanted


def _decimals(text: str) -> list[Decimal | None]:
    """The items of a list such as `['1.5', '2']`, `[1.5, 2]` or `1.5, 2`."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [_decimal(item.strip().strip("'\"")) for item in inner.split(",")] if inner.strip() else []


def _same_numbers(answer: str, reference: str, tolerance: Decimal = Decimal(0)) -> bool:
    numbers, wanted = _decimals(answer), _decimals(reference)
    assert None not in wanted, f"the reference {reference!r} is no list of plain decimals"
    return len(numbers) == len(wanted) and all(
        a is not None and b is not None and abs(a - b) <= tolerance for a, b in zip(numbers, wanted, strict=True)
    )


def _same_roots(answer: str, reference: str) -> bool:
    """In any order: compared as sorted lists.  An empty reference (no real root) takes no answer but an empty one."""
    numbers = [number for number in _decimals(answer) if number is not None]
    if len(numbers) != len(_decimals(answer)):
        return False
    return _same_numbers(", ".join(f"{number:f}" for number in sorted(numbers)), reference, Decimal("0.001"))


_SCIENTIFIC = re.compile(r"[0-9](?:\.[0-9]{1,30})?[eE]-?[0-9]{1,2}")


def _same_ratio(answer: str, reference: str) -> bool:
    """`0.375` and `3/8` are the same, within 0.0001 and one percent.

    The dataset's own scorer takes any prefix such as `0` for right.
    """
    value, wanted = _ratio(answer), _ratio(reference)
    assert wanted is not None, f"the reference {reference!r} is no ratio"
    return value is not None and abs(value - wanted) <= min(Decimal("0.0001"), wanted / 100)


def _ratio(text: str) -> Decimal | None:
    if _SCIENTIFIC.fullmatch(text.strip()):
        return Decimal(text.strip())
    above, slash, below = text.partition("/")
    numerator, denominator = _decimal(above), _decimal(below) if slash else Decimal(1)
    return numerator / denominator if numerator is not None and denominator else None


_NUMBER = re.compile(r"[0-9]+")
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def is_expression(answer: str, numbers: Sequence[int], target: int) -> bool:
    """Whether the expression uses exactly these numbers and has exactly that value.

    The library's scorer of puzzle24 takes any four numbers, and rounds; both datasets' scorers execute the answer.
    """
    if sorted(map(int, _NUMBER.findall(answer))) != sorted(numbers):
        return False
    try:
        return _exact_value(ast.parse(answer.strip(), mode="eval").body) == target
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        return False


def _exact_value(node: ast.expr) -> Fraction:
    """Of sums, products and quotients of whole numbers; ValueError for anything else (a power, a name, a call)."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_exact_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_exact_value(node.left), _exact_value(node.right))
    raise ValueError("not an expression of whole numbers")


_ROLE = re.compile(r"(\w+) is (?:an? )?(\w+)")


def _same_roles(answer: str, reference: str) -> bool:
    """Each name once, with its role, and nothing else but punctuation and `and`."""
    rest = re.sub(r"\band\b|[\s,.]", "", _ROLE.sub("", answer.casefold()))
    return not rest and sorted(_ROLE.findall(answer.casefold())) == sorted(_ROLE.findall(reference.casefold()))


def _same_json(answer: str, reference: str) -> bool:
    try:
        return _plain_json(answer) == _plain_json(reference)
    except (ValueError, RecursionError):
        return False


def _plain_json(text: str) -> str:
    """Canonical text of a value: keys sorted, and 2.0 as 2 (but `true` is not 1)."""
    return json.dumps(json.loads(text, parse_float=_plain_float), sort_keys=True)


def _plain_float(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def is_survo(answer: str, puzzle: Sequence[Sequence[int]], numbers: Sequence[int]) -> bool:
    """Whether the square keeps the cells given, uses exactly these numbers in the others, and has the sums stated."""
    rows = [line.split() for line in answer.split("\n")]
    cells = [cell for row in rows for cell in row]
    if [len(row) for row in rows] != [len(row) for row in puzzle] or not all(map(_SMALL.fullmatch, cells)):
        return False
    grid = [[int(cell) for cell in row] for row in rows]
    pairs = [pair for row, given in zip(grid, puzzle, strict=True) for pair in zip(row, given, strict=True)]
    filled = sorted(cell for cell, given in pairs if given == 0)
    return (
        all(given in (0, cell) for cell, given in pairs)
        and filled == sorted(numbers)
        and all(sum(line[:-1]) == line[-1] for line in (*grid, *zip(*grid, strict=True)))
    )


_SMALL = re.compile(r"[0-9]{1,6}")


COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "text": _same_text,
    "word": _same_word,
    "number": _same_number,
    "numbers": _same_numbers,
    "roots": _same_roots,
    "ratio": _same_ratio,
    "roles": _same_roles,
    "json": _same_json,
}
