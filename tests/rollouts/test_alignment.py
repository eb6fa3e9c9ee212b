"""Random conversations from the engine to the packed row: every token keeps its id, mask, log-prob and version."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from envs.types import FinishReason, Message, Trajectory
from rollouts.chat import ChatRenderer
from rollouts.engine import Completion, TurnRequest
from rollouts.episode import EpisodeLimits, EpisodeSettings, run_episode
from tests.fakes import ScriptedEnvironment, toy_domain, toy_renderer
from tests.rollouts.test_chat import ID, STRIPS_ALWAYS, STRIPS_BEFORE_LAST_USER, renderer_with
from train.policy.packing import NOBODY, build_row, samples_from_trajectory
from train.policy.tiny import build_tokenizer

END, BOS = ID["<|end|>"], ID["<|bos|>"]
RENDERERS = {
    "append only": toy_renderer(),
    "drops reasoning": renderer_with(STRIPS_ALWAYS),
    "drops reasoning before the user": renderer_with(STRIPS_BEFORE_LAST_USER),
}
LIMITS = EpisodeLimits(turn_tokens=30, trajectory_tokens=90, context=400)
# Anything but what begins a conversation; also structure, in any disorder.
COMPLETIONS = st.lists(
    st.one_of(st.sampled_from([ID["<think>"], ID["</think>"], ID["<tool_call>"], END]), st.integers(14, 300)),
    max_size=34,
)
REPLIES = st.builds(
    lambda role, text: (Message.of(role, text),),
    st.sampled_from(["tool", "user"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)


class Recorder:
    """An engine that says what it is told, cut by the budget; a log-prob and a version say which token they are of."""

    def __init__(self, completions: list[list[int]]):
        self._completions = completions
        self.sampled: list[tuple[int, float, int]] = []
        self.requests: list[TurnRequest] = []

    async def generate(self, request: TurnRequest) -> Completion:
        wanted = [*self._completions[request.turn], END]
        wanted = wanted[: wanted.index(END) + 1]
        ids = wanted[: request.sampling.max_tokens]
        first = len(self.sampled)
        new = [(token, -(first + number + 1) / 64, first + number) for number, token in enumerate(ids)]
        self.sampled += new
        self.requests.append(request)
        return Completion(
            episode=request.episode,
            turn=request.turn,
            token_ids=ids,
            logprobs=[logprob for _, logprob, _ in new],
            versions=[version for *_, version in new],
            finish_reason=FinishReason.STOP if ids == wanted else FinishReason.LENGTH,
        )

    def release(self, episode: int) -> None:
        return None


def play(renderer: ChatRenderer, completions: list[list[int]], replies: list[tuple[Message, ...]]) -> tuple:
    engine = Recorder(completions)
    domain = toy_domain(environment=lambda task: ScriptedEnvironment(replies), max_turns=len(completions))
    task = domain.task(5)
    episode = EpisodeSettings(number=0, sample=0, tier="low", limits=LIMITS, temperature=1.0, seed=1)
    prompt = renderer.prompt_ids(task.prompt, (), "low")
    trajectory: Trajectory = asyncio.run(run_episode(task, domain, episode, renderer, engine, prompt))
    return trajectory, engine


@settings(max_examples=80, deadline=None)
@given(st.lists(COMPLETIONS, min_size=4, max_size=4), st.lists(REPLIES, min_size=3, max_size=3))
@pytest.mark.parametrize("kind", RENDERERS)
def test_every_token_stays_with_what_belongs_to_it(
    kind: str, completions: list[list[int]], replies: list[tuple[Message, ...]]
) -> None:
    trajectory, engine = play(RENDERERS[kind], completions, replies)
    # What the engine was asked with is what is kept, turn by turn, also across segments.
    assert [list(request.prompt_ids) for request in engine.requests] == [t.prompt_ids for t in trajectory.turns]
    assert kind != "append only" or len(trajectory.segments) == 1
    samples = samples_from_trajectory(trajectory, 0.5)
    trained: list[tuple[int, float, int]] = []
    for sample in samples:
        columns = zip(sample.ids, sample.loss_mask, sample.behaviour_logprobs, sample.versions, strict=True)
        for number, (token, is_trained, logprob, version) in enumerate(columns):
            if is_trained:
                trained.append((token, logprob, version))
                assert sample.advantages[number] == 0.5
            else:
                assert (logprob, version, sample.advantages[number]) == (0.0, NOBODY, 0.0)
        # Rollout and training see the same beginning, once.
        assert sample.ids[0] == BOS and sample.ids.count(BOS) == 1
        last = trajectory.segments[-1][-1]
        assert len(sample.ids) <= LIMITS.context or last.finish_reason is FinishReason.LENGTH
    # Sampled tokens are trained once each, in order, stop tokens included, and nothing else is.
    assert trained == engine.sampled
    assert trajectory.num_sampled_tokens == len(engine.sampled) <= LIMITS.trajectory_tokens
    row = build_row(samples, [1.0] * len(samples), list(range(len(samples))), {"toy/echo": 0})
    assert row.target_ids.tolist() == [token for token, *_ in engine.sampled]
    assert row.behaviour_logprobs.tolist() == [logprob for _, logprob, _ in engine.sampled]
    assert row.versions.tolist() == [version for *_, version in engine.sampled]
    # Each target is predicted from the position before it, in its own sequence.
    assert (row.input_ids[0, row.predict_index + 1] == row.target_ids).all()


def test_a_rewritten_conversation_is_a_new_segment_by_value() -> None:
    """Reasoning, then a user's reply: the new prompt has lost it, and the turns before are trained in their own."""
    renderer = RENDERERS["drops reasoning before the user"]
    think = [ID["<think>"], 40, ID["</think>"], 41]
    tool, user = (Message.of("tool", "t"),), (Message.of("user", "u"),)
    trajectory, engine = play(renderer, [think, think, [42], [43]], [tool, user, user])
    assert [len(segment) for segment in trajectory.segments] == [2, 2]
    first, second = samples_from_trajectory(trajectory, 1.0)
    assert first.ids.count(ID["<think>"]) == 2 and second.ids.count(ID["<think>"]) == 0
    assert [sum(sample.loss_mask) for sample in (first, second)] == [2 * 5, 2 + 2]
    prompt = list(engine.requests[2].prompt_ids)
    assert second.ids[: len(prompt)] == prompt
    assert prompt == renderer.prompt_ids([*trajectory.task.prompt, *trajectory.messages[:4]], (), "low")


@pytest.mark.parametrize("seed", range(3))
def test_a_tokenizer_that_begins_texts_by_itself_begins_no_conversation_twice(seed: int) -> None:
    """F79: the template writes the first token; what the tokenizer would add to a text is never added."""
    plain, eager = toy_renderer(), build_tokenizer()
    eager._tokenizer.post_processor = TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", BOS)])
    rng = random.Random(seed)
    task = [Message.of("user", "".join(rng.choice("abc 123") for _ in range(20)))]
    renderer = ChatRenderer(eager, (END,))
    assert eager.encode("a")[0] == BOS, "the tokenizer of this test must add the token by itself"
    ids = renderer.prompt_ids(task, (), "low")
    assert ids.count(BOS) == 1 and ids == plain.prompt_ids(task, (), "low")
    assert BOS not in renderer.bridge_ids([Message.of("tool", "x")])
    assert BOS not in renderer.assistant_ids(Message.of("assistant", "x"))


@pytest.mark.parametrize(("written", "says"), [("", "0 times"), ("<|bos|><|bos|>", "2 times")])
def test_a_template_that_does_not_begin_once_is_refused(written: str, says: str) -> None:
    """F79: training with, and serving without, or the other way round."""
    tokenizer = build_tokenizer()
    tokenizer._tokenizer.post_processor = TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", BOS)])
    tokenizer.chat_template = tokenizer.chat_template.replace("<|bos|>", written)
    with pytest.raises(ValueError, match=says):
        ChatRenderer(tokenizer, (END,))


def test_a_model_without_such_a_token_is_fine() -> None:
    """As Qwen: the tokenizer adds none, and the template writes none."""
    tokenizer = build_tokenizer()
    tokenizer.chat_template = tokenizer.chat_template.replace("<|bos|>", "")
    renderer = ChatRenderer(tokenizer, (END,))
    assert BOS not in renderer.prompt_ids([Message.of("user", "a")], (), "low")
