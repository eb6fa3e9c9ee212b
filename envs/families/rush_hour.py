"""Rush Hour, a puzzle of sliding cars: what moves do, and a shortest solution.

In: a board of 36 cells, row by row: `o` free, `x` wall, a letter for each car, `A` the red one in the third row.
Out: whether moves free the red car, or moves that do.  Called by `envs.families.reasoning_gym`, whose library ships
boards without solutions and has a scorer that skips over illegal moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SIDE = 6
MAX_MOVES = 200
_MOVE = re.compile(r"([A-Z])([+-])([1-5])")

# Positions of all cars along their lines, in the order of their letters.
State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Car:
    """`line` is its row if it is horizontal, else its column; `cells[p]` the mask of cells that it covers at p."""

    horizontal: bool
    line: int
    length: int
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """Cars by letter (as the puzzle shows them: renamed to A, B, C…), walls as a mask, and where the cars stand."""

    cars: tuple[Car, ...]
    walls: int
    start: State


def read_board(text: str) -> Board:
    """Raises ValueError for a board of another size."""
    if len(text) != SIDE * SIDE:
        raise ValueError(f"a board has {SIDE * SIDE} cells, not {len(text)}")
    places = {letter: [i for i, cell in enumerate(text) if cell == letter] for letter in sorted(set(text) - {"o", "x"})}
    walls = sum(1 << i for i, cell in enumerate(text) if cell == "x")
    cars, start = [], []
    for cells in places.values():
        horizontal = cells[1] - cells[0] == 1
        row, column = divmod(cells[0], SIDE)
        cars.append(_car(horizontal, row if horizontal else column, len(cells)))
        start.append(column if horizontal else row)
    return Board(tuple(cars), walls, tuple(start))


def _car(horizontal: bool, line: int, length: int) -> Car:
    def mask(position: int) -> int:
        cells = range(position, position + length)
        return sum(1 << (line * SIDE + cell if horizontal else cell * SIDE + line) for cell in cells)

    return Car(horizontal, line, length, tuple(mask(position) for position in range(SIDE - length + 1)))


def is_free(board: Board, state: State) -> bool:
    """Whether the red car stands at the right edge."""
    return state[0] == SIDE - board.cars[0].length


def slides(board: Board, state: State, car: int) -> Iterator[int]:
    """The positions that one car can slide to."""
    others = board.walls
    for other, position in enumerate(state):
        if other != car:
            others |= board.cars[other].cells[position]
    cells = board.cars[car].cells
    for step in (1, -1):
        position = state[car] + step
        while 0 <= position < len(cells) and not cells[position] & others:
            yield position
            position += step


def solves(text: str, answer: str) -> bool:
    """Whether `answer` (such as `F+1 K-2`) is nothing but legal moves, after which the red car is free."""
    board, words = read_board(text), answer.split()
    state = board.start
    for word in words if len(words) <= MAX_MOVES else ():
        move = _MOVE.fullmatch(word)
        car = ord(move[1]) - ord("A") if move else len(state)
        if move is None or car >= len(state):
            return False
        position = state[car] + int(move[2] + move[3])
        if position not in slides(board, state, car):
            return False
        state = _moved(state, car, position)
    return is_free(board, state)


def _moved(state: State, car: int, position: int) -> State:
    return (*state[:car], position, *state[car + 1 :])


def solution(text: str) -> str:
    """Fewest moves that free the red car, by breadth-first search.  ValueError where there are none."""
    board = read_board(text)
    came_from: dict[State, tuple[State, int]] = {board.start: (board.start, 0)}
    frontier = [board.start]
    while frontier:
        reached = []
        for state in frontier:
            if is_free(board, state):
                return _told(state, came_from)
            for car in range(len(state)):
                for position in slides(board, state, car):
                    after = _moved(state, car, position)
                    if after not in came_from:
                        came_from[after] = (state, car)
                        reached.append(after)
        frontier = reached
    raise ValueError(f"the red car of {text!r} cannot be freed")


def _told(state: State, came_from: dict[State, tuple[State, int]]) -> str:
    moves: list[str] = []
    while came_from[state][0] != state:
        before, car = came_from[state]
        moves.append(f"{chr(ord('A') + car)}{state[car] - before[car]:+d}")
        state = before
    return " ".join(reversed(moves))
