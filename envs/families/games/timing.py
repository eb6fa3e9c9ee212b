"""Against the clock: jobs with deadlines on one machine, and traffic lights.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.games.play import LETTERS, Puzzle, game, puzzle_opening
from envs.talk import Opening

# ---- jobs ------------------------------------------------------------------------------------------------------------


class Jobs(Puzzle):
    """One machine, jobs with durations, deadlines and earliest starts; none may be late."""

    def first(self) -> Any:
        return 0, frozenset()

    def options(self, position: Any) -> dict[str, Any]:
        clock, done = position
        found = {}
        for number, (release, length, _) in enumerate(self.facts["jobs"]):
            if number not in done:
                found[LETTERS[number]] = (max(clock, release) + length, done | {number})
        return found

    def goal(self, position: Any) -> bool:
        return len(position[1]) == len(self.facts["jobs"])

    def move(self, command: str) -> str:
        options = self.options(self.position)
        if command in options and options[command][0] > self.facts["jobs"][LETTERS.index(command)][2]:
            self.lose()
            return f"Job {command} was late."
        return super().move(command)

    def show(self) -> str:
        clock, done = self.position
        return (
            f"Hour {clock}. Left: {' '.join(LETTERS[job] for job in range(len(self.facts['jobs'])) if job not in done)}"
        )


def _in_time(jobs: list[list[int]], clock: int, left: tuple[int, ...]) -> list[int] | None:
    """An order in which no job is late; None where there is none."""
    if not left:
        return []
    for job in left:
        release, length, deadline = jobs[job]
        end = max(clock, release) + length
        if end <= deadline:
            rest = _in_time(jobs, end, tuple(other for other in left if other != job))
            if rest is not None:
                return [job, *rest]
    return None


def draw_jobs(rng: random.Random, jobs: int, spare: int) -> Opening:
    """Deadlines are those of a drawn order, with little to spare; going by letter or by deadline must fail."""
    while True:
        order, clock = rng.sample(range(jobs), jobs), 0
        table: list[list[int]] = [[] for _ in range(jobs)]
        for job in order:
            release, length = max(clock - rng.randint(-1, 6), 0), rng.randint(1, 6)
            clock = max(clock, release) + length
            table[job] = [release, length, clock + rng.randint(0, spare)]
        everything = tuple(range(jobs))
        by_deadline = sorted(everything, key=lambda job: table[job][2])
        found = _in_time(table, 0, everything)
        assert found is not None
        if all(_fails(table, tried) for tried in (everything, by_deadline)):
            break
    facts = {"jobs": table, "plan": [LETTERS[job] for job in found], "limit": jobs + 1}
    rows = "\n".join(
        f"{LETTERS[job]}: earliest start {release}, takes {length}, done by {deadline}"
        for job, (release, length, deadline) in enumerate(table)
    )
    rules = (
        "One machine does all jobs, one after the other, from hour 0 on. Say which job comes next. It starts at once, "
        "or at its earliest start if that is later, and the clock goes on to its end. A job that ends after its "
        f"deadline loses the game.\n{rows}"
    )
    return puzzle_opening(rules, Jobs, facts, 1, "A")


def _fails(jobs: list[list[int]], order: Any) -> bool:
    clock = 0
    for job in order:
        release, length, deadline = jobs[job]
        clock = max(clock, release) + length
        if clock > deadline:
            return True
    return False


# ---- traffic lights --------------------------------------------------------------------------------------------------


class Lanes(Puzzle):
    """Each minute one road has green; cars that are known in advance arrive, and no road may fill up."""

    def first(self) -> Any:
        return 0, tuple(self.facts["queues"])

    def options(self, position: Any) -> dict[str, Any]:
        minute, queues = position
        found = {}
        if minute < len(self.facts["arrivals"]):
            for road in range(len(queues)):
                gone = [max(cars - self.facts["flow"], 0) if one == road else cars for one, cars in enumerate(queues)]
                came = self.facts["arrivals"][minute]
                found[LETTERS[road]] = (
                    minute + 1,
                    tuple(cars + more for cars, more in zip(gone, came, strict=True)),
                )
        return found

    def is_jam(self, position: Any) -> bool:
        return max(position[1]) > self.facts["room"]

    def goal(self, position: Any) -> bool:
        return bool(position[0] == len(self.facts["arrivals"]) and not self.is_jam(position))

    def move(self, command: str) -> str:
        options = self.options(self.position)
        if command in options and self.is_jam(options[command]):
            self.lose()
            return "A road is jammed."
        return super().move(command)

    def show(self) -> str:
        minute, queues = self.position
        roads = ", ".join(f"{name} {cars}" for name, cars in zip(LETTERS, queues, strict=False))
        return f"Minute {minute}. Cars waiting: {roads}."


def draw_lanes(rng: random.Random, roads: int, minutes: int, flow: int, room: int) -> Opening:
    """About as many cars come as can go; drawn until there is a way, and always green for the longest queue fails."""
    while True:
        queues = [rng.randint(0, room) for _ in range(roads)]
        arrivals = []
        for _ in range(minutes):
            cars = [0] * roads
            for _ in range(flow):
                cars[rng.randrange(roads)] += 1
            arrivals.append(cars)
        facts: dict[str, Any] = {"queues": queues, "arrivals": arrivals, "flow": flow, "room": room}
        play = Lanes({**facts, "limit": 1})
        plan = _without_jam(play, play.position)
        if plan is not None and not _greedy_wins(play):
            break
    rows = "\n".join(
        f"minute {minute}: {', '.join(f'{name} {more}' for name, more in zip(LETTERS, came, strict=False))}"
        for minute, came in enumerate(arrivals)
    )
    rules = (
        f"You control the traffic lights of the roads {', '.join(LETTERS[:roads])}. Each minute say which road has "
        f"green: up to {flow} of its cars leave. Then the cars of this minute arrive. If a road has more than {room} "
        f"cars waiting then, you lose. You win after the last minute. What arrives:\n{rows}"
    )
    return puzzle_opening(rules, Lanes, {**facts, "plan": plan}, 1, "A")


def _without_jam(play: Lanes, position: Any) -> list[str] | None:
    """A plan by depth-first search over positions that are no jam."""
    if play.goal(position):
        return []
    for command, after in play.options(position).items():
        if not play.is_jam(after):
            rest = _without_jam(play, after)
            if rest is not None:
                return [command, *rest]
    return None


def _greedy_wins(play: Lanes) -> bool:
    position = play.position
    while play.options(position):
        queues = position[1]
        position = play.options(position)[LETTERS[queues.index(max(queues))]]
        if play.is_jam(position):
            return False
    return True


GAMES = [
    game(
        "jobs",
        draw_jobs,
        Jobs,
        (6, 8, 10),
        {"jobs": 4, "spare": 3},
        {"jobs": 6, "spare": 4},
        {"jobs": 8, "spare": 5},
    ),
    game(
        "lanes",
        draw_lanes,
        Lanes,
        (6, 9, 12),
        {"roads": 2, "minutes": 5, "flow": 2, "room": 3},
        {"roads": 3, "minutes": 7, "flow": 3, "room": 5},
        {"roads": 4, "minutes": 10, "flow": 4, "room": 6},
    ),
]
