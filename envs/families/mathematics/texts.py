"""Golds as text, and the few sums that many questions need: the other direction of `values`.

In: numbers, coefficients, matrices.  Out: their canonical spelling in plain ASCII.  Called by all questions of this
family.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from envs.families.mathematics.values import square_free
from envs.skills import Ask, Judge, Skill

Number = int | Fraction
NAMES = "Ada Ben Cleo Dan Eva Finn Gina Hugo Iris Jon Kim Leo Mia Noah Olga Paul Rosa Sam Tara Vera".split()


def skill(
    name: str, ask: Ask, judge: Judge, easy: dict[str, Any], medium: dict[str, Any], hard: dict[str, Any]
) -> Skill:
    """A skill with the settings of its three levels."""
    return Skill(name=name, ask=ask, judge=judge, levels={"easy": easy, "medium": medium, "hard": hard})


def nonzero(rng: random.Random, low: int, high: int) -> int:
    """A whole number from low to high that is not 0."""
    if not low <= 0 <= high:
        return rng.randint(low, high)
    value = rng.randint(low, high - 1)
    return value if value < 0 else value + 1


def decimal(value: Number) -> str:
    """The shortest decimal of a number that has a finite one.

    Example: ``decimal(Fraction(5, 4)) == "1.25"``
    """
    value, places = Fraction(value), 0
    while (value * 10**places).denominator > 1:
        places += 1
        assert places < 60, "no finite decimal"
    digits = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    whole = digits[: len(digits) - places] + ("." + digits[len(digits) - places :] if places else "")
    return f"-{whole}" if value < 0 else whole


def bracketed(value: Number) -> str:
    """A negative number in brackets, as it stands after an operator."""
    return f"({value})" if value < 0 else str(value)


def a_list(values: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"


def a_tuple(values: Iterable[Any]) -> str:
    return f"({', '.join(map(str, values))})"


def a_set(values: Iterable[Any]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def matrix_text(matrix: Iterable[Iterable[Number]]) -> str:
    return a_list(a_list(row) for row in matrix)


def joined_terms(terms: Iterable[tuple[Number, str]]) -> str:
    """`3*x^2 - x + 1/2` from coefficients and what they multiply ("" for nothing)."""
    text = ""
    for value, what in terms:
        if not value:
            continue
        size = abs(value)
        body = str(size) if not what else what if size == 1 else f"{size}*{what}"
        text += (" - " if value < 0 else " + ") + body if text else ("-" if value < 0 else "") + body
    return text or "0"


def polynomial_text(coefficients: Sequence[Number], symbol: str = "x") -> str:
    """From coefficients, the constant first.

    Example: ``polynomial_text([1, 0, -3]) == "-3*x^2 + 1"``
    """
    powers = [(value, power) for power, value in enumerate(coefficients)]
    named = {0: "", 1: symbol}
    return joined_terms((value, named.get(power, f"{symbol}^{power}")) for value, power in reversed(powers))


def linear_text(coefficients: Sequence[Number], symbols: Sequence[str]) -> str:
    return joined_terms(zip(coefficients, symbols, strict=True))


def surd_text(rational: Number, factor: Number, radicand: int) -> str:
    """`rational + factor*sqrt(radicand)` in lowest terms."""
    outside, inside = square_free(radicand)
    factor = factor * outside
    if inside == 1:
        return str(rational + factor)
    return joined_terms([(rational, ""), (factor, f"sqrt({inside})")])


def complex_text(real: Number, imaginary: Number) -> str:
    return joined_terms([(real, ""), (imaginary, "i")])


def multiplied(first: Sequence[Number], second: Sequence[Number]) -> list[Number]:
    """The product of two polynomials."""
    found: list[Number] = [0] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            found[i + j] += a * b
    return found


def value_at(coefficients: Sequence[Number], place: Number) -> Number:
    total: Number = 0
    for value in reversed(coefficients):
        total = total * place + value
    return total


def derived(coefficients: Sequence[Number]) -> list[Number]:
    """The derivative of a polynomial."""
    return [power * value for power, value in enumerate(coefficients)][1:] or [0]


def random_polynomial(rng: random.Random, degree: int, most: int) -> list[Number]:
    """Whole coefficients up to `most` in size, the leading one not 0."""
    return [*(rng.randint(-most, most) for _ in range(degree)), nonzero(rng, -most, most)]


Matrix = list[list[Fraction]]


def matrix_product(first: Sequence[Sequence[Number]], second: Sequence[Sequence[Number]]) -> Matrix:
    return [[sum((Fraction(a) * b for a, b in zip(row, column, strict=True)), Fraction(0))
             for column in zip(*second, strict=True)] for row in first]  # fmt: skip


def eliminated(matrix: Sequence[Sequence[Number]]) -> tuple[Matrix, list[int], Fraction]:
    """Reduced row echelon form, columns of the pivots, and the product of pivots with the sign of the exchanges."""
    rows = [[Fraction(value) for value in row] for row in matrix]
    pivots: list[int] = []
    factor = Fraction(1)
    for column in range(len(rows[0])):
        top = len(pivots)
        chosen = next((i for i in range(top, len(rows)) if rows[i][column]), None)
        if chosen is None:
            continue
        if chosen != top:
            rows[top], rows[chosen], factor = rows[chosen], rows[top], -factor
        pivot = rows[top][column]
        factor *= pivot
        rows[top] = [value / pivot for value in rows[top]]
        for i, row in enumerate(rows):
            if i != top and row[column]:
                times = row[column]
                rows[i] = [value - times * other for value, other in zip(row, rows[top], strict=True)]
        pivots.append(column)
    return rows, pivots, factor


def determinant(matrix: Sequence[Sequence[Number]]) -> Fraction:
    _, pivots, factor = eliminated(matrix)
    return factor if len(pivots) == len(matrix) else Fraction(0)


def prime_factors(number: int) -> dict[int, int]:
    """Prime -> exponent, by trial division; for numbers of this project."""
    found: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found[divisor] = found.get(divisor, 0) + 1
            number //= divisor
        divisor += 1
    if number > 1:
        found[number] = found.get(number, 0) + 1
    return found


def divisors(number: int) -> list[int]:
    found = [1]
    for prime, exponent in prime_factors(number).items():
        found = [each * prime**k for each in found for k in range(exponent + 1)]
    return sorted(found)
