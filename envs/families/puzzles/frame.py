"""Interactive logic puzzles: several commands a message, an answer with the position, and a budget of commands.

In: a puzzle's class and what it takes from a game of chuk-puzzles-gym.  Out: a `Game` (`envs.talk`).
Used by the modules of this family.

The library makes the puzzles and their solutions.  Its verdicts are not used: many compare with the one stored
solution although several are right, some look at half of the rules.  So a puzzle here is data, and its class plays it
and judges by the rules alone.  A drawn puzzle is kept only where the library's solution, played as commands, solves it.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from envs.base import EnvironmentFailure
from envs.talk import Game, Opening, Reply

LIBRARY = "chuk-puzzles-gym 0.10.3"
LICENCE = "MIT"
TURNS = 30
LEAST_BATCH = 4  # commands in a message of the gold policy
MOST_MESSAGES = 16
ATTEMPTS = 400
Facts = Mapping[str, Any]
Grid = list[list[Any]]


class Refused(Exception):
    """A command that the rules do not allow; its text tells the model why."""


class Puzzle:
    """A `Play`: the frame of commands and budgets; a subclass knows the rules.

    `facts` hold `commands` and `mistakes` (the budgets), `batch`, and what the puzzle is made of.
    """

    rules = ""
    usage = ""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.value = 0.0
        self.over = False
        self.commands_left: int = facts.get("commands", 10**6)
        self.mistakes_left: int = facts.get("mistakes", 0)
        self.num_done = 0

    # What a subclass has:

    def do(self, verb: str, words: Sequence[str]) -> None:
        """One command; raises `Refused`."""
        raise NotImplementedError

    def solved(self) -> bool:
        raise NotImplementedError

    def lost(self) -> bool:
        return False

    def show(self) -> str:
        """The position, as the model reads it."""
        raise NotImplementedError

    def plan(self) -> list[str]:
        """The commands that are left of a solution."""
        raise NotImplementedError

    def solution(self) -> list[str]:
        """Commands that solve it from the start."""
        return self.plan()

    def told(self) -> str:
        """What belongs to the rules of this very puzzle and never changes."""
        return ""

    # The frame:

    def act(self, text: str) -> Reply:
        if self.over:
            return Reply("The puzzle is over.", done=True)
        faults = []
        for command in [part.strip() for part in re.split(r"[;\n]", text) if part.strip()] or [""]:
            fault = self._try(command)
            if fault:
                faults.append(f"{command[:40]!r}: {fault}")
            if self.over:
                break
        if self.over:
            return Reply("Solved." if self.value else "The puzzle is lost.", done=True)
        return Reply("\n".join([*faults[:5], self.show(), self._budget()]))

    def _try(self, command: str) -> str:
        """One command of a message: empty, or why it was refused."""
        self.commands_left -= 1
        fault = ""
        words = command.casefold().split()
        try:
            self.do(words[0] if words else "", words[1:])
            self.num_done += 1
        except Refused as problem:
            fault = str(problem)
            self.mistakes_left -= 1
        if not fault and self.solved():
            self.value, self.over = 1.0, True
        elif self.lost() or self.mistakes_left < 0 or self.commands_left <= 0:
            self.over = True
        return fault

    def _budget(self) -> str:
        return f"Commands left: {self.commands_left}. Mistakes left: {self.mistakes_left}."

    def best(self) -> str:
        return "; ".join(self.plan()[: self.facts.get("batch", LEAST_BATCH)])

    def opening(self) -> str:
        parts = [
            self.rules,
            f"Commands: {self.usage}. Rows and columns count from 1, from the top left. Write one or several commands, "
            "separated by ;, between <answer> and </answer>. The puzzle ends as soon as it is solved, or lost when "
            "you have no commands or mistakes left. A refused command is a mistake."
            if "row" in self.usage
            else f"Commands: {self.usage}. Write one or several commands, separated by ;, between <answer> and "
            "</answer>. The puzzle ends as soon as it is solved, or lost when you have no commands or mistakes left. "
            "A refused command is a mistake.",
            self.told(),
            self.show(),
            self._budget(),
        ]
        return "\n".join(part for part in parts if part)


def numbers(words: Sequence[str], *limits: tuple[int, int]) -> list[int]:
    """As many whole numbers as there are limits, each within its own; raises `Refused`."""
    if len(words) != len(limits) or not all(re.fullmatch("[0-9]{1,4}", word) for word in words):
        raise Refused(f"{len(limits)} numbers are needed after the command")
    found = [int(word) for word in words]
    for number, (low, high) in zip(found, limits, strict=True):
        if not low <= number <= high:
            raise Refused(f"{number} is not from {low} to {high}")
    return found


def beside(row: int, column: int, height: int, width: int, diagonal: bool = False) -> list[tuple[int, int]]:
    """The cells next to a cell, up to eight of them with the diagonal ones."""
    steps = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a or b) and (diagonal or not (a and b))]
    near = [(row + a, column + b) for a, b in steps]
    return [(r, c) for r, c in near if 0 <= r < height and 0 <= c < width]


def picture(grid: Grid, empty: str = ".") -> str:
    """`picture([[1, None]])` -> `"1 ."`; columns of equal width."""
    texts = [[empty if cell is None else str(cell) for cell in row] for row in grid]
    width = max(len(text) for row in texts for text in row)
    return "\n".join(" ".join(text.rjust(width) for text in row) for row in texts)


def finish(making: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine of the library, which never waits for anything, to its end: also inside of an event loop."""
    try:
        making.send(None)
    except StopIteration:
        return
    raise AssertionError("a generator of the library waits for something")


def made(name: str, level: str, seed: int, config: Mapping[str, Any]) -> Any:
    """A game of the library."""
    try:
        from chuk_puzzles_gym.games import AVAILABLE_GAMES
    except ImportError as problem:
        raise EnvironmentFailure(f"the family puzzles needs {LIBRARY}: pip install jointrl") from problem
    game = AVAILABLE_GAMES[name](difficulty=level, seed=seed)
    for key, value in config.items():
        setattr(game.config, key, value)
        if hasattr(game, key):  # some copy it when they are made
            setattr(game, key, value)
    if name == "cryptarithmetic":
        from envs.families.puzzles.assign import only_solution

        game._verify_unique_solution = only_solution  # the library tries all permutations: up to 76 s a puzzle
    if name == "rush_hour":
        from envs.families.puzzles.moves import num_moves

        game._solve_bfs = functools.partial(num_moves, game)
    finish(game.generate_puzzle())
    return game


FactsOf = Callable[[Any, random.Random, Mapping[str, Any]], dict[str, Any] | None]


def puzzle_game(
    name: str,
    library_name: str,
    start: type[Puzzle],
    facts_of: FactsOf,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    mistakes: int = 3,
) -> Game:
    """A puzzle at the library's levels; `settings` change the library's configuration, and what `facts_of` takes."""
    levels = {level: {"level": level} for level in ("easy", "medium", "hard")}
    if settings is not None:
        levels = {level: {"level": level, **dict(more)} for level, more in settings.items()}
    draw = functools.partial(draw_puzzle, start=start, facts_of=facts_of, library_name=library_name, mistakes=mistakes)
    return Game(
        name=name,
        draw=draw,
        start=start,
        levels=levels,
        turns=TURNS,
        source=LIBRARY,
        licence=LICENCE,
        identity=(facts_of, f"{LIBRARY}/{library_name}"),
    )


def draw_puzzle(
    rng: random.Random,
    level: str,
    start: type[Puzzle],
    facts_of: FactsOf,
    library_name: str,
    mistakes: int,
    config: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Opening:
    """Games of the library until one is sound: not solved yet, and solved by its own solution without a mistake."""
    for _ in range(ATTEMPTS):
        facts = facts_of(made(library_name, level, rng.getrandbits(32), config or {}), rng, settings)
        if facts is None or start(facts).solved():
            continue
        plan = start(facts).solution()
        if not _works(start(facts), plan):
            continue
        facts["commands"] = settings.get("commands", len(plan) * 3 // 2 + 3)
        facts["mistakes"] = mistakes
        facts["batch"] = max(LEAST_BATCH, -(-len(plan) // MOST_MESSAGES))
        return Opening(text=start(facts).opening(), facts=facts, reference="; ".join(plan))
    raise EnvironmentFailure(f"{library_name}: no sound puzzle in {ATTEMPTS} attempts")


def _works(puzzle: Puzzle, plan: Sequence[str]) -> bool:
    for command in plan:
        if puzzle.over or puzzle._try(command):
            return False
    return puzzle.value == 1.0
