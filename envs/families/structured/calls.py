"""Requests in words as calls of functions with typed arguments.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random

from envs.families.structured.reading import Refused, read_json, same
from envs.families.structured.worlds import GOODS, NAMES, TOWNS, asked_json, show
from envs.skills import Question, Skill
from envs.types import Task

# name, parameters (name, type, whether it may be missing), what is said
_Calls = list[tuple[str, str, list[tuple[str, str]], str]]


def _functions(rng: random.Random) -> _Calls:
    """Calls with arguments drawn: name, signature, arguments as JSON text, and the request."""
    name, other = rng.sample(NAMES, 2)
    town, target = rng.sample(TOWNS, 2)
    good, minutes, price = rng.choice(GOODS), rng.choice([5, 10, 20, 45]), rng.randint(2, 90)
    number, percent, urgent = rng.randint(2, 30), rng.choice([5, 10, 15, 25]), rng.choice([True, False])
    return [
        (
            "send_mail",
            "send_mail(to: string, subject: string, urgent: boolean)",
            [("to", show(name.lower())), ("subject", show(good)), ("urgent", show(urgent))],
            f'mail {name} with subject "{good}", {"urgent" if urgent else "not urgent"}',
        ),
        (
            "set_timer",
            "set_timer(seconds: integer)",
            [("seconds", str(minutes * 60))],
            f"set a timer to {minutes} minutes",
        ),
        (
            "book_train",
            "book_train(start: string, end: string, seats: integer)",
            [("start", show(town)), ("end", show(target)), ("seats", str(number))],
            f"book {number} seats on a train to {target}, leaving from {town}",
        ),
        (
            "order",
            "order(items: array of strings, express: boolean = false)",
            [("items", show([good])), *([("express", "true")] if urgent else [])],
            f"order a {good}{', by express' if urgent else ''}",
        ),
        (
            "set_price",
            "set_price(item: string, cents: integer)",
            [("item", show(good)), ("cents", str(price * 100 + 50))],
            f"let a {good} cost {price}.50 dollars",
        ),
        (
            "discount",
            "discount(share: number from 0 to 1, customer: string or null)",
            [("share", show(percent / 100)), ("customer", show(other) if urgent else "null")],
            f"give {other if urgent else 'no customer in particular'} a discount of {percent} percent",
        ),
        (
            "invite",
            "invite(names: array of strings, table: integer)",
            [("names", show([name, other])), ("table", str(number))],
            f"invite {name} and {other} to table {number}",
        ),
    ]


def ask_function_calls(rng: random.Random, offered: int, count: int) -> Question:
    """A request in words as calls of functions with typed arguments, in order."""
    tables = [_functions(rng) for _ in range(count)]
    names = rng.sample(range(len(tables[0])), offered)
    chosen = [rng.choice(names) for _ in range(count)]
    calls, words = [], []
    for table, place in zip(tables, chosen, strict=True):
        name, _, arguments, said = table[place]
        calls.append({"name": name, "arguments": {key: read_json(value) for key, value in arguments}})
        words.append(said)
    signatures = "\n".join(tables[0][place][1] for place in sorted(names))
    request = "; then ".join(words)
    text = (
        f"Functions:\n{signatures}\n\nRequest: {request[0].upper()}{request[1:]}.\n\nWrite the calls in this order as "
        'a JSON array of objects such as {"name": "f", "arguments": {"x": 1}}. Names of people in a mail\'s "to" are '
        "in lower case. Leave out an argument that has its default value."
    )
    return asked_json(text, calls)


def judge_function_calls(answer: str, task: Task) -> float:
    """All calls in order, arguments of the right type; nothing besides."""
    try:
        return float(same(read_json(answer), task.metadata["value"]))
    except Refused:
        return 0.0


SKILLS = [
    Skill(
        name="function_calls",
        ask=ask_function_calls,
        judge=judge_function_calls,
        levels={
            "easy": {"offered": 2, "count": 1},
            "medium": {"offered": 4, "count": 3},
            "hard": {"offered": 7, "count": 7},
        },
    ),
]
