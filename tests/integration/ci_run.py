"""The whole loop as CI runs it: `python -m tests.integration.ci_run`.

From a cold start through 15 policy-gradient steps with `experiment=ci`, stopped after 8 and resumed once, exported and
proven; then what it wrote is looked at.  Every command is the one that a user would type.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from train.tracking import read_metrics

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "runs" / "ci"
STEPS, STOP_AFTER = 15, 8


def command(*arguments: str) -> None:
    """Run one command, visibly; end here with its exit code if that is not 0."""
    line = [sys.executable, "-m", *arguments]
    print(f"\n$ python -m {' '.join(arguments)}", flush=True)
    began = time.monotonic()
    code = subprocess.run(line, cwd=ROOT, check=False).returncode
    print(f"[ci] exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    if code:
        sys.exit(code)


def check(holds: bool, what: str) -> int:
    print(f"[ci] {'ok    ' if holds else 'FAILED'} {what}", flush=True)
    return 0 if holds else 1


def main() -> int:
    shutil.rmtree(RUN, ignore_errors=True)
    command("train", "experiment=ci", "name=ci", f"stop_after={STOP_AFTER}")
    stopped = len(_rl_steps())
    command("train", "experiment=ci", "name=ci")
    summary = json.loads((RUN / "summary.json").read_text())
    proof = json.loads((RUN / "export" / "mxfp4" / "proof.json").read_text())
    steps = _rl_steps()
    failures = 0
    failures += check(stopped == STOP_AFTER, f"stopped after {STOP_AFTER} policy-gradient steps (found {stopped})")
    failures += check(len(steps) == STEPS, f"{STEPS} policy-gradient steps in metrics.jsonl, none twice, none lost")
    failures += check(steps == list(range(steps[0], steps[0] + STEPS)), "their numbers follow each other")
    worst = summary["fidelity"]["worst_rolling"]
    failures += check(worst < 0.012, f"rolling mismatch {worst:.5f} below 0.012 throughout")
    failures += check(proof["passed"] is True, f"the export is proven: {[item['detail'] for item in proof['checks']]}")
    failures += check(summary["export"] == {"mxfp4": True}, "the summary says so too")
    accuracy = summary["accuracy"]
    print(f"[ci] accuracy {accuracy['mean_before']:.3f} -> {accuracy['mean_after']:.3f}; {summary['seconds']}")
    print(f"{6 - failures} passed, {failures} failed")
    return 1 if failures else 0


def _rl_steps() -> list[int]:
    return [record["step"] for record in read_metrics(RUN) if "rl/fidelity/mismatch" in record["metrics"]]


if __name__ == "__main__":
    sys.exit(main())
