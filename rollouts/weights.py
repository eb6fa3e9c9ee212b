"""How a family's weight is split over what it holds: family -> skill -> level (tiers: `rollouts.mixture`).  Pure.

In: names of domains, weights of levels, sizes.  Out: one exact factor a domain, and exact shares within bounds.  Used
by `rollouts.mix` for the base mix and by `rollouts.adaptive` for whatever moves it.

A *skill* is what domains share that differ in difficulty only: `math/add-easy`, `math/add` and `math/add-hard` are the
levels easy, medium and hard of the skill `math/add`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from rollouts.quotas import Weight, exact_fraction

LEVELS = ("easy", "medium", "hard")
BITS = 20  # of a multiplier that count, so that exact sums of a thousand of them stay short


def skill_and_level(domain: str) -> tuple[str, str]:
    """`math/add-easy` -> (`math/add`, `easy`); a name without a level is the medium one."""
    stem, dash, last = domain.rpartition("-")
    return (stem, last) if dash and last in LEVELS and last != "medium" else (domain, "medium")


@dataclass(frozen=True, slots=True)
class Split:
    """How a family's weight goes to its domains; the default is evenly.

    - `levels`: weight of each level within its skill.  Empty: every domain counts by itself, so that a skill with three
      levels has three times the weight of one with one.
    - `temperature` T above 0: a skill counts as its size ** (1/T), after Raffel et al., 2020 (arXiv 1910.10683,
      section 3.5.2): T = 1 is proportional, a large T is even.  0: sizes do not count.  It needs levels.
    - `sizes`: domain -> distinct tasks; absent or None is unbounded.  `largest`: what no size exceeds.

    Raises ValueError for a level that does not exist, a negative or non-finite weight, and unusable sizes.
    """

    levels: Mapping[str, Weight] = field(default_factory=dict)
    temperature: float = 0.0
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    largest: int = 1

    def __post_init__(self) -> None:
        for level, weight in self.levels.items():
            if level not in LEVELS:
                raise ValueError(f"mix.levels.{level}={weight}: there is no such level; levels are {', '.join(LEVELS)}")
            if exact_fraction(weight) < 0:
                raise ValueError(f"mix.levels.{level}={weight} must be 0 or more")
        if self.levels and not any(self.levels.values()):
            raise ValueError("mix.levels: every weight is zero: nothing to draw from")
        if self.temperature < 0 or (self.temperature and not self.levels):
            raise ValueError(f"mix.size_temperature={self.temperature} must be 0, or above 0 with mix.levels given")
        if self.largest < 1 or any(size is not None and size < 1 for size in self.sizes.values()):
            raise ValueError(f"sizes and mix.size_largest={self.largest} must be 1 or more")


EVEN = Split()


def factors(domains: Iterable[str], split: Split = EVEN) -> dict[str, Fraction]:
    """Each domain's weight among all domains of its family; only those that take part are given.

    A skill's weight goes to the levels that it has here: without its hard level, the others share it.
    """
    domains = sorted(domains)
    if not split.levels:
        return dict.fromkeys(domains, Fraction(1))
    skills: dict[str, dict[str, Fraction]] = {}
    for domain in domains:
        skill, level = skill_and_level(domain)
        skills.setdefault(skill, {})[domain] = exact_fraction(split.levels.get(level, 0))
    found: dict[str, Fraction] = {}
    for own in skills.values():
        total = sum(own.values(), Fraction(0))
        size = _size_weight(own, split)
        found |= {domain: size * weight / total if total else Fraction(0) for domain, weight in own.items()}
    return found


def _size_weight(domains: Iterable[str], split: Split) -> Fraction:
    if not split.temperature:
        return Fraction(1)
    sizes = [split.sizes.get(domain) for domain in domains]
    known = [size for size in sizes if size is not None]
    size = min(sum(known), split.largest) if len(known) == len(sizes) else split.largest
    return exact_fraction(size ** (1 / split.temperature))


def bounded(base: Mapping[str, Fraction], multipliers: Mapping[str, float], bound: float) -> dict[str, Fraction]:
    """Shares in proportion to base · multiplier, none outside [base / bound, base · bound], with the sum kept exactly.

    share_d = base_d · clip(c · m_d, 1/bound, bound) with the one c > 0 for which they sum to what `base` sums to: each
    addend grows with c and is linear between two of the 2·D values at which something reaches a bound, so c is found by
    walking over those in order.  O(D log D), exact.  A name without a multiplier has 1.

    Raises ValueError for a bound below 1 and for a multiplier that is not a finite number above zero.
    """
    if not bound >= 1:
        raise ValueError(f"a bound on shares must be 1 or more, got {bound}")
    wrong = {name: value for name, value in multipliers.items() if not 0 < value < float("inf")}
    if wrong:
        raise ValueError(f"multipliers of shares must be finite and above zero, got {wrong}")
    most = exact_fraction(bound)
    exact = {name: _short(multipliers.get(name, 1.0)) for name in base}
    scale = _scale(base, exact, most)
    return {name: share * min(max(scale * exact[name], 1 / most), most) for name, share in base.items()}


def _scale(base: Mapping[str, Fraction], multipliers: Mapping[str, Fraction], most: Fraction) -> Fraction:
    """The c of `bounded`: where sum(base · clip(c · m, 1/most, most)) = sum(base)."""
    wanted = sum(base.values(), Fraction(0))
    fixed, slope = wanted / most, Fraction(0)  # at c = 0 everyone is at the lower bound
    events: list[tuple[Fraction, Fraction, Fraction]] = []  # c, change of the fixed part, change of the slope
    for name, share in base.items():
        rate = share * multipliers[name]
        events.append((1 / most / multipliers[name], -share / most, rate))
        events.append((most / multipliers[name], share * most, -rate))
    events.sort()
    for c, change, change_of_slope in events:
        if fixed + slope * c >= wanted:
            return (wanted - fixed) / slope if slope else c
        fixed += change
        slope += change_of_slope
    return Fraction(1)  # nothing has a share


def _short(value: float) -> Fraction:
    mantissa, exponent = math.frexp(value)
    return round(mantissa * 2**BITS) * Fraction(2) ** (exponent - BITS)
