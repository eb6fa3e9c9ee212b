"""Groups in Ray's object store: who holds which tokens, so that the driver holds none.

In: groups that a worker rolled out.  Out: their numbers, and the places of their tokens, which trainer ranks fetch.
Used by `rollouts.pool` (workers put) and `train.policy.workers` (ranks fetch).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from rollouts.group import Group, GroupSummary, summarise

CHUNK_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group's tokens lie: item `position` of the list behind an object reference."""

    reference: Any = field(repr=False)
    position: int


@dataclass(slots=True)
class GroupResult:
    """A group's numbers here, its tokens in the object store (no place where nobody will read them)."""

    summary: GroupSummary
    place: Place | None = None


class GroupWriter:
    """Puts groups into the object store as they come, several small ones together.

    (An object costs milliseconds, more than a short group; a long one is an object of its own.)
    """

    def __init__(self) -> None:
        self._chunk: list[tuple[Group, GroupSummary]] = []
        self._results: list[GroupResult] = []

    def add(self, group: Group) -> None:
        self._chunk.append((group, summarise(group)))
        if sum(summary.num_sampled_tokens for _, summary in self._chunk) >= CHUNK_TOKENS:
            self._put()

    def results(self) -> list[GroupResult]:
        """All groups so far, in the order in which they were added."""
        if self._chunk:
            self._put()
        return self._results

    def _put(self) -> None:
        chunk, self._chunk = self._chunk, []
        reference = ray.put([group for group, _ in chunk])
        self._results += [GroupResult(summary, Place(reference, place)) for place, (_, summary) in enumerate(chunk)]


def put_groups(groups: Iterable[Group]) -> list[GroupResult]:
    """Put groups into the object store, in order."""
    writer = GroupWriter()
    for group in groups:
        writer.add(group)
    return writer.results()


def fetch_groups(places: Sequence[Place]) -> list[Group]:
    """The groups at these places, each object fetched once."""
    unique = {place.reference: None for place in places}
    lists = dict(zip(unique, ray.get(list(unique)), strict=True))
    return [lists[place.reference][place.position] for place in places]
