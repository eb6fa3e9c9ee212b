"""Searching for what is hidden: a number, a treasure, ships, mines, beacons.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.

What is hidden is drawn first.  Each game has a policy that knows only what was told, and a limit that it keeps to.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence
from typing import Any

from envs.families.games.play import (
    LETTERS,
    Cell,
    Counted,
    Illegal,
    cell_name,
    game,
    grid_text,
    inside,
    label_of,
    opening,
    read_cell,
    read_number,
)
from envs.talk import Opening


def keeps_limit(play: Counted) -> bool:
    """Whether the policy of a play wins it within its limit."""
    while not play.over:
        play.act(play.best())
    return play.value == 1.0


# ---- number ----------------------------------------------------------------------------------------------------------


class Number(Counted):
    """Guesses are answered with higher or lower."""

    def begin(self) -> None:
        self.low, self.high = 1, int(self.facts["most"])

    def move(self, command: str) -> str:
        guess = read_number(command, 1, self.facts["most"])
        secret = self.facts["secret"]
        if guess == secret:
            self.win()
            return "Right."
        if guess < secret:
            self.low = max(self.low, guess + 1)
            return f"The number is higher than {guess}."
        self.high = min(self.high, guess - 1)
        return f"The number is lower than {guess}."

    def legal(self) -> list[str]:
        return [str(number) for number in range(1, self.facts["most"] + 1)]

    def best(self) -> str:
        return str((self.low + self.high) // 2)


def draw_number(rng: random.Random, most: int) -> Opening:
    most = rng.randint(most // 2 + 1, most)
    facts = {"most": most, "secret": rng.randint(1, most), "limit": most.bit_length()}
    rules = (
        f"I have chosen a whole number from 1 to {most}. Say a number; you will be told whether mine is higher or "
        "lower. Find it."
    )
    return opening(rules, Number, facts, str(most // 3), str(facts["secret"]), label_of(rng))


# ---- treasure --------------------------------------------------------------------------------------------------------


class Treasure(Counted):
    """A cell that was dug is answered with the direction of the treasure."""

    def begin(self) -> None:
        self.bounds = [0, self.facts["rows"] - 1, 0, self.facts["columns"] - 1]  # top, bottom, left, right

    def move(self, command: str) -> str:
        dug = read_cell(command, self.facts["rows"], self.facts["columns"])
        row, column = self.facts["treasure"]
        if dug == (row, column):
            self.win()
            return "You found it."
        vertical = "north" if row < dug[0] else "south" if row > dug[0] else ""
        horizontal = "west" if column < dug[1] else "east" if column > dug[1] else ""
        top, bottom, left, right = self.bounds
        rows = {"north": (top, min(bottom, dug[0] - 1)), "south": (max(top, dug[0] + 1), bottom)}
        columns = {"west": (left, min(right, dug[1] - 1)), "east": (max(left, dug[1] + 1), right)}
        self.bounds = [*rows.get(vertical, (dug[0], dug[0])), *columns.get(horizontal, (dug[1], dug[1]))]
        return f"From {cell_name(*dug)} the treasure lies to the {vertical}{horizontal}."

    def legal(self) -> list[str]:
        cells = itertools.product(range(self.facts["rows"]), range(self.facts["columns"]))
        return [cell_name(*cell) for cell in cells]

    def best(self) -> str:
        top, bottom, left, right = self.bounds
        return cell_name((top + bottom) // 2, (left + right) // 2)


def draw_treasure(rng: random.Random, most: int) -> Opening:
    rows, columns = rng.randint(most // 2 + 1, most), rng.randint(most // 2 + 1, most)
    hidden = (rng.randrange(rows), rng.randrange(columns))
    facts = {
        "rows": rows,
        "columns": columns,
        "treasure": list(hidden),
        "limit": max(rows, columns).bit_length(),
    }
    rules = (
        f"A treasure is buried in one cell of a map with the columns A to {LETTERS[columns - 1]} from west to east and "
        f"the rows 1 to {rows} from north to south. Name a cell to dig there. Where the treasure is not, a compass "
        "shows in which direction it lies: north, south, east, west, northeast and so on. Just north means in the same "
        "column. Northeast only means further north and further east, by any distance."
    )
    return opening(rules, Treasure, facts, "B2", cell_name(*hidden), label_of(rng))


# ---- ships -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _places(rows: int, columns: int, length: int) -> tuple[frozenset[Cell], ...]:
    """All places of a ship."""
    found = []
    for row, column in itertools.product(range(rows), range(columns)):
        for down, right in ((0, 1), (1, 0)):
            cells = [(row + down * step, column + right * step) for step in range(length)]
            if inside(cells[-1], rows, columns):
                found.append(frozenset(cells))
    return tuple(found)


class Ships(Counted):
    """Shots are answered with hit or water, until every cell of every ship is hit."""

    def begin(self) -> None:
        self.rows, self.columns = self.facts["rows"], self.facts["columns"]
        self.ships = [{(row, column) for row, column in ship} for ship in self.facts["ships"]]
        self.shots: dict[Cell, str] = {}

    def move(self, command: str) -> str:
        cell = read_cell(command, self.rows, self.columns)
        if cell in self.shots:
            raise Illegal("you shot there already")
        ship = next((one for one in self.ships if cell in one), None)
        self.shots[cell] = "X" if ship else "o"
        if ship is None:
            return "Water."
        if all(self.shots.get(other) == "X" for one in self.ships for other in one):
            self.win()
        return "Hit and sunk." if all(self.shots.get(other) == "X" for other in ship) else "Hit."

    def show(self) -> str:
        return grid_text(
            [[self.shots.get((row, column), ".") for column in range(self.columns)] for row in range(self.rows)]
        )

    def legal(self) -> list[str]:
        cells = itertools.product(range(self.rows), range(self.columns))
        return [cell_name(*cell) for cell in cells if cell not in self.shots]

    def best(self) -> str:
        """The cell that most places of ships cover, those over hits first."""
        weights: dict[Cell, int] = {}
        hits = {cell for cell, mark in self.shots.items() if mark == "X"}
        for length in {len(ship) for ship in self.ships}:
            for place in _places(self.rows, self.columns, length):
                if all(self.shots.get(cell) != "o" for cell in place):
                    for cell in place - hits:
                        weights[cell] = weights.get(cell, 0) + 1 + 100 * len(place & hits)
        if not weights:
            return self.legal()[0]
        return cell_name(*max(sorted(weights), key=lambda cell: weights[cell]))


def draw_ships(rng: random.Random, rows: int, columns: int, lengths: Sequence[int], limit: int) -> Opening:
    """Drawn until the policy sinks all in time."""
    while True:
        fleet = [sorted(rng.choice(_places(rows, columns, length))) for length in lengths]
        facts = {"rows": rows, "columns": columns, "ships": fleet, "limit": limit}
        apart = len({cell for ship in fleet for cell in ship}) == sum(lengths)
        if apart and keeps_limit(Ships(facts)):
            break
    ships = "a ship" if len(lengths) == 1 else f"{len(lengths)} ships"
    rules = (
        f"Hidden in the grid lies {ships}, straight along a row or a column, of {' and '.join(map(str, lengths))} "
        "cells. Name a cell to shoot at. Hit every cell of all ships. X is a hit, o is water."
    )
    return opening(rules, Ships, facts, "B3", label=label_of(rng))


# ---- mines -----------------------------------------------------------------------------------------------------------


def _around(cell: Cell, rows: int, columns: int) -> list[Cell]:
    steps = itertools.product((-1, 0, 1), (-1, 0, 1))
    cells = [(cell[0] + down, cell[1] + right) for down, right in steps if (down, right) != (0, 0)]
    return [other for other in cells if inside(other, rows, columns)]


class Mines(Counted):
    """Opening a cell shows how many of its neighbours are mines; a mine loses; all safe cells must be opened."""

    def begin(self) -> None:
        self.rows, self.columns = self.facts["rows"], self.facts["columns"]
        self.mines = {(row, column) for row, column in self.facts["mines"]}
        self.opened: dict[Cell, int] = {}
        self.open((self.facts["start"][0], self.facts["start"][1]))

    def open(self, cell: Cell) -> None:
        """Opens a cell, and all around a cell without a mine beside it."""
        todo = [cell]
        while todo:
            cell = todo.pop()
            if cell not in self.opened:
                around = _around(cell, self.rows, self.columns)
                self.opened[cell] = sum(other in self.mines for other in around)
                todo += around if self.opened[cell] == 0 else []

    def move(self, command: str) -> str:
        cell = read_cell(command.removeprefix("OPEN "), self.rows, self.columns)
        if cell in self.opened:
            raise Illegal("this cell is open already")
        if cell in self.mines:
            self.lose()
            return "That was a mine."
        self.open(cell)
        if len(self.opened) + len(self.mines) == self.rows * self.columns:
            self.win()
        return ""

    def show(self) -> str:
        marks = {cell: str(count) for cell, count in self.opened.items()}
        return grid_text([[marks.get((row, col), "?") for col in range(self.columns)] for row in range(self.rows)])

    def legal(self) -> list[str]:
        cells = itertools.product(range(self.rows), range(self.columns))
        return [f"OPEN {cell_name(*cell)}" for cell in cells if cell not in self.opened]

    def best(self) -> str:
        safe = self.safe_cell()
        return f"OPEN {cell_name(*safe)}" if safe else self.legal()[0]

    def safe_cell(self) -> Cell | None:
        """A cell that cannot be a mine, by comparing what two numbers say; None where that does not tell."""
        clues: set[tuple[frozenset[Cell], int]] = set()
        for cell, count in self.opened.items():
            hidden = frozenset(other for other in _around(cell, self.rows, self.columns) if other not in self.opened)
            if hidden:
                clues.add((hidden, count))
        for _ in range(3):
            for cells, count in sorted(clues, key=lambda clue: (sorted(clue[0]), clue[1])):
                if count == 0 and cells:
                    return min(cells)
            more = {
                (cells - others, count - less)
                for (cells, count), (others, less) in itertools.product(clues, clues)
                if others < cells
            }
            if more <= clues or len(clues) > 80:
                return None
            clues |= more
        return None


def draw_mines(rng: random.Random, rows: int, columns: int, mines: int, low: int, high: int) -> Opening:
    """Drawn until it takes from `low` to `high` cells to open, and no guess."""
    cells = list(itertools.product(range(rows), range(columns)))
    while True:
        chosen = rng.sample(cells, mines + 1)
        facts: dict[str, Any] = {
            "rows": rows,
            "columns": columns,
            "mines": sorted(chosen[1:]),
            "start": chosen[0],
            "limit": 99,
        }
        play = Mines(facts)
        steps = 0
        while not play.over and play.safe_cell():
            play.act(play.best())
            steps += 1
        if play.value and low <= steps <= high:
            break
    facts["limit"] = rows * columns - mines - len(Mines(facts).opened)
    if facts["limit"] > high:  # safe cells may open more than themselves
        facts["limit"] = high
    rules = (
        f"{mines} of the cells are mines. A number says how many of the up to eight cells around it are mines; ? is "
        "not open. OPEN B2 opens a cell; opening a 0 opens all around it too. Open all cells that are no mines. "
        "Opening a mine loses. No guess is needed."
    )
    return opening(rules, Mines, facts, "OPEN B2")


# ---- beacons ---------------------------------------------------------------------------------------------------------


class Beacons(Counted):
    """A probe tells the distance to the nearest of two hidden beacons; both must be probed themselves."""

    def begin(self) -> None:
        self.probes: dict[Cell, int] = {}

    def nearest(self, cell: Cell, beacons: Sequence[Sequence[int]]) -> int:
        return min(abs(cell[0] - row) + abs(cell[1] - column) for row, column in beacons)

    def move(self, command: str) -> str:
        side = self.facts["side"]
        cell = read_cell(command, side, side)
        if cell in self.probes:
            raise Illegal("you probed there already")
        self.probes[cell] = self.nearest(cell, self.facts["beacons"])
        found = [probe for probe, distance in self.probes.items() if distance == 0]
        if len(found) == 2:
            self.win()
        return f"The nearest beacon is {self.probes[cell]} steps from {cell_name(*cell)}."

    def legal(self) -> list[str]:
        side = range(self.facts["side"])
        return [cell_name(*cell) for cell in itertools.product(side, side) if cell not in self.probes]

    def best(self) -> str:
        """The cell that tells most pairs apart that are still possible."""
        side = range(self.facts["side"])
        cells = list(itertools.product(side, side))
        pairs = [
            pair
            for pair in itertools.combinations(cells, 2)
            if all(self.nearest(cell, pair) == distance for cell, distance in self.probes.items())
        ]
        likely = {cell for pair in pairs for cell in pair if cell not in self.probes}
        pairs = pairs[:: max(len(pairs) // 60, 1)]

        def told(cell: Cell) -> tuple[int, bool]:
            answers = [self.nearest(cell, pair) for pair in pairs]
            return -max(answers.count(answer) for answer in set(answers)), cell in likely

        if len(likely) <= 3:
            return cell_name(*min(likely))
        return cell_name(*max((cell for cell in cells if cell not in self.probes), key=told))


def draw_beacons(rng: random.Random, side: int, limit: int) -> Opening:
    """Drawn until the policy finds both in time."""
    cells = list(itertools.product(range(side), range(side)))
    while True:
        facts = {"side": side, "beacons": sorted(rng.sample(cells, 2)), "limit": limit}
        if keeps_limit(Beacons(facts)):
            break
    rules = (
        f"Two beacons are hidden in two cells of a grid with the columns A to {LETTERS[side - 1]} and the rows 1 to "
        f"{side}. Name a cell to probe it. You are told how many steps it is to the nearest beacon, going along rows "
        "and columns only; 0 means that a beacon is right there. Probe both cells with beacons; no cell may be probed "
        "twice."
    )
    return opening(rules, Beacons, facts, "B2", label=label_of(rng))


GAMES = [
    game("number", draw_number, Number, (5, 8, 12), {"most": 31}, {"most": 255}, {"most": 4000}),
    game("treasure", draw_treasure, Treasure, (3, 4, 5), {"most": 7}, {"most": 15}, {"most": 26}),
    game(
        "ships",
        draw_ships,
        Ships,
        (6, 14, 24),
        {"rows": 3, "columns": 4, "lengths": [3], "limit": 6},
        {"rows": 5, "columns": 6, "lengths": [3, 2], "limit": 14},
        {"rows": 7, "columns": 7, "lengths": [4, 3, 2], "limit": 24},
    ),
    game(
        "mines",
        draw_mines,
        Mines,
        (6, 14, 26),
        {"rows": 4, "columns": 4, "mines": 2, "low": 2, "high": 6},
        {"rows": 5, "columns": 6, "mines": 6, "low": 6, "high": 14},
        {"rows": 7, "columns": 7, "mines": 11, "low": 12, "high": 26},
    ),
    game(
        "beacons",
        draw_beacons,
        Beacons,
        (6, 8, 9),
        {"side": 4, "limit": 6},
        {"side": 6, "limit": 8},
        {"side": 8, "limit": 9},
    ),
]
