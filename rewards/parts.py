"""Several rewards a trajectory: each part is normalised by itself, then they are weighed and added.

In: the parts of a group's rewards, with a declared range and a weight for each.  Out: one advantage a trajectory.
Called by `train.collect` for domains that declare parts; saved in every checkpoint.

Adding first would let the part with the large range drown the others, and give different answers one reward.
Normalising first and adding then follows GDPO (arXiv 2601.05242), with the running scales of `rewards.normalise` in
place of each group's standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewards.advantages import CLIP, Range, group_advantages, group_mean, has_signal
from rewards.normalise import DomainStatistics

UNIT = (-1.0, 1.0)  # of the weighed sum: weights sum to one, and a part's centred values have the size of one

Row = Mapping[str, float] | None
Columns = dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Part:
    """A reward of its own: its declared range, and what it counts.  Negative weights are costs."""

    range: Range
    weight: float = 1.0


class PartStatistics:
    """The scale of each part of each domain, and that of their weighed sum.

    parts: domain -> part -> its range and weight.  families: domain -> family.  `options` are those of
    `DomainStatistics`.  Raises ValueError for an empty range and where no part has a weight.
    """

    def __init__(
        self, parts: Mapping[str, Mapping[str, Part]], families: Mapping[str, str] | None = None, **options: float
    ):
        self._parts = {domain: dict(own) for domain, own in parts.items()}
        for domain, own in parts.items():
            if not all(math.isfinite(part.weight) for part in own.values()) or not any(p.weight for p in own.values()):
                raise ValueError(
                    f"domain {domain}: its parts {', '.join(own)} need finite weights, one of them not zero"
                )
        of = {domain: (families or {}).get(domain, domain.split("/")[0]) for domain in parts}
        ranges = {_key(domain, name): part.range for domain, own in parts.items() for name, part in own.items()}
        # The family of a part holds the same part of other domains: only those can stand in for it.
        kin = {_key(domain, name): _key(of[domain], name) for domain, own in parts.items() for name in own}
        self._each = DomainStatistics(ranges, kin, **options)  # type: ignore[arg-type]
        self._sum = DomainStatistics(dict.fromkeys(parts, UNIT), of, **options)  # type: ignore[arg-type]

    def __contains__(self, domain: str) -> bool:
        return domain in self._parts

    def has_signal(self, domain: str, rows: Sequence[Row]) -> bool:
        """Whether the group can teach anything: some part differs, and so does the weighed sum (parts may cancel)."""
        declared, columns = self._parts[domain], self._columns(domain, rows)
        differs = any(has_signal(columns[name], part.range) for name, part in declared.items() if part.weight)
        return differs and has_signal(self._weighed(domain, columns), UNIT)

    def advantages(
        self, domain: str, rows: Sequence[Row], clip: float = CLIP, estimator: str = "group_mean"
    ) -> list[float | None]:
        """One advantage a trajectory; None where the row is None (unscored).

        Raises ValueError for a row that lacks a part, or has one that the domain does not declare.
        """
        weighed = self._weighed(domain, self._columns(domain, rows))
        return group_advantages(weighed, self._sum.scale(domain), clip, estimator)

    def update(self, observations: Iterable[tuple[str, Sequence[Row]]]) -> None:
        """Take in the groups of a finished step, in any order."""
        groups = [(domain, self._columns(domain, rows)) for domain, rows in observations]
        sums = [(domain, self._weighed(domain, columns)) for domain, columns in groups]
        self._each.update((_key(domain, name), column) for domain, own in groups for name, column in own.items())
        self._sum.update(sums)

    def state_dict(self) -> dict[str, Any]:
        return {"each": self._each.state_dict(), "sum": self._sum.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._each.load_state_dict(state["each"])
        self._sum.load_state_dict(state["sum"])

    def _columns(self, domain: str, rows: Sequence[Row]) -> Columns:
        declared = self._parts[domain]
        for row in rows:
            if row is not None and row.keys() != declared.keys():
                raise ValueError(
                    f"domain {domain}: a score has the parts {sorted(row)}, declared are {sorted(declared)}"
                )
        return {name: [None if row is None else row[name] for row in rows] for name in declared}

    def _weighed(self, domain: str, columns: Columns) -> list[float | None]:
        """Σ weight · (part - its group mean) / its scale; a part that does not differ adds exactly nothing."""
        declared = self._parts[domain]
        total = math.fsum(abs(part.weight) for part in declared.values())
        terms: list[list[float]] = []
        for name, part in declared.items():
            scored = [value for value in columns[name] if value is not None]
            if scored and has_signal(scored, part.range):
                unit = part.weight / total / self._each.scale(_key(domain, name))
                terms.append([centred * unit for centred in group_mean(scored)])
        count = sum(value is not None for value in next(iter(columns.values())))
        sums = iter([math.fsum(term[i] for term in terms) for i in range(count)])
        return [None if value is None else next(sums) for value in next(iter(columns.values()))]


def _key(domain: str, part: str) -> str:
    return f"{domain}#{part}"
