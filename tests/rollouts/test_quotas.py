"""Quota sequences: the bounds at every prefix, in exact integers."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.quotas import ONE, CarriedQuota, ExactQuota, exact_fraction, forgive, round_to_units, shares, unit


def names_of(weights: Iterable[int]) -> dict[str, int]:
    return {f"f{i % 20}/d{i}": weight for i, weight in enumerate(weights)}


def family_labels(names: Iterable[str]) -> dict[str, str]:
    return {name: name.split("/")[0] for name in names}


def assert_within_one(sequence: Iterable[str], weights: Mapping[str, int]) -> None:
    """|count - n w / W| < 1 at every prefix, as |count W - n w| < W in int64."""
    names = sorted(weights)
    index = {name: i for i, name in enumerate(names)}
    integers = np.array([weights[name] for name in names], dtype=np.int64)
    total = int(integers.sum())
    error = np.zeros(len(names), dtype=np.int64)
    for n, name in enumerate(sequence, 1):
        error -= integers
        error[index[name]] += total
        assert abs(error).max() < total, f"prefix {n}"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.booleans(), st.integers(0, 5))
def test_within_one_at_every_prefix(weights: Any, with_labels: bool, seed: int) -> None:
    named = {f"f{i % 4}/d{i}": weight for i, weight in enumerate(weights)}
    quota = ExactQuota(shares(named), seed, family_labels(named) if with_labels else None)
    assert_within_one([quota.draw() for _ in range(300)], named)


@pytest.mark.parametrize("kind", ["pareto", "equal", "two sizes"])
def test_within_one_for_a_thousand_domains(kind: Any) -> None:
    rng = random.Random(7)
    make = {
        "pareto": lambda i: int(1000 * rng.paretovariate(1.0)),
        "equal": lambda i: 1,
        "two sizes": lambda i: 1 if i % 20 else 137,
    }[kind]
    weights = names_of(make(i) for i in range(1000))
    quota = ExactQuota(shares(weights), 0, family_labels(weights))
    assert_within_one([quota.draw() for _ in range(4000)], weights)


@pytest.mark.parametrize("kind", [ExactQuota, CarriedQuota])
def test_families_alternate_although_the_bound_is_per_domain(kind: Any) -> None:
    sizes = {"a": 1, "b": 10, "c": 40, "d": 149}
    weights = {f"{family}/{i}": Fraction(1, size) for family, size in sizes.items() for i in range(size)}
    quota = kind(shares(weights), seed=0, labels=family_labels(weights))
    sequence = [quota.draw() for _ in range(1600)]
    for start in range(0, 1600, 16):
        step = [name.split("/")[0] for name in sequence[start : start + 16]]
        assert all(2 <= step.count(family) <= 6 for family in sizes)


def test_state_resumes_the_same_sequence() -> None:
    weights = names_of(random.Random(1).choices(range(1, 50), k=80))
    for labels in (None, family_labels(weights)):
        quota = ExactQuota(shares(weights), 3, labels)
        [quota.draw() for _ in range(137)]
        other = ExactQuota(shares(weights), 3, labels)
        other.load_state_dict(json.loads(json.dumps(quota.state_dict())))
        assert [quota.draw() for _ in range(500)] == [other.draw() for _ in range(500)]
        assert quota.deviations() == other.deviations()


def test_unit_window_example() -> None:
    assert unit("a", 0, Fraction(2, 5)) == unit("a", 0, Fraction(4, 10))
    assert (unit("a", 0, Fraction(2, 5)).release, unit("a", 0, Fraction(2, 5)).deadline) == (1, 3)
    assert (unit("a", 1, Fraction(2, 5)).release, unit("a", 1, Fraction(2, 5)).deadline) == (3, 5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 40))
def test_changing_shares_and_names_stay_within_one_plus_log(seed: int, size: int) -> None:
    rng = random.Random(seed)
    all_names = [f"d{i}" for i in range(size)]
    labels = {name: rng.choice("abc") for name in all_names}
    most, quota = 0, CarriedQuota({"d0": Fraction(1)})
    for _ in range(30):
        chosen = rng.sample(all_names, rng.randint(1, size))
        most = max(most, len(chosen))
        quota.set_shares(shares({name: rng.paretovariate(0.7) for name in chosen}), labels)
        for _ in range(rng.choice([1, 1, 2, 10])):
            quota.draw()
            values = quota.state_dict()["accounts"].values()
            assert sum(values) == 0
            assert max(abs(value) for value in values) <= (1 + math.log(most)) * ONE


@pytest.mark.parametrize("with_labels", [False, True])
def test_an_adversary_that_knows_every_draw_stays_within_one_plus_log(with_labels: bool) -> None:
    """Always even shares over who was not drawn yet: the last one is owed 1/D + … + 1/2, which no rule can avoid.

    Then again from there, so that what is owed is carried into the next attack.
    """
    names = [f"d{i}" for i in range(120)]
    labels = {name: str(i % 7) for i, name in enumerate(names)} if with_labels else None
    quota, worst = CarriedQuota(shares(dict.fromkeys(names, 1)), labels=labels), Fraction(0)
    for _ in range(3):
        left = set(names)
        while len(left) > 1:
            weights = {name: 1 if name in left else Fraction(1, 10**9) for name in names}
            quota.set_shares(shares(weights), labels)
            left.discard(quota.draw())
            worst = max(worst, *map(abs, quota.deviations().values()))
    assert worst <= 1 + math.log(len(names))
    assert worst > math.log(len(names)) - 1  # it is an attack


def test_carried_accounts_are_the_sum_of_the_shares() -> None:
    rng = random.Random(5)
    names = [f"d{i}" for i in range(50)]
    quota = CarriedQuota(shares(dict.fromkeys(names, 1)))
    target, counts = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
    for _ in range(100):
        quota.set_shares(shares({name: rng.paretovariate(1.0) for name in names}))
        for name in names:
            target[name] += 7 * float(quota.shares[name])
        for _ in range(7):
            counts[quota.draw()] += 1
    assert all(abs(target[name] - counts[name] - value) < 1e-6 for name, value in quota.deviations().items())
    assert max(abs(target[name] - counts[name]) for name in names) <= 1 + math.log(50)


@given(st.lists(st.integers(-(2**45), 2**45), max_size=30))
def test_forgiving_enlarges_no_account(accounts: list[int]) -> None:
    balanced = forgive(accounts)
    assert sum(balanced) == 0 or not accounts
    assert all(abs(new) <= abs(old) and new * old >= 0 for new, old in zip(balanced, accounts, strict=True))


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=50))
def test_rounding_keeps_the_sum(weights: Any) -> None:
    exact = list(shares({str(i): weight for i, weight in enumerate(weights)}).values())
    assert sum(round_to_units(exact)) == 2**40


def test_floats_mean_what_was_written() -> None:
    assert exact_fraction(0.55) == Fraction(11, 20)
    assert exact_fraction(1 / 3) == Fraction(1, 3)
    assert exact_fraction(1e-9) == Fraction(1, 10**9)
    assert exact_fraction(0.1234567891234) == Fraction("0.1234567891234")
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            exact_fraction(bad)
    with pytest.raises(ValueError, match="negative"):
        shares({"a": -1, "b": 2})
    with pytest.raises(ValueError, match="zero"):
        shares({"a": 0})
