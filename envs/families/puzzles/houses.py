"""Five houses in a row: who lives where, by clues.

In: a game of the library.  Out: facts; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from envs.families.puzzles.frame import Puzzle, Refused, numbers, puzzle_game

Settings = Mapping[str, Any]
KINDS = ("color", "nationality", "drink", "smoke", "pet")
_CLUES = (
    (r"The Norwegian lives in house (\d)", "at", "nationality"),
    (r"Milk is drunk in house (\d)", "at", "drink"),
    (r"The (\w+) lives in the (\w+) house", "same", "nationality color"),
    (r"The (\w+) drinks (\w+)", "same", "nationality drink"),
    (r"The person who smokes (\w+) owns a (\w+)", "same", "smoke pet"),
    (r"The (\w+) house is next to the (\w+) house", "next", "color color"),
)


def clue_of(text: str) -> list[Any]:
    """`clue_of("3. The Danish drinks Tea")` -> `["same", "nationality", "danish", "drink", "tea"]`."""
    text = text.split(". ", 1)[1]
    for pattern, kind, names in _CLUES:
        match = re.fullmatch(pattern, text)
        if match and kind == "at":
            return [kind, names, "norwegian" if names == "nationality" else "milk", int(match[1]) - 1]
        if match:
            one, two = names.split()
            return [kind, one, match[1].casefold(), two, match[2].casefold()]
    raise AssertionError(f"a clue of another kind: {text}")


def houses_facts(game: Any, rng: random.Random, settings: Settings) -> dict[str, Any]:
    solution = [
        {kind: str(house.get_attribute(kind)).casefold().replace(" ", "-") for kind in KINDS} for house in game.solution
    ]
    cells = [[house, kind] for house in range(len(solution)) for kind in KINDS]
    return {
        "clues": [clue_of(clue) for clue in game.clues],
        "texts": [clue.split(". ", 1)[1] for clue in game.clues],
        "given": sorted(rng.sample(cells, settings["givens"])),
        "solution": solution,
        "values": {kind: sorted(house[kind] for house in solution) for kind in KINDS},
    }


class Houses(Puzzle):
    """Several solutions may be right: any that fits all clues and what is given."""

    rules = (
        "Five houses stand in a row. Each has another color, nationality, drink, smoke and pet. Fill in all of them so "
        "that all clues hold; where the clues leave a choice, any will do. Next to: on the left or right of it."
    )
    usage = "set <house> <what> <value>, clear <house> <what>"

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.houses: list[dict[str, str]] = [{} for _ in facts["solution"]]
        for house, kind in facts["given"]:
            self.houses[house][kind] = facts["solution"][house][kind]

    def do(self, verb: str, words: Sequence[str]) -> None:
        if verb not in ("set", "clear") or len(words) != (3 if verb == "set" else 2) or words[1] not in KINDS:
            raise Refused("write set, a house, color, nationality, drink, smoke or pet, and the value; or clear")
        house, kind = numbers(words[:1], (1, len(self.houses)))[0] - 1, words[1]
        if [house, kind] in self.facts["given"]:
            raise Refused("this is given")
        if verb == "set" and words[2] not in self.facts["values"][kind]:
            raise Refused("there is no such value")
        if verb == "set" and any(other.get(kind) == words[2] for other in self.houses):
            raise Refused("a house has it already")
        self.houses[house].pop(kind, None)
        if verb == "set":
            self.houses[house][kind] = words[2]

    def solved(self) -> bool:
        if any(len(house) < len(KINDS) for house in self.houses):
            return False
        return all(self._holds(clue) for clue in self.facts["clues"])

    def _holds(self, clue: Sequence[Any]) -> bool:
        first = self._where(clue[1], clue[2])
        if clue[0] == "at":
            return first == clue[3]
        return abs(first - self._where(clue[3], clue[4])) == (clue[0] == "next")

    def _where(self, kind: str, value: str) -> int:
        return next(place for place, house in enumerate(self.houses) if house[kind] == value)

    def told(self) -> str:
        values = [f"{kind}: {', '.join(found)}" for kind, found in self.facts["values"].items()]
        return "\n".join([*values, "Clues:", *self.facts["texts"]])

    def show(self) -> str:
        rows = [" ".join(house.get(kind, "?") for kind in KINDS) for house in self.houses]
        return "\n".join(f"{place + 1}. {row}" for place, row in enumerate(rows))

    def plan(self) -> list[str]:
        return [
            f"set {place + 1} {kind} {house[kind]}"
            for place, house in enumerate(self.facts["solution"])
            for kind in KINDS
            if self.houses[place].get(kind) != house[kind]
        ]


GAMES = [
    puzzle_game(
        "five_houses",
        "einstein",
        Houses,
        houses_facts,
        {"easy": {"givens": 18}, "medium": {"givens": 8}, "hard": {"givens": 0}},
    ),
]
