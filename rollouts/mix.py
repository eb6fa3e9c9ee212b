"""From what the user wrote to one weight a domain, with the reason beside it.

In: the domains that exist and an ordered list of rules (from config files and the command line).  Out: `Mix`, the
table that is printed before a run and the weights that `rollouts.mixture` is made with.  Pure; called by `train`.

The rules of the game:

- A *family* rule (`mix.families.math=2`) sets the total weight of each matching family.  It is split over the family's
  domains in proportion to their factors, which are 1 unless said otherwise.
- A *domain* rule (`mix.domains.math/add=0.5`) sets the factor of each matching domain; 0 takes it out.  In a family
  that has no weight it adds the matching domains by themselves, each with its factor as weight.
- Removal (`~mix.domains.code/x`, `~mix.families.math`) is weight 0.  A family set to 0 loses the factors given so far.
- Patterns are globs; for domains, a family's name alone means all of it.  The later rule wins.
- Without any rule that adds something, every family has weight 1: balanced by family, however many domains it has.
- With `mix.levels` a factor is not 1 by default but what `rollouts.weights` gives: a skill's weight, split over levels.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from envs.domain import select
from rollouts.quotas import ExactQuota, Weight, exact_fraction, shares
from rollouts.weights import EVEN, Split, factors

Kind = Literal["family", "domain"]

ARGUMENT = re.compile(r"^(?P<sign>~|\+{0,2})mix\.(?P<kind>families|domains)\.(?P<pattern>[^=]+)(?:=(?P<value>.*))?$")


@dataclass(frozen=True, slots=True)
class Rule:
    """One wish about the mix.  `origin` says where it was written, for the table and for errors.

    Example: ``Rule("domain", "*/sort", 3, "command line: mix.domains.*/sort=3")``
    """

    kind: Kind
    pattern: str
    weight: Weight
    origin: str
    removes: bool = False

    @property
    def key(self) -> str:
        place = "families" if self.kind == "family" else "domains"
        return f"mix.{place}.{self.pattern}"


BALANCED = Rule("family", "*", 1, "default: balanced by family")


@dataclass(frozen=True, slots=True)
class Row:
    """One domain of the mix: its share of the groups, groups a step (exact quota), and those of the first step."""

    domain: str
    family: str
    weight: Fraction
    quota: Fraction
    first_step: int
    origin: str


@dataclass(frozen=True, slots=True)
class Mix:
    """Every domain that some rule touched, in name order; removed ones have weight 0."""

    rows: tuple[Row, ...]
    groups_per_step: int

    @property
    def weights(self) -> dict[str, Fraction]:
        """Shares of the domains that take part; they sum to one."""
        return {row.domain: row.weight for row in self.rows if row.weight > 0}


@dataclass(slots=True)
class _Wishes:
    """Rules applied so far: family -> (weight, origin) and domain -> (factor, origin)."""

    families: dict[str, tuple[Fraction, str]]
    domains: dict[str, tuple[Fraction, str]]


def resolve(
    families: Mapping[str, str],
    rules: Sequence[Rule] = (),
    groups_per_step: int = 64,
    seed: int = 0,
    split: Split = EVEN,
) -> Mix:
    """Apply the rules in order.

    families: available domain -> its family.  `seed` is the mixture's: it decides ties in the first step.  `split`: how
    a family's weight goes to its domains before any domain rule.
    Raises ValueError for an unknown name, a glob without a match, a weight that is not a finite number >= 0, and when
    nothing is left.
    """
    if not any(rule.weight > 0 or rule.weight != rule.weight for rule in rules):
        rules = [BALANCED, *rules]
    wishes = _Wishes({}, {})
    for rule in rules:
        _apply(rule, families, wishes)
    weights, origins = _combine(families, wishes, split)
    if not any(weights.values()):
        zeros = ", ".join(rule.origin for rule in rules if rule.weight == 0)
        raise ValueError(
            f"the mix is empty: every weight is zero ({zeros}); remove a rule, or set one such as mix.families.*=1"
        )
    return Mix(_rows(families, weights, origins, groups_per_step, seed), groups_per_step)


def _apply(rule: Rule, families: Mapping[str, str], wishes: _Wishes) -> None:
    value = _checked(rule)
    origin = f"removed by {rule.origin}" if rule.removes or value == 0 else rule.origin
    for name in _matches(rule, families):
        if rule.kind == "domain":
            wishes.domains[name] = (value, origin)
            continue
        wishes.families[name] = (value, origin)
        if value == 0:
            for domain in [domain for domain in wishes.domains if families[domain] == name]:
                del wishes.domains[domain]


def _checked(rule: Rule) -> Fraction:
    if rule.weight != rule.weight or math.isinf(rule.weight) or rule.weight < 0:
        raise ValueError(f"{rule.key}={rule.weight} ({rule.origin}): a weight is a finite number, 0 or above")
    return exact_fraction(rule.weight)


def _matches(rule: Rule, families: Mapping[str, str]) -> list[str]:
    known = sorted(set(families.values())) if rule.kind == "family" else sorted(families)
    match = fnmatch.filter if rule.kind == "family" else select
    matches = match(known, rule.pattern)
    if matches:
        return matches
    what = rule.kind
    if any(sign in rule.pattern for sign in "*?["):
        problem = f"the pattern matches no {what}"
    else:
        problem = f"there is no {what} {rule.pattern!r}"
    raise ValueError(f"{rule.key}={rule.weight} ({rule.origin}): {problem}{_nearest(rule.pattern, known, families)}")


def _nearest(pattern: str, known: Sequence[str], families: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(pattern, known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; families are {', '.join(sorted(set(families.values())))}"


def _combine(families: Mapping[str, str], wishes: _Wishes, split: Split) -> tuple[dict[str, Fraction], dict[str, str]]:
    """Weights (not normalised) and origins of the domains that any rule touched."""
    wished = {domain: wishes.domains.get(domain, (Fraction(1), ""))[0] for domain in families}
    taking_part = {
        domain
        for domain, family in families.items()
        if wished[domain] > 0 and (domain in wishes.domains or wishes.families.get(family, (0, ""))[0] > 0)
    }
    base = factors(taking_part, split)
    own = {domain: wished[domain] * base.get(domain, Fraction(0)) for domain in families}
    totals: dict[str, Fraction] = {}
    for domain, family in families.items():
        totals[family] = totals.get(family, Fraction(0)) + own[domain]
    _check_levels(taking_part, families, totals, wishes)
    weights: dict[str, Fraction] = {}
    origins: dict[str, str] = {}
    for domain, family in families.items():
        total, origin = wishes.families.get(family, (Fraction(0), ""))
        if domain not in wishes.domains and family not in wishes.families:
            continue
        if total > 0 and own[domain] > 0:
            weights[domain] = total * own[domain] / totals[family]
        else:
            weights[domain] = own[domain] if domain in wishes.domains else Fraction(0)
        origins[domain] = _origin(origin, total, *wishes.domains.get(domain, (Fraction(1), "")))
    return weights, origins


def _check_levels(
    taking_part: set[str], families: Mapping[str, str], totals: Mapping[str, Fraction], wishes: _Wishes
) -> None:
    """A family with a weight, all of whose domains are of levels without one, would vanish in silence."""
    for family in sorted({families[domain] for domain in taking_part}):
        weight, origin = wishes.families.get(family, (Fraction(0), ""))
        if weight > 0 and totals[family] == 0:
            raise ValueError(
                f"mix.families.{family}={weight} ({origin}): none of its domains has a level with a weight in "
                f"mix.levels; give one, or take the family out with ~mix.families.{family}"
            )


def _origin(family_origin: str, total: Fraction, factor: Fraction, domain_origin: str) -> str:
    """The rules behind one weight: the domain's own, and the family's where that still counts."""
    if not domain_origin:
        return family_origin
    if factor == 0 or total == 0:
        return domain_origin
    return f"{family_origin}; {domain_origin}"


def _rows(
    families: Mapping[str, str],
    weights: Mapping[str, Fraction],
    origins: Mapping[str, str],
    groups_per_step: int,
    seed: int,
) -> tuple[Row, ...]:
    normalised = shares(weights)
    quota = ExactQuota(normalised, seed=(seed, "domain"), labels={name: families[name] for name in normalised})
    for _ in range(groups_per_step):
        quota.draw()
    first = quota.counts()
    return tuple(
        Row(
            domain=domain,
            family=families[domain],
            weight=(weight := normalised.get(domain, Fraction(0))),
            quota=weight * groups_per_step,
            first_step=first.get(domain, 0),
            origin=origins[domain],
        )
        for domain in sorted(weights)
    )


def render(mix: Mix) -> str:
    """The table as plain text: one line a domain and a sum, aligned."""
    header = ("domain", "weight", "groups/step", "first step", "from")
    body = [
        (row.domain, f"{float(row.weight):.4%}", f"{float(row.quota):.3f}", str(row.first_step), row.origin)
        for row in mix.rows
    ]
    taking_part = len(mix.weights)
    num_families = len({row.family for row in mix.rows if row.weight > 0})
    total = (f"{taking_part} domains, {num_families} families", "100%", str(mix.groups_per_step))
    lines = [header, *body, (*total, str(sum(row.first_step for row in mix.rows)), "")]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in (1, 2, 3)), line[4]]).rstrip()
        for line in lines
    )


def rules_of(families: Mapping[str, float], domains: Mapping[str, float], origin: str) -> list[Rule]:
    """The rules of a config node `{families: {pattern: weight}, domains: {pattern: factor}}`, families first."""
    return [
        *(Rule("family", pattern, weight, origin) for pattern, weight in families.items()),
        *(Rule("domain", pattern, weight, origin) for pattern, weight in domains.items()),
    ]


def parse_mix_arguments(arguments: Sequence[str]) -> tuple[list[Rule], list[str]]:
    """Split a command line into mix rules, in their order, and all the rest (for Hydra).

    Understands `mix.families.math=2`, `mix.domains.*/sort=3`, `~mix.domains.code/x`.  Raises ValueError where a weight
    is missing or not a number.
    """
    rules: list[Rule] = []
    rest: list[str] = []
    for argument in arguments:
        match = ARGUMENT.match(argument)
        if match is None:
            rest.append(argument)
            continue
        kind: Kind = "family" if match["kind"] == "families" else "domain"
        removes = match["sign"] == "~"
        weight = Fraction(0) if removes else _parse_weight(argument, match["value"])
        rules.append(Rule(kind, match["pattern"].strip("'\""), weight, f"command line: {argument}", removes))
    return rules, rest


def _parse_weight(argument: str, text: str | None) -> Weight:
    if text is None or not text.strip():
        raise ValueError(f"{argument}: a weight is missing; write {argument.rstrip('=')}=1, or ~ in front to remove it")
    try:
        return exact_fraction(float(text)) if math.isfinite(float(text)) else float(text)
    except ValueError:
        raise ValueError(f"{argument}: the weight {text!r} is not a number") from None
