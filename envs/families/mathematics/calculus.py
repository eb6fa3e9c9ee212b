"""Questions of calculus with exact numbers, and of sequences and series.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family; formulas as answers:
`formulas`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

from envs.families.mathematics import judges
from envs.families.mathematics.texts import (
    Number,
    a_tuple,
    derived,
    linear_text,
    multiplied,
    nonzero,
    polynomial_text,
    random_polynomial,
    skill,
    value_at,
)
from envs.families.mathematics.values import number, parts
from envs.skills import Question
from envs.types import Task

EXACT = "Answer with a whole number or a fraction such as 7/3."
WHOLE = "Answer with a whole number."


def ask_derivative_value(rng: random.Random, *, degree: int, most: int, quotient: bool) -> Question:
    """The slope of a product, a power or a quotient of polynomials at a point."""
    while True:
        first, second = random_polynomial(rng, degree, most), random_polynomial(rng, max(1, degree - 1), most)
        place = rng.randint(-3, 3)
        u, du = value_at(first, place), value_at(derived(first), place)
        v, dv = value_at(second, place), value_at(derived(second), place)
        kind = rng.choice(["product", "quotient", "power"] if quotient else ["product", "sum"])
        if v and (kind != "quotient" or du * v != u * dv):
            break
    one, other = f"({polynomial_text(first)})", f"({polynomial_text(second)})"
    power = rng.randint(2, 3)
    shown, value = {
        "sum": (f"{one} + {other}", Fraction(du + dv)),
        "product": (f"{one}*{other}", Fraction(du * v + u * dv)),
        "quotient": (f"{one} / {other}", Fraction(du * v - u * dv) / (v * v)),
        "power": (f"{one}^{power}*{other}", Fraction(power * u ** (power - 1) * du * v + u**power * dv)),
    }[kind]
    return Question(f"Let f(x) = {shown}. What is the derivative f'({place})? {EXACT}", str(value))


def ask_integral(rng: random.Random, *, degree: int, most: int, between: bool) -> Question:
    """A definite integral of a polynomial, or the area between two graphs that meet at known places."""
    if not between:
        poly = random_polynomial(rng, degree, most)
        low = rng.randint(-3, 2)
        high = low + rng.randint(1, 3)
        text = f"What is the integral of {polynomial_text(poly)} from x = {low} to x = {high}?"
        return Question(f"{text} {EXACT}", str(_integrated(poly, low, high)))
    places = sorted(rng.sample(range(-4, 5), degree))
    difference: list[Number] = [nonzero(rng, -2, 2)]
    for place in places:
        difference = multiplied(difference, [-place, 1])
    lower = random_polynomial(rng, degree, most)
    upper = [a + b for a, b in zip(lower, difference, strict=True)]
    area = sum((abs(_integrated(difference, a, b)) for a, b in itertools.pairwise(places)), Fraction(0))
    text = f"What is the total area of all bounded regions between the graphs of y = {polynomial_text(upper)}"
    return Question(f"{text} and y = {polynomial_text(lower)}? {EXACT}", str(area))


def _integrated(poly: Sequence[Number], low: Number, high: Number) -> Fraction:
    rising = [Fraction(0), *(Fraction(value) / (power + 1) for power, value in enumerate(poly))]
    return Fraction(value_at(rising, high) - value_at(rising, low))


def ask_limit(rng: random.Random, *, degree: int, most: int) -> Question:
    """Limits of rational functions, at a common root, at a pole, or at infinity."""
    place = rng.randint(-4, 4)
    kind = rng.choice(["root", "root", "pole", "infinity"])
    first, second = random_polynomial(rng, degree, most), random_polynomial(rng, degree, most)
    if kind == "infinity":
        lengths = rng.choice([(degree, degree), (degree, degree), (degree, degree + 1), (degree + 1, degree)])
        first, second = random_polynomial(rng, lengths[0], most), random_polynomial(rng, lengths[1], most)
        ratio = Fraction(first[-1]) / second[-1]
        value = str(ratio) if lengths[0] == lengths[1] else "0" if lengths[0] < lengths[1] else _endless(ratio)
        shown = "x tends to inf"
    else:
        second[0] += 0 if value_at(second, place) else 1
        first[0] += 0 if value_at(first, place) else 1
        u, v = Fraction(value_at(first, place)), Fraction(value_at(second, place))
        if kind == "root":
            for _ in range(rng.randint(1, 2)):
                first, second = multiplied(first, [-place, 1]), multiplied(second, [-place, 1])
            value, shown = str(u / v), f"x tends to {place}"
        else:
            side = rng.choice([-1, 1])
            second = multiplied(second, [-place, 1])
            value = _endless(u / v * side)
            shown = f"x tends to {place} from {'above' if side > 0 else 'below'}"
    text = f"What is the limit of ({polynomial_text(first)}) / ({polynomial_text(second)}) as {shown}?"
    return Question(f"{text} Answer with a whole number, a fraction such as 7/3, inf, or -inf.", value)


def _endless(sign: Fraction) -> str:
    return "inf" if sign > 0 else "-inf"


def _series(rng: random.Random, order: int) -> tuple[str, list[Number]]:
    """A function's text and its Taylor coefficients at 0 up to the order."""
    a = nonzero(rng, -3, 3)
    scaled = "x" if a == 1 else f"{linear_text([a], ['x'])}"
    kind = rng.randrange(5)
    powers: list[Number] = [Fraction(a) ** n for n in range(order + 1)]
    if kind == 0:
        return f"exp({scaled})", [powers[n] / Fraction(math.factorial(n)) for n in range(order + 1)]
    if kind == 1:
        signs = [0, 1, 0, -1]
        return f"sin({scaled})", [powers[n] * Fraction(signs[n % 4], math.factorial(n)) for n in range(order + 1)]
    if kind == 2:
        signs = [1, 0, -1, 0]
        return f"cos({scaled})", [powers[n] * Fraction(signs[n % 4], math.factorial(n)) for n in range(order + 1)]
    if kind == 3:
        return f"1/({linear_text([1, -a], ['', 'x'])})", powers
    logs: list[Number] = [0, *(Fraction((-1) ** (n + 1), n) * powers[n] for n in range(1, order + 1))]
    return f"ln({linear_text([1, a], ['', 'x'])})", logs


def ask_taylor(rng: random.Random, *, order: int, factors: int) -> Question:
    """A Taylor coefficient at 0 of a product of known series."""
    while True:
        wanted = rng.randint(2, order)
        product: list[Number] = [1]
        shown = []
        for _ in range(factors):
            text, coefficients = _series(rng, wanted)
            shown.append(text)
            product = multiplied(product, coefficients)[: wanted + 1]
        if factors > 1 or rng.random() < 0.5:
            shift = nonzero(rng, -4, 4)
            product = multiplied(product, [shift, 1])[: wanted + 1]
            shown.append(f"({linear_text([1, shift], ['x', ''])})")
        if product[wanted]:
            break
    text = f"What is the coefficient of x^{wanted} in the Taylor series of {' * '.join(shown)} at x = 0?"
    return Question(f"{text} {EXACT}", str(product[wanted]))


def ask_critical(rng: random.Random, *, places: int, most: int) -> Question:
    """All local extrema of a polynomial: where, and of which kind."""
    roots = sorted(rng.sample(range(-most, most + 1), places))
    powers = [rng.choice([1, 1, 1, 2]) for _ in roots]
    if all(power == 2 for power in powers):
        powers[0] = 1
    slope: list[Number] = [nonzero(rng, -2, 2)]
    for root, power in zip(roots, powers, strict=True):
        for _ in range(power):
            slope = multiplied(slope, [-root, 1])
    times = math.lcm(*range(1, len(slope) + 1))
    poly = [rng.randint(-9, 9), *(value * times // (power + 1) for power, value in enumerate(slope))]
    shared = math.gcd(*(int(value) for value in poly[1:]))
    poly = [poly[0], *(int(value) // shared for value in poly[1:])]
    found = []
    for root, power in zip(roots, powers, strict=True):
        if power == 1:
            rises = value_at(derived(slope), root) > 0
            found.append(f"({root}, {'min' if rises else 'max'})")
    text = f"Give all places x where f(x) = {polynomial_text(poly)} has a local minimum or maximum, with its kind."
    return Question(f"{text} Answer with pairs like (-1, max), (2, min).", ", ".join(found))


def judge_critical(answer: str, task: Task) -> float:
    """The same pairs in any order, each once."""
    found = _pairs(answer)
    return float(found is not None and found == _pairs(task.reference))


def _pairs(text: str) -> list[tuple[Fraction, str]] | None:
    outer = parts(text) or []
    if outer and not outer[0].startswith("("):
        outer = [f"({', '.join(outer)})"]
    found: list[tuple[Fraction, str]] = []
    for pair in outer:
        inner = parts(pair) or []
        place = number(inner[0]) if len(inner) == 2 else None
        kind = inner[-1].casefold().removesuffix("imum") if inner else ""
        if place is None or kind not in ("min", "max"):
            return None
        found.append((place, kind))
    return sorted(found) if len(set(found)) == len(found) else None


def ask_arithmetic_series(rng: random.Random, *, most: int, geometric: bool) -> Question:
    """Sums of arithmetic or geometric sequences, some of them endless."""
    if not geometric or rng.random() < 0.4:
        start, step, count = rng.randint(-most, most), nonzero(rng, -9, 9), rng.randint(5, 2 * most)
        value = Fraction(count * (2 * start + (count - 1) * step), 2)
        shown = f"{start}, {start + step}, {start + 2 * step}, ..."
        return Question(
            f"What is the sum of the first {count} terms of the arithmetic sequence {shown}? {EXACT}", str(value)
        )
    first, ratio = Fraction(nonzero(rng, -9, 9)), Fraction(nonzero(rng, -4, 4), rng.randint(2, 5))
    shown = f"{first}, {first * ratio}, {first * ratio**2}, ..."
    if abs(ratio) < 1 and rng.random() < 0.6:
        text = f"What is the sum of all (infinitely many) terms of the geometric sequence {shown}?"
        return Question(f"{text} {EXACT}", str(first / (1 - ratio)))
    count = rng.randint(4, 7)
    total = sum((first * ratio**n for n in range(count)), Fraction(0))
    return Question(
        f"What is the sum of the first {count} terms of the geometric sequence {shown}? {EXACT}", str(total)
    )


def ask_finite_sum(rng: random.Random, *, degree: int, most: int) -> Question:
    """A sum of a polynomial, of products, or of a telescoping quotient."""
    n = rng.randint(most // 2, most)
    if rng.random() < 0.35:
        step, last = rng.randint(1, 4), rng.randint(min(most, 20) // 2, min(most, 40))
        total = sum((Fraction(1, k * (k + step)) for k in range(1, last + 1)), Fraction(0))
        text = f"What is the sum of 1/(k*(k + {step})) for k from 1 to {last}?"
        return Question(f"{text} {EXACT}", str(total))
    poly = random_polynomial(rng, degree, 5)
    value = sum(value_at(poly, k) for k in range(1, n + 1))
    return Question(f"What is the sum of {polynomial_text(poly, 'k')} for k from 1 to {n}? {EXACT}", str(value))


def ask_recurrence(rng: random.Random, *, order: int, steps: int, modulus: int) -> Question:
    """A term of a linear recurrence; with a modulus, a far one."""
    factors = [nonzero(rng, -3, 3) for _ in range(order)]
    shift = rng.randint(-3, 3)
    start = [rng.randint(-3, 5) for _ in range(order)]
    index = rng.randint(steps // 2, steps)
    mod = rng.randint(modulus // 2, modulus) if modulus else 0
    terms = list(start)
    while len(terms) <= index:
        value = sum(k * terms[-1 - i] for i, k in enumerate(factors)) + shift
        terms.append(value % mod if mod else value)
    names = [f"a(n-{i})" for i in range(1, order + 1)]
    given = ", ".join(f"a({i}) = {value}" for i, value in enumerate(start))
    text = f"Let {given} and a(n) = {linear_text([*factors, shift], [*names, ''])} for n >= {order}."
    if mod:
        text += f" What is the remainder (from 0 to {mod - 1}) of a({index}) when divided by {mod}?"
        return Question(f"{text} {WHOLE}", str(terms[index] % mod))
    return Question(f"{text} What is a({index})? {WHOLE}", str(terms[index]))


def ask_next_term(rng: random.Random, *, degree: int, shown: int) -> Question:
    """The continuation of a sequence that a polynomial of known degree makes."""
    poly = random_polynomial(rng, rng.randint(1, degree), 4)
    start = rng.randint(-3, 3)
    terms = [value_at(poly, start + n) for n in range(shown + degree)]
    after = rng.randint(1, degree)
    text = (
        f"The terms {', '.join(map(str, terms[:shown]))} are the values of a polynomial of degree at most {degree} at"
    )
    text += f" consecutive whole numbers. What is the term {after} place{'s' * (after > 1)} after the last one shown?"
    return Question(f"{text} {WHOLE}", str(terms[shown + after - 1]))


def ask_tangent(rng: random.Random, *, degree: int, most: int) -> Question:
    """The tangent of a polynomial at a point, and where it meets the axis."""
    while True:
        poly, place = random_polynomial(rng, degree, most), rng.randint(-3, 3)
        slope, height = value_at(derived(poly), place), value_at(poly, place)
        if slope:
            break
    text = f"The tangent of y = {polynomial_text(poly)} at x = {place} is y = m*x + b; it meets the x-axis at x = r."
    gold = a_tuple([slope, height - slope * place, place - Fraction(height) / slope])
    return Question(f"{text} Answer with (m, b, r), like (2, -3, 3/2).", gold)


SKILLS = [
    skill(
        "derivative_values",
        ask_derivative_value,
        judges.judge_number,
        {"degree": 1, "most": 5, "quotient": False},
        {"degree": 2, "most": 6, "quotient": True},
        {"degree": 4, "most": 9, "quotient": True},
    ),
    skill(
        "definite_integrals",
        ask_integral,
        judges.judge_number,
        {"degree": 1, "most": 6, "between": False},
        {"degree": 3, "most": 6, "between": False},
        {"degree": 3, "most": 6, "between": True},
    ),
    skill(
        "limits",
        ask_limit,
        judges.judge_limit,
        {"degree": 1, "most": 5},
        {"degree": 2, "most": 7},
        {"degree": 3, "most": 12},
    ),
    skill(
        "taylor_coefficients",
        ask_taylor,
        judges.judge_number,
        {"order": 3, "factors": 1},
        {"order": 4, "factors": 2},
        {"order": 6, "factors": 3},
    ),
    skill(
        "extrema",
        ask_critical,
        judge_critical,
        {"places": 1, "most": 6},
        {"places": 2, "most": 6},
        {"places": 4, "most": 6},
    ),
    skill(
        "tangents",
        ask_tangent,
        judges.judge_numbers,
        {"degree": 2, "most": 4},
        {"degree": 3, "most": 6},
        {"degree": 5, "most": 9},
    ),
    skill(
        "progressions",
        ask_arithmetic_series,
        judges.judge_number,
        {"most": 9, "geometric": False},
        {"most": 40, "geometric": True},
        {"most": 500, "geometric": True},
    ),
    skill(
        "finite_sums",
        ask_finite_sum,
        judges.judge_number,
        {"degree": 1, "most": 10},
        {"degree": 2, "most": 30},
        {"degree": 3, "most": 200},
    ),
    skill(
        "recurrences",
        ask_recurrence,
        judges.judge_number,
        {"order": 1, "steps": 5, "modulus": 0},
        {"order": 2, "steps": 9, "modulus": 0},
        {"order": 3, "steps": 600, "modulus": 60},
    ),
    skill(
        "polynomial_sequences",
        ask_next_term,
        judges.judge_number,
        {"degree": 1, "shown": 4},
        {"degree": 2, "shown": 5},
        {"degree": 4, "shown": 7},
    ),
]
