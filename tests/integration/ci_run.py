"""The whole loop as CI runs it: `python -m tests.integration.ci_run`.

From a cold start through 15 policy-gradient steps with `experiment=ci`, stopped after 8 and resumed once, exported in
both formats and proven; then what it wrote is looked at.  After that the negative controls, from the run's checkpoint:
each breaks one thing, and the run has to notice.  Every command is the one that a user would type.  With the argument
`controls` only these, on the run that is there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from envs.domain import render_key
from envs.families import all_domains
from rollouts.store import read_groups
from train.__main__ import ALARM, FAILED
from train.tracking import METRICS, read_metrics

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "runs"
RUN = RUNS / "ci"
STEPS, STOP_AFTER = 15, 8
BOUND = 0.012  # nats, conf/config.yaml: fidelity.alarm


@dataclass(frozen=True)
class Control:
    """One thing broken: how, which exit code and words have to follow, and how many steps may pass before."""

    name: str
    module: str
    arguments: tuple[str, ...]
    code: int
    says: tuple[str, ...]
    steps: range


CONTROLS = (
    Control(
        name="ci-engine-dies",
        module="train",
        arguments=("cluster.engine.cpu_cache_gib=1000000",),
        code=FAILED,
        says=("EngineFailure", "logs of all processes"),
        steps=range(0, 1),
    ),
    Control(
        name="ci-unquantised-trainer",
        module="train",
        arguments=("quant.trainer=false", "stage.rl.steps=40"),
        code=ALARM,
        says=("fidelity alarm", "quant.trainer"),
        steps=range(0, 12),
    ),
    Control(
        name="ci-wrong-temperature",
        module="train",
        arguments=("algorithm.loss_temperature=1.5", "stage.rl.steps=40"),
        code=ALARM,
        says=("fidelity alarm", "different temperatures"),
        steps=range(0, 12),
    ),
    Control(
        name="ci-skipped-publish",
        module="tests.integration.skip_publish",
        arguments=(),
        code=FAILED,
        says=("EngineFailure", "version"),
        steps=range(1, 2),
    ),
)


def run(module: str, *arguments: str, show_errors: bool = True) -> tuple[int, str]:
    """Run one command, visibly; its exit code and what it wrote to its error stream."""
    print(f"\n$ python -m {' '.join((module, *arguments))}", flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        check=False,
        text=True,
        stderr=None if show_errors else subprocess.PIPE,
    )
    print(f"[ci] exit code {done.returncode} after {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode, done.stderr or ""


def command(module: str, *arguments: str) -> None:
    """Run one command; end here with its exit code if that is not 0."""
    code, _ = run(module, *arguments)
    if code:
        sys.exit(code)


def check(holds: bool, what: str) -> bool:
    print(f"[ci] {'ok    ' if holds else 'FAILED'} {what}", flush=True)
    return holds


def main(arguments: list[str]) -> int:
    results = [] if arguments == ["controls"] else whole_run()
    for control in CONTROLS:
        shutil.rmtree(RUNS / control.name, ignore_errors=True)
        results.append(check_control(control))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


def whole_run() -> list[bool]:
    shutil.rmtree(RUN, ignore_errors=True)
    command("train", "experiment=ci", "name=ci", f"stop_after={STOP_AFTER}")
    stopped = len(rl_steps(RUN))
    command("train", "experiment=ci", "name=ci")
    return check_run(stopped)


def check_run(stopped: int) -> list[bool]:
    summary = json.loads((RUN / "summary.json").read_text())
    steps = rl_steps(RUN)
    worst = summary["fidelity"]["worst_rolling"]
    accuracy = summary["accuracy"]
    print(f"[ci] accuracy {accuracy['mean_before']:.3f} -> {accuracy['mean_after']:.3f}; {summary['seconds']}")
    results = [
        check(stopped == STOP_AFTER, f"stopped after {STOP_AFTER} policy-gradient steps (found {stopped})"),
        check(len(steps) == STEPS, f"{STEPS} policy-gradient steps in metrics.jsonl, none twice, none lost"),
        check(steps == list(range(steps[0], steps[0] + STEPS)), "their numbers follow each other"),
        check(worst < BOUND, f"rolling mismatch {worst:.5f} below {BOUND} throughout"),
        check_held_out(),
        check(summary["export"] == {"mxfp4": True, "bf16": True}, "the summary says that both exports are proven"),
    ]
    for format in ("mxfp4", "bf16"):
        proof = json.loads((RUN / "export" / format / "proof.json").read_text())
        details = [item["detail"] for item in proof["checks"]]
        results.append(check(proof["passed"] is True, f"the {format} export is proven: {details}"))
    return results


def check_held_out() -> bool:
    """What was trained on, as it was stored, against what was evaluated on: no task and no prompt in both."""
    groups = [group for path in (RUN / "trajectories").glob("step-*.parquet") for group in read_groups(path)]
    held_out = {task for ids in json.loads((RUN / "held_out.json").read_text()).values() for task in ids}
    domains = all_domains()
    prompts = {
        render_key(domains[task.split("/held_out/")[0]].task(int(task.rsplit("/", 1)[1])).prompt) for task in held_out
    }
    trained = {render_key(group.task.prompt) for group in groups}
    disjoint = not trained & prompts and not held_out & {group.task.id for group in groups}
    return check(
        disjoint and len(trained) > 100, f"{len(trained)} prompts trained on, {len(prompts)} held out, none in both"
    )


def check_control(control: Control) -> bool:
    """From the run's checkpoint in the middle: the fault is noticed, and says what is likely to be wrong."""
    middle = min((RUN / "checkpoints").glob("step-*"))
    arguments = ("experiment=ci", f"name={control.name}", f"resume={middle}", *control.arguments)
    code, text = run(control.module, *arguments, show_errors=False)
    words = [line for line in text.splitlines() if any(says in line for says in control.says)]
    trained = len(rl_steps(RUNS / control.name))
    holds = code == control.code and trained in control.steps and all(says in text for says in control.says)
    logs = RUNS / control.name / "logs"
    holds = holds and logs.is_dir() and any(logs.iterdir())
    return check(
        holds, f"{control.name}: exit code {code} after {trained} steps: {' / '.join(words[:3]) or text[-500:]}"
    )


def rl_steps(run_dir: Path) -> list[int]:
    if not (run_dir / METRICS).exists():  # it ended before the first step
        return []
    return [record["step"] for record in read_metrics(run_dir) if "rl/fidelity/mismatch" in record["metrics"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
