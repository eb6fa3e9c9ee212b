"""`python -m train.status [RUN]`: where a run stands, from its folder and from Slurm; without RUN all runs in runs/.

In: a run folder, also of a run that is going on elsewhere.  Out: state, step, rate, time left, newest checkpoint, last
fault.  Reads only; starts nothing.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.cluster.meeting import EVENTS, FOLDER
from train.cluster.slurm import ENDED, JOB, state_of
from train.weights.state import RunLock, StorageFailure

RATE_STEPS = 20  # the median of so many last steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a run.  `seconds_a_step` is None before two steps; `left` counts steps, at most."""

    name: str
    state: str
    stage: str
    step: int
    total: int
    left: int
    seconds_a_step: float | None
    idle_seconds: float | None
    checkpoint: str
    events: tuple[str, ...]
    fault: str


def status_of(run_dir: Path, now: float) -> Status:
    """Read a run's folder.  Raises ValueError where it is none."""
    records = _metrics(run_dir)
    tree = _config(run_dir)
    stages = sorted(tree["stage"].items(), key=lambda item: item[1]["order"])
    steps = {name: _stage_steps(stage, tree["steps"]) for name, stage in stages}
    stage = _stage_of(records, list(steps))
    own = [record for record in records if stage and _stage_of([record], [stage])]
    later = list(steps)[list(steps).index(stage) + 1 :] if stage else list(steps)
    left = (steps[stage] - len(own) if stage else 0) + sum(steps[name] for name in later)
    events = _lines(run_dir / FOLDER / EVENTS)
    return Status(
        name=run_dir.name,
        state=_state(run_dir),
        stage=stage,
        step=records[-1]["step"] if records else 0,
        total=(records[-1]["step"] if records else 0) + max(left, 0),
        left=max(left, 0),
        seconds_a_step=seconds_a_step([record["time"] for record in own]),
        idle_seconds=now - records[-1]["time"] if records else None,
        checkpoint=_newest_checkpoint(run_dir),
        events=tuple(events[-5:]),
        fault=_fault(run_dir),
    )


def seconds_a_step(times: Sequence[float]) -> float | None:
    """Median distance of the last steps' times; a pause between two allocations does not move it."""
    recent = times[-RATE_STEPS - 1 :]
    gaps = [later - earlier for earlier, later in itertools.pairwise(recent)]
    return statistics.median(gaps) if gaps else None


def render(status: Status) -> str:
    """A few lines for a terminal."""
    rate = f"{status.seconds_a_step:.1f} s a step" if status.seconds_a_step else "no rate yet"
    eta = f", at most {_span(status.left * status.seconds_a_step)} left" if status.seconds_a_step else ""
    if status.left == 0 and status.step:
        eta = ", all steps done"
    lines = [
        f"{status.name}: {status.state}",
        f"  step        {status.step} of at most {status.total} ({status.stage or 'not begun'}), {rate}{eta}",
        f"  checkpoint  {status.checkpoint or 'none yet'}",
    ]
    if status.idle_seconds is not None:
        lines.append(f"  last step   {_span(status.idle_seconds)} ago")
    lines += [f"  event       {event}" for event in status.events]
    if status.fault:
        lines.append(f"  last fault  {status.fault}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(item.startswith("-") for item in arguments):
        print("usage: python -m train.status [RUN]", file=sys.stderr)
        return 2
    run_dirs = [Path(arguments[0])] if arguments else _runs(Path("runs"))
    if not run_dirs:
        print("no runs in runs/; give a run's folder")
    for run_dir in run_dirs:
        try:
            print(render(status_of(run_dir, time.time())))
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    return 0


def _runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/config.json"))


def _config(run_dir: Path) -> dict[str, Any]:
    """The run's own once it has begun, else the one that was submitted."""
    for path in (run_dir / "config.json", run_dir / FOLDER / "config.json"):
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
    raise ValueError(f"{run_dir} is no run's folder (it has no config.json)")


def _metrics(run_dir: Path) -> list[dict[str, Any]]:
    from train.tracking import read_metrics

    return read_metrics(run_dir) if (run_dir / "metrics.jsonl").exists() else []


def _stage_steps(stage: Mapping[str, Any], limit: int) -> int:
    steps: int = stage["steps"]
    return min(steps, limit) if stage["kind"] == "rl" and limit else steps


def _stage_of(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """The stage that the last of these steps belongs to: its metrics begin with the stage's name."""
    for record in reversed(records):
        for name in names:
            if f"{name}/time/step_seconds" in record["metrics"]:
                return name
    return ""


def _state(run_dir: Path) -> str:
    path = run_dir / FOLDER / JOB
    if path.exists():
        job = json.loads(path.read_text(encoding="utf-8"))["job"]
        state = state_of(job)
        return f"job {job} {state or 'is not known to Slurm any more'}" + ("" if state in ENDED else _nodes(job))
    try:
        with RunLock(run_dir):
            return "finished" if (run_dir / "summary.json").exists() else "not running"
    except StorageFailure as error:
        return f"running ({str(error).rpartition(' in use by ')[2]})"


def _nodes(job: str) -> str:
    import subprocess

    command = ["squeue", "--noheader", "--format=%R %M of %l", f"--jobs={job}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f" ({done.stdout.strip()})" if done.stdout.strip() else ""


def _newest_checkpoint(run_dir: Path) -> str:
    """By name; it is verified when it is read."""
    folder = run_dir / "checkpoints"
    found = sorted(path.name for path in folder.glob("step-*")) if folder.is_dir() else []
    return str(folder / found[-1]) if found else ""


def _fault(run_dir: Path) -> str:
    """The last line of a job's logs that begins with "error:"."""
    logs = sorted((run_dir / FOLDER).glob("*.log"), key=lambda path: path.stat().st_mtime)
    found = [line for path in logs for line in _lines(path) if line.startswith("error:")]
    return found[-1] if found else ""


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
