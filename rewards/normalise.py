"""How large rewards vary in each domain, so that advantages of all domains have one size.

In: at the end of each step, the rewards of its groups.  Out: `scale(domain)`, by which `rewards.advantages` divides.
Called by the loop; saved in every checkpoint.

`scale` only ever reads what earlier steps left: `update` is the one writer, is called once at a step's end, and its
result does not depend on the order of the groups (sums are correctly rounded, `math.fsum`).

Everything inside is in units of the declared range, so that domains of a family can stand in for each other, and so
that multiplying a domain's rewards and range by a power of two changes no bit of its advantages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rewards.advantages import TOLERANCE, Range, group_mean, has_signal, scored_values

FLOOR = 0.05  # of the declared range
WARM_GROUPS = 64
HALF_LIFE = 1024.0  # groups with signal
UNKNOWN_RMS = 0.5  # of the range: the largest that centred rewards can have, so that nothing starts out inflated

Observation = tuple[str, Sequence[float | None]]


@dataclass(slots=True)
class Moments:
    """Decayed sums over the groups with signal of one domain; squares are in units of range².

    `num_groups` is not decayed: it says whether enough was seen.
    """

    squares: float = 0.0
    samples: float = 0.0
    num_groups: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """`rms` in units of the range (floored), and whose it is: "domain", "family", "all" or "unknown"."""

    rms: float
    source: str
    num_groups: int


class DomainStatistics:
    """Running RMS of group-centred rewards, per domain, over groups with signal.

    Old groups fade: sums are halved every `half_life` groups of that domain, because the spread of rewards moves as
    the policy learns.  (A cumulative mean would hold on to the first, easy steps; a fixed number of steps would treat
    rare and frequent domains differently.)

    Until a domain has `warm_groups` groups, its family's pooled value is used; until the family has that many, that of
    all domains; before that, half the range.

    ranges: domain -> declared (low, high).  families: domain -> family, default the name up to the slash.
    Raises ValueError for an empty range.
    """

    def __init__(
        self,
        ranges: Mapping[str, Range],
        families: Mapping[str, str] | None = None,
        *,
        floor: float = FLOOR,
        warm_groups: int = WARM_GROUPS,
        half_life: float = HALF_LIFE,
        tolerance: float = TOLERANCE,
    ):
        self.floor, self.warm_groups, self.half_life, self.tolerance = floor, warm_groups, half_life, tolerance
        self._moments: dict[str, Moments] = {}
        self.set_domains(ranges, families)

    def set_domains(self, ranges: Mapping[str, Range], families: Mapping[str, str] | None = None) -> None:
        """Go on with these domains.  What is known of any domain is kept, also while it is absent."""
        for domain, (low, high) in ranges.items():
            if not low < high:
                raise ValueError(f"domain {domain}: the declared range {(low, high)} is empty")
        self._ranges = dict(ranges)
        self._families = {domain: (families or {}).get(domain, domain.split("/")[0]) for domain in ranges}
        self._pool()

    def scale(self, domain: str) -> float:
        """The divisor for the group-centred rewards of a domain, in units of its reward."""
        low, high = self._range(domain)
        return self.describe(domain).rms * (high - low)

    def describe(self, domain: str) -> Scale:
        """Where the scale of a domain comes from, for logs."""
        self._range(domain)
        own = self._moments.get(domain, Moments())
        for source, moments in (
            ("domain", own),
            ("family", self._by_family[self._families[domain]]),
            ("all", self._over_all),
        ):
            if moments.num_groups >= self.warm_groups and moments.samples > 0:
                rms = math.sqrt(moments.squares / moments.samples)
                return Scale(max(rms, self.floor), source, own.num_groups)
        return Scale(UNKNOWN_RMS, "unknown", own.num_groups)

    def update(self, observations: Iterable[Observation]) -> None:
        """Take in the groups of a finished step: (domain, one reward a trajectory or None), in any order.

        Groups without signal and unscored entries are left out.  Raises ValueError for an unknown domain.
        """
        squares: dict[str, list[float]] = {}
        groups: dict[str, int] = {}
        for domain, values in observations:
            low, high = self._range(domain)
            if has_signal(values, (low, high), self.tolerance):
                units = [value / (high - low) for value in scored_values(values)]
                squares.setdefault(domain, []).extend(value * value for value in group_mean(units))
                groups[domain] = groups.get(domain, 0) + 1
        for domain, terms in squares.items():
            moments = self._moments.setdefault(domain, Moments())
            keep = 0.5 ** (groups[domain] / self.half_life)
            moments.squares = keep * moments.squares + math.fsum(terms)
            moments.samples = keep * moments.samples + len(terms)
            moments.num_groups += groups[domain]
        self._pool()

    def state_dict(self) -> dict[str, Any]:
        """JSON-able; floats survive a round trip through JSON to the bit."""
        return {"moments": {domain: asdict(moments) for domain, moments in sorted(self._moments.items())}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace all that is known.  Domains in the state that are absent now are remembered, new ones start cold."""
        self._moments = {domain: Moments(**saved) for domain, saved in state["moments"].items()}
        self._pool()

    def _range(self, domain: str) -> Range:
        if domain not in self._ranges:
            raise ValueError(f"no statistics for domain {domain!r}: it is not one of the run's {len(self._ranges)}")
        return self._ranges[domain]

    def _pool(self) -> None:
        members: dict[str, list[Moments]] = {family: [] for family in self._families.values()}
        for domain, family in self._families.items():
            members[family].append(self._moments.get(domain, Moments()))
        self._by_family = {family: pooled(parts) for family, parts in members.items()}
        self._over_all = pooled(self._by_family.values())


def pooled(parts: Iterable[Moments]) -> Moments:
    """The sum of moments; the same bits in any order of the parts."""
    parts = list(parts)
    return Moments(
        squares=math.fsum(part.squares for part in parts),
        samples=math.fsum(part.samples for part in parts),
        num_groups=sum(part.num_groups for part in parts),
    )
