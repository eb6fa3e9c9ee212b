"""Records out of talk: corrections, votes that change, mails that quote mails, duplicates merged, gaps left null.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.extraction.judging import asked_set, asked_value, judge_set, judge_value, levels
from envs.families.extraction.words import FIRMS, GOODS, NAMES, ONES, SURNAMES, TOWNS, WEEKDAYS, some_day, spoken
from envs.families.structured.worlds import COLOURS
from envs.skills import Question, Skill

# ---- corrections -----------------------------------------------------------------------------------------------------


def _fields(rng: random.Random) -> dict[str, Any]:
    return {
        "item": rng.choice(GOODS),
        "count": rng.randint(2, 40),
        "colour": rng.choice(COLOURS),
        "town": rng.choice(TOWNS),
        "day": rng.choice(WEEKDAYS),
    }


def ask_corrections(rng: random.Random, changes: int, partial: bool) -> Question:
    """An order in a chat in which things are corrected, also back again and by mistake."""
    name, clerk = rng.sample(NAMES, 2)
    order = _fields(rng)
    told = [
        f"{name}: I need {order['count']} {order['item']}s in {order['colour']}, "
        f"sent to {order['town']} on {order['day']}."
    ]
    history = {key: [value] for key, value in order.items()}
    for _ in range(changes):
        key = rng.choice(list(order))
        old = order[key]
        new = rng.choice([one for one in (_fields(rng)[key] for _ in range(40)) if one != old])
        kind = rng.randrange(5)
        thing = f"{new}s" if key == "item" else new
        was = f"{old}s" if key == "item" else old
        if kind == 0:
            told.append(f"{name}: No, {thing}, not {was}.")
        elif kind == 1:
            told.append(f"{name}: Sorry, for the {key} I meant {thing}.")
        elif kind == 2:
            told += [f"{clerk}: So the {key} is {thing}?", f"{name}: No, as I said."]
            continue
        elif kind == 3 and len(history[key]) > 1:
            new = history[key][0]
            told.append(f"{name}: About the {key}: what I wrote at first was right.")
        else:
            told += [f"{clerk}: Would {thing} do instead of {was}?", f"{name}: Yes, do that."]
        order[key] = new
        history[key].append(new)
    text = (
        "\n".join(told) + '\n\nWrite what is ordered in the end as a JSON object: "item" (singular), "count" (a '
        'number), "colour", "town", "day".'
    )
    return asked_value(text, order, partial)


# ---- votes -----------------------------------------------------------------------------------------------------------


def ask_votes(rng: random.Random, people: int, moves: int, partial: bool) -> Question:
    """Who has voted for what in the end, and which option leads."""
    names = rng.sample(NAMES, people)
    options = rng.sample(TOWNS, 3)
    votes: dict[str, str | None] = dict.fromkeys(names)
    told = [f"Vote: {', '.join(options)}?"]
    for number in range(people + moves):
        name = names[number] if number < people else rng.choice(names)
        others = [one for one in names if one != name and votes[one]]
        kind = rng.randrange(6)
        if kind == 0 and others:
            other = rng.choice(others)
            told.append(f"{name}: the same as {other} has now.")
            votes[name] = votes[other]
        elif kind == 1 and votes[name]:
            told.append(f"{name}: I take my vote back.")
            votes[name] = None
        elif kind == 2 and number >= people:
            told.append(f"{name}: {rng.choice(options)} would be nice if it were nearer.")
        elif kind == 3 and votes[name]:
            choice = next(one for one in options if one != votes[name])
            told.append(f"{name}: not {votes[name]} any more, {choice}.")
            votes[name] = choice
        else:
            choice = rng.choice(options)
            told.append(f"{name}: {choice}!")
            votes[name] = choice
    text = (
        "\n".join(told) + "\n\nOnly the last vote of each person counts; wishes are no votes, and a copied vote does "
        "not change with the other's. Write a JSON object of the votes in the end, names to options, null where there "
        "is none."
    )
    return asked_value(text, votes, partial)


# ---- mails that quote mails ------------------------------------------------------------------------------------------


def ask_mail_thread(rng: random.Random, mails: int, partial: bool) -> Question:
    """A mail with the earlier ones quoted below: who wrote which, and what holds by the newest."""
    names = rng.sample(NAMES, 3)
    value: dict[str, Any] = {"room": None, "hour": None, "guests": None}
    blocks: list[list[str]] = []
    writers: list[str] = []
    for number in range(mails):
        writer = rng.choice([name for name in names if not writers or name != writers[-1]])
        writers.append(writer)
        keys = rng.sample(list(value), rng.randint(1, 2)) if number else rng.sample(list(value), 2)
        lines = []
        for key in keys:
            value[key] = {"room": rng.choice("ABCDEFGH"), "hour": rng.randint(8, 18), "guests": rng.randint(5, 60)}[key]
            forms = {
                "room": f"We are in room {value[key]}.",
                "hour": f"We begin at {value[key]} o'clock.",
                "guests": f"{value[key]} guests have said yes so far.",
            }
            lines.append(forms[key])
        blocks.append([f"From: {writer}", *lines])
    shown = [f"{'> ' * depth}{line}" for depth, block in enumerate(reversed(blocks)) for line in block]
    wanted = {"first_writer": writers[0], "last_writer": writers[-1], **value} if mails > 1 else value
    text = (
        "\n".join(shown) + "\n\nLines with > are quoted: the more of them, the earlier the mail. The newest statement "
        f"holds. Write a JSON object with the keys {', '.join(wanted)}; hour and guests are numbers, what nobody says "
        "is null."
    )
    return asked_value(text, wanted, partial)


# ---- duplicates ------------------------------------------------------------------------------------------------------


def ask_duplicates(rng: random.Random, people: int, copies: int, partial: bool) -> Question:
    """Contacts that stand in a list more than once, merged by their number."""
    records: list[list[Any]] = []
    lines: list[tuple[int, str]] = []
    numbers = rng.sample(range(10_000, 99_999), people)
    for number, surname in zip(numbers, rng.sample(SURNAMES, people), strict=True):
        name = f"{rng.choice(NAMES)} {surname}"
        town = rng.choice(TOWNS) if rng.random() < 0.7 else None
        firm = rng.choice(FIRMS) if rng.random() < 0.7 else None
        times = rng.randint(1, copies)
        digits = str(number)
        shapes = [f"555-{digits}", f"(555) {digits}", f"555 {digits[:2]} {digits[2:]}", f"+1 555 {digits}"]
        initial = f"{name[0]}. {surname}"
        places = [rng.randrange(times), rng.randrange(times), rng.randrange(times)]
        for copy in range(times):
            shown = name if copy == places[0] else rng.choice([initial, name.upper(), name])
            parts = [shown, rng.choice(shapes)]
            parts += [town] if town and copy == places[1] else []
            parts += [firm] if firm and copy == places[2] else []
            lines.append((number, "; ".join(parts)))
        records.append([name, f"555{digits}", town, firm])
    rng.shuffle(lines)
    text = (
        "Contacts (name; phone; perhaps town; perhaps firm):\n"
        + "\n".join(line for _, line in lines)
        + "\n\nLines with the same phone are the same person; +1 is the code of the country and does not count. Write "
        'each person once, as a JSON array of ["full name", "phone", town, firm] in any order: names as Ada Klein, '
        "phones as eight digits, null for what no line tells."
    )
    return asked_set(text, records, partial)


# ---- gaps ------------------------------------------------------------------------------------------------------------


def ask_product_sheet(rng: random.Random, fields: int, noise: int, partial: bool) -> Question:
    """A product's facts; those that the text gives of something else, or not at all, are null."""
    good, other = rng.sample(GOODS, 2)
    keys = rng.sample(["colour", "price", "weight_kg", "warranty_years", "maker", "stock", "since"], fields)
    value: dict[str, Any] = {}
    told = []
    for place, key in enumerate(keys):
        day = some_day(rng)
        drawn, own, foreign = {
            "colour": (rng.choice(COLOURS), "It comes in {x}.", "The box comes in {x}."),
            "price": (rng.randint(5, 90), "It costs {x} euros.", "A {o} costs {x} euros."),
            "weight_kg": (rng.randint(2, 40), "It weighs {x} kg.", "With a {o} on top, both weigh {x} kg."),
            "warranty_years": (
                rng.randint(2, 9),
                "It has a warranty of {w} years.",
                "The {o} has {w} years of warranty.",
            ),
            "maker": (rng.choice(FIRMS), "{x} makes it.", "{x} makes only the box."),
            "stock": (rng.randint(2, 60), "There are {x} in stock.", "{x} have been sold."),
            "since": (
                day.isoformat(),
                "It has been on sale since {d}.",
                "It was to be on sale from {d} on, but was not.",
            ),
        }[key]
        kind = 0 if place == 0 else rng.choice([0, 0, 1, 2]) if noise else rng.choice([0, 0, 2])
        value[key] = drawn if kind == 0 else None
        words = ONES[drawn] if isinstance(drawn, int) and drawn < len(ONES) else str(drawn)
        if kind < 2:
            told.append((own, foreign)[kind].format(x=drawn, o=other, w=words, d=spoken(day)))
    rng.shuffle(told)
    text = (
        f"About this {good}: " + " ".join(told) + f"\n\nWrite a JSON object with the keys {', '.join(keys)}, for the "
        f"{good} itself; numbers as numbers, days as YYYY-MM-DD, null for what the text does not say of it."
    )
    return asked_value(text, value, partial)


SKILLS = [
    Skill(name="corrections", ask=ask_corrections, judge=judge_value, levels=levels("changes", 1, 4, 10)),
    Skill(name="votes", ask=ask_votes, judge=judge_value, levels=levels("people", 2, 4, 7, moves=(1, 4, 10))),
    Skill(name="mail_thread", ask=ask_mail_thread, judge=judge_value, levels=levels("mails", 1, 3, 6)),
    Skill(name="duplicates", ask=ask_duplicates, judge=judge_set, levels=levels("people", 1, 3, 7, copies=(2, 3, 4))),
    Skill(
        name="product_sheet",
        ask=ask_product_sheet,
        judge=judge_value,
        levels=levels("fields", 3, 5, 7, noise=(0, 1, 1)),
    ),
]
