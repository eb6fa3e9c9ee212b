"""What a user can do with a run: stop and go on, roll out only, train only, evaluate, export in the other format.

Each command starts the whole stack, which takes most of a minute: all of this is `long`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from rollouts.store import read_groups
from train.__main__ import OK
from train.checkpoint import load, newest
from train.tracking import read_metrics

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "experiment=ci",
    "export=[]",
    "stage.cold_start.steps=20",
    "stage.cold_start.probe_every=0",
    "stage.cold_start.probe_tasks=0",
    "stage.cold_start.stop_accuracy=0",
    "algorithm.groups_per_step=12",
    "algorithm.group_size=8",
    "evaluate.tasks_per_domain=8",
    "checkpoint.canary_tokens=500",
    "checkpoint.keep=9",
)


def run(module: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == OK, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with `straight`: a short cold start and ten policy-gradient steps that were never interrupted."""
    folder = tmp_path_factory.mktemp("runs")
    run("train", *SMALL, f"runs_dir={folder}", "name=straight", "stage.rl.steps=10")
    return folder


def numbers(run_dir: Path) -> list[dict[str, Any]]:
    """All that was logged, less the clock."""
    return [
        {
            "step": record["step"],
            "metrics": {name: value for name, value in record["metrics"].items() if "/time/" not in name},
            "series": record["series"],
        }
        for record in read_metrics(run_dir)
    ]


def test_stopped_and_resumed_is_to_the_bit_what_was_never_stopped(runs: Path) -> None:
    arguments = (*SMALL, f"runs_dir={runs}", "name=resumed", "stage.rl.steps=10")
    assert "to go on: python -m train" in run("train", *arguments, "stop_after=5")
    assert "resuming from" in run("train", *arguments)
    assert newest(runs / "straight").path.name == "step-000030"
    assert_same_run(runs / "straight", runs / "resumed")


def test_a_finished_run_that_is_started_again_ends_as_it_was(runs: Path) -> None:
    """As after a kill between the last save and the end: all that is left to do is to sum up (and to export)."""
    arguments = (*SMALL, f"runs_dir={runs}", "name=straight", "stage.rl.steps=10")
    before, logged = (runs / "straight" / "summary.json").read_text(), numbers(runs / "straight")
    (runs / "straight" / "summary.json").unlink()
    assert f"done: {runs / 'straight'}" in run("train", *arguments)
    after = json.loads((runs / "straight" / "summary.json").read_text())
    assert after["accuracy"] == json.loads(before)["accuracy"] and numbers(runs / "straight") == logged


def test_fewer_ranks_go_on_from_the_same_checkpoint(runs: Path) -> None:
    """Two ranks with half of the experts each, then one with all: the same weights, and so the same rollouts."""
    saved = sorted((runs / "straight" / "checkpoints").glob("step-*"))
    arguments = (*SMALL, f"runs_dir={runs}", "name=fewer", f"resume={saved[0]}", "stage.rl.steps=10", "steps=1")
    said = run("train", *arguments, "cluster.trainer.ranks=1", "cluster.trainer.expert_parallel=1")
    assert "cluster.trainer.ranks: 2 -> 1" in said
    found, wanted = (
        next(record["metrics"] for record in read_metrics(runs / name) if "rl/loss" in record["metrics"])
        for name in ("fewer", "straight")
    )
    assert found["rl/tokens"] == wanted["rl/tokens"] and found["rl/reward/mean"] == wanted["rl/reward/mean"]
    for name in ("rl/loss", "rl/gradient_norm", "rl/entropy", "rl/fidelity/mismatch"):
        assert found[name] == pytest.approx(wanted[name], rel=1e-5), name
    ours, theirs = load(saved[0]), newest(runs / "fewer")
    assert theirs.path.name == "step-000021" and theirs.masters.keys() == ours.masters.keys()


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, moments, state, canary, samples and everything that was logged but the clock, to the bit."""
    straight, resumed = newest(one), newest(other)
    assert straight.path.name == resumed.path.name
    for ours, theirs in ((straight.masters, resumed.masters), (straight.moments, resumed.moments)):
        assert ours.keys() == theirs.keys() and len(ours) > 20
        assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    for saved in (straight, resumed):
        del saved.run["engine"]["settings"]["model"]  # a path in the run's own folder
    for key in straight.run.keys() - {"seconds"}:
        assert straight.run[key] == resumed.run[key], key
    assert straight.canary == resumed.canary
    assert numbers(one) == numbers(other)
    assert samples(one) == samples(other)


def samples(run_dir: Path) -> dict[str, list[Any]]:
    """What was rolled out in each step, token by token."""
    found: dict[str, list[Any]] = {}
    for path in sorted((run_dir / "trajectories").glob("step-*.parquet")):
        groups = read_groups(path)
        turns = [turn for group in groups for trajectory in group.trajectories for turn in trajectory.turns]
        found[path.name] = [
            [(group.task.id, group.values) for group in groups],
            [(turn.prompt_ids, turn.completion_ids, turn.logprobs, turn.versions) for turn in turns],
        ]
    return found


def test_rollout_only_stores_groups_and_trains_nothing_after_the_cold_start(runs: Path) -> None:
    run("train", *SMALL, f"runs_dir={runs}", "name=rollouts", "stage.rl.steps=2", "mode=rollout_only")
    records = read_metrics(runs / "rollouts")
    for stage, steps in (("cold_start", list(range(1, 21))), ("rl", [21, 22])):
        found = [record["step"] for record in records if f"{stage}/time/step_seconds" in record["metrics"]]
        assert found == steps, stage
    assert len(list((runs / "rollouts" / "trajectories").glob("step-*.parquet"))) == 2
    assert not (runs / "rollouts" / "checkpoints").exists()


def test_train_only_learns_from_stored_groups_what_the_run_learnt(runs: Path) -> None:
    """Same start, same groups: the first step has the loss and gradient that it had when they were rolled out."""
    start = load(min((runs / "straight" / "checkpoints").glob("step-*")))
    trajectories = runs / "straight" / "trajectories"
    arguments = (*SMALL, f"runs_dir={runs}", "name=offline", f"resume={start.path}", "stage.rl.steps=10", "steps=1")
    run("train", *arguments, "mode=train_only", f"trajectories={trajectories}")
    found, wanted = (
        next(record["metrics"] for record in read_metrics(runs / name) if "rl/loss" in record["metrics"])
        for name in ("offline", "straight")
    )
    for name in ("rl/loss", "rl/gradient_norm", "rl/tokens", "rl/fidelity/mismatch"):
        assert found[name] == pytest.approx(wanted[name], rel=1e-6), name


def test_evaluate_gives_the_accuracy_that_the_run_had(runs: Path) -> None:
    text = run("train.evaluate", f"run={runs / 'straight'}")
    document = json.loads((runs / "straight" / "evaluation-step-000030.json").read_text())
    after = newest(runs / "straight").run["evaluations"]["after"]
    assert document["scores"] == after["scores"]
    assert f"{document['mean']:.4f}" in text


def test_steps_ends_after_so_many_policy_gradient_steps(runs: Path) -> None:
    start = load(min((runs / "straight" / "checkpoints").glob("step-*")))
    run("train", *SMALL, f"runs_dir={runs}", "name=one", f"resume={start.path}", "steps=1")
    assert newest(runs / "one").run["version"] == start.run["version"] + 1


@pytest.mark.parametrize("preset", ["grpo", "gspo", "icepop", "cispo"])
def test_other_recipes_with_several_updates_a_batch(runs: Path, preset: str) -> None:
    """Two steps of three updates each (no more than groups), from the same start.

    The alarm compares before the first update.
    """
    start = load(min((runs / "straight" / "checkpoints").glob("step-*")))
    arguments = (*SMALL, f"runs_dir={runs}", f"name={preset}", f"resume={start.path}", "steps=2")
    run("train", *arguments, f"algorithm={preset}", "algorithm.updates=3")
    ended = newest(runs / preset)
    assert ended.run["version"] == start.run["version"] + 2
    found = [record["metrics"] for record in read_metrics(runs / preset) if "rl/loss" in record["metrics"]]
    updates = [min(3, int(step["rl/groups/accepted"])) for step in found]
    assert ended.run["adam_step"] == start.run["adam_step"] + sum(updates) and max(updates) == 3
    counted = "rl/loss/popped" if preset == "icepop" else "rl/loss/clipped_high"
    assert len(found) == 2 and all(0 <= step[counted] < 0.5 and step["rl/gradient_norm"] > 0 for step in found)
    straight = next(record["metrics"] for record in read_metrics(runs / "straight") if "rl/loss" in record["metrics"])
    assert found[0]["rl/fidelity/mismatch"] == pytest.approx(straight["rl/fidelity/mismatch"], rel=1e-5)
    assert found[0]["rl/reward/mean"] == straight["rl/reward/mean"]
