"""Judges that read an answer as an exact value and compare it with the reference, read in the same way.

In: an answer and its task.  Out: 1.0 or 0.0.  Called by the skills of this family; spellings: `values`.

A witness (any number with a property) has a judge beside its question; none of them looks at the reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from envs.families.mathematics import values
from envs.families.mathematics.intervals import intervals
from envs.types import Task


def _same(read: Callable[[str], Any], answer: str, task: Task) -> float:
    found = read(answer)
    return float(found is not None and found == read(task.reference))


def judge_number(answer: str, task: Task) -> float:
    """One rational number; a third is 1/3 and not 0.333."""
    return _same(values.number, answer, task)


def judge_numbers(answer: str, task: Task) -> float:
    """Rational numbers in this order; brackets of any kind, or none."""
    return _same(values.numbers, answer, task)


def judge_number_set(answer: str, task: Task) -> float:
    """Rational numbers in any order, each once."""
    return _same(_number_set, answer, task)


def _number_set(text: str) -> list[Fraction] | None:
    found = values.numbers(text)
    return None if found is None or len(set(found)) < len(found) else sorted(found)


def judge_matrix(answer: str, task: Task) -> float:
    """Rows of rational numbers, in order."""
    return _same(values.rows, answer, task)


def judge_point_set(answer: str, task: Task) -> float:
    """Tuples of rational numbers in any order, each once."""
    return _same(_point_set, answer, task)


def _point_set(text: str) -> list[list[Fraction]] | None:
    found = values.rows(text)
    return None if found is None or len({tuple(row) for row in found}) < len(found) else sorted(found)


def judge_surd(answer: str, task: Task) -> float:
    """One number with square roots, however its terms are written: `(2 + sqrt(12))/2` is `1 + sqrt(3)`."""
    return _same(values.sum_of, answer, task)


def judge_simple_surd(answer: str, task: Task) -> float:
    """One number with square roots, each root once and without square factors."""
    return _same(_simple_surd, answer, task)


def _simple_surd(text: str) -> values.Sum | None:
    return values.sum_of(text, tidy=True)


def judge_surd_set(answer: str, task: Task) -> float:
    """Numbers with square roots in any order, each once."""
    return _same(_surd_set, answer, task)


def judge_complex_set(answer: str, task: Task) -> float:
    """Complex numbers in any order, each once."""
    return _same(_complex_set, answer, task)


def _surd_set(text: str) -> list[Any] | None:
    return _once(text, values.sum_of)


def _complex_set(text: str) -> list[Any] | None:
    return _once(text, values.complex_number)


def _once(text: str, read: Callable[[str], values.Sum | None]) -> list[Any] | None:
    elements = values.parts(text)
    found = [read(element) for element in elements or []]
    known = sorted(sorted(each.items()) for each in found if each is not None)
    is_good = elements is not None and len(known) == len(found)
    return known if is_good and all(a != b for a, b in itertools.pairwise(known)) else None


def judge_complex(answer: str, task: Task) -> float:
    """One complex number in the form a + b*i."""
    return _same(values.complex_number, answer, task)


def judge_polynomial(answer: str, task: Task) -> float:
    """One polynomial in x as a sum of terms, each power once, in any order."""
    return _same(values.polynomial, answer, task)


def judge_polynomials(answer: str, task: Task) -> float:
    """Several polynomials in this order."""
    return _same(_polynomials, answer, task)


def _polynomials(text: str) -> list[list[Fraction]] | None:
    elements = values.parts(text)
    found = [values.polynomial(element) for element in elements or []]
    known = [each for each in found if each is not None]
    return known if elements is not None and len(known) == len(found) else None


def judge_intervals(answer: str, task: Task) -> float:
    """The same set of numbers, as a union of intervals; open and closed ends count."""
    return _same(intervals, answer, task)


def judge_quantity(answer: str, task: Task) -> float:
    """A number with its unit, in one of the spellings that the task lists; without one it is no answer."""
    found = values.quantity(answer, task.metadata["units"])
    return float(found is not None and found == values.quantity(task.reference, task.metadata["units"]))


def judge_limit(answer: str, task: Task) -> float:
    """A rational number, or inf, or -inf."""
    return _same(_limit, answer, task)


def _limit(text: str) -> Fraction | str | None:
    text = values.plain(text)
    endless = {"inf": "inf", "+inf": "inf", "-inf": "-inf", "infinity": "inf", "-infinity": "-inf"}
    return endless.get(text) or values.number(text)
