"""What a checkpoint of a run holds, and how a run is put back.

In: the live parts of a run.  Out: one directory under `checkpoints/`, complete or absent (`train.weights.state`), with
masters and moments by name, every document of state, and the canary that the proof of an export needs.  Called by
`train.loop`; read by `train.export` and `train.evaluate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from train.weights.state import find_resume, prune, read_state, step_name, write_state

FOLDER = "checkpoints"


@dataclass(slots=True)
class Checkpoint:
    """A read checkpoint.  `masters` and `moments` by trainer name; `run` is the document of the run's state."""

    path: Path
    masters: dict[str, Tensor]
    moments: dict[str, Tensor]
    run: dict[str, Any]
    canary: dict[str, Any]
    config: dict[str, Any]

    @property
    def tensors(self) -> dict[str, Tensor]:
        return self.masters | self.moments


def save(
    run_dir: Path,
    step: int,
    tensors: dict[str, Tensor],
    *,
    run: dict[str, Any],
    canary: dict[str, Any],
    config: dict[str, Any],
    keep: int,
) -> Path:
    """Write `checkpoints/step-…` and remove all but the newest `keep`."""
    path = run_dir / FOLDER / step_name(step)
    write_state(path, tensors, {"run": run, "canary": canary, "config": config})
    prune(run_dir / FOLDER, keep)
    return path


def load(path: Path) -> Checkpoint:
    """Read and verify one checkpoint.  Raises StorageFailure naming the file that is wrong."""
    tensors, documents = read_state(path)
    moments = {name: tensor for name, tensor in tensors.items() if name.endswith((".exp_avg", ".exp_avg_sq"))}
    masters = {name: tensor for name, tensor in tensors.items() if name not in moments}
    return Checkpoint(
        path=path,
        masters=masters,
        moments=moments,
        run=documents["run"],
        canary=documents["canary"],
        config=documents["config"],
    )


def newest(path: Path) -> Checkpoint:
    """The newest complete checkpoint of a run folder, or the checkpoint that `path` itself is.

    Raises StorageFailure where there is none; damaged ones that were passed over are named.
    """
    folder = path / FOLDER
    latest = find_resume(folder if folder.is_dir() else path)
    assert latest.path is not None
    return load(latest.path)
