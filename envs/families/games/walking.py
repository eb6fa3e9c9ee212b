"""Walking over a grid with more to watch than the way: a die that rolls, twins in step, a thief who needs keys.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.games.moving import GridPuzzle, cells_of, drawn
from envs.families.games.play import STEPS, cell_name, game, neighbours, puzzle_opening, solvable
from envs.talk import Opening

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
            f"{drawn(self.rows, self.columns, marks, named=False)}\n"
            f"D shows {top} on top, {north} on its upper side and {east} on its right side."
        )


def draw_die(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(cells_of(side, side), walls + 2)
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
        return f"{drawn(self.rows, self.columns, marks)}\nTargets: A at {names[0]}, B at {names[1]}."


def draw_twins(rng: random.Random, side: int, walls: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        cells = rng.sample(cells_of(side, side), walls + 4)
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
        for other in cells_of(self.rows, self.columns):
            thing = self.facts["things"].get(cell_name(*other), "")
            if thing and thing not in held:
                marks[other] = thing
        marks |= {tuple(self.facts["target"]): "$", cell: "@"}
        return f"{drawn(self.rows, self.columns, marks, named=False)}\nKeys: {' '.join(held) or 'none'}"


def draw_keys(rng: random.Random, side: int, walls: int, keys: int, low: int, high: int, slack: int) -> Opening:
    """A treasure that cannot be reached without a door: drawn again until it takes a key."""

    def make() -> dict[str, Any]:
        cells = rng.sample(cells_of(side, side), walls + 2 * keys + 1)
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
