"""Mathematics: what the readers of values take and refuse, judges by hand, witnesses, and golds by other means."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

from envs.check import HOSTILE_ANSWERS
from envs.domain import rng_for
from envs.families.mathematics import SKILLS, domains, trees, values
from envs.families.mathematics.intervals import intervals
from envs.sandbox import SandboxFailed, SandboxTimeout
from envs.types import Message, Task

BY_NAME = {skill.name: skill for skill in SKILLS}
HALF = Fraction(1, 2)


def judged(name: str, answer: str, reference: str, facts: Mapping[str, Any] | None = None) -> float:
    task = Task(
        id="x", domain="x", split="train", index=0, prompt=(Message.of("user", ""),), reference=reference,
        metadata=facts or {},
    )  # fmt: skip
    return BY_NAME[name].judge(answer, task)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("+7", 7), ("-0", 0), ("007", 7), ("1,234,567", 1234567), ("1,234.5", Fraction(2469, 2)),
        ("3/4", Fraction(3, 4)), ("-6/8", Fraction(-3, 4)), ("3 / 4", Fraction(3, 4)), ("0.50", HALF), (".5", HALF),
        ("−5", -5), (r"$\frac{1}{2}$", HALF), (r"\boxed{-\dfrac{1}{2}}", -HALF), ("$7$", 7),
        ("0.333", Fraction(333, 1000)),
        ("12,34", None), ("1e3", None), ("3.", None), ("1 1/2", None), (r"1\frac{1}{2}", None), ("1/0", None),
        ("17*23", None), ("2+3", None), ("2^10", None), ("x = 3", None), ("50%", None), ("3 km", None), ("3, 4", None),
        ("3 or 4", None), ("1/2 = 0.5", None), ("3 is the answer", None), ("inf", None), ("nan", None), ("٣", None),
        (r"\frac{1}{2}3", None), (r"x^\frac{1}{2}", None), ("9" * 400, None), ("--1", None), ("", None),
        ("1/2/3", None), (r"\boxed{1}\boxed{2}", None), ("1_000", None),
    ],
)  # fmt: skip
def test_numbers(text: str, value: Fraction | None) -> None:
    assert values.number(text) == value


def test_sums_of_roots() -> None:
    golden = {(0, 1): HALF, (0, 5): HALF}
    for text in ("(1+sqrt(5))/2", "1/2 + 1/2*sqrt(5)", "sqrt(5)/2 + 0.5", r"\frac{1+\sqrt{5}}{2}", "(1 + sqrt5)/2"):
        assert values.sum_of(text) == golden, text
    assert values.sum_of("sqrt(12)") == values.sum_of("2sqrt(3)") == values.sum_of("6/sqrt(3)")
    assert values.sum_of("0") == {} == values.sum_of("sqrt(2) - sqrt(2)")
    for text in (
        "1.618",
        "sqrt(-1)",
        "sqrt(sqrt(4))",
        "(1+sqrt(2))*(1-sqrt(2))",
        "1/2sqrt(3)",
        "1+",
        "x",
        "2^2",
        "((1))",
    ):
        assert values.sum_of(text) != golden and (text == "1.618" or values.sum_of(text) is None), text
    assert values.sum_of("sqrt(8)", tidy=True) is None and values.sum_of("sqrt(2)+sqrt(2)", tidy=True) is None
    assert values.complex_number("3 - i") == values.complex_number("-1*i + 3") == {(0, 1): 3, (1, 1): -1}
    assert values.complex_number("i^2") is None


def test_polynomials() -> None:
    for text in ("x^2 - 3x + 1/2", "1/2-3*x+x**2", "0.5 + x^2 - 3 x", r"x^2-3x+\frac{1}{2}"):
        assert values.polynomial(text) == [HALF, -3, 1], text
    for text in ("(x-1)*(x-2)", "2*(x+1)", "x+x", "x^99", "1/2x", "x^-1", "y", "x^2 = 1", "x^x"):
        assert values.polynomial(text) is None, text


def test_lists_and_tuples() -> None:
    assert values.numbers("(1, 1/2)") == values.numbers("[1,0.5]") == values.numbers("1, 1/2") == [1, HALF]
    assert values.numbers("{}") == [] and values.numbers("") is None and values.numbers("1,,2") is None
    assert values.numbers("(1, 2") is None and values.numbers("1 2") is None and values.numbers("[1, [2]]") is None
    assert values.rows("[[1, 2], [3, 4]]") == values.rows("(1,2),(3,4)") == [[1, 2], [3, 4]]
    assert values.rows("(1, 2)") == [[1, 2]] and values.integers("1/2, 3") is None


def test_intervals() -> None:
    assert intervals("[1, 2)") == [(1, 2, True, False)] != intervals("[1, 2]")
    same = [
        "(-inf, 2] U (5, inf)",
        "(5,inf) U (-inf,2]",
        r"(-\infty, 2] \cup (5, \infty)",
        "(-inf,0] U [0,2] U (5,inf)",
    ]
    assert all(intervals(text) == intervals(same[0]) is not None for text in same)
    assert intervals("(0,1) U (1,2)") != intervals("(0,2)") and intervals("(0,1) U {1} U (1,2)") == intervals("(0,2)")
    assert intervals("{}") == [] and intervals("{3}") == intervals("[3, 3]")
    for text in ("[-inf, 2)", "(1, 1)", "(2, 1)", "x > 2", "(1; 2)", "(1, 2", "(1,2) U", "(inf, 2)", ""):
        assert intervals(text) is None, text


# skill -> (reference, facts, right answers, wrong answers)
KNOWN: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    "fractions": (
        "1/3",
        {},
        ["1/3", "2/6", r"$\frac{1}{3}$"],
        ["0.333", "0.3333333333333333", "33%", "1/3, 2/3", "1:3"],
    ),
    "percent_changes": (
        "12.5%",
        {"units": ["%", "percent"]},
        ["12.5%", "12.5 %", "25/2 percent", r"$12.5\%$"],
        ["12.5", "0.125", "12.5 euros", "+-12.5%", "12.5%, 13%"],
    ),
    "motion": (
        "90 min",
        {"units": ["min", "minutes"]},
        ["90 min", "90minutes", "90.0 min", "180/2 min"],
        ["90", "1.5 h", "90 s", "90 min or so", "min 90"],
    ),
    "congruences": ("{1, 4}", {}, ["{4, 1}", "1, 4", "[1, 4]"], ["{1}", "{1, 4, 4}", "{1, 4, 7}", "1 and 4", "5"]),
    "linear_systems": ("(1, 2)", {}, ["(1, 2)", "[1, 4/2]", "1, 2"], ["(2, 1)", "{1}", "x=1, y=2", "(1, 2, 0)"]),
    "quadratic_equations": (
        "{1 - sqrt(3), 1 + sqrt(3)}",
        {},
        ["{1+sqrt(3), 1-sqrt(3)}", "(2+sqrt(12))/2, (2-sqrt(12))/2"],
        ["{2.732, -0.732}", "1+sqrt(3)", "{1+sqrt(3), 1-sqrt(3), 1+sqrt(3)}", "1 +- sqrt(3)"],
    ),
    "radicals": (
        "5*sqrt(3)",
        {},
        ["5*sqrt(3)", r"5\sqrt{3}", "5 sqrt(3)"],
        ["sqrt(75)", "2*sqrt(3) + 3*sqrt(3)", "8.66"],
    ),
    "inequalities": ("[0, 1)", {}, ["[0, 1)", "[0,1/2] U (1/3,1)"], ["(0, 1)", "[0, 1]", "0 <= x < 1", "[0, 1) U {5}"]),
    "expansion": ("x^2 - 1", {}, ["-1 + x^2", "x*x - 1"], ["(x-1)*(x+1)", "x^2", "x^2 - 1 = 0"]),
    "polynomial_division": ("(x + 1, -2)", {}, ["[1 + x, -2]", "x + 1, -2"], ["(-2, x + 1)", "x + 1", "x + 1 - 2"]),
    "factoring": (
        "(x - 1)*(x - 1)*(x + 2)",
        {"polynomial": "x^3 - 3*x + 2", "degrees": [1, 1, 1]},
        ["(x-1)^2*(x+2)", "(x + 2)(x - 1)(x - 1)", "-(1-x)*(x-1)*(2+x)"],
        [
            "x^3 - 3*x + 2",
            "(x^3-3*x+2)",
            "(x-1)*(x^2+x-2)",
            "(x-1)*(x+2)",
            "(2*x-2)*(1/2*x-1/2)*(x+2)",
            "(x-1)^9*(x+2)",
            "(",
        ],
    ),
    "factorisation": ("2^3 * 5", {}, ["5*2^3", "2*2*2*5", r"2^{3}\cdot5"], ["40", "2^3", "8*5", "2^3*5*1", "2^999*5"]),
    "bases": ("1af", {}, ["1AF", "1af"], ["01af", "0x1af", "431", "1af (base 16)"]),
    "repeating_decimals": ("0.1(6)", {}, ["0.1(6)", "0.16(66)"], ["0.1666", "1/6", "0.(16)", "0.17"]),
    "scientific_notation": (
        "2.5*10^-3",
        {},
        ["2.5 * 10^-3", "2.50*10^(-3)", r"2.5\times10^{-3}"],
        ["25*10^-4", "0.0025", "2.5e-3", "2.5*10^3"],
    ),
    "significant_digits": ("1.50", {}, ["1.50"], ["1.5", "1.500", "3/2"]),
    "complex_arithmetic": ("2 - 1/3*i", {}, ["2 - i/3", "2 - 1/3*i"], ["2 + 1/3*i", "2", "2 - 0.333*i"]),
    "complex_roots": ("{1 + 2*i, 1 - 2*i}", {}, ["1-2i, 1+2i"], ["{1 + 2*i}", "1 +- 2i"]),
    "inverse_matrices": (
        "[[1, 0], [1/2, 1]]",
        {},
        ["[[1,0],[0.5,1]]", "(1, 0), (1/2, 1)"],
        ["[[1, 1/2], [0, 1]]", "1, 0, 1/2, 1"],
    ),
    "limits": ("-inf", {}, ["-inf", r"$-\infty$", "-infinity"], ["inf", "0", "undefined"]),
    "extrema": (
        "(-1, max), (2, min)",
        {},
        ["(2, min), (-1, maximum)", "[(2,min),(-1,max)]"],
        ["(-1, min), (2, max)", "(2, min)", "2, -1", "(2, min), (2, min), (-1, max)"],
    ),
    "date_shift": (
        "2024-02-05",
        {},
        ["2024-02-05", "2024-2-5"],
        ["05.02.2024", "2024-05-02", "2024/02/05", "Feb 5 2024"],
    ),
    "calendar": ("45 Friday", {}, ["45 friday", "45  Friday"], ["45", "Friday 45", "45 Fri"]),
    "clocks": ("07:45", {}, ["7:45", "07:45"], ["7.45", "19:45", "07:45 pm"]),
    # witnesses: the reference is never looked at
    "bezout": (
        "-",
        {"a": 6, "b": 10, "c": 4, "low": 0, "high": 12},
        ["(4, -2)", "9, -5"],
        ["(-1, 1)", "(14, -8)", "(4, 2)", "(2/3, 0)", "4"],
    ),
    "number_with_divisors": (
        "-",
        {"low": 10, "high": 40, "count": 6, "divisor": 4},
        ["12", "20", "28"],
        ["18", "44", "4", "16", "12, 20"],
    ),
    "sum_of_squares": ("-", {"count": 2, "total": 65}, ["[1, 8]", "7, 4"], ["[8]", "[-1, 8]", "[5, 5]", "[1, 8, 0]"]),
    "prime_in_class": ("-", {"low": 10, "high": 40, "rest": 3, "mod": 10}, ["13", "23"], ["33", "43", "3", "11"]),
    "unit_fractions": (
        "-",
        {"total": "1/2", "count": 2, "most": 20},
        ["[3, 6]", "6, 3"],
        ["[4, 4]", "[2]", "[3, 6, 0]", "1/3, 1/6"],
    ),
    "data_with_statistics": (
        "-",
        {"count": 4, "mean": "4", "median": "9/2", "range": 5, "mode": 6},
        ["[1, 3, 6, 6]", "6, 6, 3, 1"],
        ["[1, 3, 6]", "[2, 2, 6, 6]", "[1, 4, 5, 6]"],
    ),
    "polynomial_through_points": (
        "-",
        {"places": [0, 1], "values": [1, 3], "degree": 2},
        ["x^2 + x + 1", "1 + 2*x^2"],
        ["2*x + 1", "x^3 + x + 1", "x^2 + 1"],
    ),
    "triangle_of_area": (
        "-",
        {"double": 6, "most": 9, "fixed": [0, 0], "right": True},
        ["(0,0), (3,0), (0,2)", "(1,1), (0,0), (-3,3)"],
        ["(0,0), (3,0), (1,2)", "(1,0), (4,0), (1,2)", "(0,0), (30,0), (0,2)", "(0,0), (3,0)", "(0,0), (1.5,0), (0,4)"],
    ),
    "sum_and_product": (
        "-",
        {"count": 3, "sum": 2, "product": -8},
        ["[2, 2, -2]", "-2, 2, 2"],
        ["[1, 1, 0]", "[-8, 1]", "2"],
    ),
    "fraction_between": (
        "-",
        {"low": "1/3", "high": "1/2", "most": 5},
        ["2/5", "0.4"],
        ["1/2", "1/3", "3/7", "5/11", "0.41"],
    ),
    "null_vectors": (
        "-",
        {"matrix": [[1, 2], [2, 4]]},
        ["(2, -1)", "[-4, 2]"],
        ["(0, 0)", "(1, 1)", "(2, -1, 0)", "(1/2, -1/4)"],
    ),
}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_judges_by_hand(name: str) -> None:
    reference, facts, right, wrong = KNOWN[name]
    for answer in right:
        assert judged(name, answer, reference, facts) == 1.0, answer
    for answer in [*wrong, "", "nan", "?", "[]]", "the answer"]:
        assert judged(name, answer, reference, facts) == 0.0, answer


FORMULA = {"names": ["x", "c"], "places": "mixed"}
FORMULAS: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    "derivatives": (
        "2*x*cos(x^2)",
        FORMULA,
        [
            "2x cos(x^2)",
            "cos(x**2)*2*x",
            r"$2x\cos(x^2)$",
            r"\boxed{2x \cos\left(x^{2}\right)}",
            r"\frac{4x}{2}\cos x^2",
        ],
        [
            "2*x*sin(x^2)",
            "2*x*cos(x^2) + 0.000001",
            "2*x*cos(x^2) = f'(x)",
            "2*y*cos(y^2)",
            r"\frac{d}{dx}\sin(x^2)",
            r"\frac{\mathrm{d}}{\mathrm{d}x}\sin(x^2)",
            r"\frac{d\sin(x^2)}{dx}",
            "(sin(x^2))'",
            r"\left(\sin(x^2)\right)'",
            "2*x*cos(x^2), 0",
            "the derivative is 2*x*cos(x^2)",
            "9^9^9^9",
            "__import__('os')",
            r"\int x",
            "(" * 300,
        ],
    ),
    "antiderivatives": (
        "-",
        {**FORMULA, "integrand": "1/x"},
        ["ln|x| + C", "ln(x)", r"\ln|x| + C", "ln(5*x)", r"\ln(3x)", r"\log x", "log(x)"],
        ["1/x", r"\int \frac{1}{x}", "ln(x^2)", "x*ln(x)", "ln(y)", "C", r"\int_1^x \frac{1}{t} dt"],
    ),
    "transcendental_integrals": (
        "1/2*pi + ln(2)",
        {"names": [], "places": "mixed"},
        ["pi/2+ln(2)", r"\frac{\pi}{2}+\ln 2", "ln(4)/2 + 0.5*pi"],
        ["2.2639", "pi/2", "2.26394350735484"],
    ),
    "closed_forms": (
        "2*(-3)^n + 3",
        {"names": ["n"], "places": "whole"},
        ["3 + 2*(-3)^n", r"2(-3)^n+3", r"2\cdot(-3)^{n}+3"],
        ["2*3^n + 3", "-2*3^n + 3", "a(n-1)", "2*-3^n + 3"],
    ),
    "rearranging": (
        "-",
        {
            "equal_to": "(a + b)/2",
            "target": "a",
            "result": "q",
            "points": [{"a": "3", "b": "5"}, {"a": "7/2", "b": "1"}],
        },
        ["2*q - b", r"2q - b", "2*(q - b/2)"],
        ["q - b", "a", "3", "q = (a+b)/2"],
    ),
}


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_formulas_by_hand(name: str) -> None:
    reference, facts, right, wrong = FORMULAS[name]
    for answer in right:
        assert judged(name, answer, reference, facts) == 1.0, answer
    for answer in ["", "?", "0", *wrong]:
        assert judged(name, answer, reference, facts) == 0.0, answer


def test_formulas_are_judged_in_threads_and_what_hangs_is_killed() -> None:
    facts = {"names": [], "places": "mixed"}
    answers = [r"$9^{9^{9^{9}}}$", *[r"\boxed{\frac{1}{3}}", "9^9^9^9", r"\frac13", "0.333333333333"] * 2]
    with ThreadPoolExecutor(4) as pool:
        scores = list(pool.map(lambda answer: _score_of(answer, "1/3", facts), answers))
    assert scores == [None, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


def _score_of(answer: str, reference: str, facts: Mapping[str, Any]) -> float | None:
    """None where the sandbox ended the job: `envs.skills` makes it 0."""
    try:
        return judged("transcendental_integrals", answer, reference, facts)
    except (SandboxTimeout, SandboxFailed):
        return None


def test_formulas_as_text() -> None:
    assert trees.read("2x") == trees.read("2*x") == ("*", Fraction(2), "x")
    assert trees.read("-x^2") == ("*", -1, ("^", "x", Fraction(2))) and trees.read("xsin(x)") == trees.read("x*sin(x)")
    assert trees.read("2^3^x") == ("^", Fraction(2), ("^", Fraction(3), "x"))
    for text in ("1/2x", "sin", "sin x", "x)", "(x", "x..y", "x;y", "", "+", "x^", "f(x", "x y = 3", "é", "2 3"):
        assert trees.read(text) is None, text
    for depth in ("(" * 600, "(" * 200 + "x" + ")" * 200, "-" * 900, "x^" * 200 + "x", "sin(" * 100, "|" * 300):
        assert trees.read(depth) is None
    for skill in ("derivatives", "implicit_derivatives", "rearranging"):
        for index in range(40):
            question = BY_NAME[skill].ask(rng_for("t", index), **BY_NAME[skill].levels["hard"])
            assert trees.read(question.answer) is not None, question.answer


def test_no_answer_makes_a_judge_raise_or_wait() -> None:
    hostile = [
        *HOSTILE_ANSWERS.values(), "9" * 2000, "1," * 900, "(" * 2000, "[" * 999 + "]" * 999, "sqrt(" * 300, "x^" * 900,
        "1+" * 900 + "1", r"\frac{" * 300, "{1}" * 300, "[0,1] U " * 240, "-" * 1999, "1/" * 900, "sqrt(999983)*" * 100,
        "Infinity", "1e999", "0x10", "1/0", "(1, max)" * 200, "2^99999999", "(x-1)^9" * 200, "∞", "\ud800",
    ]  # fmt: skip
    for domain in domains():
        if domain.needs_sandbox or not domain.name.endswith("-easy"):
            continue
        task, skill = domain.task(0), BY_NAME[domain.name.split("/")[1].removesuffix("-easy")]
        start = time.perf_counter()
        for answer in hostile:
            assert skill.judge(answer, task) == 0.0 or answer == task.reference, (domain.name, answer[:40])
        assert time.perf_counter() - start < 1.0, domain.name
