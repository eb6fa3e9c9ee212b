"""Word problems whose answers carry a unit: conversions, rates, work, mixtures, money; and dates and clocks.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.  A unit may be written
in any of the spellings of `UNITS`; an answer without one, or in another unit than asked for, is wrong.
"""

from __future__ import annotations

import datetime
import random
import re
from fractions import Fraction

from envs.families.mathematics.judges import judge_quantity
from envs.families.mathematics.texts import NAMES, decimal, skill
from envs.families.mathematics.values import plain
from envs.skills import Question, same_words
from envs.types import Task

# What a unit is called -> other spellings.
UNITS = {
    "km/h": ["km/h", "kmh", "kph", "kilometres per hour", "kilometers per hour"],
    "m/s": ["m/s", "metres per second", "meters per second"],
    "km": ["km", "kilometres", "kilometers", "kilometre", "kilometer"],
    "m": ["m", "metres", "meters", "metre", "meter"],
    "cm": ["cm", "centimetres", "centimeters"],
    "m^2": ["m^2", "m2", "square metres", "square meters", "sq m"],
    "cm^2": ["cm^2", "cm2", "square centimetres", "square centimeters", "sq cm"],
    "cm^3": ["cm^3", "cm3", "cubic centimetres", "cubic centimeters"],
    "m^3": ["m^3", "m3", "cubic metres", "cubic meters"],
    "l": ["l", "L", "litres", "liters", "litre", "liter"],
    "ml": ["ml", "mL", "millilitres", "milliliters"],
    "g": ["g", "grams", "gram"],
    "kg": ["kg", "kilograms", "kilogram"],
    "kg/m^3": ["kg/m^3", "kg/m3", "kilograms per cubic metre"],
    "g/cm^3": ["g/cm^3", "g/cm3", "grams per cubic centimetre"],
    "h": ["h", "hours", "hour", "hrs"],
    "min": ["min", "minutes", "minute", "mins"],
    "s": ["s", "seconds", "second", "sec"],
    "l/min": ["l/min", "L/min", "litres per minute", "liters per minute"],
    "m^3/h": ["m^3/h", "m3/h", "cubic metres per hour"],
    "euros": ["euros", "euro", "EUR", "€"],
    "%": ["%", "percent", "per cent"],
}


def _with_unit(text: str, value: Fraction, unit: str) -> Question:
    ending = f"Answer with the exact number (a decimal or a fraction) and the unit {unit}, like 12.5 {unit}."
    gap = "" if unit == "%" else " "
    shown = decimal(value) if _is_short(value) else str(value)
    return Question(f"{text} {ending}", f"{shown}{gap}{unit}", {"units": UNITS[unit]})


def _is_short(value: Fraction) -> bool:
    return 10**12 % value.denominator == 0


# From one unit to another: what it is multiplied by.
CONVERSIONS = [
    [("km/h", "m/s", Fraction(5, 18)), ("m/s", "km/h", Fraction(18, 5)), ("l/min", "m^3/h", Fraction(6, 100))],
    [("m^2", "cm^2", Fraction(10**4)), ("cm^3", "ml", Fraction(1)), ("m^3", "l", Fraction(1000))],
    [
        ("g/cm^3", "kg/m^3", Fraction(1000)),
        ("kg/m^3", "g/cm^3", Fraction(1, 1000)),
        ("m^3/h", "l/min", Fraction(50, 3)),
    ],
    [
        ("km", "cm", Fraction(10**5)),
        ("h", "s", Fraction(3600)),
        ("kg", "g", Fraction(1000)),
        ("min", "h", Fraction(1, 60)),
    ],
]


def ask_conversion(rng: random.Random, *, kinds: list[int], digits: int) -> Question:
    """One unit to another, or the sum of two amounts in different units."""
    source, target, factor = rng.choice(CONVERSIONS[rng.choice(kinds)])
    amount = Fraction(rng.randint(1, 10**digits), rng.choice([1, 2, 4, 5, 10]))
    if rng.random() < 0.5:
        return _with_unit(f"Convert {decimal(amount)} {source} to {target}.", amount * factor, target)
    other = Fraction(rng.randint(1, 10**digits))
    text = f"What are {decimal(amount)} {source} and {decimal(other)} {target} together, in {target}?"
    return _with_unit(text, amount * factor + other, target)


def ask_motion(rng: random.Random, *, most: int, delay: bool) -> Question:
    """Two that meet, or one that catches up."""
    first, second = rng.sample(range(max(3, most // 6), most), 2)
    one, other = rng.sample(NAMES, 2)
    wait = rng.choice([15, 20, 30, 40, 45, 60, 90]) if delay else 0
    ahead = Fraction(first * wait, 60)
    if rng.random() < 0.5:
        distance = ahead + rng.randint(2, 12) * Fraction(first + second, rng.choice([2, 3, 4]))
        text = (
            f"{one} and {other} start {distance} km apart and travel towards each other on one road, {one} at {first}"
        )
        text += f" km/h and {other} at {second} km/h" + (f"; {other} starts {wait} minutes later" if wait else "")
        hours = (distance - ahead) / (first + second)
        if rng.random() < 0.5:
            question = f"{text}. How many minutes after the start of {other} do they meet?"
            return _with_unit(question, hours * 60, "min")
        return _with_unit(f"{text}. How far from the start of {other} do they meet?", hours * second, "km")
    slow, fast = min(first, second), max(first, second)
    gap = Fraction(slow * wait, 60) + rng.randint(0 if wait else 1, 9)
    text = f"{one} travels at {slow} km/h and {other} follows on the same road at {fast} km/h. When {other} starts,"
    text += f" {one} is {gap} km ahead. How many minutes after that has {other} caught up?"
    return _with_unit(text, gap / (fast - slow) * 60, "min")


def ask_work(rng: random.Random, *, workers: int, change: bool) -> Question:
    """Pumps that fill a basin together, some of them only for a while."""
    times = [rng.randint(2, 12) * rng.choice([1, 2, 5]) for _ in range(workers)]
    rate = sum((Fraction(1, time) for time in times), Fraction(0))
    listed = ", ".join(f"pump {name} alone needs {time} minutes" for name, time in zip("ABCDE", times, strict=False))
    text = f"To fill a basin, {listed}."
    if not change:
        return _with_unit(f"{text} How long do they need together?", 1 / rate, "min")
    alone = Fraction(times[0] * rng.randint(1, 5), 8)
    done = alone / times[0]
    left = (1 - done) / rate
    if rng.random() < 0.5:
        text += f" First pump A works alone for {decimal(alone)} minutes, then all work together. How many minutes does"
        return _with_unit(f"{text} it take in all until the basin is full?", alone + left, "min")
    text += f" A drain alone empties the full basin in {times[0] + 7} minutes. How long do all the pumps together need"
    return _with_unit(f"{text} with the drain open?", 1 / (rate - Fraction(1, times[0] + 7)), "min")


def ask_mixture(rng: random.Random, *, parts: int, most: int) -> Question:
    """Concentrations of mixtures."""
    amounts = [rng.randint(1, most) for _ in range(parts)]
    shares = [rng.randint(0, 20) * 5 for _ in range(parts)]
    total, acid = sum(amounts), sum(a * s for a, s in zip(amounts, shares, strict=True))
    listed = ", ".join(f"{a} l with {s}% acid" for a, s in zip(amounts, shares, strict=True))
    if rng.random() < 0.6 or acid == 0:
        return _with_unit(
            f"Mixed together: {listed}. How much acid has the mixture, in percent?", Fraction(acid, total), "%"
        )
    goal = Fraction(acid, total) / rng.choice([2, 3, 4])
    text = f"Mixed together: {listed}. How many litres of water must be added to get {goal}% of acid?"
    return _with_unit(text, Fraction(acid) / goal - total, "l")


def ask_interest(rng: random.Random, *, years: int, most: int) -> Question:
    """Compound interest with payments, exact to the last digit."""
    rate, span = rng.choice([1, 2, 4, 5, 10, 20]), rng.randint(1, years)
    start, yearly = rng.randint(1, most) * 100, rng.choice([0, 0, rng.randint(1, most) * 10])
    value = Fraction(start)
    for _ in range(span):
        value = value * (1 + Fraction(rate, 100)) + yearly
    text = (
        f"{rng.choice(NAMES)} puts {start} euros into an account with {rate}% interest a year, added at the end of each"
    )
    text += f" year. {f'Right after that, {yearly} euros more are paid in each time. ' if yearly else ''}How much is in"
    text += f" the account after {span} {'year' if span == 1 else 'years'}, without any rounding?"
    return _with_unit(text, value, "euros")


def ask_solids(rng: random.Random, *, most: int, steps: int) -> Question:
    """Volumes, surfaces, masses and water levels of boxes."""
    a, b, c = (rng.randint(2, most) for _ in range(3))
    density = Fraction(rng.randint(4, 80), 10)
    kind = rng.randrange(steps)
    box = f"A box is {a} cm long, {b} cm wide and {c} cm high."
    if kind == 0:
        return _with_unit(f"{box} What is its surface area?", Fraction(2 * (a * b + b * c + a * c)), "cm^2")
    if kind == 1:
        return _with_unit(f"{box} How many millilitres of water does it hold?", Fraction(a * b * c), "ml")
    if kind == 2:
        text = f"A block of {a} cm by {b} cm by {c} cm has a density of {decimal(density)} g/cm^3. What is its mass?"
        return _with_unit(text, a * b * c * density / 1000, "kg")
    base, level = rng.randint(most, 3 * most), rng.randint(2, 9)
    text = (
        f"A block of {a} cm by {b} cm by {c} cm is put under the water of a tank that is high enough, with a floor of"
    )
    text += f" {base} cm by {base + level} cm. By how much does the water rise?"
    return _with_unit(text, Fraction(a * b * c, base * (base + level)), "cm")


START = datetime.date(1900, 3, 1)


def ask_date(rng: random.Random, *, days: int) -> Question:
    """A date so many days, weeks or months before or after another."""
    day = START + datetime.timedelta(days=rng.randrange(73_000))
    count = rng.randint(days // 4, days)
    kind = rng.randrange(3)
    if kind == 2:
        months = rng.randint(1, max(2, days // 30))
        month = day.month - 1 + months
        first = datetime.date(day.year + month // 12, month % 12 + 1, 1)
        last = datetime.date(first.year + first.month // 12, first.month % 12 + 1, 1) - datetime.timedelta(days=1)
        text = (
            f"What is the last day of the month that comes {months} month{'s' * (months > 1)} after the month of {day}?"
        )
        found = last
    else:
        found = day + datetime.timedelta(days=count if kind else -count)
        text = f"Which date is {count} days {'after' if kind else 'before'} {day}?"
    return Question(f"{text} (Gregorian calendar, dates as year-month-day.) Answer like 2024-02-29.", str(found))


_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")


def judge_date(answer: str, task: Task) -> float:
    """Year, month and day, in this order, also without leading zeros of month and day."""
    match = _DATE.fullmatch(plain(answer))
    return float(match is not None and "-".join(part.rjust(2, "0") for part in match.groups()) == task.reference)


WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def ask_calendar(rng: random.Random, *, years: int) -> Question:
    """Days between two dates with their weekdays; or how many of a weekday lie between."""
    day = START + datetime.timedelta(days=rng.randrange(60_000))
    later = day + datetime.timedelta(days=rng.randint(20, 365 * years))
    weekday = rng.randrange(7)
    if rng.random() < 0.5:
        text = f"{day} is a {WEEKDAYS[day.weekday()]}. How many days later is {later}, and which weekday is it?"
        gold = f"{(later - day).days} {WEEKDAYS[later.weekday()]}"
    else:
        first = (weekday - day.weekday()) % 7
        count = ((later - day).days - first) // 7 + 1
        text = f"{day} is a {WEEKDAYS[day.weekday()]}. How many {WEEKDAYS[weekday]}s are there from {day} to {later},"
        text += f" both included, and which weekday is {later}?"
        gold = f"{count} {WEEKDAYS[later.weekday()]}"
    return Question(f"{text} (Dates as year-month-day.) Answer with the number and the weekday, like 45 Friday.", gold)


def ask_clock(rng: random.Random, *, most: int, shifts: int) -> Question:
    """Times of day across midnight, time zones, and clocks that run wrong."""
    start = rng.randrange(24 * 60)
    minutes = rng.randint(most // 3, most)
    text = f"It is {_time(start)} in town A."
    zone = 0
    for name in "BCD"[:shifts]:
        shift = rng.choice([-570, -480, -300, -180, -60, 60, 120, 330, 345, 480])
        zone += shift
        before = chr(ord(name) - 1)
        size = f"{abs(shift) // 60}:{abs(shift) % 60:02d} hours"
        text += f" Clocks in town {name} are {size} {'ahead of' if shift > 0 else 'behind'} those in town {before}."
    text += (
        f" What time do clocks show in town {'ABCD'[shifts]} {minutes // 60} hours and {minutes % 60} minutes from now?"
    )
    return Question(f"{text} Answer like 07:45 (24 hours).", _time(start + zone + minutes))


def _time(minutes: int) -> str:
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})")


def judge_time(answer: str, task: Task) -> float:
    """Hours and minutes, also without a leading zero of the hours."""
    match = _TIME.fullmatch(plain(answer))
    return float(match is not None and f"{match.group(1).rjust(2, '0')}:{match.group(2)}" == task.reference)


SKILLS = [
    skill(
        "unit_conversion",
        ask_conversion,
        judge_quantity,
        {"kinds": [3], "digits": 1},
        {"kinds": [0, 1, 2, 3], "digits": 2},
        {"kinds": [0, 1, 2], "digits": 5},
    ),
    skill(
        "motion",
        ask_motion,
        judge_quantity,
        {"most": 20, "delay": False},
        {"most": 90, "delay": True},
        {"most": 300, "delay": True},
    ),
    skill(
        "work_together",
        ask_work,
        judge_quantity,
        {"workers": 2, "change": False},
        {"workers": 2, "change": True},
        {"workers": 4, "change": True},
    ),
    skill(
        "mixtures",
        ask_mixture,
        judge_quantity,
        {"parts": 2, "most": 5},
        {"parts": 3, "most": 12},
        {"parts": 5, "most": 60},
    ),
    skill(
        "interest",
        ask_interest,
        judge_quantity,
        {"years": 2, "most": 9},
        {"years": 4, "most": 40},
        {"years": 6, "most": 400},
    ),
    skill(
        "solids",
        ask_solids,
        judge_quantity,
        {"most": 9, "steps": 2},
        {"most": 20, "steps": 4},
        {"most": 90, "steps": 4},
    ),
    skill("date_shift", ask_date, judge_date, {"days": 40}, {"days": 400}, {"days": 20000}),
    skill("calendar", ask_calendar, same_words, {"years": 1}, {"years": 5}, {"years": 60}),
    skill(
        "clocks",
        ask_clock,
        judge_time,
        {"most": 300, "shifts": 0},
        {"most": 1500, "shifts": 1},
        {"most": 6000, "shifts": 3},
    ),
]
