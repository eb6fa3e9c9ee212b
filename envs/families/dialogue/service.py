"""Conversations at a service desk: bookings, rules that forbid, confirmations, preferences, handing over.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.families.dialogue.script import (
    CITIES,
    DAYS,
    HOW,
    NAMES,
    SURNAMES,
    Script,
    Strict,
    listed,
    numbered,
    say,
    scripted,
)
from envs.talk import Game, Opening, Reply

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()

# ---- slots -----------------------------------------------------------------------------------------------------------

SERVICES: dict[str, tuple[str, ...]] = {
    "a table in a restaurant": ("name", "day", "time", "people", "area"),
    "a seat on a ferry": ("name", "day", "port", "people", "cabin"),
    "a hotel room": ("name", "day", "nights", "people", "view"),
    "a guided tour": ("name", "day", "time", "people", "language"),
    "a rental car": ("name", "day", "time", "port", "size"),
}
CHOICES: dict[str, tuple[str, ...]] = {
    "area": ("terrace", "garden", "hall", "bar"),
    "cabin": ("inside", "outside", "none"),
    "view": ("sea", "garden", "street"),
    "language": ("English", "French", "German", "Spanish"),
    "size": ("small", "medium", "large"),
    "port": CITIES,
    "day": DAYS,
}


OCCASIONS = tuple(
    f"because of {reason}"
    for reason in (
        "a birthday, a wedding, a visit, old friends, a new job, my parents, a holiday, a bet, a conference, "
        "a reunion, an exam, a silver jubilee, my neighbours, a prize that I won"
    ).split(", ")
)
PLACE_NAMES = "Anchor Bellevue Castello Dragon Elephant Fig Garden Harbour Iris Jasmine Kiosk Lantern Mill Nest".split()


def _slot(rng: random.Random, slot: str, hard: bool) -> tuple[str, str]:
    """A value in its canonical form, and as a person says it."""
    if slot == "name":
        name = f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}"
        return name, say(rng, "the name is {v}", "it goes under {v}", "my name is {v}", v=name)
    if slot == "time":
        hour, half = rng.randint(1, 11), rng.random() < 0.5
        if hard:
            part = rng.choice(["morning", "evening"])
            spoken = f"{'half past ' if half else ''}{NUMBERS[hour]}{'' if half else ' sharp'} in the {part}"
            return f"{hour + 12 * (part == 'evening'):02d}:{30 * half:02d}", f"at {spoken}"
        value = f"{hour + 10:02d}:{30 * half:02d}"
        return value, say(rng, "at {v}", "the time should be {v}", "{v} suits us", v=value)
    if slot == "people":
        first, second = rng.randint(1, 5), rng.randint(1, 5)
        if hard:
            adults = f"{NUMBERS[first]} adult{'s' * (first > 1)}"
            return str(first + second), f"we are {adults} and {NUMBERS[second]} {'children' if second > 1 else 'child'}"
        return str(first), say(rng, "for {v} in all", "the number of people is {v}", v=first)
    if slot == "nights":
        count = rng.randint(1, 9)
        weeks = hard and count in (7,)
        return str(count), "for a week" if weeks else say(rng, "nights: {v}", "the nights would be {v} in all", v=count)
    value = rng.choice(CHOICES[slot])
    ways = {
        "day": ("on {v}", "{v} is the day", "it should be {v}"),
        "area": ("we like the {v}", "in the {v}, please", "the {v} would be the right area"),
        "cabin": ("as the cabin, {v}", "for the cabin we say {v}"),
        "view": ("with the {v} view", "the view: {v}"),
        "language": ("in {v}, please", "the guide should speak {v}"),
        "size": ("a {v} one", "the size is {v}"),
        "port": ("from {v}", "we start in {v}", "{v} is where we begin"),
    }[slot]
    return value, say(rng, *ways, v=value)


def draw_booking(rng: random.Random, missing: int, extra: float, corrected: float, hard: bool) -> Opening:
    """Some slots are given, the others must be asked for; people add and correct things on the way."""
    service = rng.choice(list(SERVICES))
    slots = SERVICES[service]
    values = {slot: _slot(rng, slot, hard) for slot in slots}
    gaps = rng.sample(slots, missing)
    given = [slot for slot in slots if slot not in gaps]
    final = {slot: value for slot, (value, _) in values.items()}
    answers: dict[str, dict[str, Any]] = {}
    for slot in gaps:
        text = values[slot][1]
        added = [other for other in gaps if other != slot and rng.random() < extra]
        spoken = [text, *(values[other][1] for other in added[:1])]
        answers[slot] = {"text": f"{' and '.join(spoken)}.", "adds": added[:1]}
    correction: list[str] = []
    if rng.random() < corrected:
        slot = rng.choice([one for one in given if one not in ("time", "people", "nights")] or ["name"])
        value, spoken_value = _slot(rng, slot, hard)
        if slot in given and value != final[slot]:
            correction = [slot, value, f"Wait, I said something wrong before about the {slot}: {spoken_value}."]
            final[slot] = value
    opening = say(rng, "Hello, I want to book {s}", "Good day, I would like {s}", "Please get me {s}", s=service)
    occasion = rng.choice(OCCASIONS)
    opening = rng.choice([f"{opening}, {occasion}", f"{opening} {occasion}", opening])
    said = ", ".join([opening, *(values[slot][1] for slot in given)])
    system = (
        f"You take bookings for {service} at the house {rng.choice(PLACE_NAMES)}. A booking needs: {', '.join(slots)}. "
        "Where something is missing, ask for it, one thing at a time, in any order, with ASK and its name, such as: "
        "ASK day. Never ask for what the user has said already, also on the side. When everything is known, and not "
        "before, write BOOK with all of it: "
        f"{'; '.join(f'BOOK {slot}=...' if not place else f'{slot}=...' for place, slot in enumerate(slots))}. Values: "
        "a name as first name and surname; a day as its English name; a time as HH:MM on the 24-hour clock; numbers in "
        "digits (people: all of them together); other values as one word that the user used. What the user corrects "
        f"counts as corrected.\n\n{HOW}"
    )
    facts = {"slots": list(slots), "given": given, "final": final, "answers": answers, "correction": correction}
    wanted = "; ".join(f"{slot}={final[slot]}" for slot in slots)
    return Opening(text=f"{said}.", system=system, facts=facts, reference=f"BOOK {wanted}")


class Booking(Strict):
    """Asks in any order; the correction comes with the answer to the first question."""

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.known = set(facts["given"])
        self.asked = 0

    def wanted(self) -> Sequence[str]:
        gaps = [slot for slot in self.facts["slots"] if slot not in self.known]
        if gaps:
            return [f"ASK {slot}" for slot in gaps]
        return ["BOOK " + "; ".join(f"{slot}={self.facts['final'][slot]}" for slot in self.facts["slots"])]

    def go(self, command: str) -> Reply:
        if command.startswith("BOOK"):
            return Reply("Thank you.", done=True)
        slot = command.split()[1]
        answer = self.facts["answers"][slot]
        self.known |= {slot, *answer["adds"]}
        self.asked += 1
        text = answer["text"][0].upper() + answer["text"][1:]
        if self.asked == 1 and self.facts["correction"]:
            text = f"{text} {self.facts['correction'][2]}"
        return Reply(text)


# ---- rules that forbid -----------------------------------------------------------------------------------------------


def draw_refusals(rng: random.Random, rules: int, turns: int, double: float) -> Opening:
    """A library desk: each request is done, or refused with the number of the rule that forbids it."""
    age, loans, fee, weeks = rng.randint(12, 18), rng.randint(3, 8), rng.randint(5, 20), rng.randint(2, 6)
    closed = rng.choice(DAYS)
    pool = {
        "age": f"Films are lent only to people of {age} years or more.",
        "loans": f"Nobody may have more than {loans} things on loan at a time, the new one included.",
        "fee": f"Nothing is lent to people who owe more than {fee} euros.",
        "weeks": f"A loan lasts at most {weeks} weeks.",
        "closed": f"Nothing may be picked up on a {closed}.",
        "atlas": "Atlases and maps stay in the house.",
        "member": "Only people with a card of our library may borrow.",
        "food": "People who bring food in get nothing.",
    }
    keys = rng.sample(list(pool), rules)

    def request() -> tuple[str, list[str]]:
        broken = set(rng.sample(keys, 1 + (rng.random() < double))) if rng.random() < 0.5 else set()
        thing = "film" if "age" in broken else rng.choice(["novel", "comic", "film", "cookbook"])
        thing = rng.choice(["atlas", "map"]) if "atlas" in broken and "age" not in broken else thing
        if "atlas" in broken and thing == "film":
            broken -= {"atlas"}
        years = rng.randint(age - 5, age - 1) if "age" in broken else rng.randint(age, age + 40)
        have = rng.randint(loans, loans + 3) if "loans" in broken else rng.randint(0, loans - 1)
        owed = rng.randint(fee + 1, fee + 9) if "fee" in broken else rng.randint(0, fee)
        long = rng.randint(weeks + 1, weeks + 4) if "weeks" in broken else rng.randint(1, weeks)
        day = closed if "closed" in broken else rng.choice([day for day in DAYS if day != closed])
        card = "no card of yours" if "member" in broken else "a card of your library"
        bag = "a sandwich in my hand" if "food" in broken else rng.choice(["an umbrella", "a newspaper", "a new hat"])
        parts = [
            f"I am {years} years old",
            f"I have {have} thing{'s' * (have != 1)} on loan so far",
            f"I owe you {owed} euro{'s' * (owed != 1)}",
            f"I have {card}",
            f"I come in with {bag}",
        ]
        rng.shuffle(parts)
        name = f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}"
        head = say(
            rng,
            "{n} here. May I borrow {t} for {w} week{s} and pick it up on {d}?",
            "My name is {n}. On {d} I would like to fetch {t} and keep it for {w} week{s}.",
            n=name,
            t=f"{'an' if thing == 'atlas' else 'a'} {thing}",
            w=long,
            s="s" * (long != 1),
            d=day,
        )
        numbers = sorted(keys.index(key) + 1 for key in broken)
        return f"{head} {', '.join(parts)}.", [f"REFUSE {numbers[0]}" if numbers else "LEND"]

    system = (
        f"You work at the desk of a library. These are its only rules:\n{numbered([pool[key] for key in keys])}\n\n"
        f"{turns} people come, one after the other, and all they say is true. Write LEND where no rule forbids the "
        "request, or else REFUSE and the number of the rule that does (the lowest number, where several do), such as: "
        "REFUSE 2"
    )
    return scripted(system, [request() for _ in range(turns)])


# ---- confirmation ----------------------------------------------------------------------------------------------------


def draw_confirmation(rng: random.Random, turns: int, changes: float) -> Opening:
    """Irreversible actions are confirmed first, and done only after a clear yes; others are done at once."""
    verbs = ["delete", "publish", "send", "archive", "rename", "copy", "lock", "print", "erase", "share"]
    verbs = rng.sample(verbs, 6)
    final, free = sorted(verbs[:3]), sorted(verbs[3:])
    objects = rng.sample("budget contract invoice letter logo menu minutes photo plan poster report survey".split(), 10)
    script: list[tuple[str, list[str]]] = []
    for _ in range(turns):
        verb, thing = rng.choice(rng.choice([final, free])), rng.choice(objects)
        ask = say(rng, "Please {v} the {t}.", "Could you {v} the {t}?", "Next, {v} the {t} for me.", v=verb, t=thing)
        if verb in free:
            script.append((ask, [f"DO {verb} {thing}"]))
            continue
        script.append((ask, [f"CONFIRM {verb} {thing}"]))
        while rng.random() < changes:
            thing = rng.choice([other for other in objects if other != thing])
            change = say(
                rng, "Oh no, I meant the {t}.", "Stop, not that one. The {t}!", "Take the {t} instead.", t=thing
            )
            script.append((change, [f"CONFIRM {verb} {thing}"]))
        if rng.random() < 0.6:
            yes = say(rng, "Yes, go ahead.", "That is right, do it.", "Sure, I know what that means.", "Yes, please.")
            script.append((yes, [f"DO {verb} {thing}"]))
        else:
            no = say(rng, "No, better leave it.", "Hm, I would rather not.", "Forget it.", "No, do not do that.")
            script.append((no, ["CANCEL"]))
    system = (
        f"You look after a user's documents. These actions cannot be undone: {listed(final)}. These can: "
        f"{listed(free)}. Do what can be undone at once, with DO, the action and the document, such as: DO copy "
        "letter. Before anything that cannot be undone, write CONFIRM, the action and the document, such as: CONFIRM "
        "send letter. After a yes, write DO with the same; after a no, write CANCEL; where the user names another "
        "document, confirm anew."
    )
    return scripted(system, script)


# ---- preferences -----------------------------------------------------------------------------------------------------

TRAITS = {
    "kitchen": ("Greek", "Indian", "Thai", "French"),
    "area": ("north", "south", "centre"),
    "music": ("live", "none"),
}


def draw_preferences(rng: random.Random, places: int, turns: int) -> Opening:
    """Wishes come, change and go; after each message the cheapest place that fits all of them is to be named."""
    names = sorted(rng.sample(PLACE_NAMES, places))
    prices = rng.sample(range(8, 60), places)
    rows: list[dict[str, Any]] = [
        {"name": name, "price": price, **{trait: rng.choice(values) for trait, values in TRAITS.items()}}
        for name, price in zip(names, prices, strict=True)
    ]
    wishes: dict[str, str] = {}
    least = 0
    script: list[tuple[str, list[str]]] = []
    for turn in range(turns):
        move = rng.choice(["set", "set", "drop", "price"]) if turn else "set"
        if move == "drop" and wishes:
            trait = rng.choice(sorted(wishes))
            del wishes[trait]
            text = say(rng, "The {t} does not matter any more.", "Forget what I said about the {t}.", t=trait)
        elif move == "price":
            least = rng.choice(sorted(prices)[: (places + 1) // 2]) + 1
            text = say(
                rng, "It should cost at least {p}, I am paying as a treat.", "Nothing below {p}, please.", p=least
            )
        else:
            trait = rng.choice(list(TRAITS))
            others = {one: value for one, value in wishes.items() if one != trait}
            fits = [row for row in rows if row["price"] >= least and all(row[one] == v for one, v in others.items())]
            values = [row[trait] for row in fits if row[trait] != wishes.get(trait)]
            if not values or rng.random() < 0.15:  # a wish that may leave nothing
                values = [one for one in TRAITS[trait] if one != wishes.get(trait)]
            value = rng.choice(values)
            wishes[trait] = value
            text = say(
                rng, "As for the {t}, I want {v}.", "The {t} should be {v} now.", "{t}: {v}, please.", t=trait, v=value
            )
        fits = [
            row for row in rows if row["price"] >= least and all(row[trait] == value for trait, value in wishes.items())
        ]
        best = min(fits, key=lambda row: row["price"], default=None)
        script.append((text[0].upper() + text[1:], [f"PICK {best['name']}" if best else "NONE"]))
    table = "\n".join(
        f"{row['name']}: kitchen {row['kitchen']}, area {row['area']}, music {row['music']}, price {row['price']}"
        for row in rows
    )
    system = (
        f"You recommend restaurants. These are all of them:\n{table}\n\nAfter every message of the user, write PICK "
        "and the name of the cheapest restaurant that fits all wishes in force, such as: PICK Fig. Where none fits, "
        "write NONE. A wish stays in force until the user changes or drops it; a new one on the same matter (also on "
        "the lowest price) replaces the old one."
    )
    return scripted(system, script)


GAMES = [
    Game(
        name="booking",
        draw=draw_booking,
        start=Booking,
        turns=8,
        levels={
            "easy": {"missing": 1, "extra": 0.0, "corrected": 0.0, "hard": False},
            "medium": {"missing": 3, "extra": 0.4, "corrected": 0.5, "hard": False},
            "hard": {"missing": 4, "extra": 0.6, "corrected": 0.8, "hard": True},
        },
    ),
    Game(
        name="refuse_by_rule",
        draw=draw_refusals,
        start=Script,
        turns=8,
        levels={
            "easy": {"rules": 3, "turns": 2, "double": 0.0},
            "medium": {"rules": 5, "turns": 4, "double": 0.3},
            "hard": {"rules": 8, "turns": 8, "double": 0.6},
        },
    ),
    Game(
        name="confirm_first",
        draw=draw_confirmation,
        start=Script,
        turns=40,
        levels={
            "easy": {"turns": 2, "changes": 0.0},
            "medium": {"turns": 4, "changes": 0.25},
            "hard": {"turns": 6, "changes": 0.4},
        },
    ),
    Game(
        name="changing_wishes",
        draw=draw_preferences,
        start=Script,
        turns=8,
        levels={
            "easy": {"places": 4, "turns": 2},
            "medium": {"places": 8, "turns": 4},
            "hard": {"places": 14, "turns": 8},
        },
    ),
]
