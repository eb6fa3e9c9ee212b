"""Guessing by what every answer rules out: codes, words, letters, remainders.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.

Each game has a policy that knows only what was told, and a limit that this policy keeps to.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from typing import Any

from envs.families.games.play import Counted, Illegal, game, label_of, opening, read_number
from envs.families.games.searching import keeps_limit
from envs.talk import Opening

# ---- codes -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def _codes(digits: int, length: int) -> tuple[str, ...]:
    return tuple("".join(code) for code in itertools.permutations("123456789"[:digits], length))


class Bulls(Counted):
    """Digits at the right place and digits at a wrong one are counted."""

    def begin(self) -> None:
        self.left_over = list(_codes(self.facts["digits"], len(self.facts["code"])))

    def count(self, guess: str, code: str) -> tuple[int, int]:
        bulls = sum(one == other for one, other in zip(guess, code, strict=True))
        return bulls, len(set(guess) & set(code)) - bulls

    def move(self, command: str) -> str:
        if command not in _codes(self.facts["digits"], len(self.facts["code"])):
            raise Illegal(f"a guess is {len(self.facts['code'])} different digits from 1 to {self.facts['digits']}")
        told = self.count(command, self.facts["code"])
        if command == self.facts["code"]:
            self.win()
        self.left_over = [code for code in self.left_over if self.count(command, code) == told]
        return f"{command}: {told[0]} in the right place, {told[1]} in a wrong place."

    def legal(self) -> list[str]:
        return list(_codes(self.facts["digits"], len(self.facts["code"])))

    def best(self) -> str:
        return self.left_over[0]


def draw_bulls(rng: random.Random, digits: int, length: int, limit: int) -> Opening:
    while True:
        facts: dict[str, Any] = {
            "digits": digits,
            "code": "".join(rng.sample("123456789"[:digits], length)),
            "limit": limit,
        }
        if keeps_limit(Bulls(facts)):
            break
    rules = (
        f"Find a code of {length} different digits from 1 to {digits}. Guess a code; you are told how many of its "
        "digits are in the right place, and how many are in the code, but in another place."
    )
    example = "123456789"[digits - length : digits][::-1]
    return opening(rules, Bulls, facts, example, facts["code"], label_of(rng))


# ---- words -----------------------------------------------------------------------------------------------------------

WORDS = tuple(
    """APPLE BEACH BENCH BIRCH BLAZE BOARD BRAVE BREAD BRICK BRUSH CABIN CANDY CHAIR CHALK CLIFF CLOCK CLOUD COAST
    CORAL CRANE CREAM CROWN DAISY DANCE DREAM DRESS EAGLE EARTH FAITH FENCE FIELD FLAME FLOOR FLUTE FROST FRUIT GLASS
    GLOBE GRAIN GRAPE GRASS GREEN HEART HONEY HORSE HOTEL HOUSE JUICE KNIFE LEMON LIGHT MAPLE MARCH METAL MONEY MOUSE
    MUSIC NIGHT OCEAN OLIVE ONION PAINT PAPER PEACH PEARL PIANO PILOT PLANE PLANT PLATE QUEEN QUICK RADIO RIVER ROBIN
    ROUND SALAD SCALE SHAPE SHEEP SHELL SHINE SHIRT SHORE SMILE SNAKE SPICE SPOON STAGE STONE STORM SUGAR TABLE TIGER
    TOAST TOWER TRAIN TRUCK VOICE WATER WHALE WHEAT WHEEL WORLD""".split()
)


class Marked(Counted):
    """A guess from the list is marked letter by letter: right place, elsewhere, not in the word."""

    def begin(self) -> None:
        self.left_over = list(self.facts["words"])

    def marks(self, guess: str, word: str) -> str:
        """G right place, Y elsewhere, - not in the word; a letter is not marked more often than the word has it."""
        spare = Counter(other for one, other in zip(guess, word, strict=True) if one != other)
        marks = ""
        for one, other in zip(guess, word, strict=True):
            if one == other:
                marks += "G"
            elif spare[one]:
                marks += "Y"
                spare[one] -= 1
            else:
                marks += "-"
        return marks

    def move(self, command: str) -> str:
        if command not in self.facts["words"]:
            raise Illegal("this word is not in the list")
        if command == self.facts["secret"]:
            self.win()
        told = self.marks(command, self.facts["secret"])
        self.left_over = [word for word in self.left_over if self.marks(command, word) == told]
        return f"{command}: {told}"

    def legal(self) -> list[str]:
        return list(self.facts["words"])

    def best(self) -> str:
        """The word that leaves fewest in the worst case."""

        def worst(word: str) -> tuple[int, bool]:
            sizes = Counter(self.marks(word, other) for other in self.left_over)
            return max(sizes.values()), word not in self.left_over

        return self.left_over[0] if len(self.left_over) <= 2 else min(self.facts["words"], key=worst)


def draw_marked(rng: random.Random, words: int, limit: int) -> Opening:
    while True:
        chosen = sorted(rng.sample(WORDS, words))
        facts: dict[str, Any] = {"words": chosen, "secret": rng.choice(chosen), "limit": limit}
        if keeps_limit(Marked(facts)):
            break
    rules = (
        f"Find the secret word. It is one of: {' '.join(chosen)}. Guess a word of this list; its letters are marked: G "
        "for a letter in the right place, Y for a letter that the secret word has in another place, - for one that it "
        "has not (or not that often)."
    )
    return opening(rules, Marked, facts, chosen[0], facts["secret"], label_of(rng))


# ---- letters ---------------------------------------------------------------------------------------------------------


class Hangman(Counted):
    """Letters are guessed; those in the word are shown at their places, and few may be wrong."""

    def begin(self) -> None:
        self.tried = ""
        self.wrong = 0

    def pattern(self, word: str) -> str:
        return "".join(letter if letter in self.tried else "_" for letter in word)

    def move(self, command: str) -> str:
        secret = self.facts["secret"]
        if command in self.facts["words"]:
            if command == secret:
                self.win()
                return "Right."
            self.wrong += 1
        elif len(command) == 1 and command.isascii() and command.isalpha():
            if command in self.tried:
                raise Illegal("this letter was tried already")
            self.tried += command
            self.wrong += command not in secret
            if self.pattern(secret) == secret:
                self.win()
        else:
            raise Illegal("say one letter, or a word of the list")
        if self.wrong > self.facts["wrong"]:
            self.lose()
        return ""

    def show(self) -> str:
        missing = " ".join(letter for letter in self.tried if letter not in self.facts["secret"])
        return (
            f"{' '.join(self.pattern(self.facts['secret']))}   not in it: {missing or '-'}   "
            f"wrong: {self.wrong} of {self.facts['wrong']}"
        )

    def legal(self) -> list[str]:
        return [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in self.tried]

    def best(self) -> str:
        """The word if only one is left, else the letter that is in most of them without being in all alike."""
        seen = self.pattern(self.facts["secret"])
        missing = [letter for letter in self.tried if letter not in self.facts["secret"]]
        words = [
            word
            for word in self.facts["words"]
            if self.pattern(word) == seen and not any(letter in word for letter in missing)
        ]
        if len(words) == 1:
            return str(words[0])
        counts = Counter(letter for word in words for letter in sorted(set(word)) if letter not in self.tried)
        useful = {letter: count for letter, count in counts.items() if count < len(words)}
        return max(sorted(useful or counts), key=lambda letter: counts[letter])


def draw_hangman(rng: random.Random, words: int, wrong: int, limit: int) -> Opening:
    while True:
        chosen = sorted(rng.sample(WORDS, words))
        facts: dict[str, Any] = {"words": chosen, "secret": rng.choice(chosen), "wrong": wrong, "limit": limit}
        if keeps_limit(Hangman(facts)):
            break
    rules = (
        f"Find the secret word. It is one of: {' '.join(chosen)}. Say a letter: its places in the word are shown. Or "
        f"say a word of the list. Letters that are not in the word and wrong words are mistakes; more than {wrong} "
        "lose. You win when the whole word is shown or said."
    )
    return opening(rules, Hangman, facts, "E", facts["secret"], label_of(rng))


# ---- remainders ------------------------------------------------------------------------------------------------------


class Remainders(Counted):
    """Each divisor may be asked for once; then the number follows from the remainders."""

    def begin(self) -> None:
        self.asked: dict[int, int] = {}

    def possible(self) -> list[int]:
        numbers = range(1, self.facts["most"] + 1)
        return [one for one in numbers if all(one % by == rest for by, rest in self.asked.items())]

    def move(self, command: str) -> str:
        verb, _, text = command.partition(" ")
        if verb == "NUMBER":
            if read_number(text, 1, self.facts["most"]) == self.facts["secret"]:
                self.win()
            else:
                self.lose()
            return ""
        if verb != "MOD":
            raise Illegal("a command begins with MOD or NUMBER")
        by = read_number(text, 2, max(self.facts["divisors"]))
        if by not in self.facts["divisors"] or by in self.asked:
            raise Illegal("you cannot ask for this divisor, or not again")
        self.asked[by] = self.facts["secret"] % by
        return f"Divided by {by} the number leaves {self.asked[by]}."

    def legal(self) -> list[str]:
        divisors = [f"MOD {by}" for by in self.facts["divisors"] if by not in self.asked]
        return [*divisors, f"NUMBER {self.possible()[len(self.possible()) // 2]}"]

    def best(self) -> str:
        left = self.possible()
        if len(left) == 1:
            return f"NUMBER {left[0]}"
        fresh = [by for by in self.facts["divisors"] if by not in self.asked]
        if not fresh:
            return f"NUMBER {left[0]}"
        return f"MOD {min(fresh, key=lambda by: max(Counter(one % by for one in left).values()))}"


def draw_remainders(rng: random.Random, divisors: int, largest: int, most: int, limit: int) -> Opening:
    """Drawn until the number can be told in time, and not by fewer than two remainders."""
    while True:
        chosen = sorted(rng.sample(range(3, largest + 1), divisors))
        top = rng.randint(most // 2, most)
        facts = {"divisors": chosen, "most": top, "secret": rng.randint(1, top), "limit": limit}
        if max(chosen) < top // 3 and keeps_limit(Remainders(facts)):
            break
    rules = (
        f"Find a secret whole number from 1 to {top}. MOD and a divisor tells the remainder of the number divided by "
        f"it. You may ask for {', '.join(map(str, chosen))}, each of them once. NUMBER and your answer ends the game; "
        "a wrong answer loses."
    )
    return opening(rules, Remainders, facts, f"MOD {chosen[0]}", str(facts["secret"]), label_of(rng))


GAMES = [
    game(
        "bulls",
        draw_bulls,
        Bulls,
        (6, 7, 9),
        {"digits": 5, "length": 2, "limit": 6},
        {"digits": 6, "length": 3, "limit": 7},
        {"digits": 7, "length": 4, "limit": 9},
    ),
    game(
        "marked_words",
        draw_marked,
        Marked,
        (3, 4, 4),
        {"words": 10, "limit": 3},
        {"words": 30, "limit": 4},
        {"words": 70, "limit": 4},
    ),
    game(
        "hangman",
        draw_hangman,
        Hangman,
        (6, 9, 12),
        {"words": 8, "wrong": 2, "limit": 6},
        {"words": 24, "wrong": 3, "limit": 9},
        {"words": 60, "wrong": 4, "limit": 12},
    ),
    game(
        "remainders",
        draw_remainders,
        Remainders,
        (4, 4, 5),
        {"divisors": 3, "largest": 7, "most": 40, "limit": 4},
        {"divisors": 4, "largest": 11, "most": 120, "limit": 4},
        {"divisors": 5, "largest": 15, "most": 999, "limit": 5},
    ),
]
