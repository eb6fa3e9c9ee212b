"""Questions whose answer is a formula: derivatives, antiderivatives, solutions of equations for a letter or a function.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.  Answers are read and
compared in the sandbox only (`inside`), in plain text (`2*x*cos(x^2)`) or in LaTeX.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from envs import sandbox
from envs.families.mathematics.texts import bracketed, joined_terms, nonzero, polynomial_text
from envs.families.mathematics.trees import Tree, add, derivative, power, text_of, times
from envs.sandbox import Limits
from envs.skills import Ask, Judge, Question, Skill
from envs.types import Task

LIMITS = Limits(wall_seconds=6, cpu_seconds=2, memory_mib=1024)
INSIDE = "envs.families.mathematics.inside"
MOST_CHARACTERS = 1_500
ENDING = "Answer with a formula, like 2*x*cos(x^2) or 3*exp(-x)/sqrt(x)."


def _facts(names: Sequence[str], places: str = "mixed") -> dict[str, Any]:
    return {"names": list(names), "places": places}


def judge_formula(answer: str, task: Task) -> float:
    """Any formula that is the same function as the reference."""
    return _judged(answer, task.reference, task, "")


def judge_antiderivative(answer: str, task: Task) -> float:
    """Any function whose derivative is the given one, with or without a constant."""
    return _judged(answer, task.metadata["integrand"], task, "x")


def _judged(answer: str, gold: str, task: Task, derived_by: str) -> float:
    if not answer.strip() or len(answer) > MOST_CHARACTERS:
        return 0.0
    arguments = (gold, task.metadata["names"], task.metadata["places"], derived_by)
    return sandbox.number(f"{INSIDE}:judge", _clean(answer), *arguments, limits=LIMITS)


def _clean(answer: str) -> str:
    """Without halves of characters, which do not travel."""
    return answer.encode("utf-8", "replace").decode()


def _simple(rng: random.Random, name: str, most: int) -> Tree:
    """A power, or a function of a multiple of the variable."""
    inner = times(nonzero(rng, -most, most), name)
    return rng.choice([
        times(nonzero(rng, -most, most), power(name, rng.randint(2, 4))),
        ("sin", inner),
        ("cos", inner),
        ("exp", inner),
        ("ln", name),
        ("sqrt", name),
    ])  # fmt: skip


def _inner(rng: random.Random, name: str, most: int) -> Tree:
    """A polynomial of one variable for the inside of a function."""
    return add(times(rng.randint(1, most), power(name, rng.randint(1, 3))), rng.randint(1, most))


def _composed(rng: random.Random, name: str, most: int) -> Tree:
    inner = _inner(rng, name, most)
    return rng.choice([("sin", inner), ("cos", inner), ("exp", inner), ("ln", inner), ("sqrt", inner), ("atan", inner),
                       power(inner, rng.randint(3, 6))])  # fmt: skip


def ask_derivative(rng: random.Random, *, rules: str, most: int) -> Question:
    """The derivative by sums, then products and chains, then quotients of them."""
    if rules == "sum":
        first, second = _simple(rng, "x", most), _simple(rng, "x", most)
        tree = add(times(nonzero(rng, -most, most), first), times(rng.randint(1, most), second))
    else:
        tree = times(_simple(rng, "x", most), _composed(rng, "x", most))
    if rules == "quotient":
        tree = rng.choice([("/", tree, _inner(rng, "x", most)), times(tree, _composed(rng, "x", most))])
    text = f"What is the derivative of f(x) = {text_of(tree)} with respect to x?"
    return Question(f"{text} {ENDING}", text_of(derivative(tree, "x")), _facts("x"))


def ask_implicit(rng: random.Random, *, terms: int, most: int) -> Question:
    """The slope dy/dx of a curve given by an equation, as a formula in x and y."""
    while True:
        tree: Tree = 0
        for _ in range(terms):
            part = times(power("x", rng.randint(0, 3)), power("y", rng.randint(0, 3)))
            if terms > 2 and rng.random() < 0.3:
                part = times(rng.choice([("sin", "x"), ("exp", "y"), ("cos", "y")]), power("x", rng.randint(0, 2)))
            tree = add(tree, times(nonzero(rng, -most, most), part) if part != 1 else 0)
        along, across = derivative(tree, "x"), derivative(tree, "y")
        if along != 0 and across != 0:
            break
    text = f"A curve is given by {text_of(tree)} = {rng.randint(1, 9)}. What is dy/dx as a formula in x and y?"
    gold = text_of(times(-1, ("/", along, across)))
    return Question(f"{text} Answer with a formula, like -2*x/(3*y^2).", gold, _facts("xy"))


def ask_antiderivative(rng: random.Random, *, kinds: Sequence[str], most: int) -> Question:
    """Any antiderivative: of sums, by substitution, by parts."""
    kind = rng.choice(kinds)
    a, b, k = nonzero(rng, -most, most), rng.randint(1, most), rng.randint(1, 3)
    inner = add(times(b, power("x", rng.randint(2, 3))), rng.randint(1, most))
    if kind == "sum":
        gold = add(
            times(a, power("x", rng.randint(2, 4))),
            times(b, rng.choice([("sin", times(k, "x")), ("exp", times(k, "x"))])),
        )
    elif kind == "substitution":
        gold = times(a, rng.choice([("sin", inner), ("exp", inner), ("ln", inner), ("sqrt", inner), power(inner, 4)]))
    else:
        gold = times(
            add(times(a, power("x", rng.randint(1, 2))), b),
            rng.choice([("exp", times(k, "x")), ("sin", times(k, "x"))]),
        )
    integrand = text_of(derivative(gold, "x"))
    text = f"Give any antiderivative of f(x) = {integrand} with respect to x. A constant of integration is not needed."
    facts = {"integrand": integrand, "names": ["x", "c"], "places": "mixed"}
    return Question(f"{text} {ENDING}", text_of(gold), facts)


def ask_transcendental_integral(rng: random.Random, *, kinds: int, most: int) -> Question:
    """A definite integral whose value has ln, e or pi in it."""
    kind, a, b = rng.randrange(kinds), rng.randint(1, most), rng.randint(1, most)
    low = rng.randint(1, most)
    high = low + rng.randint(1, most)
    bounds: tuple[Any, Any] = (low, high)
    if kind == 0:
        shown, gold = f"{a}/x", f"{a}*ln({Fraction(high, low)})"
    elif kind == 1:
        shown, gold = f"{a}*exp({b}*x)", f"{Fraction(a, b)}*(exp({b * high}) - exp({b * low}))"
    elif kind == 2:
        shown, bounds = f"{a}*sin(x)^2", (0, "pi")
        shown, gold = (shown, f"{Fraction(a, 2)}*pi")
        if b % 2:
            shown, gold = f"{shown} + {b}*sin(x)", f"{gold} + {2 * b}"
    elif kind == 3:
        shown, bounds, gold = (
            f"{a}*x/(x^2 + {b})",
            (low, high),
            f"{Fraction(a, 2)}*ln({Fraction(high**2 + b, low**2 + b)})",
        )
    elif kind == 4:
        shown, bounds = f"{a}/(x^2 + {b * b})", (0, b)
        gold = f"{Fraction(a, 4 * b)}*pi"
    else:
        shown, bounds = f"{a}*x*exp(x)", (low, high)
        gold = f"{a}*({high - 1}*exp({high}) - {low - 1}*exp({low}))"
    text = f"What is the integral of {shown} from x = {bounds[0]} to x = {bounds[1]}, exactly?"
    return Question(f"{text} Answer like 3*ln(2) - pi/4 or 2*exp(3) + 1.", gold, _facts(""))


LETTERS = "abdfghkmpqruvw"
# What stands on the side of the letter asked for, and how to undo it: t is that side, o another letter or number.
STEPS: dict[str, tuple[Tree, Tree]] = {
    "add": (("+", "t", "o"), ("-", "t", "o")),
    "less": (("-", "t", "o"), ("+", "t", "o")),
    "times": (("*", "o", "t"), ("/", "t", "o")),
    "over": (("/", "t", "o"), ("*", "o", "t")),
    "under": (("/", "o", "t"), ("/", "o", "t")),
    "square": (("^", "t", 2), ("sqrt", "t")),
    "root": (("sqrt", "t"), ("^", "t", 2)),
}
UNDONE = {
    ("add", "less"),
    ("less", "add"),
    ("times", "over"),
    ("over", "times"),
    ("square", "root"),
    ("root", "square"),
}


def ask_rearrange(rng: random.Random, *, steps: int) -> Question:
    """A formula like those of physics, solved for one of its letters."""
    while True:
        letters = list(LETTERS)
        rng.shuffle(letters)
        target, result = letters.pop(), letters.pop()
        kinds: list[str] = []
        while len(kinds) < steps:
            kind = rng.choice(sorted(STEPS))
            if not kinds or (kind != kinds[-1] and (kinds[-1], kind) not in UNDONE):
                kinds.append(kind)
        others: list[Tree] = [letters.pop() if rng.random() < 0.7 else rng.randint(2, 9) for _ in kinds]
        points = [_positive_point(rng, target, kinds, others) for _ in range(4)]
        if all(points):
            break
    left: Tree = target
    for kind, other in zip(kinds, others, strict=True):
        left = _placed(STEPS[kind][0], left, other)
    gold: Tree = result
    for kind, other in zip(reversed(kinds), reversed(others), strict=True):
        gold = _placed(STEPS[kind][1], gold, other)
    text = f"Solve {result} = {text_of(left)} for {target}. All letters, and all terms below a root or a bar, are"
    text += f" positive. Answer with the formula for {target} alone, like (r - b)/(2*m)."
    facts = {"equal_to": text_of(left), "target": target, "result": result, "points": points}
    return Question(text, text_of(gold), facts)


def _placed(pattern: Tree, side: Tree, other: Tree) -> Tree:
    if isinstance(pattern, tuple):
        return (pattern[0], *(_placed(part, side, other) for part in pattern[1:]))
    return {"t": side, "o": other}.get(pattern, pattern)


def _positive_point(rng: random.Random, target: str, kinds: Sequence[str], others: Sequence[Tree]) -> dict[str, str]:
    """Values of all letters but the result, with each side of each step well above 0; {} where none is found."""
    for _ in range(60):
        values = {target: Fraction(rng.randint(1, 60), 4)}
        value = float(values[target])
        for kind, other in zip(kinds, others, strict=True):
            if isinstance(other, str):
                values[other] = Fraction(rng.randint(1, 60), 4)
            known = float(values[other] if isinstance(other, str) else other)
            value = _stepped(kind, value, known)
            if not 0.1 < value < 1e6:
                break
        else:
            return {name: str(value) for name, value in values.items()}
    return {}


def _stepped(kind: str, value: float, other: float) -> float:
    return {
        "add": value + other,
        "less": value - other,
        "times": value * other,
        "over": value / other,
        "under": other / value,
        "square": value * value,
        "root": abs(value) ** 0.5,
    }[kind]


def judge_rearranged(answer: str, task: Task) -> float:
    """Any formula that gives back the letter's value, at each of the task's points."""
    if not answer.strip() or len(answer) > MOST_CHARACTERS:
        return 0.0
    facts = task.metadata
    arguments = (facts["equal_to"], facts["target"], facts["result"], facts["points"])
    return sandbox.number(f"{INSIDE}:judge_solved", _clean(answer), *arguments, limits=LIMITS)


def ask_differential(rng: random.Random, *, order: int, most: int) -> Question:
    """The solution of a linear differential equation with initial values."""
    r, shift = nonzero(rng, -most, most), rng.randint(-most, most)
    if order == 1:
        start = rng.randint(-most, most)
        level = Fraction(-shift, r)
        equation = f"y' = {joined_terms([(r, 'y'), (shift, '')])} with y(0) = {start}"
        gold = joined_terms([(start - level, f"exp({_multiple(r)})"), (level, "")])
        same = start == level
        gold = str(level) if same else gold
    elif rng.random() < 0.6:
        s = rng.choice([v for v in range(-most, most + 1) if v and v != r])
        a, b = nonzero(rng, -4, 4), nonzero(rng, -4, 4)
        left = joined_terms([(1, "y''"), (-(r + s), "y'"), (r * s, "y")])
        equation = f"{left} = 0 with y(0) = {a + b} and y'(0) = {a * r + b * s}"
        gold = joined_terms([(a, f"exp({_multiple(r)})"), (b, f"exp({_multiple(s)})")])
    else:
        k, a, b = rng.randint(1, most), nonzero(rng, -4, 4), nonzero(rng, -4, 4)
        equation = f"y'' + {k * k}*y = 0 with y(0) = {a} and y'(0) = {b * k}"
        gold = joined_terms([(a, f"cos({_multiple(k)})"), (b, f"sin({_multiple(k)})")])
    text = f"Which function y(x) solves {equation}? Answer with the formula of y(x) alone, like 2*exp(-3*x) + 1."
    return Question(text, gold, _facts("x"))


def _multiple(factor: int) -> str:
    return polynomial_text([0, factor])


def ask_closed_form(rng: random.Random, *, order: int, most: int) -> Question:
    """A formula for the n-th term of a linear recurrence."""
    while True:
        r, s = nonzero(rng, -most, most), nonzero(rng, -most, most)
        a, b = nonzero(rng, -4, 4), nonzero(rng, -4, 4)
        if r == s or 1 in (r, s) or -1 in (r, s):
            continue
        break
    if order == 1:
        shift = b * (1 - r)
        rule = f"a(n) = {joined_terms([(r, 'a(n-1)'), (shift, '')])} for n >= 1 and a(0) = {a + b}"
        gold = joined_terms([(a, f"{bracketed(r)}^n"), (b, "")])
    else:
        rule = f"a(n) = {joined_terms([(r + s, 'a(n-1)'), (-r * s, 'a(n-2)')])} for n >= 2, a(0) = {a + b}"
        rule += f" and a(1) = {a * r + b * s}"
        gold = joined_terms([(a, f"{bracketed(r)}^n"), (b, f"{bracketed(s)}^n")])
    text = f"Let {rule}. Give a formula for a(n) in n. Answer with the formula alone, like 3*2^n - (-1)^n."
    return Question(text, gold, _facts("n", "whole"))


def _skill(name: str, ask: Ask, judge: Judge, *levels: dict[str, Any]) -> Skill:
    named = dict(zip(("easy", "medium", "hard"), levels, strict=True))
    return Skill(name=name, ask=ask, judge=judge, levels=named, needs_sandbox=True)


SKILLS = [
    _skill(
        "derivatives",
        ask_derivative,
        judge_formula,
        {"rules": "sum", "most": 4},
        {"rules": "product", "most": 5},
        {"rules": "quotient", "most": 7},
    ),
    _skill(
        "implicit_derivatives",
        ask_implicit,
        judge_formula,
        {"terms": 2, "most": 4},
        {"terms": 3, "most": 5},
        {"terms": 5, "most": 9},
    ),
    _skill(
        "antiderivatives",
        ask_antiderivative,
        judge_antiderivative,
        {"kinds": ("sum",), "most": 4},
        {"kinds": ("sum", "substitution", "parts"), "most": 6},
        {"kinds": ("substitution", "parts"), "most": 20},
    ),
    _skill(
        "transcendental_integrals",
        ask_transcendental_integral,
        judge_formula,
        {"kinds": 2, "most": 4},
        {"kinds": 5, "most": 7},
        {"kinds": 6, "most": 20},
    ),
    _skill("rearranging", ask_rearrange, judge_rearranged, {"steps": 2}, {"steps": 4}, {"steps": 7}),
    _skill(
        "differential_equations",
        ask_differential,
        judge_formula,
        {"order": 1, "most": 4},
        {"order": 2, "most": 4},
        {"order": 2, "most": 9},
    ),
    _skill(
        "closed_forms",
        ask_closed_form,
        judge_formula,
        {"order": 1, "most": 4},
        {"order": 2, "most": 4},
        {"order": 2, "most": 9},
    ),
]
