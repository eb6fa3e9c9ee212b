"""Groups in Ray's object store: who holds which tokens, so that the driver holds none.

In: groups that a worker rolled out.  Out: their numbers, and the places of their tokens, which trainer ranks fetch.
Used by `rollouts.pool` (workers put) and `train.policy.workers` (ranks fetch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from rollouts.group import Group, GroupSummary, summarise

CHUNK_TRAJECTORIES = 16


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


def put_groups(groups: Sequence[Group]) -> list[GroupResult]:
    """Put groups into the object store, several small ones together: an object costs more than a short trajectory."""
    results: list[GroupResult] = []
    chunk: list[Group] = []
    for number, group in enumerate(groups):
        chunk.append(group)
        full = sum(len(item.trajectories) for item in chunk) >= CHUNK_TRAJECTORIES
        if full or number == len(groups) - 1:
            reference = ray.put(chunk)
            results += [GroupResult(summarise(item), Place(reference, place)) for place, item in enumerate(chunk)]
            chunk = []
    return results


def fetch_groups(places: Sequence[Place]) -> list[Group]:
    """The groups at these places, each object fetched once."""
    unique = {place.reference: None for place in places}
    lists = dict(zip(unique, ray.get(list(unique)), strict=True))
    return [lists[place.reference][place.position] for place in places]
