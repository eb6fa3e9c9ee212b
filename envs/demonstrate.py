"""Play one task with any policy that maps a conversation to the next message: no engine, no tokens.

In: a domain, a task and a policy (by default the domain's gold).  Out: a `Trajectory` and its `Score`.
Called by `envs.check`, `python -m envs`, the supervised warm start and tests.  Scoring takes the same path as for real
rollouts; only the token lists are empty.
"""

from __future__ import annotations

import asyncio

from envs.domain import Domain, Policy
from envs.types import FinishReason, Message, Status, Task, Trajectory, Turn
from rewards.score import Score


async def run_policy(domain: Domain, task: Task, policy: Policy) -> Trajectory:
    """One episode, at most `domain.max_turns` turns; the environment is closed on every path."""
    trajectory = Trajectory(task=task, tier=domain.tiers[0], sample=0, segments=[[]], status=Status.MAX_TURNS)
    environment = domain.environment(task)
    try:
        await environment.reset()
        for _ in range(domain.max_turns):
            message = policy(task, trajectory.messages)
            result = await environment.step(message)
            trajectory.segments[0].append(_untokenised_turn(message, result.observation))
            if result.done:
                trajectory.status = Status.DONE
                break
    finally:
        await environment.close()
    return trajectory


def _untokenised_turn(message: Message, observation: tuple[Message, ...]) -> Turn:
    return Turn(
        prompt_ids=[],
        completion_ids=[],
        logprobs=[],
        versions=[],
        forced=[],
        message=message,
        observation=observation,
        finish_reason=FinishReason.STOP,
    )


async def demonstrate(domain: Domain, task: Task) -> tuple[list[Message], Score]:
    """The gold conversation after the prompt, and what it scores."""
    trajectory = await run_policy(domain, task, domain.gold)
    return list(trajectory.messages), domain.score(task, trajectory)


def demonstrate_sync(domain: Domain, task: Task) -> tuple[list[Message], Score]:
    return asyncio.run(demonstrate(domain, task))


def run_policy_sync(domain: Domain, task: Task, policy: Policy) -> Trajectory:
    return asyncio.run(run_policy(domain, task, policy))


def score_text(domain: Domain, task: Task, text: str) -> Score:
    """What a single assistant message with that text and no tool calls is worth."""
    return domain.score(task, run_policy_sync(domain, task, lambda task, messages: Message.of("assistant", text)))
