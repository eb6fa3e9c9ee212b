"""The driver inside a job: `python -m train.cluster.job RUN_DIR`, started by the first node (`train.cluster.node`).

In: the config that was checked when the job was submitted.  It runs, or goes on from the run's newest checkpoint,
without being asked, however often the job was requeued.  Exit codes are those of `python -m train`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from train.__main__ import FAILED, run_in
from train.checkpoint import FOLDER, Checkpoint, newest
from train.compose import from_tree
from train.weights.state import StorageFailure


def main(arguments: list[str]) -> int:
    run_dir = Path(arguments[0])
    tree = json.loads((run_dir / "slurm" / "config.json").read_text(encoding="utf-8"))
    composed = from_tree(tree)
    try:
        saved = saved_for(run_dir, composed.config.resume)
    except StorageFailure as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    return run_in(composed, run_dir, saved)


def saved_for(run_dir: Path, resume: str) -> Checkpoint | None:
    """The run's own newest checkpoint; before its first, the one that it was told to start from, if any.

    Raises StorageFailure where checkpoints are there and none is complete.
    """
    folder = run_dir / FOLDER
    if folder.is_dir() and any(folder.glob("step-*")):
        return newest(run_dir)
    return newest(Path(resume)) if resume not in ("auto", "never") else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
