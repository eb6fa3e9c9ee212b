"""Boards on which cells are marked, or covered: tents, queens, pictures, lights, rectangles, bridges.

In: a game of the library.  Out: facts; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.families.puzzles.frame import Puzzle, Refused, beside, numbers, picture, puzzle_game

Settings = Mapping[str, Any]
Cell = tuple[int, int]


def marked(grid: Sequence[Sequence[Any]], value: Any) -> list[list[int]]:
    """The cells with this value."""
    return [[row, column] for row, line in enumerate(grid) for column, cell in enumerate(line) if cell == value]


class Marks(Puzzle):
    """A verb marks a cell, `clear` takes the mark away; `facts` hold `size`, `given` and `solution` (cells)."""

    verb = "mark"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.size: int = facts["size"]
        self.marks: set[Cell] = {(row, column) for row, column in facts["given"]}
        self.usage = f"{self.verb} <row> <column>, clear <row> <column>"

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb not in (self.verb, "clear"):
            raise Refused(f"the commands are {self.verb} and clear")
        row, column = (number - 1 for number in numbers(words, (1, self.size), (1, self.size)))
        if [row, column] in self.facts["given"]:
            raise Refused("this cell is given")
        if (verb == "clear") != ((row, column) in self.marks):
            raise Refused("nothing changes")
        if verb == "clear":
            self.marks.remove((row, column))
            return
        fault = self.conflict(row, column)
        if fault:
            raise Refused(fault)
        self.marks.add((row, column))

    def conflict(self, row: int, column: int) -> str:
        return ""

    def plan(self) -> list[str]:
        return [
            f"{self.verb} {row + 1} {column + 1}"
            for row, column in self.facts["solution"]
            if (row, column) not in self.marks
        ]

    def in_lines(self) -> tuple[list[int], list[int]]:
        """How many marks each row and each column has."""
        rows = [sum(row == place for row, _ in self.marks) for place in range(self.size)]
        columns = [sum(column == place for _, column in self.marks) for place in range(self.size)]
        return rows, columns


# ---- tents -----------------------------------------------------------------------------------------------------------


def tents_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    return {
        "size": game.size,
        "given": [],
        "trees": marked(game.solution, 1),
        "rows": list(game.row_counts),
        "columns": list(game.col_counts),
        "solution": marked(game.solution, 2),
    }


class Tents(Marks):
    verb = "tent"
    rules = (
        "Tents. Put tents (A) on free cells: each tree (T) has exactly one tent beside it (up, down, left or right), "
        "each tent exactly one tree. No two tents touch, not even diagonally. The numbers at the top and on the left "
        "say how many tents the column or row has."
    )

    def conflict(self, row: int, column: int) -> str:
        if [row, column] in self.facts["trees"]:
            return "there is a tree"
        near = beside(row, column, self.size, self.size, diagonal=True)
        return "it touches a tent" if any(cell in self.marks for cell in near) else ""

    def solved(self) -> bool:
        trees = {(row, column) for row, column in self.facts["trees"]}
        return (
            self.in_lines() == (self.facts["rows"], self.facts["columns"])
            and all(sum(cell in self.marks for cell in beside(*tree, self.size, self.size)) == 1 for tree in trees)
            and all(sum(cell in trees for cell in beside(*tent, self.size, self.size)) == 1 for tent in self.marks)
        )

    def show(self) -> str:
        rows = [
            [
                count,
                *(
                    "A" if (row, column) in self.marks else "T" if [row, column] in self.facts["trees"] else "."
                    for column in range(self.size)
                ),
            ]
            for row, count in enumerate(self.facts["rows"])
        ]
        return picture([[" ", *self.facts["columns"]], *rows])


# ---- queens ----------------------------------------------------------------------------------------------------------


def queens_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    return {"size": game.size, "given": marked(game.initial_grid, 1), "solution": marked(game.solution, 1)}


class Queens(Marks):
    verb = "queen"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.rules = (
            f"Queens. Put queens on the board until there are {self.size}: no two in the same row, column or diagonal."
        )

    def conflict(self, row: int, column: int) -> str:
        for r, c in sorted(self.marks):
            if r == row or c == column or abs(r - row) == abs(c - column):
                return f"the queen at {r + 1} {c + 1} attacks it"
        return ""

    def solved(self) -> bool:
        return len(self.marks) == self.size

    def show(self) -> str:
        cells = range(self.size)
        return picture([["Q" if (r, c) in self.marks else "." for c in cells] for r in cells])


# ---- a picture -------------------------------------------------------------------------------------------------------


def runs(line: Sequence[bool]) -> list[int]:
    """`runs([True, True, False, True])` -> `[2, 1]`; `[0]` where nothing is filled."""
    text = "".join("#" if cell else " " for cell in line)
    return [len(run) for run in text.split()] or [0]


def nonogram_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    return {
        "size": game.size,
        "given": [],
        "rows": [list(clues) for clues in game.row_clues],
        "columns": [list(clues) for clues in game.col_clues],
        "solution": marked(game.solution, 1),
    }


class Nonogram(Marks):
    verb = "fill"
    rules = (
        "Nonogram. Fill cells (#). The numbers of a row or column are the lengths of its runs of filled cells, in "
        "order; there is at least one empty cell between two runs."
    )

    def told(self) -> str:
        lists = ["  ".join(" ".join(map(str, clues)) for clues in self.facts[key]) for key in ("rows", "columns")]
        rows, columns = (text.replace("  ", ", ") for text in lists)
        return f"Rows from the top: {rows}\nColumns from the left: {columns}"

    def _line(self, row: int | None, column: int | None) -> list[bool]:
        cells = range(self.size)
        return [
            ((place if row is None else row), (place if column is None else column)) in self.marks for place in cells
        ]

    def solved(self) -> bool:
        cells = range(self.size)
        return all(
            runs(self._line(place, None)) == self.facts["rows"][place]
            and runs(self._line(None, place)) == self.facts["columns"][place]
            for place in cells
        )

    def show(self) -> str:
        cells = range(self.size)
        return picture([["#" if (r, c) in self.marks else "." for c in cells] for r in cells])


# ---- lights ----------------------------------------------------------------------------------------------------------


def lights_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    return {"size": game.size, "given": marked(game.grid, 1), "solution": marked(game.presses, 1)}


class Lights(Marks):
    """The marks are the lights that are on; `pressed` are the cells pressed an odd number of times."""

    rules = (
        "Lights out. Pressing a cell switches it and its neighbours up, down, left and right: on (#) to off (.) and "
        "off to on. Switch all lights off."
    )

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.usage = "press <row> <column>"
        self.pressed: set[Cell] = set()

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb != "press":
            raise Refused("the command is press")
        row, column = (number - 1 for number in numbers(words, (1, self.size), (1, self.size)))
        self.marks ^= {(row, column), *beside(row, column, self.size, self.size)}
        self.pressed ^= {(row, column)}

    def solved(self) -> bool:
        return not self.marks

    def plan(self) -> list[str]:
        wanted = {(row, column) for row, column in self.facts["solution"]}
        return [f"press {row + 1} {column + 1}" for row, column in sorted(wanted ^ self.pressed)]

    def show(self) -> str:
        cells = range(self.size)
        return picture([["#" if (r, c) in self.marks else "." for c in cells] for r in cells])


# ---- rectangles ------------------------------------------------------------------------------------------------------


def shikaku_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    solution = []
    for name in range(1, max(max(row) for row in game.solution) + 1):
        cells = marked(game.solution, name)
        if cells:
            solution.append([*min(cells), *max(cells)])
    clues = [[row, column, area] for (row, column), area in sorted(game.clues.items())]
    return {"size": game.size, "clues": clues, "solution": solution}


class Shikaku(Puzzle):
    rules = (
        "Shikaku. Cut the whole grid into rectangles along its lines. Each rectangle has exactly one number, and as "
        "many cells as this number says."
    )
    usage = "rect <top row> <left column> <bottom row> <right column>, undo (takes the last rectangle back)"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.size: int = facts["size"]
        self.rectangles: list[list[int]] = []

    def _cells(self, rectangle: Sequence[int]) -> set[Cell]:
        top, left, bottom, right = rectangle
        return {(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)}

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb == "undo" and not words and self.rectangles:
            self.rectangles.pop()
            return
        if verb != "rect":
            raise Refused("the command is rect, or undo after a rectangle")
        rectangle = [number - 1 for number in numbers(words, *[(1, self.size)] * 4)]
        cells = self._cells(rectangle)
        inside = [area for row, column, area in self.facts["clues"] if (row, column) in cells]
        if not cells or len(inside) != 1:
            raise Refused(f"it has {len(inside)} numbers")
        if inside[0] != len(cells):
            raise Refused(f"it has {len(cells)} cells, not {inside[0]}")
        if any(cells & self._cells(other) for other in self.rectangles):
            raise Refused("it overlaps another rectangle")
        self.rectangles.append(rectangle)

    def solved(self) -> bool:
        return sum(len(self._cells(rectangle)) for rectangle in self.rectangles) == self.size**2

    def plan(self) -> list[str]:
        left = [rectangle for rectangle in self.facts["solution"] if rectangle not in self.rectangles]
        return ["rect " + " ".join(str(number + 1) for number in rectangle) for rectangle in left]

    def show(self) -> str:
        grid: list[list[Any]] = [[None] * self.size for _ in range(self.size)]
        for place, rectangle in enumerate(self.rectangles):
            for row, column in self._cells(rectangle):
                grid[row][column] = chr(ord("a") + place % 26)
        for row, column, area in self.facts["clues"]:
            grid[row][column] = area
        return picture(grid)


GAMES = [
    puzzle_game("tents", "tents", Tents, tents_facts),
    puzzle_game(
        "queens",
        "nqueens",
        Queens,
        queens_facts,
        {
            "easy": {"config": {"size": 7, "pre_placed": 3}},
            "medium": {"config": {"size": 9, "pre_placed": 3}},
            "hard": {"config": {"size": 12, "pre_placed": 3}},
        },
        mistakes=2,
    ),
    puzzle_game("nonogram", "nonogram", Nonogram, nonogram_facts),
    puzzle_game("lights_out", "lights", Lights, lights_facts),
    puzzle_game("shikaku", "shikaku", Shikaku, shikaku_facts),
]
