"""What is known of one domain: how many groups were drawn, what became of them, what is owed.

In: what `rollouts.mixture` says happened.  Out: an `Account`, which is saved in every checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

STARVED_SHARE = 0.1  # of what a domain should have had accepted lately: more written off than that is starving
STARVED_MEMORY = 32  # accepted or written off draws over which that is averaged
MAX_REASONS = 20  # distinct ones that are counted for a domain; further ones are "other"


class Outcome(Enum):
    """What became of a ticket.  All but ACCEPTED leave a debt."""

    ACCEPTED = "accepted"
    FILTERED = "filtered"  # no signal
    UNSCORED = "unscored"  # the infrastructure failed
    STALE = "stale"  # too old to be trained on


@dataclass(slots=True)
class Account:
    """All that is known of one domain; it outlives the domain's stay in the mixture.

    submitted = accepted + filtered + unscored + stale + in flight, at all times.  `owed` is a heap of (number of the
    lost ticket, tier).  `credit` is the number of refills it may still take: each ordinary draw adds three.
    `reasons` says of all losses why ("filtered: all solved"); `received` counts what it took over from its family;
    `starving` is a running mean of 1 for each draw written off and 0 for each accepted.
    """

    cursor: int
    submitted: int = 0
    settled: dict[str, int] = field(default_factory=lambda: {outcome.value: 0 for outcome in Outcome})
    owed: list[tuple[int, str]] = field(default_factory=list)
    credit: int = 0
    written_off: int = 0
    starving: float = 0.0
    received: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def is_starved(self) -> bool:
        return self.starving > STARVED_SHARE

    def count_met(self, met: bool) -> None:
        """A draw was accepted in the end (perhaps by a refill), or it was written off."""
        self.starving += ((0 if met else 1) - self.starving) / STARVED_MEMORY

    def count_reason(self, outcome: Outcome, reason: str) -> None:
        name = f"{outcome.value}: {reason}" if reason else outcome.value
        if name not in self.reasons and len(self.reasons) >= MAX_REASONS:
            name = f"{outcome.value}: other"
        self.reasons[name] = self.reasons.get(name, 0) + 1


def account_document(account: Account) -> dict[str, Any]:
    """An account as JSON gives it back: pairs are lists."""
    return asdict(account) | {"owed": [list(pair) for pair in account.owed]}


def account_from(saved: Mapping[str, Any]) -> Account:
    settled = dict(saved["settled"])
    reasons = saved.get("reasons", {name: count for name, count in settled.items() if count and name != "accepted"})
    return Account(**{**saved, "settled": settled, "owed": pairs(saved["owed"]), "reasons": dict(reasons)})


def pairs(saved: Iterable[Sequence[Any]]) -> list[tuple[int, str]]:
    return [(int(number), str(tier)) for number, tier in saved]
