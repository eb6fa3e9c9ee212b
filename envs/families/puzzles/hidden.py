"""Puzzles in which something is hidden: a code that answers to guesses, mines under a field.

In: a game of the library.  Out: facts; `GAMES` is listed by the family.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.families.puzzles.frame import Puzzle, Refused, beside, numbers, picture, puzzle_game

Settings = Mapping[str, Any]
Cell = tuple[int, int]

# ---- a secret code ---------------------------------------------------------------------------------------------------


def mastermind_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    """A first guess is made for the model, so that no two tasks read the same."""
    first = [rng.randint(1, game.num_colors) for _ in game.secret_code]
    return {"code": list(game.secret_code), "colours": game.num_colors, "first": first}


def pegs(guess: Sequence[int], code: Sequence[int]) -> tuple[int, int]:
    """`pegs([1, 1, 2], [1, 2, 3])` -> (1, 1): right ones in place, and right ones elsewhere."""
    right = sum(one == other for one, other in zip(guess, code, strict=True))
    return right, sum(min(guess.count(colour), code.count(colour)) for colour in set(guess)) - right


class Mastermind(Puzzle):
    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.length = len(facts["code"])
        self.guesses: list[list[int]] = [list(facts["first"])]
        self.rules = (
            f"Mastermind. Find the secret code of {self.length} digits from 1 to {facts['colours']}; a digit may occur "
            "several times. After a guess you learn how many digits are right and in the right place, and how many "
            "further ones are right but elsewhere."
        )
        self.usage = "guess " + " ".join(["<digit>"] * self.length)

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb != "guess":
            raise Refused("the command is guess")
        self.guesses.append(numbers(words, *[(1, self.facts["colours"])] * self.length))

    def solved(self) -> bool:
        return self.guesses[-1] == self.facts["code"]

    def plan(self) -> list[str]:
        """The first code, in the order of numbers, that fits all answers; the last guess is the right one anyway."""
        code = self.facts["code"]
        if self.commands_left > 1:
            answers = [pegs(guess, code) for guess in self.guesses]
            after = self.guesses[-1] if len(self.guesses) > 1 else []
            for found in itertools.product(range(1, self.facts["colours"] + 1), repeat=self.length):
                guess = list(found)
                if guess > after and all(
                    pegs(guess, old) == answer for old, answer in zip(self.guesses, answers, strict=True)
                ):
                    code = guess
                    break
        return ["guess " + " ".join(map(str, code))]

    def solution(self) -> list[str]:
        return ["guess " + " ".join(map(str, self.facts["code"]))]

    def show(self) -> str:
        lines = []
        for guess in self.guesses:
            right, elsewhere = pegs(guess, self.facts["code"])
            lines.append(f"{' '.join(map(str, guess))}: {right} in place, {elsewhere} elsewhere")
        return "\n".join(lines)


# ---- mines -----------------------------------------------------------------------------------------------------------


def mines_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any] | None:
    """A field that opens with a cell without mines around it, and that can be cleared without a guess."""
    size = game.size
    cells = [(row, column) for row in range(size) for column in range(size)]
    mines = {(row, column) for row, column in cells if game.mines[row][column]}
    free = [cell for cell in cells if cell not in mines and not mines & set(beside(*cell, size, size, diagonal=True))]
    if not free:
        return None
    facts = {"size": size, "mines": sorted(list(mine) for mine in mines), "first": list(rng.choice(free))}
    order = cleared(Mines({**facts, "order": []}))
    return {**facts, "order": order} if order is not None else None


def cleared(field: Mines) -> list[str] | None:
    """Commands that open all cells, each known to be safe when it is opened; None where a guess is needed."""
    order: list[str] = []
    while not field.solved():
        safe = safe_cells(field)
        if not safe:
            return None
        for row, column in safe:
            if (row, column) not in field.open:
                order.append(f"open {row + 1} {column + 1}")
                field.do("open", [str(row + 1), str(column + 1)])
    return order


def safe_cells(field: Mines) -> list[Cell]:
    """Closed cells that the numbers in sight prove to be safe, by one number or by two that overlap."""
    known: set[tuple[frozenset[Cell], int]] = set()
    for cell in field.open:
        closed = frozenset(field.near(cell)) - field.open
        if closed:
            known.add((closed, field.count(cell)))
    changed = True
    while changed:
        changed = False
        for (one, few), (other, many) in itertools.permutations(sorted(known, key=_order), 2):
            if one < other and (other - one, many - few) not in known:
                known.add((other - one, many - few))
                changed = True
        if len(known) > 400:
            break
    return sorted({cell for cells, count in known if count == 0 for cell in cells})


def _order(item: tuple[frozenset[Cell], int]) -> tuple[list[Cell], int]:
    return sorted(item[0]), item[1]


class Mines(Puzzle):
    usage = "open <row> <column>"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.size: int = facts["size"]
        self.mines: set[Cell] = {(row, column) for row, column in facts["mines"]}
        self.open: set[Cell] = set()
        self.hit = False
        self._open((facts["first"][0], facts["first"][1]))
        self.rules = (
            f"Minesweeper. {len(self.mines)} mines are hidden in closed cells (.). An open cell says how many of its "
            "up to eight neighbours are mines; one with 0 opens its neighbours too. Open all cells without a mine. "
            "Opening a mine loses. No guess is needed."
        )

    def near(self, cell: Cell) -> list[Cell]:
        return beside(*cell, self.size, self.size, diagonal=True)

    def count(self, cell: Cell) -> int:
        return sum(near in self.mines for near in self.near(cell))

    def _open(self, cell: Cell) -> None:
        todo = [cell]
        while todo:
            cell = todo.pop()
            if cell not in self.open:
                self.open.add(cell)
                todo.extend([] if self.count(cell) else self.near(cell))

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb != "open":
            raise Refused("the command is open")
        row, column = (number - 1 for number in numbers(words, (1, self.size), (1, self.size)))
        if (row, column) in self.open:
            raise Refused("this cell is open")
        if (row, column) in self.mines:
            self.hit = True
        else:
            self._open((row, column))

    def lost(self) -> bool:
        return self.hit

    def solved(self) -> bool:
        return not self.hit and len(self.open) + len(self.mines) == self.size**2

    def solution(self) -> list[str]:
        return list(self.facts["order"])

    def plan(self) -> list[str]:
        """Only what can be known now: cells that were safe before the next answer."""
        safe = {f"open {row + 1} {column + 1}" for row, column in safe_cells(self)}
        done = {f"open {row + 1} {column + 1}" for row, column in self.open}
        return [command for command in self.facts["order"] if command in safe and command not in done]

    def show(self) -> str:
        cells = range(self.size)
        return picture([[self.count((r, c)) if (r, c) in self.open else "." for c in cells] for r in cells])


GAMES = [
    puzzle_game(
        "mastermind",
        "mastermind",
        Mastermind,
        mastermind_facts,
        {"easy": {"commands": 12}, "medium": {"commands": 12}, "hard": {"commands": 15}},
    ),
    puzzle_game("minesweeper", "minesweeper", Mines, mines_facts),
]
