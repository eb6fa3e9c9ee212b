"""Finding out how something works by trying it: a scale, a machine, a cipher, switches, cards, payouts.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.

Each game has a policy that knows only what was told, and a limit that this policy keeps to.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

from envs.families.games.play import (
    LETTERS,
    Counted,
    Illegal,
    game,
    label_of,
    opening,
    read_number,
    shuffled,
)
from envs.families.games.searching import keeps_limit
from envs.talk import Opening

# ---- scale -----------------------------------------------------------------------------------------------------------


class Scale(Counted):
    """Two things are compared at a time; then all must be put in order, lightest first."""

    def begin(self) -> None:
        self.names = "".join(sorted(self.facts["order"]))
        self.lighter: dict[tuple[str, str], bool] = {}

    def orders(self) -> list[str]:
        """All orders that agree with what was told."""
        told = [pair if lighter else pair[::-1] for pair, lighter in self.lighter.items()]
        found = ("".join(order) for order in itertools.permutations(self.names))
        return [order for order in found if all(order.index(one) < order.index(other) for one, other in told)]

    def move(self, command: str) -> str:
        verb, *rest = command.split() or [""]
        names = "".join(rest)
        if verb == "ORDER":
            if sorted(names) != list(self.names):
                raise Illegal("an order names every thing once")
            if names == self.facts["order"]:
                self.win()
            else:
                self.lose()
            return ""
        if verb != "COMPARE" or len(rest) != 2 or rest[0] == rest[1] or not all(name in self.names for name in rest):
            raise Illegal("write COMPARE and two different things, or ORDER and all things")
        if any(len(name) != 1 for name in rest):
            raise Illegal("a thing is one letter")
        order = self.facts["order"]
        self.lighter[rest[0], rest[1]] = order.index(rest[0]) < order.index(rest[1])
        return f"{rest[0]} is {'lighter' if self.lighter[rest[0], rest[1]] else 'heavier'} than {rest[1]}."

    def legal(self) -> list[str]:
        pairs = [f"COMPARE {one} {other}" for one, other in itertools.combinations(self.names, 2)]
        orders = self.orders()
        return [*pairs, f"ORDER {' '.join(orders[0])}", f"ORDER {' '.join(orders[-1])}"]

    def best(self) -> str:
        """The comparison whose two answers are most equally likely."""
        orders = self.orders()
        if len(orders) == 1:
            return f"ORDER {' '.join(orders[0])}"

        def gap(pair: tuple[str, str]) -> int:
            return abs(2 * sum(order.index(pair[0]) < order.index(pair[1]) for order in orders) - len(orders))

        one, other = min(itertools.combinations(self.names, 2), key=gap)
        return f"COMPARE {one} {other}"


def draw_scale(rng: random.Random, things: int, limit: int) -> Opening:
    while True:
        facts: dict[str, Any] = {"order": "".join(shuffled(rng, LETTERS[:things])), "limit": limit}
        if keeps_limit(Scale(facts)):
            break
    names = " ".join(LETTERS[:things])
    rules = (
        f"The things {names} all have different weights. COMPARE A B puts A and B on a scale and tells which is "
        f"lighter. ORDER and all names from the lightest to the heaviest, such as ORDER {names}, ends the game; a "
        "wrong order loses."
    )
    answer = f"ORDER {' '.join(facts['order'])}"
    return opening(rules, Scale, facts, "COMPARE A B", answer, label_of(rng))


# ---- machine ---------------------------------------------------------------------------------------------------------


class Machine(Counted):
    """A machine computes a polynomial of small whole numbers; its output for a large input must be told."""

    def begin(self) -> None:
        self.seen: dict[int, int] = {}

    def output(self, number: int) -> int:
        return sum(factor * number**power for power, factor in enumerate(self.facts["factors"]))

    def move(self, command: str) -> str:
        verb, _, text = command.partition(" ")
        if verb == "ANSWER":
            negative = text.startswith("-")
            number = read_number(text.removeprefix("-"), 0, 999_999)
            if (-number if negative else number) == self.output(self.facts["asked"]):
                self.win()
            else:
                self.lose()
            return ""
        if verb != "TRY":
            raise Illegal("a command begins with TRY or ANSWER")
        number = read_number(text, 0, self.facts["most"])
        self.seen[number] = self.output(number)
        return f"{number} -> {self.seen[number]}"

    def legal(self) -> list[str]:
        tries = [f"TRY {number}" for number in range(self.facts["most"] + 1)]
        return [*tries, *(f"ANSWER {number}" for number in range(0, 200, 25))]

    def best(self) -> str:
        """As many inputs as the polynomial has factors, and then its value by divided differences."""
        wanted = len(self.facts["factors"])
        if len(self.seen) < wanted:
            return f"TRY {next(number for number in range(wanted) if number not in self.seen)}"
        inputs = sorted(self.seen)[:wanted]
        row = [self.seen[number] for number in inputs]
        total, product = 0, 1
        for order, number in enumerate(inputs):
            total += row[0] * product
            product *= self.facts["asked"] - number
            row = [
                (later - earlier) // (inputs[place + order + 1] - inputs[place])
                for place, (earlier, later) in enumerate(itertools.pairwise(row))
            ]
        return f"ANSWER {total}"


FORMS = {2: "a*x + b", 3: "a*x*x + b*x + c", 4: "a*x*x*x + b*x*x + c*x + d"}


def draw_machine(rng: random.Random, factors: int, most: int, asked: int) -> Opening:
    numbers = [rng.randint(-9, 9) for _ in range(factors - 1)] + [rng.choice([-4, -3, -2, -1, 1, 2, 3, 4])]
    facts = {
        "factors": numbers,
        "most": most,
        "asked": rng.randint(most + 3, asked),
        "limit": factors + 1,
    }
    rules = (
        f"A machine turns a number x into {FORMS[factors]}, where the letters stand for secret whole numbers, some of "
        f"them perhaps negative. TRY 1 shows what it makes of 1; you may try numbers from 0 to {most}. Find what it "
        f"makes of {facts['asked']}: ANSWER and the number ends the game; a wrong answer loses."
    )
    return opening(rules, Machine, facts, "TRY 1", "", label_of(rng))


# ---- cipher ----------------------------------------------------------------------------------------------------------


class Cipher(Counted):
    """Each letter of a small alphabet stands for another one; short texts may be encoded to find out which."""

    def begin(self) -> None:
        self.known: dict[str, str] = {}

    def move(self, command: str) -> str:
        verb, _, text = command.partition(" ")
        alphabet = self.facts["alphabet"]
        if verb not in ("ENCODE", "PLAIN") or not text or any(letter not in alphabet for letter in text):
            raise Illegal("write ENCODE or PLAIN, and letters of the alphabet without spaces")
        if verb == "PLAIN":
            if text == self.facts["plain"]:
                self.win()
            else:
                self.lose()
            return ""
        if len(text) > self.facts["size"]:
            raise Illegal(f"at most {self.facts['size']} letters are encoded at once")
        self.known |= {letter: self.encoded(letter) for letter in text}
        return f"{text} -> {self.encoded(text)}"

    def encoded(self, text: str) -> str:
        return "".join(self.facts["secret"][self.facts["alphabet"].index(letter)] for letter in text)

    def legal(self) -> list[str]:
        alphabet, size = self.facts["alphabet"], self.facts["size"]
        runs = [alphabet[start : start + size] for start in range(len(alphabet) - size + 1)]
        back = {coded: letter for letter, coded in self.known.items()}
        unknown = [letter for letter in alphabet if letter not in self.known]
        guess = "".join(back.get(letter, (unknown or alphabet)[0]) for letter in self.encoded(self.facts["plain"]))
        return [*(f"ENCODE {run}" for run in runs), f"PLAIN {guess}"]

    def best(self) -> str:
        back = {coded: letter for letter, coded in self.known.items()}
        unknown = [letter for letter in self.facts["alphabet"] if letter not in self.known]
        coded = self.encoded(self.facts["plain"])
        if len(unknown) == 1:
            last = next(letter for letter in self.facts["secret"] if letter not in back)
            back[last] = unknown[0]
        if all(letter in back for letter in coded):
            return f"PLAIN {''.join(back[letter] for letter in coded)}"
        return f"ENCODE {''.join(unknown[: self.facts['size']])}"


def draw_cipher(rng: random.Random, letters: int, size: int, length: int) -> Opening:
    alphabet = "".join(sorted(rng.sample(LETTERS, letters)))
    secret = "".join(shuffled(rng, alphabet))
    plain = "".join(rng.choice(alphabet) for _ in range(length))
    limit = -(-(letters - 1) // size) + 1
    facts = {"alphabet": alphabet, "secret": secret, "plain": plain, "size": size, "limit": limit}
    coded = "".join(secret[alphabet.index(letter)] for letter in plain)
    rules = (
        f"A secret code replaces each of the letters {alphabet} by one of the same letters, different ones by "
        f"different ones; a letter may stand for itself. ENCODE and up to {size} letters shows their code. The "
        f"message {coded} was made with this code. PLAIN and what it says ends the game; a wrong text loses."
    )
    return opening(rules, Cipher, facts, f"ENCODE {alphabet[:size]}", f"PLAIN {plain}")


# ---- switches --------------------------------------------------------------------------------------------------------


class Switches(Counted):
    """Each switch works one lamp; several are turned on at once, and which lamps shine is told."""

    def begin(self) -> None:
        self.tests: list[tuple[set[int], set[int]]] = []

    def read(self, text: str) -> list[int]:
        numbers = [read_number(part.strip(), 1, len(self.facts["lamps"])) for part in text.split(",")]
        if len(set(numbers)) < len(numbers):
            raise Illegal("no switch may be named twice")
        return numbers

    def move(self, command: str) -> str:
        verb, _, text = command.partition(" ")
        lamps = self.facts["lamps"]
        if verb == "ON":
            chosen = set(self.read(text))
            shining = {lamps.index(name) for name in lamps if lamps.index(name) + 1 in chosen}
            names = sorted(lamps[place] for place in shining)
            self.tests.append((chosen, {LETTERS.index(name) for name in names}))
            return f"These lamps shine: {' '.join(names)}. All switches are off again."
        if verb != "LAMPS" or sorted(text.replace(" ", "")) != sorted(lamps):
            raise Illegal("write ON and switches, or LAMPS and every lamp once")
        if text.split() == list(lamps):
            self.win()
        else:
            self.lose()
        return ""

    def wirings(self) -> list[set[int]]:
        """For each switch, the lamps that it may work."""
        count = range(len(self.facts["lamps"]))
        return [
            {lamp for lamp in count if all((switch + 1 in on) == (lamp in shine) for on, shine in self.tests)}
            for switch in count
        ]

    def legal(self) -> list[str]:
        """Runs of switches, and the first wiring that is not ruled out lamp by lamp."""
        count = len(self.facts["lamps"])
        runs = [range(start, start + size) for size in range(1, count) for start in range(1, count - size + 2)]
        free = list(range(count))
        guess = []
        for possible in self.wirings():
            lamp = next((one for one in free if one in possible), free[0])
            free.remove(lamp)
            guess.append(LETTERS[lamp])
        return [*(f"ON {','.join(map(str, run))}" for run in runs), f"LAMPS {' '.join(guess)}"]

    def best(self) -> str:
        """Half of each group of switches that were always turned on together."""
        possible = self.wirings()
        if all(len(lamps) == 1 for lamps in possible):
            return f"LAMPS {' '.join(LETTERS[min(lamps)] for lamps in possible)}"
        groups: dict[tuple[int, ...], list[int]] = {}
        for switch, lamps in enumerate(possible):
            groups.setdefault(tuple(sorted(lamps)), []).append(switch + 1)
        chosen = sorted(switch for group in groups.values() for switch in group[: len(group) // 2])
        return f"ON {','.join(map(str, chosen))}"


def draw_switches(rng: random.Random, low: int, high: int) -> Opening:
    lamps = "".join(shuffled(rng, LETTERS[: rng.randint(low, high)]))
    facts = {"lamps": lamps, "limit": (len(lamps) - 1).bit_length() + 1}
    names = " ".join(LETTERS[: len(lamps)])
    rules = (
        f"Each of the switches 1 to {len(lamps)} works one of the lamps {names}, each another one. ON 1,3 turns "
        "switches 1 and 3 on, tells which lamps shine, and turns them off again. LAMPS and the lamp of each switch, "
        f"from switch 1 on, such as LAMPS {names}, ends the game; a wrong answer loses."
    )
    return opening(rules, Switches, facts, "ON 1,3", f"LAMPS {' '.join(lamps)}", label_of(rng))


GAMES = [
    game(
        "scale",
        draw_scale,
        Scale,
        (6, 9, 12),
        {"things": 4, "limit": 6},
        {"things": 5, "limit": 9},
        {"things": 6, "limit": 12},
    ),
    game(
        "machine",
        draw_machine,
        Machine,
        (3, 4, 5),
        {"factors": 2, "most": 9, "asked": 20},
        {"factors": 3, "most": 5, "asked": 15},
        {"factors": 4, "most": 5, "asked": 14},
    ),
    game(
        "cipher",
        draw_cipher,
        Cipher,
        (4, 5, 7),
        {"letters": 4, "size": 1, "length": 4},
        {"letters": 8, "size": 2, "length": 8},
        {"letters": 16, "size": 3, "length": 12},
    ),
    game(
        "switches",
        draw_switches,
        Switches,
        (4, 5, 6),
        {"low": 3, "high": 6},
        {"low": 8, "high": 14},
        {"low": 16, "high": 26},
    ),
]
