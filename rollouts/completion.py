"""Which finished groups are trained on next, so that slow domains get what was drawn for them.  Pure.

In: tickets as they are submitted and as they finish, in any order.  Out: for each step whether to wait, and which
groups to take; how long each domain takes, and how far it is from its part.  For training that goes on while groups are
rolled out; nothing here knows a clock.

Taking whatever is finished and dropping what has become too old trains on fast domains only: a domain whose groups take
longer than the staleness allows is never seen.  So the oldest are taken first, and no step is begun that would make a
group too old which is still under way: the loop waits for it.  Then nothing is dropped for its age, and what is trained
on is what was drawn, late by a bounded number of groups.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class Flight:
    """A ticket under way or waiting to be trained on: its domain, the version that it started under, when it ended."""

    domain: str
    started: int
    finished: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One domain's account.  `bias`: its share of the trained groups over its share of the drawn ones (1: none).

    `steps`: mean number of versions from start to end of its groups.  `held_up`: how often a step waited for it.
    """

    drawn: int
    trained: int
    steps: float
    held_up: int
    bias: float


class CompletionOrder:
    """Groups in flight by age, taken oldest first, `per_step` a step.

    A group that started under v may be trained on in the steps from v to v + max_staleness, its last.  At most
    `capacity` groups at once can all be trained on in time.  They are if after each step from v on, for every later
    step D, at most per_step · (D - v) groups are left whose last step is D or earlier (earliest deadline first); a step
    that would leave more waits for the oldest that are under way.
    """

    def __init__(self, max_staleness: int, per_step: int):
        if max_staleness < 0 or per_step < 1:
            raise ValueError(
                f"max_staleness={max_staleness} must be 0 (synchronous) or more, per_step={per_step} 1 or more"
            )
        self.max_staleness, self.per_step = max_staleness, per_step
        self._flights: dict[int, Flight] = {}
        self._started: Counter[int] = Counter()  # version -> groups in flight that started under it ...
        self._finished: Counter[int] = Counter()  # ... and those of them that are finished
        self._counts: dict[str, Counter[str]] = {}  # domain -> drawn, trained, finished, steps, held_up

    @property
    def capacity(self) -> int:
        return self.per_step * (self.max_staleness + 1)

    @property
    def num_free(self) -> int:
        """How many more groups may be submitted now."""
        return self.capacity - len(self._flights)

    def submit(self, number: int, domain: str, version: int) -> None:
        """A group begins.  Raises ValueError for a number that is under way already, and beyond the capacity."""
        if number in self._flights:
            raise ValueError(f"ticket {number} of {domain} is under way already")
        if not self.num_free:
            raise ValueError(f"ticket {number} of {domain}: {self.capacity} groups are in flight, no more are in time")
        self._flights[number] = Flight(domain, version)
        self._started[version] += 1
        self._count(domain)["drawn"] += 1

    def finish(self, number: int, version: int) -> None:
        """A group ended while the trainer was at `version`."""
        flight = self._flights[number]
        flight.finished = version
        self._finished[flight.started] += 1
        counts = self._count(flight.domain)
        counts["finished"] += 1
        counts["steps"] += version - flight.started

    def blocking(self, version: int) -> list[int]:
        """Groups under way for which the step from `version` on has to wait."""
        newest = self._waits_for(version)
        return [
            number
            for number, flight in sorted(self._flights.items())
            if flight.finished is None and flight.started <= newest
        ]

    def is_ready(self, version: int) -> bool:
        """Whether the step from `version` on can begin: enough is finished, and nothing has to be waited for."""
        return self._finished.total() >= self.per_step and self._waits_for(version) < 0

    def wait(self, version: int) -> None:
        """Note whom the step waits for; call once for a step that cannot begin at once."""
        for domain in sorted({self._flights[number].domain for number in self.blocking(version)}):
            self._count(domain)["held_up"] += 1

    def take(self, version: int) -> list[int]:
        """The tickets of the step from `version` on: the finished ones that started first, then by number.

        Asserts that the step was ready.
        """
        assert self.is_ready(version), f"the step from version {version} has to wait for {self.blocking(version)[:5]}"
        finished = [(flight.started, number) for number, flight in self._flights.items() if flight.finished is not None]
        chosen = [number for _, number in heapq.nsmallest(self.per_step, finished)]
        for number in chosen:
            flight = self._flights.pop(number)
            assert version - flight.started <= self.max_staleness, f"ticket {number} of {flight.domain} is too old"
            self._started -= Counter({flight.started: 1})
            self._finished -= Counter({flight.started: 1})
            self._count(flight.domain)["trained"] += 1
        return chosen

    def _waits_for(self, version: int) -> int:
        """The newest starting version of which more must be finished before the step can begin; -1 if none must."""
        started = finished = 0
        for oldest in sorted(self._started):
            started += self._started[oldest]
            finished += self._finished[oldest]
            must = started - self.per_step * (oldest + self.max_staleness - version)
            if min(self.per_step, finished) < must:
                return oldest
        return -1

    def report(self) -> dict[str, Completion]:
        drawn = sum(counts["drawn"] for counts in self._counts.values())
        trained = sum(counts["trained"] for counts in self._counts.values())
        return {
            domain: Completion(
                drawn=counts["drawn"],
                trained=counts["trained"],
                steps=counts["steps"] / max(counts["finished"], 1),
                held_up=counts["held_up"],
                bias=counts["trained"] * drawn / (counts["drawn"] * trained) if trained and counts["drawn"] else 1.0,
            )
            for domain, counts in sorted(self._counts.items())
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "flights": {str(number): asdict(flight) for number, flight in sorted(self._flights.items())},
            "counts": {domain: dict(counts) for domain, counts in sorted(self._counts.items())},
        }

    def load_state_dict(self, state: Mapping[str, Any], version: int) -> None:
        """Continue where `state` was taken.  Tokens do not outlive a process: what was in flight starts again."""
        self._flights = {int(number): Flight(saved["domain"], version) for number, saved in state["flights"].items()}
        self._started, self._finished = Counter({version: len(self._flights)}), Counter()
        self._counts = {domain: Counter(counts) for domain, counts in state["counts"].items()}

    def _count(self, domain: str) -> Counter[str]:
        return self._counts.setdefault(domain, Counter())
