"""More duels on boards that the model can win by force: hex, dominoes, pawns.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.games.boards import cells_of, rows_of
from envs.families.games.duelling import MODEL, OPPONENT, Duel, winnable
from envs.families.games.play import cell_name, game, grid_text, inside, neighbours, opening
from envs.talk import Opening

# ---- hex -------------------------------------------------------------------------------------------------------------


class Hex(Duel):
    """The model joins top and bottom, the opponent left and right; each cell has up to six neighbours."""

    def first(self) -> Any:
        return MODEL, self.facts["board"]

    def options(self, position: Any) -> dict[str, Any]:
        turn, board = position
        found = {}
        for place, mark in enumerate(board):
            if mark == ".":
                name = cell_name(*divmod(place, self.facts["side"]))
                found[name] = (1 - turn, board[:place] + "XO"[turn] + board[place + 1 :])
        return found

    def is_joined(self, board: str) -> bool:
        """Whether X joins the top to the bottom."""
        side = self.facts["side"]
        reached = [place for place in range(side) if board[place] == "X"]
        for place in reached:
            row, column = divmod(place, side)
            if row == side - 1:
                return True
            around = [*neighbours((row, column), side, side), (row - 1, column + 1), (row + 1, column - 1)]
            for cell in around:
                other = cell[0] * side + cell[1]
                if inside(cell, side, side) and board[other] == "X" and other not in reached:
                    reached.append(other)
        return False

    def result(self, position: Any) -> bool | None:
        """A full board has exactly one winner; X has won earlier if it is joined."""
        board = position[1]
        if self.is_joined(board):
            return True
        return None if self.is_joined(board.replace(".", "X")) else False

    def show(self) -> str:
        side = self.facts["side"]
        lines = grid_text(rows_of(self.position[1], side)).splitlines()
        return "\n".join([lines[0], *(" " * number + line for number, line in enumerate(lines[1:]))])


def draw_hex(rng: random.Random, side: int, free: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        stones = side * side - free
        marks = [*"X" * (stones // 2), *"O" * (stones - stones // 2), *"." * free]
        rng.shuffle(marks)
        return {"board": "".join(marks), "side": side, "limit": (free + 1) // 2 + 2}

    facts = winnable(rng, make, Hex, skill, 0.25)
    rules = (
        "Hex: we put stones into free cells in turn. You are X and move now, I am O. You win if your stones join the "
        "top row to the bottom row, I win if mine join the left column to the right column. Neighbours of a cell are "
        "those left, right, above and below it, and also the one above right and the one below left; so B2 has the "
        "neighbours A2, C2, B1, B3, C1 and A3. Each row is drawn a little further to the right. Name a free cell."
    )
    return opening(rules, Hex, facts, "B2")


# ---- dominoes --------------------------------------------------------------------------------------------------------


class Dominoes(Duel):
    """The model places upright dominoes, the opponent level ones; who cannot place one loses."""

    def first(self) -> Any:
        return MODEL, self.facts["board"]

    def options(self, position: Any) -> dict[str, Any]:
        turn, board = position
        columns = self.facts["columns"]
        found = {}
        for place, mark in enumerate(board):
            other = place + (columns if turn == MODEL else 1)
            ends_row = turn == OPPONENT and place % columns == columns - 1
            if mark == "." and not ends_row and other < len(board) and board[other] == ".":
                after = "".join("#" if one in (place, other) else cell for one, cell in enumerate(board))
                found[cell_name(*divmod(place, columns))] = (1 - turn, after)
        return found

    def show(self) -> str:
        return grid_text(rows_of(self.position[1], self.facts["columns"]))


def draw_dominoes(rng: random.Random, rows: int, columns: int, blocked: int, skill: float) -> Opening:
    def make() -> dict[str, Any]:
        cells = ["#"] * blocked + ["."] * (rows * columns - blocked)
        rng.shuffle(cells)
        return {"board": "".join(cells), "columns": columns, "limit": (rows * columns - blocked) // 4 + 3}

    facts = winnable(rng, make, Dominoes, skill, 0.3)
    rules = (
        "We cover two free cells . of a board with a domino in turn; you move now. Yours stand upright: B2 covers B2 "
        "and B3 below it. Mine lie level: B2 covers B2 and C2. # is a cell that is covered. Who cannot place a domino "
        "any more loses."
    )
    return opening(rules, Dominoes, facts, "B2")


# ---- pawns -----------------------------------------------------------------------------------------------------------


class Pawns(Duel):
    """Pawns go one ahead or take aslant; who reaches the far side wins, who cannot move loses."""

    def first(self) -> Any:
        return MODEL, self.facts["board"]

    def options(self, position: Any) -> dict[str, Any]:
        turn, board = position
        columns = self.facts["columns"]
        rows = len(board) // columns
        mine, theirs, ahead = ("X", "O", -1) if turn == MODEL else ("O", "X", 1)
        found = {}
        for place, mark in enumerate(board):
            row, column = divmod(place, columns)
            for aside in (-1, 0, 1):
                to = (row + ahead, column + aside)
                wanted = theirs if aside else "."
                if mark == mine and inside(to, rows, columns) and board[to[0] * columns + to[1]] == wanted:
                    cells = list(board)
                    cells[place], cells[to[0] * columns + to[1]] = ".", mine
                    found[f"{cell_name(row, column)} {cell_name(*to)}"] = (1 - turn, "".join(cells))
        return found

    def result(self, position: Any) -> bool | None:
        board = position[1]
        columns = self.facts["columns"]
        if "X" in board[:columns]:
            return True
        return False if "O" in board[-columns:] else super().result(position)

    def show(self) -> str:
        return grid_text(rows_of(self.position[1], self.facts["columns"]))


def draw_pawns(rng: random.Random, rows: int, columns: int, pawns: int, skill: float) -> Opening:
    """Equally many pawns on each side, in their own half or a row beyond it."""

    def make() -> dict[str, Any]:
        cells = cells_of(rows, columns)
        theirs = rng.sample([cell for cell in cells if cell[0] < rows // 2], pawns)
        free = [cell for cell in cells if cell[0] >= rows // 2 and cell not in theirs]
        mine = rng.sample(free, pawns)
        marks = {**dict.fromkeys(theirs, "O"), **dict.fromkeys(mine, "X")}
        board = "".join(marks.get(cell, ".") for cell in cells)
        return {"board": board, "columns": columns, "limit": pawns * rows + 2}

    facts = winnable(rng, make, Pawns, skill, 0.26)
    rules = (
        "Your pawns are X and go up, mine are O and go down. In turn, you first, one pawn moves: one cell straight "
        "ahead if that cell is free, or one cell ahead aslant to take a pawn of the other side that stands there. Who "
        "gets a pawn to the last row ahead wins. Who cannot move loses. B3 B2 moves the pawn at B3 to B2."
    )
    return opening(rules, Pawns, facts, "B3 B2")


GAMES = [
    game(
        "hex",
        draw_hex,
        Hex,
        (6, 7, 8),
        {"side": 3, "free": 7, "skill": 0.5},
        {"side": 4, "free": 8, "skill": 1.0},
        {"side": 5, "free": 9, "skill": 1.0},
    ),
    game(
        "dominoes",
        draw_dominoes,
        Dominoes,
        (6, 7, 8),
        {"rows": 4, "columns": 4, "blocked": 5, "skill": 0.5},
        {"rows": 5, "columns": 4, "blocked": 6, "skill": 1.0},
        {"rows": 5, "columns": 5, "blocked": 8, "skill": 1.0},
    ),
    game(
        "pawns",
        draw_pawns,
        Pawns,
        (14, 18, 22),
        {"rows": 4, "columns": 3, "pawns": 3, "skill": 0.5},
        {"rows": 4, "columns": 4, "pawns": 4, "skill": 1.0},
        {"rows": 5, "columns": 4, "pawns": 4, "skill": 1.0},
    ),
]
