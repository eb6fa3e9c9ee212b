"""Demonstrations as if they had been sampled: a domain's gold policy, token by token.

In: a ticket, a task with its domain, a tier and a renderer.  Out: a `Group` of one trajectory whose turns carry exactly
the ids that a model would have to sample.  Called by `rollouts.worker` for the supervised warm start; packed by
`train.policy.packing` like any other group.  The same play without tokens is `envs.demonstrate`.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Environment
from envs.domain import Domain
from envs.types import FinishReason, Message, Status, Task, Trajectory, Turn
from rewards.score import Score
from rollouts.chat import ChatRenderer
from rollouts.group import Group
from rollouts.worker import score_trajectory

# No policy sampled these tokens: every real version is 0 or more.
NO_VERSION = -1


async def demonstrate_group(ticket: int, task: Task, domain: Domain, tier: str, renderer: ChatRenderer) -> Group:
    """The gold conversation of `task` as a group of one, with its score.

    Raises ValueError, naming the task, where the gold policy does not score the domain's maximum (in a domain with a
    `margin`: gets no score) or says what does not come back from its token ids as it was: a model would be taught
    something that is then read differently.
    """
    environment = domain.environment(task)
    segments: list[list[Turn]] = [[]]
    try:
        await environment.reset()
        status = await _play(segments, task, domain, environment, tier, renderer)
    finally:
        await environment.close()
    trajectory = Trajectory(task=task, tier=tier, sample=0, segments=segments, status=status)
    score = score_trajectory(domain, trajectory)
    _check_best(score, task, domain)
    return Group(ticket=ticket, task=task, tier=tier, trajectories=[trajectory], scores=[score])


async def _play(
    segments: list[list[Turn]],
    task: Task,
    domain: Domain,
    environment: Environment,
    tier: str,
    renderer: ChatRenderer,
) -> Status:
    """Append the gold turns until the environment is done; the counterpart of a live episode's loop."""
    ids = renderer.prompt_ids(task.prompt, domain.tools, tier)
    said: list[Message] = []
    for number in range(domain.max_turns):
        turn = _gold_turn(said, ids, task, domain, renderer)
        segments[-1].append(turn)
        result = await environment.step(turn.message)
        turn.observation = result.observation
        if result.done:
            return Status.DONE
        said.append(turn.message)
        turn_ids = [*ids, *turn.completion_ids]
        ids, extends = renderer.next_prompt(task.prompt, said, turn_ids, result.observation, domain.tools, tier)
        said += result.observation
        if not extends and number + 1 < domain.max_turns:
            segments.append([])
    return Status.MAX_TURNS


def _gold_turn(
    said: Sequence[Message], prompt_ids: list[int], task: Task, domain: Domain, renderer: ChatRenderer
) -> Turn:
    gold = domain.gold(task, tuple(said))
    completion_ids = renderer.assistant_ids(gold)
    parsed = renderer.parse(completion_ids)
    if parsed != gold:
        raise ValueError(f"task {task.id}: the gold message {gold} is read back from its token ids as {parsed}")
    count = len(completion_ids)
    return Turn(
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        logprobs=[0.0] * count,
        versions=[NO_VERSION] * count,
        forced=[False] * count,
        message=parsed,
        observation=(),
        finish_reason=FinishReason.STOP,
    )


def _check_best(score: Score, task: Task, domain: Domain) -> None:
    best = domain.score_range[1]
    if score.is_scored and domain.margin is not None:
        return  # nobody is sure to win that game
    if score.value != best:
        got = score.value if score.is_scored else f"no score ({score.reason})"
        raise ValueError(f"task {task.id}: its gold policy gets {got}, a demonstration must score the maximum {best}")
