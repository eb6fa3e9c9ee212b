"""The half of the code family that runs in the sandbox's fork server, and nowhere else.

In: a model's regular expression, or a model's arguments for functions of ours.  Out: a verdict, or results to compare.
Called by name through `envs.sandbox`; each job is a process of its own with a CPU limit.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from envs.families.code.bank import outcomes


def matches(pattern: str, good: Sequence[str], bad: Sequence[str]) -> float:
    """1.0 where the expression matches all good texts as a whole, and no bad one."""
    warnings.simplefilter("ignore")
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError, ValueError):
        return 0.0
    return float(all(map(compiled.fullmatch, good)) and not any(map(compiled.fullmatch, bad)))


def outcomes_of(sources: Sequence[str], name: str, arguments: Sequence[Any]) -> list[list[Any]]:
    """What each of our own sources gives for the model's arguments."""
    return [outcomes(source, name, arguments) for source in sources]
