"""Moving things over a grid: a knight, boxes, a die, a puck on ice, twins, a thief with keys, a stone that jumps.

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
    neighbours,
    puzzle_opening,
    solvable,
)
from envs.talk import Opening


def _cells(rows: int, columns: int) -> list[Cell]:
    return [(row, column) for row in range(rows) for column in range(columns)]


def _drawn(rows: int, columns: int, marks: dict[Cell, str], named: bool = True) -> str:
    """A grid of marks, a dot where there is none."""
    lines = [[marks.get((row, column), ".") for column in range(columns)] for row in range(rows)]
    return grid_text(lines, named)


def _pairs(cells: Iterable[Iterable[int]]) -> list[Cell]:
    """Cells as they come from JSON."""
    return [(row, column) for row, column in cells]


class GridPuzzle(Puzzle):
    """A puzzle on a grid of `rows` by `columns` with `walls`."""

    def begin(self) -> None:
        self.rows, self.columns = self.facts["rows"], self.facts["columns"]
        self.walls = set(_pairs(self.facts["walls"]))
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
        return _drawn(self.rows, self.columns, marks)


def draw_knight(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(_cells(side, side), walls + 2)
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
        return tuple(self.facts["man"]), frozenset(_pairs(self.facts["boxes"]))

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
        return bool(position[1] == frozenset(_pairs(self.facts["goals"])))

    def show(self) -> str:
        man, boxes = self.position
        marks = {**dict.fromkeys(self.walls, "#"), **dict.fromkeys(_pairs(self.facts["goals"]), "o")}
        marks |= {box: "*" if marks.get(box) == "o" else "B" for box in boxes}
        marks[man] = "+" if marks.get(man) == "o" else "M"
        return _drawn(self.rows, self.columns, marks, named=False)


def draw_boxes(rng: random.Random, side: int, walls: int, boxes: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        inner = [cell for cell in _cells(side, side) if 0 < min(cell) and max(cell) < side - 1]
        placed = rng.sample(inner, boxes)
        rest = rng.sample([cell for cell in _cells(side, side) if cell not in placed], walls + boxes + 1)
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
        return _drawn(self.rows, self.columns, marks, named=False)


def draw_ice(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(_cells(side, side), walls + 2)
        return {"rows": side, "columns": side, "start": cells[0], "target": cells[1], "walls": sorted(cells[2:])}

    facts = solvable(make, Ice, low, high)
    rules = (
        "The puck P slides on ice: sent UP, DOWN, LEFT or RIGHT, it goes on until the edge or a wall # stops it. It "
        "must come to rest exactly on T; sliding over T does not count. It can only be sent where it can move."
    )
    return puzzle_opening(rules, Ice, facts, slack, "DOWN")


# ---- die -------------------------------------------------------------------------------------------------------------


class Die(GridPuzzle):
    """A die rolls over its edges; it must lie on the target with the wanted number on top."""

    def first(self) -> Any:
        return tuple(self.facts["start"]), tuple(self.facts["die"])

    def options(self, position: Any) -> dict[str, Any]:
        (row, column), (top, north, east) = position
        rolled = {
            "UP": (7 - north, top, east),
            "DOWN": (north, 7 - top, east),
            "LEFT": (east, north, 7 - top),
            "RIGHT": (7 - east, north, top),
        }
        found = {}
        for name, (down, right) in STEPS.items():
            to = (row + down, column + right)
            if self.is_free(to):
                found[name] = (to, rolled[name])
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[0] == tuple(self.facts["target"]) and position[1][0] == self.facts["wanted"])

    def show(self) -> str:
        cell, (top, north, east) = self.position
        marks = {**dict.fromkeys(self.walls, "#"), tuple(self.facts["target"]): "T", cell: "D"}
        return (
            f"{_drawn(self.rows, self.columns, marks, named=False)}\n"
            f"D shows {top} on top, {north} on its upper side and {east} on its right side."
        )


def draw_die(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(_cells(side, side), walls + 2)
        top = rng.randint(1, 6)
        north = rng.choice([face for face in range(1, 7) if face not in (top, 7 - top)])
        east = rng.choice([face for face in range(1, 7) if face not in (top, 7 - top, north, 7 - north)])
        return {
            "rows": side,
            "columns": side,
            "walls": sorted(cells[2:]),
            "start": cells[0],
            "target": cells[1],
            "die": [top, north, east],
            "wanted": rng.randint(1, 6),
        }

    facts = solvable(make, Die, low, high)
    rules = (
        "Roll the die D onto T so that it lies there with "
        f"{facts['wanted']} on top. Opposite sides add up to 7. Rolled UP, DOWN, LEFT or RIGHT it tips over that edge "
        "into the next cell: rolled UP, the side that was on top becomes the upper side, and the lower side comes to "
        "the top. It cannot enter a wall # or leave the grid."
    )
    return puzzle_opening(rules, Die, facts, slack, "RIGHT")


# ---- twins -----------------------------------------------------------------------------------------------------------


class Twins(GridPuzzle):
    """One command moves both, each where it can; both must stand on their own targets at once."""

    def first(self) -> Any:
        return tuple(tuple(cell) for cell in self.facts["starts"])

    def options(self, position: Any) -> dict[str, Any]:
        found = {}
        for name, (down, right) in STEPS.items():
            wished = [(row + down, column + right) for row, column in position]
            after = tuple(to if self.is_free(to) else cell for to, cell in zip(wished, position, strict=True))
            if after[0] != after[1] and after != position:
                found[name] = after
        return found

    def goal(self, position: Any) -> bool:
        return bool(position == tuple(tuple(cell) for cell in self.facts["targets"]))

    def show(self) -> str:
        targets = [tuple(cell) for cell in self.facts["targets"]]
        marks = {**dict.fromkeys(self.walls, "#"), **dict(zip(targets, "ab", strict=True))}
        marks |= dict(zip(self.position, "AB", strict=True))
        names = [cell_name(*cell) for cell in targets]
        return f"{_drawn(self.rows, self.columns, marks)}\nTargets: A at {names[0]}, B at {names[1]}."


def draw_twins(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(_cells(side, side), walls + 4)
        return {"rows": side, "columns": side, "walls": sorted(cells[4:]), "starts": cells[:2], "targets": cells[2:4]}

    facts = solvable(make, Twins, low, high)
    rules = (
        "Each command, UP, DOWN, LEFT or RIGHT, moves both twins A and B by one cell. A twin that would hit a wall # "
        "or the edge stays where it is. A command that would put both on the same cell, or move neither, is not "
        "allowed. Bring A to its target a and B to its target b, both at the same time."
    )
    return puzzle_opening(rules, Twins, facts, slack, "UP")


# ---- keys ------------------------------------------------------------------------------------------------------------


class Keys(GridPuzzle):
    """Keys a, b, c are picked up by walking over them; doors A, B, C need the key of the same letter."""

    def first(self) -> Any:
        return tuple(self.facts["start"]), ""

    def options(self, position: Any) -> dict[str, Any]:
        (row, column), held = position
        found = {}
        for name, (down, right) in STEPS.items():
            to = (row + down, column + right)
            thing = self.facts["things"].get(cell_name(*to), "") if self.is_free(to) else "#"
            if thing == "#" or (thing.isupper() and thing.lower() not in held):
                continue
            picked = "".join(sorted({*held, thing})) if thing.islower() else held
            found[name] = (to, picked)
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[0] == tuple(self.facts["target"]))

    def show(self) -> str:
        cell, held = self.position
        marks = dict.fromkeys(self.walls, "#")
        for other in _cells(self.rows, self.columns):
            thing = self.facts["things"].get(cell_name(*other), "")
            if thing and thing not in held:
                marks[other] = thing
        marks |= {tuple(self.facts["target"]): "$", cell: "@"}
        return f"{_drawn(self.rows, self.columns, marks, named=False)}\nKeys: {' '.join(held) or 'none'}"


def draw_keys(rng: random.Random, side: int, walls: int, keys: int, low: int, high: int, slack: int) -> Opening:
    """A treasure that cannot be reached without a door: drawn again until it takes a key."""

    def make() -> dict[str, Any]:
        cells = rng.sample(_cells(side, side), walls + 2 * keys + 1)
        target = cells[0]
        things = {cell_name(*cell): letter for cell, letter in zip(cells[1:], "aAbBcC"[: 2 * keys], strict=False)}
        # The treasure stands behind a door: of its neighbours one is a door, and the others are walls.
        around = rng.sample(neighbours(target, side, side), len(neighbours(target, side, side)))
        for cell in [*around, *cells[1:]]:
            things.pop(cell_name(*cell), None)
        free = [cell for cell in cells[1:] if cell not in around]
        things[cell_name(*around[0])] = "ABC"[keys - 1]
        letters = "aAbBcC"[: 2 * keys].replace("ABC"[keys - 1], "")
        things |= {cell_name(*cell): letter for cell, letter in zip(free, letters, strict=False)}
        blocked = {*around[1:], *free[len(letters) + 1 :]}
        start = free[len(letters)] if len(free) > len(letters) else target
        return {
            "rows": side,
            "columns": side,
            "walls": sorted(blocked),
            "start": start,
            "target": target,
            "things": things,
        }

    facts = solvable(make, Keys, low, high)
    rules = (
        "Walk the thief @ to the treasure $, UP, DOWN, LEFT or RIGHT by one cell. # is a wall. Small letters are keys, "
        "taken by walking onto them; a door with a capital letter can be entered only with the key of that letter."
    )
    return puzzle_opening(rules, Keys, facts, slack, "UP")


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
    game(
        "die",
        draw_die,
        Die,
        (6, 10, 15),
        {"side": 4, "walls": 3, "low": 3, "high": 5, "slack": 1},
        {"side": 5, "walls": 5, "low": 5, "high": 8, "slack": 2},
        {"side": 6, "walls": 9, "low": 9, "high": 13, "slack": 2},
    ),
    game(
        "twins",
        draw_twins,
        Twins,
        (6, 11, 17),
        {"side": 4, "walls": 3, "low": 3, "high": 5, "slack": 1},
        {"side": 5, "walls": 5, "low": 6, "high": 9, "slack": 2},
        {"side": 6, "walls": 8, "low": 9, "high": 15, "slack": 2},
    ),
    game(
        "keys",
        draw_keys,
        Keys,
        (6, 12, 24),
        {"side": 4, "walls": 3, "keys": 1, "low": 4, "high": 5, "slack": 1},
        {"side": 5, "walls": 7, "keys": 1, "low": 7, "high": 10, "slack": 2},
        {"side": 6, "walls": 12, "keys": 2, "low": 12, "high": 20, "slack": 4},
    ),
]
