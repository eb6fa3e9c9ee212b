"""Questions of arithmetic: whole numbers, fractions, decimals, percentages, orders of size, spellings of numbers.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction

from envs.families.mathematics.judges import judge_number, judge_numbers, judge_quantity
from envs.families.mathematics.texts import a_list, bracketed, decimal, nonzero, skill
from envs.families.mathematics.values import number, plain
from envs.skills import Question, exactly
from envs.types import Task

EXACT = "Answer with the exact value: a whole number or a fraction such as 7/3."


def _tree(rng: random.Random, depth: int, most: int) -> tuple[str, int]:
    """An expression of + - * and its value; sums stand in brackets."""
    if depth == 0:
        value = nonzero(rng, -most, most)
        return bracketed(value), value
    left, a = _tree(rng, rng.randrange(depth), most)
    right, b = _tree(rng, depth - 1, most)
    if rng.random() < 0.5:
        left, a, right, b = right, b, left, a
    sign = rng.choice("+-*")
    value = a + b if sign == "+" else a - b if sign == "-" else a * b
    return f"({left} {sign} {right})", value


def ask_integers(rng: random.Random, *, depth: int, most: int) -> Question:
    """A nested expression of whole numbers."""
    while True:
        text, value = _tree(rng, depth, most)
        if abs(value) > most and len(str(value)) < 12:
            return Question(f"Compute {text[1:-1]}. Answer with a whole number.", str(value))


def ask_fractions(rng: random.Random, *, terms: int, most: int) -> Question:
    """A chain of fractions with the usual order of operations."""
    while True:
        parts = [Fraction(nonzero(rng, -most, most), rng.randint(2, most)) for _ in range(terms)]
        signs = [rng.choice("+-*:") for _ in parts[1:]]
        text = f"({parts[0]})"
        groups = [parts[0]]
        for sign, part in zip(signs, parts[1:], strict=True):
            text += f" {sign} ({part})"
            if sign in "*:":
                groups[-1] = groups[-1] * part if sign == "*" else groups[-1] / part
            else:
                groups.append(part if sign == "+" else -part)
        value = sum(groups, Fraction(0))
        if value.denominator > 1 and value.denominator < 10**7:
            return Question(f"Compute {text}, where : is division and * and : go before + and -. {EXACT}", str(value))


def ask_decimals(rng: random.Random, *, places: int, terms: int) -> Question:
    """Sums, differences and one product of decimals, without rounding."""
    values = [Fraction(nonzero(rng, 1, 10 ** (places + 1)), 10 ** rng.randint(1, places)) for _ in range(terms)]
    product = values[0] * values[1]
    text, total = f"{decimal(values[0])} * {decimal(values[1])}", product
    for value in values[2:]:
        sign = rng.choice("+-")
        text += f" {sign} {decimal(value)}"
        total += value if sign == "+" else -value
    return Question(f"Compute {text}. Give all digits: do not round.", decimal(total))


GOODS = "coat lamp bike desk radio tent watch sofa guitar camera".split()


def ask_percent(rng: random.Random, *, steps: int, backwards: bool) -> Question:
    """Several percent changes in a row: the overall change, or the price before them."""
    changes = [rng.choice([-60, -50, -40, -30, -25, -20, -10, 10, 20, 25, 40, 50, 60, 80]) for _ in range(steps)]
    told = ", then ".join(f"{'raised' if change > 0 else 'lowered'} by {abs(change)}%" for change in changes)
    factor = Fraction(1)
    for change in changes:
        factor *= 1 + Fraction(change, 100)
    thing = rng.choice(GOODS)
    if backwards and rng.random() < 0.5:
        before = rng.randint(2, 60) * 10
        text = (
            f"The price of a {thing} is {told}. Now it costs {decimal(before * factor)} euros. What did it cost first?"
        )
        return Question(
            f"{text} Answer with the number and the unit, like 12.5 euros.",
            f"{before} euros",
            {"units": ["euros", "euro", "EUR", "€"]},
        )
    total = (factor - 1) * 100
    text = f"The price of a {thing} is {told}. By how many percent has it changed overall?"
    return Question(
        f"{text} Answer with a percent sign, like 12.5% or -3%; a fall is negative.",
        f"{decimal(total)}%",
        {"units": ["%", "percent"]},
    )


def ask_ordering(rng: random.Random, *, count: int, digits: int) -> Question:
    """Fractions, decimals and percentages by size."""
    found: dict[Fraction, str] = {}
    base = rng.randint(1, 3)
    while len(found) < count:
        kind = rng.randrange(3)
        if kind == 0:
            under = rng.randint(3, 10**digits)
            value = Fraction(base * under + rng.randint(1, under - 1), under)
            found.setdefault(value, str(value))
        elif kind == 1:
            value = base + Fraction(rng.randint(1, 10 ** (digits + 1)), 10 ** (digits + 1))
            found.setdefault(value, decimal(value))
        else:
            value = base + Fraction(rng.randint(1, 10**digits), 10**digits)
            found.setdefault(value, f"{decimal(value * 100)}%")
    shown = list(found)
    rng.shuffle(shown)
    places = {value: place for place, value in enumerate(shown, 1)}
    order = a_list(places[value] for value in sorted(found))
    listed = ", ".join(f"({place}) {found[value]}" for value, place in places.items())
    return Question(
        f"Sort these numbers from the smallest to the largest: {listed}. Answer with their labels, like [2, 1, 3].",
        order,
    )


def ask_rounding(rng: random.Random, *, digits: int, places: int) -> Question:
    """A decimal to a number of significant digits; zeros at the end count."""
    wanted = rng.randint(2, 1 + places)
    number_text = str(rng.randint(10 ** (digits - 1), 10**digits - 1))
    if rng.random() < 0.5:  # a row of nines: the carry is where it goes wrong
        number_text = number_text[: wanted - 1] + "9" + rng.choice("5678") + number_text[wanted + 1 :]
    zeros = rng.randint(0, 2)
    value = Fraction(int(number_text), 10 ** (len(number_text) + zeros))
    if rng.random() < 0.5:
        value *= 10 ** (zeros + 1)
    exponent = 0
    while value * 10**exponent < 10 ** (wanted - 1):
        exponent += 1
    rounded = int(value * 10**exponent + Fraction(1, 2))
    if rounded == 10**wanted:
        rounded, exponent = rounded // 10, exponent - 1
    digits_text = str(rounded).rjust(exponent + 1, "0")
    gold = digits_text[: len(digits_text) - exponent] + ("." + digits_text[-exponent:] if exponent else "")
    text = f"Round {decimal(value)} to {wanted} significant digits, a half away from zero."
    return Question(
        f"{text} Keep zeros that are significant (1.50 has three significant digits), and use no exponent.", gold
    )


def ask_scientific(rng: random.Random, *, digits: int, terms: int) -> Question:
    """A product of very large and very small numbers, in scientific notation."""
    value = Fraction(1)
    factors = []
    for _ in range(terms):
        mantissa = Fraction(rng.randint(11, 10**digits - 1), 10)
        while mantissa >= 10:
            mantissa /= 10
        exponent = nonzero(rng, -12, 12)
        value *= mantissa * Fraction(10) ** exponent
        factors.append(f"({decimal(mantissa)}*10^{bracketed(exponent)})")
    exponent = 0
    while value >= 10 or value < 1:
        step = 1 if value >= 10 else -1
        value, exponent = value / Fraction(10) ** step, exponent + step
    text = f"Compute {' * '.join(factors)} without rounding, in scientific notation: a*10^n with 1 <= a < 10, n whole."
    return Question(f"{text} Write it like 2.5*10^-3.", f"{decimal(value)}*10^{exponent}")


_SCIENTIFIC = re.compile(r"([0-9.]{1,60}) ?\* ?10 ?\^ ?[{(]?([+-]?[0-9]{1,4})[)}]?")


def judge_scientific(answer: str, task: Task) -> float:
    """`a*10^n` with a from 1 to less than 10."""
    found, right = _scientific(answer), _scientific(task.reference)
    return float(found is not None and found == right)


def _scientific(text: str) -> tuple[Fraction, int] | None:
    match = _SCIENTIFIC.fullmatch(plain(text))
    mantissa = number(match.group(1)) if match else None
    return (mantissa, int(match.group(2))) if match and mantissa is not None and 1 <= mantissa < 10 else None


def ask_repeating(rng: random.Random, *, most: int, period: int) -> Question:
    """A fraction as a repeating decimal."""
    while True:
        under = rng.randint(3, most)
        over = rng.randint(1, 3 * under)
        value = Fraction(over, under)
        text = repeating_text(value)
        if "(" in text and text.index(")") - text.index("(") <= period + 1:
            break
    return Question(
        f"Write {value} as a repeating decimal, with the repeating digits in brackets: 1/6 is 0.1(6).", text
    )


def repeating_text(value: Fraction) -> str:
    """The decimal expansion of a positive number, its shortest period in brackets."""
    whole, rest = divmod(value.numerator, value.denominator)
    seen: dict[int, int] = {}
    digits = ""
    while rest and rest not in seen:
        seen[rest] = len(digits)
        digit, rest = divmod(rest * 10, value.denominator)
        digits += str(digit)
    if not rest:
        return f"{whole}.{digits}" if digits else str(whole)
    return f"{whole}.{digits[: seen[rest]]}({digits[seen[rest] :]})"


_REPEATING = re.compile(r"([0-9]{1,20})\.([0-9]{0,200})\(([0-9]{1,200})\)")


def judge_repeating(answer: str, task: Task) -> float:
    """The same number; also with a longer period or one that begins later, such as 0.16(66)."""
    found = _repeating(answer)
    return float(found is not None and found == _repeating(task.reference))


def _repeating(text: str) -> Fraction | None:
    match = _REPEATING.fullmatch(plain(text))
    if match is None:
        return None
    whole, before, period = match.groups()
    shift = 10 ** len(before)
    return Fraction(int(whole + before), shift) + Fraction(int(period), (10 ** len(period) - 1) * shift)


CONTINUED = "[a; b, c, ...] means a + 1/(b + 1/(c + ...))"


def _continued(rng: random.Random, terms: int, most: int) -> tuple[list[int], Fraction]:
    """Quotients of a continued fraction, and its value."""
    quotients = [rng.randint(0, most)] + [rng.randint(1, most) for _ in range(terms - 2)] + [rng.randint(2, most)]
    value = Fraction(quotients[-1])
    for quotient in reversed(quotients[:-1]):
        value = quotient + 1 / value
    return quotients, value


def ask_continued_value(rng: random.Random, *, terms: int, most: int) -> Question:
    """A continued fraction to its value."""
    quotients, value = _continued(rng, terms, most)
    inside = ", ".join(map(str, quotients[1:]))
    text = f"Which fraction is the continued fraction [{quotients[0]}; {inside}]? ({CONTINUED}.)"
    return Question(f"{text} Answer with a fraction such as 7/3.", str(value))


def ask_continued_quotients(rng: random.Random, *, terms: int, most: int) -> Question:
    """A fraction to its continued fraction."""
    quotients, value = _continued(rng, terms, most)
    text = f"Write {value} as a continued fraction whose last quotient is above 1 ({CONTINUED})."
    return Question(f"{text} Answer with the list of quotients, like [3, 7, 16].", a_list(quotients))


SKILLS = [
    skill(
        "integer_expressions",
        ask_integers,
        judge_number,
        {"depth": 2, "most": 9},
        {"depth": 5, "most": 20},
        {"depth": 8, "most": 60},
    ),
    skill(
        "fractions",
        ask_fractions,
        judge_number,
        {"terms": 2, "most": 9},
        {"terms": 4, "most": 12},
        {"terms": 6, "most": 20},
    ),
    skill(
        "decimals",
        ask_decimals,
        judge_number,
        {"places": 1, "terms": 2},
        {"places": 3, "terms": 4},
        {"places": 5, "terms": 6},
    ),
    skill(
        "percent_changes",
        ask_percent,
        judge_quantity,
        {"steps": 1, "backwards": False},
        {"steps": 3, "backwards": True},
        {"steps": 5, "backwards": True},
    ),
    skill(
        "ordering",
        ask_ordering,
        judge_numbers,
        {"count": 4, "digits": 1},
        {"count": 6, "digits": 1},
        {"count": 9, "digits": 2},
    ),
    skill(
        "significant_digits",
        ask_rounding,
        exactly,
        {"digits": 5, "places": 1},
        {"digits": 7, "places": 3},
        {"digits": 12, "places": 6},
    ),
    skill(
        "scientific_notation",
        ask_scientific,
        judge_scientific,
        {"digits": 2, "terms": 2},
        {"digits": 3, "terms": 3},
        {"digits": 4, "terms": 5},
    ),
    skill(
        "repeating_decimals",
        ask_repeating,
        judge_repeating,
        {"most": 25, "period": 3},
        {"most": 90, "period": 6},
        {"most": 400, "period": 30},
    ),
    skill(
        "continued_fraction_value",
        ask_continued_value,
        judge_number,
        {"terms": 3, "most": 4},
        {"terms": 5, "most": 9},
        {"terms": 8, "most": 20},
    ),
    skill(
        "continued_fraction_quotients",
        ask_continued_quotients,
        judge_numbers,
        {"terms": 3, "most": 6},
        {"terms": 5, "most": 12},
        {"terms": 8, "most": 30},
    ),
]
