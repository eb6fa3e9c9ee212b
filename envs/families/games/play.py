"""The frame of a game: messages are counted, commands that are not allowed are told, three of them end it.

In: the facts of a task.  Out: bases for the plays of this family, and helpers to draw their openings.

- `Counted`: any game; it has a limit of messages.
- `Puzzle`: everything is seen, and a shortest way to the goal is searched when the task is drawn.
- `Duel` (in `duelling`): against an opponent.

The rules themselves are in the class of each game: how positions lead to others, what ends it, and what is shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envs.domain import Policy, rng_for
from envs.talk import Game, Opening, Reply, replay
from envs.types import Message, Task

FAULTS = 3  # so many commands that are not allowed end a game
TRIES = 3_000  # of drawing something that fits; the settings of all levels need far fewer
MAX_STATES = 60_000  # of one search
LONGEST_COMMAND = 200
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Illegal(ValueError):
    """The command is not allowed; the text goes to the model after `Not allowed: `, and never repeats its words."""


def normal(text: str) -> str:
    """A command for comparison: upper case, single spaces, no full stop at the end."""
    return " ".join(text[:LONGEST_COMMAND].upper().split()).removesuffix(".").strip()


class Counted:
    """A game with a limit of messages.  `begin` sets the first position, `move` does a command or raises `Illegal`.

    `legal` lists commands that are allowed now (all of them, or a fair sample of kinds): what a random player picks
    from.
    """

    def __init__(self, facts: Mapping[str, Any]):
        self.facts = facts
        self.value = 0.0
        self.over = False
        self.left = int(facts["limit"])
        self.faults = 0
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def move(self, command: str) -> str:
        raise NotImplementedError

    def show(self) -> str:
        """The position as the model may see it."""
        return ""

    def legal(self) -> list[str]:
        raise NotImplementedError

    def best(self) -> str:
        raise NotImplementedError

    def win(self) -> None:
        self.over, self.value = True, 1.0

    def lose(self) -> None:
        self.over = True

    def act(self, text: str) -> Reply:
        if self.over:
            return Reply("The game is over.", done=True)
        self.left -= 1
        try:
            told = self.move(normal(text))
        except Illegal as problem:
            self.faults += 1
            told = f"Not allowed: {problem}."
            self.over = self.faults >= FAULTS
        self.over = self.over or self.left <= 0
        if self.over:
            return Reply(f"{told}\nThe game is {'won' if self.value else 'lost'}.", done=True)
        return Reply("\n".join(part for part in (told, self.show(), f"Messages left: {self.left}.") if part))


class Puzzle(Counted):
    """Everything is seen.  `options` are the commands in a position and where they lead, `goal` says what is solved.

    Positions are hashable.  `facts["plan"]` is a shortest solution from the first one; off this way `best` searches.
    """

    def begin(self) -> None:
        self.position: Any = self.first()
        self.made: list[str] = []

    def first(self) -> Any:
        raise NotImplementedError

    def options(self, position: Any) -> dict[str, Any]:
        raise NotImplementedError

    def goal(self, position: Any) -> bool:
        raise NotImplementedError

    def legal(self) -> list[str]:
        return list(self.options(self.position))

    def move(self, command: str) -> str:
        options = self.options(self.position)
        if command not in options:
            raise Illegal("that is no possible move now")
        self.position = options[command]
        self.made.append(command)
        if self.goal(self.position):
            self.win()
        return ""

    def best(self) -> str:
        plan = self.facts["plan"]
        if self.made == plan[: len(self.made)] and len(self.made) < len(plan):
            return str(plan[len(self.made)])
        route = shortest(self.position, self.options, self.goal, most=MAX_STATES)
        return (route or self.legal() or ["NONE"])[0]


def shortest(
    start: Any,
    options: Callable[[Any], Mapping[str, Any]],
    goal: Callable[[Any], bool],
    deepest: int = 1_000,
    most: int = MAX_STATES,
) -> list[str] | None:
    """Fewest commands from `start` to a goal, breadth first; None where there are none, or the search is too long."""
    came_from: dict[Any, tuple[Any, str]] = {start: (start, "")}
    frontier = [start] if not goal(start) else []
    for _ in range(deepest):
        reached = []
        for position in frontier:
            for command, after in options(position).items():
                if after in came_from:
                    continue
                came_from[after] = (position, command)
                if goal(after):
                    return _way_to(after, came_from)
                reached.append(after)
        if not reached or len(came_from) > most:
            break
        frontier = reached
    return [] if goal(start) else None


def _way_to(position: Any, came_from: Mapping[Any, tuple[Any, str]]) -> list[str]:
    way: list[str] = []
    while came_from[position][1]:
        position, command = came_from[position]
        way.append(command)
    return way[::-1]


# ---- drawing ---------------------------------------------------------------------------------------------------------


def solvable(
    make: Callable[[], dict[str, Any]], play: type[Puzzle], low: int, high: int, most: int = MAX_STATES
) -> dict[str, Any]:
    """Facts from `make` whose shortest solution has from `low` to `high` moves, with that `plan`."""
    for _ in range(TRIES):
        facts = make()
        start = play({**facts, "limit": 1})
        plan = shortest(start.position, start.options, start.goal, high, most)
        if plan is not None and low <= len(plan) <= high:
            return {**facts, "plan": plan}
    raise AssertionError(f"{play.__name__}: no task of {low} to {high} moves in {TRIES} tries")


def puzzle_opening(rules: str, play: type[Puzzle], facts: Mapping[str, Any], slack: int, example: str) -> Opening:
    """The opening of a puzzle: as many messages as the shortest solution has moves, and `slack` more."""
    plan = facts["plan"]
    return opening(rules, play, {**facts, "limit": len(plan) + slack}, example, " | ".join(plan))


def opening(
    rules: str, play: type[Counted], facts: Mapping[str, Any], example: str, reference: str = "", label: int = 0
) -> Opening:
    """Rules, the first position, and what a message looks like.

    `label` is a number for a game whose rules and first position are seldom new: prompts that are the same would all
    fall to one split.
    """
    how = (
        f"Each message is one command between <answer> and </answer>, such as <answer>{example}</answer>. You have "
        f"{facts['limit']} messages. A command that is not allowed uses one up; the third such command loses."
    )
    parts = (f"Game {label}." if label else "", rules, play(facts).show(), how)
    return Opening(text="\n\n".join(part for part in parts if part), facts=facts, reference=reference)


def label_of(rng: random.Random) -> int:
    return rng.randint(1000, 99_999)


def game(
    name: str,
    draw: Callable[..., Opening],
    play: type[Counted],
    turns: tuple[int, int, int],
    easy: Mapping[str, Any],
    medium: Mapping[str, Any],
    hard: Mapping[str, Any],
) -> Game:
    """A game at three levels; `turns` are the most messages at each."""
    return Game(
        name=name,
        draw=draw,
        start=play,
        levels={"easy": easy, "medium": medium, "hard": hard},
        turns=dict(zip(("easy", "medium", "hard"), turns, strict=True)),
    )


def random_policy(play: type[Counted]) -> Policy:
    """Any of the commands that are allowed: what a game is measured against."""

    def policy(task: Task, messages: tuple[Message, ...]) -> Message:
        state = replay(play, task, messages)
        assert isinstance(state, Counted)
        command = rng_for(f"random {task.id}", len(messages)).choice(state.legal() or ["NONE"])
        return Message.of("assistant", f"<answer>{command}</answer>")

    return policy


# ---- grids -----------------------------------------------------------------------------------------------------------

Cell = tuple[int, int]  # row and column, from 0
STEPS: dict[str, Cell] = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}


def cell_name(row: int, column: int) -> str:
    """`cell_name(1, 0)` -> `"A2"`."""
    return f"{LETTERS[column]}{row + 1}"


def read_cell(text: str, rows: int, columns: int) -> Cell:
    """`read_cell("A2", 3, 3)` -> `(1, 0)`; raises `Illegal`."""
    if len(text) in (2, 3) and text[0] in LETTERS[:columns] and text[1:].isascii() and text[1:].isdigit():
        row = int(text[1:]) - 1
        if 0 <= row < rows:
            return row, LETTERS.index(text[0])
    raise Illegal(f"a cell is a letter from A to {LETTERS[columns - 1]} and a number from 1 to {rows}, such as B1")


def read_number(text: str, low: int, high: int) -> int:
    """A whole number in a range; raises `Illegal`."""
    if text.isascii() and text.isdigit() and len(text) <= 6 and low <= int(text) <= high:
        return int(text)
    raise Illegal(f"a number from {low} to {high} is needed")


def grid_text(rows: Sequence[Sequence[str]], named: bool = True) -> str:
    """Rows of cells; with the letters of columns and the numbers of rows where `named`."""
    if not named:
        return "\n".join("".join(row) for row in rows)
    head = "  " + " ".join(LETTERS[: len(rows[0])])
    return "\n".join([head, *(f"{number + 1} {' '.join(row)}" for number, row in enumerate(rows))])


def inside(cell: Cell, rows: int, columns: int) -> bool:
    return 0 <= cell[0] < rows and 0 <= cell[1] < columns


def neighbours(cell: Cell, rows: int, columns: int) -> list[Cell]:
    """The cells above, below, to the left and to the right."""
    around = [(cell[0] + step[0], cell[1] + step[1]) for step in STEPS.values()]
    return [other for other in around if inside(other, rows, columns)]


def shuffled(rng: random.Random, items: Sequence[Any]) -> list[Any]:
    return rng.sample(list(items), len(items))
