"""The environment protocol: what a task turns into when a model starts to act in it.

Made by a domain for one trajectory, used once, closed always.  Called by `rollouts.episode`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from envs.types import Message, Task


class EnvironmentFailure(Exception):
    """The *infrastructure* behind an environment failed (not the model): the trajectory becomes unscored."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What the world answers to one assistant message.

    `observation` is appended to the conversation (tool or user messages, at least one unless `done`).
    """

    observation: tuple[Message, ...] = ()
    done: bool = False


class Environment(Protocol):
    """One episode of one task.  Single use: reset once, step until done, close."""

    async def reset(self) -> None:
        """Build the initial state (the prompt is the task's own)."""

    async def step(self, message: Message) -> StepResult:
        """React to what the model wrote.  A failure that the model caused is an observation, not an exception."""

    async def close(self) -> None:
        """Free everything; called on every path."""


class SingleTurn:
    """The environment of a question with one answer: the first message ends it."""

    def __init__(self, task: Task):
        self.task = task

    async def reset(self) -> None:
        return None

    async def step(self, message: Message) -> StepResult:
        return StepResult(done=True)

    async def close(self) -> None:
        return None
