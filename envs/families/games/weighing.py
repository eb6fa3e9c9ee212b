"""Finding the bad ones by tests of groups: a false coin on a balance, bad samples in mixtures.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.

Each game has a policy that knows only what was told, and a limit that this policy keeps to.
"""

from __future__ import annotations

import itertools
import random
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
        facts: dict[str, Any] = {
            "samples": samples,
            "bad": sorted(rng.sample(range(1, samples + 1), bad)),
            "limit": limit,
        }
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


GAMES = [
    game(
        "coins",
        draw_coins,
        Coins,
        (3, 4, 5),
        {"low": 4, "high": 9, "limit": 3},
        {"low": 10, "high": 27, "limit": 4},
        {"low": 28, "high": 60, "limit": 5},
    ),
    game(
        "samples",
        draw_samples,
        Samples,
        (5, 8, 12),
        {"samples": 9, "bad": 1, "limit": 5},
        {"samples": 10, "bad": 2, "limit": 8},
        {"samples": 12, "bad": 3, "limit": 12},
    ),
]
