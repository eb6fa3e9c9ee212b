"""Runs as Slurm jobs, on a real slurmctld with two slurmd: two nodes, requeue and resume, faults, sweeps.

Both nodes are this machine, so their network is loopback; each has a Ray node, a trainer rank and processes of its own.
Those that start the stack more than once are `long`, but for the one that is the point: signal, requeue, resume.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration import slurm_cluster
from tests.integration.test_modes import ROOT, SMALL, assert_same_run, numbers, run

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

TWO_NODES = (*SMALL, "tracking.wandb=disabled", "cluster=slurm", "cluster.nodes.main.count=2", "cluster.interface=lo")
STEPS = 4
START_SECONDS, END_SECONDS = 400.0, 400.0  # as on a busy machine; an idle one takes 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runs' folder, with Slurm up.  Its path is short: sockets lie below."""
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("slurm")
    with slurm_cluster.running(path / "slurm"):
        yield path


@pytest.fixture(autouse=True)
def no_job_outlives_its_test() -> Iterator[None]:
    yield
    if not slurm_cluster.missing():
        subprocess.run(["scancel", "--user=root"], check=False)


def submit(folder: Path, name: str, *arguments: str) -> tuple[str, Path]:
    """Submit a two-node run; its job and its folder."""
    command = [sys.executable, "-m", "train", *TWO_NODES, f"runs_dir={folder}", f"name={name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    run_dir = folder / name
    return str(json.loads((run_dir / "slurm" / "job.json").read_text())["job"]), run_dir


def wait_until(condition: Callable[[], object], run_dir: Path, what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds:g} s\n{logs_of(run_dir)}"
        time.sleep(0.2)


def logs_of(run_dir: Path) -> str:
    return "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in sorted(run_dir.glob("slurm/*.log")))


def events(run_dir: Path) -> list[str]:
    """The words of what happened, without time, job and restart: ["submitted", "started", …]."""
    path = run_dir / "slurm" / "events.log"
    return [line.split()[3] for line in path.read_text().splitlines()] if path.exists() else []


def rl_steps(run_dir: Path) -> int:
    path = run_dir / "metrics.jsonl"
    return sum("rl/loss" in line or "rl/time/step_seconds" in line for line in path.open()) if path.exists() else 0


def ended(job: str) -> bool:
    return job not in slurm_cluster.jobs()


def processes_of(job: str) -> list[psutil.Process]:
    """Everything that carries the job's folder of temporary files, or its id, in its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SLURM_JOB_ID") == job:
                found.append(process)
        except psutil.Error:
            continue
    return found


def finish(job: str, run_dir: Path) -> dict[str, str]:
    """Wait for the job's end; what Slurm says of it.  Nothing of it is left."""
    wait_until(lambda: ended(job), run_dir, "end of the job", END_SECONDS)
    wait_until(lambda: not processes_of(job), run_dir, f"end of the processes {processes_of(job)}", 30.0)
    assert list(Path("/tmp").glob(f"jointrl-{job}-*")) == []
    return slurm_cluster.job(job)


@pytest.fixture(scope="module")
def straight(folder: Path) -> Path:
    """What the jobs below have to come to: a run on this machine, without Slurm, that nothing disturbed."""
    options = (*SMALL, "tracking.wandb=disabled", f"runs_dir={folder}", "name=straight", f"stage.rl.steps={STEPS}")
    run("train", *options)
    return folder / "straight"


@pytest.fixture(scope="module")
def signalled(folder: Path) -> Path:
    """A run over two nodes that was looked at, asked to stop, requeued, and went on to its end."""
    job, run_dir = submit(folder, "signalled", f"stage.rl.steps={STEPS}")
    wait_until(lambda: (run_dir / "metrics.jsonl").exists(), run_dir, "first step", START_SECONDS)
    seen = {
        "trainers": [name for name in names_of(job) if name.startswith("ray::TrainerActor")],
        "listeners": listeners(job),
        "scratch": sorted(str(path) for path in Path("/tmp").glob(f"jointrl-{job}-*")),
    }
    wait_until(lambda: rl_steps(run_dir) >= 1, run_dir, "policy-gradient step", START_SECONDS)
    subprocess.run(["scancel", "--batch", "--signal=USR1", job], check=True)
    wait_until(lambda: "requeued" in events(run_dir), run_dir, "requeue", END_SECONDS)
    said = finish(job, run_dir)
    (run_dir / "seen.json").write_text(json.dumps(seen | {"said": said}))
    return run_dir


def names_of(job: str) -> list[str]:
    return [" ".join(process.cmdline()) for process in processes_of(job)]


def listeners(job: str) -> list[str]:
    """Addresses on which any process of ours in the job listens (srun's own ports are Slurm's)."""
    found: set[str] = set()
    for process in processes_of(job):
        if process.name() in ("srun", "slurmstepd"):
            continue
        for connection in process.net_connections("inet"):
            listens = connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM
            if listens and not connection.raddr:
                found.add(connection.laddr.ip.removeprefix("::ffff:"))
    return sorted(found)


def test_signalled_requeued_resumed_is_the_run_that_nothing_disturbed(straight: Path, signalled: Path) -> None:
    said = json.loads((signalled / "seen.json").read_text())["said"]
    assert (said["JobState"], said["ExitCode"], said["Restarts"]) == ("COMPLETED", "0:0", "1"), logs_of(signalled)
    first = ["submitted", "started", "ready", "signalled", "requeued"]
    assert events(signalled) == [*first, "started", "ready", "resumed", "ended"]
    assert_same_run(straight, signalled)


def test_a_run_over_two_nodes(signalled: Path) -> None:
    script = (signalled / "slurm" / "job.sbatch").read_text()
    assert "#SBATCH --nodes=2" in script and "set -euo pipefail" in script
    # One trainer rank a node, each under the Ray of its own node, in both allocations.
    for restart in (0, 1):
        nodes = sorted(signalled.glob(f"slurm/*.{restart}/node-*"))
        assert [path.name for path in nodes if list(path.glob("worker-*"))] == ["node-0", "node-1"]


def test_nothing_of_a_job_is_for_others(signalled: Path) -> None:
    seen = json.loads((signalled / "seen.json").read_text())
    assert len(seen["trainers"]) == 2 and len(seen["scratch"]) == 2
    assert seen["listeners"] == ["127.0.0.1"]
    assert all(len(path) < 60 for path in seen["scratch"])
    meetings = [path for path in signalled.glob("slurm/*.[01]") if path.is_dir()]
    assert len(meetings) == 2
    for meeting in meetings:
        token = meeting / "token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600 and stat.S_IMODE(meeting.stat().st_mode) == 0o700
        secret = token.read_text()
        for path in signalled.glob("slurm/*.*"):
            assert path.is_dir() or secret not in path.read_text(), f"{path} holds the token"


@pytest.mark.parametrize("moment", ["starting", pytest.param("training", marks=pytest.mark.long)])
def test_a_killed_trainer_ends_the_job_with_its_code_in_seconds(folder: Path, moment: str) -> None:
    def trainers() -> list[psutil.Process]:
        return [item for item in processes_of(job) if " ".join(item.cmdline()).startswith("ray::TrainerActor")]

    job, run_dir = submit(folder, f"killed-{moment}", "stage.rl.steps=200")
    wait_until(trainers, run_dir, "trainer", START_SECONDS)
    if moment == "training":
        wait_until(lambda: rl_steps(run_dir) >= 1, run_dir, "policy-gradient step", START_SECONDS)
    trainers()[0].send_signal(signal.SIGKILL)
    began = time.monotonic()
    wait_until(lambda: slurm_cluster.job(job)["JobState"] == "FAILED", run_dir, "failed job", 20.0)
    assert time.monotonic() - began < 20
    said = finish(job, run_dir)
    assert said["ExitCode"] == "3:0"
    # Who notices first depends on what it was doing; both name it.
    log = (run_dir / "slurm" / "node-0.log").read_text()
    assert re.search(r"^error: (TrainerFailure|EngineFailure): .*died", log, re.MULTILINE), log[-2000:]
    assert events(run_dir)[-1] == "ended"


@pytest.mark.long
def test_a_time_limit_signals_requeues_and_resumes(folder: Path, straight: Path) -> None:
    """A limit of three minutes, the signal one minute before: no allocation can do all of it."""
    options = ("cluster.slurm.time=3", "cluster.slurm.signal_seconds=60", "stage.rl.steps=500")
    job, run_dir = submit(folder, "limited", *options)
    wait_until(lambda: "resumed" in events(run_dir) and rl_steps(run_dir) > 0, run_dir, "resume", 2 * START_SECONDS)
    assert events(run_dir)[:6] == ["submitted", "started", "ready", "signalled", "requeued", "started"]
    subprocess.run(["scancel", job], check=True)
    finish(job, run_dir)
    # The cold start and the first policy-gradient step, wherever the limit cut them apart.
    assert numbers(run_dir)[:21] == numbers(straight)[:21]


@pytest.mark.long
def test_scancel_leaves_nothing_behind(folder: Path) -> None:
    job, run_dir = submit(folder, "cancelled", "stage.rl.steps=200")
    wait_until(lambda: rl_steps(run_dir) >= 1, run_dir, "policy-gradient step", START_SECONDS)
    subprocess.run(["scancel", job], check=True)
    assert finish(job, run_dir)["JobState"] == "CANCELLED"
    assert "requeued" not in events(run_dir)


@pytest.mark.long
def test_a_node_that_goes_down_and_comes_back(folder: Path, straight: Path) -> None:
    job, run_dir = submit(folder, "down", f"stage.rl.steps={STEPS}", "checkpoint.every=1")
    wait_until(lambda: rl_steps(run_dir) >= 2, run_dir, "policy-gradient step", START_SECONDS)
    subprocess.run(["scontrol", "update", "node=n2", "state=down", "reason=test"], check=True)
    wait_until(lambda: slurm_cluster.job(job)["JobState"] == "PENDING", run_dir, "requeue by Slurm", 60.0)
    # Where slurmd has registered again meanwhile, the node is back already and there is nothing to resume.
    subprocess.run(["scontrol", "update", "node=n2", "state=resume"], check=False)
    said = finish(job, run_dir)
    assert (said["JobState"], said["Restarts"]) == ("COMPLETED", "1"), logs_of(run_dir)
    assert "resumed" in events(run_dir)
    assert [record["metrics"] for record in numbers(run_dir)] == [record["metrics"] for record in numbers(straight)]


@pytest.mark.long
def test_two_jobs_on_the_same_nodes_never_meet(folder: Path, straight: Path) -> None:
    submitted = [submit(folder, f"beside-{number}", f"stage.rl.steps={STEPS}") for number in range(2)]
    addresses = []
    for _, run_dir in submitted:
        wait_until(lambda path=run_dir: "ready" in events(path), run_dir, "ready", START_SECONDS)  # type: ignore[misc]
        (head,) = run_dir.glob("slurm/*.0/head.json")
        addresses.append(json.loads(head.read_text())["address"])
    assert len(set(addresses)) == 2
    for job, run_dir in submitted:
        assert finish(job, run_dir)["JobState"] == "COMPLETED", logs_of(run_dir)
        assert numbers(run_dir) == numbers(straight)


@pytest.mark.long
def test_an_array_of_three_seeds(folder: Path) -> None:
    command = [sys.executable, "-m", "train", "--multirun", *TWO_NODES, f"runs_dir={folder}", "name=seeds"]
    done = subprocess.run(
        [*command, "seed=0,1,2", "stage.rl.steps=2", "+cluster.slurm.options.cpus-per-task=4"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rewards = []
    for number in range(3):
        run_dir = folder / f"seeds-{number}"
        wait_until(lambda path=run_dir: "ended" in events(path), run_dir, "end", 3 * END_SECONDS)  # type: ignore[misc]
        assert "code=0" in (run_dir / "slurm" / "events.log").read_text().splitlines()[-1], logs_of(run_dir)
        assert json.loads((run_dir / "config.json").read_text())["seed"] == number
        rewards.append(numbers(run_dir)[-1]["metrics"])
    assert rewards[0] != rewards[1] != rewards[2]


@pytest.mark.long
def test_nothing_listens_on_another_interface_than_the_configured_one(folder: Path) -> None:
    others = [
        name
        for name, entries in psutil.net_if_addrs().items()
        if name != "lo" and any(entry.family == socket.AF_INET for entry in entries)
    ]
    if not others:
        pytest.skip("this machine has only loopback")
    job, run_dir = submit(folder, "interface", f"cluster.interface={others[0]}", "stage.rl.steps=200")
    wait_until(lambda: rl_steps(run_dir) >= 1, run_dir, "policy-gradient step", START_SECONDS)
    (own,) = [entry.address for entry in psutil.net_if_addrs()[others[0]] if entry.family == socket.AF_INET]
    assert set(listeners(job)) <= {own, "127.0.0.1"} and own in listeners(job)
    subprocess.run(["scancel", job], check=True)
    finish(job, run_dir)


def test_a_node_that_does_not_join_fails_the_job_by_its_number(folder: Path) -> None:
    """Node 1 is put to sleep before it begins; whoever waits for it says so, and takes it along."""
    lazy = folder / "lazy.sh"
    lazy.write_text('#!/bin/sh\n[ "$SLURM_PROCID" = 1 ] && exec sleep 600\nexec "$@"\n')
    lazy.chmod(0o755)
    job, run_dir = submit(folder, "lazy", f"cluster.slurm.wrap={lazy}", "cluster.slurm.join_seconds=5")
    assert finish(job, run_dir)["ExitCode"] == "3:0"
    log = (run_dir / "slurm" / "node-0.log").read_text()
    assert "1 of 2 nodes did not join within cluster.slurm.join_seconds=5: number 1; look at" in log
    assert events(run_dir) == ["submitted", "started", "ended"]


@pytest.mark.long
def test_groups_of_nodes_that_ask_for_different_things(folder: Path, straight: Path) -> None:
    """A heterogeneous job: one component trains, the other serves; both are one Ray.  It exports, too."""
    options = ("cluster=slurm_split", "cluster.nodes.main.count=1", "+cluster.nodes.serve.options.comment=serve")
    _, run_dir = submit(folder, "groups", *options, f"stage.rl.steps={STEPS}", "export=[mxfp4]")
    wait_until(lambda: "ended" in events(run_dir), run_dir, "end", START_SECONDS)
    assert "#SBATCH hetjob" in (run_dir / "slurm" / "job.sbatch").read_text()
    assert numbers(run_dir) == numbers(straight), logs_of(run_dir)
    proof = json.loads((run_dir / "export" / "mxfp4" / "proof.json").read_text())
    assert proof["passed"], proof


def test_a_bad_config_is_refused_before_anything_is_queued(folder: Path) -> None:
    command = [sys.executable, "-m", "train", *TWO_NODES, f"runs_dir={folder}", "name=bad", "stage.rl.learning_rat=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "did you mean 'stage.rl.learning_rate'" in done.stderr
    assert slurm_cluster.jobs() == [] and not (folder / "bad").exists()


def test_what_slurm_refuses_is_told_in_its_words(folder: Path) -> None:
    command = [sys.executable, "-m", "train", *TWO_NODES, f"runs_dir={folder}", "name=refused"]
    done = subprocess.run(
        [*command, "+cluster.slurm.options.partition=nowhere"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3 and "invalid partition" in done.stderr.lower()
    assert slurm_cluster.jobs() == []


def test_an_environment_that_points_at_another_ray_is_refused(folder: Path) -> None:
    command = [sys.executable, "-m", "train", *TWO_NODES, f"runs_dir={folder}", "name=preset"]
    environment = os.environ | {"RAY_ADDRESS": "127.0.0.1:6379"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "RAY_ADDRESS=127.0.0.1:6379" in done.stderr and slurm_cluster.jobs() == []
