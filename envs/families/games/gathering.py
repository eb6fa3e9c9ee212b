"""Goods: crafting, a colony that grows, and a merchant who buys and sells.

In: a random stream and the settings of a level.  Out: openings and plays; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.games.play import Puzzle, game, puzzle_opening, solvable
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
        f"Have {facts['wanted']} food in time. Each message is one day. WORK: each worker brings {facts['yield']} "
        f"food, and {facts['bonus']} more for each mill that you have. HIRE: pay {facts['hire']} food, and have one "
        f"worker more. BUILD: pay {facts['mill']} food, and have one mill more. You cannot pay what you do not have."
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
        f"Have at least {facts['wanted']} coins in time. Your ship carries one unit of one good. BUY TEA buys a unit "
        "at the price of the port where you are, SELL sells there what you carry, SAIL and a port goes to it. Each is "
        f"one message. Prices, which never change: {prices}. Where ships sail from each port: {routes}."
    )
    return puzzle_opening(rules, Trade, facts, 0, "SELL")


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
]
