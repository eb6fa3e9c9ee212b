"""Who is next, so that counts follow shares exactly: two sequencers over names, both pure and resumable.

In: a share for each name.  Out: an endless sequence of names.  Used by `rollouts.mixture` (domains, and tiers within
a domain) and by `rollouts.mix` (what the first step will hold).

- `ExactQuota`, fixed shares: |count - n * share| < 1 for every name at every prefix n.
- `CarriedQuota`, shares that change at any time: |count - sum of the shares so far| <= 1 + ln(names).

No random number is drawn: ties are broken by a hash of the seed and the name.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Weight = int | float | Fraction
IntArray = npt.NDArray[np.int64]

ONE = 2**40  # a whole draw in the integer units of CarriedQuota
FAR = 2**62  # a draw that is never reached
MAX_AHEAD = 8192  # an order is planned as far as the rarest name's first deadline, but no further than this


def exact_fraction(weight: Weight) -> Fraction:
    """The number that was meant: 0.55 is 11/20, and 1/3 as a float is 1/3.

    A float stands for its shortest decimal, or for a simple fraction (denominator up to a million) that is the same
    within the float's own rounding error.  Raises ValueError for NaN and infinities.
    """
    if isinstance(weight, (int, Fraction)):
        return Fraction(weight)
    if not math.isfinite(weight):
        raise ValueError(f"a weight must be a finite number, got {weight}")
    decimal = Fraction(repr(float(weight)))
    simple = decimal.limit_denominator(1_000_000)
    return simple if abs(simple - decimal) <= abs(decimal) / 2**51 else decimal


def shares(weights: Mapping[str, Weight]) -> dict[str, Fraction]:
    """Weights as exact shares that sum to one, in name order; names of weight zero are left out.

    Raises ValueError for negative or non-finite weights, and when nothing is left.
    """
    exact = {name: exact_fraction(weights[name]) for name in sorted(weights)}
    negative = [name for name, weight in exact.items() if weight < 0]
    if negative:
        raise ValueError(f"weight of {negative[0]!r} is negative: {weights[negative[0]]}")
    total = sum(exact.values(), Fraction(0))
    if total == 0:
        raise ValueError("all weights are zero: nothing to draw from")
    return {name: weight / total for name, weight in exact.items() if weight > 0}


def stable_hash(*parts: object) -> int:
    """64 bits that depend on the parts only: the same in every process and on every machine."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "big")


@dataclass(frozen=True, slots=True)
class Unit:
    """The draw of a name after `count` = k earlier ones; outside of draws release … deadline the bound would break.

    Example: share 2/5, k = 0: n * share > 0 from n = 1 on; the count may be 0 only while n * share < 1, so the last
    n is 3: Unit("a", 0, release=1, deadline=3).
    """

    name: str
    count: int
    release: int
    deadline: int


def unit(name: str, count: int, share: Fraction) -> Unit:
    """The unit after `count` earlier ones, with its window in exact arithmetic."""
    numerator, denominator = share.numerator, share.denominator
    release = count * denominator // numerator + 1
    deadline = -(-(count + 1) * denominator // numerator)
    return Unit(name, count, release, deadline)


class ExactQuota:
    """Fixed shares, |count - n * share| < 1 at every prefix.

    Earliest deadline first among the released units (Steiner and Yeomans, 1993; Tijdeman's chairman assignment, 1980):
    each unit has a window outside of which the bound breaks, and earliest-deadline order meets all windows whenever
    any order does.  Largest-deficit order does not.

    With `labels` (families, say) that order is smoothed: it is planned some way ahead, and a planned unit may jump
    the queue if it is released and everything that it delays still meets its deadline; of those, the label most
    behind is served.  Otherwise equal domains of one family share their deadlines, and a step smaller than the number
    of domains would hold little but that family.
    """

    def __init__(self, shares: Mapping[str, Fraction], seed: object = 0, labels: Mapping[str, str] | None = None):
        self.shares = dict(shares)
        self._rank = {name: (stable_hash(seed, name), name) for name in shares}
        self._spreader = _spreader(self.shares, labels) if labels else None
        self._start(dict.fromkeys(shares, 0), [])

    def draw(self) -> str:
        """The next name.  O(log names); with labels also O(length of the plan), in numpy."""
        self._num_drawn += 1
        if self._spreader is None:
            chosen = self._earliest_deadline().name
        else:
            while not self._spreader.is_full:
                self._spreader.append(self._earliest_deadline())
            chosen = self._spreader.take(self._num_drawn)
        self._counts[chosen] += 1
        return chosen

    def counts(self) -> dict[str, int]:
        """How often each name was drawn."""
        return dict(self._counts)

    def deviations(self) -> dict[str, Fraction]:
        """n * share - count of each name: above zero is owed, below is ahead.  Exact, each in (-1, 1)."""
        return {name: self._num_drawn * share - self._counts[name] for name, share in self.shares.items()}

    def state_dict(self) -> dict[str, Any]:
        counts = {name: count for name, count in self._counts.items() if count}
        return {"counts": counts, "plan": self._spreader.plan() if self._spreader else []}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken; the shares, seed and labels must be the same."""
        counts = {name: int(state["counts"].get(name, 0)) for name in self.shares}
        self._start(counts, [unit(name, int(count), self.shares[name]) for name, count in state["plan"]])

    def _start(self, counts: dict[str, int], plan: list[Unit]) -> None:
        self._counts = counts
        self._num_drawn = sum(counts.values())
        self._num_planned = self._num_drawn + len(plan)
        if self._spreader:
            self._spreader.start(counts, plan)
        ahead = Counter(planned.name for planned in plan)
        self._waiting: list[tuple[int, tuple[int, str], Unit]] = []  # heap by release
        self._ready: list[tuple[int, tuple[int, str], Unit]] = []  # heap by deadline
        for name in self.shares:
            self._enqueue(name, counts[name] + ahead[name])

    def _enqueue(self, name: str, count: int) -> None:
        upcoming = unit(name, count, self.shares[name])
        heapq.heappush(self._waiting, (upcoming.release, self._rank[name], upcoming))

    def _earliest_deadline(self) -> Unit:
        """The unit for the first draw that is not planned yet."""
        self._num_planned += 1
        while self._waiting and self._waiting[0][0] <= self._num_planned:
            _, rank, released = heapq.heappop(self._waiting)
            heapq.heappush(self._ready, (released.deadline, rank, released))
        chosen = heapq.heappop(self._ready)[2]
        assert chosen.deadline >= self._num_planned, f"{chosen} missed its deadline at draw {self._num_planned}"
        self._enqueue(chosen.name, chosen.count + 1)
        return chosen


def _spreader(shares: Mapping[str, Fraction], labels: Mapping[str, str]) -> _Spreader | None:
    """None where there is nothing to spread: one label, or as many labels as names."""
    num_labels = len({labels[name] for name in shares})
    return _Spreader(shares, labels) if 1 < num_labels < len(shares) else None


class _Spreader:
    """The next draws, planned; serves the label most behind as far as every planned unit keeps its window.

    The unit at index i is planned for the coming draw + i, in earliest-deadline order.  When the one at index j jumps
    the queue, that order is restored by a chain: the unit at 0 is put off to the next index that holds a later
    deadline, that one to the next later still, and the last of them to j.  It is allowed if each meets its deadline,
    that is if max(deadlines of 0 … i-1) >= draw + i for all i up to j.
    """

    def __init__(self, shares: Mapping[str, Fraction], labels: Mapping[str, str]):
        self._names = list(shares)
        self._index = {name: i for i, name in enumerate(self._names)}
        kinds = sorted({labels[name] for name in shares})
        self._label_of = np.array([kinds.index(labels[name]) for name in self._names], dtype=np.int64)
        self._share = np.bincount(self._label_of, weights=[float(share) for share in shares.values()])
        length = min(MAX_AHEAD, math.ceil(1 / min(shares.values())))
        self._steps = np.arange(length, dtype=np.int64)
        self._rows = np.zeros((5, length), dtype=np.int64)  # name, count, release, deadline, label
        self._length = 0

    @property
    def is_full(self) -> bool:
        return self._length == len(self._steps)

    def start(self, counts: Mapping[str, int], plan: list[Unit]) -> None:
        drawn = [counts[name] for name in self._names]
        self._count = np.bincount(self._label_of, weights=drawn)
        self._length = 0
        for planned in plan:
            self.append(planned)

    def append(self, planned: Unit) -> None:
        name = self._index[planned.name]
        window = min(planned.release, FAR), min(planned.deadline, FAR)
        self._rows[:, self._length] = (name, planned.count, *window, self._label_of[name])
        self._length += 1

    def take(self, draw: int) -> str:
        """Remove and name the unit for this draw; the plan must be full."""
        names, _, releases, deadlines, labels = self._rows
        latest = np.maximum.accumulate(deadlines)
        blocked = latest[:-1] < draw + self._steps[1:]
        end = int(blocked.argmax()) + 1 if blocked.any() else len(latest)
        ahead = (self._count - draw * self._share)[labels[:end]]
        ahead[releases[:end] > draw] = np.inf
        chosen = int(ahead.argmin())
        name = self._names[names[chosen]]
        self._count[labels[chosen]] += 1
        self._remove(chosen, latest)
        return name

    def _remove(self, chosen: int, latest: IntArray) -> None:
        """Close the gap at `chosen` with the chain of units that were the latest so far, and step on by one draw."""
        before = latest[:chosen]
        chain = [0, *(np.flatnonzero(before[1:] > before[:-1]) + 1).tolist(), chosen] if chosen else [0]
        self._rows[:, chain[1:]] = self._rows[:, chain[:-1]]
        self._rows[:, :-1] = self._rows[:, 1:]
        self._length -= 1

    def plan(self) -> list[list[Any]]:
        """[name, count before it] of each planned unit."""
        names, counts = self._rows[:2, : self._length].tolist()
        return [[self._names[name], count] for name, count in zip(names, counts, strict=True)]


class CarriedQuota:
    """Shares that change at any time: |count - sum of the shares so far| <= 1 + ln(names).

    Every draw adds its share to each name's account and takes one from one of them.  Taking it from the fullest is the
    cup game (Dietz and Sleator, 1987): the accounts sum to zero, and by induction over draws the k fullest of D average
    at most c + 1/(k+1) + … + 1/D if they did so before; for k = 1 that is below c + ln(D).  We allow c = 1.  So long as
    that *reserve* holds for every k afterwards, any account above zero may pay: with `labels`, the fullest one of the
    label with the most in sum, so that labels alternate; otherwise the fullest of all.  An account pays only when it is
    above zero, so none falls below -1.

    Accounts are integers in units of 2**-40 draws, shares are rounded to that, with their sum kept exactly.  A name
    that leaves takes its account with it; the others are then balanced by `forgive`, which enlarges no account (and
    D is the largest number of names so far).
    """

    def __init__(
        self,
        shares: Mapping[str, Fraction],
        accounts: Mapping[str, Fraction | int] | None = None,
        seed: object = 0,
        labels: Mapping[str, str] | None = None,
    ):
        self.seed = seed
        self._most = 0
        self.set_shares(shares, labels, {name: round(value * ONE) for name, value in (accounts or {}).items()})

    def set_shares(
        self,
        shares: Mapping[str, Fraction],
        labels: Mapping[str, str] | None = None,
        accounts: Mapping[str, int] | None = None,
    ) -> None:
        """Go on with these shares and labels; names that are new start at zero."""
        known = self._by_name() if accounts is None else accounts
        self.shares = dict(shares)
        self._names = sorted(shares, key=lambda name: (stable_hash(self.seed, name), name))
        self._accounts = np.array(forgive([known.get(name, 0) for name in self._names]), dtype=np.int64)
        self._rates = np.array(round_to_units([shares[name] for name in self._names]), dtype=np.int64)
        kinds = sorted({(labels or {}).get(name, "") for name in shares})
        self._label_of = np.array([kinds.index((labels or {}).get(name, "")) for name in self._names])
        self._set_reserve(len(self._names))

    def draw(self) -> str:
        """The next name.  O(names · log names), in numpy."""
        self._accounts += self._rates
        payer = self._fullest_of_label()
        self._accounts[payer] -= ONE
        if not self._within_reserve():
            self._accounts[payer] += ONE
            payer = int(self._accounts.argmax())
            self._accounts[payer] -= ONE
        return self._names[payer]

    def deviations(self) -> dict[str, Fraction]:
        """Each name's account, in draws: above zero is owed, below is ahead."""
        return {name: Fraction(account, ONE) for name, account in self._by_name().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"accounts": self._by_name(), "most": self._most}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken; the shares, seed and labels must be the same."""
        saved = [int(state["accounts"][name]) for name in self._names]
        self._accounts = np.array(saved, dtype=np.int64)
        self._set_reserve(int(state["most"]))

    def _by_name(self) -> dict[str, int]:
        return dict(zip(self._names, self._accounts.tolist(), strict=True))

    def _set_reserve(self, num_names: int) -> None:
        """The most that the k fullest accounts may hold together: k · (1 + 1/(k+1) + … + 1/D)."""
        self._most = max(self._most, num_names)
        steps = np.arange(1, self._most + 1)
        tail = np.cumsum((1 / steps)[::-1])[::-1] - 1 / steps
        self._reserve = steps * (1 + tail) * ONE

    def _fullest_of_label(self) -> int:
        sums = np.bincount(self._label_of, weights=self._accounts)
        members = self._label_of == sums.argmax()
        return int(np.where(members, self._accounts, -FAR).argmax())

    def _within_reserve(self) -> bool:
        positive = np.sort(self._accounts[self._accounts > 0])[::-1]  # the sums only fall beyond those
        return bool((np.cumsum(positive) <= self._reserve[: len(positive)]).all())


def round_to_units(shares: list[Fraction]) -> list[int]:
    """Shares as integers that sum to exactly `ONE` (largest remainder)."""
    rounded = [math.floor(share * ONE) for share in shares]
    missing = ONE - sum(rounded)
    by_remainder = sorted(range(len(shares)), key=lambda i: (rounded[i] - shares[i] * ONE, i))
    for i in by_remainder[:missing]:
        rounded[i] += 1
    return rounded


def forgive(accounts: list[int]) -> list[int]:
    """Bring the sum to zero by shrinking the heavier side in proportion: no account grows, none changes its sign."""
    owed = sum(account for account in accounts if account > 0)
    ahead = -sum(account for account in accounts if account < 0)
    if owed == ahead:
        return list(accounts)
    sign = 1 if owed > ahead else -1
    heavy, light = max(owed, ahead), min(owed, ahead)
    shrunk = [account * light // heavy if account * sign > 0 else account for account in accounts]
    if sign < 0:  # floor division moved these away from zero
        shrunk = [-(-account * light // heavy) if account < 0 else account for account in accounts]
    rest = abs(sum(shrunk))
    for i, account in enumerate(accounts):
        if rest and account * sign > 0 and abs(shrunk[i]) < abs(account):
            shrunk[i] += sign
            rest -= 1
    return shrunk
