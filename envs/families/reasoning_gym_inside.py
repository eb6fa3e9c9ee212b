"""The half of the reasoning-gym family that runs in the sandbox's fork server, and nowhere else.

In: a configured dataset, and an index, or a task and an answer.  Out: a task, or the dataset's own score.  Called by
name through `envs.sandbox.call`; the server imports the library once, each job is a fork of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import reasoning_gym

from envs.families.reasoning_gym import Source, isolated

assert reasoning_gym  # imported for the forks

ATTEMPTS = 50
STRIDE = 10**6  # from one attempt's index to the next one's
LONGEST_QUESTION, LONGEST_ANSWER = 8_000, 300
_LONG_FRACTION = re.compile(r"\.[0-9]{5}")


def make_entry(dataset: str, seed: int, config: Mapping[str, Any], index: int) -> dict[str, Any]:
    """One task as JSON gives it back."""
    source = Source(dataset, seed, config)
    if dataset == "codeio":
        return _sound_code(source, index)
    return _entry(source, index)


def _entry(source: Source, index: int) -> dict[str, Any]:
    with isolated(source.seed + index):
        entry: dict[str, Any] = json.loads(json.dumps(source.dataset[index]))
    return entry


def _sound_code(source: Source, index: int) -> dict[str, Any]:
    """The first of a fixed series of indices whose program runs, twice to the same end, with an answer that one can
    write down."""
    for attempt in range(ATTEMPTS):
        entry = _entry(source, index + attempt * STRIDE)
        if _is_sound(entry) and entry == _entry(source, index + attempt * STRIDE):
            return {"question": entry["question"], "answer": entry["answer"], "metadata": {}}
    raise AssertionError(f"no usable program in {ATTEMPTS} attempts from {index}")


def _is_sound(entry: Mapping[str, Any]) -> bool:
    answer = entry["answer"]
    return (
        entry["metadata"]["input_data"] != {}  # the library's sign of a program that failed
        and len(entry["question"]) <= LONGEST_QUESTION
        and len(answer) <= LONGEST_ANSWER
        and not _LONG_FRACTION.search(answer)
        and not re.search(r"NaN|Infinity", answer)
    )


def judge(dataset: str, seed: int, config: Mapping[str, Any], entry: Mapping[str, Any], answer: str) -> float:
    """The dataset's own score; its scorer executes the answer."""
    return Source(dataset, seed, config).judged(answer, entry)
