"""Advantages of one group: known faults by value, and what must hold for any group."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.advantages import estimators, group_advantages, has_signal, turn_advantages

UNIT = (0.0, 1.0)
rewards = st.lists(st.one_of(st.none(), st.floats(-100, 100, allow_subnormal=False)), min_size=1, max_size=12)


def numbers(advantages: Sequence[float | None]) -> list[float]:
    """All of them; fails on an unscored one."""
    assert None not in advantages
    return [advantage for advantage in advantages if advantage is not None]


def test_baseline_is_the_own_groups_mean() -> None:
    """F4: two tasks, rows shuffled; each task sums to 0 and has the textbook values."""
    rows = [("a", 1.0), ("a", 1.0), ("a", 1.0), ("a", 0.0), ("b", 0.0), ("b", 0.0), ("b", 0.0), ("b", 1.0)]
    random.Random(0).shuffle(rows)
    groups: dict[str, list[float]] = {"a": [], "b": []}
    for key, reward in rows:
        groups[key].append(reward)
    for values in groups.values():
        assert math.fsum(numbers(group_advantages(values, scale=0.5))) == 0
    scaled = numbers(group_advantages(groups["a"], scale=statistics.pstdev(groups["a"])))
    assert sorted(scaled) == pytest.approx([-1.7321, 0.5774, 0.5774, 0.5774], abs=1e-4)


@pytest.mark.parametrize("estimator", estimators)
def test_a_single_reward_is_finite_and_teaches_nothing(estimator: str) -> None:
    """F6: no ddof-1 std of one sample."""
    assert group_advantages([5.0], scale=1.0, estimator=estimator) == [0.0]
    assert group_advantages([None], scale=1.0, estimator=estimator) == [None]
    assert not has_signal([5.0], (0, 10))


def test_signal_is_spread_within_the_group() -> None:
    assert not has_signal([1, 1, 1 + 1e-9], UNIT)  # F7: float residue
    assert not has_signal([1e9, 1e9, 1e9 + 1], (0, 1e9))  # … as a fraction of the range
    assert has_signal([1e-9, 2e-9], (0, 2e-9))
    assert has_signal([0.0] + [0.95] * 7, UNIT)  # F8: a mask for the group, not for rows
    assert not has_signal([0.5] * 4, UNIT)  # F9: not the mean
    assert has_signal([0, 1, 0, 1], UNIT)
    assert [has_signal(group, UNIT) for group in ([1, 1], [0, 1])] == [False, True]  # F10: not the batch


def test_one_loser_keeps_its_whole_group() -> None:
    """F8."""
    loser, *winners = numbers(group_advantages([0.0] + [0.95] * 7, scale=0.3))
    assert loser < 0 and all(winner > 0 for winner in winners)


def test_unscored_is_not_a_reward() -> None:
    """F11: who never submitted must not beat who tried."""
    values = [None, -1.0, -1.0, None]
    assert not has_signal(values, (-1, 1))
    assert group_advantages(values, scale=1.0) == [None, 0.0, 0.0, None]
    assert group_advantages([1.0, None, 0.0], scale=0.5) == [1.0, None, -1.0]


def test_clip_and_leave_one_out_values() -> None:
    assert group_advantages([0.0, 1.0], scale=0.05) == [-5.0, 5.0]
    assert group_advantages([0.0, 1.0], scale=0.05, clip=2) == [-2.0, 2.0]
    assert group_advantages([3.0, 0.0, 0.0], scale=1.0, estimator="leave_one_out") == pytest.approx([3.0, -1.5, -1.5])


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_bad_scale_or_estimator(scale: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        group_advantages([0.0, 1.0], scale)
    with pytest.raises(ValueError, match="group_mean, leave_one_out"):
        group_advantages([0.0, 1.0], scale=1.0, estimator="grpo")


def test_turns_by_hand() -> None:
    """Returns to go: first (1+1+0, 1+0), second (0+0-1, 0-1), third 2 (one turn).

    Turn 1: 2, -1, 2, mean 1.  Turn 2: 1, -1 and the third's value 2, mean 2/3.
    """
    found = turn_advantages([1.0, 0.0, 2.0], [(1.0, 0.0), (0.0, -1.0), (0.0,)], scale=0.5, clip=100)
    assert found == [[2.0, pytest.approx(2 / 3)], [-4.0, pytest.approx(-10 / 3)], [2.0]]
    assert turn_advantages([1.0, None], [(1.0,), (3.0, 3.0)], scale=1.0) == [[0.0], None]


def test_a_turn_that_was_right_beats_one_that_was_wrong_in_trajectories_of_equal_worth() -> None:
    right_then_wrong, wrong_then_right = turn_advantages([1.0, 1.0], [(1.0, 0.0), (0.0, 1.0)], scale=1.0) or ([], [])
    assert right_then_wrong == [0.0, -0.5] and wrong_then_right == [0.0, 0.5]


def test_turns_without_rewards_are_the_whole_trajectory() -> None:
    values = [1.0, 0.0, None, 0.25]
    silent = [(0.0, 0.0), (0.0,), (0.0,), (0.0,) * 3]
    whole = group_advantages(values, scale=0.5)
    rows = turn_advantages(values, silent, scale=0.5)
    assert [None if row is None else row[0] for row in rows] == whole
    for estimator in ("group_mean", "leave_one_out"):
        one = group_advantages(values, 0.5, estimator=estimator)
        spread = turn_advantages(values, [(9.0,) * len(own) for own in silent], 0.5, estimator=estimator)
        assert spread == [None if a is None else [a] * len(own) for a, own in zip(one, silent, strict=True)]
    with pytest.raises(ValueError, match="1 rows of turns for 2"):
        turn_advantages([1.0, 0.0], [(0.0,)], scale=1.0)


@given(rewards, st.floats(0.01, 10), st.integers(-40, 40), st.sampled_from(list(estimators)))
def test_power_of_two_changes_no_bit(values: list[float | None], scale: float, power: int, estimator: str) -> None:
    factor = 2.0**power
    scaled = [None if value is None else value * factor for value in values]
    assert group_advantages(values, scale, estimator=estimator) == group_advantages(
        scaled, scale * factor, estimator=estimator
    )
    assert has_signal(values, (-100, 100)) == has_signal(scaled, (-100 * factor, 100 * factor))


@given(rewards, st.randoms(use_true_random=False))
def test_order_moves_with_the_trajectory(values: list[float | None], rng: random.Random) -> None:
    order = list(range(len(values)))
    rng.shuffle(order)
    plain = group_advantages(values, scale=1.0)
    assert group_advantages([values[i] for i in order], scale=1.0) == [plain[i] for i in order]
