"""Putting things in order: towers, blocks, pancakes, tubes of balls, tracks of wagons.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.games.play import LETTERS, Puzzle, game, puzzle_opening, shuffled, solvable
from envs.talk import Opening


def _named_stacks(stacks: Any, names: str = LETTERS) -> str:
    """One stack a line, its top at the right end."""
    return "\n".join(
        f"{name}: {' '.join(str(item) for item in stack) or '-'}" for name, stack in zip(names, stacks, strict=False)
    )


def _tuples(stacks: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(stack) for stack in stacks)


def _put(stacks: Any, source: int, target: int) -> tuple[tuple[Any, ...], ...]:
    """The stacks after the top item of one went onto another."""
    lists = [list(stack) for stack in stacks]
    lists[target].append(lists[source].pop())
    return _tuples(lists)


# ---- towers of Hanoi -------------------------------------------------------------------------------------------------


class Hanoi(Puzzle):
    """Disks move between three pegs, never onto a smaller one, until they stand as wanted."""

    def first(self) -> Any:
        return _tuples(self.facts["pegs"])

    def options(self, position: Any) -> dict[str, Any]:
        found = {}
        for source in range(3):
            for target in range(3):
                fits = position[source] and (not position[target] or position[target][-1] > position[source][-1])
                if source != target and fits:
                    found[f"{LETTERS[source]} {LETTERS[target]}"] = _put(position, source, target)
        return found

    def goal(self, position: Any) -> bool:
        return bool(position == _tuples(self.facts["wanted"]))

    def show(self) -> str:
        return f"Now:\n{_named_stacks(self.position)}\nWanted:\n{_named_stacks(self.facts['wanted'])}"


def draw_hanoi(rng: random.Random, disks: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        places: list[list[list[int]]] = [[[], [], []], [[], [], []]]
        for disk in range(disks, 0, -1):
            for pegs in places:
                rng.choice(pegs).append(disk)
        return {"pegs": places[0], "wanted": places[1]}

    facts = solvable(make, Hanoi, low, high)
    rules = (
        f"Three pegs A, B, C hold disks of the sizes 1 to {disks}. Each line shows a peg from bottom to top. Move the "
        "top disk of a peg onto another peg that is empty or whose top disk is larger: A C moves the top disk of A "
        "onto C. Bring all disks to where they are wanted."
    )
    return puzzle_opening(rules, Hanoi, facts, slack, "A C")


# ---- blocks ----------------------------------------------------------------------------------------------------------


class Blocks(Puzzle):
    """A free block is put onto another free block or onto the table, until the stacks are the wanted ones."""

    def first(self) -> Any:
        return tuple(sorted(_tuples(self.facts["stacks"])))

    def options(self, position: Any) -> dict[str, Any]:
        found = {}
        for stack in position:
            block, rest = stack[-1], [other for other in position if other != stack]
            below = [stack[:-1]] if len(stack) > 1 else []
            if below:
                found[f"{block} TABLE"] = tuple(sorted([*rest, *below, (block,)]))
            for other in rest:
                kept = [one for one in rest if one != other]
                found[f"{block} {other[-1]}"] = tuple(sorted([*kept, *below, (*other, block)]))
        return found

    def goal(self, position: Any) -> bool:
        return bool(position == tuple(sorted(_tuples(self.facts["wanted"]))))

    def show(self) -> str:
        now = "; ".join(" ".join(stack) for stack in self.position)
        wanted = "; ".join(" ".join(stack) for stack in sorted(_tuples(self.facts["wanted"])))
        return f"Now: {now}\nWanted: {wanted}"


def _piled(rng: random.Random, names: str) -> list[list[str]]:
    """Blocks in stacks, each block onto the one before or onto the table."""
    stacks: list[list[str]] = []
    for name in shuffled(rng, names):
        if stacks and rng.random() < 0.7:
            rng.choice(stacks).append(name)
        else:
            stacks.append([name])
    return stacks


def draw_blocks(rng: random.Random, blocks: int, low: int, high: int, slack: int) -> Opening:
    names = LETTERS[:blocks]
    facts = solvable(lambda: {"stacks": _piled(rng, names), "wanted": _piled(rng, names)}, Blocks, low, high, 8_000)
    rules = (
        "Blocks stand in stacks on a table. Stacks are written from bottom to top and parted by semicolons; their "
        "order does not matter. Move one block that has nothing on it: A B puts A onto B, which must have nothing on "
        "it either; A TABLE puts A onto the table. Build exactly the wanted stacks."
    )
    return puzzle_opening(rules, Blocks, facts, slack, "A TABLE")


# ---- pancakes --------------------------------------------------------------------------------------------------------


class Pancakes(Puzzle):
    """The first so many of a row are turned round at once, until the row ascends."""

    def first(self) -> Any:
        return tuple(self.facts["row"])

    def options(self, position: Any) -> dict[str, Any]:
        return {f"FLIP {size}": (*reversed(position[:size]), *position[size:]) for size in range(2, len(position) + 1)}

    def goal(self, position: Any) -> bool:
        return list(position) == sorted(position)

    def show(self) -> str:
        return " ".join(str(item) for item in self.position)


def draw_pancakes(rng: random.Random, size: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        return {"row": rng.sample(range(1, 40), size)}

    facts = solvable(make, Pancakes, low, high)
    rules = (
        "Sort a row of numbers so that it ascends from left to right. The only move: FLIP K reverses the first K "
        f"numbers, for K from 2 to {size}. For example FLIP 3 makes 1 5 7 9 out of 7 5 1 9."
    )
    return puzzle_opening(rules, Pancakes, facts, slack, "FLIP 2")


# ---- tubes -----------------------------------------------------------------------------------------------------------


class Tubes(Puzzle):
    """A ball goes onto a ball of its colour or into an empty tube, until each tube holds one colour."""

    def first(self) -> Any:
        return _tuples(self.facts["tubes"])

    def options(self, position: Any) -> dict[str, Any]:
        room = self.facts["room"]
        found = {}
        for source, balls in enumerate(position):
            for target, others in enumerate(position):
                fits = balls and len(others) < room and (not others or others[-1] == balls[-1])
                if source != target and fits:
                    found[f"{source + 1} {target + 1}"] = _put(position, source, target)
        return found

    def goal(self, position: Any) -> bool:
        return all(not balls or (len(balls) == self.facts["room"] and len(set(balls)) == 1) for balls in position)

    def show(self) -> str:
        return _named_stacks(self.position, "123456789")


def draw_tubes(rng: random.Random, colours: int, room: int, empty: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        balls = shuffled(rng, rng.sample("RGBYPW", colours) * room)
        tubes = [balls[place : place + room] for place in range(0, len(balls), room)]
        return {"tubes": [*tubes, *([] for _ in range(empty))], "room": room}

    facts = solvable(make, Tubes, low, high, most=8_000)
    rules = (
        f"Numbered tubes hold coloured balls, written from bottom to top; a tube has room for {room}. 1 3 moves the "
        "top ball of tube 1 into tube 3, which must have room, and be empty or have a ball of the same colour on top. "
        f"In the end each tube must be empty or hold {room} balls of one colour."
    )
    return puzzle_opening(rules, Tubes, facts, slack, "1 3")


# ---- shunting --------------------------------------------------------------------------------------------------------


class Shunting(Puzzle):
    """Wagons come from a line in their order, may wait on dead-end sidings, and leave in the wanted order."""

    def first(self) -> Any:
        return tuple(self.facts["line"]), tuple(() for _ in range(self.facts["sidings"])), 0

    def options(self, position: Any) -> dict[str, Any]:
        line, sidings, gone = position
        wanted = self.facts["wanted"][gone]
        found: dict[str, Any] = {}
        if line:
            for number, siding in enumerate(sidings):
                after = (*sidings[:number], (*siding, line[0]), *sidings[number + 1 :])
                if len(siding) < self.facts["room"]:
                    found[f"PARK {number + 1}"] = (line[1:], after, gone)
            if line[0] == wanted:
                found["PASS"] = (line[1:], sidings, gone + 1)
        for number, siding in enumerate(sidings):
            if siding and siding[-1] == wanted:
                after = (*sidings[:number], siding[:-1], *sidings[number + 1 :])
                found[f"LEAVE {number + 1}"] = (line, after, gone + 1)
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[2] == len(self.facts["wanted"]))

    def move(self, command: str) -> str:
        told = super().move(command)
        if not self.over and not self.options(self.position):
            self.lose()
            told = "No wagon can move any more."
        return told

    def show(self) -> str:
        line, sidings, gone = self.position
        rows = "\n".join(f"Siding {number + 1}: {' '.join(cars) or '-'}" for number, cars in enumerate(sidings))
        return f"Line: {' '.join(line) or '-'}\n{rows}\nStill to leave: {' '.join(self.facts['wanted'][gone:])}"


def draw_shunting(rng: random.Random, wagons: int, sidings: int, room: int, low: int, high: int, slack: int) -> Opening:
    def make() -> dict[str, Any]:
        names = LETTERS[:wagons]
        return {"line": shuffled(rng, names), "wanted": shuffled(rng, names), "sidings": sidings, "room": room}

    facts = solvable(make, Shunting, low, high)
    rules = (
        "Wagons stand on a line; the leftmost is the first. They must leave in the wanted order. PASS lets the first "
        f"wagon of the line leave. PARK 1 moves it onto siding 1, a dead end with room for {room}, where the rightmost "
        "wagon is the last one in. LEAVE 1 lets the rightmost wagon of siding 1 leave. Only the wagon that is next in "
        "the wanted order may leave; nothing moves back to the line."
    )
    return puzzle_opening(rules, Shunting, facts, slack, "PARK 1")


GAMES = [
    game(
        "hanoi",
        draw_hanoi,
        Hanoi,
        (6, 13, 19),
        {"disks": 3, "low": 3, "high": 5, "slack": 1},
        {"disks": 4, "low": 7, "high": 11, "slack": 2},
        {"disks": 4, "low": 12, "high": 15, "slack": 3},
    ),
    game(
        "blocks",
        draw_blocks,
        Blocks,
        (6, 8, 10),
        {"blocks": 4, "low": 3, "high": 5, "slack": 1},
        {"blocks": 5, "low": 4, "high": 7, "slack": 1},
        {"blocks": 6, "low": 6, "high": 9, "slack": 1},
    ),
    game(
        "pancakes",
        draw_pancakes,
        Pancakes,
        (5, 8, 9),
        {"size": 5, "low": 3, "high": 4, "slack": 1},
        {"size": 6, "low": 4, "high": 7, "slack": 1},
        {"size": 7, "low": 6, "high": 8, "slack": 1},
    ),
    game(
        "tubes",
        draw_tubes,
        Tubes,
        (6, 10, 15),
        {"colours": 2, "room": 3, "empty": 1, "low": 3, "high": 6, "slack": 0},
        {"colours": 3, "room": 3, "empty": 1, "low": 6, "high": 9, "slack": 1},
        {"colours": 4, "room": 3, "empty": 1, "low": 9, "high": 13, "slack": 2},
    ),
    game(
        "shunting",
        draw_shunting,
        Shunting,
        (6, 12, 16),
        {"wagons": 4, "sidings": 1, "room": 3, "low": 5, "high": 6, "slack": 0},
        {"wagons": 7, "sidings": 2, "room": 3, "low": 9, "high": 12, "slack": 0},
        {"wagons": 9, "sidings": 2, "room": 4, "low": 13, "high": 16, "slack": 0},
    ),
]
