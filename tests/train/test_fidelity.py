"""The fidelity alarm by value, and the refusal of tokens of another version."""

from __future__ import annotations

import pytest

from envs.types import FinishReason, Message, Status, Task, Trajectory, Turn
from rewards.score import scored
from rollouts.engine import EngineFailure
from rollouts.group import Group, summarise
from rollouts.objects import GroupResult
from train.collect import check_versions
from train.fidelity import Fidelity, FidelityAlarm


def test_the_rolling_mean_weighs_tokens_and_forgets_what_left_the_window() -> None:
    fidelity = Fidelity(alarm=1.0, window=2)
    assert fidelity.mean == 0.0
    assert fidelity.observe(10.0, 100.0) == pytest.approx(0.1)
    assert fidelity.observe(0.0, 300.0) == pytest.approx(10.0 / 400.0)
    assert fidelity.observe(3.0, 100.0) == pytest.approx(3.0 / 400.0)


def test_a_matched_run_never_trips_it() -> None:
    fidelity = Fidelity(alarm=0.012, window=10)
    for _ in range(50):
        fidelity.observe(8.0, 1000.0)


def test_an_unquantised_trainer_trips_it_when_the_window_is_full() -> None:
    """0.023 nats is what it shows against an MXFP4 engine: under the gross bound, over the alarm."""
    fidelity = Fidelity(alarm=0.012, window=10)
    for _ in range(9):
        fidelity.observe(23.0, 1000.0)
    with pytest.raises(FidelityAlarm, match=r"0\.0230 nats over the last 10 steps.*0\.0120") as caught:
        fidelity.observe(23.0, 1000.0)
    assert "quant.trainer" in str(caught.value) and "temperature" in str(caught.value)


def test_one_noisy_step_does_not_but_a_gross_one_does_at_once() -> None:
    fidelity = Fidelity(alarm=0.012, window=10)
    fidelity.observe(19.0, 1000.0)
    with pytest.raises(FidelityAlarm, match=r"1\.8000 nats in this step"):
        fidelity.observe(1800.0, 1000.0)


def test_state_goes_on_where_it_stopped() -> None:
    straight = Fidelity(alarm=1.0, window=3)
    for total in (1.0, 2.0, 3.0):
        straight.observe(total, 10.0)
    resumed = Fidelity(alarm=1.0, window=3)
    resumed.load_state_dict(straight.state_dict())
    assert resumed.observe(4.0, 10.0) == straight.observe(4.0, 10.0) == pytest.approx(0.3)


def _result(*versions: int) -> GroupResult:
    task = Task(id="a/b/train/0", domain="a/b", split="train", index=0, prompt=(Message.of("user", "?"),))
    turns = [
        Turn([1], [2], [-0.5], [version], [False], Message.of("assistant", "x"), (), FinishReason.STOP)
        for version in versions
    ]
    trajectory = Trajectory(task, "low", 0, [[turn] for turn in turns], Status.DONE)
    return GroupResult(summarise(Group(0, task, "low", [trajectory], [scored(1.0)])))


def test_tokens_of_the_trainers_version_pass() -> None:
    check_versions(_result(7, 7), 7)


@pytest.mark.parametrize("versions", [(6, 6), (7, 6), (-1,)])
def test_one_token_of_another_version_is_refused(versions: tuple[int, ...]) -> None:
    """A skipped publish shows as old tokens, also where only one turn of a trajectory is old."""
    with pytest.raises(EngineFailure, match="nothing of this step was trained on"):
        check_versions(_result(*versions), 7)
