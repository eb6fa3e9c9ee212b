"""One episode by value: which tokens are sampled, which limits cut, how it ends, and what it asks the engine for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from envs.base import EnvironmentFailure, StepResult
from envs.domain import Domain
from envs.families.tools_toy import make_calculator
from envs.tools import make_tool_call
from envs.types import FinishReason, Message, Status, Trajectory
from rollouts.chat import ChatRenderer
from rollouts.engine import EngineFailure, TurnRequest
from rollouts.episode import EpisodeLimits, EpisodeSettings, run_episode, sampling_seed
from tests.fakes import Answer, ScriptedEngine, ScriptedEnvironment, says, toy_domain, toy_renderer
from train.policy.packing import samples_from_trajectory
from train.policy.tiny import build_tokenizer

RENDERER = toy_renderer()
TOKENIZER = RENDERER.tokenizer
END = TOKENIZER.convert_tokens_to_ids("<|end|>")
WIDE = EpisodeLimits(turn_tokens=1000, trajectory_tokens=10_000, context=100_000)


def encode(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False))


def play(
    domain: Domain,
    engine: ScriptedEngine,
    limits: EpisodeLimits = WIDE,
    renderer: ChatRenderer = RENDERER,
    number: int = 7,
    sample: int = 2,
    routes: bool = False,
) -> Trajectory:
    task = domain.task(5)
    settings = EpisodeSettings(
        number=number, sample=sample, tier="low", limits=limits, temperature=1.0, seed=11, routes=routes
    )
    prompt = renderer.prompt_ids(task.prompt, domain.tools, "low")
    return asyncio.run(run_episode(task, domain, settings, renderer, engine, prompt))


def always(text: str) -> ScriptedEngine:
    return ScriptedEngine(lambda request: says([*encode(text), END], request))


def in_turn(*completions: Sequence[int]) -> ScriptedEngine:
    return ScriptedEngine(lambda request: says(completions[request.turn], request))


# --- limits ------------------------------------------------------------------------------------------------------


def test_the_turn_cap_is_not_the_trajectory_cap() -> None:
    """F80: three turns of 8 tokens under a turn cap of 8 and a trajectory cap of 64 are 24 sampled tokens."""
    limits = EpisodeLimits(turn_tokens=8, trajectory_tokens=64, context=100_000)
    trajectory = play(toy_domain(num_replies=2), always("1234567"), limits)
    assert [len(turn.completion_ids) for turn in trajectory.turns] == [8, 8, 8]
    assert trajectory.status is Status.DONE and trajectory.num_sampled_tokens == 24


def test_a_turn_over_its_cap_ends_the_trajectory_as_truncated() -> None:
    limits = EpisodeLimits(turn_tokens=4, trajectory_tokens=64, context=100_000)
    trajectory = play(toy_domain(num_replies=2), always("1234567"), limits)
    assert [len(turn.completion_ids) for turn in trajectory.turns] == [4]
    assert trajectory.status is Status.TRUNCATED
    assert trajectory.turns[0].finish_reason is FinishReason.LENGTH


def test_the_trajectory_cap_counts_the_turns_before() -> None:
    limits = EpisodeLimits(turn_tokens=8, trajectory_tokens=18, context=100_000)
    engine = always("1234567")
    trajectory = play(toy_domain(num_replies=5), engine, limits)
    assert [request.sampling.max_tokens for request in engine.requests] == [8, 8, 2]
    assert trajectory.status is Status.TRUNCATED and trajectory.num_sampled_tokens == 18


def test_a_budget_used_up_exactly_between_turns_truncates() -> None:
    limits = EpisodeLimits(turn_tokens=8, trajectory_tokens=16, context=100_000)
    trajectory = play(toy_domain(num_replies=5), always("1234567"), limits)
    assert trajectory.status is Status.TRUNCATED
    assert [turn.finish_reason for turn in trajectory.turns] == [FinishReason.STOP] * 2


def test_the_context_counts_prompt_and_completion_together() -> None:
    domain = toy_domain(num_replies=5)
    prompt = len(RENDERER.prompt_ids(domain.task(5).prompt))
    bridge = len(RENDERER.bridge_ids([Message.of("user", "more")]))
    engine = always("1234567")
    limits = EpisodeLimits(turn_tokens=50, trajectory_tokens=500, context=prompt + 8 + bridge + 3)
    trajectory = play(domain, engine, limits)
    assert [request.sampling.max_tokens for request in engine.requests] == [8 + bridge + 3, 3]
    assert trajectory.status is Status.TRUNCATED
    longest = trajectory.turns[-1]
    assert len(longest.prompt_ids) + len(longest.completion_ids) == limits.context
    assert play(domain, always("1"), EpisodeLimits(turn_tokens=5, trajectory_tokens=5, context=prompt)).turns == []


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_cut_in_any_turn_marks_the_trajectory(cut: int) -> None:
    """F86: nothing follows a cut turn, so a later good turn cannot hide it."""
    good, cut_off = [*encode("ok"), END], encode("no end")
    trajectory = play(toy_domain(num_replies=2), in_turn(*([good] * cut), cut_off, good, good))
    assert len(trajectory.turns) == cut + 1
    assert trajectory.status is Status.TRUNCATED


def test_a_second_stop_token_is_a_stop() -> None:
    """F84: judged by every stop id, not by the end-of-sequence token."""
    tokenizer = build_tokenizer()
    pad = tokenizer.convert_tokens_to_ids("<|pad|>")
    renderer = ChatRenderer(tokenizer, (END, pad))
    engine = in_turn([*encode("5"), pad])
    trajectory = play(toy_domain(), engine, renderer=renderer)
    assert engine.requests[0].sampling.stop_ids == (END, pad)
    assert trajectory.status is Status.DONE
    assert trajectory.turns[0].finish_reason is FinishReason.STOP
    assert trajectory.turns[0].completion_ids == [*encode("5"), pad]
    assert trajectory.final_text == "5"


def test_max_turns() -> None:
    trajectory = play(toy_domain(num_replies=9, max_turns=3), always("x"))
    assert (trajectory.status, len(trajectory.turns)) == (Status.MAX_TURNS, 3)


# --- tokens ------------------------------------------------------------------------------------------------------


def test_only_sampled_tokens_are_action_tokens() -> None:
    """F75, F81: the completions are what was sampled, end of turn included; replies and bridges are not in them."""
    sampled = [[*encode("one"), END], [*encode("two!"), END], [*encode("3"), END]]
    trajectory = play(toy_domain(num_replies=2), in_turn(*sampled))
    assert [turn.completion_ids for turn in trajectory.turns] == sampled
    assert trajectory.num_sampled_tokens == 4 + 5 + 2
    bridge = RENDERER.bridge_ids([Message.of("user", "more")])
    for earlier, later in zip(trajectory.turns, trajectory.turns[1:], strict=False):
        assert later.prompt_ids == earlier.prompt_ids + earlier.completion_ids + bridge
    for turn in trajectory.turns:
        assert turn.logprobs == [-0.01 * token for token in turn.completion_ids]
        assert turn.versions == [3] * len(turn.completion_ids)
        assert not any(turn.forced)


def test_sampled_ids_are_never_made_again_from_text() -> None:
    """A byte token and the character it spells decode alike; the next prompt must hold the one that was sampled."""
    byte = TOKENIZER.convert_tokens_to_ids("<0x61>")
    trajectory = play(toy_domain(num_replies=1), in_turn([byte, END], [*encode("x"), END]))
    first, second = trajectory.turns
    assert first.message.text == "a" and first.completion_ids == [byte, END]
    assert second.prompt_ids[len(first.prompt_ids)] == byte


# --- routes ------------------------------------------------------------------------------------------------------


def test_each_turn_asks_for_the_routes_that_its_segment_does_not_have_yet() -> None:
    engine = always("one")
    trajectory = play(toy_domain(num_replies=2), engine, routes=True)
    (sample,) = samples_from_trajectory(trajectory, 1.0)
    assert sample.routes is not None and len(sample.routes) == len(sample.ids) - 1
    assert sample.routes[:, 0, 0].tolist() == [position % 8 for position in range(len(sample.ids) - 1)]
    lengths = [len(turn.prompt_ids) + len(turn.completion_ids) for turn in trajectory.turns]
    assert [request.routes_from for request in engine.requests] == [0, lengths[0] - 1, lengths[1] - 1]
    assert all(request.routes_from is None for request in _asked_without_routes())


def test_a_truncated_turn_has_its_routes() -> None:
    limits = EpisodeLimits(turn_tokens=4, trajectory_tokens=64, context=100_000)
    (turn,) = play(toy_domain(), always("1234567"), limits, routes=True).turns
    assert turn.routes is not None and turn.routes.num_rows == len(turn.prompt_ids) + 4 - 1


def test_an_engine_without_all_routes_is_a_failure_that_names_the_remedy() -> None:
    engine = ScriptedEngine(lambda request: says([*encode("x"), END], request), lost_rows=1)
    with pytest.raises(EngineFailure, match=r"episode 7, turn 0: .* routes of \d+ positions .*algorithm.routes=none"):
        play(toy_domain(), engine, routes=True)


def _asked_without_routes() -> list[TurnRequest]:
    engine = always("one")
    play(toy_domain(num_replies=2), engine)
    return engine.requests


# --- tools -------------------------------------------------------------------------------------------------------


def calls(*raws: str) -> list[int]:
    open_id, close_id = (RENDERER.structure[token] for token in ("<tool_call>", "</tool_call>"))
    return [token for raw in raws for token in (open_id, *encode(raw), close_id)] + [END]


def test_every_tool_call_gets_one_reply_and_a_malformed_one_does_not_end_the_episode() -> None:
    domain = make_calculator()
    good = make_tool_call("calc", {"e": "2*3"}).raw
    answer = domain.task(5).reference
    trajectory = play(domain, in_turn(calls(good, "{calc", good), calls("nothing"), [*encode(answer), END]))
    first, second, last = trajectory.turns
    assert [message.role for message in first.observation] == ["tool"] * 3
    assert [first.observation[0].text, first.observation[2].text] == ["6", "6"]
    assert first.observation[1].text.startswith("error: not valid JSON")
    assert len(second.observation) == 1 and second.observation[0].text.startswith("error: ")
    assert last.observation == () and trajectory.status is Status.DONE
    assert domain.score(trajectory.task, trajectory).value == 1.0


# --- failures ----------------------------------------------------------------------------------------------------


class BrokenEnvironment(ScriptedEnvironment):
    """Breaks at reset (0) or in the step of that number."""

    def __init__(self, breaks_at: int):
        super().__init__([(Message.of("user", "more"),)] * 5)
        self.breaks_at = breaks_at

    async def reset(self) -> None:
        if self.breaks_at == 0:
            raise EnvironmentFailure("no sandbox")

    async def step(self, message: Message) -> StepResult:
        if len(self.seen) + 1 == self.breaks_at:
            raise EnvironmentFailure("sandbox lost")
        return await super().step(message)


@pytest.mark.parametrize(("breaks_at", "num_turns", "text"), [(0, 0, "no sandbox"), (2, 2, "sandbox lost")])
def test_a_broken_environment_is_a_failed_trajectory(breaks_at: int, num_turns: int, text: str) -> None:
    environment = BrokenEnvironment(breaks_at)
    engine = always("x")
    trajectory = play(toy_domain(environment=lambda task: environment), engine)
    assert (trajectory.status, len(trajectory.turns)) == (Status.FAILED, num_turns)
    assert text in trajectory.error
    assert environment.closed == 1
    assert engine.released == []  # it may be tried again; see `rollouts.worker`


@pytest.mark.parametrize("failure", [EngineFailure("gone"), RuntimeError("a bug")])
def test_other_failures_are_raised_with_the_environment_closed(failure: Exception) -> None:
    def script(request: TurnRequest) -> Answer:
        raise failure

    environment = ScriptedEnvironment([])
    engine = ScriptedEngine(script)
    with pytest.raises(type(failure), match=str(failure)):
        play(toy_domain(environment=lambda task: environment), engine)
    assert environment.closed == 1


# --- seeds -------------------------------------------------------------------------------------------------------


def seeds_of(**where: Any) -> list[int]:
    engine = always("x")
    play(toy_domain(num_replies=2), engine, **where)
    return [request.sampling.seed for request in engine.requests]


def test_seeds_follow_what_is_sampled_and_nothing_else() -> None:
    task_id = toy_domain().task(5).id
    assert seeds_of(number=7) == seeds_of(number=99) == [sampling_seed(11, task_id, 2, turn) for turn in range(3)]
    assert seeds_of(sample=3) == [sampling_seed(11, task_id, 3, turn) for turn in range(3)]


def test_seeds_are_distinct_and_fit_a_signed_word() -> None:
    seeds = {
        sampling_seed(seed, f"toy/echo/train/{index}", sample, turn)
        for seed in range(3)
        for index in range(12)
        for sample in range(12)
        for turn in range(12)
    }
    assert len(seeds) == 3 * 12**3
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert sampling_seed(1, "a/b/train/1", 11, 1) != sampling_seed(1, "a/b/train/1", 1, 11)
    assert sampling_seed(0, "toy/echo/train/5", 0, 0) == 420521293242957918  # SHA-256 by hand
