"""Conversations by a stated protocol: triage, twenty questions, a tutor's hints, handing over to a person.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.families.dialogue.script import HOW, NAMES, Script, Strict, numbered, say, scripted
from envs.talk import Game, Opening, Reply

# ---- triage ----------------------------------------------------------------------------------------------------------

# What is asked -> the range of a number, its unit, and how people say it.
SIGNS: dict[str, tuple[int, int, str, tuple[str, ...]]] = {
    "noise": (30, 110, "decibels", ("The meter says {v} decibels.", "It is loud, {v} decibels.")),
    "oil": (0, 100, "percent", ("There is {v} percent of the oil left.", "Oil? {v} percent, it says.")),
    "heat": (20, 140, "degrees", ("It shows {v} degrees.", "We are at {v} degrees now.")),
    "pressure": (1, 40, "bar", ("The needle stands at {v} bar.", "It went up to {v} bar.")),
    "age": (1, 40, "years", ("We bought it {v} years ago, new.", "It has run for {v} years.")),
    "hours": (1, 24, "hours", ("It runs {v} hours a day.", "{v} hours a day, I would say.")),
    "belts": (0, 9, "belts", ("I count {v} of them with cracks.", "{v} of the belts are cracked.")),
    "leaks": (0, 9, "leaks", ("We have found {v} of them.", "{v}, all at the back.")),
}
LEVELS = ("stop", "repair", "watch", "ignore", "replace")


def draw_triage(rng: random.Random, steps: int) -> Opening:
    """A tree of steps: each asks for a number and says where to go on; the end is a level."""
    signs = rng.sample(list(SIGNS), steps)
    rules: list[dict[str, Any]] = []
    for place, sign in enumerate(signs):
        low, high, *_ = SIGNS[sign]
        limit = rng.randint(low + 1, high)
        later = list(range(place + 1, steps))
        high_to = rng.choice(later[1:]) if later[1:] and rng.random() < 0.7 else rng.choice(LEVELS)
        low_to = place + 1 if later else rng.choice([level for level in LEVELS if level != high_to])
        if rng.random() < 0.5:
            high_to, low_to = low_to, high_to
        rules.append({"sign": sign, "limit": limit, "high": high_to, "low": low_to})
    values = {}
    for rule in rules:
        low, high, *_ = SIGNS[rule["sign"]]
        side = rng.random() < 0.5
        if isinstance(rule["high"], int) != isinstance(rule["low"], int) and rng.random() < 0.6:
            side = isinstance(rule["high"], int)  # rather on than to an end, or else most talks were short
        values[rule["sign"]] = rng.randint(rule["limit"], high) if side else rng.randint(low, rule["limit"] - 1)
    spoken = {sign: say(rng, *SIGNS[sign][3], v=value) for sign, value in values.items()}
    lines = [
        f"Ask for {rule['sign']} ({SIGNS[rule['sign']][2]}). {rule['limit']} or more: {_goal(rule['high'])}. "
        f"Less: {_goal(rule['low'])}."
        for rule in rules
    ]
    # One value may come unasked, and must then not be asked for.
    told = rng.choice(signs) if steps > 2 and rng.random() < 0.6 else ""
    machine = rng.choice(["pump", "press", "saw", "mill", "crane", "lift"])
    text = f"Hello, something is wrong with our {machine}." + (f" By the way, {told}: {spoken[told]}" if told else "")
    system = (
        f"You take calls about machines and follow this protocol:\n{numbered(lines)}\n\nStart at step 1. To ask, write "
        "ASK and what you ask for, such as: ASK heat. Where the caller has said the value already, use it and do not "
        "ask. When you come to a level, write LEVEL and its name, such as: LEVEL watch."
    )
    facts = {"rules": rules, "values": values, "spoken": spoken, "told": [told] if told else []}
    return Opening(text=text, system=f"{system}\n\n{HOW}", facts=facts)


def _goal(target: int | str) -> str:
    return f"go to step {target + 1}" if isinstance(target, int) else f"level {target}"


class Triage(Strict):
    """Walks through the steps as far as known values lead."""

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.known = set(facts["told"])

    def wanted(self) -> Sequence[str]:
        step: int | str = 0
        while isinstance(step, int):
            rule = self.facts["rules"][step]
            if rule["sign"] not in self.known:
                return [f"ASK {rule['sign']}"]
            step = rule["high"] if self.facts["values"][rule["sign"]] >= rule["limit"] else rule["low"]
        return [f"LEVEL {step}"]

    def go(self, command: str) -> Reply:
        verb, what = command.split()
        if verb == "LEVEL":
            return Reply("Thank you.", done=True)
        self.known.add(what)
        return Reply(self.facts["spoken"][what])


# ---- twenty questions ------------------------------------------------------------------------------------------------

ANIMALS = (
    "badger bat bear camel crane crow deer duck eagle fox frog goat hare heron lynx mole otter owl seal wolf".split()
)
TRAITS = "night fur wings water horns alone winter speed".split()
YES = ("Yes.", "That is so.", "It does fit, yes.", "Indeed.", "Right.")
NO = ("No.", "Not at all.", "That does not fit.", "No, it is otherwise.", "Wrong track.")


def _depth(table: Mapping[str, Sequence[int]], left: tuple[str, ...], memory: dict[tuple[str, ...], int]) -> int:
    """How many questions tell these apart in the worst case, when asked in the best way; exact."""
    if len(left) < 2:
        return 0
    if left not in memory:
        least = (len(left) - 1).bit_length()
        best = len(left)
        for place in range(len(table[left[0]])):
            yes = tuple(name for name in left if table[name][place])
            no = tuple(name for name in left if not table[name][place])
            if yes and no and max(len(yes), len(no)) <= 2 ** (best - 2):
                best = min(best, 1 + max(_depth(table, yes, memory), _depth(table, no, memory)))
            if best == least:
                break
        memory[left] = best
    return memory[left]


def _traits(asked: Sequence[str], row: Sequence[int]) -> str:
    """`_traits(["fur", "wings"], [1, 0])` -> `"fur y, wings n"`."""
    return ", ".join(f"{trait} {'y' if cell else 'n'}" for trait, cell in zip(asked, row, strict=True))


def draw_questions(rng: random.Random, animals: int, traits: int) -> Opening:
    """A table of made-up traits; the secret animal is to be found with as few questions as the table allows."""
    names = tuple(sorted(rng.sample(ANIMALS, animals)))
    asked = rng.sample(TRAITS, traits)
    while True:
        table = {name: [rng.randint(0, 1) for _ in asked] for name in names}
        if len({tuple(row) for row in table.values()}) == animals:
            break
    budget = _depth(table, names, {})
    secret = rng.choice(names)
    rows = "\n".join(f"{name}: {_traits(asked, row)}" for name, row in table.items())
    system = (
        f"The user thinks of one of these animals of a fable, where y means yes and n no:\n{rows}\n\nFind out which. "
        f"To ask whether a trait fits, write ASK and the trait, such as: ASK {asked[0]}. You have {budget} questions "
        "at most, which is just enough with good questions. Every question must be one after which, whatever the "
        "answer to it is, the questions left are certain to be enough; any other one is wrong. When the answers leave "
        "one animal only, and not before, write GUESS and its name."
    )
    replies = [rng.choice(YES if cell else NO) for cell in table[secret]]
    facts = {"table": table, "asked": asked, "budget": budget, "secret": secret, "replies": replies}
    return Opening(text="I have an animal in mind. Go on!", system=f"{system}\n\n{HOW}", facts=facts, reference=secret)


class Questions(Strict):
    """Right is every question after which the questions left are still enough for certain."""

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.left = tuple(sorted(facts["table"]))
        self.budget = facts["budget"]
        self.memory: dict[tuple[str, ...], int] = {}

    def wanted(self) -> Sequence[str]:
        if len(self.left) == 1:
            return [f"GUESS {self.left[0]}"]
        table = self.facts["table"]
        good = []
        for place, trait in enumerate(self.facts["asked"]):
            parts = [tuple(name for name in self.left if table[name][place] == cell) for cell in (0, 1)]
            if all(parts) and all(_depth(table, part, self.memory) < self.budget for part in parts):
                good.append(f"ASK {trait}")
        return good

    def go(self, command: str) -> Reply:
        verb, what = command.split()
        if verb == "GUESS":
            return Reply("Yes, that is it.", done=True)
        place = self.facts["asked"].index(what)
        answer = self.facts["table"][self.facts["secret"]][place]
        self.left = tuple(name for name in self.left if self.facts["table"][name][place] == answer)
        self.budget -= 1
        return Reply(self.facts["replies"][place])


# ---- a tutor's hints -------------------------------------------------------------------------------------------------

MISTAKES = {
    "order": "the pupil added first and multiplied the sum: (first + second) * third",
    "sum": "the pupil added all three numbers",
    "product": "the pupil multiplied all three numbers",
    "minus": "the pupil subtracted the product from the first number",
    "forgot": "the pupil left the first number out: second * third",
    "ten": "the answer is off by exactly 10, up or down",
}


def draw_tutor(rng: random.Random, mistakes: int, turns: int) -> Opening:
    """Hints by a table of mistakes; the same mistake again gets the second hint; the answer is never told."""
    kinds = rng.sample(list(MISTAKES), mistakes)
    while True:
        first, second, third = rng.randint(3, 40), rng.randint(3, 12), rng.randint(3, 12)
        wrong = {
            "order": [(first + second) * third],
            "sum": [first + second + third],
            "product": [first * second * third],
            "minus": [first - second * third],
            "forgot": [second * third],
            "ten": [first + second * third - 10, first + second * third + 10],
        }
        values = [value for found in wrong.values() for value in found]
        right = first + second * third
        if len({*values, right}) == len(values) + 1:
            break
    seen: dict[str, int] = {}
    script: list[tuple[str, list[str]]] = []
    for _ in range(turns - 1):
        draw = rng.random()
        if draw < 0.2:
            text = say(
                rng, "Just tell me the number!", "I give up, what is it?", "Is it {v}? Only yes or no.", v=right + 1
            )
            script.append((text, ["DECLINE"]))
            continue
        if draw < 0.35:
            value = next(v for v in iter(lambda: rng.randint(right + 11, right + 90), 0) if v not in values)
            script.append((say(rng, "I get {v}.", "My answer is {v}.", v=value), ["HINT other"]))
            continue
        kind = rng.choice(kinds)
        seen[kind] = seen.get(kind, 0) + 1
        number = kinds.index(kind) + 1
        command = f"HINT {number}a" if seen[kind] == 1 else f"HINT {number}b" if seen[kind] == 2 else "EXAMPLE"
        value = rng.choice(wrong[kind])
        script.append((say(rng, "I have {v}.", "My result: {v}.", "It comes to {v}, I think.", v=value), [command]))
    script.append((say(rng, "Then it is {v}.", "Now I get {v}!", "{v}.", v=right), ["PRAISE"]))
    name = rng.choice(NAMES)
    script[0] = (f"Hi, I am {name}. {script[0][0]}", script[0][1])
    rows = numbered([MISTAKES[kind] for kind in kinds])
    system = (
        f"You help a pupil to compute {first} + {second} * {third}, and you never tell the answer, nor whether a "
        f"number that the pupil only asks about is right. These are the known mistakes:\n{rows}\n\nWhen the pupil "
        "gives a wrong result of a known mistake, write HINT, its number and a for the first time in this talk that "
        "this mistake comes up, b for the second, such as: HINT 2a. From the third time on, write EXAMPLE. For any "
        "other wrong result write HINT other. When the pupil wants to be told the answer, or to be told yes or no, "
        "write DECLINE. When the result is right, write PRAISE."
    )
    return scripted(system, script)


# ---- handing over ----------------------------------------------------------------------------------------------------

FIXES = (
    "restart the router",
    "check the cable",
    "change the channel",
    "reset the password",
    "update the software",
    "move the antenna",
    "clear the memory",
    "swap the adapter",
)


def draw_handover(rng: random.Random, steps: int, talk: float, calm_share: int) -> Opening:
    """Steps of a repair one after the other; some things the caller says must be handed to a person."""
    fixes = rng.sample(FIXES, steps)
    reasons = {
        "danger": (
            "The caller mentions smoke, fire or an injury",
            ("I smell smoke.", "My hand got burnt.", "There is a fire here!"),
        ),
        "law": ("The caller mentions a lawyer or a court", ("My lawyer will hear of this.", "See you in court.")),
        "money": (
            "The caller wants more than 50 euros back",
            ("I want 80 euros back.", "Pay me back 65 euros.", "I want my 120 euros back."),
        ),
        "person": ("The caller has asked for a person for the second time", ("A real person, please!",)),
    }
    keys = rng.sample(list(reasons), len(reasons))
    harmless = ("I would like 40 euros back.", "My tea is getting cold.", "My cat sits on the router.")
    script: list[tuple[str, list[str]]] = []
    text = say(rng, "Hello, I am {n}. My internet is down.", "{n} here, nothing loads any more.", n=rng.choice(NAMES))
    wishes = 0
    step = 0
    calm = rng.sample(harmless, len(harmless))
    while True:
        script.append((text, [f"STEP {step + 1}"]))
        step += 1
        failed = say(rng, "That did nothing.", "Still dead.", "No change at all.", "I did it, in vain.")
        if rng.random() < talk:
            event = rng.choice([*keys, "person", *["calm"] * calm_share])
            if event == "person":
                wishes += 1
                remark = say(
                    rng, "I want to talk to a person.", "Give me a human, please.", "Is there a real person there?"
                )
                event = "person" if wishes == 2 else "calm"
            else:
                remark = (calm.pop() if calm else "") if event == "calm" else rng.choice(reasons[event][1])
            if event != "calm":
                last = [f"HANDOVER {len(keys) + 1}"] if step == steps else []  # two reasons, and each is right
                script.append((f"{failed} {remark}", [f"HANDOVER {keys.index(event) + 1}", *last]))
                break
            failed = f"{failed} {remark}".strip()
        if rng.random() < 0.12:
            script.append((say(rng, "It works again!", "Oh, now it runs. Thank you!"), ["CLOSE"]))
            break
        if step == steps:
            script.append((failed, [f"HANDOVER {len(keys) + 1}"]))
            break
        text = failed
    rules = [reasons[key][0] for key in keys] + ["All steps were tried, and none has helped"]
    system = (
        f"You help people whose internet is down. The steps are:\n{numbered(fixes)}\n\nHand the caller over to a "
        f"person as soon as one of these is true, and not before:\n{numbered(rules)}\n\nAs long as none is, write STEP "
        "and the number of the next step, from the first on. To hand over, write HANDOVER and the number of what is "
        "true, such as: HANDOVER 3. When the caller says that it works, write CLOSE. At first, nobody has tried "
        "anything."
    )
    return scripted(system, script)


GAMES = [
    Game(
        name="triage",
        draw=draw_triage,
        start=Triage,
        turns=10,
        levels={"easy": {"steps": 2}, "medium": {"steps": 4}, "hard": {"steps": 8}},
    ),
    Game(
        name="twenty_questions",
        draw=draw_questions,
        start=Questions,
        turns=12,
        levels={
            "easy": {"animals": 4, "traits": 3},
            "medium": {"animals": 8, "traits": 5},
            "hard": {"animals": 14, "traits": 7},
        },
    ),
    Game(
        name="tutor",
        draw=draw_tutor,
        start=Script,
        turns=8,
        levels={
            "easy": {"mistakes": 2, "turns": 2},
            "medium": {"mistakes": 4, "turns": 4},
            "hard": {"mistakes": 6, "turns": 8},
        },
    ),
    Game(
        name="hand_over",
        draw=draw_handover,
        start=Script,
        turns=10,
        levels={
            "easy": {"steps": 3, "talk": 0.6, "calm_share": 2},
            "medium": {"steps": 5, "talk": 0.6, "calm_share": 3},
            "hard": {"steps": 8, "talk": 0.6, "calm_share": 5},
        },
    ),
]
