"""From the rewards of one group to the advantages of its trajectories: pure functions of numbers.

In: one reward a trajectory, None where unscored.  Out: one advantage a trajectory, None where unscored.
Called by the loop, with the scale that `rewards.normalise` knows for the group's domain.

A group is passed as a group: nothing here reshapes a flat batch, and a trajectory counts once, into however many
fragments it was cut for training (`train.collect` gives its advantage to each of them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Range = tuple[float, float]

CLIP = 5.0
TOLERANCE = 1e-6  # of the declared range: rewards closer than this are equal


def scored_values(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def has_signal(values: Sequence[float | None], declared_range: Range, tolerance: float = TOLERANCE) -> bool:
    """Whether the group can teach anything: its scored rewards differ by more than a fraction of the declared range.

    It asks the whole group, never single rows, and looks at the spread, never at the mean.  Groups with fewer than two
    scored rewards carry no signal.
    """
    scored = scored_values(values)
    if len(scored) < 2:
        return False
    low, high = declared_range
    return max(scored) - min(scored) > tolerance * (high - low)


def group_mean(scored: Sequence[float]) -> list[float]:
    """R_i - mean(R): without a per-group std, which would inflate nearly solved and nearly hopeless tasks.

    Source: Dr. GRPO (Liu et al., 2025, arXiv 2503.20783).
    """
    mean = math.fsum(scored) / len(scored)
    return [value - mean for value in scored]


def group_std(values: Sequence[float | None]) -> float:
    """Population standard deviation of the scored rewards: what GRPO divides by (arXiv 2402.03300)."""
    scored = scored_values(values)
    return math.sqrt(math.fsum(centred * centred for centred in group_mean(scored)) / len(scored))


def leave_one_out(scored: Sequence[float]) -> list[float]:
    """R_i - mean of the others = n/(n-1) · (R_i - mean): an unbiased baseline.  A single reward gives 0.

    Source: RLOO (Ahmadian et al., 2024, arXiv 2402.14740).
    """
    count = len(scored)
    return [value * count / (count - 1) for value in group_mean(scored)] if count > 1 else [0.0] * count


@dataclass(frozen=True, slots=True)
class Estimator:
    """`centre`: from the scored returns of one group to what they are above their baseline.

    `per_turn`: each turn has a return of its own, and is centred among the group's returns at that turn.
    """

    centre: Callable[[Sequence[float]], list[float]]
    per_turn: bool = False


estimators: dict[str, Estimator] = {
    "group_mean": Estimator(group_mean),
    "leave_one_out": Estimator(leave_one_out),
    "turn_level": Estimator(group_mean, per_turn=True),
}


def group_advantages(
    values: Sequence[float | None], scale: float, clip: float = CLIP, estimator: str = "group_mean"
) -> list[float | None]:
    """One advantage a trajectory of one group, centred over the scored ones, divided by `scale`, clipped to ±`clip`.

    `scale` is in units of the reward (`DomainStatistics.scale`, `group_std` or 1).  Unscored entries are in no mean and
    stay None.  Raises ValueError for an unknown estimator, and for a scale or clip that is not above zero.
    """
    centre = _checked(estimator, scale, clip).centre
    scored = scored_values(values)
    centred = iter(centre(scored) if scored else ())
    return [None if value is None else max(-clip, min(clip, next(centred) / scale)) for value in values]


def turn_advantages(
    values: Sequence[float | None],
    turns: Sequence[Sequence[float]],
    scale: float,
    clip: float = CLIP,
    estimator: str = "turn_level",
) -> list[list[float] | None]:
    """One advantage for each turn of each trajectory of a group.

    turns: for each trajectory the rewards of its turns, in units of `values`, what the whole trajectory is worth.  The
    return of turn t is the value and the rewards from t on; the baseline at t is the mean return over *all* scored
    trajectories, of which those that ended earlier have nothing left but their value.  (Among those still going alone,
    the last one would have itself as its baseline.)  Without rewards of turns this is `group_mean`; an estimator that
    is not per turn gives a trajectory's one advantage to each of its turns.

    After Zeng et al., 2025 (arXiv 2505.11821), with reward-to-go in place of the turn's reward alone.  Raises
    ValueError as `group_advantages`, and if there is not one row of turns a trajectory.
    """
    if len(values) != len(turns):
        raise ValueError(f"{len(turns)} rows of turns for {len(values)} trajectories")
    if not _checked(estimator, scale, clip).per_turn:
        whole = group_advantages(values, scale, clip, estimator)
        return [None if one is None else [one] * len(own) for one, own in zip(whole, turns, strict=True)]
    columns = [group_advantages(returns, scale, clip, estimator) for returns in turn_returns(values, turns)]
    rows = [[column[i] for column in columns[: len(own)]] for i, own in enumerate(turns)]
    return [
        None if value is None else [a for a in row if a is not None] for value, row in zip(values, rows, strict=True)
    ]


def turn_returns(values: Sequence[float | None], turns: Sequence[Sequence[float]]) -> list[list[float | None]]:
    """For each turn number t every trajectory's return from t on: its value and its rewards of the turns from t on."""
    return [
        [None if value is None else value + math.fsum(own[t:]) for value, own in zip(values, turns, strict=True)]
        for t in range(max(map(len, turns), default=0))
    ]


def _checked(estimator: str, scale: float, clip: float) -> Estimator:
    if estimator not in estimators:
        raise ValueError(f"unknown advantage estimator {estimator!r}; there are: {', '.join(estimators)}")
    if not (scale > 0 and clip > 0):
        raise ValueError(f"scale and clip must be above zero, got {scale} and {clip}")
    return estimators[estimator]
