"""Board games against an opponent, all in the open.

In: a game of the library.  Out: its legal moves; `GAMES` is listed by the family.
"""

from __future__ import annotations

import functools
import operator
import random
from typing import Any

from envs.families.arena.table import Spec, arena_game, look_ahead
from envs.families.puzzles.frame import beside

BY_LOOKS = {"easy": {"looks": -1}, "medium": {"looks": 0}, "hard": {"looks": 1}}


def with_openings(*lengths: int, **settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Levels by the opponent's strength; `settings` by level."""
    levels: dict[str, dict[str, Any]] = {}
    for level, looks in BY_LOOKS.items():
        levels[level] = {**looks, "opening": list(lengths), **settings.get(level, {})}
    return levels


def board_of(env: Any) -> Any:
    return env.state.game_state["board"]


def tic_tac_toe_moves(env: Any) -> list[str]:
    return [f"[{3 * r + c}]" for r in range(3) for c in range(3) if not board_of(env)[r][c]]


def wild_moves(env: Any) -> list[str]:
    return [f"[{sign} {3 * r + c}]" for r in range(3) for c in range(3) if not board_of(env)[r][c] for sign in "XO"]


def ultimate_moves(env: Any) -> list[str]:
    state = env.state.game_state
    found = []
    for large in range(9):
        if state["next_micro_board"] in (None, large) and state["macro_board"][large // 3][large % 3] == " ":
            cells = state["board"][large]
            found += [f"[{large} {3 * r + c}]" for r in range(3) for c in range(3) if cells[r][c] == " "]
    return found


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def completes(cells: list[str], place: int, sign: str) -> bool:
    """Whether a sign in this place of nine makes a line."""
    return any(place in line and all(cells[near] == sign for near in line if near != place) for line in LINES)


def ultimate_best(env: Any, player: int) -> str:
    """Win a small board, keep the other from it, and send the other where it cannot win one."""
    state, mine, theirs = env.state.game_state, "OX"[player], "XO"[player]
    small = [[cell for row in board for cell in row] for board in state["board"]]
    large = [cell for row in state["macro_board"] for cell in row]

    def worth(move: str) -> tuple[int, int]:
        board, place = int(move[1]), int(move[3])
        wins = completes(small[board], place, mine)
        grade = 20 * wins + 6 * completes(small[board], place, theirs) + 200 * (wins and completes(large, board, mine))
        sent = (
            small[place] if place != board else [mine if at == place else cell for at, cell in enumerate(small[board])]
        )
        if large[place] != " " or (wins and place == board):
            grade -= 8
        elif any(cell == " " and completes(sent, at, theirs) for at, cell in enumerate(sent)):
            grade -= 10 + 50 * completes(large, place, theirs)
        return grade + 2 * (place == 4), -(board * 7 + place * 5) % 11

    return max(ultimate_moves(env), key=worth)


def ultimate_other(env: Any, player: int, rng: random.Random, looks: int) -> str:
    return ultimate_best(env, player) if rng.random() < (0.2, 0.6, 0.9)[looks + 1] else rng.choice(ultimate_moves(env))


def connect_four_moves(env: Any) -> list[str]:
    return [f"[col {column}]" for column, cell in enumerate(board_of(env)[0]) if cell == "."]


def tak_moves(env: Any) -> list[str]:
    size = env.board_size
    return [f"[{r * size + c}]" for r in range(size) for c in range(size) if not board_of(env)[r][c]]


def tak_steps(env: Any, sign: str) -> int:
    """How many more stones this side needs to connect two opposite edges."""
    size, board = env.board_size, board_of(env)
    best = size * size
    for down in (True, False):
        line = [(0, place) if down else (place, 0) for place in range(size)]
        cost = {cell: int(board[cell[0]][cell[1]] != sign) for cell in line if board[cell[0]][cell[1]] in ("", sign)}
        todo = sorted(cost, key=lambda cell: cost[cell])
        while todo:
            cell = todo.pop(0)
            if cell[0 if down else 1] == size - 1:
                best = min(best, cost[cell])
            for near in beside(*cell, size, size):
                stone = board[near[0]][near[1]]
                if stone in ("", sign) and cost[cell] + (stone != sign) < cost.get(near, best):
                    cost[near] = cost[cell] + (stone != sign)
                    todo.append(near)
    return best


def tak_best(env: Any, player: int) -> str:
    """The cell after which this side is nearest to its goal, and the other furthest from its own."""
    size, board = env.board_size, board_of(env)
    mine, theirs = "OX" if player == 0 else "XO"
    graded = []
    for move in tak_moves(env):
        row, column = divmod(int(move[1:-1]), size)
        board[row][column] = mine
        steps = tak_steps(env, mine)
        worth = steps - tak_steps(env, theirs) if steps else -size * size
        graded.append((worth, abs(2 * row + 1 - size), move))
        board[row][column] = ""
    return min(graded)[2]


def tak_other(env: Any, player: int, rng: random.Random, looks: int) -> str:
    return tak_best(env, player) if rng.random() < (0.4, 0.7, 0.9)[looks + 1] else rng.choice(tak_moves(env))


def othello_moves(env: Any) -> list[str]:
    """Where there is none, anything passes."""
    found = env._valid_moves("B" if env.state.current_player_id == 0 else "W")
    return [f"[{row}, {column}]" for row, column in found] or ["[0, 0]"]


def othello_best(env: Any, player: int) -> str:
    """Corners first, then the edge; never beside a corner if there is a choice; then what turns most."""
    last = env.N - 1

    def worth(move: str) -> tuple[int, int]:
        row, column = (int(word) for word in move[1:-1].split(","))
        near = [min(row, last - row), min(column, last - column)]
        place = 3 if near == [0, 0] else 0 if max(near) == 1 else 2 if 0 in near else 1
        return place, -(row * 31 + column * 17) % 7

    return max(othello_moves(env), key=worth)


def othello_other(env: Any, player: int, rng: random.Random, looks: int) -> str:
    return othello_best(env, player) if rng.random() < (0.4, 0.7, 0.9)[looks + 1] else rng.choice(othello_moves(env))


def breakthrough_moves(env: Any) -> list[str]:
    size, player = env.board_size, env.state.current_player_id
    down = 1 if player == 0 else -1
    found = []
    for row in range(size):
        for column in range(size):
            for near in (column - 1, column, column + 1):
                if env._is_on_board(row + down, near) and env._is_valid_move(player, row, column, row + down, near):
                    found.append(f"[{chr(97 + column)}{row + 1}{chr(97 + near)}{row + 1 + down}]")
    return found


def chopsticks_moves(env: Any) -> list[str]:
    hands, player = env.state.game_state["hands"], env.state.current_player_id
    mine, theirs = hands[player], hands[1 - player]
    hits = [f"[attack {m} {o}]" for m in (0, 1) for o in (0, 1) if mine[m] and theirs[o]]
    total = sum(mine)
    splits = [f"[split {left} {total - left}]" for left in range(total + 1)]
    small = [move for move, left in zip(splits, range(total + 1), strict=True) if max(left, total - left) < 5]
    return hits + [move for move in small if move != f"[split {mine[0]} {mine[1]}]"]


def nim_moves(env: Any) -> list[str]:
    piles = env.state.game_state["piles"]
    return [f"[{place} {count}]" for place, pile in enumerate(piles) for count in range(1, pile + 1)]


def nim_best(env: Any, player: int) -> str:
    """Leave piles whose binary digits cancel out."""
    piles = env.state.game_state["piles"]
    total = functools.reduce(operator.xor, piles)
    for place, pile in enumerate(piles):
        if pile ^ total < pile:
            return f"[{place} {pile - (pile ^ total)}]"
    return nim_moves(env)[0]


def nim_other(env: Any, player: int, rng: random.Random, looks: int) -> str:
    """Any move at the easy level; the best one in half of the cases, or always, at the others."""
    return nim_best(env, player) if rng.random() < (0.0, 0.5, 1.0)[looks + 1] else rng.choice(nim_moves(env))


GAMES = [
    arena_game(
        Spec(name="tic_tac_toe", path="TicTacToe:TicTacToeEnv", moves=tic_tac_toe_moves, example="[4]"),
        with_openings(1, 2, 3),
        6,
        look_ahead,
    ),
    arena_game(
        Spec(name="wild_tic_tac_toe", path="WildTicTacToe:WildTicTacToeEnv", moves=wild_moves, example="[X 4]"),
        with_openings(2, 3),
        6,
        look_ahead,
    ),
    arena_game(
        Spec(
            name="ultimate_tic_tac_toe",
            path="UltimateTicTacToe:UltimateTicTacToeEnv",
            moves=ultimate_moves,
            policy=ultimate_best,
            opponent=ultimate_other,
            example="[4 4]",
        ),
        with_openings(4, 5),
        41,
    ),
    arena_game(
        Spec(name="connect_four", path="ConnectFour:ConnectFourEnv", moves=connect_four_moves, example="[col 3]"),
        with_openings(4, 5, 6, 7),
        22,
        look_ahead,
    ),
    arena_game(
        Spec(
            name="simple_tak",
            path="SimpleTak:SimpleTakEnv",
            moves=tak_moves,
            policy=tak_best,
            opponent=tak_other,
            example="[5]",
        ),
        with_openings(
            2,
            easy={"settings": {"board_size": 4}},
            medium={"settings": {"board_size": 4}},
            hard={"settings": {"board_size": 5}},
        ),
        14,
    ),
    arena_game(
        Spec(
            name="othello",
            path="Othello:OthelloEnv",
            moves=othello_moves,
            policy=othello_best,
            opponent=othello_other,
            example="[2, 3]",
        ),
        with_openings(
            3,
            4,
            easy={"settings": {"board_size": 4}},
            medium={"settings": {"board_size": 6}},
            hard={"settings": {"board_size": 8}},
        ),
        34,
        look_ahead,
    ),
    arena_game(
        Spec(name="breakthrough", path="Breakthrough:BreakthroughEnv", moves=breakthrough_moves, example="[a2a3]"),
        with_openings(
            3,
            4,
            easy={"settings": {"board_size": 5}},
            medium={"settings": {"board_size": 5}},
            hard={"settings": {"board_size": 6}},
        ),
        30,
        look_ahead,
    ),
    arena_game(
        Spec(name="chopsticks", path="Chopsticks:ChopsticksEnv", moves=chopsticks_moves, example="[attack 0 1]"),
        with_openings(2, 3, 4, 5),
        20,
        look_ahead,
    ),
    arena_game(
        Spec(name="nim", path="Nim:NimEnv", moves=nim_moves, policy=nim_best, opponent=nim_other, example="[0 2]"),
        {
            "easy": {"looks": -1, "drawn": {"piles": ["piles", 3, 1, 5]}},
            "medium": {"looks": 0, "drawn": {"piles": ["piles", 4, 2, 7]}},
            "hard": {"looks": 1, "drawn": {"piles": ["piles", 5, 3, 12]}},
        },
        30,
    ),
]
