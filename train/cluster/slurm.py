"""Slurm jobs: the script of a run, its submission, and what Slurm says of it.

In: a checked run and its folder.  Out: `slurm/job.sbatch` there, and a job in Slurm's queue.  Called by
`train.__main__` with `cluster=slurm`; the script is slurm/train.sbatch, filled in.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from train.cluster.meeting import FOLDER, record
from train.cluster.placement import placement_of
from train.compose import Composed
from train.config import Config
from train.weights.state import write_json_atomic

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "slurm" / "train.sbatch"
SCRIPT, JOB = "job.sbatch", "job.json"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "")


class SlurmFailure(Exception):
    """Slurm refused, or is not here; the text is its own."""


def launch(runs: Sequence[tuple[Composed, Path]], sweep_dir: Path | None = None) -> int:
    """Submit one run, or several as one array; with `cluster.dry_run` only print the script.  Returns an exit code.

    Everything was checked before.  Raises SlurmFailure where Slurm refuses, ValueError where a run has a job already.
    """
    config = runs[0][0].config
    folder = (sweep_dir or runs[0][1]) / FOLDER
    script = render(config, [run_dir for _, run_dir in runs], folder)
    if config.cluster.dry_run:
        print(script)
        return 0
    for _, run_dir in runs:
        check_no_job(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for composed, run_dir in runs:
        (run_dir / FOLDER).mkdir(parents=True, exist_ok=True)
        write_json_atomic(run_dir / FOLDER / "config.json", composed.tree)
    (folder / "runs.txt").write_text("".join(f"{run_dir.resolve()}\n" for _, run_dir in runs), encoding="utf-8")
    path = folder / SCRIPT
    path.write_text(script, encoding="utf-8")
    job = submit(path)
    for number, (_, run_dir) in enumerate(runs):
        own = f"{job}_{number}" if sweep_dir is not None else job
        write_json_atomic(run_dir / FOLDER / JOB, {"job": own, "script": str(path.resolve())})
        print(f"[slurm] {record(run_dir, own, 0, 'submitted')}")
    print(f"[slurm] script   {path}")
    print(f"[slurm] logs     {runs[0][1] / FOLDER}/job.log, node-0.log (progress)")
    print(f"[slurm] watch    python -m train.status {runs[0][1]}")
    print(f"[slurm] stop     scancel --batch --signal=USR1 {job}   (with a checkpoint, and requeued)")
    print(f"[slurm] cancel   scancel {job}")
    return 0


def submit(script: Path) -> str:
    """Hand a script to sbatch; the job's id."""
    if shutil.which("sbatch") is None:
        raise SlurmFailure("there is no sbatch here: submit from a machine that has Slurm's commands (a login node)")
    done = subprocess.run(["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SlurmFailure(f"sbatch refused {script}: {done.stderr.strip()}")
    return done.stdout.strip().split(";")[0]


def check_no_job(run_dir: Path) -> None:
    """Raises ValueError where this run already has a job that has not ended."""
    path = run_dir / FOLDER / JOB
    if not path.exists():
        return
    job = json.loads(path.read_text(encoding="utf-8"))["job"]
    state = state_of(job)
    if state not in ENDED:
        raise ValueError(f"name={run_dir.name}: job {job} of this run is {state}; wait for it, or `scancel {job}`")


def state_of(job: str) -> str:
    """Slurm's word for the job (PENDING, RUNNING, …), empty where Slurm does not know it any more."""
    if shutil.which("squeue") is None:
        return ""
    command = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout.split() or [""])[0]


def render(config: Config, run_dirs: Sequence[Path], folder: Path) -> str:
    """The whole script.  One run, or an array of several whose folders stand in `folder`/runs.txt."""
    placement_of(config.cluster)  # refuses nodes that would be idle
    is_array = len(run_dirs) > 1 or folder.parent != run_dirs[0]
    run_dir = shlex.quote(str(run_dirs[0].resolve()))
    if is_array:
        listed = shlex.quote(str((folder / "runs.txt").resolve()))
        run_dir = f'$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {listed})'
    slurm = config.cluster.slurm
    values = {
        "DIRECTIVES": "\n".join(directives(config, run_dirs, folder, is_array)),
        "SIGNAL_SECONDS": str(slurm.signal_seconds),
        "RUN_DIR": run_dir,
        "PYTHON": " ".join([*map(shlex.quote, shlex.split(slurm.wrap)), shlex.quote(slurm.python or sys.executable)]),
        "ROOT": shlex.quote(str(ROOT)),
        "SETUP": "\n".join(slurm.setup) or "# (cluster.slurm.setup is empty)",
        "SRUN": srun_command(config),
    }
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], TEMPLATE.read_text(encoding="utf-8"))


def directives(config: Config, run_dirs: Sequence[Path], folder: Path, is_array: bool) -> list[str]:
    """The #SBATCH lines; a component each where groups of nodes differ."""
    slurm = config.cluster.slurm
    log = folder.resolve() / ("array-%a.log" if is_array else "job.log")
    common = {
        "job-name": run_dirs[0].name if not is_array else folder.parent.name,
        "output": str(log),
        "open-mode": "append",
        "time": slurm.time,
        "signal": f"B:USR1@{slurm.signal_seconds}",
        "requeue": "",
    }
    if is_array:
        limit = f"%{slurm.array_parallel}" if slurm.array_parallel else ""
        common["array"] = f"0-{len(run_dirs) - 1}{limit}"
    groups = list(config.cluster.nodes.values())
    if not is_heterogeneous(config):
        nodes = {"nodes": str(sum(group.count for group in groups)), "ntasks-per-node": "1"}
        return lines(common | nodes | slurm.options)
    if is_array:
        raise ValueError("cluster.nodes.<name>.options: Slurm has no arrays of heterogeneous jobs; submit them singly")
    found = lines(common)
    for number, group in enumerate(groups):
        found += ["#SBATCH hetjob"] if number else []
        found += lines({"nodes": str(group.count), "ntasks-per-node": "1"} | slurm.options | group.options)
    return found


def is_heterogeneous(config: Config) -> bool:
    """Whether groups of nodes ask Slurm for different things."""
    return any(group.options for group in config.cluster.nodes.values())


def srun_command(config: Config) -> str:
    """One task on every node; where one fails, all end at once."""
    options = {"kill-on-bad-exit": "1", "open-mode": "append", "output": "$run_dir/slurm/node-%t.log"}
    if is_heterogeneous(config):
        options["het-group"] = ",".join(str(number) for number in range(len(config.cluster.nodes)))
    else:
        total = sum(group.count for group in config.cluster.nodes.values())
        options |= {"nodes": str(total), "ntasks": str(total), "ntasks-per-node": "1"}
    words = [f'--{name}="{value}"' if "$" in value else option(name, value) for name, value in options.items()]
    words += [option(name, value) for name, value in config.cluster.slurm.srun.items()]
    # srun does not take this over from sbatch by itself.
    return " ".join(["srun", *words, '${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"}'])


def lines(options: Mapping[str, str]) -> list[str]:
    return [f"#SBATCH {option(name, value)}" for name, value in options.items()]


def option(name: str, value: str) -> str:
    """A long option, quoted where that is needed; without a value where it has none."""
    return f"--{name}={shlex.quote(str(value))}" if value not in ("", None) else f"--{name}"
