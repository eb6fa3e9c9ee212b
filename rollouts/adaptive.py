"""Weights that follow what the policy can do: learnability, improvement, curricula over levels, balance of tokens.

    base shares ─► adaptive multipliers, bounded ─► levels within each skill ─► tokens, bounded ─► Mixture.set_weights

In: after each step, a few numbers of its groups.  Out: exact shares that sum to one.  Pure; called by `train.loop`,
saved in every checkpoint.  What is decided reads finished steps only, and at most every `update_every` of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from rollouts.quotas import Weight, exact_fraction, shares
from rollouts.weights import LEVELS, bounded, skill_and_level

SIGNALS = ("none", "learnability", "improvement")
LEAST = 1e-6  # of a multiplier: bounds decide, not a zero


@dataclass(frozen=True, slots=True)
class Seen:
    """One finished group, with signal or without: success and spread in units of the declared range.

    Example: rewards 0, 1, 1, 1 in (0, 1): ``Seen("math/add", success=0.75, spread=0.375, tokens=120)``
    """

    domain: str
    success: float
    spread: float
    tokens: int


def seen(domain: str, values: Sequence[float | None], declared_range: tuple[float, float], tokens: int) -> Seen | None:
    """The numbers of a group: mean reward, and mean |reward - mean|, over the scored ones.  None if there is none.

    With binary rewards the spread is 2p(1-p): the learnability E|A| of DUMP (arXiv 2504.09710).
    """
    low, high = declared_range
    units = [(value - low) / (high - low) for value in values if value is not None]
    if not units:
        return None
    mean = math.fsum(units) / len(units)
    return Seen(domain, mean, math.fsum(abs(unit - mean) for unit in units) / len(units), tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What moves weights; the defaults move nothing.  `train.config_mix` says what each means and checks it.

    `signal`, `bound`, `rate`, `reward_weight`: adaptive weights.  `focus`, `up`, `down`, `groups`: the curriculum (off
    at focus 0).  `token_bound`: balance of tokens (off at 0).  `half_life`: groups after which a domain's old groups
    count half.  `warm_groups`: groups before a domain's numbers count at all.
    """

    update_every: int = 1
    signal: str = "none"
    bound: float = 3.0
    rate: float = 1.0
    reward_weight: float = 1.0
    focus: float = 0.0
    up: float = 0.8
    down: float = 0.2
    groups: int = 16
    token_bound: float = 0.0
    half_life: float = 64.0
    warm_groups: int = 8


@dataclass(slots=True)
class Record:
    """Decayed sums over the groups of one domain; `num_groups` is not decayed.

    `previous`: success at the last update, None before the first.  `log_weight`: xi of `improvement`.
    """

    count: float = 0.0
    success: float = 0.0
    spread: float = 0.0
    tokens: float = 0.0
    num_groups: int = 0
    previous: float | None = None
    log_weight: float = 0.0

    def take_in(self, groups: Sequence[Seen], half_life: float) -> None:
        keep = 0.5 ** (len(groups) / half_life)
        self.count = keep * self.count + len(groups)
        self.success = keep * self.success + math.fsum(group.success for group in groups)
        self.spread = keep * self.spread + math.fsum(group.spread for group in groups)
        self.tokens = keep * self.tokens + math.fsum(group.tokens for group in groups)
        self.num_groups += len(groups)


@dataclass(slots=True)
class Place:
    """Where a skill stands: the domain that is its present level, and what was seen of it since it came there."""

    domain: str
    count: float = 0.0
    success: float = 0.0


class AdaptiveWeights:
    """Shares that follow the policy, from base weights, within bounds.

    base: domain -> weight.  families: domain -> family, default the name up to the slash.  What is known of a domain
    outlives its stay.
    """

    def __init__(self, base: Mapping[str, Weight], rules: Rules, families: Mapping[str, str] | None = None):
        if rules.signal not in SIGNALS:
            raise ValueError(f"mix.adaptive.signal={rules.signal!r} is not one of {', '.join(SIGNALS)}")
        self.rules = rules
        self._base = shares(base)
        self._families = {name: (families or {}).get(name, name.split("/")[0]) for name in self._base}
        self._records: dict[str, Record] = {}
        self._places: dict[str, Place] = {}
        self._num_steps = 0
        self._ladders = _ladders(self._base) if rules.focus else {}

    def observe(self, groups: Iterable[Seen]) -> bool:
        """Take in a finished step, in any order of its groups.  True when this step is one that may move weights."""
        by_domain: dict[str, list[Seen]] = {}
        for group in groups:
            by_domain.setdefault(group.domain, []).append(group)
        for domain, own in by_domain.items():
            self._records.setdefault(domain, Record()).take_in(own, self.rules.half_life)
        self._places |= {skill: self._place(skill) for skill in self._ladders}
        for place in self._places.values():
            own = by_domain.get(place.domain, [])
            place.count += len(own)
            place.success += math.fsum(group.success for group in own)
        self._num_steps += 1
        if self._num_steps % self.rules.update_every:
            return False
        self._move_levels()
        if self.rules.signal == "improvement":
            self._move_log_weights()
        return True

    def weights(self) -> dict[str, Fraction]:
        """The present shares: sum exactly one; zero for a level that its skill is not near."""
        present = self._adapted()
        for skill, ladder in self._ladders.items():
            total = sum((present[name] for name in ladder), Fraction(0))
            present |= _on_ladder(ladder, self._place(skill).domain, total, self.rules.focus)
        if self.rules.token_bound:
            present = bounded(present, self._per_token(), self.rules.token_bound)
        return present

    def levels(self) -> dict[str, str]:
        """The present level's domain of each skill that has several."""
        return {skill: self._place(skill).domain for skill in self._ladders}

    def tokens_per_group(self) -> dict[str, float]:
        """Mean tokens of a group of each domain that is known well enough."""
        return {name: record.tokens / record.count for name, record in self._known().items()}

    def state_dict(self) -> dict[str, Any]:
        return {
            "records": {name: asdict(record) for name, record in sorted(self._records.items())},
            "places": {skill: asdict(place) for skill, place in sorted(self._places.items())},
            "num_steps": self._num_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken.  A skill whose present level is gone starts again at its lowest."""
        self._records = {name: Record(**saved) for name, saved in state["records"].items()}
        self._places = {skill: Place(**saved) for skill, saved in state["places"].items()}
        self._num_steps = int(state["num_steps"])

    # Inside

    def _known(self) -> dict[str, Record]:
        found = {name: self._records[name] for name in self._base if name in self._records}
        return {name: record for name, record in found.items() if record.num_groups >= self.rules.warm_groups}

    def _adapted(self) -> dict[str, Fraction]:
        if self.rules.signal == "none":
            return dict(self._base)
        multipliers = self._learnability() if self.rules.signal == "learnability" else self._improvement()
        return bounded(self._base, multipliers, self.rules.bound)

    def _learnability(self) -> dict[str, float]:
        """Spread over the mean spread; who is not known yet counts as the mean."""
        spreads = {name: record.spread / record.count for name, record in self._known().items()}
        mean = self._mean(spreads)
        return {name: max(spread / mean, LEAST) for name, spread in spreads.items()} if mean > 0 else {}

    def _improvement(self) -> dict[str, float]:
        return {name: math.exp(record.log_weight) for name, record in self._known().items()}

    def _move_log_weights(self) -> None:
        """One step of MT-GRPO's weights (arXiv 2602.05547): xi <- xi - rate · z/base · (s - mean s), s = I + lambda·J.

        I is the change of success since the last update, J the success: what is bad and gets no better gains weight.
        The paper's factor z is divided by the base share here, so that steps do not shrink with the number of domains;
        xi stays within ± ln(bound), so that a domain at a bound leaves it as soon as its numbers turn.
        """
        z = self._adapted()
        known = self._known()
        success = {name: record.success / record.count for name, record in known.items()}
        gain = {
            name: success[name] - (success[name] if record.previous is None else record.previous)
            for name, record in known.items()
        }
        signal = {name: gain[name] + self.rules.reward_weight * success[name] for name in known}
        mean = self._mean(signal, z)
        limit = math.log(self.rules.bound)
        for name, record in known.items():
            moved = record.log_weight - self.rules.rate * float(z[name] / self._base[name]) * (signal[name] - mean)
            record.log_weight = min(max(moved, -limit), limit)
            record.previous = success[name]

    def _mean(self, values: Mapping[str, float], weights: Mapping[str, Fraction] | None = None) -> float:
        given = {name: float((weights or self._base)[name]) for name in values}
        total = math.fsum(given.values())
        return math.fsum(given[name] * value for name, value in values.items()) / total if total else 0.0

    def _per_token(self) -> dict[str, float]:
        """Mean tokens over a domain's tokens a group; its family's where it is not known yet, else 1."""
        tokens = self.tokens_per_group()
        mean = self._mean(tokens)
        members: dict[str, list[float]] = {}
        for name, value in tokens.items():
            members.setdefault(self._families[name], []).append(value)
        by_family = {family: math.fsum(values) / len(values) for family, values in members.items()}
        expected = {name: tokens.get(name, by_family.get(self._families[name], mean)) for name in self._base}
        return {name: mean / value for name, value in expected.items() if value > 0 and mean > 0}

    def _place(self, skill: str) -> Place:
        ladder = self._ladders[skill]
        place = self._places.get(skill)
        return place if place is not None and place.domain in ladder else Place(ladder[0])

    def _move_levels(self) -> None:
        """Up at `up` or better, down at `down` or worse, each over at least `groups` groups since the last move."""
        for skill, ladder in self._ladders.items():
            place = self._places[skill]
            if place.count < self.rules.groups:
                continue
            success, position = place.success / place.count, ladder.index(place.domain)
            if success >= self.rules.up and position + 1 < len(ladder):
                self._places[skill] = Place(ladder[position + 1])
            elif success <= self.rules.down and position > 0:
                self._places[skill] = Place(ladder[position - 1])
            else:  # recent groups decide, not all that were ever seen here
                keep = self.rules.groups / place.count / 2
                place.count, place.success = place.count * keep, place.success * keep


def _ladders(base: Mapping[str, Fraction]) -> dict[str, list[str]]:
    """Skills with more than one level, their domains from easy to hard."""
    found: dict[str, list[str]] = {}
    for name in base:
        found.setdefault(skill_and_level(name)[0], []).append(name)
    return {
        skill: sorted(own, key=lambda name: LEVELS.index(skill_and_level(name)[1]))
        for skill, own in found.items()
        if len(own) > 1
    }


def _on_ladder(ladder: Sequence[str], present: str, total: Fraction, focus: float) -> dict[str, Fraction]:
    """A skill's share over its levels: `focus` of it at the present one, the rest evenly at the ones beside that."""
    position = ladder.index(present)
    beside = [ladder[index] for index in (position - 1, position + 1) if 0 <= index < len(ladder)]
    most = exact_fraction(focus)
    rest = total * (1 - most) / len(beside)
    return dict.fromkeys(ladder, Fraction(0)) | dict.fromkeys(beside, rest) | {present: total * most}
