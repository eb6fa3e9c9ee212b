"""Conversations in which every turn has one right command, or a few; a wrong one ends it, and it is worth nothing.

In: the facts of a task.  Out: a `Play` (`envs.talk`) and helpers to draw one.  Used by the games of this family.

A conversation whose course is known when it is drawn is data: the right commands of each turn, and what is said after
them (`Script`).  Where the course depends on the order in which the model asks, a game has a class of its own, built
on `Strict`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.talk import Opening, Reply

HOW = (
    "In every message, give exactly one command between <answer> and </answer>. The first wrong, needless or badly "
    "written command ends the conversation as failed. Upper and lower case do not matter."
)
FAILED = "That was not right. The conversation ends here."


def normal(command: str) -> str:
    """A command for comparison: case, white space, a full stop at the end and the order of `key=value` do not count.

    `normal("BOOK day=Monday;  name=Li.")` -> `"book day=monday; name=li"`.
    """
    text = " ".join(command.casefold().split()).removesuffix(".").strip()
    verb, _, rest = text.partition(" ")
    if "=" not in rest:
        return text
    fields = ["=".join(part.strip() for part in field.split("=")) for field in rest.split(";")]
    return f"{verb} {'; '.join(sorted(field.strip() for field in fields))}"


class Strict:
    """The frame of a play: `wanted` are the right commands now, `go` does one of them and answers."""

    def __init__(self, facts: Mapping[str, Any]):
        self.facts = facts
        self.value = 0.0
        self.over = False

    def wanted(self) -> Sequence[str]:
        raise NotImplementedError

    def go(self, command: str) -> Reply:
        raise NotImplementedError

    def act(self, text: str) -> Reply:
        given = normal(text)
        right = [] if self.over else [command for command in self.wanted() if normal(command) == given]
        if not right:
            self.over = True
            self.value = 0.0
            return Reply(FAILED, done=True)
        reply = self.go(right[0])
        if reply.done:
            self.over, self.value = True, 1.0
        return reply

    def best(self) -> str:
        return self.wanted()[0]


class Script(Strict):
    """A conversation of known course: `facts` hold `wanted` (a list of right commands a turn) and `replies`."""

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(facts)
        self.turn = 0

    def wanted(self) -> Sequence[str]:
        return self.facts["wanted"][self.turn]

    def go(self, command: str) -> Reply:
        self.turn += 1
        if self.turn == len(self.facts["wanted"]):
            return Reply("Thank you, that is all.", done=True)
        return Reply(self.facts["replies"][self.turn - 1])


def scripted(system: str, turns: Sequence[tuple[str, Sequence[str]]]) -> Opening:
    """An opening from what the user says in each turn, and the commands that are right then."""
    texts = [text for text, _ in turns]
    wanted = [list(commands) for _, commands in turns]
    return Opening(
        text=texts[0],
        system=f"{system}\n\n{HOW}",
        facts={"wanted": wanted, "replies": texts[1:]},
        reference=" | ".join(commands[0] for commands in wanted),
    )


def numbered(items: Sequence[str]) -> str:
    """`numbered(["a", "b"])` -> `"1. a\\n2. b"`."""
    return "\n".join(f"{place + 1}. {item}" for place, item in enumerate(items))


def listed(items: Sequence[str], last: str = "and") -> str:
    """`listed(["a", "b", "c"])` -> `"a, b and c"`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def say(rng: random.Random, *ways: str, **values: object) -> str:
    """One of several ways to say something."""
    return rng.choice(ways).format(**values)


NAMES = tuple(
    """Anna Boris Clara David Emma Felix Greta Henry Iris Jonas Karla Lukas Maria Nina Oscar Paula Quentin Rosa Simon
    Tessa Ursula Victor Walter Xenia Yusuf Zoe""".split()
)
SURNAMES = tuple(
    """Adler Berg Costa Duval Ekman Fischer Garcia Hansen Ito Jansen Keller Lopez Moreau Novak Olsen Petrov Quist Rossi
    Silva Tanaka Urban Vogel Weber Yilmaz Zeman""".split()
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CITIES = tuple(
    "Athens Bergen Cork Dublin Essen Florence Geneva Hamburg Istanbul Kiel Lisbon Madrid Naples Oslo Prague".split()
)
