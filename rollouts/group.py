"""A group: one task and tier, its trajectories and their scores.  Failures are data.

Made by `rollouts.worker`, consumed by `rewards.advantages` (numbers only) and `train.policy.packing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envs.types import Task, Trajectory
from rewards.score import Score


@dataclass(slots=True)
class Group:
    """G trajectories of one (task, tier) and as many scores.

    `ticket` is the mixture's sequence number: it says which draw this group pays for.
    """

    ticket: int
    task: Task
    tier: str
    trajectories: list[Trajectory]
    scores: list[Score]

    def __post_init__(self) -> None:
        if len(self.trajectories) != len(self.scores):
            raise ValueError(f"group {self.task.id}: {len(self.trajectories)} trajectories, {len(self.scores)} scores")

    @property
    def values(self) -> list[float | None]:
        return [score.value for score in self.scores]

    @property
    def oldest_version(self) -> int:
        """The oldest policy version of any sampled token: staleness counts from here."""
        versions = [
            version for trajectory in self.trajectories for turn in trajectory.turns for version in turn.versions
        ]
        return min(versions, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """What the driver needs to know of a group; the tokens stay in the object store.

    - `values`: one a trajectory, None where unscored; `reasons` says why.
    - `parts`: one a trajectory, the parts of its score, None where unscored; empty where nothing has parts.
    - `segments`: for each trajectory the (tokens, trained tokens) of its segments.
    """

    ticket: int
    task_id: str
    domain: str
    tier: str
    values: tuple[float | None, ...]
    reasons: tuple[str, ...]
    statuses: tuple[str, ...]
    num_turns: tuple[int, ...]
    segments: tuple[tuple[tuple[int, int], ...], ...]
    oldest_version: int
    newest_version: int
    seconds: float
    parts: tuple[Mapping[str, float] | None, ...] = ()

    @property
    def num_sampled_tokens(self) -> int:
        return sum(trained for segments in self.segments for _, trained in segments)


def summarise(group: Group) -> GroupSummary:
    """The numbers of a group."""
    versions = [version for trajectory in group.trajectories for turn in trajectory.turns for version in turn.versions]
    return GroupSummary(
        ticket=group.ticket,
        task_id=group.task.id,
        domain=group.task.domain,
        tier=group.tier,
        values=tuple(group.values),
        reasons=tuple(score.reason for score in group.scores),
        statuses=tuple(str(trajectory.status) for trajectory in group.trajectories),
        num_turns=tuple(len(trajectory.turns) for trajectory in group.trajectories),
        segments=tuple(tuple(_segment_sizes(trajectory)) for trajectory in group.trajectories),
        oldest_version=min(versions, default=-1),
        newest_version=max(versions, default=-1),
        parts=_parts(group.scores),
        seconds=max((trajectory.seconds for trajectory in group.trajectories), default=0.0),
    )


def _parts(scores: Sequence[Score]) -> tuple[Mapping[str, float] | None, ...]:
    if not any(score.parts for score in scores):
        return ()
    return tuple(dict(score.parts) if score.is_scored else None for score in scores)


def _segment_sizes(trajectory: Trajectory) -> list[tuple[int, int]]:
    return [
        (
            len(segment[-1].prompt_ids) + len(segment[-1].completion_ids),
            sum(len(turn.completion_ids) - sum(turn.forced) for turn in segment),
        )
        for segment in trajectory.segments
        if segment
    ]
