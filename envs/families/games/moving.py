"""Moving things over a grid: a knight, boxes that are pushed, a puck on ice.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from envs.families.games.play import (
    STEPS,
    Cell,
    Puzzle,
    cell_name,
    game,
    grid_text,
    inside,
    puzzle_opening,
    solvable,
)
from envs.talk import Opening


def cells_of(rows: int, columns: int) -> list[Cell]:
    return [(row, column) for row in range(rows) for column in range(columns)]


def drawn(rows: int, columns: int, marks: dict[Cell, str], named: bool = True) -> str:
    """A grid of marks, a dot where there is none."""
    lines = [[marks.get((row, column), ".") for column in range(columns)] for row in range(rows)]
    return grid_text(lines, named)


def pairs(cells: Iterable[Iterable[int]]) -> list[Cell]:
    """Cells as they come from JSON."""
    return [(row, column) for row, column in cells]


class GridPuzzle(Puzzle):
    """A puzzle on a grid of `rows` by `columns` with `walls`."""

    def begin(self) -> None:
        self.rows, self.columns = self.facts["rows"], self.facts["columns"]
        self.walls = set(pairs(self.facts["walls"]))
        super().begin()

    def is_free(self, cell: Cell) -> bool:
        return inside(cell, self.rows, self.columns) and cell not in self.walls


# ---- knight ----------------------------------------------------------------------------------------------------------

LEAPS = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]


class Knight(GridPuzzle):
    """A knight goes to its target, never onto a wall or a square that it left."""

    def first(self) -> Any:
        return tuple(self.facts["start"]), frozenset()

    def options(self, position: Any) -> dict[str, Any]:
        (row, column), left = position
        after = [(row + down, column + right) for down, right in LEAPS]
        return {
            cell_name(*cell): (cell, left | {(row, column)})
            for cell in after
            if self.is_free(cell) and cell not in left
        }

    def goal(self, position: Any) -> bool:
        return bool(position[0] == tuple(self.facts["target"]))

    def move(self, command: str) -> str:
        told = super().move(command)
        if not self.over and not self.options(self.position):
            self.lose()
            told = "The knight is stuck."
        return told

    def show(self) -> str:
        marks = {**dict.fromkeys(self.walls, "#"), **dict.fromkeys(self.position[1], "x")}
        marks |= {tuple(self.facts["target"]): "T", self.position[0]: "N"}
        return drawn(self.rows, self.columns, marks)


def draw_knight(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(cells_of(side, side), walls + 2)
        return {"rows": side, "columns": side, "start": cells[0], "target": cells[1], "walls": sorted(cells[2:])}

    facts = solvable(make, Knight, low, high, most=4_000)
    rules = (
        "Move the chess knight N to T. A knight moves two squares along a row or column and one across, and leaps over "
        "anything between. It may not land on a wall #, nor on a square x where it has been. Name the square to go to."
    )
    return puzzle_opening(rules, Knight, facts, slack, "B3")


# ---- boxes -----------------------------------------------------------------------------------------------------------


class Boxes(GridPuzzle):
    """A man pushes boxes, one at a time, and never pulls."""

    def first(self) -> Any:
        return tuple(self.facts["man"]), frozenset(pairs(self.facts["boxes"]))

    def options(self, position: Any) -> dict[str, Any]:
        (row, column), boxes = position
        found = {}
        for name, (down, right) in STEPS.items():
            to, beyond = (row + down, column + right), (row + 2 * down, column + 2 * right)
            if not self.is_free(to):
                continue
            if to not in boxes:
                found[name] = (to, boxes)
            elif self.is_free(beyond) and beyond not in boxes:
                found[name] = (to, boxes - {to} | {beyond})
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[1] == frozenset(pairs(self.facts["goals"])))

    def show(self) -> str:
        man, boxes = self.position
        marks = {**dict.fromkeys(self.walls, "#"), **dict.fromkeys(pairs(self.facts["goals"]), "o")}
        marks |= {box: "*" if marks.get(box) == "o" else "B" for box in boxes}
        marks[man] = "+" if marks.get(man) == "o" else "M"
        return drawn(self.rows, self.columns, marks, named=False)


def draw_boxes(rng: random.Random, side: int, walls: int, boxes: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        inner = [cell for cell in cells_of(side, side) if min(cell) > 0 and max(cell) < side - 1]
        placed = rng.sample(inner, boxes)
        rest = rng.sample([cell for cell in cells_of(side, side) if cell not in placed], walls + boxes + 1)
        goals, others = sorted(rest[:boxes]), rest[boxes:]
        return {
            "rows": side,
            "columns": side,
            "boxes": sorted(placed),
            "goals": goals,
            "man": others[0],
            "walls": sorted(others[1:]),
        }

    facts = solvable(make, Boxes, low, high, most=8_000)
    rules = (
        "Push all boxes onto the goals. M is the man, B a box, o a goal, # a wall; * is a box on a goal and + the man "
        "on a goal. The man goes UP, DOWN, LEFT or RIGHT. He pushes a box by walking into it, if the cell behind it is "
        "free: no wall, no box, not outside. He cannot pull."
    )
    return puzzle_opening(rules, Boxes, facts, slack, "LEFT")


# ---- ice -------------------------------------------------------------------------------------------------------------


class Ice(GridPuzzle):
    """A puck slides until something stops it, and must come to rest on the target."""

    def first(self) -> Any:
        return tuple(self.facts["start"])

    def options(self, position: Any) -> dict[str, Any]:
        found = {}
        for name, (down, right) in STEPS.items():
            row, column = position
            while self.is_free((row + down, column + right)):
                row, column = row + down, column + right
            if (row, column) != position:
                found[name] = (row, column)
        return found

    def goal(self, position: Any) -> bool:
        return bool(position == tuple(self.facts["target"]))

    def show(self) -> str:
        marks = {**dict.fromkeys(self.walls, "#"), tuple(self.facts["target"]): "T", self.position: "P"}
        return drawn(self.rows, self.columns, marks, named=False)


def draw_ice(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(cells_of(side, side), walls + 2)
        return {"rows": side, "columns": side, "start": cells[0], "target": cells[1], "walls": sorted(cells[2:])}

    facts = solvable(make, Ice, low, high)
    rules = (
        "The puck P slides on ice: sent UP, DOWN, LEFT or RIGHT, it goes on until the edge or a wall # stops it. It "
        "must come to rest exactly on T; sliding over T does not count. It can only be sent where it can move."
    )
    return puzzle_opening(rules, Ice, facts, slack, "DOWN")


GAMES = [
    game(
        "knight",
        draw_knight,
        Knight,
        (6, 9, 12),
        {"side": 4, "walls": 3, "low": 2, "high": 4, "slack": 1},
        {"side": 5, "walls": 8, "low": 4, "high": 7, "slack": 1},
        {"side": 6, "walls": 14, "low": 6, "high": 10, "slack": 1},
    ),
    game(
        "boxes",
        draw_boxes,
        Boxes,
        (6, 14, 24),
        {"side": 4, "walls": 2, "boxes": 1, "low": 3, "high": 5, "slack": 1},
        {"side": 5, "walls": 4, "boxes": 1, "low": 7, "high": 11, "slack": 3},
        {"side": 6, "walls": 8, "boxes": 2, "low": 12, "high": 20, "slack": 4},
    ),
    game(
        "ice",
        draw_ice,
        Ice,
        (6, 9, 13),
        {"side": 5, "walls": 5, "low": 3, "high": 5, "slack": 1},
        {"side": 7, "walls": 10, "low": 5, "high": 8, "slack": 1},
        {"side": 8, "walls": 13, "low": 7, "high": 11, "slack": 2},
    ),
]
