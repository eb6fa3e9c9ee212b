"""Tool calls: from the text that a model wrote to one tool-role reply each.

In: the raw text of a call, a domain's `ToolSpec`s and its tool functions.  Out: a parsed `ToolCall`, and an environment
that answers each call exactly once.  `parse_tool_call` is called by `rollouts.chat`, `ToolEnvironment` is built by the
families that have tools.

Whatever the model gets wrong (no JSON, unknown tool, wrong arguments, a tool that refuses) becomes a tool-role message
that begins with `error:`, and the episode goes on.  Only a bug or an outage in a tool is an `EnvironmentFailure`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from envs.base import EnvironmentFailure, StepResult
from envs.domain import ToolSpec
from envs.types import Message, Task, ToolCall

MAX_CALL_CHARACTERS = 32_768
MAX_CALL_DEPTH = 32
MAX_CALLS_PER_MESSAGE = 16
_ECHO_CHARACTERS = 60  # how much of the model's own text an error message repeats

ToolFunction = Callable[[Mapping[str, Any], Any], str]


class ToolError(Exception):
    """A tool refuses what the model asked for; the text goes to the model."""


class _Malformed(ValueError):
    """The text of a call is no tool call; the text says why."""


def make_tool_call(name: str, arguments: Mapping[str, Any]) -> ToolCall:
    """The call in its canonical spelling, for gold policies.

    Example: ``make_tool_call("calc", {"e": "2+2"}).raw == '{"name":"calc","arguments":{"e":"2+2"}}'``
    """
    raw = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False, separators=(",", ":"))
    return ToolCall(name=name, arguments=dict(arguments), raw=raw)


def parse_tool_call(raw: str) -> ToolCall:
    """Read `{"name": …, "arguments": {…}}`.  Never raises: what is wrong goes to `ToolCall.error`."""
    try:
        name, arguments = _read_call(raw)
    except _Malformed as problem:
        return ToolCall(name="", arguments={}, raw=raw, error=str(problem))
    return ToolCall(name=name, arguments=arguments, raw=raw)


def _read_call(raw: str) -> tuple[str, dict[str, Any]]:
    if len(raw) > MAX_CALL_CHARACTERS:
        raise _Malformed(f"the call has {len(raw)} characters, at most {MAX_CALL_CHARACTERS} are read")
    if _depth(raw) > MAX_CALL_DEPTH:
        raise _Malformed(f"the call is nested deeper than {MAX_CALL_DEPTH}")
    value = _read_json(raw)
    if not isinstance(value, dict):
        raise _Malformed(f"a call is a JSON object with name and arguments, got {_json_type(value)}")
    for key in ("name", "arguments"):
        if key not in value:
            raise _Malformed(f"the call has no {key!r}")
    extra = sorted(value.keys() - {"name", "arguments"})
    if extra:
        raise _Malformed(f"unexpected key {_clip(extra[0])!r}, a call has name and arguments only")
    if not isinstance(value["name"], str) or not value["name"]:
        raise _Malformed("'name' must be a non-empty string")
    if not isinstance(value["arguments"], dict):
        raise _Malformed(f"'arguments' must be an object, got {_json_type(value['arguments'])}")
    return value["name"], value["arguments"]


def _read_json(raw: str) -> Any:
    """Strict JSON: no NaN or Infinity (also not as 1e999), no duplicate keys, no lone surrogates."""
    try:
        value = json.loads(
            raw, parse_constant=_refuse_constant, parse_float=_finite_float, object_pairs_hook=_unique_keys
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except _Malformed:
        raise
    except json.JSONDecodeError as problem:
        raise _Malformed(f"not valid JSON: {problem.msg} at character {problem.pos}") from problem
    except UnicodeEncodeError as problem:
        raise _Malformed("not valid JSON: a lone surrogate is no character") from problem
    except ValueError as problem:  # an integer beyond Python's limit of digits
        raise _Malformed("not valid JSON: a number has too many digits") from problem
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise _Malformed(f"not valid JSON: {text} is no number")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Malformed("not valid JSON: a number is too large")
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _Malformed(f"duplicate key {_clip(key)!r}")
        result[key] = value
    return result


def _depth(raw: str) -> int:
    """The deepest nesting of brackets outside strings, found without recursion."""
    depth = deepest = 0
    in_string = escaped = False
    for character in raw:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _clip(text: str) -> str:
    return text if len(text) <= _ECHO_CHARACTERS else text[:_ECHO_CHARACTERS] + "…"


# ---- arguments against a schema -------------------------------------------------------------------------------------

_JSON_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_KEYWORDS = frozenset(
    {"type", "description", "enum", "properties", "required", "additionalProperties", "items"}
    | {"maxLength", "minimum", "maximum"}
)


def check_schema(schema: Mapping[str, Any], where: str = "parameters") -> None:
    """Raise ValueError where a tool's own schema uses what `check_arguments` would silently ignore."""
    unknown = sorted(set(schema) - _KEYWORDS)
    if unknown:
        raise ValueError(f"{where}: schema keyword {unknown[0]!r} is not supported (known: {sorted(_KEYWORDS)})")
    if "type" in schema and schema["type"] not in _JSON_TYPES:
        raise ValueError(f"{where}: type {schema['type']!r} is not one of {_JSON_TYPES}")
    for name, inner in schema.get("properties", {}).items():
        check_schema(inner, f"{where}.{name}")
    if "items" in schema:
        check_schema(schema["items"], f"{where}[]")


def check_arguments(spec: ToolSpec, arguments: Mapping[str, Any]) -> str:
    """What is wrong with the arguments, in words for the model; empty where nothing is."""
    return _mismatch({"type": "object", **spec.parameters}, dict(arguments), "")


def _mismatch(schema: Mapping[str, Any], value: Any, path: str) -> str:
    """The first violation in `value`; `path` is where we are, empty at the top."""
    where = f"argument {path!r}" if path else "arguments"
    if "type" in schema and not _has_type(value, schema["type"]):
        return f"{where} must be of type {schema['type']}, got {_json_type(value)}"
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        return f"{where} must be one of {json.dumps(list(schema['enum']), ensure_ascii=False)}"
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            return f"{where} has {len(value)} characters, at most {schema['maxLength']} are allowed"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            return f"{where} must lie in [{schema.get('minimum', '-inf')}, {schema.get('maximum', 'inf')}]"
    elif isinstance(value, dict):
        return _object_mismatch(schema, value, path)
    elif isinstance(value, list) and "items" in schema:
        found = (_mismatch(schema["items"], item, f"{path}[{i}]") for i, item in enumerate(value))
        return next(filter(None, found), "")
    return ""


def _object_mismatch(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> str:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"missing argument {_join(path, name)!r}"
    for name, item in value.items():
        if name in properties:
            problem = _mismatch(properties[name], item, _join(path, name))
        elif schema.get("additionalProperties", False):
            continue
        else:
            known = ", ".join(sorted(properties)) or "none"
            problem = f"unknown argument {_clip(_join(path, name))!r} (known: {known})"
        if problem:
            return problem
    return ""


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names[type(value)]


def _has_type(value: Any, wanted: str) -> bool:
    found = _json_type(value)
    if wanted == "number":
        return found in ("integer", "number")
    if wanted == "integer":  # JSON schema counts 2.0 as an integer; so do we
        return found == "integer" or (found == "number" and float(value).is_integer())
    return found == wanted


def _same(value: Any, choice: Any) -> bool:
    return _json_type(value) == _json_type(choice) and bool(value == choice)


# ---- the environment ------------------------------------------------------------------------------------------------


class ToolEnvironment:
    """An episode with tools: each call of a message gets one tool-role reply; a message without calls ends it.

    `functions` maps a tool's name to `function(arguments, state) -> text`; `make_state(task)` builds the state of one
    episode at reset.  Tools are quick, in-process functions: what can block belongs behind its own environment.
    """

    def __init__(
        self,
        task: Task,
        tools: Sequence[ToolSpec],
        functions: Mapping[str, ToolFunction],
        make_state: Callable[[Task], Any] = lambda task: None,
    ):
        self.task = task
        self._specs = {spec.name: spec for spec in tools}
        self._functions = functions
        self._make_state = make_state
        self._phase = "new"
        self.state: Any = None
        if self._specs.keys() != functions.keys():
            raise ValueError(f"tools {sorted(self._specs)} and functions {sorted(functions)} differ")
        for spec in tools:
            check_schema(spec.parameters, f"tool {spec.name}")

    async def reset(self) -> None:
        assert self._phase == "new", f"environment of {self.task.id} is single use, it is {self._phase}"
        self.state = self._make_state(self.task)
        self._phase = "open"

    async def step(self, message: Message) -> StepResult:
        assert self._phase == "open", f"environment of {self.task.id} cannot step, it is {self._phase}"
        if not message.tool_calls:
            self._phase = "done"
            return StepResult(done=True)
        return StepResult(observation=tuple(self._answer(i, call) for i, call in enumerate(message.tool_calls)))

    async def close(self) -> None:
        self._phase = "closed"
        self.state = None

    def _answer(self, position: int, call: ToolCall) -> Message:
        try:
            text = self._call(position, call)
        except ToolError as refusal:
            text = f"error: {refusal}"
        return Message.of("tool", text, name=call.name if call.name in self._specs else "")

    def _call(self, position: int, call: ToolCall) -> str:
        if position >= MAX_CALLS_PER_MESSAGE:
            raise ToolError(f"at most {MAX_CALLS_PER_MESSAGE} calls in one message")
        if call.error:
            raise ToolError(call.error)
        if call.name not in self._specs:
            raise ToolError(f"unknown tool {_clip(call.name)!r} (known: {', '.join(sorted(self._specs))})")
        problem = check_arguments(self._specs[call.name], call.arguments)
        if problem:
            raise ToolError(problem)
        try:
            return self._functions[call.name](call.arguments, self.state)
        except ToolError:
            raise
        except Exception as bug:  # not hidden: the trajectory becomes unscored and the cause is kept
            raise EnvironmentFailure(f"tool {call.name} of {self.task.id}: {type(bug).__name__}: {bug}") from bug
