"""Slurm jobs without Slurm: where processes go, the rendered script, what it does with exit codes and signals."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from train.__main__ import BAD_INPUT, main
from train.cluster import node
from train.cluster.meeting import Meeting, record, refusal
from train.cluster.placement import nodes_of_roles, placement_of, spread
from train.cluster.slurm import render
from train.compose import CONF, compose_run
from train.config_cluster import NodesConfig
from train.status import seconds_a_step, status_of
from train.sweep import combinations

SLURM = ("experiment=ci", "cluster=slurm", "tracking.wandb=disabled")


# --- which process on which node ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "nodes", "wanted"),
    [
        (4, [0, 1], [0, 0, 1, 1]),
        (3, [0, 1], [0, 0, 1]),
        (2, [3, 5], [3, 5]),
        (8, [1], [1] * 8),
        (5, [0, 1, 2], [0, 0, 1, 1, 2]),
    ],
)
def test_neighbours_share_a_node(count: int, nodes: list[int], wanted: list[int]) -> None:
    assert spread(count, nodes) == wanted


def test_groups_of_nodes_are_numbered_through() -> None:
    groups = {
        "train": NodesConfig(count=2, roles=["trainer"]),
        "roll": NodesConfig(count=1, roles=["engine", "worker"]),
        "cpu": NodesConfig(count=2, roles=["worker"]),
    }
    assert nodes_of_roles(groups) == {"trainer": [0, 1], "engine": [2], "worker": [2, 3, 4]}


def test_a_node_without_work_is_refused() -> None:
    two = (*SLURM, "cluster.interface=ib0", "cluster.nodes.main.count=2")
    placement = placement_of(compose_run(two).config.cluster)
    assert (placement.trainers, placement.engines, placement.workers) == ((0, 1), (0,), (0,))
    three = (*SLURM, "cluster.interface=ib0", "cluster.nodes.main.count=3")
    with pytest.raises(ValueError, match=r"node 2 would be idle; raise cluster\.engine\.count or"):
        placement_of(compose_run(three).config.cluster)


# --- the script --------------------------------------------------------------------------------------------------


def script_of(folder: Path, *arguments: str, runs: int = 1) -> str:
    composed = compose_run([*SLURM, f"runs_dir={folder}", *arguments])
    run_dirs = [folder / f"run-{number}" for number in range(runs)]
    return render(composed.config, run_dirs, (run_dirs[0] if runs == 1 else folder / "run") / "slurm")


def directives(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]


def test_every_option_arrives_in_the_script(tmp_path: Path) -> None:
    script = script_of(
        tmp_path,
        "cluster.nodes.main.count=2",
        "cluster.interface=ib0",
        "cluster.slurm.time=4:00:00",
        "cluster.slurm.signal_seconds=240",
        "cluster.slurm.python='/opt/py thon/bin/python'",
        "cluster.slurm.wrap='apptainer exec --nv image.sif'",
        "cluster.slurm.setup=['module load gcc','source /opt/env.sh']",
        "+cluster.slurm.options.partition=gpu",
        "+cluster.slurm.options.comment='it\\'s mine; rm -rf x'",
        "+cluster.slurm.options.exclusive=''",
        "+cluster.slurm.srun.container-image=/images/a.sqsh",
    )
    assert directives(script) == [
        "--job-name=run-0",
        f"--output={tmp_path}/run-0/slurm/job.log",
        "--open-mode=append",
        "--time=4:00:00",
        "--signal=B:USR1@240",
        "--requeue",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--partition=gpu",
        "--comment='it'\"'\"'s mine; rm -rf x'",
        "--exclusive",
    ]
    assert "python=(apptainer exec --nv image.sif '/opt/py thon/bin/python')" in script
    assert "\nmodule load gcc\nsource /opt/env.sh\n" in script
    (srun,) = re.findall(r"^srun .*", script, re.MULTILINE)
    assert "--nodes=2 --ntasks=2 --ntasks-per-node=1 --container-image=/images/a.sqsh" in srun
    assert "--kill-on-bad-exit=1" in srun and not re.search(r"@[A-Z_]+@", script)
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_groups_with_options_of_their_own_make_a_heterogeneous_job(tmp_path: Path) -> None:
    composed = compose_run(
        [*SLURM, f"runs_dir={tmp_path}", "cluster.interface=ib0", "+cluster.slurm.options.account=a"]
    )
    composed.config.cluster.nodes = {
        "gpu": NodesConfig(count=1, roles=["trainer", "engine"], options={"gres": "gpu:8"}),
        "cpu": NodesConfig(count=1, roles=["worker"], options={"constraint": "cpu"}),
    }
    script = render(composed.config, [tmp_path / "run"], tmp_path / "run" / "slurm")
    after = directives(script)[6:]
    wanted = ["--nodes=1", "--ntasks-per-node=1", "--account=a"]
    assert after == [*wanted, "--gres=gpu:8", "hetjob", *wanted, "--constraint=cpu"]
    assert "--het-group=0,1" in script


def test_an_array_takes_each_run_from_its_line(tmp_path: Path) -> None:
    script = script_of(tmp_path, "cluster.slurm.array_parallel=2", runs=3)
    assert "--array=0-2%2" in directives(script) and f"--output={tmp_path}/run/slurm/array-%a.log" in directives(script)
    (tmp_path / "run" / "slurm").mkdir(parents=True)
    (tmp_path / "run" / "slurm" / "runs.txt").write_text("/a\n/b c\n/d\n")
    (line,) = [line for line in script.splitlines() if line.startswith("run_dir=")]
    shown = subprocess.run(
        ["bash", "-euc", f'{line}; echo "$run_dir"'],
        env={"SLURM_ARRAY_TASK_ID": "1", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "/b c\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("cluster.nodes.main.count=2",), "cluster.interface is empty"),
        (("cluster.nodes.main.roles=[trainer,engine]",), "no group of nodes has the role worker"),
        (("cluster.nodes.main.roles=[trainer,engin,worker]",), "'engin' is not one of trainer, engine, worker"),
        (("cluster.nodes.main.count=0",), "count=0 must be greater"),
        (("cluster.slurm.time=''",), "cluster.slurm.time is empty"),
        (("cluster.ray_port=6379",), "cluster.ray_port=6379 is not read with cluster=slurm"),
        (("+cluster.slurm.options.output=x.log",), "cluster.slurm.options.output='x.log': this is written by the"),
        (("cluster.slurm.signal_seconds=0",), "signal_seconds=0 must be greater"),
    ],
)
def test_what_cannot_work_is_refused(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        compose_run([*SLURM, *arguments])


def test_slurm_options_without_slurm_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cluster\.slurm\.time=4:00:00 is not read with cluster=local; set it to ''"):
        compose_run(["cluster.slurm.time=4:00:00"])


def test_dry_run_prints_the_script_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SLURM, f"runs_dir={tmp_path}", "cluster.dry_run=true", "name=dry"]) == 0
    assert "#SBATCH --job-name=dry" in capsys.readouterr().out and list(tmp_path.iterdir()) == []


# --- what the script does, with a srun and a scontrol that are ours ----------------------------------------------

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_RESTART_COUNT": "1"}


def job(folder: Path, srun: str, scontrol: str = "exit 0", **environment: str) -> tuple[subprocess.Popen[str], Path]:
    """The rendered script, running, with stubs for Slurm's commands."""
    commands = folder / "bin"
    commands.mkdir()
    for name, body in (("srun", srun), ("scontrol", f'echo "$@" >{folder}/scontrol.txt; {scontrol}')):
        (commands / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (commands / name).chmod(0o755)
    run_dir = folder / "run-0"
    (run_dir / "slurm").mkdir(parents=True)
    script = folder / "job.sbatch"
    script.write_text(script_of(folder).replace("sleep 600 &", "exit 0 # as where Slurm ends it"))
    own = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "RAY_"))}
    own |= JOB | {"PATH": f"{commands}:{os.environ['PATH']}"} | environment
    return subprocess.Popen(
        ["bash", str(script)], env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ), run_dir


def words(run_dir: Path) -> list[str]:
    path = run_dir / "slurm" / "events.log"
    return [line.split()[3] for line in path.read_text().splitlines()] if path.exists() else []


def test_the_steps_exit_code_is_the_jobs(tmp_path: Path) -> None:
    process, run_dir = job(tmp_path, "exit 3")
    began = time.monotonic()
    assert process.wait(20) == 3 and time.monotonic() - began < 20
    assert words(run_dir) == ["started", "ended"] and not (tmp_path / "scontrol.txt").exists()


def test_the_first_failure_counts_not_the_highest_code(tmp_path: Path) -> None:
    """srun reports 143 for the nodes that it took down because one of them had failed with 3."""
    process, _ = job(tmp_path, 'echo 3 >"$JOINTRL_MEETING/exit"; exit 143')
    assert process.wait(20) == 3


def test_code_75_requeues(tmp_path: Path) -> None:
    process, run_dir = job(tmp_path, "exit 75")
    process.wait(20)
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 7\n" and words(run_dir) == ["started", "requeued"]


def test_a_signal_reaches_the_run_as_a_file_and_the_job_waits_for_it(tmp_path: Path) -> None:
    srun = 'until [[ -e "$JOINTRL_MEETING/stop" ]]; do sleep 0.05; done; sleep 0.3; echo saved; exit 75'
    process, run_dir = job(tmp_path, srun)
    deadline = time.monotonic() + 20
    while "started" not in words(run_dir) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)  # past the trap
    process.send_signal(signal.SIGUSR1)
    assert "saved" in process.communicate(timeout=20)[0]
    assert words(run_dir) == ["started", "signalled", "requeued"]
    (meeting,) = run_dir.glob("slurm/7.1")
    assert stat.S_IMODE(meeting.stat().st_mode) == 0o700


def test_a_preset_ray_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process, run_dir = job(tmp_path, "exit 0", RAY_ADDRESS="10.0.0.1:6379")
    assert process.wait(20) == 2 and words(run_dir) == ["refused"]
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert main([f"runs_dir={tmp_path}", "name=x"]) == BAD_INPUT
    assert "would join another Ray; unset it" in capsys.readouterr().err


# --- the node's watch over the driver -----------------------------------------------------------------------------

LATE_LISTENER = """
import signal, sys, time
time.sleep(1.0)  # imports: the first signal comes now
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
while not heard:
    time.sleep(0.05)
sys.exit(130)
"""


def test_a_stop_that_comes_before_the_driver_listens_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "ASK_SECONDS", 0.5)
    run_dir, meeting = tmp_path / "run", tmp_path / "meeting"
    meeting.mkdir()
    (run_dir / "slurm").mkdir(parents=True)
    config = compose_run([*SLURM]).config
    (meeting / "stop").touch()
    share = node.Share(
        run_dir=run_dir,
        config=config,
        meeting=Meeting(meeting),
        job="7",
        restart=0,
        number=0,
        num_nodes=1,
        scratch=tmp_path,
    )
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        driver = subprocess.Popen([sys.executable, "-c", LATE_LISTENER])
        assert node.watch(share, driver) == 130
    finally:
        signal.signal(signal.SIGUSR1, before)
    (run_dir / "slurm" / "starts.jsonl").write_text('{"job": "7", "restart": 0, "step": -1}\n')
    assert node.requeue_code(share, 130) == node.REQUEUE and node.requeue_code(share, 3) == 3
    (meeting / "stop").unlink()
    assert node.requeue_code(share, 130) == 130  # somebody pressed Ctrl-C: nobody asked for another allocation


# --- meeting, requeue, status ------------------------------------------------------------------------------------


def test_the_first_exit_code_is_kept(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path)
    assert meeting.ended() is None
    assert meeting.end(3) == 3 and meeting.end(0) == 3 and meeting.ended() == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exit"]


def test_the_token_is_its_owners_alone(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path)
    token = meeting.make_token()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600 and len(token.read_text()) == 64
    with pytest.raises(FileExistsError):
        meeting.make_token()


def start(step: int, job: str = "7") -> dict[str, object]:
    return {"job": job, "restart": 0, "step": step}


@pytest.mark.parametrize(
    ("earlier", "step", "maximum", "says"),
    [
        ([start(-1)], 5, 100, ""),
        ([start(-1)], -1, 100, ""),  # once without a step is forgiven
        ([start(-1), start(-1)], -1, 100, "two allocations in a row made no step beyond -1"),
        ([start(-1), start(5)], 5, 100, ""),
        ([start(5), start(5)], 5, 100, "two allocations in a row"),
        ([start(5), start(5)], 6, 100, ""),
        ([start(5, "6"), start(5)], 5, 100, ""),  # the other one was an earlier job's
        ([start(0), start(1)], 2, 1, "requeued cluster.slurm.max_requeues=1 times"),
        ([start(0), start(1)], 2, 2, ""),
    ],
)
def test_when_a_job_is_not_requeued(earlier: list[dict[str, object]], step: int, maximum: int, says: str) -> None:
    found = refusal(earlier, step, maximum)
    assert (says in found) if says else found == ""


def test_status_from_a_runs_folder(tmp_path: Path) -> None:
    """Two cold-start steps of 4 and three policy-gradient steps of 10, two seconds each, after a pause of an hour."""
    run_dir = tmp_path / "r"
    (run_dir / "slurm").mkdir(parents=True)
    stages = {
        "cold": {"order": 0, "kind": "sft", "steps": 4},
        "rl": {"order": 1, "kind": "rl", "steps": 10},
    }
    (run_dir / "config.json").write_text(json.dumps({"stage": stages, "steps": 0}))
    times = [100.0, 101.0, 3701.0, 3703.0, 3705.0]
    with (run_dir / "metrics.jsonl").open("w") as file:
        for number, (name, moment) in enumerate(zip(["cold"] * 2 + ["rl"] * 3, times, strict=True)):
            metrics = {f"{name}/time/step_seconds": 1.0}
            line = {"step": number + 1, "time": moment, "metrics": metrics, "series": {}, "non_finite": []}
            file.write(json.dumps(line) + "\n")
    (run_dir / "checkpoints" / "step-000003").mkdir(parents=True)
    record(run_dir, "7", 0, "started nodes=n1")
    (run_dir / "slurm" / "node-0.log").write_text("step 5\nerror: TrainerFailure: rank 1 died\nmore\n")
    found = status_of(run_dir, now=3715.0)
    assert (found.stage, found.step, found.left, found.total) == ("rl", 5, 7, 12)
    assert found.seconds_a_step == 2.0 and found.idle_seconds == 10.0
    assert found.checkpoint.endswith("step-000003") and found.fault == "error: TrainerFailure: rank 1 died"
    assert found.state == "not running" and found.events[0].endswith("job=7 restart=0 started nodes=n1")


def test_a_pause_does_not_move_the_rate() -> None:
    assert seconds_a_step([0.0, 2.0, 4.0, 1000.0, 1002.0]) == 2.0
    assert seconds_a_step([5.0]) is None


# --- sweeps ------------------------------------------------------------------------------------------------------


def test_every_combination_once_and_numbers_stay_numbers() -> None:
    found = combinations(["seed=0,1", "stage.rl.learning_rate=1e-6,5e-5,1e5", "mix.families.math=2"])
    assert len(found) == 6 and all(own[-1] == "mix.families.math=2" for own in found)
    rates = [compose_run(["experiment=ci", *own]).config.stage["rl"].learning_rate for own in found]
    assert rates == [1e-6, 5e-5, 1e5] * 2 and all(type(rate) is float for rate in rates)


def test_a_bad_value_anywhere_stops_the_sweep_before_its_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--multirun", "experiment=ci", f"runs_dir={tmp_path}", "algorithm.group_size=8,1"]) == BAD_INPUT
    assert "group_size=1 leaves no baseline" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
    assert main(["--multirun", "experiment=ci", "seed=0,1", "mix.show=true"]) == BAD_INPUT
    assert "leave out --multirun" in capsys.readouterr().err


# --- recipes that nobody here has the machines for ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "interface", "nodes", "placement"),
    [
        ("qwen3_30b_a3b_8gpu", "", "1", ([0] * 8, [0] * 8, [0] * 16)),
        ("qwen3_30b_a3b_2x8", "ib0", "2", ([0] * 8, [1] * 8, [1] * 16)),
    ],
)
def test_recipes_compose_validate_and_render(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    recipe: str,
    interface: str,
    nodes: str,
    placement: tuple[list[int], list[int], list[int]],
) -> None:
    (tmp_path / "model").mkdir()
    sizes = {"hidden_size": 2048, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}
    (tmp_path / "model" / "config.json").write_text(json.dumps(sizes))
    arguments = [f"experiment={recipe}", f"model.path={tmp_path}/model", f"cluster.interface={interface}"]
    assert main([*arguments, "name=x", f"runs_dir={tmp_path}", "cluster.dry_run=true"]) == 0
    script = capsys.readouterr().out
    assert {f"--nodes={nodes}", "--gres=gpu:8", "--cpus-per-task=96", "--mem=0"} <= set(directives(script))
    found = placement_of(compose_run(arguments).config.cluster)
    assert (list(found.trainers), list(found.engines), list(found.workers)) == placement
    assert "NOT RUN ON THIS HARDWARE" in (CONF / "experiment" / f"{recipe}.yaml").read_text()
