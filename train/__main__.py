"""`python -m train [experiment=toy] [key=value …]`: compose, check, launch, run, export, prove, summarise.

With `cluster=slurm` the run is checked here and launched in a job; with `--multirun key=a,b,c` there are several.

Exit codes: 0 done; 1 an export was not proven; 2 a mistake in what was asked for (nothing was started, no folder was
made); 3 something that the run needs failed (its folder and logs are kept); 4 the fidelity alarm; 130 stopped by a
signal after a checkpoint.
"""

from __future__ import annotations

import datetime
import difflib
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from train.compose import CONF, Composed, choices_of, compose_run, known_keys
from train.weights.state import RunLock, StorageFailure, write_json_atomic

if TYPE_CHECKING:
    from train.checkpoint import Checkpoint
    from train.run import Run

OK, NOT_PROVEN, BAD_INPUT, FAILED, ALARM, STOPPED = 0, 1, 2, 3, 4, 130
_SHOWN_LINES = 5


def main(arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(help_text())
        return OK
    if {"-m", "--multirun"} & set(arguments):
        from train.sweep import sweep

        return sweep([item for item in arguments if item not in ("-m", "--multirun")])
    try:
        composed = compose_run(arguments)
        show_mixes(composed)
        if composed.config.mix.show:
            return OK
        run_dir, saved = place(composed)
        check_before_start(composed)
        if composed.config.cluster.launcher == "slurm":
            return submit([(composed, run_dir)])
    except (ValueError, StorageFailure) as error:
        return complain(error)
    return run_in(composed, run_dir, saved)


def submit(runs: list[tuple[Composed, Path]], sweep_dir: Path | None = None) -> int:
    """Hand checked runs to Slurm: one as a job, those of a sweep as an array.  Raises ValueError."""
    from train.cluster.slurm import SlurmFailure, launch

    try:
        return launch(runs, sweep_dir)
    except SlurmFailure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return FAILED


def run_in(composed: Composed, run_dir: Path, saved: Checkpoint | None) -> int:
    """The run itself, in its folder, which is locked for as long."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        with RunLock(run_dir):
            write_json_atomic(run_dir / "config.json", composed.tree)
            return _guarded(composed, run_dir, saved)
    except StorageFailure as error:
        return complain(error)


def _guarded(composed: Composed, run_dir: Path, saved: Checkpoint | None) -> int:
    """Run, and turn each kind of failure into its exit code and a few lines that say what to do."""
    from rollouts.engine import EngineFailure
    from train.collect import EmptyBatch
    from train.fidelity import FidelityAlarm
    from train.loop import Stopped
    from train.policy.workers import TrainerFailure

    stop = StopSignal()
    try:
        with stop:
            train_and_export = _train(composed, run_dir, saved, stop)
    except Stopped as stopped:
        print(f"[run] stopped with a checkpoint at step {stopped.step}")
        print(f"[run] to go on: python -m train {_resume_arguments(composed, run_dir)}")
        return STOPPED if stop() else OK
    except FidelityAlarm as alarm:
        print(f"error: fidelity alarm: {alarm}", file=sys.stderr)
        return ALARM
    except (EngineFailure, TrainerFailure, EmptyBatch, FloatingPointError, StorageFailure) as failure:
        lines = [line for line in str(failure).splitlines() if line.strip()]
        print(f"error: {type(failure).__name__}: " + "\n".join(lines[:1] + lines[1:][-_SHOWN_LINES:]), file=sys.stderr)
        print(f"logs of all processes: {run_dir / 'logs'}", file=sys.stderr)
        return FAILED
    return finish(composed, run_dir, train_and_export)


def _train(composed: Composed, run_dir: Path, saved: Checkpoint | None, stop: StopSignal) -> dict[str, Any]:
    """Launch, run all stages, take everything down; returns the summary."""
    from train.launch import engine_format, launched
    from train.loop import run_stages
    from train.run import state
    from train.summary import MemoryWatch, make_summary

    _, note = engine_format(composed.config)
    if note:
        print(f"[run] {note}")
    print(
        f"[run] {run_dir}: starting Ray, {composed.config.cluster.trainer.ranks} trainer ranks, "
        f"{composed.config.cluster.engine.count} engine(s)",
        flush=True,
    )
    if saved is not None:
        print(f"[run] resuming from {saved.path}")
        for line in config_difference(saved.config, composed.tree):
            print(f"[run]   changed since: {line}")
    with MemoryWatch() as memory, launched(composed, run_dir, stop, saved) as run:
        stop.listen()  # again: Ray has put its own handlers in the place of ours
        run_stages(run)
        summary = make_summary(run_dir, composed.tree, state(run), memory.peak)
        _show_accuracy(run)
    return summary


def finish(composed: Composed, run_dir: Path, summary: dict[str, Any]) -> int:
    """Export and prove (each as its own command, with nothing else in memory), write the summary, say where all is."""
    codes = {}
    formats = composed.config.export if composed.config.mode != "rollout_only" else []
    for format in formats:
        command = [sys.executable, "-m", "train.export", f"run={run_dir}", f"format={format}"]
        codes[format] = subprocess.run(command, check=False).returncode
    summary["export"] = {format: code == 0 for format, code in codes.items()}
    write_json_atomic(run_dir / "summary.json", summary)
    print(f"\n[run] done: {run_dir}")
    for name, what in _written(composed):
        if (run_dir / name).exists():
            print(f"[run]   {name:<16} {what}")
    return OK if all(code == 0 for code in codes.values()) else NOT_PROVEN


def _written(composed: Composed) -> list[tuple[str, str]]:
    return [
        ("summary.json", "accuracy before and after, mismatch, seconds, memory, versions"),
        ("metrics.jsonl", "every number of every step"),
        ("config.json", "the resolved config"),
        ("held_out.json", "ids of the evaluation's tasks"),
        ("trajectories", "what was rolled out, parquet"),
        ("checkpoints", "to resume from"),
        ("export", f"to serve from, with proof.json ({', '.join(composed.config.export)})"),
        ("wandb", "W&B's files: `wandb sync` uploads them"),
        ("logs", "of all processes"),
    ]


def _show_accuracy(run: Run) -> None:
    from rich.console import Console

    from train.evaluate import Evaluation
    from train.summary import accuracy, domain_rows
    from train.tracking import domain_table

    if not {"before", "after"} <= set(run.evaluations):
        return
    before, after = (Evaluation.from_dict(run.evaluations[label]) for label in ("before", "after"))
    Console().print(domain_table(domain_rows(before, after)))
    found = accuracy(before, after)
    low, high = found["interval_95"]
    print(
        f"[run] mean held-out accuracy {found['mean_before']:.3f} -> {found['mean_after']:.3f}, "
        f"difference {found['mean_difference']:+.3f} (95 % interval {low:+.3f} to {high:+.3f})"
    )


def place(composed: Composed) -> tuple[Path, Checkpoint | None]:
    """The run's folder and the checkpoint to go on from.  Creates nothing.  Raises ValueError or StorageFailure."""
    from train.checkpoint import FOLDER, newest

    config = composed.config
    given = None if config.resume in ("auto", "never") else Path(config.resume)
    if given is not None and not given.exists():
        raise ValueError(f"resume={config.resume} does not exist; give a checkpoint, a run folder, auto or never")
    try:
        saved = newest(given) if given is not None else None
    except StorageFailure as error:
        raise StorageFailure(f"resume={config.resume}: {error}") from error
    if config.name:
        run_dir = Path(config.runs_dir) / config.name
    elif saved is not None:
        run_dir = saved.path.parent.parent
    else:
        now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        run_dir = Path(config.runs_dir) / f"{config.experiment}-{now}"
    composed.tree["name"] = config.name = run_dir.name
    folder = run_dir / FOLDER
    has_checkpoints = folder.is_dir() and any(folder.glob("step-*"))
    if has_checkpoints and config.resume == "never":
        raise ValueError(f"resume=never, but {run_dir} has checkpoints; choose another name or resume=auto")
    if has_checkpoints and config.resume == "auto":
        saved = newest(run_dir)
    if saved is not None:
        _check_same_model(saved, composed)
    if run_dir.is_dir():
        _check_free(run_dir)
    return run_dir, saved


def _check_same_model(saved: Checkpoint, composed: Composed) -> None:
    """Sizes of a model that was built here; those of a loaded one show when its tensors are put back."""
    theirs, ours = saved.config["model"], composed.tree["model"]
    for name in ("source", "hidden_size", "expert_size", "num_layers", "num_experts"):
        if theirs[name] != ours[name]:
            raise ValueError(
                f"model.{name}={ours[name]}: the checkpoint {saved.path} is of another model ({theirs[name]}); resume "
                "with its settings, or choose another name"
            )


def _check_free(run_dir: Path) -> None:
    try:
        with RunLock(run_dir):
            pass
    except StorageFailure as error:
        raise StorageFailure(f"name={run_dir.name}: {error}; wait for its end, or choose another name") from error


def check_before_start(composed: Composed) -> None:
    """What can be known to fail without starting anything.  Raises ValueError."""
    from rewards.advantages import estimators
    from train.launch import check_model
    from train.loop import loss_options
    from train.policy.losses import LOSSES
    from train.steer import make_retired

    config = composed.config
    if os.environ.get("RAY_ADDRESS"):
        raise ValueError(
            f"RAY_ADDRESS={os.environ['RAY_ADDRESS']} is set in the environment: this run would join another Ray; "
            "unset it"
        )
    algorithm = config.algorithm
    usable = [name for name, spec in LOSSES.items() if not spec.needs_reference]
    _check_one_of(f"algorithm.loss={algorithm.loss!r}", algorithm.loss, usable)
    _check_one_of(f"algorithm.estimator={algorithm.estimator!r}", algorithm.estimator, list(estimators))
    in_parts = sorted(name for name, domain in composed.domains.items() if domain.parts)
    if estimators[algorithm.estimator].per_turn and in_parts and algorithm.scale == "domain":
        raise ValueError(
            f"algorithm.estimator={algorithm.estimator} gives each turn an advantage, and the reward of {in_parts[0]} "
            "is made of parts, which are normalised for whole trajectories; take another estimator, or the domain out"
        )
    loss_options(config.algorithm)
    make_retired(composed)
    if config.mode == "train_only" and not list(Path(config.trajectories).glob("step-*.parquet")):
        raise ValueError(f"trajectories={config.trajectories} holds no step-*.parquet files")
    if config.model.source == "path" and not (Path(config.model.path) / "config.json").exists():
        raise ValueError(f"model.path={config.model.path} is no Hugging Face folder (it has no config.json)")
    if config.model.source == "path":
        check_model(config, Path(config.model.path))
    if config.cluster.ray_port:
        _check_port(config.cluster.ray_port)


def _check_one_of(what: str, value: str, known: list[str]) -> None:
    if value not in known:
        near = difflib.get_close_matches(value, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what} is not one of {', '.join(known)}{hint}")


def _check_port(port: int) -> None:
    """Bind it for a moment: a port may be held without anybody listening on it."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ValueError(
                f"cluster.ray_port={port} cannot be used ({error.strerror}): choose another, or 0 to let Ray choose"
            ) from error


def show_mixes(composed: Composed) -> None:
    """The resolved mix of each stage; stages with the same mix share a table."""
    from rollouts.mix import render

    shown: dict[str, list[str]] = {}
    for name, mix in composed.mixes.items():
        shown.setdefault(render(mix), []).append(name)
    for table, names in shown.items():
        print(f"[mix] {', '.join(names)}\n{table}\n", flush=True)


def config_difference(old: Any, new: Any, prefix: str = "") -> list[str]:
    """`key: old -> new` for every leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted(set(old) | set(new)):
            lines += config_difference(old.get(key), new.get(key), f"{prefix}.{key}" if prefix else str(key))
        return lines
    return [] if old == new else [f"{prefix}: {old!r} -> {new!r}"]


def complain(error: Exception) -> int:
    """A user's mistake in at most five lines."""
    lines = str(error).splitlines()
    print("error: " + "\n".join(lines[:_SHOWN_LINES]), file=sys.stderr)
    return BAD_INPUT


def help_text() -> str:
    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    choices = {group: ", ".join(choices_of(group)) for group in groups}
    lines = ["usage: python -m train [group=choice …] [key=value …]", "", "groups:"]
    lines += [f"  {group:<12} {names}" for group, names in choices.items()]
    lines += ["", "keys (defaults in conf/):", *(f"  {key}" for key in known_keys() if "." in key)]
    lines += [
        "",
        "mixes: mix.families.<glob>=<weight>  mix.domains.<glob>=<factor>  ~mix.domains.<glob>  mix.show=true",
    ]
    return "\n".join(lines)


class StopSignal:
    """SIGINT, SIGTERM or SIGUSR1 ask for an end after the present step; a second SIGINT ends at once."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self) -> bool:
        return self._asked

    def __enter__(self) -> StopSignal:
        self.listen()
        return self

    def listen(self) -> None:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(name, self._ask)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, number: int, _: FrameType | None) -> None:
        if self._asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked = True
        print(f"\n[run] {signal.Signals(number).name}: ending after this step, with a checkpoint", flush=True)


def _resume_arguments(composed: Composed, run_dir: Path) -> str:
    """What was typed, without what would not be repeated, and with the run's name."""
    once = ("name=", "resume=", "stop_after=")
    return shlex.join([*(item for item in composed.arguments if not item.startswith(once)), f"name={run_dir.name}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
