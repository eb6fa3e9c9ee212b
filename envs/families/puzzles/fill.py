"""Grids to be filled with numbers: sudoku and its kin, number snakes, regions, links.

In: a game of the library.  Out: facts; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envs.families.puzzles.frame import Grid, Puzzle, Refused, beside, numbers, picture, puzzle_game

Settings = Mapping[str, Any]
CAGE_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def facts_of_grid(game: Any, rng: random.Random, settings: Settings, empty: int = 0) -> dict[str, Any]:
    """What most grids share; `settings["givens"]` shows so many cells of the solution, where the library shows none."""
    grid = [[None if cell == empty else cell for cell in row] for row in game.grid]
    size = len(grid)
    for place in rng.sample(range(size * size), settings.get("givens", 0)):
        grid[place // size][place % size] = game.solution[place // size][place % size]
    return {"grid": grid, "solution": [list(row) for row in game.solution]}


class Fill(Puzzle):
    """`place` and `clear`; a number that breaks a rule at once is refused (`conflict`), the rest is looked at when all
    cells are filled (`whole`)."""

    usage = "place <row> <column> <number>, clear <row> <column>"
    low = 1

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.grid: Grid = [list(row) for row in facts["grid"]]
        self.size = len(self.grid)
        self.high = self.size

    def do(self, verb: str, words: Sequence[str]) -> None:
        within = (1, self.size)
        if verb == "place":
            row, column, number = numbers(words, within, within, (self.low, self.high))
        elif verb == "clear":
            row, column = numbers(words, within, within)
            number = -1
        else:
            raise Refused("the commands are place and clear")
        row, column = row - 1, column - 1
        if self.facts["grid"][row][column] is not None:
            raise Refused("this cell is given")
        before, self.grid[row][column] = self.grid[row][column], None
        if verb == "clear":
            return
        fault = self.conflict(row, column, number)
        if fault:
            self.grid[row][column] = before
            raise Refused(fault)
        self.grid[row][column] = number

    def conflict(self, row: int, column: int, number: int) -> str:
        """Why a number cannot stand in a cell that is empty now, or nothing."""
        return ""

    def whole(self) -> bool:
        """The rules that are looked at when all cells are filled."""
        return True

    def solved(self) -> bool:
        return all(cell is not None for row in self.grid for cell in row) and self.whole()

    def show(self) -> str:
        return picture(self.grid)

    def plan(self) -> list[str]:
        return [
            f"place {row + 1} {column + 1} {self.facts['solution'][row][column]}"
            for row, column in self.cells()
            if self.grid[row][column] != self.facts["solution"][row][column]
        ]

    def cells(self) -> Iterator[tuple[int, int]]:
        return ((row, column) for row in range(self.size) for column in range(self.size))

    def latin(self, row: int, column: int, number: int) -> str:
        if number in self.grid[row]:
            return f"row {row + 1} has a {number} already"
        if any(line[column] == number for line in self.grid):
            return f"column {column + 1} has a {number} already"
        return ""

    def group(self, row: int, column: int) -> set[tuple[int, int]]:
        """The cells that are connected side by side with a cell by its own number."""
        found, todo = {(row, column)}, [(row, column)]
        while todo:
            cell = todo.pop()
            for r, c in beside(*cell, self.size, self.size):
                if (r, c) not in found and self.grid[r][c] == self.grid[row][column]:
                    found.add((r, c))
                    todo.append((r, c))
        return found


class Sudoku(Fill):
    rules = "Sudoku. Fill the grid so that each row, each column and each of the nine 3x3 boxes has 1 to 9 once."

    def conflict(self, row: int, column: int, number: int) -> str:
        top, left = row - row % 3, column - column % 3
        if any(number in line[left : left + 3] for line in self.grid[top : top + 3]):
            return f"its box has a {number} already"
        return self.latin(row, column, number)


def cages_of(game: Any) -> list[dict[str, Any]]:
    return [
        {
            "cells": [list(cell) for cell in cage.cells],
            "sign": getattr(getattr(cage, "operation", None), "value", "") or "",
            "target": cage.target,
        }
        for cage in game.cages
    ]


def caged_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any] | None:
    cages = cages_of(game)
    if len(cages) > len(CAGE_LETTERS):
        return None
    return {**facts_of_grid(game, rng, settings), "cages": cages}


def cage_text(cages: Sequence[Mapping[str, Any]], size: int) -> str:
    """A letter a cell for its cage, and what each cage has to come to."""
    names = {tuple(cell): CAGE_LETTERS[place] for place, cage in enumerate(cages) for cell in cage["cells"]}
    rows = ["".join(names[row, column] for column in range(size)) for row in range(size)]
    targets = [f"{CAGE_LETTERS[place]}:{cage['target']}{cage['sign']}" for place, cage in enumerate(cages)]
    return "Cages:\n" + "\n".join(rows) + "\n" + " ".join(targets)


def cage_holds(values: Sequence[int], sign: str, target: int) -> bool:
    """`cage_holds([2, 6], "/", 3)` -> True."""
    if sign == "*":
        product = 1
        for value in values:
            product *= value
        return product == target
    if sign == "-":
        return max(values) - min(values) == target
    if sign == "/":
        return min(values) * target == max(values)
    return sum(values) == target


class Killer(Sudoku):
    rules = (
        "Killer sudoku. Each row, each column and each 3x3 box has 1 to 9 once. The numbers of a cage (cells with the "
        "same letter) are all different and add up to its target."
    )

    def told(self) -> str:
        return cage_text(self.facts["cages"], self.size)

    def whole(self) -> bool:
        for cage in self.facts["cages"]:
            values = [self.grid[row][column] for row, column in cage["cells"]]
            if sum(values) != cage["target"] or len(set(values)) < len(values):
                return False
        return True


class KenKen(Fill):
    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.rules = (
            f"KenKen. Each row and each column has 1 to {self.size} once. The numbers of a cage (cells with the same "
            "letter) give its target by its sign: sum, product, the larger minus the smaller, or divided by it."
        )

    def told(self) -> str:
        return cage_text(self.facts["cages"], self.size)

    def conflict(self, row: int, column: int, number: int) -> str:
        return self.latin(row, column, number)

    def whole(self) -> bool:
        return all(
            cage_holds([self.grid[row][column] for row, column in cage["cells"]], cage["sign"], cage["target"])
            for cage in self.facts["cages"]
        )


def futoshiki_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    larger = [[list(one), list(other)] for one, other in game.inequalities]
    return {**facts_of_grid(game, rng, settings), "larger": larger}


class Futoshiki(Fill):
    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.rules = (
            f"Futoshiki. Each row and each column has 1 to {self.size} once, and the signs between cells hold: < and > "
            "between neighbours in a row; ^ and v point at the smaller number."
        )

    def conflict(self, row: int, column: int, number: int) -> str:
        for one, other in self.facts["larger"]:
            near = other if [row, column] == one else one if [row, column] == other else None
            if near is None or self.grid[near[0]][near[1]] is None:
                continue
            value = self.grid[near[0]][near[1]]
            if number == value or (number > value) != (near is other):
                return "a sign does not hold"
        return self.latin(row, column, number)

    def show(self) -> str:
        width = 2 * self.size - 1
        texts = [[" "] * width for _ in range(width)]
        for row, column in self.cells():
            cell = self.grid[row][column]
            texts[2 * row][2 * column] = "." if cell is None else str(cell)
        for (r1, c1), (r2, c2) in self.facts["larger"]:
            sign = (">" if c1 < c2 else "<") if r1 == r2 else ("v" if r1 < r2 else "^")
            texts[r1 + r2][c1 + c2] = sign
        return "\n".join(" ".join(line).rstrip() for line in texts)


def skyscraper_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    clues = {side: list(game.clues[side]) for side in ("top", "bottom", "left", "right")}
    return {**facts_of_grid(game, rng, settings), "clues": clues}


def visible(heights: Sequence[int]) -> int:
    """How many houses are seen from the front: `visible([2, 1, 3])` -> 2."""
    return sum(height > max(heights[:place], default=0) for place, height in enumerate(heights))


class Skyscrapers(Fill):
    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.rules = (
            f"Skyscrapers. Each row and each column has the heights 1 to {self.size} once. A number outside of the "
            "grid says how many houses are seen from there: a house hides all lower ones behind it."
        )

    def conflict(self, row: int, column: int, number: int) -> str:
        return self.latin(row, column, number)

    def whole(self) -> bool:
        clues = self.facts["clues"]
        columns = [list(column) for column in zip(*self.grid, strict=True)]
        return (
            [visible(row) for row in self.grid] == clues["left"]
            and [visible(row[::-1]) for row in self.grid] == clues["right"]
            and [visible(column) for column in columns] == clues["top"]
            and [visible(column[::-1]) for column in columns] == clues["bottom"]
        )

    def show(self) -> str:
        clues = self.facts["clues"]
        top, bottom = (f"   {' '.join(map(str, clues[side]))}" for side in ("top", "bottom"))
        rows = [
            f"{clues['left'][place]}| {line} |{clues['right'][place]}"
            for place, line in enumerate(picture(self.grid).split("\n"))
        ]
        return "\n".join([top, *rows, bottom])


def binary_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    return facts_of_grid(game, rng, settings, empty=-1)


class Binary(Fill):
    rules = (
        "Binary puzzle. Fill the grid with 0 and 1. Each row and each column has as many 0 as 1, and never three equal "
        "numbers in a row, across or down."
    )
    low = 0

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.high = 1

    def conflict(self, row: int, column: int, number: int) -> str:
        across = list(self.grid[row])
        down = [line[column] for line in self.grid]
        for line, place in ((across, column), (down, row)):
            line[place] = number
            if line.count(number) > self.size // 2:
                return f"there are too many {number} in its row or column"
            if any(line[start : start + 3] == [number] * 3 for start in range(self.size - 2)):
                return "three equal numbers in a row"
        return ""


class Hidato(Fill):
    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.high = self.size**2
        self.rules = (
            f"Number snake. Fill the grid with 1 to {self.high}, each once, so that each number is next to the "
            "following one: side by side or diagonally."
        )

    def conflict(self, row: int, column: int, number: int) -> str:
        return f"{number} stands elsewhere" if any(number in line for line in self.grid) else ""

    def whole(self) -> bool:
        at = {self.grid[row][column]: (row, column) for row, column in self.cells()}
        return len(at) == self.high and all(
            at[number + 1] in beside(*at[number], self.size, self.size, diagonal=True) for number in range(1, self.high)
        )


class Fillomino(Fill):
    rules = (
        "Fillomino. Fill the grid with numbers so that each cell with the number n belongs to a group of exactly n "
        "cells with this number, connected side by side."
    )

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.high = 9

    def whole(self) -> bool:
        return all(len(self.group(row, column)) == self.grid[row][column] for row, column in self.cells())


class Numberlink(Fill):
    rules = (
        "Number link. Each number is given twice. Fill all cells so that all cells with the same number are connected "
        "side by side, from one of its given cells to the other."
    )

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.high = max(cell for row in facts["grid"] for cell in row if cell is not None)

    def whole(self) -> bool:
        sizes: dict[int, int] = {}
        for row in self.grid:
            for cell in row:
                sizes[cell] = sizes.get(cell, 0) + 1
        return all(len(self.group(row, column)) == sizes[self.grid[row][column]] for row, column in self.cells())


GAMES = [
    puzzle_game(
        "sudoku",
        "sudoku",
        Sudoku,
        facts_of_grid,
        {
            "easy": {"config": {"cells_to_remove": 16}},
            "medium": {"config": {"cells_to_remove": 40}},
            "hard": {"config": {"cells_to_remove": 54}},
        },
    ),
    puzzle_game(
        "killer_sudoku",
        "killer",
        Killer,
        caged_facts,
        {"easy": {"givens": 66}, "medium": {"givens": 45}, "hard": {"givens": 24}},
    ),
    puzzle_game(
        "kenken",
        "kenken",
        KenKen,
        caged_facts,
        {"easy": {"givens": 3}, "medium": {"givens": 2}, "hard": {"givens": 0}},
    ),
    puzzle_game("futoshiki", "futoshiki", Futoshiki, futoshiki_facts),
    puzzle_game("skyscrapers", "skyscrapers", Skyscrapers, skyscraper_facts),
    puzzle_game("binary", "binary", Binary, binary_facts, mistakes=2),
    puzzle_game("hidato", "hidato", Hidato, facts_of_grid),
    puzzle_game("fillomino", "fillomino", Fillomino, facts_of_grid),
    puzzle_game("numberlink", "numberlink", Numberlink, facts_of_grid),
]
