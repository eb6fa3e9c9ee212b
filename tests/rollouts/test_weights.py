"""How weights are split: by hand, and what must hold of any bounded shares."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.mix import resolve, rules_of
from rollouts.mixture import Mixture
from rollouts.quotas import shares
from rollouts.weights import Split, bounded, factors, skill_and_level

THREE = ("math/add-easy", "math/add", "math/add-hard")
LEVELS = {"easy": 1, "medium": 2, "hard": 1}


def test_names_of_skills_and_levels() -> None:
    assert [skill_and_level(name) for name in THREE] == [("math/add", name) for name in ("easy", "medium", "hard")]
    assert skill_and_level("text/well-hardly") == ("text/well-hardly", "medium")
    assert skill_and_level("text/x-medium") == ("text/x-medium", "medium")  # medium is the name without a suffix


def test_a_skill_counts_once_however_many_levels_it_has() -> None:
    found = factors([*THREE, "math/mul"], Split(LEVELS))
    assert found == {
        "math/add-easy": Fraction(1, 4),
        "math/add": Fraction(1, 2),
        "math/add-hard": Fraction(1, 4),
        "math/mul": Fraction(1),
    }
    assert factors([*THREE, "math/mul"]) == dict.fromkeys([*THREE, "math/mul"], Fraction(1))


def test_a_level_that_is_out_leaves_its_share_to_the_skill() -> None:
    assert factors(THREE[:2], Split(LEVELS)) == {"math/add-easy": Fraction(1, 3), "math/add": Fraction(2, 3)}
    assert factors(THREE, Split({"easy": 1}))["math/add"] == 0


def test_sizes_count_with_their_temperature() -> None:
    sizes = {"math/a": 16, "math/b-easy": 2, "math/b": 2, "math/c": None}
    even = {"easy": 1, "medium": 1}
    found = factors(sizes, Split(even, temperature=2, sizes=sizes, largest=100))
    assert found == {"math/a": 4, "math/b-easy": 1, "math/b": 1, "math/c": 10}
    assert factors(sizes, Split(even, temperature=1, sizes=sizes, largest=9))["math/a"] == 9
    assert factors(sizes, Split(even, sizes=sizes))["math/a"] == 1


def test_family_domain_level_and_tier_multiply() -> None:
    """code 1/4, math 3/4; add and mul half each; levels 1:2:1; tiers 3:1."""
    families = {name: name.split("/")[0] for name in (*THREE, "math/mul", "code/sort")}
    mix = resolve(families, rules_of({"math": 3, "code": 1}, {}, "x"), split=Split(LEVELS))
    expected = {
        "math/add-easy": Fraction(3, 32),
        "math/add": Fraction(6, 32),
        "math/add-hard": Fraction(3, 32),
        "math/mul": Fraction(12, 32),
        "code/sort": Fraction(8, 32),
    }
    assert mix.weights == expected
    mixture = Mixture(mix.weights, dict.fromkeys(families, ("low", "high")), {"low": 3, "high": 1})
    tickets = [mixture.next_ticket() for _ in range(128)]
    for domain, share in expected.items():
        low = sum((ticket.domain, ticket.tier) == (domain, "low") for ticket in tickets)
        assert low == share * 128 * Fraction(3, 4)


def test_a_removed_level_and_a_factor_work_within_the_split() -> None:
    families = dict.fromkeys((*THREE, "math/mul"), "math")
    rules = rules_of({"math": 1}, {"math/add-hard": 0}, "x")
    weights = resolve(families, rules, split=Split(LEVELS)).weights
    assert weights == {
        "math/add-easy": Fraction(1, 6),
        "math/add": Fraction(1, 3),
        "math/mul": Fraction(1, 2),
    }
    doubled = resolve(families, rules_of({"math": 1}, {"math/mul": 3}, "x"), split=Split(LEVELS)).weights
    assert doubled["math/mul"] == Fraction(3, 4) and doubled["math/add"] == Fraction(1, 8)


def test_domains_of_weight_by_themselves_are_split_too() -> None:
    families = dict.fromkeys((*THREE, "math/mul"), "math")
    weights = resolve(families, rules_of({}, {"math/*": 1}, "x"), split=Split(LEVELS)).weights
    assert weights["math/mul"] == Fraction(1, 2) and weights["math/add"] == Fraction(1, 4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"levels": {"brutal": 1}}, "brutal"),
        ({"levels": {"easy": -1}}, "0 or more"),
        ({"levels": {"easy": 0}}, "zero"),
        ({"temperature": 2}, "mix.levels"),
        ({"levels": {"easy": 1}, "temperature": -1}, "size_temperature"),
        ({"sizes": {"a/b": 0}}, "1 or more"),
    ],
)
def test_mistakes_name_the_key(arguments: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Split(**arguments)


def test_a_family_without_any_wanted_level_is_an_error() -> None:
    with pytest.raises(ValueError, match="math"):
        resolve({"math/mul": "math", "code/x-easy": "code"}, split=Split({"easy": 1}))


def test_bounded_by_hand() -> None:
    """Wanted 4 : 1/4 : 1/4; what the others may lose at most, a third of themselves, bounds what the first gains."""
    base = {"a": Fraction(1, 2), "b": Fraction(1, 4), "c": Fraction(1, 4)}
    assert bounded(base, {"a": 8}, 1.5) == {"a": Fraction(2, 3), "b": Fraction(1, 6), "c": Fraction(1, 6)}
    assert bounded(base, {"b": 8}, 2)["b"] == Fraction(1, 2)
    free = bounded(base, {"a": 2}, 100)
    assert free == {"a": Fraction(2, 3), "b": Fraction(1, 6), "c": Fraction(1, 6)}
    assert bounded(base, {"a": 8, "c": 0.1}, 1) == base
    for bad in ({"a": 0.0}, {"a": float("nan")}, {"a": float("inf")}):
        with pytest.raises(ValueError, match="above zero"):
            bounded(base, bad, 3)
    with pytest.raises(ValueError, match="1 or more"):
        bounded(base, {}, 0.5)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-5, 1e5)), min_size=1, max_size=30), st.floats(1, 10))
def test_bounded_keeps_sum_bounds_and_order(rows: list[tuple[int, float]], bound: float) -> None:
    base = shares({str(number): weight for number, (weight, _) in enumerate(rows)})
    multipliers = {str(number): multiplier for number, (_, multiplier) in enumerate(rows)}
    found = bounded(base, multipliers, bound)
    assert sum(found.values()) == 1
    limit = Fraction(str(bound)) + Fraction(1, 10**12)
    ratios = {name: found[name] / base[name] for name in base}
    assert all(1 / limit <= ratio <= limit for ratio in ratios.values())
    ordered = sorted(base, key=lambda name: multipliers[name])
    assert all(ratios[low] <= ratios[high] for low, high in pairwise(ordered))
    inside = [name for name in base if 1.001 / bound < ratios[name] < 0.999 * bound and multipliers[name] > 0.01]
    for one, two in pairwise(inside):
        quotient = float(ratios[one] / ratios[two]) / (multipliers[one] / multipliers[two])
        assert quotient == pytest.approx(1, rel=1e-3)
