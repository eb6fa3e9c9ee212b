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
    - `turn_rewards`: for each trajectory the rewards of its turns, and `turn_tokens`, parallel to `segments`, the
      trained tokens of each; empty where no score of the group has rewards of turns.
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
    turn_rewards: tuple[tuple[float, ...], ...] = ()
    turn_tokens: tuple[tuple[tuple[int, ...], ...], ...] = ()

    @property
    def num_sampled_tokens(self) -> int:
        return sum(trained for segments in self.segments for _, trained in segments)


def summarise(group: Group) -> GroupSummary:
    """The numbers of a group.  Raises ValueError for a score with rewards for more or fewer turns than there were."""
    has_turns = any(score.turns for score in group.scores)
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
        turn_rewards=tuple(map(_turn_rewards, group.trajectories, group.scores)) if has_turns else (),
        turn_tokens=tuple(tuple(_turn_tokens(trajectory)) for trajectory in group.trajectories) if has_turns else (),
        seconds=max((trajectory.seconds for trajectory in group.trajectories), default=0.0),
    )


def _parts(scores: Sequence[Score]) -> tuple[Mapping[str, float] | None, ...]:
    if not any(score.parts for score in scores):
        return ()
    return tuple(dict(score.parts) if score.is_scored else None for score in scores)


def _turn_rewards(trajectory: Trajectory, score: Score) -> tuple[float, ...]:
    """One a turn; nothing for a verdict that was not the domain's own (cut, unscored)."""
    count = len(trajectory.turns)
    if score.turns and len(score.turns) != count:
        raise ValueError(f"{trajectory.task.id}: a score has rewards for {len(score.turns)} of {count} turns")
    return score.turns or (0.0,) * count


def _turn_tokens(trajectory: Trajectory) -> list[tuple[int, ...]]:
    return [
        tuple(len(turn.completion_ids) - sum(turn.forced) for turn in segment)
        for segment in trajectory.segments
        if segment
    ]


def _segment_sizes(trajectory: Trajectory) -> list[tuple[int, int]]:
    return [
        (
            len(segment[-1].prompt_ids) + len(segment[-1].completion_ids),
            sum(len(turn.completion_ids) - sum(turn.forced) for turn in segment),
        )
        for segment in trajectory.segments
        if segment
    ]
