"""How far engine and trainer are apart, token by token: `python -m benchmarks.fidelity run=runs/<name> [tokens=40000]`.

In: a run whose checkpoints are kept (`checkpoint.keep=9`).  Out: for the first and the last checkpoint, and for MXFP4
experts and bf16 experts of the same masters, mean, p99 and largest |log p_engine - log p_trainer| of sampled tokens,
with and without the engine's routes replayed; ratios with 95 % bootstrap intervals over sequences; `fidelity.json`.

Prompts and seeds are the same everywhere; tokens part where distributions do.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rollouts.engine import TurnRequest
from train import checkpoint, loop
from train.canary import canary_request, canary_sample, canary_tasks
from train.compose import from_tree
from train.export import parse
from train.launch import launched
from train.policy.packing import Sample
from train.run import Run
from train.weights.state import write_json_atomic

ARMS = {"mxfp4": None, "bf16": {"experts": "none", "trainer": False, "serve": "bf16", "rule": ""}}
RESAMPLES = 1_000
Gaps = list[np.ndarray]  # one array a sequence


def request_with_routes(run: Run, tasks: Any, number: int, prompt_ids: list[int]) -> TurnRequest:
    return dataclasses.replace(canary_request(run, tasks, number, prompt_ids), routes_from=0)


def gaps_of(run: Run, tokens: int) -> dict[str, Gaps]:
    """|Δ log p| of every sampled token, with the trainer on its own routes and on the engine's."""
    tasks = canary_tasks(run, tokens // 5)
    requests, completions = run.pool.complete(tasks, functools.partial(request_with_routes, run, tasks))
    samples = [
        canary_sample(task, request, completion)
        for (task, _), request, completion in zip(tasks, requests, completions, strict=True)
    ]
    without = [dataclasses.replace(sample, routes=None) for sample in samples]
    found = {}
    for name, chosen in (("own", without), ("replay", samples)):
        values = _logprobs(run, chosen)
        found[name] = [
            np.abs(np.array(value) - np.array(completion.logprobs))
            for value, completion in zip(values, completions, strict=True)
        ]
    return found


def _logprobs(run: Run, samples: list[Sample]) -> list[list[float]]:
    return run.trainers.logprobs(samples, run.composed.config.algorithm.row_tokens)


def measure(saved: checkpoint.Checkpoint, arm: str, tokens: int) -> dict[str, Gaps]:
    tree = copy.deepcopy(saved.config)
    tree["algorithm"]["routes"], tree["algorithm"]["load_balance"] = "replay", 0.0
    tree["tracking"]["wandb"] = "disabled"
    if ARMS[arm]:
        numbers = {"start_step": 0, "freeze_scales": False, "average": 0.0, "report_every": 0}
        tree["quant"] |= ARMS[arm] | numbers
    with tempfile.TemporaryDirectory() as folder, launched(from_tree(tree), Path(folder), lambda: False, saved) as run:
        loop.publish(run)
        return gaps_of(run, tokens)


def interval(first: Gaps, second: Gaps | None = None) -> list[float]:
    """A mean, or a ratio of means, with its 95 % bootstrap interval: sequences are drawn, in both alike."""
    rng = np.random.default_rng(0)
    both = (first, second or [])
    sums = [(np.array([own.sum() for own in gaps]), np.array([own.size for own in gaps])) for gaps in both]

    def mean(which: int, drawn: Any) -> Any:
        total, count = sums[which]
        return total[drawn].sum(-1) / count[drawn].sum(-1)

    def value(drawn: Any) -> Any:
        return mean(0, drawn) / mean(1, drawn) if second else mean(0, drawn)

    drawn = rng.integers(0, len(first), (RESAMPLES, len(first)))
    low, high = np.quantile(value(drawn), (0.025, 0.975))
    return [float(value(np.arange(len(first)))), float(low), float(high)]


def report(found: dict[str, dict[str, Gaps]]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for arm, kinds in found.items():
        for kind, gaps in kinds.items():
            flat = np.concatenate(gaps)
            rows[f"{arm} {kind}"] = {
                "mean": interval(gaps),
                "p99": float(np.quantile(flat, 0.99)),
                "max": float(flat.max()),
                "tokens": len(flat),
            }
    rows["mxfp4 / bf16, own routes"] = interval(found["mxfp4"]["own"], found["bf16"]["own"])
    rows["mxfp4 / bf16, replay"] = interval(found["mxfp4"]["replay"], found["bf16"]["replay"])
    for arm in found:
        rows[f"replay / own, {arm}"] = interval(found[arm]["replay"], found[arm]["own"])
    return rows


def main(arguments: list[str]) -> int:
    given = parse(arguments, {"run": "", "tokens": "40000"})
    run_dir = Path(given["run"])
    paths = sorted((run_dir / checkpoint.FOLDER).glob("step-*"))
    document: dict[str, Any] = {}
    for path in (paths[0], paths[-1]):
        saved = checkpoint.load(path)
        document[path.name] = report({arm: measure(saved, arm, int(given["tokens"])) for arm in ARMS})
        print(f"\n{path.name}")
        for name, row in document[path.name].items():
            if isinstance(row, dict):
                mean, low, high = row["mean"]
                tail = f"p99 {row['p99']:.4f}, max {row['max']:.3f}, {row['tokens']} tokens"
                print(f"  {name:14} mean {mean:.5f} ({low:.5f} to {high:.5f}), {tail}")
            else:
                print(f"  {name:28} {row[0]:.3f} ({row[1]:.3f} to {row[2]:.3f})")
    write_json_atomic(run_dir / "fidelity.json", document)
    print(f"\nin {run_dir / 'fidelity.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
