"""Toy tool use: a calculator and a small key-value store, two or three turns each.

In: an index.  Out: tasks with tools, scored by the final text (and, for `copy`, by what the calls did).
Listed in `envs.families` as family `tools`.  Argument names are one letter: characters are the toy model's tokens.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping
from typing import Any

from envs.domain import Domain, Draft, Family, ToolSpec, rng_for
from envs.identity import code_id
from envs.questions import LICENCE, PROJECT, exact_score, final_answer
from envs.tools import ToolEnvironment, ToolError, check_arguments, make_tool_call
from envs.types import Message, Status, Task, Trajectory
from rewards.score import Score, scored

# ---- calculator -----------------------------------------------------------------------------------------------------

MAX_EXPRESSION = 64
MAX_DIGITS = 9
MAX_PARENTHESES = 8
_TOKEN = re.compile(r"\s*(?:([0-9]+)|([-+*()]))")

CALCULATOR = ToolSpec(
    name="calc",
    description="Computes e.",
    parameters={"type": "object", "properties": {"e": {"type": "string"}}, "required": ["e"]},
)


def calculate(expression: str) -> int:
    """The value of integers, + - * and parentheses; ToolError for anything else or anything long.

    Both bounds on the length keep every intermediate below ten thousand digits, so that no input is slow.
    """
    if len(expression) > MAX_EXPRESSION:
        raise ToolError(f"expression has {len(expression)} characters, at most {MAX_EXPRESSION} are read")
    tokens = _tokens(expression)
    value, position = _sum(tokens, 0, 0)
    if position != len(tokens):
        raise ToolError(f"unexpected {tokens[position]!r}")
    return value


def _tokens(expression: str) -> list[str]:
    tokens, position, text = [], 0, expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ToolError(f"unexpected {text[position:].lstrip()[:1]!r}, only integers, + - * and ( ) are read")
        token = match[1] or match[2]
        if len(token) > MAX_DIGITS:
            raise ToolError(f"a number has {len(token)} digits, at most {MAX_DIGITS} are read")
        tokens.append(token)
        position = match.end()
    return tokens


def _sum(tokens: list[str], position: int, depth: int) -> tuple[int, int]:
    value, position = _product(tokens, position, depth)
    while position < len(tokens) and tokens[position] in "+-":
        right, after = _product(tokens, position + 1, depth)
        value = value + right if tokens[position] == "+" else value - right
        position = after
    return value, position


def _product(tokens: list[str], position: int, depth: int) -> tuple[int, int]:
    value, position = _factor(tokens, position, depth)
    while position < len(tokens) and tokens[position] == "*":
        right, position = _factor(tokens, position + 1, depth)
        value *= right
    return value, position


def _factor(tokens: list[str], position: int, depth: int) -> tuple[int, int]:
    negative = False
    while position < len(tokens) and tokens[position] == "-":
        negative, position = not negative, position + 1
    if position == len(tokens):
        raise ToolError("the expression ends too early")
    token = tokens[position]
    if token == "(":
        if depth == MAX_PARENTHESES:
            raise ToolError(f"more than {MAX_PARENTHESES} nested parentheses")
        value, position = _sum(tokens, position + 1, depth + 1)
        if position == len(tokens) or tokens[position] != ")":
            raise ToolError("a parenthesis is not closed")
    elif token.isdigit():
        value = int(token)
    else:
        raise ToolError(f"unexpected {token!r}")
    return (-value if negative else value), position + 1


def make_calculator(name: str = "tools/calculator", *, low: int = 10, high: int = 99, operators: str = "+-*") -> Domain:
    """`use calc: 37*46` -> call calc with `37*46`, read `1702`, answer `1702`.  A right guess counts as well."""

    def generate(index: int) -> Draft:
        rng = rng_for(name, index)
        expression = f"{rng.randint(low, high)}{rng.choice(operators)}{rng.randint(low, high)}"
        return Draft(
            prompt=(Message.of("user", f"use calc: {expression}"),),
            reference=str(calculate(expression)),
            metadata={"expression": expression},
        )

    return Domain(
        name=name,
        family="tools",
        generate=generate,
        score=exact_score,
        gold=_calculator_gold,
        environment=lambda task: ToolEnvironment(task, (CALCULATOR,), {"calc": _calc}),
        tools=(CALCULATOR,),
        max_turns=4,
        generator_id=code_id(generate, _calc),
        verifier_id=code_id(exact_score),
        source=PROJECT,
        licence=LICENCE,
        knobs={"low": low, "high": high, "operators": operators},
    )


def _calc(arguments: Mapping[str, Any], state: None) -> str:
    return str(calculate(arguments["e"]))


def _calculator_gold(task: Task, messages: tuple[Message, ...]) -> Message:
    if not messages:
        return Message.of("assistant", "", tool_calls=(make_tool_call("calc", {"e": task.metadata["expression"]}),))
    return Message.of("assistant", messages[-1].text)


# ---- store ----------------------------------------------------------------------------------------------------------

GET = ToolSpec(
    name="get",
    description="Value of k.",
    parameters={"type": "object", "properties": {"k": {"type": "string", "maxLength": 16}}, "required": ["k"]},
)
SET = ToolSpec(
    name="set",
    description="Puts v at k.",
    parameters={
        "type": "object",
        "properties": {"k": {"type": "string", "maxLength": 16}, "v": {"type": "string", "maxLength": 16}},
        "required": ["k", "v"],
    },
)


def make_store(
    name: str = "tools/store", *, keys: int = 3, key_size: int = 3, copies: float = 0.5, digits: int = 3
) -> Domain:
    """`get kap` -> call get, answer its value; `copy kap to muz` -> get, set, answer the value.

    What the store holds is not in the prompt.  A copy scores only where the calls really left the value at the new key.
    """

    def generate(index: int) -> Draft:
        rng = rng_for(name, index)
        contents = {_key(rng, key_size): str(rng.randint(10 ** (digits - 1), 10**digits - 1)) for _ in range(keys)}
        source = rng.choice(sorted(contents))
        target = _fresh_key(rng, key_size, contents) if rng.random() < copies else ""
        question = f"copy {source} to {target}" if target else f"get {source}"
        return Draft(
            prompt=(Message.of("user", question),),
            reference=contents[source],
            metadata={"contents": contents, "source": source, "target": target},
        )

    return Domain(
        name=name,
        family="tools",
        generate=generate,
        score=_store_score,
        gold=_store_gold,
        environment=_store_environment,
        tools=(GET, SET),
        max_turns=6,
        generator_id=code_id(generate, _store_environment),
        verifier_id=code_id(_store_score),
        source=PROJECT,
        licence=LICENCE,
        knobs={"keys": keys, "key_size": key_size, "copies": copies, "digits": digits},
    )


def _key(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=size))


def _fresh_key(rng: random.Random, size: int, taken: Mapping[str, str]) -> str:
    key = _key(rng, size)
    while key in taken:
        key = _key(rng, size)
    return key


def _store_environment(task: Task) -> ToolEnvironment:
    return ToolEnvironment(task, (GET, SET), STORE_FUNCTIONS, lambda task: dict(task.metadata["contents"]))


def _get(arguments: Mapping[str, Any], state: dict[str, str]) -> str:
    if arguments["k"] not in state:
        raise ToolError("no such key")
    return state[arguments["k"]]


def _set(arguments: Mapping[str, Any], state: dict[str, str]) -> str:
    state[arguments["k"]] = arguments["v"]
    return "ok"


STORE_FUNCTIONS = {"get": _get, "set": _set}


def _store_gold(task: Task, messages: tuple[Message, ...]) -> Message:
    replies = [message for message in messages if message.role == "tool"]
    if not replies:
        return Message.of("assistant", "", tool_calls=(make_tool_call("get", {"k": task.metadata["source"]}),))
    value, target = replies[0].text, task.metadata["target"]
    if target and len(replies) == 1:
        return Message.of("assistant", "", tool_calls=(make_tool_call("set", {"k": target, "v": value}),))
    return Message.of("assistant", value)


def _store_score(task: Task, trajectory: Trajectory) -> Score:
    if trajectory.status is Status.FAILED:
        return exact_score(task, trajectory)
    answered = final_answer(trajectory) == task.reference
    target = task.metadata["target"]
    stored = not target or _replay(task, trajectory).get(target) == task.reference
    return scored(float(answered and stored), parts={"answer": float(answered), "stored": float(stored)})


def _replay(task: Task, trajectory: Trajectory) -> dict[str, str]:
    """The store after the trajectory's calls: the verdict needs no state beyond what was recorded."""
    contents = dict(task.metadata["contents"])
    for turn in trajectory.turns:
        for call, reply in zip(turn.message.tool_calls, turn.observation, strict=False):
            if call.name == "set" and reply.text == "ok" and not check_arguments(SET, call.arguments):
                contents[call.arguments["k"]] = call.arguments["v"]
    return contents


def domains() -> list[Domain]:
    return [
        make_calculator(),
        make_store(),
        make_calculator("tools/calculator-easy", low=0, high=9),
        make_store("tools/store-easy", keys=2, key_size=2, copies=0.0, digits=1),
    ]


FAMILY = Family(
    name="tools",
    domains=domains,
    about=(
        "Toy tools for the small policy of `experiment=toy`: a calculator and a key-value store, called with JSON "
        "arguments, then a final answer. The whole history of calls and results is kept in the prompt. Scored by the "
        "final answer; an unknown tool, arguments that break the schema and unparseable calls are answered by an error "
        "that says what was wrong, and cost a turn."
    ),
)
