"""Two hundred steps in one process leak nothing.  Ten minutes: `long`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import psutil
import pytest

from tests.integration.test_modes import ROOT, SMALL
from train.summary import total_memory
from train.tracking import read_metrics

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(3600)]

STEPS, SETTLED, WINDOW = 200, 50, 20
MOST_GROWTH = 0.05
EVERY_SECONDS = 3.0


def test_memory_does_not_grow_after_the_first_steps(tmp_path: Path) -> None:
    """Of all processes together, shared pages counted once, around step 50 and around step 200."""
    arguments = [*SMALL, f"runs_dir={tmp_path}", "name=long", "stage.cold_start.steps=60"]
    arguments += [f"stage.rl.steps={STEPS}", "checkpoint.every=25"]
    run_dir = tmp_path / "long"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "train", *arguments], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            seen = watch(process, run_dir)
        finally:
            process.terminate()
            process.wait()
    assert process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    early = mean(seen, SETTLED, SETTLED + WINDOW)
    late = mean(seen, STEPS - WINDOW, STEPS + 1)
    print(f"\n{early / 2**20:.0f} MiB around step {SETTLED}, {late / 2**20:.0f} MiB around step {STEPS}")
    assert late < (1 + MOST_GROWTH) * early


def watch(process: subprocess.Popen[bytes], run_dir: Path) -> dict[int, list[int]]:
    """Bytes at each step of reinforcement learning (counted from 1) until the run ends."""
    seen: dict[int, list[int]] = defaultdict(list)
    tree = psutil.Process(process.pid)
    while process.poll() is None:
        steps = num_steps(run_dir)
        if 0 < steps < STEPS:
            seen[steps].append(total_memory(tree))
        time.sleep(EVERY_SECONDS)
    return seen


def num_steps(run_dir: Path) -> int:
    if not (run_dir / "metrics.jsonl").exists():
        return 0
    return sum("rl/loss" in record["metrics"] for record in read_metrics(run_dir))


def mean(seen: dict[int, list[int]], first: int, end: int) -> float:
    values = [value for step in range(first, end) for value in seen.get(step, [])]
    assert len(values) >= 3, f"too few readings between steps {first} and {end}"
    return sum(values) / len(values)
