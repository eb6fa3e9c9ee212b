"""Questions of algebra: equations, polynomials, inequalities, roots, logarithms, complex numbers.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.
"""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction

from envs.families.mathematics import judges
from envs.families.mathematics.texts import (
    Number,
    a_set,
    a_tuple,
    determinant,
    joined_terms,
    linear_text,
    multiplied,
    nonzero,
    polynomial_text,
    random_polynomial,
    skill,
    surd_text,
    value_at,
)
from envs.families.mathematics.values import plain, polynomial
from envs.skills import Question
from envs.types import Task

FRACTION = "Answer with a whole number or a fraction such as 7/3."
TERMS = "Answer with a sum of terms, like 3*x^2 - x + 1."


def ask_linear(rng: random.Random, *, brackets: int, most: int) -> Question:
    """A linear equation with brackets on both sides."""
    while True:
        sides = []
        for _ in range(2):
            terms = [(nonzero(rng, -most, most), nonzero(rng, -most, most), rng.randint(-most, most))
                     for _ in range(brackets)]  # fmt: skip
            slope = sum(a * b for a, b, _ in terms)
            shift = sum(a * c for a, _, c in terms)
            text = joined_terms((a, f"({linear_text([b, c], ['x', ''])})") for a, b, c in terms)
            sides.append((slope, shift, text))
        slope, shift = sides[0][0] - sides[1][0], sides[1][1] - sides[0][1]
        if slope and shift:
            break
    text = f"Solve for x: {sides[0][2]} = {sides[1][2]}"
    return Question(
        f"{text}. Answer with the value of x alone: a whole number or a fraction.", str(Fraction(shift, slope))
    )


def ask_system(rng: random.Random, *, size: int, most: int) -> Question:
    """A system of linear equations with one solution."""
    names = list("xyzuv")[:size]
    while True:
        matrix = [[rng.randint(-most, most) for _ in range(size)] for _ in range(size)]
        if determinant(matrix):
            break
    gold = [Fraction(nonzero(rng, -most, most), rng.choice([1, 1, 1, 2, 3])) for _ in range(size)]
    lines = []
    for row in matrix:
        right = sum((a * b for a, b in zip(row, gold, strict=True)), Fraction(0))
        times = right.denominator
        lines.append(f"{linear_text([a * times for a in row], names)} = {right * times}")
    listed = "\n".join(lines)
    return Question(f"Solve this system:\n{listed}\nAnswer with {a_tuple(names)}, like (1, -2/3).", a_tuple(gold))


def ask_quadratic(rng: random.Random, *, most: int, surds: bool) -> Question:
    """The real roots of a quadratic equation, exactly."""
    while True:
        a, b, c = nonzero(rng, 1, most), rng.randint(-2 * most, 2 * most), rng.randint(-2 * most, 2 * most)
        inside = b * b - 4 * a * c
        if inside <= 0:
            continue
        is_square = math.isqrt(inside) ** 2 == inside
        if is_square != surds or rng.random() < 0.1:
            break
    roots = [surd_text(Fraction(-b, 2 * a), Fraction(sign, 2 * a), inside) for sign in (-1, 1)]
    text = f"Give all real solutions of {polynomial_text([c, b, a])} = 0 exactly."
    return Question(f"{text} Answer with a set, like {{1/2, 3}} or {{1 - sqrt(5), 1 + sqrt(5)}}.", a_set(roots))


def ask_expand(rng: random.Random, *, factors: int, degree: int, most: int) -> Question:
    """A product of polynomials, expanded."""
    parts = [random_polynomial(rng, rng.randint(1, degree), most) for _ in range(factors)]
    for part in parts:
        part[0] = part[0] or 1
    product: list[Number] = [1]
    for part in parts:
        product = multiplied(product, part)
    text = "*".join(f"({polynomial_text(part)})" for part in parts)
    return Question(f"Expand {text}. {TERMS}", polynomial_text(product))


def ask_division(rng: random.Random, *, degree: int, most: int) -> Question:
    """Polynomial division with remainder."""
    divisor = [*random_polynomial(rng, rng.randint(1, degree), most)[:-1], 1]
    divisor[0] = divisor[0] or 1
    quotient = random_polynomial(rng, degree, most)
    rest = random_polynomial(rng, len(divisor) - 2, most)
    product = multiplied(divisor, quotient)
    dividend = [a + (rest[i] if i < len(rest) else 0) for i, a in enumerate(product)]
    text = f"Divide {polynomial_text(dividend)} by {polynomial_text(divisor)} with remainder."
    gold = a_tuple([polynomial_text(quotient), polynomial_text(rest)])
    return Question(f"{text} Answer with (quotient, remainder), like (x - 3, 2*x + 1).", gold)


def ask_factor(rng: random.Random, *, factors: int, most: int, quadratic: bool) -> Question:
    """A polynomial as a product of irreducible polynomials with whole coefficients."""
    parts: list[list[Number]] = []
    while len(parts) < factors:
        a, b = rng.randint(1, 1 + most // 4), nonzero(rng, -most, most)
        if math.gcd(a, b) == 1:
            parts.append([b, a])
    while quadratic:
        c, b = nonzero(rng, -most, most), rng.randint(-most, most)
        inside = b * b - 4 * c
        if inside < 0 or math.isqrt(inside) ** 2 != inside:
            parts.append([c, b, 1])
            break
    product: list[Number] = [1]
    for part in parts:
        product = multiplied(product, part)
    shown = polynomial_text(product)
    gold = "*".join(f"({polynomial_text(part)})" for part in parts)
    text = f"Factor {shown} into polynomials with whole coefficients that cannot be factored further."
    degrees = sorted(len(part) - 1 for part in parts)
    return Question(f"{text} Answer like (x - 1)^2*(2*x + 3).", gold, {"polynomial": shown, "degrees": degrees})


_FACTOR = re.compile(r"\(([^()]{1,100})\)(?: ?\^ ?\{?([0-9])\}?)? ?\*? ?")


def judge_factored(answer: str, task: Task) -> float:
    """Brackets with or without powers and stars; their product and their degrees must be right."""
    text, parts = plain(answer), []
    sign: Number = 1
    if text.startswith("-"):
        sign, text = -1, text[1:].strip()
    place = 0
    while place < len(text):
        match = _FACTOR.match(text, place)
        part = polynomial(match.group(1)) if match else None
        if match is None or not part or len(part) < 2 or any(value.denominator > 1 for value in part):
            return 0.0
        parts += [part] * int(match.group(2) or 1)
        place = match.end()
        if len(parts) > 12:
            return 0.0
    product: list[Number] = [sign]
    for part in parts:
        product = multiplied(product, part)
    if text.endswith("*") or sorted(len(part) - 1 for part in parts) != task.metadata["degrees"]:
        return 0.0
    return float(product == polynomial(task.metadata["polynomial"]))


def ask_inequality(rng: random.Random, *, roots: int, most: int, fractions: bool) -> Question:
    """A polynomial or rational inequality; the solutions as intervals."""
    places = sorted(rng.sample(range(-most, most + 1), roots))
    powers = [rng.choice([1, 1, 1, 2]) for _ in places]
    poles = {place for place in places if fractions and rng.random() < 0.4}
    sign, relation = rng.choice([1, -1]), rng.choice(["<", "<=", ">", ">="])
    over = [_bracket(p, k) for p, k in zip(places, powers, strict=True) if p not in poles]
    under = [_bracket(p, k) for p, k in zip(places, powers, strict=True) if p in poles]
    text = "*".join(over) or "1"
    if under:
        text = f"{text} / ({'*'.join(under)})"
    text = f"{'-' if sign < 0 else ''}{text} {relation} 0"
    gold = _solution(places, powers, poles, sign, relation)
    ending = "Answer with a union of intervals, like (-inf, 2] U (5, 7), with {3} for a single point and {} for none."
    return Question(f"For which real x is {text}? {ending}", gold)


def _bracket(place: int, power: int) -> str:
    inside = linear_text([1, -place], ["x", ""])
    return f"({inside})" + (f"^{power}" if power > 1 else "")


def _solution(places: list[int], powers: list[int], poles: set[int], sign: int, relation: str) -> str:
    """The gold, from the sign between the places."""
    wanted = 1 if relation[0] == ">" else -1
    signs = [sign * (-1) ** sum(powers[i:]) for i in range(len(places) + 1)]
    holds = [each == wanted for each in signs]
    closed = [len(relation) == 2 and place not in poles for place in places]
    pieces, start = [], "(-inf" if holds[0] else ""
    for i, place in enumerate(places):
        if holds[i] and not (closed[i] and holds[i + 1]):
            pieces.append(f"{start}, {place}{']' if closed[i] else ')'}")
            start = ""
        if holds[i + 1] and not (start and holds[i] and closed[i]):
            start = f"{'[' if closed[i] else '('}{place}"
        if not holds[i] and not holds[i + 1] and closed[i]:
            pieces.append(f"{{{place}}}")
    if start:
        pieces.append(f"{start}, inf)")
    return " U ".join(pieces) or "{}"


def ask_absolute(rng: random.Random, *, terms: int, most: int) -> Question:
    """All solutions of an equation with absolute values."""
    while True:
        places = sorted(rng.sample(range(-most, most + 1), terms))
        factors = [nonzero(rng, -3, 3) if terms > 1 else rng.randint(1, 3) for _ in places]
        right = rng.randint(1, 2 * most)
        found = _absolute_solutions(places, factors, right)
        if found:
            break
    text = joined_terms((k, f"|{linear_text([1, -p], ['x', ''])}|") for k, p in zip(factors, places, strict=True))
    return Question(f"Find all real x with {text} = {right}. Answer with the set, like {{-2, 5/3}}.", a_set(found))


def _absolute_solutions(places: list[int], factors: list[int], right: int) -> list[Fraction]:
    """Empty where there is none, or a whole stretch of them."""
    found: set[Fraction] = set()
    for i in range(len(places) + 1):
        signs = [1 if j < i else -1 for j in range(len(places))]
        slope = sum(k * s for k, s in zip(factors, signs, strict=True))
        shift = sum(k * s * p for k, s, p in zip(factors, signs, places, strict=True))
        if slope == 0:
            if right + shift == 0:
                return []
            continue
        x = Fraction(right + shift, slope)
        if (i == 0 or x >= places[i - 1]) and (i == len(places) or x <= places[i]):
            found.add(x)
    return sorted(found)


def ask_vieta(rng: random.Random, *, degree: int, most: int) -> Question:
    """A symmetric expression of the roots of a polynomial with ugly roots."""
    poly = [nonzero(rng, -most, most), *[rng.randint(-most, most) for _ in range(degree - 1)], rng.randint(1, 3)]
    names = list("rstu")[:degree]
    lead = Fraction(poly[-1])
    e = [(-1) ** k * poly[degree - k] / lead for k in range(degree + 1)]
    kinds = [
        (" + ".join(f"{n}^2" for n in names), e[1] ** 2 - 2 * e[2]),
        (" + ".join(f"1/{n}" for n in names), e[degree - 1] / e[degree]),
        ("*".join(f"({n} + 1)" for n in names), sum(e[1:], Fraction(1))),
        ("*".join(f"(2 - {n})" for n in names), value_at(poly, 2) / lead),
    ]
    shown, value = rng.choice(kinds)
    text = f"{', '.join(names[:-1])} and {names[-1]} are all the complex roots of {polynomial_text(poly)} (each as"
    return Question(f"{text} often as its multiplicity). What is {shown}? {FRACTION}", str(value))


SKILLS = [
    skill(
        "linear_equations",
        ask_linear,
        judges.judge_number,
        {"brackets": 1, "most": 5},
        {"brackets": 2, "most": 9},
        {"brackets": 4, "most": 20},
    ),
    skill(
        "linear_systems",
        ask_system,
        judges.judge_numbers,
        {"size": 2, "most": 4},
        {"size": 3, "most": 5},
        {"size": 4, "most": 8},
    ),
    skill(
        "quadratic_equations",
        ask_quadratic,
        judges.judge_surd_set,
        {"most": 3, "surds": False},
        {"most": 6, "surds": True},
        {"most": 30, "surds": True},
    ),
    skill(
        "expansion",
        ask_expand,
        judges.judge_polynomial,
        {"factors": 2, "degree": 1, "most": 5},
        {"factors": 3, "degree": 2, "most": 5},
        {"factors": 5, "degree": 2, "most": 9},
    ),
    skill(
        "polynomial_division",
        ask_division,
        judges.judge_polynomials,
        {"degree": 1, "most": 5},
        {"degree": 2, "most": 6},
        {"degree": 4, "most": 9},
    ),
    skill(
        "factoring",
        ask_factor,
        judge_factored,
        {"factors": 2, "most": 6, "quadratic": False},
        {"factors": 3, "most": 7, "quadratic": False},
        {"factors": 3, "most": 9, "quadratic": True},
    ),
    skill(
        "inequalities",
        ask_inequality,
        judges.judge_intervals,
        {"roots": 2, "most": 6, "fractions": False},
        {"roots": 3, "most": 9, "fractions": True},
        {"roots": 5, "most": 12, "fractions": True},
    ),
    skill(
        "absolute_values",
        ask_absolute,
        judges.judge_number_set,
        {"terms": 1, "most": 9},
        {"terms": 2, "most": 9},
        {"terms": 4, "most": 15},
    ),
    skill(
        "symmetric_functions",
        ask_vieta,
        judges.judge_number,
        {"degree": 2, "most": 6},
        {"degree": 3, "most": 9},
        {"degree": 4, "most": 15},
    ),
]
