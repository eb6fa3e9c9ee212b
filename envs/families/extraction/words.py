"""Names and phrases that the documents are made of, and dates as people say them.

In: a random stream.  Out: words and dates.  Called by the skills of this family.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence

from envs.families.structured.worlds import GOODS, MONTHS, NAMES, SURNAMES, TOWNS

__all__ = ["FIRMS", "GOODS", "MONTHS", "NAMES", "ORDINALS", "SURNAMES", "TOWNS", "TRADES", "WEEKDAYS"]
FIRMS = "Arcada,Belmont Ltd,Corvus,Dalton & Sons,Elmira Group,Fjord Works,Granite Bank,Helios,Ivory Mills".split(",")
TRADES = "baker doctor farmer lawyer nurse painter pilot potter sailor tailor teacher waiter".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ORDINALS = ("first", "second", "third", "fourth")
ONES = "zero one two three four five six seven eight nine ten eleven twelve".split()


def some_day(rng: random.Random, year: int | None = None) -> datetime.date:
    """A day of a year, or of the years about now."""
    first = datetime.date(year or rng.randint(2019, 2027), 1, 1)
    return first + datetime.timedelta(days=rng.randrange(365))


def spoken(day: datetime.date, year: bool = True) -> str:
    """`3 May 2024`, or `3 May`."""
    return f"{day.day} {MONTHS[day.month - 1]}" + (f" {day.year}" if year else "")


def after(day: datetime.date, weekday: int) -> datetime.date:
    """The first such weekday after the day, never the day itself."""
    return day + datetime.timedelta(days=(weekday - day.weekday() - 1) % 7 + 1)


def before(day: datetime.date, weekday: int) -> datetime.date:
    """The last such weekday before the day, never the day itself."""
    return day - datetime.timedelta(days=(day.weekday() - weekday - 1) % 7 + 1)


def months_later(day: datetime.date, months: int) -> datetime.date:
    """The same day of a later month; only for days up to the 28th."""
    count = day.year * 12 + day.month - 1 + months
    return day.replace(year=count // 12, month=count % 12 + 1)


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
