"""Tiles and pegs on a small board: sliding, shifting, lights, jumps.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.games.play import (
    LETTERS,
    STEPS,
    Puzzle,
    cell_name,
    game,
    grid_text,
    inside,
    neighbours,
    puzzle_opening,
    shuffled,
    solvable,
)
from envs.talk import Opening

# ---- sliding tiles ---------------------------------------------------------------------------------------------------


def _lined(tiles: Any, columns: int) -> str:
    cells = [str(tile or "_") for tile in tiles]
    return "\n".join(" ".join(cells[place : place + columns]) for place in range(0, len(cells), columns))


class Sliding(Puzzle):
    """A numbered tile beside the gap slides into it, until the tiles lie as wanted."""

    def first(self) -> Any:
        return tuple(self.facts["tiles"])

    def options(self, position: Any) -> dict[str, Any]:
        columns = self.facts["columns"]
        gap = position.index(0)
        found = {}
        for place, tile in enumerate(position):
            row_apart, column_apart = abs(place // columns - gap // columns), abs(place % columns - gap % columns)
            if row_apart + column_apart == 1:
                after = list(position)
                after[gap], after[place] = tile, 0
                found[str(tile)] = tuple(after)
        return found

    def goal(self, position: Any) -> bool:
        return bool(position == tuple(self.facts["wanted"]))

    def show(self) -> str:
        columns = self.facts["columns"]
        return f"Now:\n{_lined(self.position, columns)}\nWanted:\n{_lined(self.facts['wanted'], columns)}"


def draw_sliding(rng: random.Random, rows: int, columns: int, low: int, high: int, slack: int) -> Opening:
    """The wanted position is shuffled by legal moves, so that it can be reached."""

    def make() -> dict[str, Any]:
        wanted = shuffled(rng, range(rows * columns))
        play = Sliding({"tiles": wanted, "columns": columns, "wanted": wanted, "limit": 1})
        position, before = play.position, play.position
        for _ in range(rng.randint(low, 2 * high)):
            after = [other for other in play.options(position).values() if other != before]
            position, before = rng.choice(after), position
        return {"tiles": list(position), "columns": columns, "wanted": wanted}

    facts = solvable(make, Sliding, low, high)
    rules = (
        "Slide tiles until they lie as wanted. A move is the number of a tile directly above, below, left or right of "
        "the gap _; it slides into the gap."
    )
    return puzzle_opening(rules, Sliding, facts, slack, "5")


# ---- rows and columns that turn --------------------------------------------------------------------------------------


class Turning(Puzzle):
    """A row or a column of letters is shifted by one, and what leaves at one end comes back at the other."""

    def first(self) -> Any:
        return tuple(self.facts["rows"])

    def options(self, position: Any) -> dict[str, Any]:
        found = {}
        for number, row in enumerate(position):
            for name, moved in (("LEFT", row[1:] + row[0]), ("RIGHT", row[-1] + row[:-1])):
                found[f"ROW {number + 1} {name}"] = (*position[:number], moved, *position[number + 1 :])
        columns = ["".join(letters) for letters in zip(*position, strict=True)]
        for number, column in enumerate(columns):
            for name, moved in (("UP", column[1:] + column[0]), ("DOWN", column[-1] + column[:-1])):
                after = [*columns[:number], moved, *columns[number + 1 :]]
                found[f"COLUMN {number + 1} {name}"] = tuple("".join(letters) for letters in zip(*after, strict=True))
        return found

    def goal(self, position: Any) -> bool:
        return bool(position == tuple(self.facts["wanted"]))

    def show(self) -> str:
        now, wanted = "\n".join(self.position), "\n".join(self.facts["wanted"])
        return f"Now:\n{now}\nWanted:\n{wanted}"


def draw_turning(rng: random.Random, rows: int, columns: int, low: int, high: int, slack: int) -> Opening:
    letters = "".join(rng.sample(LETTERS, rows * columns))
    wanted = [letters[row * columns : (row + 1) * columns] for row in range(rows)]

    def make() -> dict[str, Any]:
        play = Turning({"rows": wanted, "wanted": wanted, "limit": 1})
        position = play.position
        for _ in range(rng.randint(low, high)):
            position = rng.choice(list(play.options(position).values()))
        return {"rows": list(position), "wanted": wanted}

    facts = solvable(make, Turning, low, high)
    rules = (
        "Shift rows and columns until the grid is the wanted one. ROW 1 LEFT moves each letter of row 1 by one to the "
        "left, and the leftmost comes back at the right end; RIGHT the other way round. COLUMN 2 UP and COLUMN 2 DOWN "
        "do the same in column 2. Rows count from the top, columns from the left, both from 1."
    )
    return puzzle_opening(rules, Turning, facts, slack, "ROW 1 LEFT")


# ---- lights ----------------------------------------------------------------------------------------------------------


class Lights(Puzzle):
    """Pressing a lamp switches it and the lamps beside it; all must be off."""

    def first(self) -> Any:
        return frozenset((row, column) for row, column in self.facts["lit"])

    def options(self, position: Any) -> dict[str, Any]:
        side = self.facts["side"]
        cells = [(row, column) for row in range(side) for column in range(side)]
        return {cell_name(*cell): position ^ {cell, *neighbours(cell, side, side)} for cell in cells}

    def goal(self, position: Any) -> bool:
        return not position

    def show(self) -> str:
        side = self.facts["side"]
        return grid_text([["*" if (row, col) in self.position else "." for col in range(side)] for row in range(side)])


def draw_lights(rng: random.Random, side: int, low: int, high: int, slack: int) -> Opening:
    """Lit by pressing some lamps from darkness, so that pressing them again puts all out."""

    def make() -> dict[str, Any]:
        position: Any = frozenset()
        cells = [(row, column) for row in range(side) for column in range(side)]
        play = Lights({"lit": [], "side": side, "limit": 1})
        for cell in rng.sample(cells, rng.randint(low, high)):
            position = play.options(position)[cell_name(*cell)]
        return {"lit": sorted(position), "side": side}

    facts = solvable(make, Lights, low, high)
    rules = (
        "Switch off all lamps: * is on, . is off. Pressing a lamp switches it and the lamps directly above, below, "
        "left and right of it: what was on is off then, and what was off is on. Name the lamp to press by its column "
        "and row."
    )
    return puzzle_opening(rules, Lights, facts, slack, "B2")


# ---- pegs ------------------------------------------------------------------------------------------------------------


class Pegs(Puzzle):
    """A peg jumps over another one into a hole, and the other one is taken off, until one is left."""

    def first(self) -> Any:
        return frozenset((row, column) for row, column in self.facts["pegs"])

    def options(self, position: Any) -> dict[str, Any]:
        side = self.facts["side"]
        found = {}
        for row, column in sorted(position):
            for name, (down, right) in STEPS.items():
                over, to = (row + down, column + right), (row + 2 * down, column + 2 * right)
                if over in position and to not in position and inside(to, side, side):
                    found[f"{cell_name(row, column)} {name}"] = position - {(row, column), over} | {to}
        return found

    def goal(self, position: Any) -> bool:
        return len(position) == 1

    def move(self, command: str) -> str:
        told = super().move(command)
        if not self.over and not self.options(self.position):
            self.lose()
            told = "No peg can jump any more."
        return told

    def show(self) -> str:
        side = self.facts["side"]
        return grid_text([["o" if (row, col) in self.position else "." for col in range(side)] for row in range(side)])


def _grown(rng: random.Random, side: int, jumps: int) -> list[Any]:
    """From one peg by jumps backwards, so that the jumps lead back to one peg; fewer where no jump is left."""
    pegs = {(rng.randrange(side), rng.randrange(side))}
    for _ in range(jumps):
        ways = []
        for row, column in sorted(pegs):
            for down, right in STEPS.values():
                over, back = (row + down, column + right), (row + 2 * down, column + 2 * right)
                if inside(back, side, side) and over not in pegs and back not in pegs:
                    ways.append(((row, column), over, back))
        if not ways:
            break
        landed, over, back = rng.choice(ways)
        pegs = (pegs - {landed}) | {over, back}
    return sorted(pegs)


def draw_pegs(rng: random.Random, side: int, low: int, high: int, choices: int) -> Opening:
    """Drawn until at least `choices` jumps are possible at first."""

    def make() -> dict[str, Any]:
        while True:
            facts = {"pegs": _grown(rng, side, rng.randint(low, high)), "side": side}
            if len(Pegs({**facts, "limit": 1}).legal()) >= choices:
                return facts

    facts = solvable(make, Pegs, low, high, most=8_000)
    rules = (
        "Pegs o stand in holes. A peg jumps UP, DOWN, LEFT or RIGHT over a peg directly beside it into the empty hole "
        ". just behind; the peg that was jumped over is taken off. B3 LEFT lets the peg at column B, row 3 jump to the "
        "left. Go on until only one peg is left. You lose where no peg can jump."
    )
    return puzzle_opening(rules, Pegs, facts, 0, "B3 LEFT")


GAMES = [
    game(
        "sliding",
        draw_sliding,
        Sliding,
        (6, 14, 19),
        {"rows": 2, "columns": 3, "low": 3, "high": 5, "slack": 1},
        {"rows": 3, "columns": 3, "low": 8, "high": 12, "slack": 2},
        {"rows": 3, "columns": 3, "low": 13, "high": 16, "slack": 3},
    ),
    game(
        "turning",
        draw_turning,
        Turning,
        (4, 5, 6),
        {"rows": 2, "columns": 3, "low": 2, "high": 3, "slack": 1},
        {"rows": 3, "columns": 3, "low": 2, "high": 3, "slack": 2},
        {"rows": 3, "columns": 4, "low": 3, "high": 4, "slack": 2},
    ),
    game(
        "lights",
        draw_lights,
        Lights,
        (5, 5, 6),
        {"side": 3, "low": 2, "high": 4, "slack": 1},
        {"side": 4, "low": 3, "high": 3, "slack": 1},
        {"side": 4, "low": 4, "high": 5, "slack": 1},
    ),
    game(
        "pegs",
        draw_pegs,
        Pegs,
        (5, 8, 11),
        {"side": 4, "low": 3, "high": 4, "choices": 2},
        {"side": 5, "low": 6, "high": 7, "choices": 2},
        {"side": 5, "low": 8, "high": 10, "choices": 3},
    ),
]
