"""Duels on boards that the model can win by force: lines, falling stones, dots and boxes.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

from envs.families.games.duelling import MODEL, OPPONENT, Duel, winnable
from envs.families.games.play import Cell, cell_name, game, grid_text, inside, opening
from envs.talk import Opening


def cells_of(rows: int, columns: int) -> list[Cell]:
    return list(itertools.product(range(rows), range(columns)))


@functools.lru_cache(maxsize=32)
def _lines(rows: int, columns: int, length: int) -> tuple[tuple[int, ...], ...]:
    """All straight lines of that many cells, as places in a row-by-row board."""
    found = []
    for row, column in cells_of(rows, columns):
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            cells = [(row + down * step, column + right * step) for step in range(length)]
            if inside(cells[-1], rows, columns):
                found.append(tuple(one * columns + other for one, other in cells))
    return tuple(found)


def _has_line(board: str, mark: str, lines: tuple[tuple[int, ...], ...]) -> bool:
    return any(all(board[place] == mark for place in line) for line in lines)


def rows_of(board: str, columns: int) -> list[str]:
    return [board[place : place + columns] for place in range(0, len(board), columns)]


# ---- lines -----------------------------------------------------------------------------------------------------------


class Lines(Duel):
    """Noughts and crosses on a board of any size: who has a line first wins; a full board is no win."""

    def first(self) -> Any:
        return MODEL, self.facts["board"]

    def options(self, position: Any) -> dict[str, Any]:
        turn, board = position
        columns = self.facts["columns"]
        found = {}
        for place, mark in enumerate(board):
            if mark == ".":
                after = board[:place] + "XO"[turn] + board[place + 1 :]
                found[cell_name(*divmod(place, columns))] = (1 - turn, after)
        return found

    def result(self, position: Any) -> bool | None:
        turn, board = position
        columns = self.facts["columns"]
        if _has_line(board, "OX"[turn], _lines(len(board) // columns, columns, self.facts["line"])):
            return bool(turn == OPPONENT)
        return None if "." in board else False

    def show(self) -> str:
        return grid_text(rows_of(self.position[1], self.facts["columns"]))


def draw_lines(rng: random.Random, side: int, line: int, free: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        stones = side * side - free
        marks = [*"X" * (stones // 2), *"O" * (stones - stones // 2), *"." * free]
        rng.shuffle(marks)
        return {"board": "".join(marks), "columns": side, "line": line, "limit": (free + 1) // 2 + 2}

    def quiet() -> dict[str, Any]:
        """Without a line of either side."""
        while True:
            facts = make()
            lines = _lines(side, side, line)
            if not any(_has_line(facts["board"], mark, lines) for mark in "XO"):
                return facts

    facts = winnable(rng, quiet, Lines, skill, 0.34)
    rules = (
        f"We put marks into free cells in turn; you are X and move now, I am O. Who first has {line} marks in a row, "
        "along a row, a column or a diagonal, wins. A full board without that is not a win for you. Name a free cell."
    )
    return opening(rules, Lines, facts, "B2")


# ---- falling stones --------------------------------------------------------------------------------------------------


class Falling(Duel):
    """Stones fall to the lowest free cell of a column; who has a line first wins."""

    def first(self) -> Any:
        return MODEL, self.facts["board"]

    def options(self, position: Any) -> dict[str, Any]:
        turn, board = position
        columns = self.facts["columns"]
        found = {}
        for column in range(columns):
            free = [place for place in range(column, len(board), columns) if board[place] == "."]
            if free:
                found[str(column + 1)] = (1 - turn, board[: free[-1]] + "XO"[turn] + board[free[-1] + 1 :])
        return found

    def result(self, position: Any) -> bool | None:
        turn, board = position
        columns = self.facts["columns"]
        if _has_line(board, "OX"[turn], _lines(len(board) // columns, columns, self.facts["line"])):
            return bool(turn == OPPONENT)
        return None if "." in board else False

    def show(self) -> str:
        columns = self.facts["columns"]
        head = "".join(str(column + 1) for column in range(columns))
        return "\n".join([head, *rows_of(self.position[1], columns)])


def draw_falling(rng: random.Random, rows: int, columns: int, line: int, free: int, skill: float) -> Opening:
    """Stones are dropped at random until so many cells are free, and nobody has a line."""

    def make() -> dict[str, Any]:
        while True:
            facts = {"board": "." * rows * columns, "columns": columns, "line": line, "limit": 1, "seed": 0}
            play = Falling(facts)
            position = play.position if (rows * columns - free) % 2 == 0 else (OPPONENT, play.position[1])
            while play.result(position) is None and position[1].count(".") > free:
                position = rng.choice(list(play.options(position).values()))
            if play.result(position) is None:
                return {**facts, "board": position[1], "limit": (free + 1) // 2 + 2}

    facts = winnable(rng, make, Falling, skill, 0.34)
    rules = (
        "We drop stones into columns in turn; a stone falls to the lowest free cell of its column. You are X and move "
        f"now, I am O. Who first has {line} stones in a row, along a row, a column or a diagonal, wins. A full board "
        "without that is not a win for you. A move is the number of a column that is not full."
    )
    return opening(rules, Falling, facts, "2")


# ---- dots and boxes --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _edges(rows: int, columns: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Each edge by name, with the boxes beside it: `H 1 2` is the second edge in the first row of level edges."""
    found = []
    for row, column in cells_of(rows + 1, columns):
        boxes = [one * columns + column for one in (row - 1, row) if 0 <= one < rows]
        found.append((f"H {row + 1} {column + 1}", tuple(boxes)))
    for row, column in cells_of(rows, columns + 1):
        boxes = [row * columns + one for one in (column - 1, column) if 0 <= one < columns]
        found.append((f"V {row + 1} {column + 1}", tuple(boxes)))
    return tuple(found)


class Boxing(Duel):
    """Who draws the fourth edge of a box owns it and moves again; more boxes win."""

    def first(self) -> Any:
        return MODEL, frozenset(self.facts["drawn"]), 0

    def options(self, position: Any) -> dict[str, Any]:
        turn, drawn, lead = position
        edges = _edges(self.facts["rows"], self.facts["columns"])
        found = {}
        for name, boxes in edges:
            if name not in drawn:
                after = drawn | {name}
                made = sum(all(other in after for other, beside in edges if box in beside) for box in boxes)
                found[name] = (turn if made else 1 - turn, after, lead + (made if turn == MODEL else -made))
        return found

    def result(self, position: Any) -> bool | None:
        _, drawn, lead = position
        whole = len(drawn) == len(_edges(self.facts["rows"], self.facts["columns"]))
        return bool(lead > 0) if whole else None

    def show(self) -> str:
        _, drawn, lead = self.position
        lines = []
        for row in range(1, self.facts["rows"] + 2):
            level = ["---" if f"H {row} {column + 1}" in drawn else "   " for column in range(self.facts["columns"])]
            lines.append("+" + "+".join(level) + "+")
            if row <= self.facts["rows"]:
                upright = ["|" if f"V {row} {one + 1}" in drawn else " " for one in range(self.facts["columns"] + 1)]
                lines.append("   ".join(upright).rstrip())
        return "\n".join([*lines, f"Your boxes less mine: {lead}"])


def draw_boxing(rng: random.Random, rows: int, columns: int, free: int, skill: float) -> Opening:
    """So many edges are free, and no box is closed yet."""
    edges = _edges(rows, columns)

    def make() -> dict[str, Any]:
        while True:
            drawn = sorted(rng.sample([name for name, _ in edges], len(edges) - free))
            closed = [
                box for box in range(rows * columns) if all(name in drawn for name, beside in edges if box in beside)
            ]
            if not closed:
                return {"rows": rows, "columns": columns, "drawn": drawn, "limit": free + 2}

    facts = winnable(rng, make, Boxing, skill, 0.5)
    rules = (
        "We draw edges of boxes in turn; you move now. Who draws the fourth edge of a box gets this box and must move "
        "again at once. When all edges are drawn, you win if you have more boxes than I. H 1 2 is the second edge of "
        "the first row of level edges, V 1 2 the second upright edge of the first row of boxes, counted from the left "
        "and from the top."
    )
    return opening(rules, Boxing, facts, "H 1 2")


GAMES = [
    game(
        "lines",
        draw_lines,
        Lines,
        (6, 7, 7),
        {"side": 3, "line": 3, "free": 6, "skill": 0.5},
        {"side": 4, "line": 3, "free": 8, "skill": 1.0},
        {"side": 5, "line": 4, "free": 9, "skill": 1.0},
    ),
    game(
        "falling",
        draw_falling,
        Falling,
        (6, 8, 9),
        {"rows": 4, "columns": 4, "line": 3, "free": 7, "skill": 0.5},
        {"rows": 4, "columns": 5, "line": 4, "free": 9, "skill": 1.0},
        {"rows": 5, "columns": 5, "line": 4, "free": 12, "skill": 1.0},
    ),
    game(
        "boxing",
        draw_boxing,
        Boxing,
        (7, 11, 12),
        {"rows": 2, "columns": 2, "free": 5, "skill": 0.5},
        {"rows": 2, "columns": 3, "free": 8, "skill": 1.0},
        {"rows": 3, "columns": 3, "free": 10, "skill": 1.0},
    ),
]
