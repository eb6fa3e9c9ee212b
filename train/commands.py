"""Commands that work on a finished or stopped run: evaluation of its newest checkpoint.

In: `run=<run folder>`.  Out: a table and a JSON file in the run folder.  No trainer is started: weights come from the
checkpoint's masters, through the same publish as in a run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from train.checkpoint import Checkpoint, newest
from train.export import parse
from train.weights.state import StorageFailure, write_json_atomic


def evaluate_command(arguments: list[str]) -> int:
    """`python -m train.evaluate run=<run folder> [tasks=<a domain>]`; exit code 2 for a wrong argument."""
    try:
        given = parse(arguments, {"run": "", "tasks": ""})
        run_dir = Path(given["run"])
        if not given["run"] or not run_dir.is_dir():
            raise ValueError(f"run={given['run']!r} is not a run folder; give run=runs/<name>")
        if given["tasks"] and not given["tasks"].isdigit():
            raise ValueError(f"tasks={given['tasks']!r} is not a number of tasks a domain")
        saved = newest(run_dir)
    except (ValueError, StorageFailure) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _evaluate(run_dir, saved, int(given["tasks"] or 0))
    return 0


def _evaluate(run_dir: Path, saved: Checkpoint, num_tasks: int) -> None:
    from rich.console import Console

    from train.compose import from_tree
    from train.evaluate import Evaluation, evaluate
    from train.launch import make_pool, prepare_model, started_ray
    from train.summary import domain_rows
    from train.tracking import DomainRow, domain_table

    composed = from_tree(saved.config)
    config = composed.config
    count = num_tasks or config.evaluate.tasks_per_domain
    print(f"[evaluate] {saved.path}, up to {count} held-out tasks a domain", flush=True)
    with started_ray(config, run_dir / "logs"):
        pool = make_pool(config, prepare_model(config, run_dir / "model"), run_dir)
        pool.wait_until_ready()
        pool.publish(saved.run["version"], 1, lambda chunk, full, seconds: [_whole_shard(saved)])
        names = sorted({domain for mix in composed.mixes.values() for domain in mix.weights})
        tasks = pool.held_out_tasks(names, count, config.evaluate.seconds)
        tiers = {domain: composed.domains[domain].tiers for domain in names}
        found = evaluate(pool, tasks, config.evaluate.tier, tiers)
    path = run_dir / f"evaluation-{saved.path.name}.json"
    document: dict[str, Any] = {"checkpoint": saved.path.name, "mean": found.mean, "means": found.means}
    write_json_atomic(path, document | found.as_dict())
    before = saved.run["evaluations"].get("before")
    comparable = before is not None and not num_tasks
    rows = (
        domain_rows(Evaluation.from_dict(before), found)
        if comparable
        else [
            DomainRow(domain=domain, before=None, after=mean, num_tasks=len(found.scores[domain]))
            for domain, mean in found.means.items()
        ]
    )
    Console().print(domain_table(rows))
    print(f"[evaluate] mean over {len(found.means)} domains: {found.mean:.4f}; all scores: {path}")


def _whole_shard(saved: Checkpoint) -> Any:
    """The checkpoint's weights as the one shard of a version."""
    from train.launch import stored
    from train.weights import formats, publish

    tensors = formats.serve_all(saved.masters, saved.run["format"], saved.quantiser())
    shard = publish.make_shard(tensors, version=saved.run["version"], rank=0, num_ranks=1, expected=set(tensors))
    return stored(shard)
