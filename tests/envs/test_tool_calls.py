"""Tool calls: what parses, what is refused in which words, and one reply per call."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import EnvironmentFailure, StepResult
from envs.demonstrate import run_policy_sync
from envs.domain import ToolSpec
from envs.families.tools_toy import CALCULATOR, calculate, make_calculator, make_store
from envs.tools import (
    MAX_CALLS_PER_MESSAGE,
    ToolEnvironment,
    ToolError,
    check_arguments,
    check_schema,
    make_tool_call,
    parse_tool_call,
)
from envs.types import Message, Status, Task, ToolCall


def test_the_canonical_spelling_is_compact_and_parses_to_itself() -> None:
    call = make_tool_call("calc", {"e": "37*46"})
    assert call.raw == '{"name":"calc","arguments":{"e":"37*46"}}'
    assert parse_tool_call(call.raw) == call


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("", "not valid JSON"),
        ("{calc", "not valid JSON: Expecting property name"),
        ('{"name":"calc","arguments":{"e":"1"}} x', "Extra data"),
        ("[]", "got array"),
        ("null", "got null"),
        ('{"arguments":{}}', "no 'name'"),
        ('{"name":"calc"}', "no 'arguments'"),
        ('{"name":"","arguments":{}}', "non-empty string"),
        ('{"name":3,"arguments":{}}', "non-empty string"),
        ('{"name":"calc","arguments":"{}"}', "must be an object, got string"),
        ('{"name":"calc","arguments":{},"id":1}', "unexpected key 'id'"),
        ('{"name":"calc","arguments":{"e":NaN}}', "NaN is no number"),
        ('{"name":"calc","arguments":{"e":-Infinity}}', "-Infinity is no number"),
        ('{"name":"calc","arguments":{"e":1e999}}', "too large"),
        ('{"name":"calc","arguments":{"e":' + "9" * 5_000 + "}}", "too many digits"),
        ('{"name":"calc","arguments":{"e":1,"e":2}}', "duplicate key 'e'"),
        ('{"name":"calc","name":"x","arguments":{}}', "duplicate key 'name'"),
        ('{"name":"calc","arguments":{"e":"\\ud800"}}', "surrogate"),
        ("[" * 5_000, "nested deeper"),
        ('{"name":"calc","arguments":{"e":' + "[" * 40 + "]" * 40 + "}}", "nested deeper"),
        ("x" * 100_000, "at most"),
        ("\0", "not valid JSON"),
        ("😀", "not valid JSON"),
    ],
)
def test_a_malformed_call_says_what_is_wrong(raw: str, words: str) -> None:
    call = parse_tool_call(raw)
    assert words in call.error and call.name == "" and call.raw == raw
    assert len(call.error) < 200


def test_brackets_in_strings_are_not_depth() -> None:
    assert parse_tool_call('{"name":"a","arguments":{"e":"' + "[" * 99 + '\\"{"}}').error == ""


@given(st.text(alphabet='{}[]":,\\ename1NaI \n\x00é', max_size=60))
def test_parsing_never_raises(raw: str) -> None:
    call = parse_tool_call(raw)
    assert bool(call.error) != bool(call.name)


SPEC = ToolSpec(
    name="f",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "s": {"type": "string", "maxLength": 3},
            "n": {"type": "integer", "minimum": 0, "maximum": 9},
            "x": {"type": "number"},
            "b": {"type": "boolean"},
            "c": {"enum": ["red", "blue", 1]},
            "l": {"type": "array", "items": {"type": "integer"}},
            "o": {"type": "object", "properties": {"k": {"type": "null"}}, "required": ["k"]},
        },
        "required": ["s"],
    },
)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"s": "abc"}, ""),
        ({"s": "a", "n": 2.0, "x": 1, "b": True, "c": 1, "l": [1, 2], "o": {"k": None}}, ""),
        ({}, "missing argument 's'"),
        ({"s": 1}, "argument 's' must be of type string, got integer"),
        ({"s": "abcd"}, "has 4 characters, at most 3"),
        ({"s": "a", "z": 1}, "unknown argument 'z' (known: b, c, l, n, o, s, x)"),
        ({"s": "a", "n": True}, "must be of type integer, got boolean"),
        ({"s": "a", "n": 2.5}, "must be of type integer, got number"),
        ({"s": "a", "n": 10}, "must lie in [0, 9]"),
        ({"s": "a", "x": "1"}, "must be of type number, got string"),
        ({"s": "a", "c": True}, 'must be one of ["red", "blue", 1]'),
        ({"s": "a", "l": [1, "2"]}, "argument 'l[1]' must be of type integer, got string"),
        ({"s": "a", "o": {}}, "missing argument 'o.k'"),
        ({"s": None}, "got null"),
    ],
)
def test_arguments_are_held_to_the_schema(arguments: dict[str, Any], words: str) -> None:
    problem = check_arguments(SPEC, arguments)
    assert words in problem and bool(problem) == bool(words)


def test_a_schema_keyword_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(ValueError, match="keyword 'pattern' is not supported"):
        check_schema({"properties": {"a": {"type": "string", "pattern": "x"}}})
    with pytest.raises(ValueError, match="type 'int'"):
        check_schema({"properties": {"a": {"type": "int"}}})


# ---- the calculator --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("37*46", 1702),
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("10-3-2", 5),
        ("-5+2", -3),
        ("2*-3", -6),
        ("--7", 7),
        ("007", 7),
        (" 1 +\t2 ", 3),
        ("((((((((1))))))))", 1),
        ("999999999*999999999", 999999998000000001),
    ],
)
def test_known_values(expression: str, value: int) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "(" * 5_000,
        "(" * 60,
        "((((((((((1))))))))))",
        "9" * 10,
        "1+" * 500 + "1",
        "",
        "1+",
        "*1",
        "()",
        "(1",
        "1)",
        "1 2",
        "1/2",
        "1.5",
        "2e9",
        "__import__('os')",
        "٣+1",
        "²",
        "\0",
    ],
)
def test_hostile_expressions_are_refused_at_once(expression: str) -> None:
    start = time.perf_counter()
    with pytest.raises(ToolError):
        calculate(expression)
    assert time.perf_counter() - start < 0.05


# ---- the environment -------------------------------------------------------------------------------------------------


def _step(environment: ToolEnvironment, *raws: str) -> StepResult:
    message = Message.of("assistant", "", tool_calls=tuple(parse_tool_call(raw) for raw in raws))
    return asyncio.run(environment.step(message))


def _calculator() -> ToolEnvironment:
    domain = make_calculator()
    environment = domain.environment(domain.task(0))
    assert isinstance(environment, ToolEnvironment)
    asyncio.run(environment.reset())
    return environment


def test_every_call_gets_one_reply_and_the_episode_goes_on() -> None:
    environment = _calculator()
    result = _step(
        environment,
        '{"name":"calc","arguments":{"e":"2*3"}}',
        "{calc",
        '{"name":"cook","arguments":{}}',
        '{"name":"calc","arguments":{"e":5}}',
        '{"name":"calc","arguments":{"e":"9**9**9"}}',
    )
    assert not result.done
    assert [message.role for message in result.observation] == ["tool"] * 5
    texts = [message.text for message in result.observation]
    assert texts[0] == "6"
    assert all(text.startswith("error: ") for text in texts[1:])
    assert "unknown tool 'cook' (known: calc)" in texts[2]
    assert "must be of type string, got integer" in texts[3]
    assert [message.name for message in result.observation] == ["calc", "", "", "calc", "calc"]
    assert _step(environment, '{"name":"calc","arguments":{"e":"1+1"}}').observation[0].text == "2"
    assert asyncio.run(environment.step(Message.of("assistant", "8"))) == StepResult(done=True)


def test_too_many_calls_are_refused_one_by_one() -> None:
    result = _step(_calculator(), *['{"name":"calc","arguments":{"e":"1"}}'] * (MAX_CALLS_PER_MESSAGE + 2))
    texts = [message.text for message in result.observation]
    assert texts == ["1"] * MAX_CALLS_PER_MESSAGE + ["error: at most 16 calls in one message"] * 2


def test_a_bug_in_a_tool_is_a_failure_of_the_environment_not_of_the_model() -> None:
    def broken(arguments: Mapping[str, Any], state: Any) -> str:
        raise KeyError("bug")

    task = Task(id="t/x/train/0", domain="t/x", split="train", index=0, prompt=())
    environment = ToolEnvironment(task, (CALCULATOR,), {"calc": broken})
    asyncio.run(environment.reset())
    with pytest.raises(EnvironmentFailure, match="tool calc of t/x/train/0: KeyError: 'bug'"):
        _step(environment, '{"name":"calc","arguments":{"e":"1"}}')


def test_an_environment_is_single_use() -> None:
    environment = _calculator()
    with pytest.raises(AssertionError, match="single use"):
        asyncio.run(environment.reset())
    asyncio.run(environment.close())
    with pytest.raises(AssertionError, match="it is closed"):
        asyncio.run(environment.step(Message.of("assistant", "8")))
    with pytest.raises(ValueError, match="differ"):
        ToolEnvironment(environment.task, (CALCULATOR,), {})


# ---- the store -------------------------------------------------------------------------------------------------------

STORE = make_store()
COPY = next(task for task in map(STORE.task, range(50)) if task.metadata["target"])
GET = next(task for task in map(STORE.task, range(50)) if not task.metadata["target"])


def _say(*steps: ToolCall | str) -> Any:
    """A policy that plays the given messages in order."""

    def policy(task: Task, messages: tuple[Message, ...]) -> Message:
        step = steps[sum(message.role == "assistant" for message in messages)]
        return (
            Message.of("assistant", step) if isinstance(step, str) else Message.of("assistant", "", tool_calls=(step,))
        )

    return policy


def test_the_prompt_does_not_tell_what_the_store_holds() -> None:
    assert all(value not in task.prompt[0].text for task in (COPY, GET) for value in task.metadata["contents"].values())


def test_a_copy_that_was_only_claimed_scores_zero() -> None:
    source, target, value = COPY.metadata["source"], COPY.metadata["target"], COPY.reference
    get, put = make_tool_call("get", {"k": source}), make_tool_call("set", {"k": target, "v": value})
    wrong = make_tool_call("set", {"k": target, "v": "1"})
    table = [((get, put, value), 1.0), ((put, value), 1.0), ((get, value), 0.0), ((get, wrong, value), 0.0)]
    table += [((get, wrong, put, value), 1.0), ((get, put, wrong, value), 0.0), ((get, put, "ok"), 0.0)]
    for steps, expected in table:
        trajectory = run_policy_sync(STORE, COPY, _say(*steps))
        assert STORE.score(COPY, trajectory).value == expected, steps


def test_a_model_that_never_stops_calling_hits_the_turn_limit_and_scores_zero() -> None:
    get = make_tool_call("get", {"k": GET.metadata["source"]})
    trajectory = run_policy_sync(STORE, GET, _say(*[get] * 20))
    assert trajectory.status is Status.MAX_TURNS and len(trajectory.turns) == STORE.max_turns
    assert STORE.score(GET, trajectory).value == 0.0


def test_a_wrong_key_is_answered_and_the_model_may_go_on() -> None:
    missing, right = make_tool_call("get", {"k": "?"}), make_tool_call("get", {"k": GET.metadata["source"]})
    trajectory = run_policy_sync(STORE, GET, _say(missing, right, GET.reference))
    assert trajectory.turns[0].observation[0].text == "error: no such key"
    assert STORE.score(GET, trajectory).value == 1.0
