"""Questions with many right answers: the judge checks the property that was asked for, and never looks at the gold.

In: a random stream and the settings of a level.  Out: a `Question` whose facts are the property.  Listed in the family.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

from envs.families.mathematics.texts import (
    Number,
    a_list,
    a_tuple,
    decimal,
    divisors,
    multiplied,
    nonzero,
    polynomial_text,
    skill,
    value_at,
)
from envs.families.mathematics.values import integer, integers, number, polynomial, rows
from envs.skills import Question
from envs.types import Task

TOO_LARGE = 10**9


def ask_bezout(rng: random.Random, *, most: int, bounded: bool) -> Question:
    """Whole numbers with a*x + b*y = c; harder: with x in a given range."""
    a, b = rng.randint(most // 4, most), rng.randint(most // 4, most)
    divisor = math.gcd(a, b)
    step = b // divisor
    c = divisor * nonzero(rng, -9, 9)
    x = pow(a // divisor, -1, step) * (c // divisor) % step if step > 1 else 0
    low = rng.randint(-3 * step, 3 * step) if bounded else 0
    x = low + (x - low) % step
    told = f" and {low} <= x < {low + 2 * step}" if bounded else ""
    facts = {"a": a, "b": b, "c": c, "low": low if bounded else None, "high": low + 2 * step if bounded else None}
    text = f"Give whole numbers x and y with {a}*x + {b}*y = {c}{told}. Any such pair will do."
    return Question(f"{text} Answer with the pair (x, y), like (3, -5).", a_tuple([x, (c - a * x) // b]), facts)


def judge_bezout(answer: str, task: Task) -> float:
    found, facts = integers(answer), task.metadata
    if found is None or len(found) != 2 or max(map(abs, found)) > TOO_LARGE:
        return 0.0
    in_range = facts["low"] is None or facts["low"] <= found[0] < facts["high"]
    return float(in_range and facts["a"] * found[0] + facts["b"] * found[1] == facts["c"])


def ask_divisor_witness(rng: random.Random, *, most: int) -> Question:
    """A number in a range with a given number of divisors, and with a given one."""
    while True:
        gold = rng.randint(most // 8, most)
        count = len(divisors(gold))
        if count >= 4:
            break
    known = rng.choice(divisors(gold)[1:-1])
    low = gold - rng.randint(0, most // 8)
    facts = {"low": low, "high": most, "count": count, "divisor": known}
    text = (
        f"Give a whole number from {low} to {most} that {known} divides and that has exactly {count} positive divisors"
    )
    return Question(f"{text} (1 and the number itself are counted). Any such number will do.", str(gold), facts)


def judge_divisor_witness(answer: str, task: Task) -> float:
    found, facts = integer(answer), task.metadata
    if found is None or not facts["low"] <= found <= facts["high"] or found % facts["divisor"]:
        return 0.0
    return float(len(divisors(found)) == facts["count"])


def ask_squares(rng: random.Random, *, count: int, most: int) -> Question:
    """A number as a sum of different squares."""
    gold = sorted(rng.sample(range(1, most + 1), count))
    total = sum(value * value for value in gold)
    text = f"Give {count} different positive whole numbers whose squares add up to {total}. Any such numbers will do."
    return Question(f"{text} Answer with a list, like [2, 3, 5].", a_list(gold), {"count": count, "total": total})


def judge_squares(answer: str, task: Task) -> float:
    found, facts = integers(answer), task.metadata
    if found is None or len(set(found)) != len(found) or len(found) != facts["count"] or min(found) < 1:
        return 0.0
    return float(max(found) <= TOO_LARGE and sum(value * value for value in found) == facts["total"])


def ask_prime_witness(rng: random.Random, *, most: int, modulus: int) -> Question:
    """A prime in a range with a given remainder, and not many of them."""
    while True:
        mod = rng.randint(3, modulus)
        low = rng.randint(most // 2, most)
        rest = rng.randrange(1, mod)
        gold = next((n for n in range(low, low + 6 * mod) if n % mod == rest and _is_prime(n)), None)
        if gold is not None:
            break
    high = gold + rng.randint(0, 2 * mod)
    text = f"Give a prime number from {low} to {high} that leaves the remainder {rest} when divided by {mod}."
    facts = {"low": low, "high": high, "rest": rest, "mod": mod}
    return Question(f"{text} Any such prime will do.", str(gold), facts)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def judge_prime_witness(answer: str, task: Task) -> float:
    found, facts = integer(answer), task.metadata
    if found is None or not facts["low"] <= found <= facts["high"] or found % facts["mod"] != facts["rest"]:
        return 0.0
    return float(_is_prime(found))


def ask_unit_fractions(rng: random.Random, *, count: int, most: int) -> Question:
    """A fraction as a sum of different unit fractions."""
    while True:
        gold = sorted(rng.sample(range(2, most + 1), count))
        total = sum((Fraction(1, value) for value in gold), Fraction(0))
        if total.numerator > 1 and total < 2:
            break
    text = f"Write {total} as a sum of exactly {count} different fractions of the form 1/n with n from 2 to {5 * most}."
    facts = {"total": str(total), "count": count, "most": 5 * most}
    return Question(
        f"{text} Any such sum will do. Answer with the list of the numbers n, like [2, 3, 12].", a_list(gold), facts
    )


def judge_unit_fractions(answer: str, task: Task) -> float:
    found, facts = integers(answer), task.metadata
    if found is None or len(found) != facts["count"] or len(set(found)) != len(found):
        return 0.0
    if min(found) < 2 or max(found) > facts["most"]:
        return 0.0
    return float(sum((Fraction(1, value) for value in found), Fraction(0)) == Fraction(facts["total"]))


def ask_data_witness(rng: random.Random, *, count: int, most: int) -> Question:
    """Whole numbers with a given mean, median, range and mode."""
    while True:
        gold = sorted(rng.randint(1, most) for _ in range(count - 1))
        mode = rng.choice(gold)
        gold = sorted([*gold, mode])
        times = {value: gold.count(value) for value in gold}
        if list(times.values()).count(times[mode]) == 1 and times[mode] == max(times.values()) and gold[0] < gold[-1]:
            break
    mean = Fraction(sum(gold), count)
    median = Fraction(gold[(count - 1) // 2] + gold[count // 2], 2)
    facts = {"count": count, "mean": str(mean), "median": str(median), "range": gold[-1] - gold[0], "mode": mode}
    text = f"Give {count} positive whole numbers with mean {mean}, median {decimal(median)}, range {gold[-1] - gold[0]}"
    rule = "The range is the largest minus the smallest number, the mode the only most frequent one."
    return Question(f"{text} and mode {mode}. {rule} Any such list will do, like [1, 2, 2, 5].", a_list(gold), facts)


def judge_data_witness(answer: str, task: Task) -> float:
    found, facts = integers(answer), task.metadata
    count = facts["count"]
    if found is None or len(found) != count or min(found) < 1 or max(found) > TOO_LARGE:
        return 0.0
    found.sort()
    times = sorted((found.count(value), value) for value in set(found))
    has_mode = times[-1][1] == facts["mode"] and (len(times) == 1 or times[-1][0] > times[-2][0])
    return float(
        has_mode
        and Fraction(sum(found), count) == Fraction(facts["mean"])
        and Fraction(found[(count - 1) // 2] + found[count // 2], 2) == Fraction(facts["median"])
        and found[-1] - found[0] == facts["range"]
    )


def ask_polynomial_witness(rng: random.Random, *, points: int, most: int) -> Question:
    """A polynomial with whole coefficients, given values and at least a given degree."""
    places = sorted(rng.sample(range(-most, most + 1), points))
    gold: list[Number] = [rng.randint(-most, most) for _ in range(points)]
    lowest = [1]
    for place in places:
        lowest = [int(value) for value in multiplied(lowest, [-place, 1])]
    if rng.random() < 0.5:  # of higher degree than the points fix
        gold = [a + b for a, b in zip([*gold, 0], lowest, strict=True)]
        degree = points
    else:
        gold[-1] = nonzero(rng, -most, most)
        degree = points - 1
    told = ", ".join(f"p({place}) = {value_at(gold, place)}" for place in places)
    facts = {"places": places, "values": [int(value_at(gold, place)) for place in places], "degree": degree}
    text = f"Give a polynomial p(x) of degree exactly {degree} with rational coefficients and {told}. Any will do."
    return Question(f"{text} Answer with a sum of terms, like 2*x^2 - x + 1.", polynomial_text(gold), facts)


def judge_polynomial_witness(answer: str, task: Task) -> float:
    found, facts = polynomial(answer), task.metadata
    if found is None or len(found) != facts["degree"] + 1:
        return 0.0
    return float(all(value_at(found, x) == y for x, y in zip(facts["places"], facts["values"], strict=True)))


def ask_triangle_witness(rng: random.Random, *, most: int, right: bool) -> Question:
    """Three grid points that form a triangle of a given area (and with a right angle) around a given point."""
    while True:
        corners = [[rng.randint(-most, most) for _ in range(2)] for _ in range(3)]
        if right:
            u, v, times = nonzero(rng, -most // 2, most // 2), rng.randint(0, most // 2), nonzero(rng, -2, 2)
            corners[1] = [corners[0][0] + u, corners[0][1] + v]
            corners[2] = [corners[0][0] - times * v, corners[0][1] + times * u]
        double = abs(_double_area(corners))
        if double > 2 and all(abs(value) <= most for corner in corners for value in corner):
            break
    rng.shuffle(corners)
    fixed = corners[0]
    told = " with a right angle" if right else ""
    area = decimal(Fraction(double, 2))
    text = f"Give a triangle{told} of area {area} whose corners have whole coordinates from {-most} to {most}, one of"
    text += f" them {a_tuple(fixed)}. Any such triangle will do."
    facts = {"double": double, "most": most, "fixed": fixed, "right": right}
    gold = ", ".join(map(a_tuple, corners))
    return Question(f"{text} Answer with its three corners, like (0, 0), (2, 0), (1, 3).", gold, facts)


def _double_area(corners: list[list[int]]) -> int:
    (a, b), (c, d), (e, f) = corners
    return (c - a) * (f - b) - (e - a) * (d - b)


def judge_triangle_witness(answer: str, task: Task) -> float:
    found, facts = rows(answer), task.metadata
    if found is None or len(found) != 3 or any(len(row) != 2 for row in found):
        return 0.0
    if any(value.denominator > 1 or abs(value) > facts["most"] for row in found for value in row):
        return 0.0
    corners = [[int(value) for value in row] for row in found]
    if facts["fixed"] not in corners or abs(_double_area(corners)) != facts["double"]:
        return 0.0
    return float(not facts["right"] or any(_is_right(corners, i) for i in range(3)))


def _is_right(corners: list[list[int]], place: int) -> bool:
    (a, b), (c, d), (e, f) = corners[place], corners[place - 1], corners[place - 2]
    return (c - a) * (e - a) + (d - b) * (f - b) == 0


def ask_sum_product(rng: random.Random, *, count: int, most: int) -> Question:
    """Numbers with a given sum and product."""
    while True:
        gold = [nonzero(rng, -most, most) for _ in range(count)]
        if len(set(gold)) > 1 and abs(math.prod(gold)) > most:
            break
    facts = {"count": count, "sum": sum(gold), "product": math.prod(gold)}
    text = f"Give {count} whole numbers whose sum is {sum(gold)} and whose product is {math.prod(gold)}."
    return Question(
        f"{text} They may be equal or negative; any such numbers will do, like [1, -2].", a_list(gold), facts
    )


def judge_sum_product(answer: str, task: Task) -> float:
    found, facts = integers(answer), task.metadata
    if found is None or len(found) != facts["count"] or max(map(abs, found)) > TOO_LARGE:
        return 0.0
    return float(sum(found) == facts["sum"] and math.prod(found) == facts["product"])


def ask_between(rng: random.Random, *, most: int, least: int) -> Question:
    """A fraction with a small denominator strictly between two close fractions."""
    while True:
        low, high = sorted([Fraction(rng.randint(1, most), rng.randint(most // 2, most)) for _ in range(2)])
        if low == high:
            continue
        under = next(d for d in range(1, 10**9) if math.floor(low * d) + 1 < high * d)
        if under > least:
            break
    gold = Fraction(math.floor(low * under) + 1, under)
    slack = under + under // 3
    facts = {"low": str(low), "high": str(high), "most": slack}
    text = f"Give a fraction strictly between {low} and {high} whose denominator is at most {slack} in lowest terms."
    return Question(f"{text} Any such fraction will do.", str(gold), facts)


def judge_between(answer: str, task: Task) -> float:
    found, facts = number(answer), task.metadata
    if found is None or found.denominator > facts["most"]:
        return 0.0
    return float(Fraction(facts["low"]) < found < Fraction(facts["high"]))


SKILLS = [
    skill(
        "bezout",
        ask_bezout,
        judge_bezout,
        {"most": 20, "bounded": False},
        {"most": 150, "bounded": True},
        {"most": 5000, "bounded": True},
    ),
    skill(
        "number_with_divisors", ask_divisor_witness, judge_divisor_witness, {"most": 60}, {"most": 600}, {"most": 9000}
    ),
    skill(
        "sum_of_squares",
        ask_squares,
        judge_squares,
        {"count": 2, "most": 15},
        {"count": 3, "most": 25},
        {"count": 4, "most": 120},
    ),
    skill(
        "prime_in_class",
        ask_prime_witness,
        judge_prime_witness,
        {"most": 60, "modulus": 5},
        {"most": 800, "modulus": 12},
        {"most": 20000, "modulus": 40},
    ),
    skill(
        "unit_fractions",
        ask_unit_fractions,
        judge_unit_fractions,
        {"count": 2, "most": 15},
        {"count": 3, "most": 24},
        {"count": 4, "most": 20},
    ),
    skill(
        "data_with_statistics",
        ask_data_witness,
        judge_data_witness,
        {"count": 4, "most": 8},
        {"count": 6, "most": 20},
        {"count": 9, "most": 60},
    ),
    skill(
        "polynomial_through_points",
        ask_polynomial_witness,
        judge_polynomial_witness,
        {"points": 2, "most": 3},
        {"points": 3, "most": 4},
        {"points": 4, "most": 5},
    ),
    skill(
        "triangle_of_area",
        ask_triangle_witness,
        judge_triangle_witness,
        {"most": 6, "right": False},
        {"most": 9, "right": True},
        {"most": 25, "right": True},
    ),
    skill(
        "sum_and_product",
        ask_sum_product,
        judge_sum_product,
        {"count": 2, "most": 12},
        {"count": 3, "most": 12},
        {"count": 4, "most": 20},
    ),
    skill(
        "fraction_between",
        ask_between,
        judge_between,
        {"most": 9, "least": 2},
        {"most": 40, "least": 6},
        {"most": 300, "least": 15},
    ),
]
