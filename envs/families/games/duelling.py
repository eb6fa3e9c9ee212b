"""Duels that the model can win by force: the frame, and games of taking away.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.

The opponent takes any move that spoils the win, where there is one and it sees it, and otherwise a random one; its
random numbers follow from `facts["seed"]`, so that the same moves lead to the same game.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from envs.domain import rng_for
from envs.families.games.play import LETTERS, TRIES, Counted, Illegal, cell_name, game, label_of, opening
from envs.talk import Opening

MODEL, OPPONENT = 0, 1


@functools.lru_cache(maxsize=16)
def _known_worths(key: str) -> dict[Any, bool]:
    """What is known of the positions of one task: it is looked up at every move of an episode."""
    return {}


class Duel(Counted):
    """Positions are tuples that begin with who moves.  `result` says whether the model has won; None: it goes on."""

    def begin(self) -> None:
        self.position: Any = self.first()
        self.count = 0
        self.known = _known_worths(f"{type(self).__name__} {json.dumps(dict(self.facts), sort_keys=True)}")

    def first(self) -> Any:
        raise NotImplementedError

    def options(self, position: Any) -> dict[str, Any]:
        raise NotImplementedError

    def result(self, position: Any) -> bool | None:
        """The usual rule: who cannot move loses."""
        return None if self.options(position) else bool(position[0] == OPPONENT)

    def worth(self, position: Any) -> bool:
        """Whether the model wins from here, if both play as well as they can."""
        known = self.known.get(position)
        if known is None:
            known = self.result(position)
            if known is None:
                after = self.options(position).values()
                quantifier = any if position[0] == MODEL else all
                known = quantifier(self.worth(other) for other in after)
            self.known[position] = known
        return known

    def legal(self) -> list[str]:
        return list(self.options(self.position))

    def move(self, command: str) -> str:
        options = self.options(self.position)
        if command not in options:
            raise Illegal("that is no possible move now")
        self.position = options[command]
        told = []
        while self.result(self.position) is None and self.position[0] == OPPONENT:
            answer = self.opponent()
            told.append(f"I play {answer}.")
            self.position = self.options(self.position)[answer]
        ended = self.result(self.position)
        if ended is not None:
            if ended:
                self.win()
            else:
                self.lose()
        return " ".join(told)

    def opponent(self) -> str:
        self.count += 1
        rng = rng_for(f"opponent {self.facts['seed']}", self.count)
        options = self.options(self.position)
        spoiling = [command for command, after in options.items() if not self.worth(after)]
        sees = rng.random() < self.facts["skill"]
        return rng.choice(spoiling if sees and spoiling else list(options))

    def best(self) -> str:
        options = self.options(self.position)
        return next((command for command, after in options.items() if self.worth(after)), next(iter(options)))


def winnable(
    rng: random.Random, make: Callable[[], Mapping[str, Any]], play: type[Duel], skill: float, share: float
) -> dict[str, Any]:
    """Facts of a position that the model wins by force, by at most this share of its first moves."""
    for _ in range(TRIES):
        facts = {**make(), "skill": skill, "seed": rng.randint(1, 10**9)}
        duel = play(facts)
        duel.known = {}  # most positions are not taken: they shall not push out what is known of tasks
        after = list(duel.options(duel.position).values())
        if duel.result(duel.position) is not None or any(duel.result(other) for other in after):
            continue
        winning = sum(duel.worth(other) for other in after)
        if 0 < winning <= share * len(after):
            return facts
    raise AssertionError(f"{play.__name__}: no position to win in {TRIES} tries")


# ---- nim -------------------------------------------------------------------------------------------------------------


def _taken(position: Any, least: int = 1) -> dict[str, Any]:
    """All ways to take some of one heap."""
    turn, heaps = position
    found = {}
    for heap, size in enumerate(heaps):
        for amount in range(least, size + 1):
            found[f"{LETTERS[heap]} {amount}"] = (1 - turn, (*heaps[:heap], size - amount, *heaps[heap + 1 :]))
    return found


def _heaps_text(heaps: Any) -> str:
    return ", ".join(f"{name} {size}" for name, size in zip(LETTERS, heaps, strict=False))


class Nim(Duel):
    """Who takes the last one wins."""

    def first(self) -> Any:
        return MODEL, tuple(self.facts["heaps"])

    def options(self, position: Any) -> dict[str, Any]:
        return _taken(position)

    def result(self, position: Any) -> bool | None:
        return None if any(position[1]) else bool(position[0] == OPPONENT)

    def show(self) -> str:
        return f"Heaps: {_heaps_text(self.position[1])}"


def draw_nim(rng: random.Random, heaps: int, largest: int, total: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        sizes = [rng.randint(1, largest) for _ in range(heaps)]
        return {"heaps": sizes if sum(sizes) <= total else [1], "limit": (sum(sizes) + 1) // 2 + 2}

    facts = winnable(rng, make, Nim, skill, 0.4)
    rules = (
        "We take matches from heaps in turn; you begin. In a move one takes one or more matches of one heap: A 2 takes "
        "2 of heap A. Who takes the very last match wins."
    )
    return opening(rules, Nim, facts, "A 2", label=label_of(rng))


class LastLoses(Duel):
    """Nobody may take more than `most` at once, and who takes the last one loses."""

    def first(self) -> Any:
        return MODEL, tuple(self.facts["heaps"])

    def options(self, position: Any) -> dict[str, Any]:
        most = self.facts["most"]
        return {command: after for command, after in _taken(position).items() if int(command.split()[1]) <= most}

    def result(self, position: Any) -> bool | None:
        """Nothing is left: who would move now has not taken the last one."""
        return None if any(position[1]) else bool(position[0] == MODEL)

    def show(self) -> str:
        return f"Heaps: {_heaps_text(self.position[1])}"


def draw_last_loses(rng: random.Random, heaps: int, total: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        sizes = [rng.randint(1, total // heaps + 1) for _ in range(heaps)]
        return {"heaps": sizes, "most": rng.randint(2, 4), "limit": (sum(sizes) + 1) // 2 + 2}

    facts = winnable(rng, make, LastLoses, skill, 0.4)
    rules = (
        f"We take matches from heaps in turn; you begin. In a move one takes from 1 to {facts['most']} matches of one "
        "heap: A 2 takes 2 of heap A. Who takes the very last match loses."
    )
    return opening(rules, LastLoses, facts, "A 2", label=label_of(rng))


# ---- take-away without repeating -------------------------------------------------------------------------------------


class NoRepeat(Duel):
    """One heap, and nobody may take as many as were taken just before."""

    def first(self) -> Any:
        return MODEL, self.facts["heap"], self.facts["before"]

    def options(self, position: Any) -> dict[str, Any]:
        turn, heap, before = position
        amounts = [amount for amount in self.facts["amounts"] if amount <= heap and amount != before]
        return {str(amount): (1 - turn, heap - amount, amount) for amount in amounts}

    def show(self) -> str:
        _, heap, before = self.position
        return f"Heap: {heap}. Taken just before: {before or 'nothing'}."


def draw_no_repeat(rng: random.Random, low: int, high: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        amounts = sorted(rng.sample(range(1, 8), rng.randint(3, 5)))
        heap = rng.randint(low, high)
        limit = heap // max((amounts[0] + amounts[1]) // 2, 1) // 2 + 4
        return {"heap": heap, "before": rng.choice([0, *amounts]), "amounts": amounts, "limit": limit}

    facts = winnable(rng, make, NoRepeat, skill, 0.4)
    rules = (
        f"We take matches from one heap in turn; you begin. One may take {', '.join(map(str, facts['amounts']))}, but "
        "not as many as the other one took just before. Who has no move loses. A move is how many you take."
    )
    return opening(rules, NoRepeat, facts, str(facts["amounts"][0]))


# ---- kayles ----------------------------------------------------------------------------------------------------------


class Kayles(Duel):
    """One pin of a row is knocked over, or two that stand side by side."""

    def first(self) -> Any:
        return MODEL, tuple(self.facts["pins"])

    def options(self, position: Any) -> dict[str, Any]:
        turn, pins = position
        found = {}
        for pin in pins:
            found[str(pin)] = (1 - turn, tuple(other for other in pins if other != pin))
            if pin + 1 in pins:
                found[f"{pin} {pin + 1}"] = (1 - turn, tuple(other for other in pins if other not in (pin, pin + 1)))
        return found

    def show(self) -> str:
        pins = [str(pin) if pin in self.position[1] else "." for pin in range(1, self.facts["size"] + 1)]
        return f"Pins: {' '.join(pins)}"


def draw_kayles(rng: random.Random, size: int, gone: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        pins = sorted(rng.sample(range(1, size + 1), size - gone))
        return {"pins": pins, "size": size, "limit": (size - gone + 1) // 2 + 2}

    facts = winnable(rng, make, Kayles, skill, 0.35)
    rules = (
        "Pins stand in a row; a dot is a gap. We knock over pins in turn; you begin. In a move one knocks over one "
        "pin, such as 3, or two pins with neighbouring numbers, such as 3 4. Who knocks over the last pin wins."
    )
    return opening(rules, Kayles, facts, "3 4", label=label_of(rng))


# ---- Euclid ----------------------------------------------------------------------------------------------------------


class Euclid(Duel):
    """A multiple of the smaller number is taken from the larger one; who makes a zero wins."""

    def first(self) -> Any:
        return MODEL, *sorted(self.facts["pair"])

    def options(self, position: Any) -> dict[str, Any]:
        turn, small, large = position
        if small == 0:
            return {}
        amounts = range(small, large + 1, small)
        return {str(amount): (1 - turn, *sorted((small, large - amount))) for amount in amounts}

    def show(self) -> str:
        return f"Numbers: {self.position[1]} and {self.position[2]}"


def draw_euclid(rng: random.Random, low: int, high: int, skill: float) -> Opening:
    """Drawn with at least two decisions: a quotient above one that is not the last."""

    def make() -> dict[str, Any]:
        small, large = sorted([rng.randint(low, high), rng.randint(low, high)])
        quotients = []
        one, other = large, small
        while other:
            quotients.append(one // other)
            one, other = other, one % other
        good = sum(quotient > 1 for quotient in quotients) >= 3
        return {"pair": [large, small] if good else [0, 1], "limit": sum(quotients) // 2 + 3}

    facts = winnable(rng, make, Euclid, skill, 0.5)
    rules = (
        "There are two numbers. In turn, you first, one subtracts a positive multiple of the smaller number from the "
        "larger one, so that nothing negative comes out. Who makes one of them 0 wins. A move is the amount that is "
        "subtracted: from 7 and 24 one may subtract 7, 14 or 21."
    )
    return opening(rules, Euclid, facts, "14")


# ---- chomp -----------------------------------------------------------------------------------------------------------


class Chomp(Duel):
    """A piece is eaten with all that is below and to the right of it; the top left piece is poisoned."""

    def first(self) -> Any:
        return MODEL, tuple(self.facts["rows"])  # how long each row is

    def options(self, position: Any) -> dict[str, Any]:
        turn, rows = position
        found = {}
        for row, length in enumerate(rows):
            for column in range(length):
                after = tuple(min(one, column) if number >= row else one for number, one in enumerate(rows))
                found[cell_name(row, column)] = (1 - turn, after)
        return found

    def result(self, position: Any) -> bool | None:
        """Who moves after the poison was eaten has won."""
        return bool(position[0] == MODEL) if position[1][0] == 0 else None

    def show(self) -> str:
        head = "  " + " ".join(LETTERS[: max(self.facts["rows"])])
        rows = [f"{number + 1} {' '.join('o' * length)}" for number, length in enumerate(self.position[1])]
        rows[0] = rows[0].replace("o", "P", 1)
        return "\n".join([head, *rows])


def draw_chomp(rng: random.Random, rows: int, columns: int, low: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        lengths = sorted([rng.randint(0, columns) for _ in range(rows)], reverse=True)
        size = sum(lengths)
        return {"rows": lengths if size >= low else [0], "limit": (size + 1) // 2 + 2}

    facts = winnable(rng, make, Chomp, skill, 0.3)
    rules = (
        "We eat a bar of chocolate in turn; you begin. Who names a piece eats it and every piece that is not above it "
        "and not to the left of it, that is, in the same column or further right and in the same row or further down. "
        "The piece P at A1 is poisoned: who eats it loses."
    )
    return opening(rules, Chomp, facts, "B2", label=label_of(rng))


GAMES = [
    game(
        "nim",
        draw_nim,
        Nim,
        (7, 11, 15),
        {"heaps": 2, "largest": 5, "total": 9, "skill": 0.5},
        {"heaps": 3, "largest": 7, "total": 17, "skill": 1.0},
        {"heaps": 4, "largest": 8, "total": 24, "skill": 1.0},
    ),
    game(
        "last_loses",
        draw_last_loses,
        LastLoses,
        (8, 12, 15),
        {"heaps": 1, "total": 10, "skill": 0.5},
        {"heaps": 2, "total": 16, "skill": 1.0},
        {"heaps": 3, "total": 20, "skill": 1.0},
    ),
    game(
        "no_repeat",
        draw_no_repeat,
        NoRepeat,
        (10, 20, 30),
        {"low": 7, "high": 12, "skill": 0.5},
        {"low": 16, "high": 30, "skill": 1.0},
        {"low": 31, "high": 50, "skill": 1.0},
    ),
    game(
        "kayles",
        draw_kayles,
        Kayles,
        (5, 8, 10),
        {"size": 7, "gone": 2, "skill": 0.5},
        {"size": 13, "gone": 3, "skill": 1.0},
        {"size": 16, "gone": 4, "skill": 1.0},
    ),
    game(
        "euclid",
        draw_euclid,
        Euclid,
        (30, 30, 30),
        {"low": 3, "high": 30, "skill": 0.5},
        {"low": 20, "high": 150, "skill": 1.0},
        {"low": 100, "high": 999, "skill": 1.0},
    ),
    game(
        "chomp",
        draw_chomp,
        Chomp,
        (8, 12, 17),
        {"rows": 3, "columns": 4, "low": 6, "skill": 0.7},
        {"rows": 4, "columns": 5, "low": 10, "skill": 1.0},
        {"rows": 5, "columns": 6, "low": 16, "skill": 1.0},
    ),
]
