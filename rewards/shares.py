"""A bound on what one domain may hold of a step's Σ |advantage| · weight: reported always, enforced if asked.

In: those sums by domain and the share that each domain is meant to have now.  Out: who is above its bound, and factors
that bring it there.  Pure; called last, by `train.collect`, when advantages and weights are final.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate


def over(sums: Mapping[str, float], meant: Mapping[str, float], bound: float) -> dict[str, float]:
    """Domains above `bound` times the share that they are meant to have, with share / meant share.

    meant: the *present* quota of each domain, so that one whose quota was raised may hold more.  It is normalised over
    the domains that have any sum.  Raises ValueError for a bound below 1 and for a domain that is meant to have none.
    """
    caps = _caps(sums, meant, bound)
    total = math.fsum(sums.values())
    ratios = {name: sums[name] / total / cap * bound for name, cap in caps.items()}
    return {name: ratio for name, ratio in ratios.items() if ratio > bound}


def factors(sums: Mapping[str, float], meant: Mapping[str, float], bound: float) -> dict[str, float]:
    """By what to multiply each domain's weights, at most 1, so that none holds more than `bound` times its share.

    Cutting one raises the shares of the others, so the cut ones end at their bound of the *new* total T:
    T = (sum of the uncut) / (1 - caps of the cut); they are found in order of sum / cap, O(D log D).  Caps sum to
    `bound`, so the last in that order is never cut.
    """
    caps = _caps(sums, meant, bound)
    order = sorted(caps, key=lambda name: (-sums[name] / caps[name], name))
    uncut = list(accumulate(sums[name] for name in reversed(order)))[::-1]  # sum of order[i:]
    total, room = math.fsum(sums.values()), 1.0
    for position, name in enumerate(order[:-1]):
        if sums[name] <= caps[name] * total:
            break
        room -= caps[name]
        total = uncut[position + 1] / room
    return {name: min(1.0, caps[name] * total / sums[name]) if name in caps else 1.0 for name in sums}


def _caps(sums: Mapping[str, float], meant: Mapping[str, float], bound: float) -> dict[str, float]:
    if not bound >= 1:
        raise ValueError(f"a bound on shares must be 1 or more, got {bound}")
    here = [name for name, value in sums.items() if value > 0]
    nothing = [name for name in here if not meant.get(name, 0.0) > 0]
    if nothing:
        raise ValueError(f"domain {nothing[0]!r} is in the batch, but is meant to have no share")
    total = math.fsum(meant[name] for name in here)
    return {name: bound * meant[name] / total for name in here}
