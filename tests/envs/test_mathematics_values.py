"""Mathematics: numbers as people write them, read exactly, by hand; judges against near misses and hostile text."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from envs.families.mathematics import judges, values
from envs.types import Task

HOSTILE = (
    "",
    "9" * 6000,
    "9**9**9**9",
    "9^9^9^9",
    "$9^{9^{9^{9}}}$",
    "(" * 10_000,
    "1/0",
    "nan",
    "inf",
    "\x00",
    "\ud800",
    "[[" * 900,
)


def task(reference: str, **facts: Any) -> Task:
    return Task(id="m/a/train/0", domain="m/a", split="train", index=0, prompt=(), reference=reference, metadata=facts)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", Fraction(7)),
        ("-12", Fraction(-12)),
        ("−12", Fraction(-12)),
        ("2/4", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        (".75", Fraction(3, 4)),
        ("1,234,567", Fraction(1234567)),
        (r"\boxed{\frac{3}{4}}", Fraction(3, 4)),
        ("$-6/8$", Fraction(-3, 4)),
        ("17*23", None),
        ("1 1/2", None),
        ("1e3", None),
        ("50%", None),
        ("x = 3", None),
        ("3 or 4", None),
        ("1/0", None),
        ("12,34", None),
    ],
)
def test_one_number(text: str, value: Fraction | None) -> None:
    assert values.number(text) == value


@pytest.mark.parametrize(
    ("judge", "reference", "right", "wrong"),
    [
        (judges.judge_number, "1/3", ["2/6", r"\frac{1}{3}"], ["0.333", "0.3333333333333333", "1/3 m", "1/3, 2/3"]),
        (judges.judge_number, "1/2", ["0.5", "0.50", "+1/2"], ["50%", ".49999", "1/2 = 0.5"]),
        (judges.judge_numbers, "(1, 2)", ["1, 2", "[1, 2]", "(2/2, 2.0)"], ["(2, 1)", "1 2 3", "(1, 2, 2)"]),
        (judges.judge_number_set, "{1, 3}", ["3, 1", "{3, 1}"], ["1, 3, 3", "1", "1, 2, 3"]),
        (judges.judge_surd, "1 + sqrt(3)", ["(2 + sqrt(12))/2", "sqrt(3)+1"], ["1 - sqrt(3)", "2.7320508", "sqrt(4)"]),
        (judges.judge_simple_surd, "2*sqrt(3)", ["2sqrt(3)"], ["sqrt(12)", "3.4641"]),
        (judges.judge_polynomial, "x^2 - 1", ["-1 + x^2", "x**2-1"], ["x^2 + 1", "y^2 - 1", "(x-1)(x+1)"]),
        (judges.judge_intervals, "(1, 2]", ["(1,2]"], ["[1, 2]", "(1, 2)", "(1, 3]"]),
        (judges.judge_limit, "inf", ["infinity", "+inf", r"\infty"], ["-inf", "1000000000", "none"]),
    ],
)
def test_judges(judge: Callable[[str, Task], float], reference: str, right: list[str], wrong: list[str]) -> None:
    assert judge(reference, task(reference)) == 1.0
    assert {text: judge(text, task(reference)) for text in right} == dict.fromkeys(right, 1.0)
    bad = [*wrong, *HOSTILE] if reference != "inf" else [*wrong, *(text for text in HOSTILE if text != "inf")]
    assert {text: judge(text, task(reference)) for text in bad} == dict.fromkeys(bad, 0.0)


def test_a_quantity_carries_its_unit() -> None:
    asked = task("5 km", units=["km", "kilometres"])
    assert judges.judge_quantity("5 km", asked) == judges.judge_quantity("5.0 kilometres", asked) == 1.0
    assert judges.judge_quantity("5", asked) == judges.judge_quantity("5 m", asked) == 0.0
    assert judges.judge_quantity("5000 m", asked) == 0.0
