"""One task, one engine, one trajectory.

In: a task, its domain, a renderer, an engine.  Out: a `Trajectory` of exactly the tokens that were sampled.  Called by
`rollouts.worker`; knows no Ray and no vLLM.

    prompt ids ─► engine ─► completion ids ─► parse ─► environment ─► observation ─► bridge ids ─┐
        ▲                                                                                        │
        └──────────────────── prompt + completion + bridge, never re-tokenised ◄─────────────────┘

Only where the chat template itself rewrites earlier turns a new segment begins, with the rewritten prompt.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from envs.base import Environment, EnvironmentFailure
from envs.domain import Domain
from envs.types import FinishReason, Message, Status, Task, Trajectory, Turn
from rollouts.chat import ChatRenderer
from rollouts.engine import Completion, Engine, EngineFailure, SamplingParams, TurnRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLimits:
    """Token budgets of one tier: of one turn, of all turns of a trajectory together, and the context window."""

    turn_tokens: int
    trajectory_tokens: int
    context: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSettings:
    """How to run one episode.  `number` orders it among the others; `sample` counts within its group.

    `routes`: whether the engine is asked which experts it chose.
    """

    number: int
    sample: int
    tier: str
    limits: EpisodeLimits
    temperature: float
    seed: int
    routes: bool = False


def sampling_seed(run_seed: int, task_id: str, sample: int, turn: int) -> int:
    """A seed that depends on what is sampled and on nothing else: not on engines, workers or order."""
    digest = hashlib.sha256(f"{run_seed}|{task_id}|{sample}|{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


async def run_episode(
    task: Task, domain: Domain, settings: EpisodeSettings, renderer: ChatRenderer, engine: Engine, prompt: list[int]
) -> Trajectory:
    """Play `task` to its end.  `prompt` is its rendered prompt (shared by the samples of a group).

    An environment whose infrastructure fails gives status FAILED; an engine failure is raised: the run cannot go on.
    Releasing the episode is the caller's, who may want to try it again under the same number.
    """
    started = time.perf_counter()
    environment = domain.environment(task)
    segments: list[list[Turn]] = [[]]
    error = ""
    try:
        await environment.reset()
        status = await _play(segments, task, domain, environment, settings, renderer, engine, prompt)
    except EnvironmentFailure as failure:
        status, error = Status.FAILED, f"{type(failure).__name__}: {failure}"
    finally:
        await environment.close()
    return Trajectory(
        task=task,
        tier=settings.tier,
        sample=settings.sample,
        segments=segments,
        status=status,
        error=error,
        seconds=time.perf_counter() - started,
    )


async def _play(
    segments: list[list[Turn]],
    task: Task,
    domain: Domain,
    environment: Environment,
    settings: EpisodeSettings,
    renderer: ChatRenderer,
    engine: Engine,
    ids: list[int],
) -> Status:
    """Append turns until the environment is done or a limit is met; returns how it ended."""
    sampled = 0
    said: list[Message] = []
    for number in range(domain.max_turns):
        budget = _budget(settings.limits, sampled, len(ids))
        if budget <= 0:
            return Status.TRUNCATED
        request = _request(task, settings, renderer, number, ids, budget, segments[-1])
        completion = await engine.generate(request)
        _check_routes(request, completion)
        sampled += len(completion.token_ids)
        turn = _turn(completion, ids, renderer)
        segments[-1].append(turn)
        if completion.finish_reason is FinishReason.LENGTH:
            return Status.TRUNCATED
        result = await environment.step(turn.message)
        turn.observation = result.observation
        if result.done:
            return Status.DONE
        said.append(turn.message)
        turn_ids = [*ids, *completion.token_ids]
        ids, extends = renderer.next_prompt(
            task.prompt, said, turn_ids, result.observation, domain.tools, settings.tier
        )
        said += result.observation
        if not extends and number + 1 < domain.max_turns:
            segments.append([])
    return Status.MAX_TURNS


def _budget(limits: EpisodeLimits, sampled: int, prompt_length: int) -> int:
    return min(limits.turn_tokens, limits.trajectory_tokens - sampled, limits.context - prompt_length)


def _request(
    task: Task,
    settings: EpisodeSettings,
    renderer: ChatRenderer,
    turn: int,
    ids: list[int],
    budget: int,
    segment: list[Turn],
) -> TurnRequest:
    return TurnRequest(
        episode=settings.number,
        turn=turn,
        prompt_ids=tuple(ids),
        sampling=SamplingParams(
            temperature=settings.temperature,
            max_tokens=budget,
            seed=sampling_seed(settings.seed, task.id, settings.sample, turn),
            stop_ids=renderer.stop_ids,
        ),
        routes_from=sum(known.routes.num_rows for known in segment if known.routes) if settings.routes else None,
    )


def _check_routes(request: TurnRequest, completion: Completion) -> None:
    """One row for every position from the one that was asked for to the last but one.  Raises EngineFailure."""
    if request.routes_from is None:
        return
    wanted = len(request.prompt_ids) + len(completion.token_ids) - 1 - request.routes_from
    found = completion.routes.num_rows if completion.routes else 0
    if found != wanted:
        raise EngineFailure(
            f"episode {request.episode}, turn {request.turn}: the engine gave the routes of {found} positions instead "
            f"of {wanted}; set algorithm.routes=none if it cannot give them"
        )


def _turn(completion: Completion, prompt_ids: list[int], renderer: ChatRenderer) -> Turn:
    return Turn(
        prompt_ids=prompt_ids,
        completion_ids=completion.token_ids,
        logprobs=completion.logprobs,
        versions=completion.versions,
        forced=[False] * len(completion.token_ids),
        message=renderer.parse(completion.token_ids),
        observation=(),
        finish_reason=completion.finish_reason,
        routes=completion.routes,
    )
