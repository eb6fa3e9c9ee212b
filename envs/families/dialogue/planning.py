"""Conversations with a state to keep: a meeting of many, a shared list, an order that is read back, a haggle.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.families.dialogue.script import DAYS, HOW, NAMES, Script, Strict, listed, say, scripted
from envs.talk import Game, Opening, Reply

# ---- a meeting -------------------------------------------------------------------------------------------------------


def draw_meeting(rng: random.Random, people: int, days: int, retract: float) -> Opening:
    """Everybody is asked once; then the earliest slot that suits all is proposed, until nobody backs out."""
    names = rng.sample(NAMES, people)
    slots = [f"{day} {hour}" for day in DAYS[:days] for hour in (9, 11, 14, 16)]
    for _ in range(1000):
        free = {
            name: sorted(rng.sample(range(len(slots)), rng.randint(len(slots) // 2, len(slots) - 1))) for name in names
        }
        common = [slot for slot in range(len(slots)) if all(slot in own for own in free.values())]
        if common or rng.random() < 0.1:
            break
    spoken = {}
    for name, own in free.items():
        missing = [slots[slot] for slot in range(len(slots)) if slot not in own]
        if len(missing) < len(own):
            spoken[name] = say(
                rng,
                "I can do all of them except {m}.",
                "Not {m}. Anything else is fine.",
                "All slots but {m} suit me.",
                m=listed(missing, "and"),
            ).replace("Not", "Please not")
        else:
            mine = listed([slots[slot] for slot in own], "and")
            spoken[name] = say(rng, "I am free on {s}.", "Only {s} will do.", "{s}, nothing else.", s=mine)
    backs = []
    for _ in common:
        if rng.random() >= retract:
            break
        backs.append(f"{rng.choice(names)}: Sorry, that slot has just been taken. The others are as I said.")
    facts = {"names": names, "common": [slots[slot] for slot in common], "spoken": spoken, "backs": backs}
    system = (
        f"You arrange a meeting of {listed(names)}. The slots, from the earliest to the latest, are: "
        f"{', '.join(slots)}. Ask everybody once for the free slots, in any order, with ASK and the name, such as: ASK "
        "Zoe. When you have asked all of them, write PROPOSE and the earliest slot that suits all, such as: PROPOSE "
        "Monday 9. Where somebody backs out of it, this slot is gone; propose the next one that suits all. Where there "
        "is none (left), write NONE."
    )
    text = say(
        rng, "Please find a slot for us all.", "We need to meet soon.", "When can we all meet? Please arrange it."
    )
    return Opening(text=text, system=f"{system}\n\n{HOW}", facts=facts)


class Meeting(Strict):
    """First all questions, in any order, then the proposals, in theirs."""

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.open = list(facts["names"])
        self.proposed = 0

    def wanted(self) -> Sequence[str]:
        if self.open:
            return [f"ASK {name}" for name in self.open]
        common = self.facts["common"]
        return [f"PROPOSE {common[self.proposed]}"] if self.proposed < len(common) else ["NONE"]

    def go(self, command: str) -> Reply:
        verb, _, what = command.partition(" ")
        if verb == "ASK":
            self.open.remove(what)
            return Reply(f"{what}: {self.facts['spoken'][what]}")
        if verb == "PROPOSE" and self.proposed < len(self.facts["backs"]):
            self.proposed += 1
            return Reply(self.facts["backs"][self.proposed - 1])
        return Reply("Thank you, all of you.", done=True)


# ---- a shared list ---------------------------------------------------------------------------------------------------

GOODS = tuple(
    """apples beans bread butter candles carrots cheese cocoa coffee eggs flour grapes honey jam juice lemons lentils
    matches milk nuts oats oil onions pasta pears pepper plums rice salt soap spinach sugar tea yeast""".split()
)


def draw_list(rng: random.Random, start: int, turns: int, hard: bool) -> Opening:
    """Several people change one list; after every message the whole list is to be given."""
    goods = rng.sample(GOODS, len(GOODS))
    items = [goods.pop() for _ in range(start)]
    first = list(items)
    people = rng.sample(NAMES, 2 + hard)
    history = [list(items)]
    script: list[tuple[str, list[str]]] = []
    moves = ["add", "remove", "replace", "front"] + (["swap", "undo", "after", "reverse"] if hard else ["swap", "undo"])
    while len(script) < turns:
        move = rng.choice(moves)
        one, other = rng.sample(items, 2) if len(items) > 2 else (items[0], items[-1])
        new = goods[-1]
        before = list(items)
        if move == "add":
            items.append(new)
            text = say(rng, "add {n} at the end", "we also need {n}, put it last", n=new)
        elif move == "remove" and len(items) > 3:
            items.remove(one)
            text = say(rng, "take {o} off", "we have {o} already, so drop it", "no {o}, please", o=one)
        elif move == "replace":
            items[items.index(one)] = new
            text = say(rng, "{n} instead of {o}, in the same place", "make {o} into {n}", n=new, o=one)
        elif move == "front":
            items.remove(one)
            items.insert(0, one)
            text = say(rng, "move {o} to the top", "{o} should come first", o=one)
        elif move == "swap":
            a, b = items.index(one), items.index(other)
            items[a], items[b] = items[b], items[a]
            text = say(rng, "let {o} and {p} change places", "swap {o} and {p}", o=one, p=other)
        elif move == "after":
            items.insert(items.index(one) + 1, new)
            text = say(rng, "put {n} right after {o}", "{n}, just below {o}", n=new, o=one)
        elif move == "reverse":
            items.reverse()
            text = say(rng, "turn the whole list round", "read it from the end: reverse the list")
        elif move == "undo" and len(history) > 1:
            history.pop()
            items = list(history[-1])
            text = say(rng, "undo the last change that still stands", "take back the latest change still in force")
        if items == before:
            continue
        if new in items:
            goods.pop()
        if move != "undo":
            history.append(list(items))
        script.append((f"{rng.choice(people)}: {text[0].upper()}{text[1:]}.", [f"LIST {', '.join(items)}"]))
    system = (
        f"You keep the shopping list of {listed(people)}. At first it is: {', '.join(first)}. After every message, "
        "write LIST and the whole list in its order, separated by a comma and a space, such as: LIST tea, milk, soap. "
        "Everybody may change what others have added. An undo takes back the last change that has not been taken back "
        "yet, whoever made it, and is no change itself."
    )
    return scripted(system, script)


# ---- an order read back ----------------------------------------------------------------------------------------------

MENU = {
    "tea": 2,
    "coffee": 3,
    "soup": 5,
    "salad": 6,
    "pizza": 9,
    "cake": 4,
    "juice": 3,
    "pasta": 8,
    "toast": 4,
    "water": 1,
    "curry": 10,
    "waffle": 5,
}
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def draw_read_back(rng: random.Random, turns: int, changes: int, priced: bool) -> Opening:
    """An order that grows and changes; at the end it is summed up, corrected, and passed on only after a yes."""
    menu = sorted(rng.sample(list(MENU), 7))
    order: dict[str, int] = {}
    script: list[tuple[str, list[str]]] = []
    for _ in range(turns):
        dish = rng.choice([dish for dish in menu if dish not in order] or menu)
        if order and rng.random() < 0.4:
            dish = rng.choice(sorted(order))
            order[dish] = min(order[dish] + 1, 9)
            text = say(rng, "One more {d}.", "And another {d}, please.", "Make that one {d} more.", d=dish)
        else:
            order[dish] = min(order.get(dish, 0) + rng.randint(1, 3), 9)
            count = order[dish]
            text = say(rng, "In all I want {c} {d}.", "The {d}: {c} altogether.", c=COUNTS[count], d=dish)
        script.append((text, ["NOTED"]))
    script.append((say(rng, "That is all.", "Nothing else, thanks.", "So much for now."), [_summary(order, priced)]))
    for _ in range(rng.randint(0, changes)):
        dish = rng.choice(sorted(order))
        count = rng.choice([number for number in range(0 if len(order) > 1 else 1, 6) if number != order[dish]])
        order[dish] = count
        text = say(
            rng, "Not quite: {c} {d}.", "Almost. I want {c} {d} now.", "Hm, {c} {d} rather.", c=COUNTS[count], d=dish
        )
        if not count:
            del order[dish]
        script.append((text, [_summary(order, priced)]))
    script.append((say(rng, "Exactly.", "Yes, that is right.", "Perfect."), ["SUBMIT"]))
    prices = ", ".join(f"{dish} {MENU[dish]}" for dish in menu)
    money = "; total=8, where total is the price of all" if priced else ""
    system = (
        f"You take orders in a cafe. The menu with its prices is: {prices}. While the guest orders, write NOTED. When "
        "the guest has finished, write SUMMARY and the number of each thing ordered, in digits and in any order, such "
        f"as: SUMMARY tea=2; cake=1{money}. Leave out what is not wanted. When the guest changes something then, write "
        "the new SUMMARY. When the guest agrees, and not before, write SUBMIT."
    )
    return scripted(system, script)


def _summary(order: Mapping[str, int], priced: bool) -> str:
    """`_summary({"tea": 2}, True)` -> `"SUMMARY tea=2; total=4"`."""
    fields = [f"{dish}={count}" for dish, count in order.items()]
    total = sum(MENU[dish] * count for dish, count in order.items())
    return "SUMMARY " + "; ".join([*fields, *([f"total={total}"] if priced else [])])


# ---- a haggle --------------------------------------------------------------------------------------------------------


def draw_haggle(rng: random.Random, rounds: int, hard: bool) -> Opening:
    """Buying within a mandate: what to offer next, when to accept, and when to walk away follow from it."""
    thing = rng.choice("boat cart clock desk drum guitar lamp mirror organ piano sofa tent".split())
    ask = rng.randint(30, 90) * 10
    step = rng.randint(1, 4) * 10
    limit = ask - rng.randint(1, 4) * step - rng.randint(1, 9)
    first = limit - step * rng.randint(1, min(rounds, limit // (2 * step)))
    script: list[tuple[str, list[str]]] = []
    offer, price, extra = 0, ask, 0
    spoken = say(rng, "The {t} costs {p}.", "I want {p} for this {t}.", "For {p} the {t} is yours.", t=thing, p=ask)
    for turn in range(rounds + 1):
        total = price + extra
        if total <= limit:
            script.append((spoken, [f"ACCEPT {total}"]))
            break
        if turn == rounds:
            script.append((spoken, ["WALK"]))
            break
        offer = first if not offer else min(offer + step, limit)
        script.append((spoken, [f"OFFER {offer}"]))
        # The seller never asks for less than the offer that stands.
        cut = min(rng.choice([1, 2, 3]) * rng.choice([5, 10]), price - offer)
        way = rng.choice(["cut", "price", "same", *(["extra", "free"] if hard else [])])
        if way == "cut" and cut > 0:
            price -= cut
            spoken = say(
                rng, "I take {c} off my price.", "My price comes down by {c}.", "{c} less, because it is you.", c=cut
            )
        elif way == "price" and cut > 0:
            price -= cut
            spoken = say(rng, "No. {p}.", "I could let it go for {p}.", "Make it {p}.", p=price)
            spoken += " Delivery is on top, as before." if extra else ""
        elif way == "extra" and not extra:
            extra = rng.randint(1, 4) * 5
            spoken = f"The price stays, but I must add {extra} for delivery."
        elif way == "free" and extra:
            extra = 0
            spoken = "All right, delivery is free then. The price stays."
        else:
            spoken = say(rng, "No, I cannot move.", "My price stands.", "That is too little. Nothing changes.")
    system = (
        f"You buy a {thing} from a seller. Your mandate: pay at most {limit} in all, with everything on top. As soon "
        "as what the seller wants in all is within that, accept, with ACCEPT and this sum, such as: ACCEPT 250. As "
        f"long as it is not, make an offer, such as: OFFER 200. Your first offer is {first}; each further one is "
        f"{step} higher than the one before, but never above {limit}; there it stays. You may make {rounds} offers. "
        "When the seller still wants too much after the last of them, write WALK."
    )
    return scripted(system, script)


GAMES = [
    Game(
        name="meeting",
        draw=draw_meeting,
        start=Meeting,
        turns=32,
        levels={
            "easy": {"people": 2, "days": 1, "retract": 0.0},
            "medium": {"people": 3, "days": 2, "retract": 0.4},
            "hard": {"people": 5, "days": 5, "retract": 0.6},
        },
    ),
    Game(
        name="shared_list",
        draw=draw_list,
        start=Script,
        turns=10,
        levels={
            "easy": {"start": 3, "turns": 2, "hard": False},
            "medium": {"start": 4, "turns": 4, "hard": False},
            "hard": {"start": 7, "turns": 10, "hard": True},
        },
    ),
    Game(
        name="read_back",
        draw=draw_read_back,
        start=Script,
        turns=16,
        levels={
            "easy": {"turns": 2, "changes": 0, "priced": False},
            "medium": {"turns": 4, "changes": 2, "priced": False},
            "hard": {"turns": 8, "changes": 4, "priced": True},
        },
    ),
    Game(
        name="haggle",
        draw=draw_haggle,
        start=Script,
        turns=10,
        levels={
            "easy": {"rounds": 2, "hard": False},
            "medium": {"rounds": 4, "hard": False},
            "hard": {"rounds": 8, "hard": True},
        },
    ),
]
