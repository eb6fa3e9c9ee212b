"""Tasks that are solved for good are not asked again: only in domains with a known, finite number of tasks.

In: after each step, which task was solved by its whole group.  Out: whether a task is retired.  Pure; called by
`train.collect`, saved in every checkpoint.  (Domains without end never ask the same again anyway, and what is kept
here would grow without end.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envs.domain import render_key
from envs.types import Task


class RetiredTasks:
    """Tasks by their prompts, so that one that comes again under another index is known.

    domains: those that may retire tasks.  `after`: groups in a row that must be solved by all their trajectories; one
    that is not brings the count back to zero.  0 retires nothing.
    """

    def __init__(self, domains: Iterable[str] = (), after: int = 0):
        self.after = after
        self._solved: dict[str, dict[str, int]] = {name: {} for name in domains} if after else {}

    def observe(self, task: Task, values: Sequence[float | None], best: float) -> None:
        """A finished group of a task: one reward a trajectory, None where unscored; `best` is the most there is."""
        scored = [value for value in values if value is not None]
        if task.domain not in self._solved or not scored:
            return
        own, key = self._solved[task.domain], _key(task)
        if min(scored) >= best:
            own[key] = own.get(key, 0) + 1
        else:
            own.pop(key, None)

    def __contains__(self, task: Task) -> bool:
        return 0 < self.after <= self._solved.get(task.domain, {}).get(_key(task), 0)

    def covers(self, domain: str) -> bool:
        return domain in self._solved

    def counts(self) -> dict[str, int]:
        """Number of retired tasks of each domain that has any."""
        found = {name: sum(count >= self.after for count in own.values()) for name, own in self._solved.items()}
        return {name: count for name, count in found.items() if count}

    def state_dict(self) -> dict[str, Any]:
        return {name: dict(sorted(own.items())) for name, own in sorted(self._solved.items())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what is known of the domains that are still here."""
        self._solved = {name: dict(state.get(name, {})) for name in self._solved}


def _key(task: Task) -> str:
    return hashlib.sha256(render_key(task.prompt).encode("utf-8", "surrogatepass")).hexdigest()[:16]
