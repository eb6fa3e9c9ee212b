"""Time and goods: crafting, a colony that grows, goods bought and sold, jobs with deadlines, traffic lights.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.games.play import LETTERS, Puzzle, game, puzzle_opening, solvable
from envs.talk import Opening

# ---- crafting --------------------------------------------------------------------------------------------------------

RAW = "WOOD STONE CLAY SAND WOOL ORE WATER GRAIN REED".split()
MADE = "PLANK BRICK GLASS ROPE IRON FLOUR CLOTH BREAD TOOL WHEEL CART HOUSE SHIP BELL LAMP DRUM".split()


class Crafting(Puzzle):
    """Raw goods are gathered one at a time, and recipes turn goods into others, until the wanted one is there."""

    def first(self) -> Any:
        return tuple(sorted(self.facts["held"].items()))

    def options(self, position: Any) -> dict[str, Any]:
        held = dict(position)
        found = {}
        for name in self.facts["raw"]:
            if sum(held.values()) < self.facts["room"]:
                found[f"GATHER {name}"] = self.with_(held, name)
        for name, needs in self.facts["recipes"].items():
            if all(held.get(need, 0) >= amount for need, amount in needs.items()):
                rest = {need: amount - needs.get(need, 0) for need, amount in held.items()}
                found[f"MAKE {name}"] = self.with_(rest, name)
        return found

    def with_(self, held: dict[str, int], name: str) -> Any:
        after = {**held, name: held.get(name, 0) + 1}
        return tuple(sorted((one, amount) for one, amount in after.items() if amount))

    def goal(self, position: Any) -> bool:
        return self.facts["wanted"] in dict(position)

    def show(self) -> str:
        return f"You have: {', '.join(f'{amount} {name}' for name, amount in self.position) or 'nothing'}"


def draw_crafting(rng: random.Random, raw: int, made: int, room: int, low: int, high: int) -> Opening:
    """Each product needs two or three goods, of those that come before it; the last one is wanted."""

    def make() -> dict[str, Any]:
        sources, products = rng.sample(RAW, raw), rng.sample(MADE, made)
        recipes: dict[str, dict[str, int]] = {}
        for place, product in enumerate(products):
            pool = [*sources, *products[:place], *products[max(place - 1, 0) : place]]
            needs: dict[str, int] = {}
            for _ in range(rng.randint(2, 3)):
                need = rng.choice(pool)
                needs[need] = needs.get(need, 0) + 1
            recipes[product] = needs
        held = {rng.choice(sources): rng.randint(1, 2)} if rng.random() < 0.5 else {}
        return {"raw": sources, "recipes": recipes, "held": held, "room": room, "wanted": products[-1]}

    facts = solvable(make, Crafting, low, high, most=4_000)
    recipes = "; ".join(
        f"{name} from {' + '.join(f'{amount} {need}' for need, amount in needs.items())}"
        for name, needs in facts["recipes"].items()
    )
    name = facts["raw"][0]
    rules = (
        f"Make a {facts['wanted']}. GATHER {name} gives you 1 {name}; you can gather {', '.join(facts['raw'])}. MAKE "
        f"turns goods that you have into another one, and uses them up: {recipes}. You can gather only while you hold "
        f"less than {room} things in all."
    )
    return puzzle_opening(rules, Crafting, facts, 0, f"GATHER {name}")


# ---- colony ----------------------------------------------------------------------------------------------------------


class Colony(Puzzle):
    """Each day a command; workers bring food, new workers and mills cost it; so much food is wanted soon."""

    def first(self) -> Any:
        return self.facts["food"], self.facts["workers"], 0

    def options(self, position: Any) -> dict[str, Any]:
        food, workers, mills = position
        harvest = workers * (self.facts["yield"] + mills * self.facts["bonus"])
        found = {"WORK": (food + harvest, workers, mills)}
        if food >= self.facts["hire"]:
            found["HIRE"] = (food - self.facts["hire"], workers + 1, mills)
        if food >= self.facts["mill"]:
            found["BUILD"] = (food - self.facts["mill"], workers, mills + 1)
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[0] >= self.facts["wanted"])

    def show(self) -> str:
        food, workers, mills = self.position
        return f"Food {food}, workers {workers}, mills {mills}."


def draw_colony(rng: random.Random, low: int, high: int) -> Opening:
    """Just as many days as the best plan takes; working all the time must not be a best plan."""

    def make() -> dict[str, Any]:
        facts: dict[str, Any] = {
            "food": rng.randint(2, 8),
            "workers": rng.randint(1, 2),
            "yield": rng.randint(2, 4),
            "bonus": rng.randint(1, 3),
            "hire": rng.randint(4, 10),
            "mill": rng.randint(4, 12),
        }
        return {**facts, "wanted": rng.randint(10, 12 * high)}

    while True:
        facts = solvable(make, Colony, low, high, most=8_000)
        if {"HIRE", "BUILD"} & set(facts["plan"]) and facts["plan"].count("WORK") > 1:
            break
    rules = (
        f"Have {facts['wanted']} food in time. Each message is one day. WORK: each worker brings {facts['yield']} food, "
        f"and {facts['bonus']} more for each mill that you have. HIRE: pay {facts['hire']} food, and have one worker "
        f"more. BUILD: pay {facts['mill']} food, and have one mill more. You cannot pay what you do not have."
    )
    return puzzle_opening(rules, Colony, facts, 0, "WORK")


# ---- trade -----------------------------------------------------------------------------------------------------------


class Trade(Puzzle):
    """A merchant sails from port to port; every port has its prices, and the hold is small."""

    def first(self) -> Any:
        return self.facts["port"], self.facts["money"], ""

    def options(self, position: Any) -> dict[str, Any]:
        port, money, cargo = position
        prices = self.facts["prices"][port]
        found: dict[str, Any] = {}
        for other in self.facts["routes"][port]:
            found[f"SAIL {other}"] = (other, money, cargo)
        for good, price in prices.items():
            if not cargo and price <= money:
                found[f"BUY {good}"] = (port, money - price, good)
        if cargo:
            found["SELL"] = (port, money + prices[cargo], "")
        return found

    def goal(self, position: Any) -> bool:
        return bool(position[1] >= self.facts["wanted"])

    def show(self) -> str:
        port, money, cargo = self.position
        return f"You are in {port}, have {money} coins, and carry {f'1 {cargo}' if cargo else 'nothing'}."


PORTS = "ARDEN BRISK COVE DELTA ELM FJORD".split()
GOODS = "TEA SILK SALT WINE".split()


def draw_trade(rng: random.Random, ports: int, goods: int, low: int, high: int) -> Opening:
    def make() -> dict[str, Any]:
        names, wares = PORTS[:ports], GOODS[:goods]
        routes: dict[str, list[str]] = {name: [] for name in names}
        for place in range(1, ports):
            other = rng.choice(names[:place])
            routes[names[place]].append(other)
            routes[other].append(names[place])
        if ports > 3:
            one, other = rng.sample(names, 2)
            if other not in routes[one]:
                routes[one].append(other)
                routes[other].append(one)
        prices = {name: {ware: rng.randint(2, 20) for ware in wares} for name in names}
        return {
            "routes": {name: sorted(ways) for name, ways in routes.items()},
            "prices": prices,
            "port": rng.choice(names),
            "money": rng.randint(6, 12),
            "wanted": rng.randint(14, 16 + 5 * high),
        }

    facts = solvable(make, Trade, low, high, most=8_000)
    prices = "; ".join(
        f"{name}: {', '.join(f'{good} {price}' for good, price in cells.items())}"
        for name, cells in facts["prices"].items()
    )
    routes = "; ".join(f"{name}: {', '.join(ways)}" for name, ways in facts["routes"].items())
    rules = (
        f"Have at least {facts['wanted']} coins in time. Your ship carries one unit of one good. BUY TEA buys a unit at "
        "the price of the port where you are, SELL sells there what you carry, SAIL and a port goes to it. Each is one "
        f"message. Prices, which never change: {prices}. Where ships sail from each port: {routes}."
    )
    return puzzle_opening(rules, Trade, facts, 0, "SELL")


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

    def legal(self) -> list[str]:
        return list(self.options(self.position))

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
        "crafting",
        draw_crafting,
        Crafting,
        (6, 10, 16),
        {"raw": 2, "made": 2, "room": 4, "low": 4, "high": 6},
        {"raw": 3, "made": 3, "room": 6, "low": 7, "high": 10},
        {"raw": 4, "made": 5, "room": 8, "low": 10, "high": 14},
    ),
    game(
        "colony",
        draw_colony,
        Colony,
        (6, 9, 12),
        {"low": 4, "high": 6},
        {"low": 7, "high": 9},
        {"low": 10, "high": 12},
    ),
    game(
        "trade",
        draw_trade,
        Trade,
        (6, 10, 14),
        {"ports": 3, "goods": 2, "low": 4, "high": 6},
        {"ports": 4, "goods": 3, "low": 7, "high": 10},
        {"ports": 5, "goods": 4, "low": 10, "high": 14},
    ),
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
