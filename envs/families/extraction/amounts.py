"""Numbers in documents: amounts and currencies, units, tables told in words, stocks, laboratory reports, wrong sums.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.extraction.judging import asked_set, asked_value, judge_set, judge_value, levels
from envs.families.extraction.words import GOODS, NAMES, ONES, TOWNS, listed
from envs.skills import Question, Skill

# ---- amounts ---------------------------------------------------------------------------------------------------------

_MONEY = {  # code -> ways to write so many cents of it
    "EUR": ("{u} euros and {c:02d} cents", "EUR {u}.{c:02d}", "{u},{c:02d} euros"),
    "USD": ("${u}.{c:02d}", "{u} dollars and {c} cents", "US$ {u}.{c:02d}"),
    "GBP": ("{u} pounds and {c} pence", "GBP {u}.{c:02d}", "{u} pounds {c:02d}"),
}


def ask_amounts(rng: random.Random, lines: int, refunds: bool, partial: bool) -> Question:
    """Amounts with their currencies in cents, and totals of each currency, less what was paid back."""
    told: list[str] = []
    found: list[Any] = []
    totals: dict[str, int] = {}
    goods = rng.sample(GOODS, lines)
    for good in goods:
        code = rng.choice(list(_MONEY))
        cents = rng.randint(1, 99) * 100 + rng.randint(11, 99)
        said = rng.choice(_MONEY[code]).format(u=cents // 100, c=cents % 100)
        told.append(
            rng.choice([f"The {good} cost {said}.", f"For the {good} we paid {said}.", f"{said} for the {good}."])
        )
        found.append([good, code, cents])
        totals[code] = totals.get(code, 0) + cents
    if refunds:
        good, code, cents = rng.choice(found)
        share = rng.choice(["half", "all"])
        back = cents if share == "all" else cents // 2
        told.append(
            f"{'All' if share == 'all' else 'Half'} of the price of the {good} was paid back"
            f"{'' if share == 'all' else ', rounded down to a whole cent'}."
        )
        totals[code] -= back
    noise = rng.randint(2, 40)
    told.append(f"All of it weighs {noise} kg.") if lines > 1 else None
    many = lines > 1
    value: Any = {"prices": found, "totals": totals} if many else found[0]
    text = (
        " ".join(told)
        + "\n\nWrite "
        + (
            'a JSON object with "prices", an array of ["thing", "code", cents] in the order of the text, and "totals", '
            "an object with the total cents of each code that comes up, less what was paid back."
            if many
            else 'a JSON array ["thing", "code", cents].'
        )
        + " Codes are EUR, USD and GBP; cents (or pence) are whole numbers."
    )
    return asked_value(text, value, partial)


# ---- units -----------------------------------------------------------------------------------------------------------

# quantity -> (base unit, (unit, its size in base units))
_UNITS: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {
    "distance": ("m", (("km", 1000), ("m", 1), ("kilometres", 1000))),
    "weight": ("g", (("kg", 1000), ("g", 1), ("tonnes", 1_000_000))),
    "time": ("s", (("minutes", 60), ("hours", 3600), ("days", 86_400))),
    "volume": ("ml", (("litres", 1000), ("cl", 10), ("ml", 1))),
    "length": ("mm", (("cm", 10), ("m", 1000), ("mm", 1))),
}


def ask_units(rng: random.Random, values: int, sums: int, partial: bool) -> Question:
    """Measures in one unit for each quantity, sums and halves included."""
    told, found = [], []
    for name in rng.sample(NAMES, values):
        kind = rng.choice(list(_UNITS))
        base, units = _UNITS[kind]
        unit, size = rng.choice(units)
        number: int | float = rng.randint(2, 60)
        amount = number * size
        said = f"{number} {unit}"
        if size >= 10 and rng.random() < 0.6:
            said, amount = f"{number}.5 {unit}", amount + size // 2
        if sums and rng.random() < 0.3 * sums:
            other, scale = rng.choice(units)
            more = rng.randint(2, 30)
            said, amount = rng.choice(
                [(f"{said} and {more} {other}", amount + more * scale), (f"twice {said}", 2 * amount)]
            )
        told.append(f"{name} noted a {kind} of {said}.")
        found.append([name, amount, base])
    bases = "; ".join(f"{kind} in {base}" for kind, (base, _) in _UNITS.items())
    many = values > 1
    text = (
        " ".join(told)
        + f"\n\nUnits: {bases}. Write "
        + ("a JSON array with one array for each note, in order: " if many else "a JSON array: ")
        + '["name", whole number, "unit"].'
    )
    return asked_value(text, found if many else found[0], partial)


# ---- tables told in words --------------------------------------------------------------------------------------------


def ask_table_rows(rng: random.Random, rows: int, columns: int, partial: bool) -> Question:
    """Rows of a table out of sentences that refer to other rows: as many as, twice, fewer."""
    goods = rng.sample(GOODS, columns)
    table: list[list[Any]] = []
    told = []
    for name in rng.sample(NAMES, rows):
        numbers, said = [], []
        for place, good in enumerate(goods):
            number = rng.randint(2, 30)
            words = str(number)
            if table and rng.random() < 0.6:
                other = rng.choice(table)
                known, few = other[place + 1], rng.randint(2, 9)
                number, words = rng.choice(
                    [
                        (known, f"as many as {other[0]}"),
                        (2 * known, f"twice as many as {other[0]}"),
                        (known + few, f"{ONES[few]} more than {other[0]}"),
                        (max(known - few, 0), f"{ONES[few]} fewer than {other[0]}" if known >= few else "none"),
                    ]
                )
            numbers.append(number)
            said.append(f"{good}s: {words}")
        table.append([name, *numbers])
        told.append(f"{name} counted {listed(said)}.")
    text = (
        " ".join(told) + f"\n\nWrite the counts as a JSON array of rows, in the order of the text: "
        f'["name", {", ".join(f"number of {good}s" for good in goods)}].'
    )
    return asked_value(text, table, partial)


# ---- stocks ----------------------------------------------------------------------------------------------------------


def ask_stock(rng: random.Random, goods: int, moves: int, partial: bool) -> Question:
    """What is in stock after deliveries, sales, returns, and bookings that were cancelled."""
    stock = {good: rng.randint(10, 40) for good in rng.sample(GOODS, goods)}
    told = ["At first there are " + listed([f"{count} {good}s" for good, count in stock.items()]) + "."]
    for number in range(moves):
        good = rng.choice(list(stock))
        count = rng.randint(2, 9)
        kind = rng.randrange(6) if moves > 2 else rng.randrange(2)
        if kind == 1 and stock[good] >= count:
            told.append(f"{rng.choice(NAMES)} takes {count} {good}s.")
            stock[good] -= count
        elif kind == 2 and stock[good] >= count + 1:
            told.append(f"{count} {good}s are sold, but one of them comes back.")
            stock[good] -= count - 1
        elif kind == 3:
            told.append(f"{count} {good}s are ordered; the delivery does not come.")
        elif kind == 4 and goods > 1:
            other = rng.choice([one for one in stock if one != good])
            if stock[good] >= count:
                told.append(f"{count} {good}s are swapped for as many {other}s.")
                stock[good] -= count
                stock[other] += count
        elif kind == 5 and number:
            told.append(f"A recount shows {stock[good] + 1} {good}s, one more than thought; the recount is right.")
            stock[good] += 1
        else:
            told.append(f"{count} {good}s are delivered.")
            stock[good] += count
    text = " ".join(told) + "\n\nWrite what is in stock in the end as a JSON object, things in the singular to numbers."
    return asked_value(text, stock, partial)


# ---- laboratory reports ----------------------------------------------------------------------------------------------

_TESTS = ("iron", "zinc", "sodium", "sugar", "urea", "copper", "iodine", "lead", "calcium", "folate")


def ask_lab_report(rng: random.Random, tests: int, special: bool, partial: bool) -> Question:
    """Which values lie outside of their ranges; some ranges hold for an age only, some units differ."""
    age = rng.randint(20, 80)
    told = [f"Patient: {rng.choice(NAMES)}, {age} years."]
    found = []
    for place, test in enumerate(rng.sample(_TESTS, tests)):
        low = rng.randint(10, 60)
        high = low + rng.randint(8, 30)
        value = rng.choice([low - rng.randint(1, 5), rng.randint(low, high), rng.randint(low, high), high + 3])
        if place == 0 and value in range(low, high + 1):
            value = high + rng.randint(1, 9)
        limits, shown = f"{low}-{high} mg", f"{value} mg"
        if special and rng.random() < 0.35:
            limits = f"{low}-{high} mg from 50 years on, else {low + 7}-{high + 7} mg"
            low, high = (low, high) if age >= 50 else (low + 7, high + 7)
        if special and rng.random() < 0.35:
            shown = f"{value / 1000:.3f} g"
        told.append(f"{test}: {shown} ({limits})")
        if not low <= value <= high:
            found.append([test, "low" if value < low else "high"])
    text = (
        "\n".join(told) + "\n\nNormal ranges stand in brackets, their ends are normal. 1 g = 1000 mg. Which values are "
        'not normal? Write a JSON array of pairs ["test", "low" or "high"], in any order.'
    )
    return asked_set(text, found, partial)


# ---- wrong sums ------------------------------------------------------------------------------------------------------


def ask_wrong_lines(rng: random.Random, lines: int, wrong: int, partial: bool) -> Question:
    """Lines of an invoice whose amount is not count times price, and the right total."""
    faults = set(rng.sample(range(lines), rng.randint(1, wrong)))
    told, found = [], []
    total = stated = 0
    for number, good in enumerate(rng.sample(GOODS, lines)):
        count, price = rng.randint(2, 12), rng.randint(3, 60)
        amount = count * price
        shown = amount + rng.choice([10, 100, price, -price, 1, -1]) if number in faults else amount
        found += [[number + 1, amount]] if number in faults else []
        total += amount
        stated += shown
        told.append(f"{number + 1}. {count} {good}s at {price} each: {shown}")
    text = (
        f"Invoice for {rng.choice(NAMES)}, {rng.choice(TOWNS)}\n"
        + "\n".join(told)
        + f"\nTotal: {stated}\n\nCounts and "
        'prices are right, amounts may be wrong. Write a JSON object with "wrong", an array of [number of the line, '
        'right amount] in the order of the lines, and "total", the right total.'
    )
    return asked_value(text, {"wrong": found, "total": total}, partial)


SKILLS = [
    Skill(
        name="amounts", ask=ask_amounts, judge=judge_value, levels=levels("lines", 1, 3, 7, refunds=(False, True, True))
    ),
    Skill(name="units", ask=ask_units, judge=judge_value, levels=levels("values", 1, 4, 9, sums=(0, 1, 2))),
    Skill(name="table_rows", ask=ask_table_rows, judge=judge_value, levels=levels("rows", 2, 3, 7, columns=(1, 2, 4))),
    Skill(name="stock", ask=ask_stock, judge=judge_value, levels=levels("moves", 2, 6, 16, goods=(1, 3, 6))),
    Skill(
        name="lab_report",
        ask=ask_lab_report,
        judge=judge_set,
        levels=levels("tests", 3, 6, 10, special=(False, True, True)),
    ),
    Skill(
        name="wrong_lines", ask=ask_wrong_lines, judge=judge_value, levels=levels("lines", 2, 4, 10, wrong=(1, 2, 5))
    ),
]
