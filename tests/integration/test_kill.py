"""SIGKILL at random moments, also inside a save: there is always a checkpoint to go on from, and nothing shows after.

The whole stack starts again after each kill, which takes half an hour for all of them: `long`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.test_modes import ROOT, SMALL, assert_same_run, run
from train.weights.state import latest_complete

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(3600)]

NUM_KILLS = 20
KILLS_INSIDE_A_SAVE = {3, 8, 13, 18}  # by number of the kill, not by chance
OPTIONS = (*SMALL, "stage.rl.steps=6", "checkpoint.every=1", "evaluate.tasks_per_domain=2")
GONE_SECONDS = 120.0  # on a busy machine Ray's agents look for their parent late


def killed(arguments: list[str], run_dir: Path, rng: random.Random, inside_a_save: bool) -> str:
    """Start the run and kill it; where it was, by the last line that it printed, or "ended" where it came first."""
    log = run_dir.parent / "killed.log"
    stale = unfinished(run_dir)
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "train", *arguments], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT
        )
        deadline = time.monotonic() + (120.0 if inside_a_save else rng.uniform(2.0, 75.0))
        try:
            while process.poll() is None and time.monotonic() < deadline:
                if inside_a_save and unfinished(run_dir) - stale:
                    break
                time.sleep(0.0005 if inside_a_save else 0.05)
            left = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
        finally:
            process.kill()
    _, alive = psutil.wait_procs(left, timeout=GONE_SECONDS)
    assert alive == [], f"still there {GONE_SECONDS:g} s after its driver: {[item.cmdline() for item in alive]}"
    if process.returncode == 0:
        return "ended"
    assert process.returncode == -signal.SIGKILL, log.read_text()[-3000:]
    return "inside a save" if unfinished(run_dir) - stale else "elsewhere"


def unfinished(run_dir: Path) -> set[tuple[str, int]]:
    """Saves that were begun; what an earlier kill left has another inode."""
    found = set()
    for path in run_dir.glob("checkpoints/.*.unfinished"):
        with contextlib.suppress(FileNotFoundError):  # finished just now
            found.add((path.name, path.stat().st_ino))
    return found


def test_killed_at_twenty_moments_it_ends_as_the_run_that_was_never_killed(tmp_path: Path) -> None:
    run("train", *OPTIONS, f"runs_dir={tmp_path}", "name=straight")
    arguments = [*OPTIONS, f"runs_dir={tmp_path}", "name=killed"]
    run_dir, rng = tmp_path / "killed", random.Random(int(os.environ.get("KILL_SEED", "0")))
    moments: list[str] = []
    newest = -1
    while len(moments) < NUM_KILLS:
        moment = killed(arguments, run_dir, rng, inside_a_save=len(moments) in KILLS_INSIDE_A_SAVE)
        if moment == "ended":  # the run was faster than the kills: again from its first checkpoint
            for path in sorted((run_dir / "checkpoints").glob("step-*"))[1:]:
                subprocess.run(["rm", "-r", str(path)], check=True)
            newest = -1
            continue
        moments.append(moment)
        if (run_dir / "checkpoints").is_dir():
            found = latest_complete(run_dir / "checkpoints")
            assert found.passed_over == [], f"kill {len(moments)}: {found.passed_over}"
            step = int(found.path.name.rsplit("-", 1)[1]) if found.path else -1
            assert step >= newest, f"kill {len(moments)} lost the checkpoint of step {newest}"
            newest = step
    assert moments.count("inside a save") >= 2, moments
    run("train", *arguments)
    assert_same_run(tmp_path / "straight", run_dir)
