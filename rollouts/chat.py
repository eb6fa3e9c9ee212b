"""Messages to token ids and back, without ever re-tokenising what the model sampled.

In: messages of a task, sampled ids, tool replies.  Out: the exact ids that the engine sees next, and parsed
messages.  Used by `rollouts.episode` (live), `rollouts.demonstration` (cold start) and the export check.

A conversation grows only at its end: next prompt = prompt + sampled ids + `bridge(observation)`.  Text is rendered
through the tokenizer's own chat template; what a bridge or an assistant turn adds is found as the difference of two
renderings, so no template is written twice.  Where a template rewrites earlier turns (most drop old reasoning when the
user speaks again), the rewritten conversation is the prompt of a new segment.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from envs.domain import ToolSpec
from envs.tools import parse_tool_call
from envs.types import Message, ToolCall

THINK = ("<think>", "</think>")
TOOL_CALL = ("<tool_call>", "</tool_call>")
_PROBE_USER = {"role": "user", "content": "?"}
_PROBE = [_PROBE_USER, {"role": "assistant", "content": "!"}]
# Around the number of a piece of text that is kept from the template; private-use characters, and text that has them
# is kept apart as well.
_OPEN, _CLOSE = "\ue000", "\ue001"
_HIDDEN = re.compile(f"{_OPEN}(\\d+){_CLOSE}")


class ChatRenderer:
    """Renders for one tokenizer.  Stateless; safe to share between episodes.

    `rewrites_history`: whether the template renders some turn differently once it is history.

    Raises ValueError where the tokenizer lacks a chat template, a stop token or the structural tokens, or where it
    begins every text with a token that its template does not write once.
    """

    def __init__(self, tokenizer: Any, stop_ids: Sequence[int]):
        if not tokenizer.chat_template:
            raise ValueError("the model's tokenizer has no chat template: give it one before training")
        self.tokenizer = tokenizer
        self.stop_ids = tuple(stop_ids)
        self.structure = {token: self._single_id(token) for token in (*THINK, *TOOL_CALL)}
        # Some tokenizers do not count the structural tokens as special, though nobody but the model may write them.
        special = {token for token in tokenizer.all_special_tokens if token} | self.structure.keys()
        longest_first = sorted(special, key=lambda token: (-len(token), token))
        self._special_pattern = re.compile("|".join(re.escape(token) for token in [_OPEN, *longest_first]))
        self._check_beginning()
        self.rewrites_history = self._rewrites_history()

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), tier: str = "low") -> list[int]:
        """Ids of a conversation up to and including the header of the assistant's next turn."""
        return self._render([_as_dict(message) for message in messages], tools, tier, generate=True)

    def bridge_ids(self, observation: Sequence[Message]) -> list[int]:
        """Ids between a finished assistant turn (its stop token was sampled) and the next one."""
        whole = self._render([*_PROBE, *(_as_dict(message) for message in observation)], (), "low", generate=True)
        return whole[self._end_of_probe :]

    def next_prompt(
        self,
        task: Sequence[Message],
        said: Sequence[Message],
        turn_ids: Sequence[int],
        observation: Sequence[Message],
        tools: Sequence[ToolSpec],
        tier: str,
    ) -> tuple[list[int], bool]:
        """Ids of the next turn's prompt, and whether they extend `turn_ids`, the last turn's prompt and completion.

        `task`: the task's own messages; `said`: all after them but `observation`, the last being the assistant's.  The
        ids that were sampled stand, also where the same text would be tokenised otherwise, unless the template renders
        the conversation so far differently from before.
        """
        grown = [*turn_ids, *self.bridge_ids(observation)]
        if not self.rewrites_history:
            return grown, True
        rendered = self.prompt_ids([*task, *said, *observation], tools, tier)
        before = self.prompt_ids([*task, *said[:-1]], tools, tier)
        extends = rendered == before + self.assistant_ids(said[-1]) + self.bridge_ids(observation)
        return (grown, True) if extends else (rendered, False)

    def assistant_ids(self, message: Message) -> list[int]:
        """Ids that a model would have to sample to say `message`, stop token included (for demonstrations)."""
        whole = self._render([_PROBE_USER, _as_dict(message)], (), "low", generate=False)
        if whole[: len(self._header)] != self._header:
            raise ValueError("the chat template's generation prompt is no prefix of a rendered assistant turn")
        return whole[len(self._header) : self._end_of_assistant(whole)]

    @functools.cached_property
    def _header(self) -> list[int]:
        """What stands before the assistant's turn of a probe conversation."""
        return self._render([_PROBE_USER], (), "low", generate=True)

    @functools.cached_property
    def _end_of_probe(self) -> int:
        """Where a bridge begins in a rendering that starts with the probe conversation."""
        return self._end_of_assistant(self._render(_PROBE, (), "low", generate=False))

    def parse(self, completion_ids: Sequence[int]) -> Message:
        """What the model said.  Never raises: broken structure becomes a tool call with an error, or plain text."""
        ids = list(completion_ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        reasoning, ids = self._split_reasoning(ids)
        text_ids: list[int] = []
        calls: list[ToolCall] = []
        open_id, close_id = (self.structure[token] for token in TOOL_CALL)
        last_close = len(ids) - 1 - ids[::-1].index(close_id) if close_id in ids else -1
        position = 0
        while position < len(ids):
            if ids[position] != open_id:
                text_ids.append(ids[position])
                position += 1
                continue
            end = ids.index(close_id, position) if position < last_close else len(ids)
            raw = self._decode(ids[position + 1 : end])
            calls.append(
                parse_tool_call(raw) if end < len(ids) else ToolCall("", {}, raw, error="the tool call is not closed")
            )
            position = end + 1
        return Message.of("assistant", self._decode(text_ids), reasoning=reasoning, tool_calls=tuple(calls))

    def _split_reasoning(self, ids: list[int]) -> tuple[str, list[int]]:
        open_id, close_id = (self.structure[token] for token in THINK)
        if not ids or ids[0] != open_id:
            return "", ids
        end = ids.index(close_id) if close_id in ids else len(ids)
        return self._decode(ids[1:end]), ids[end + 1 :]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def _single_id(self, token: str) -> int:
        ids = self.tokenizer.encode(token, add_special_tokens=False)
        if len(ids) != 1:
            raise ValueError(f"the tokenizer has no single token for {token!r}; add it as a special token")
        return int(ids[0])

    def _end_of_assistant(self, ids: list[int]) -> int:
        """Index just after the last stop token (templates may add a newline behind it)."""
        for position in range(len(ids) - 1, -1, -1):
            if ids[position] in self.stop_ids:
                return position + 1
        raise ValueError(f"the chat template closes an assistant turn with none of the stop ids {self.stop_ids}")

    def _render(
        self, messages: list[dict[str, Any]], tools: Sequence[ToolSpec], tier: str, *, generate: bool
    ) -> list[int]:
        hidden: list[str] = []
        text = self.tokenizer.apply_chat_template(
            [self._hide_special(message, hidden) for message in messages],
            tools=[_tool_dict(tool) for tool in tools] or None,
            tokenize=False,
            add_generation_prompt=generate,
            thinking_tier=tier,
        )
        ids: list[int] = []
        for position, piece in enumerate(_HIDDEN.split(text)):
            ids += self._encode_plain(hidden[int(piece)]) if position % 2 else self._encode(piece)
        return ids

    def _hide_special(self, value: Any, hidden: list[str]) -> Any:
        """Text that spells a special token must not become one: the spelling is swapped for a numbered marker."""
        if isinstance(value, str):
            return self._special_pattern.sub(lambda match: _marker(match[0], hidden), value)
        if isinstance(value, dict):
            return {key: self._hide_special(item, hidden) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._hide_special(item, hidden) for item in value]
        return value

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False)) if text else []

    def _encode_plain(self, spelling: str) -> list[int]:
        """Encode a special token's spelling as plain text: cut after its first character it is none."""
        return self._encode(spelling[:1]) + self._encode(spelling[1:])

    def _check_beginning(self) -> None:
        """Rollout, training and whoever serves the export take the template's word for how a conversation begins."""
        bos = self.tokenizer.bos_token_id
        count = 0 if bos is None else self._header.count(bos)
        wants = bos is not None and list(self.tokenizer.encode("a"))[:1] == [bos]
        if count > 1 or (wants and count == 0):
            raise ValueError(
                f"the chat template writes {self.tokenizer.bos_token!r} {count} times, and the tokenizer begins texts "
                "with it: the template has to write it exactly once ({{ bos_token }} at its beginning)"
            )

    def _rewrites_history(self) -> bool:
        """Whether grown and rendered differ after a tool's reply or after a user's (many templates differ there)."""
        call = ToolCall("f", {}, '{"name":"f","arguments":{}}')
        first = Message.of("assistant", "b", reasoning="r", tool_calls=(call,))
        for answer in (Message.of("tool", "c", name="f"), Message.of("user", "c")):
            start = [Message.of("user", "a")]
            grown = self.prompt_ids(start) + self.assistant_ids(first) + self.bridge_ids([answer])
            if grown != self.prompt_ids([*start, first, answer]):
                return True
        return False


def _marker(text: str, hidden: list[str]) -> str:
    hidden.append(text)
    return f"{_OPEN}{len(hidden) - 1}{_CLOSE}"


def _as_dict(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        out["reasoning_content"] = message.reasoning
    if message.name:
        out["name"] = message.name
    if message.tool_calls:
        out["tool_calls"] = [
            {"raw": call.raw, "function": {"name": call.name, "arguments": dict(call.arguments)}}
            for call in message.tool_calls
        ]
    return out


def _tool_dict(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}
