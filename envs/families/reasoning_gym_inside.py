"""The half of the reasoning-gym family that runs in the sandbox's fork server, and nowhere else.

In: a configured dataset, and an index, or a task and an answer.  Out: a task, or the dataset's own score.  Called by
name through `envs.sandbox.call`; the server imports the library once, each job is a fork of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import reasoning_gym

from envs.families.reasoning_gym import Source, isolated

assert reasoning_gym  # imported for the forks


def make_entry(dataset: str, seed: int, config: Mapping[str, Any], index: int) -> dict[str, Any]:
    """One task as JSON gives it back."""
    source = Source(dataset, seed, config)
    with isolated(seed + index):
        entry: dict[str, Any] = json.loads(json.dumps(source.dataset[index]))
    return entry


def judge(dataset: str, seed: int, config: Mapping[str, Any], entry: Mapping[str, Any], answer: str) -> float:
    """The dataset's own score; its scorer executes the answer."""
    return Source(dataset, seed, config).judged(answer, entry)
