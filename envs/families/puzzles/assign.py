"""Puzzles of choice: what to pack, when and by whom, which colour, which digit.

In: a game of the library.  Out: facts; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envs.families.puzzles.frame import Puzzle, Refused, numbers, puzzle_game

Settings = Mapping[str, Any]

# ---- packing ---------------------------------------------------------------------------------------------------------


def knapsack_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any] | None:
    """None where taking what is worth most a kilogram, as long as it fits, is best."""
    items = [[item.weight, item.value] for item in game.items]
    space, value = game.capacity, 0
    for weight, worth in sorted(items, key=lambda item: -item[1] / item[0]):
        if weight <= space:
            space, value = space - weight, value + worth
    if value == game.optimal_value:
        return None
    solution = [place for place, chosen in enumerate(game.optimal_selection) if chosen]
    return {"items": items, "capacity": game.capacity, "best": game.optimal_value, "solution": solution}


class Knapsack(Puzzle):
    rules = (
        "Knapsack. Choose things so that their weight is at most the capacity and their value reaches the goal, which "
        "is the highest possible one."
    )
    usage = "take <thing>, drop <thing>"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.taken: set[int] = set()

    def _sum(self, which: int) -> int:
        return sum(self.facts["items"][place][which] for place in self.taken)

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb not in ("take", "drop"):
            raise Refused("the commands are take and drop")
        place = numbers(words, (1, len(self.facts["items"])))[0] - 1
        if (verb == "drop") != (place in self.taken):
            raise Refused("nothing changes")
        if verb == "take" and self._sum(0) + self.facts["items"][place][0] > self.facts["capacity"]:
            raise Refused("it is too heavy")
        self.taken ^= {place}

    def solved(self) -> bool:
        return self._sum(1) == self.facts["best"]

    def told(self) -> str:
        rows = [f"{place + 1}. weight {w}, value {v}" for place, (w, v) in enumerate(self.facts["items"])]
        return "\n".join([f"Capacity: {self.facts['capacity']}. Goal: {self.facts['best']}.", *rows])

    def show(self) -> str:
        taken = " ".join(str(place + 1) for place in sorted(self.taken)) or "nothing"
        return f"Taken: {taken}; weight {self._sum(0)}, value {self._sum(1)}."

    def plan(self) -> list[str]:
        return [f"take {place + 1}" for place in self.facts["solution"] if place not in self.taken]


# ---- a timetable -----------------------------------------------------------------------------------------------------


def scheduler_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    solution = [[task, worker - 1, start] for task, (worker, start) in game.optimal_schedule.items()]
    return {
        "durations": [task.duration for task in game.tasks],
        "after": [list(pair) for pair in game.dependencies],
        "workers": game.num_workers,
        "limit": game.optimal_makespan,
        "solution": sorted(solution, key=lambda row: row[2]),
    }


class Scheduler(Puzzle):
    rules = (
        "Timetable. Give each task a worker and a start (from 0), so that all is finished by the limit. A worker does "
        "one task at a time. A task starts when all that come before it are finished, and those must be in the "
        "timetable already when you assign it."
    )
    usage = "assign <task> <worker> <start>, drop <task>"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.plan_of: dict[int, tuple[int, int]] = {}

    def _end(self, task: int) -> int:
        return self.plan_of[task][1] + int(self.facts["durations"][task])

    def do(self, verb: str, words: Sequence[str]) -> None:
        count = len(self.facts["durations"])
        if verb == "drop":
            task = numbers(words, (1, count))[0] - 1
            if task not in self.plan_of or any(one == task and two in self.plan_of for one, two in self.facts["after"]):
                raise Refused("it is not in the timetable, or one that comes after it is")
            del self.plan_of[task]
            return
        if verb != "assign":
            raise Refused("the commands are assign and drop")
        task, worker, start = numbers(words, (1, count), (1, self.facts["workers"]), (0, self.facts["limit"]))
        task, worker = task - 1, worker - 1
        if task in self.plan_of:
            raise Refused("drop it first")
        end = start + self.facts["durations"][task]
        if end > self.facts["limit"]:
            raise Refused(f"it would end at {end}, after the limit")
        for one, two in self.facts["after"]:
            if two == task and (one not in self.plan_of or self._end(one) > start):
                raise Refused(f"task {one + 1} must be finished before")
        for other, (who, begin) in self.plan_of.items():
            if who == worker and begin < end and start < self._end(other):
                raise Refused(f"worker {worker + 1} does task {other + 1} then")
        self.plan_of[task] = (worker, start)

    def solved(self) -> bool:
        return len(self.plan_of) == len(self.facts["durations"])

    def told(self) -> str:
        rows = []
        for task, length in enumerate(self.facts["durations"]):
            before = [str(one + 1) for one, two in self.facts["after"] if two == task]
            rows.append(f"{task + 1}. takes {length}" + (f", after {', '.join(before)}" if before else ""))
        return "\n".join([f"Workers: {self.facts['workers']}. Limit: {self.facts['limit']}. Tasks:", *rows])

    def show(self) -> str:
        rows = [f"task {t + 1}: worker {w + 1}, {s} to {self._end(t)}" for t, (w, s) in sorted(self.plan_of.items())]
        return "Timetable: " + ("; ".join(rows) or "empty") + "."

    def plan(self) -> list[str]:
        return [f"assign {t + 1} {w + 1} {s}" for t, w, s in self.facts["solution"] if t not in self.plan_of]


# ---- colours ---------------------------------------------------------------------------------------------------------


def colours_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    return {
        "colours": game.num_colors,
        "edges": sorted(list(edge) for edge in game.edges),
        "given": [[node, colour] for node, colour in sorted(game.initial_coloring.items())],
        "solution": [colour for _, colour in sorted(game.solution.items())],
    }


class Colours(Puzzle):
    usage = "colour <place> <number>, clear <place>"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.rules = (
            f"Map colours. Give each place a colour from 1 to {facts['colours']}, so that no two neighbours have the "
            "same one."
        )
        self.colours: dict[int, int] = dict(facts["given"])
        self.near: dict[int, list[int]] = {node: [] for node in range(1, len(facts["solution"]) + 1)}
        for one, other in facts["edges"]:
            self.near[one].append(other)
            self.near[other].append(one)

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb not in ("colour", "color", "clear"):
            raise Refused("the commands are colour and clear")
        limits = [(1, len(self.near)), (1, self.facts["colours"])]
        node, *colour = numbers(words, *limits[: 1 if verb == "clear" else 2])
        if any(node == given for given, _ in self.facts["given"]):
            raise Refused("this place is given")
        if colour and any(self.colours.get(near) == colour[0] for near in self.near[node]):
            raise Refused("a neighbour has this colour")
        self.colours.pop(node, None)
        if colour:
            self.colours[node] = colour[0]

    def solved(self) -> bool:
        return len(self.colours) == len(self.near)

    def told(self) -> str:
        rows = [f"{node}: {' '.join(map(str, sorted(near)))}" for node, near in self.near.items()]
        return "Neighbours:\n" + "\n".join(rows)

    def show(self) -> str:
        return "Colours: " + ", ".join(f"{node}={self.colours.get(node, '?')}" for node in self.near)

    def plan(self) -> list[str]:
        wanted = enumerate(self.facts["solution"], start=1)
        return [f"colour {node} {colour}" for node, colour in wanted if self.colours.get(node) != colour]


# ---- letters for digits ----------------------------------------------------------------------------------------------


def only_solution(
    letters: list[str], leading: set[str], operands: list[str], result_word: str
) -> dict[str, int] | None:
    """The only digits with which the sum is right; None where there are none, or several."""
    if len(letters) > 10:
        return None
    found: list[dict[str, int]] = []
    for digits in _solutions({}, 0, 0, leading, operands, result_word):
        found.append(digits)
        if len(found) > 1:
            return None
    return {letter: found[0][letter] for letter in letters} if found else None


def _solutions(
    digits: dict[str, int], place: int, carry: int, leading: set[str], operands: Sequence[str], result: str
) -> Iterator[dict[str, int]]:
    """Column by column, from the right."""
    if place == len(result):
        if carry == 0:
            yield dict(digits)
        return
    column = [word[-1 - place] for word in operands if place < len(word)]
    aim = result[-1 - place]
    fresh = next((letter for letter in [*column, aim] if letter not in digits), None)
    if fresh is not None:
        for digit in range(10):
            if digit not in digits.values() and (digit or fresh not in leading):
                yield from _solutions({**digits, fresh: digit}, place, carry, leading, operands, result)
        return
    total = carry + sum(digits[letter] for letter in column)
    if total % 10 == digits[aim]:
        yield from _solutions(digits, place + 1, total // 10, leading, operands, result)


def letters_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any] | None:
    """None where the library fell back on its one fixed sum, which has several solutions."""
    if only_solution(game.letters, game.leading_letters, game.operands, game.result_word) is None:
        return None
    return {
        "words": [*game.operands, game.result_word],
        "given": dict(sorted(game.initial_mapping.items())),
        "solution": {letter: game.letter_mapping[letter] for letter in game.letters},
    }


class Letters(Puzzle):
    rules = (
        "Letters for digits. Each letter stands for a digit, different letters for different ones, so that the sum is "
        "right. No number begins with 0."
    )
    usage = "set <letter> <digit>, clear <letter>"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.digits: dict[str, int] = {letter.casefold(): digit for letter, digit in facts["given"].items()}

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb not in ("set", "clear"):
            raise Refused("the commands are set and clear")
        letter = words[0] if words else ""
        if letter.upper() not in self.facts["solution"] or letter.upper() in self.facts["given"]:
            raise Refused("there is no such letter to set")
        digit = numbers(words[1:], *[(0, 9)] * (verb == "set"))
        if digit and any(digit[0] == other for key, other in self.digits.items() if key != letter):
            raise Refused("another letter has this digit")
        if digit == [0] and any(word[0] == letter.upper() for word in self.facts["words"]):
            raise Refused("no number begins with 0")
        self.digits.pop(letter, None)
        if digit:
            self.digits[letter] = digit[0]

    def _number(self, word: str) -> int:
        return int("".join(str(self.digits[letter]) for letter in word.casefold()))

    def solved(self) -> bool:
        if len(self.digits) < len(self.facts["solution"]):
            return False
        *operands, result = (self._number(word) for word in self.facts["words"])
        return sum(operands) == result

    def told(self) -> str:
        return "{} + {} = {}".format(*self.facts["words"])

    def show(self) -> str:
        letters = ((letter, self.digits.get(letter.casefold(), "?")) for letter in self.facts["solution"])
        return "Digits: " + ", ".join(f"{letter}={digit}" for letter, digit in letters)

    def plan(self) -> list[str]:
        wanted = self.facts["solution"].items()
        return [f"set {letter} {digit}" for letter, digit in wanted if self.digits.get(letter.casefold()) != digit]


GAMES = [
    puzzle_game("knapsack", "knapsack", Knapsack, knapsack_facts, mistakes=1),
    puzzle_game("timetable", "scheduler", Scheduler, scheduler_facts, mistakes=2),
    puzzle_game("map_colours", "graph_coloring", Colours, colours_facts, mistakes=1),
    puzzle_game("letters_for_digits", "cryptarithmetic", Letters, letters_facts, mistakes=1),
]
