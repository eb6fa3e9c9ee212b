"""The folder in which the tasks of one allocation meet, and the run's log of what became of its jobs.

In: the run folder and what Slurm says of this job.  Out: files on the file system that all nodes share; each is
written once, whole or not at all.  Used by `train.cluster.node`, `train.cluster.slurm` and `train.status`.

    token       secret of this allocation's Ray (mode 0600)
    head.json   address of its Ray, written by the first node
    joined-N    node N's Ray has joined
    stop        the batch script was signalled
    exit        exit code, by whoever has to end the job first
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "slurm"
EVENTS = "events.log"
STARTS = "starts.jsonl"


@dataclass(frozen=True, slots=True)
class Meeting:
    """One allocation's folder, as one of its nodes sees it."""

    path: Path

    def make_token(self) -> Path:
        """A new secret that only its owner can read."""
        path = self.path / "token"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
        return path

    @property
    def token(self) -> Path:
        return self.path / "token"

    def publish_head(self, document: dict[str, Any]) -> None:
        self._write("head.json", json.dumps(document))

    def head(self) -> dict[str, Any] | None:
        """What the first node published, or None as long as it has not."""
        path = self.path / "head.json"
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def join(self, node: int, host: str) -> None:
        self._write(f"joined-{node}", host)

    def missing(self, num_nodes: int) -> list[int]:
        """Nodes that have not joined."""
        return [node for node in range(num_nodes) if not (self.path / f"joined-{node}").exists()]

    def leave(self, node: int) -> None:
        (self.path / f"joined-{node}").unlink(missing_ok=True)

    def stop_asked(self) -> bool:
        return (self.path / "stop").exists()

    def end(self, code: int) -> int:
        """Say how the job ends; the first word counts, and is returned."""
        scratch = self.path / f".exit-{os.getpid()}"
        scratch.write_text(str(code), encoding="ascii")
        with contextlib.suppress(FileExistsError):  # not `replace`: a link is made by one of them only
            os.link(scratch, self.path / "exit")
        scratch.unlink()
        return self.ended() or 0

    def ended(self) -> int | None:
        path = self.path / "exit"
        return int(path.read_text(encoding="ascii")) if path.exists() else None

    def _write(self, name: str, text: str) -> None:
        scratch = self.path / f".{name}.new"
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(self.path / name)


def record(run_dir: Path, job: str, restart: int, what: str) -> str:
    """Add one line to the run's events, and return it."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = f"{now} job={job} restart={restart} {what}"
    folder = run_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / EVENTS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    return line


def record_start(run_dir: Path, job: str, restart: int, step: int) -> None:
    """Remember from which step an allocation goes on (-1: from the beginning)."""
    with (run_dir / FOLDER / STARTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"job": job, "restart": restart, "step": step}) + "\n")


def starts(run_dir: Path) -> list[dict[str, Any]]:
    """All allocations so far, in order."""
    path = run_dir / FOLDER / STARTS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def refusal(earlier: list[dict[str, Any]], step: int, max_requeues: int) -> str:
    """Why the job should not be requeued, or nothing.

    `earlier`: `starts`, the last of which is the allocation that ends now; `step`: of the newest checkpoint now.
    """
    own = [start for start in earlier if start["job"] == earlier[-1]["job"]]
    if len(own) > max_requeues:
        return f"it was requeued cluster.slurm.max_requeues={max_requeues} times"
    if len(own) >= 2 and own[-1]["step"] == step == own[-2]["step"]:
        return (
            f"two allocations in a row made no step beyond {step}; raise cluster.slurm.time (or lower signal_seconds), "
            "or look for what takes so long in the node logs"
        )
    return ""
