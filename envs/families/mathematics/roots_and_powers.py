"""Questions on roots, logarithms, powers, complex numbers and functions.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.
"""

from __future__ import annotations

import random
from fractions import Fraction

from envs.families.mathematics import judges
from envs.families.mathematics.texts import (
    a_set,
    complex_text,
    joined_terms,
    linear_text,
    nonzero,
    polynomial_text,
    skill,
    surd_text,
    value_at,
)
from envs.families.mathematics.values import square_free
from envs.skills import Question

FRACTION = "Answer with a whole number or a fraction such as 7/3."


def ask_radicals(rng: random.Random, *, terms: int, most: int, divide: bool) -> Question:
    """Sums, products and quotients of square roots, simplified."""
    base = rng.choice([2, 3, 5, 6, 7, 10])
    if divide:
        a, b, c, d = (nonzero(rng, -most, most) for _ in range(4))
        norm = c * c - d * d * base
        rational, factor = Fraction(a * c - b * d * base, norm), Fraction(b * c - a * d, norm)
        root = f"sqrt({base})"
        shown = f"({joined_terms([(a, ''), (b, root)])}) / ({joined_terms([(c, ''), (d, root)])})"
        gold = surd_text(rational, factor, base)
    else:
        parts = [(nonzero(rng, -most, most), rng.randint(2, most), rng.choice([base, base, 11])) for _ in range(terms)]
        shown = joined_terms((k, f"sqrt({size * size * root})") for k, size, root in parts)
        sums = {root: sum(k * size for k, size, r in parts if r == root) for root in (base, 11)}
        gold = joined_terms((value, f"sqrt({root})") for root, value in sums.items())
    ending = "Use each root once, with no square factor inside and none below a fraction bar: like 1/2 - 3*sqrt(5)."
    return Question(f"Simplify {shown}. {ending}", gold)


def ask_denest(rng: random.Random, *, most: int) -> Question:
    """The square root of a sum with a root, as a sum of roots."""
    while True:
        a, b = rng.randint(1, most), rng.randint(1, most)
        product = a * b
        inside = square_free(product)[1]
        if a != b and inside > 1:
            break
    sign = rng.choice([1, -1])
    shown = joined_terms([(a + b, ""), (2 * sign, f"sqrt({product})")])
    high, low = max(a, b), min(a, b)
    terms = [square_free(high), (sign * square_free(low)[0], square_free(low)[1])]
    gold = joined_terms((k, "") if root == 1 else (k, f"sqrt({root})") for k, root in terms)
    ending = "Answer without nested roots and with no square factor inside a root, like 3 - sqrt(2)."
    return Question(f"Write sqrt({shown}) as a sum or difference of two square roots. {ending}", gold)


def ask_logarithm(rng: random.Random, *, most: int, terms: int) -> Question:
    """Logarithms that come to a fraction, or an equation with logarithms."""
    base = rng.choice([2, 3, 5, 6, 7, 10])
    if rng.random() < 0.5:
        total, shown = Fraction(0), []
        for _ in range(terms):
            low, high, k = rng.randint(1, 3), rng.randint(1, most), nonzero(rng, -3, 3)
            total += Fraction(k * high, low)
            shown.append((k, f"log_{base**low}({base**high})"))
        text = f"Compute {joined_terms(shown)}"
        return Question(f"{text}, where log_b(y) is the logarithm of y to base b. {FRACTION}", str(total))
    power, factor, shift = rng.randint(1, most), nonzero(rng, 1, 9), rng.randint(-20, 20)
    low = rng.randint(1, 2)
    x = Fraction(base**power - shift, factor)
    text = f"Solve for x: log_{base**low}({linear_text([factor, shift], ['x', ''])}) = {Fraction(power, low)}"
    return Question(f"{text}, where log_b(y) is the logarithm of y to base b. Answer with x alone, exactly.", str(x))


def ask_exponents(rng: random.Random, *, most: int, terms: int) -> Question:
    """An exponential equation between powers of one base."""
    base = rng.choice([2, 3, 5, 6])
    while True:
        sides = []
        for _ in range(2):
            parts = [(rng.randint(1, 3), nonzero(rng, -most, most), rng.randint(-most, most)) for _ in range(terms)]
            text = " * ".join(f"{base**k}^({linear_text([a, b], ['x', ''])})" for k, a, b in parts)
            sides.append((sum(k * a for k, a, _ in parts), sum(k * b for k, _, b in parts), text))
        slope, shift = sides[0][0] - sides[1][0], sides[1][1] - sides[0][1]
        if slope and shift:
            break
    text = f"Solve for x: {sides[0][2]} = {sides[1][2]}"
    return Question(f"{text}. Answer with x alone: a whole number or a fraction.", str(Fraction(shift, slope)))


Complex = tuple[Fraction, Fraction]


def _times(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def ask_complex(rng: random.Random, *, factors: int, most: int, divide: bool) -> Question:
    """Products, powers and quotients of complex numbers."""
    value: Complex = (Fraction(1), Fraction(0))
    shown = []
    for _ in range(factors):
        part = (Fraction(nonzero(rng, -most, most)), Fraction(nonzero(rng, -most, most)))
        power = rng.choice([1, 1, 2, 3])
        for _ in range(power):
            value = _times(value, part)
        shown.append(f"({complex_text(*part)})" + (f"^{power}" if power > 1 else ""))
    text = "*".join(shown)
    if divide:
        a, b = Fraction(nonzero(rng, -most, most)), Fraction(nonzero(rng, -most, most))
        norm = a * a + b * b
        value = _times(value, (a / norm, -b / norm))
        text += f" / ({complex_text(a, b)})"
    return Question(f"Compute {text}, with i^2 = -1. Answer in the form a + b*i, like 2 - 1/3*i.", complex_text(*value))


def ask_complex_roots(rng: random.Random, *, most: int, surds: bool) -> Question:
    """All complex roots of a real quadratic, or the square roots of a complex number."""
    if rng.random() < 0.5:
        a, b = nonzero(rng, -most, most), nonzero(rng, -most, most)
        real, imaginary = a * a - b * b, 2 * a * b
        roots = [complex_text(a, b), complex_text(-a, -b)]
        text = f"Give all complex z with z^2 = {complex_text(real, imaginary)}."
    else:
        a, b = nonzero(rng, -most, most), rng.randint(1, most)
        root = rng.choice([2, 3, 5, 7]) if surds else 1
        size = f"sqrt({root})*i" if root > 1 else "i"
        roots = [joined_terms([(a, ""), (sign * b, size)]) for sign in (1, -1)]
        text = f"Give all complex z with {polynomial_text([a * a + b * b * root, -2 * a, 1], 'z')} = 0."
    return Question(
        f"{text} Answer with a set, like {{1 + 2*i, 1 - 2*i}}; keep roots exact, like sqrt(3)*i.", a_set(roots)
    )


def ask_function_value(rng: random.Random, *, depth: int, most: int) -> Question:
    """Compositions and inverses of linear and quadratic functions."""
    a, b, c, d = (
        nonzero(rng, -most, most),
        rng.randint(-most, most),
        nonzero(rng, -most, most),
        rng.randint(-most, most),
    )
    quadratic = [rng.randint(-most, most), rng.randint(-most, most), nonzero(rng, -2, 2)]
    names = [rng.choice("fgh") for _ in range(depth)]
    start = rng.randint(-most, most)
    value = Fraction(start)
    for name in reversed(names):
        value = (
            Fraction(a * value + b)
            if name == "f"
            else (value - d) / c
            if name == "g"
            else Fraction(value_at(quadratic, value))
        )
    shown = str(start)
    for name in reversed(names):
        shown = f"{name}({shown})"
    text = f"Let f(x) = {polynomial_text([b, a])}, let g be the inverse function of x -> {polynomial_text([d, c])}"
    return Question(f"{text}, and h(x) = {polynomial_text(quadratic)}. What is {shown}? {FRACTION}", str(value))


SKILLS = [
    skill(
        "radicals",
        ask_radicals,
        judges.judge_simple_surd,
        {"terms": 2, "most": 5, "divide": False},
        {"terms": 4, "most": 12, "divide": False},
        {"terms": 2, "most": 12, "divide": True},
    ),
    skill("nested_radicals", ask_denest, judges.judge_simple_surd, {"most": 12}, {"most": 30}, {"most": 120}),
    skill(
        "logarithms",
        ask_logarithm,
        judges.judge_number,
        {"most": 3, "terms": 1},
        {"most": 4, "terms": 3},
        {"most": 6, "terms": 5},
    ),
    skill(
        "exponential_equations",
        ask_exponents,
        judges.judge_number,
        {"most": 4, "terms": 1},
        {"most": 7, "terms": 2},
        {"most": 12, "terms": 3},
    ),
    skill(
        "complex_arithmetic",
        ask_complex,
        judges.judge_complex,
        {"factors": 2, "most": 4, "divide": False},
        {"factors": 2, "most": 6, "divide": True},
        {"factors": 4, "most": 9, "divide": True},
    ),
    skill(
        "complex_roots",
        ask_complex_roots,
        judges.judge_complex_set,
        {"most": 5, "surds": False},
        {"most": 12, "surds": True},
        {"most": 60, "surds": True},
    ),
    skill(
        "function_values",
        ask_function_value,
        judges.judge_number,
        {"depth": 1, "most": 5},
        {"depth": 3, "most": 6},
        {"depth": 5, "most": 9},
    ),
]
