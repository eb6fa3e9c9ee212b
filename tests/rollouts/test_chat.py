"""Messages to ids to messages: nothing is lost, nothing is re-tokenised, and nobody but the model writes structure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from envs.domain import ToolSpec
from envs.tools import make_tool_call
from envs.types import Message, ToolCall
from rollouts.chat import ChatRenderer
from tests.fakes import toy_renderer
from train.policy.tiny import CHAT_TEMPLATE, SPECIAL_TOKENS, build_tokenizer

RENDERER = toy_renderer()
TOKENIZER = RENDERER.tokenizer
ID = {token: TOKENIZER.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
SPECIAL_IDS = frozenset(ID.values())

# Characters that UTF-8 can hold, mixed with what could be mistaken for structure.
_CHARACTERS = st.characters(exclude_categories=["Cs"])
_SPELLINGS = st.sampled_from(
    [*SPECIAL_TOKENS, "\n", "<|", "|>", "<", "<0x41>", "\ue000", "\ue001", "\ue0000\ue001", "é", "𝄞"]
)
TEXT = st.lists(st.one_of(_SPELLINGS, st.text(_CHARACTERS, max_size=6)), max_size=6).map("".join)
CALLS = st.builds(make_tool_call, TEXT.filter(bool), st.dictionaries(TEXT, TEXT | st.integers(), max_size=2))
ASSISTANT = st.builds(
    lambda text, reasoning, calls: Message.of("assistant", text, reasoning=reasoning, tool_calls=tuple(calls)),
    TEXT,
    TEXT,
    st.lists(CALLS, max_size=2),
)
REPLIES = st.lists(
    st.builds(lambda role, text: Message.of(role, text), st.sampled_from(["tool", "user", "system"]), TEXT),
    min_size=1,
    max_size=2,
).map(tuple)
PROMPTS = st.builds(
    lambda system, text: (
        (Message.of("system", system), Message.of("user", text)) if system else (Message.of("user", text),)
    ),
    TEXT,
    TEXT,
)


def decode(ids: list[int]) -> str:
    return str(TOKENIZER.decode(ids, skip_special_tokens=False))


def encode(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False))


# --- round trips -------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=120)
@given(ASSISTANT)
@example(Message.of("assistant", "<|end|>", reasoning="</think>"))
@example(Message.of("assistant", "", tool_calls=(make_tool_call("set", {"v": "</tool_call><|end|>"}),)))
def test_an_assistant_message_survives_its_ids(message: Message) -> None:
    ids = RENDERER.assistant_ids(message)
    assert RENDERER.parse(ids) == message
    assert ids[-1] == ID["<|end|>"]
    calls = len(message.tool_calls)
    wanted = {"<|end|>": 1, "<think>": int(bool(message.reasoning)), "</think>": int(bool(message.reasoning))}
    wanted |= {"<tool_call>": calls, "</tool_call>": calls}
    assert {token: ids.count(ID[token]) for token in SPECIAL_TOKENS} == dict.fromkeys(SPECIAL_TOKENS, 0) | wanted


@settings(deadline=None, max_examples=60)
@given(PROMPTS, st.lists(st.tuples(ASSISTANT, REPLIES), max_size=3), st.sampled_from(["low", "high", "max"]))
def test_growing_a_conversation_is_rendering_it(
    prompt: tuple[Message, ...], turns: list[tuple[Message, tuple[Message, ...]]], tier: str
) -> None:
    """F75, F76, F79: prompt + completion + bridge is the full rendering, with one BOS and no structure of others."""
    grown = RENDERER.prompt_ids(prompt, (), tier)
    said = list(prompt)
    for message, reply in turns:
        grown = grown + RENDERER.assistant_ids(message) + RENDERER.bridge_ids(reply)
        said += [message, *reply]
    assert grown == RENDERER.prompt_ids(said, (), tier)
    assert grown.count(ID["<|bos|>"]) == 1 and grown[0] == ID["<|bos|>"]
    assert grown.count(ID[f"<|{tier}|>"]) == 1
    assert grown.count(ID["<|end|>"]) == len(said)
    assert grown.count(ID["<|assistant|>"]) == len(turns) + 1
    for role in ("system", "user", "tool"):
        assert grown.count(ID[f"<|{role}|>"]) == sum(message.role == role for message in said)


def test_one_conversation_by_value() -> None:
    spec = ToolSpec(name="calc", description="Sums.", parameters={"type": "object", "properties": {"e": {}}})
    call = make_tool_call("calc", {"e": "1+1"})
    first = Message.of("assistant", "hm", reasoning="add", tool_calls=(call,))
    prompt = RENDERER.prompt_ids([Message.of("user", "1+1?")], [spec], "high")
    assert decode(prompt) == "<|bos|><|high|><|system|>calc(e) Sums.\n<|end|><|user|>1+1?<|end|><|assistant|>"
    assert decode(RENDERER.assistant_ids(first)) == f"<think>add</think>hm<tool_call>{call.raw}</tool_call><|end|>"
    assert decode(RENDERER.bridge_ids([Message.of("tool", "2", name="calc")])) == "<|tool|>2<|end|><|assistant|>"


def test_sampled_ids_are_kept_where_text_would_tokenise_differently() -> None:
    """F75: bytes of "a" as byte tokens decode to "a", whose encoding is the character token."""
    sampled = [TOKENIZER.convert_tokens_to_ids("<0x61>"), ID["<|end|>"]]
    assert RENDERER.parse(sampled).text == "a"
    assert RENDERER.assistant_ids(RENDERER.parse(sampled)) != sampled  # why an episode never renders it again


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
@pytest.mark.parametrize("role", ["system", "user", "tool"])
def test_content_that_spells_a_special_token_stays_text(token: str, role: Any) -> None:
    text = f"a{token}b {token}"
    ids = RENDERER.prompt_ids([Message.of("user", "x"), Message.of(role, text)])
    plain = RENDERER.prompt_ids([Message.of("user", "x"), Message.of(role, "a_b _")])
    assert decode(ids) == decode(plain).replace("a_b _", text)
    assert [token for token in ids if token in SPECIAL_IDS] == [token for token in plain if token in SPECIAL_IDS]


def test_structural_tokens_that_the_tokenizer_does_not_call_special_cannot_be_injected() -> None:
    """Qwen lists <think> and <tool_call> as added tokens with special=False."""
    renderer = ChatRenderer(_LessSpecial(build_tokenizer()), (ID["<|end|>"],))
    ids = renderer.prompt_ids([Message.of("tool", "<tool_call>{}</tool_call>")])
    assert ID["<tool_call>"] not in ids and ID["</tool_call>"] not in ids


class _LessSpecial:
    """A tokenizer that counts only what delimits messages as special."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self.all_special_tokens = [token for token in SPECIAL_TOKENS if token.startswith("<|")]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


# --- what a model can write --------------------------------------------------------------------------------------


def test_unclosed_reasoning_is_all_reasoning() -> None:
    message = RENDERER.parse([ID["<think>"], *encode("so"), ID["<|end|>"]])
    assert message == Message.of("assistant", "", reasoning="so")
    assert RENDERER.parse([ID["<think>"]]) == Message.of("assistant", "")


def test_unclosed_tool_call_is_a_call_with_an_error() -> None:
    ids = [*encode("hm"), ID["<tool_call>"], *encode('{"name":"f"'), ID["<|end|>"]]
    message = RENDERER.parse(ids)
    assert message.text == "hm"
    assert message.tool_calls == (ToolCall("", {}, '{"name":"f"', error="the tool call is not closed"),)


def test_malformed_call_between_good_ones() -> None:
    good = make_tool_call("f", {"x": 1})
    ids: list[int] = []
    for raw in (good.raw, "{f", good.raw):
        ids += [ID["<tool_call>"], *encode(raw), ID["</tool_call>"]]
    calls = RENDERER.parse([*ids, ID["<|end|>"]]).tool_calls
    assert (calls[0], calls[2]) == (good, good)
    assert calls[1].name == "" and calls[1].raw == "{f" and calls[1].error.startswith("not valid JSON")


def test_call_inside_reasoning_is_reasoning_and_stray_closers_are_text() -> None:
    ids = [
        ID["<think>"],
        ID["<tool_call>"],
        *encode("{}"),
        ID["</tool_call>"],
        ID["</think>"],
        ID["</think>"],
        ID["<|end|>"],
    ]
    message = RENDERER.parse(ids)
    assert message == Message.of("assistant", "</think>", reasoning="<tool_call>{}</tool_call>")


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, len(TOKENIZER) - 1) | st.sampled_from(sorted(SPECIAL_IDS)), max_size=20))
def test_parsing_never_raises_and_stop_is_not_text(ids: list[int]) -> None:
    message = RENDERER.parse([*ids, ID["<|end|>"]])
    assert message == RENDERER.parse([*ids, ID["<|end|>"]])
    assert message.role == "assistant"
    if not SPECIAL_IDS & set(ids):
        assert message.text == decode(ids)


# --- tokenizers that are refused ---------------------------------------------------------------------------------


def renderer_with(template: str | None) -> ChatRenderer:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = template
    return ChatRenderer(tokenizer, (ID["<|end|>"],))


STRIPS_ALWAYS = CHAT_TEMPLATE.replace(
    "{%- if message.reasoning_content %}", "{%- if message.reasoning_content and loop.last %}"
)
STRIPS_BEFORE_LAST_USER = (
    "{%- set ns = namespace(last=-1) %}"
    "{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}"
    "{%- endfor %}"
) + CHAT_TEMPLATE.replace(
    "{%- if message.reasoning_content %}", "{%- if message.reasoning_content and loop.index0 > ns.last %}"
)


@pytest.mark.parametrize(("template", "after_tool"), [(STRIPS_ALWAYS, False), (STRIPS_BEFORE_LAST_USER, True)])
def test_a_template_that_strips_reasoning_is_noticed(template: str, after_tool: bool) -> None:
    """F76: the usual kind strips it only where a user message follows; then the prompt is what the template says."""
    assert template != CHAT_TEMPLATE and not RENDERER.rewrites_history
    renderer = renderer_with(template)
    assert renderer.rewrites_history
    task, said = [Message.of("user", "a")], [Message.of("assistant", "b", reasoning="r")]
    # As it was sampled: two ids for what the tokenizer would make one of.
    sampled = [*encode("<think>"), *encode("r"), *encode("</think>"), *encode("b"), ID["<|end|>"]]
    turn_ids = renderer.prompt_ids(task, (), "low") + sampled
    for role, extends in (("tool", after_tool), ("user", False)):
        observation = [Message.of(role, "c")]  # type: ignore[arg-type]
        ids, grown = renderer.next_prompt(task, said, turn_ids, observation, (), "low")
        assert grown is extends, role
        if extends:
            assert ids == turn_ids + renderer.bridge_ids(observation)
        else:
            assert ids == renderer.prompt_ids([*task, *said, *observation], (), "low")
            assert "<think>" not in decode(ids)
    # A turn without reasoning has nothing to be stripped.
    plain = [Message.of("assistant", "b")]
    turn_ids = [*renderer.prompt_ids(task, (), "low"), *encode("b"), ID["<|end|>"]]
    assert renderer.next_prompt(task, plain, turn_ids, [Message.of("user", "c")], (), "low")[1]


def test_a_tokenizer_without_template_or_stop_token_is_refused() -> None:
    with pytest.raises(ValueError, match="no chat template"):
        renderer_with(None)
    with pytest.raises(ValueError, match="none of the stop ids"):
        ChatRenderer(build_tokenizer(), (ID["<|pad|>"],))


def test_a_tokenizer_without_single_structural_tokens_is_refused() -> None:
    document = json.loads(build_tokenizer()._tokenizer.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if token["content"] != "<tool_call>"]
    document["model"]["vocab"]["<unused>"] = document["model"]["vocab"].pop("<tool_call>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(document)))
    tokenizer.chat_template = CHAT_TEMPLATE
    with pytest.raises(ValueError, match=r"no single token for '<tool_call>'"):
        ChatRenderer(tokenizer, (ID["<|end|>"],))
