"""Puzzles of bridges and moves: islands to be joined, boxes to be pushed, cars in a jam.

In: a game of the library.  Out: facts; `GAMES` is listed by the family.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from envs.families.puzzles.frame import Puzzle, Refused, numbers, picture, puzzle_game

Settings = Mapping[str, Any]
Cell = tuple[int, int]
STEPS: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

# ---- bridges ---------------------------------------------------------------------------------------------------------


def bridges_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    islands = [[row, column, game.grid[row][column]] for row, column in sorted(game.islands)]
    solution = [[*ends, count] for ends, count in sorted(game.solution.items()) if count]
    return {"size": game.size, "islands": islands, "solution": solution}


class Bridges(Puzzle):
    rules = (
        "Bridges. Join islands (numbers) by straight bridges across or down, at most two between the same islands. "
        "Bridges neither cross nor run through islands. Each island has as many bridges as its number says, and all "
        "islands are connected."
    )
    usage = "bridge <row> <column> <row> <column> <count> (the count of bridges between two islands; 0 removes them)"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.size: int = facts["size"]
        self.needs: dict[Cell, int] = {(row, column): need for row, column, need in facts["islands"]}
        self.bridges: dict[tuple[Cell, Cell], int] = {}

    def _between(self, one: Cell, other: Cell) -> list[Cell]:
        """The cells strictly between two cells of a line."""
        (r1, c1), (r2, c2) = one, other
        if r1 == r2:
            return [(r1, column) for column in range(c1 + 1, c2)]
        return [(row, c1) for row in range(r1 + 1, r2)]

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb != "bridge":
            raise Refused("the command is bridge")
        r1, c1, r2, c2, count = numbers(words, *[(1, self.size)] * 4, (0, 2))
        one, other = sorted([(r1 - 1, c1 - 1), (r2 - 1, c2 - 1)])
        if one not in self.needs or other not in self.needs or one == other:
            raise Refused("it must join two islands")
        if one[0] != other[0] and one[1] != other[1]:
            raise Refused("it is not straight")
        way = set(self._between(one, other))
        if way & self.needs.keys():
            raise Refused("an island is in the way")
        others = {ends for ends in self.bridges if ends != (one, other)}
        if count and any(way & set(self._between(*ends)) for ends in others):
            raise Refused("it crosses another bridge")
        self.bridges.pop((one, other), None)
        if count:
            self.bridges[one, other] = count

    def solved(self) -> bool:
        counts = dict.fromkeys(self.needs, 0)
        for ends, count in self.bridges.items():
            for end in ends:
                counts[end] += count
        return counts == self.needs and len(self._reached()) == len(self.needs)

    def _reached(self) -> set[Cell]:
        todo = [min(self.needs)]
        found = set(todo)
        while todo:
            island = todo.pop()
            for ends in self.bridges:
                if island in ends:
                    fresh = set(ends) - found
                    found |= fresh
                    todo.extend(fresh)
        return found

    def plan(self) -> list[str]:
        return [
            f"bridge {r1 + 1} {c1 + 1} {r2 + 1} {c2 + 1} {count}"
            for r1, c1, r2, c2, count in self.facts["solution"]
            if self.bridges.get(((r1, c1), (r2, c2))) != count
        ]

    def show(self) -> str:
        grid: list[list[Any]] = [[None] * self.size for _ in range(self.size)]
        for ends, count in self.bridges.items():
            for row, column in self._between(*ends):
                grid[row][column] = ("-=" if ends[0][0] == ends[1][0] else "|H")[count - 1]
        for (row, column), need in self.needs.items():
            grid[row][column] = need
        return picture(grid)


# ---- boxes -----------------------------------------------------------------------------------------------------------


def sokoban_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any] | None:
    grid = game.initial_state["grid"]
    cells = [(row, column) for row in range(game.size) for column in range(game.size)]
    facts: dict[str, Any] = {
        "size": game.size,
        "boxes": [list(cell) for cell in cells if grid[cell[0]][cell[1]] == 2],
        "goals": sorted(list(goal) for goal in game.goals),
        "player": list(game.player_pos),
    }
    solution = push_all(facts)
    return {**facts, "solution": solution} if solution else None


def push_all(facts: Mapping[str, Any]) -> list[str]:
    """Moves that push each box straight onto a goal, one after the other; empty where that does not work."""
    boxes, goals = ([tuple(cell) for cell in facts[key]] for key in ("boxes", "goals"))
    for order in itertools.permutations(range(len(boxes))):
        for aims in itertools.permutations(goals):
            play = Sokoban({**facts, "solution": []})
            if all(_push(play, boxes[place], aims[place]) for place in order):
                return play.moves
    return []


def _push(play: Sokoban, box: Cell, goal: Cell) -> bool:
    (r, c), (gr, gc) = box, goal
    if r != gr and c != gc:
        return False
    length = abs(gr - r) + abs(gc - c)
    if not length:
        return True
    name, (dr, dc) = next(
        (name, step) for name, step in STEPS.items() if step == ((gr > r) - (gr < r), (gc > c) - (gc < c))
    )
    way = play.way_to((r - dr, c - dc))
    if way is None:
        return False
    try:
        for move in [*way, *[name] * length]:
            play.do(move, [])
    except Refused:
        return False
    return True


class Sokoban(Puzzle):
    rules = (
        "Sokoban. You are @ (+ on a goal). Push all boxes ($, or * on a goal) onto the goals (o). You push a box by "
        "walking against it, if the cell behind it is free of walls (#) and boxes. You cannot pull."
    )
    usage = "up, down, left, right (one step each)"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.size: int = facts["size"]
        self.boxes: set[Cell] = {(row, column) for row, column in facts["boxes"]}
        self.goals: set[Cell] = {(row, column) for row, column in facts["goals"]}
        self.player: Cell = (facts["player"][0], facts["player"][1])
        self.moves: list[str] = []

    def _wall(self, cell: Cell) -> bool:
        return not all(0 < place < self.size - 1 for place in cell)

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb not in STEPS or words:
            raise Refused("the commands are up, down, left and right")
        down, right = STEPS[verb]
        cell = (self.player[0] + down, self.player[1] + right)
        behind = (cell[0] + down, cell[1] + right)
        if self._wall(cell):
            raise Refused("there is a wall")
        if cell in self.boxes:
            if self._wall(behind) or behind in self.boxes:
                raise Refused("the box cannot move")
            self.boxes = self.boxes - {cell} | {behind}
        self.player = cell
        self.moves.append(verb)

    def way_to(self, target: Cell) -> list[str] | None:
        """The shortest walk to a cell that pushes nothing."""
        ways: dict[Cell, list[str]] = {self.player: []}
        todo = deque([self.player])
        while todo:
            cell = todo.popleft()
            if cell == target:
                return ways[cell]
            for name, (down, right) in STEPS.items():
                near = (cell[0] + down, cell[1] + right)
                if near not in ways and near not in self.boxes and not self._wall(near):
                    ways[near] = [*ways[cell], name]
                    todo.append(near)
        return None

    def solved(self) -> bool:
        return self.boxes == self.goals

    def plan(self) -> list[str]:
        return list(self.facts["solution"][self.num_done :])

    def show(self) -> str:
        rows = []
        for row in range(self.size):
            cells = [(row, column) for column in range(self.size)]
            rows.append("".join(self._sign(cell) for cell in cells))
        return "\n".join(rows)

    def _sign(self, cell: Cell) -> str:
        if self._wall(cell):
            return "#"
        goal = cell in self.goals
        if cell == self.player:
            return "+" if goal else "@"
        if cell in self.boxes:
            return "*" if goal else "$"
        return "o" if goal else "."


# ---- cars ------------------------------------------------------------------------------------------------------------


def rush_hour_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any] | None:
    """None where the car X needs no other car to move, or the way is too short."""
    cars = cars_of(game)
    solution = drive_out(game.size, cars)
    if not solution or len(solution) < settings["least"] or all(move.split()[1] == "X" for move in solution):
        return None
    return {"size": game.size, "cars": cars, "solution": solution}


def cars_of(game: Any) -> list[list[Any]]:
    return [[car.id, car.row, car.col, car.length, car.orientation == "h"] for _, car in sorted(game.vehicles.items())]


def num_moves(game: Any) -> int | None:
    """In the place of the library's own search, which takes many seconds a board."""
    solution = drive_out(game.size, cars_of(game))
    return None if solution is None else len(solution)


def drive_out(size: int, cars: Sequence[Sequence[Any]]) -> list[str] | None:
    """A shortest solution, by breadth; None where there is none.  A state is where in its line each car begins."""
    masks = []  # of each car and place, the cells that it takes there
    for _, row, column, length, across in cars:
        base, step = (row * size, 1) if across else (column, size)
        masks.append([sum(1 << (base + step * (p + k)) for k in range(length)) for p in range(size - length + 1)])
    target = next(place for place, car in enumerate(cars) if car[0] == "X")
    first = tuple(car[2] if car[4] else car[1] for car in cars)
    before: dict[tuple[int, ...], tuple[tuple[int, ...], str] | None] = {first: None}
    todo = deque([first])
    while todo:
        state = todo.popleft()
        if state[target] == len(masks[target]) - 1:
            return _way(before, state)
        taken = sum(masks[car][place] for car, place in enumerate(state))
        for car, place in enumerate(state):
            others = taken ^ masks[car][place]
            for near in (place - 1, place + 1):
                if 0 <= near < len(masks[car]) and not masks[car][near] & others:
                    fresh = (*state[:car], near, *state[car + 1 :])
                    if fresh not in before:
                        words = ("left", "right") if cars[car][4] else ("up", "down")
                        before[fresh] = (state, f"move {cars[car][0]} {words[near > place]}")
                        todo.append(fresh)
    return None


def _way(before: Mapping[Any, Any], state: Any) -> list[str]:
    moves: list[str] = []
    while before[state] is not None:
        state, move = before[state]
        moves.append(move)
    return moves[::-1]


class RushHour(Puzzle):
    rules = (
        "Rush hour. Cars are letters; one that lies across moves left and right only, one that stands upright up and "
        "down only, each by free cells (.). Bring the car X to the right edge of its row."
    )
    usage = "move <car> <up, down, left or right> (by one cell)"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.size: int = facts["size"]
        self.shapes = {name.casefold(): (length, across) for name, _, _, length, across in facts["cars"]}
        self.cars: dict[str, Cell] = {name.casefold(): (row, column) for name, row, column, _, _ in facts["cars"]}

    def _cells(self, name: str) -> list[Cell]:
        (row, column), (length, across) = self.cars[name], self.shapes[name]
        return [(row, column + k) if across else (row + k, column) for k in range(length)]

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb != "move" or len(words) != 2 or words[0] not in self.cars or words[1] not in STEPS:
            raise Refused("write move, a car and a direction")
        name, direction = words
        if self.shapes[name][1] != (direction in ("left", "right")):
            raise Refused("this car cannot go that way")
        down, right = STEPS[direction]
        before = self.cars[name]
        self.cars[name] = (before[0] + down, before[1] + right)
        cells = self._cells(name)
        taken = {cell for other in self.cars if other != name for cell in self._cells(other)}
        if any(not (0 <= r < self.size and 0 <= c < self.size) for r, c in cells) or taken & set(cells):
            self.cars[name] = before
            raise Refused("there is no room")

    def solved(self) -> bool:
        return self._cells("x")[-1][1] == self.size - 1

    def plan(self) -> list[str]:
        return list(self.facts["solution"][self.num_done :])

    def show(self) -> str:
        grid = [["."] * self.size for _ in range(self.size)]
        for name in self.cars:
            for row, column in self._cells(name):
                grid[row][column] = name.upper()
        return "\n".join("".join(row) for row in grid)


GAMES = [
    puzzle_game("bridges", "bridges", Bridges, bridges_facts),
    puzzle_game("sokoban", "sokoban", Sokoban, sokoban_facts, mistakes=4),
    puzzle_game(
        "rush_hour",
        "rush_hour",
        RushHour,
        rush_hour_facts,
        {"easy": {"least": 4}, "medium": {"least": 8}, "hard": {"least": 12}},
        mistakes=4,
    ),
]
