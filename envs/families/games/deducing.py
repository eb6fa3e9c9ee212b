"""Guessing by what every answer rules out: codes, words, letters, remainders, weighings, mixed samples.

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


def _numbers(text: str, high: int) -> list[int]:
    """Different numbers from 1 to `high`, with commas between; raises `Illegal`."""
    found = [read_number(part.strip(), 1, high) for part in text.split(",")]
    if len(set(found)) < len(found):
        raise Illegal("no number may be given twice")
    return found


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
        facts = {"digits": digits, "code": "".join(rng.sample("123456789"[:digits], length)), "limit": limit}
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
        facts = {"words": chosen, "secret": rng.choice(chosen), "limit": limit}
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
        facts = {"words": chosen, "secret": rng.choice(chosen), "wrong": wrong, "limit": limit}
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
        f"it. You may ask for {', '.join(map(str, chosen))}, each of them once. NUMBER and your answer ends the game; a "
        "wrong answer loses."
    )
    return opening(rules, Remainders, facts, f"MOD {chosen[0]}", str(facts["secret"]), label_of(rng))


# ---- coins -----------------------------------------------------------------------------------------------------------


class Coins(Counted):
    """One coin weighs more, or less, than all others; a balance compares two groups of the same size."""

    def begin(self) -> None:
        self.suspects = list(range(1, self.facts["coins"] + 1))

    def move(self, command: str) -> str:
        verb, _, rest = command.partition(" ")
        if verb == "FALSE":
            if read_number(rest, 1, self.facts["coins"]) == self.facts["false"]:
                self.win()
            else:
                self.lose()
            return ""
        if verb != "WEIGH" or rest.count(":") != 1:
            raise Illegal("write WEIGH, coins, a colon and as many other coins, or FALSE and a coin")
        left, right = (_numbers(part, self.facts["coins"]) for part in rest.split(":"))
        if len(left) != len(right) or set(left) & set(right):
            raise Illegal("both sides need equally many coins, and no coin can be on both")
        false = self.facts["false"]
        if false not in left and false not in right:
            self.suspects = [coin for coin in self.suspects if coin not in left and coin not in right]
            return "Both sides are equal."
        heavy_left = (false in left) == self.facts["heavy"]
        self.suspects = [coin for coin in self.suspects if coin in (left if false in left else right)]
        return f"The {'left' if heavy_left else 'right'} side is heavier."

    def legal(self) -> list[str]:
        """Weighings of neighbours and of halves, and naming a coin."""
        coins = self.facts["coins"]
        pairs = [f"WEIGH {coin}:{coin + 1}" for coin in range(1, coins)]
        third = coins // 3
        groups = [self.weighing(list(range(start, start + 2 * third))) for start in range(1, coins - 2 * third + 2)]
        return [*pairs, *groups, *(f"FALSE {coin}" for coin in self.suspects)]

    def weighing(self, coins: list[int]) -> str:
        half = len(coins) // 2
        return f"WEIGH {','.join(map(str, coins[:half]))}:{','.join(map(str, coins[half : 2 * half]))}"

    def best(self) -> str:
        if len(self.suspects) == 1:
            return f"FALSE {self.suspects[0]}"
        third = (len(self.suspects) + 1) // 3
        return self.weighing(self.suspects[: 2 * max(third, 1)])


def draw_coins(rng: random.Random, low: int, high: int, limit: int) -> Opening:
    coins = rng.randint(low, high)
    facts = {"coins": coins, "false": rng.randint(1, coins), "heavy": rng.random() < 0.5, "limit": limit}
    rules = (
        f"Of {coins} coins, 1 to {coins}, one is false: it is {'heavier' if facts['heavy'] else 'lighter'} than the "
        "others, which all weigh the same. WEIGH 1,2:3,4 compares coins 1 and 2 with coins 3 and 4 on a balance; on "
        "each side there must be equally many. FALSE 3 says that coin 3 is the false one, and ends the game."
    )
    return opening(rules, Coins, facts, "WEIGH 1,2:3,4", f"FALSE {facts['false']}", label_of(rng))


# ---- samples ---------------------------------------------------------------------------------------------------------


class Samples(Counted):
    """A test of mixed samples tells whether any of them is bad; all bad ones must be named."""

    def begin(self) -> None:
        numbers = range(1, self.facts["samples"] + 1)
        self.sets = [frozenset(chosen) for chosen in itertools.combinations(numbers, len(self.facts["bad"]))]

    def move(self, command: str) -> str:
        verb, _, rest = command.partition(" ")
        if verb not in ("TEST", "BAD"):
            raise Illegal("a command begins with TEST or BAD")
        chosen = set(_numbers(rest, self.facts["samples"]))
        bad = set(self.facts["bad"])
        if verb == "BAD":
            if chosen == bad:
                self.win()
            else:
                self.lose()
            return ""
        self.sets = [one for one in self.sets if bool(one & chosen) == bool(bad & chosen)]
        return f"Tested {','.join(map(str, sorted(chosen)))}: {'something bad' if bad & chosen else 'all good'}."

    def legal(self) -> list[str]:
        """Tests of runs of samples, and naming the first or the last set that is possible."""
        numbers = range(1, self.facts["samples"] + 1)
        runs = [numbers[start : start + size] for size in (1, 2, 3, 4) for start in range(len(numbers) - size + 1)]
        named = {",".join(map(str, sorted(chosen))) for chosen in (self.sets[0], self.sets[-1])}
        return [*(f"TEST {','.join(map(str, run))}" for run in runs), *(f"BAD {chosen}" for chosen in sorted(named))]

    def best(self) -> str:
        """Adds sample by sample what brings the two answers nearest to equally likely."""
        if len(self.sets) == 1:
            return f"BAD {','.join(map(str, sorted(self.sets[0])))}"
        chosen: list[int] = []
        gap = len(self.sets)
        for sample in range(1, self.facts["samples"] + 1):
            tried = {*chosen, sample}
            after = abs(2 * sum(bool(one & tried) for one in self.sets) - len(self.sets))
            if after < gap:
                chosen, gap = [*chosen, sample], after
        return f"TEST {','.join(map(str, chosen or sorted(self.sets[0])))}"


def draw_samples(rng: random.Random, samples: int, bad: int, limit: int) -> Opening:
    while True:
        facts = {"samples": samples, "bad": sorted(rng.sample(range(1, samples + 1), bad)), "limit": limit}
        if keeps_limit(Samples(facts)):
            break
    count = "one is" if bad == 1 else f"exactly {bad} are"
    rules = (
        f"Of {samples} samples, 1 to {samples}, {count} bad. TEST 1,2,4 mixes those samples and tells whether any of "
        "them is bad. BAD and the numbers of all bad samples, such as "
        f"BAD {','.join(map(str, range(2, 2 + bad)))}, ends the game; a wrong answer loses."
    )
    answer = f"BAD {','.join(map(str, facts['bad']))}"
    return opening(rules, Samples, facts, "TEST 1,2", answer, label_of(rng))


def _levels(**settings: Any) -> dict[str, Any]:
    return settings


GAMES = [
    game(
        "bulls",
        draw_bulls,
        Bulls,
        (6, 7, 9),
        _levels(digits=5, length=2, limit=6),
        _levels(digits=6, length=3, limit=7),
        _levels(digits=7, length=4, limit=9),
    ),
    game(
        "marked_words",
        draw_marked,
        Marked,
        (4, 5, 6),
        _levels(words=10, limit=4),
        _levels(words=30, limit=5),
        _levels(words=70, limit=6),
    ),
    game(
        "hangman",
        draw_hangman,
        Hangman,
        (6, 9, 12),
        _levels(words=8, wrong=2, limit=6),
        _levels(words=24, wrong=3, limit=9),
        _levels(words=60, wrong=4, limit=12),
    ),
    game(
        "remainders",
        draw_remainders,
        Remainders,
        (4, 4, 5),
        _levels(divisors=3, largest=7, most=40, limit=4),
        _levels(divisors=4, largest=11, most=120, limit=4),
        _levels(divisors=5, largest=15, most=999, limit=5),
    ),
    game(
        "coins",
        draw_coins,
        Coins,
        (3, 4, 5),
        _levels(low=4, high=9, limit=3),
        _levels(low=10, high=27, limit=4),
        _levels(low=28, high=60, limit=5),
    ),
    game(
        "samples",
        draw_samples,
        Samples,
        (5, 8, 12),
        _levels(samples=9, bad=1, limit=5),
        _levels(samples=10, bad=2, limit=8),
        _levels(samples=12, bad=3, limit=12),
    ),
]
