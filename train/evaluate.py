"""Held-out evaluation: greedy, the same tasks every time, every domain of the run's mixes.

In: a pool whose engines serve the version in question.  Out: an `Evaluation`: one score a task, by domain.  Called by
`train.loop`, and as a command: `python -m train.evaluate run=<run folder>` evaluates the newest checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.domain import render_key, side_of
from envs.types import Task
from rollouts.pool import RolloutPool


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores by domain, in the order of the tasks (so that two evaluations pair up).  Unscored tasks are None."""

    tier: str
    scores: dict[str, list[float | None]]

    @property
    def means(self) -> dict[str, float]:
        """Mean score of each domain that has one."""
        means = {}
        for domain, scores in self.scores.items():
            known = [score for score in scores if score is not None]
            if known:
                means[domain] = sum(known) / len(known)
        return means

    @property
    def mean(self) -> float:
        """Mean over domains of their means: every domain counts alike."""
        means = self.means
        return sum(means.values()) / len(means) if means else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {"tier": self.tier, "scores": self.scores}

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> Evaluation:
        return Evaluation(document["tier"], {domain: list(values) for domain, values in document["scores"].items()})


def check_held_out(tasks: Mapping[str, Sequence[Task]]) -> None:
    """No evaluation task may be one that is trained on: the split, hashed or declared, is looked at again."""
    for domain, own in tasks.items():
        keys = {render_key(task.prompt) for task in own}
        assert len(keys) == len(own), f"{domain}: a held-out prompt is there twice"
        for task in own:
            assert task.split == "held_out" == side_of(task), f"{task.id} is not held out"


def evaluate(pool: RolloutPool, tasks: Mapping[str, Sequence[Task]], tier: str, tiers: Mapping[str, Any]) -> Evaluation:
    """Greedy on all tasks at once.  A domain that does not declare `tier` is evaluated on the first that it does.

    tiers: domain -> the tiers it declares.
    """
    check_held_out(tasks)
    flat = [task for own in tasks.values() for task in own]
    groups = [
        (number, task, tier if tier in tiers[task.domain] else tiers[task.domain][0])
        for number, task in enumerate(flat)
    ]
    results = iter(pool.run(groups, num_samples=1, temperature=0.0, seed=0, keep=False))
    scores = {domain: [next(results).summary.values[0] for _ in own] for domain, own in tasks.items()}
    return Evaluation(tier=tier, scores=scores)


def main(arguments: list[str]) -> int:
    """`python -m train.evaluate run=<run folder> [tasks=1000]`."""
    from train.commands import evaluate_command

    return evaluate_command(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
