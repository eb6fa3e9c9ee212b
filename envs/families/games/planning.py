"""Plans in words and numbers: jugs, a ferry, a lift, a calculator, words that change by a letter, levers and doors.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

from envs.families.games.play import LETTERS, Puzzle, game, puzzle_opening, solvable
from envs.talk import Opening

# ---- jugs ------------------------------------------------------------------------------------------------------------


class Jugs(Puzzle):
    """Fill, empty and pour, until some jug holds the wanted amount."""

    def first(self) -> Any:
        return tuple(self.facts["held"])

    def options(self, position: Any) -> dict[str, Any]:
        sizes = self.facts["sizes"]
        found = {}
        for jug, held in enumerate(position):
            if held < sizes[jug]:
                found[f"FILL {LETTERS[jug]}"] = (*position[:jug], sizes[jug], *position[jug + 1 :])
            if held:
                found[f"EMPTY {LETTERS[jug]}"] = (*position[:jug], 0, *position[jug + 1 :])
            for other in range(len(sizes)):
                amount = min(held, sizes[other] - position[other])
                if other != jug and amount:
                    after = list(position)
                    after[jug], after[other] = held - amount, position[other] + amount
                    found[f"POUR {LETTERS[jug]} {LETTERS[other]}"] = tuple(after)
        return found

    def goal(self, position: Any) -> bool:
        return self.facts["wanted"] in position

    def show(self) -> str:
        jugs = zip(LETTERS, self.position, self.facts["sizes"], strict=False)
        return "\n".join(f"{name}: {held} of {size} litres" for name, held, size in jugs)


def draw_jugs(rng: random.Random, jugs: int, largest: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        sizes = rng.sample(range(3, largest + 1), jugs)
        held = [rng.choice([0, 0, rng.randint(0, size)]) for size in sizes]
        return {"sizes": sizes, "held": held, "wanted": rng.randint(1, max(sizes) - 1)}

    facts = solvable(make, Jugs, low, high)
    rules = (
        f"Measure exactly {facts['wanted']} litres: in the end one jug must hold just that. FILL A fills jug A to the "
        "brim, EMPTY A empties it, POUR A B pours from A into B until A is empty or B is full. A command that would "
        "change nothing is not allowed."
    )
    return puzzle_opening(rules, Jugs, facts, slack, "POUR A B")


# ---- ferry -----------------------------------------------------------------------------------------------------------

BEINGS = "CAT DOG GOAT HEN FOX WOLF MOUSE CORN CHEESE HAY FISH BEAR SNAKE RABBIT".split()


class Ferry(Puzzle):
    """Some may not be left alone together.  The ferryman takes up to `seats` of those on his side."""

    def first(self) -> Any:
        return frozenset(self.facts["beings"]), "left"

    def is_safe(self, alone: Any) -> bool:
        return not any(eater in alone and eaten in alone for eater, eaten in self.facts["conflicts"])

    def options(self, position: Any) -> dict[str, Any]:
        left, side = position
        here = left if side == "left" else frozenset(self.facts["beings"]) - left
        found = {}
        for size in range(self.facts["seats"] + 1):
            for taken in itertools.combinations(sorted(here), size):
                after = left - set(taken) if side == "left" else left | set(taken)
                if self.is_safe(here - set(taken)):
                    command = f"TAKE {' '.join(taken)}" if taken else "ALONE"
                    found[command] = (after, "right" if side == "left" else "left")
        return found

    def goal(self, position: Any) -> bool:
        return not position[0]

    def move(self, command: str) -> str:
        verb, *rest = command.split() or [""]
        return super().move(" ".join([verb, *sorted(rest)]))

    def show(self) -> str:
        left, side = self.position
        right = frozenset(self.facts["beings"]) - left
        return f"Left: {' '.join(sorted(left)) or '-'}\nRight: {' '.join(sorted(right)) or '-'}\nFerry: {side}"


def draw_ferry(rng: random.Random, beings: int, conflicts: int, seats: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        names = sorted(rng.sample(BEINGS, beings))
        pairs = rng.sample(list(itertools.combinations(names, 2)), conflicts)
        return {"beings": names, "conflicts": sorted(pairs), "seats": seats}

    facts = solvable(make, Ferry, low, high)
    room = "one passenger" if seats == 1 else f"up to {seats} passengers"
    pairs = ", ".join(" and ".join(pair) for pair in facts["conflicts"])
    example = f"TAKE {facts['beings'][0]}"
    rules = (
        f"Bring all to the right side of the river. The ferry carries {room} at a time; {example} crosses with this "
        "one, ALONE crosses with nobody. On the side that the ferry leaves, these may not stay together without you: "
        f"{pairs}. A crossing that breaks this is not allowed."
    )
    return puzzle_opening(rules, Ferry, facts, slack, example)


# ---- lift ------------------------------------------------------------------------------------------------------------


class Lift(Puzzle):
    """A lift that holds few people; each wants to get to a floor of their own."""

    def first(self) -> Any:
        return self.facts["floor"], tuple(self.facts["starts"])  # where each person is; 0 in the lift

    def options(self, position: Any) -> dict[str, Any]:
        floor, places = position
        found: dict[str, Any] = {}
        for name, target in (("UP", floor + 1), ("DOWN", floor - 1)):
            if 1 <= target <= self.facts["floors"]:
                found[name] = (target, places)
        for person, place in enumerate(places):
            if place == floor and places.count(0) < self.facts["room"]:
                found[f"IN {LETTERS[person]}"] = (floor, (*places[:person], 0, *places[person + 1 :]))
            if place == 0:
                found[f"OUT {LETTERS[person]}"] = (floor, (*places[:person], floor, *places[person + 1 :]))
        return found

    def goal(self, position: Any) -> bool:
        return list(position[1]) == self.facts["wishes"]

    def show(self) -> str:
        floor, places = self.position
        people = [
            f"{name} is {f'on floor {place}' if place else 'in the lift'} and wants to floor {wish}."
            for name, place, wish in zip(LETTERS, places, self.facts["wishes"], strict=False)
        ]
        return "\n".join([f"The lift is on floor {floor}.", *people])


def draw_lift(rng: random.Random, floors: int, people: int, room: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        ways = [rng.sample(range(1, floors + 1), 2) for _ in range(people)]
        starts, wishes = [way[0] for way in ways], [way[1] for way in ways]
        return {"floors": floors, "floor": rng.randint(1, floors), "room": room, "starts": starts, "wishes": wishes}

    facts = solvable(make, Lift, low, high)
    rules = (
        f"Run the lift of a house with the floors 1 to {floors}. UP and DOWN move it by one floor, IN A lets person A "
        f"in, OUT A lets person A out, both on the floor where the lift is. It has room for {room}. Bring everybody to "
        "the floor where they want to be, and let them out there."
    )
    return puzzle_opening(rules, Lift, facts, slack, "IN A")


# ---- calculator ------------------------------------------------------------------------------------------------------


class Calculator(Puzzle):
    """A number is changed by the keys of a broken calculator until it is the wanted one."""

    def first(self) -> Any:
        return int(self.facts["start"])

    def options(self, position: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in self.facts["keys"]:
            amount = int(key[1:]) if key[0] in "+-*/" else 0
            if key[0] == "+":
                after = position + amount
            elif key[0] == "-":
                after = position - amount
            elif key[0] == "*":
                after = position * amount
            elif key[0] == "/":
                after = position // amount if position % amount == 0 else -1
            elif key == "REVERSE":
                after = int(str(position)[::-1])
            else:
                after = sum(int(digit) ** 2 for digit in str(position))
            if 0 <= after <= 9999 and after != position:
                found[key] = after
        return found

    def goal(self, position: Any) -> bool:
        return bool(position == self.facts["wanted"])

    def show(self) -> str:
        return f"The display shows {self.position}."


def draw_calculator(rng: random.Random, keys: int, low: int, high: int, slack: int) -> Opening:
    """Wanted is where a walk over random keys ends."""

    def make() -> dict[str, Any]:
        pool = [f"+{rng.randint(2, 19)}", f"-{rng.randint(2, 19)}", f"*{rng.randint(2, 5)}", f"/{rng.randint(2, 5)}"]
        chosen = sorted(rng.sample([*pool, "REVERSE", "SQUARES"], keys))
        facts: dict[str, Any] = {"start": rng.randint(1, 60), "keys": chosen, "wanted": -1}
        position = facts["start"]
        for _ in range(rng.randint(low, high)):
            options = Calculator({**facts, "limit": 1}).options(position)
            position = rng.choice(list(options.values()) or [position])
        return {**facts, "wanted": position}

    facts = solvable(make, Calculator, low, high, most=8_000)
    rules = (
        f"Make the display of a broken calculator show {facts['wanted']}. Its keys are {', '.join(facts['keys'])}; "
        "each works on the number shown. / works only without a remainder. REVERSE writes the digits backwards and "
        "drops leading zeros; SQUARES adds up the squares of the digits. Nothing below 0 or above 9999 is allowed, nor "
        "a key that would not change the number. Press one key a message."
    )
    return puzzle_opening(rules, Calculator, facts, slack, facts["keys"][0])


# ---- words -----------------------------------------------------------------------------------------------------------

WORDS = tuple(
    """BAD BAG BAR BAT BED BEE BEG BET BIG BIN BIT BOG BOX BOY BUD BUG BUN BUS BUT CAN CAP CAR CAT COB COD COG COT COW
    CUB CUP CUT DEN DIG DIM DIN DIP DOG DOT DUG FAN FAR FAT FIG FIN FIT FIX FOG FOX FUN GAP GAS GET GOT GUM GUN GUT
    HAM HAS HAT HEN HER HID HIM HIP HIT HOG HOP HOT HUB HUG HUT JAM JAR JET JOB JOG JUG KEY KID KIN KIT LAP LEG LET LID
    LIP LIT LOG LOT MAN MAP MAT MET MIX MOP MUD MUG NAP NET NIT NOD NOT NUT PAN PAT PEG PEN PET PIG PIN PIT POT PUB
    RAG RAM RAN RAT RED RIB RIM RIP ROB ROD ROT RUB RUG RUN SAD SAP SAT SET SIN SIP SIT SON SUN TAG TAN TAP TEN TIN
    TIP TOE TON TOP TOY TUB TUG VAN VET WAG WAX WEB WET WIG WIN ZIP""".split()
)


class Ladder(Puzzle):
    """A word of the list becomes another one of the list by changing one letter; none is used twice."""

    def first(self) -> Any:
        return (self.facts["start"],)

    def options(self, position: Any) -> dict[str, Any]:
        found = {}
        for word in self.facts["words"]:
            changed = sum(one != other for one, other in zip(word, position[-1], strict=True))
            if changed == 1 and word not in position:
                found[word] = (*position, word)
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[-1] == self.facts["target"])

    def move(self, command: str) -> str:
        told = super().move(command)
        if not self.over and not self.options(self.position):
            self.lose()
            told = "No word is left to go on with."
        return told

    def show(self) -> str:
        return f"So far: {' '.join(self.position)}"


def draw_ladder(rng: random.Random, words: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        chosen = sorted(rng.sample(WORDS, words))
        start, target = rng.sample(chosen, 2)
        return {"words": chosen, "start": start, "target": target}

    facts = solvable(make, Ladder, low, high, most=1_500)
    rules = (
        f"Turn the word {facts['start']} into {facts['target']}, step by step. In each step change exactly one letter, "
        "so that a word of this list comes out that was not used yet, and say this word. The list: "
        f"{' '.join(facts['words'])}."
    )
    return puzzle_opening(rules, Ladder, facts, slack, "CAT")


# ---- levers ----------------------------------------------------------------------------------------------------------


class Levers(Puzzle):
    """Rooms in a row of doors; a lever in a room opens some doors and closes others."""

    def first(self) -> Any:
        return self.facts["room"], frozenset(self.facts["open"])

    def options(self, position: Any) -> dict[str, Any]:
        room, opened = position
        found: dict[str, Any] = {}
        for number, (one, other) in enumerate(self.facts["doors"]):
            if number + 1 in opened and room in (one, other):
                found[f"DOOR {number + 1}"] = (other if room == one else one, opened)
        toggled = self.facts["levers"].get(room, [])
        if toggled:
            found["PULL"] = (room, opened ^ set(toggled))
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[0] == self.facts["exit"])

    def show(self) -> str:
        room, opened = self.position
        return f"You are in room {room}. Open doors: {' '.join(str(door) for door in sorted(opened)) or 'none'}"


def draw_levers(rng: random.Random, rooms: int, more: int, low: int, high: int, slack: int) -> Opening:
    """The doors connect all rooms; about half of them are open, and most rooms have a lever."""

    def make() -> dict[str, Any]:
        names = list(LETTERS[:rooms])
        doors = [sorted([names[place], rng.choice(names[:place])]) for place in range(1, rooms)]
        pairs = [list(pair) for pair in itertools.combinations(names, 2) if list(pair) not in doors]
        doors = sorted([*doors, *rng.sample(pairs, more)])
        numbers = range(1, len(doors) + 1)
        levers = {name: sorted(rng.sample(numbers, rng.randint(1, 3))) for name in names if rng.random() < 0.75}
        room, exit_room = rng.sample(names, 2)
        opened = [number for number in numbers if rng.random() < 0.4]
        return {"doors": doors, "levers": levers, "open": opened, "room": room, "exit": exit_room}

    facts = solvable(make, Levers, low, high)
    doors = ", ".join(f"{number + 1} {one}-{other}" for number, (one, other) in enumerate(facts["doors"]))
    levers = ", ".join(
        f"{room} {'+'.join(str(door) for door in numbers)}" for room, numbers in sorted(facts["levers"].items())
    )
    rules = (
        f"Get to room {facts['exit']}. Doors, with the rooms that they join: {doors}. DOOR 2 goes through door 2, if "
        "it is open and leads out of the room where you are. Some rooms have a lever: PULL there opens those of its "
        f"doors that are closed, and closes those that are open. Levers, with their doors: {levers}."
    )
    return puzzle_opening(rules, Levers, facts, slack, "DOOR 2")


GAMES = [
    game(
        "jugs",
        draw_jugs,
        Jugs,
        (6, 9, 12),
        {"jugs": 2, "largest": 9, "low": 3, "high": 5, "slack": 1},
        {"jugs": 2, "largest": 15, "low": 5, "high": 8, "slack": 1},
        {"jugs": 3, "largest": 24, "low": 7, "high": 10, "slack": 2},
    ),
    game(
        "ferry",
        draw_ferry,
        Ferry,
        (6, 9, 14),
        {"beings": 3, "conflicts": 1, "seats": 1, "low": 5, "high": 5, "slack": 1},
        {"beings": 3, "conflicts": 2, "seats": 1, "low": 7, "high": 7, "slack": 1},
        {"beings": 6, "conflicts": 6, "seats": 2, "low": 7, "high": 13, "slack": 1},
    ),
    game(
        "lift",
        draw_lift,
        Lift,
        (6, 13, 24),
        {"floors": 4, "people": 1, "room": 1, "low": 4, "high": 6, "slack": 0},
        {"floors": 5, "people": 2, "room": 1, "low": 8, "high": 12, "slack": 1},
        {"floors": 6, "people": 3, "room": 2, "low": 14, "high": 22, "slack": 2},
    ),
    game(
        "calculator",
        draw_calculator,
        Calculator,
        (5, 7, 9),
        {"keys": 3, "low": 3, "high": 4, "slack": 1},
        {"keys": 4, "low": 4, "high": 6, "slack": 1},
        {"keys": 5, "low": 6, "high": 8, "slack": 1},
    ),
    game(
        "ladder",
        draw_ladder,
        Ladder,
        (5, 7, 9),
        {"words": 26, "low": 3, "high": 4, "slack": 1},
        {"words": 40, "low": 5, "high": 7, "slack": 0},
        {"words": 60, "low": 7, "high": 9, "slack": 0},
    ),
    game(
        "levers",
        draw_levers,
        Levers,
        (6, 11, 17),
        {"rooms": 4, "more": 1, "low": 4, "high": 5, "slack": 1},
        {"rooms": 6, "more": 2, "low": 6, "high": 9, "slack": 2},
        {"rooms": 8, "more": 3, "low": 10, "high": 15, "slack": 2},
    ),
]
