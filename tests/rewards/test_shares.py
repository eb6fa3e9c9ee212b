"""No domain holds more than its bound: by hand, for any sums, and the two sides of normalisation by domain."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.advantages import group_advantages
from rewards.normalise import DomainStatistics
from rewards.shares import factors, over


def test_by_hand() -> None:
    """12 of 16 at a bound of 2 · 1/4: it may hold half, that is as much as the others together, 4."""
    sums = {"a": 12.0, "b": 2.0, "c": 1.0, "d": 1.0}
    meant = dict.fromkeys(sums, 0.25)
    assert factors(sums, meant, 2.0) == {"a": pytest.approx(1 / 3), "b": 1.0, "c": 1.0, "d": 1.0}
    assert over(sums, meant, 2.0) == {"a": pytest.approx(3.0)}
    assert over(sums, meant, 3.0) == {}
    assert factors(sums, meant, 3.0) == dict.fromkeys(sums, 1.0)


def test_a_raised_quota_may_hold_more() -> None:
    sums = {"a": 3.0, "b": 1.0}
    assert factors(sums, {"a": 0.5, "b": 0.5}, 1.2)["a"] < 1
    assert factors(sums, {"a": 0.75, "b": 0.25}, 1.2) == {"a": 1.0, "b": 1.0}


def test_cutting_one_can_push_another_over() -> None:
    sums, meant = {"a": 80.0, "b": 14.0, "c": 6.0}, dict.fromkeys("abc", 1 / 3)
    cut = factors(sums, meant, 1.2)
    after = {name: sums[name] * cut[name] for name in sums}
    total = math.fsum(after.values())
    assert after["a"] / total == pytest.approx(0.4) == after["b"] / total
    assert cut["c"] == 1.0 and list(over(sums, meant, 1.2)) == ["a"]


def test_who_has_nothing_counts_for_nothing() -> None:
    assert factors({"a": 5.0, "b": 0.0}, {"a": 0.5, "b": 0.5}, 1.5) == {"a": 1.0, "b": 1.0}
    assert factors({}, {}, 2.0) == {} == over({}, {}, 2.0)
    with pytest.raises(ValueError, match="no share"):
        factors({"a": 1.0}, {}, 2.0)
    with pytest.raises(ValueError, match="1 or more"):
        over({"a": 1.0}, {"a": 1.0}, 0.9)


@given(st.lists(st.tuples(st.floats(0.001, 1000), st.floats(0.001, 1)), min_size=1, max_size=40), st.floats(1, 5))
def test_the_bound_holds_for_any_sums(rows: list[tuple[float, float]], bound: float) -> None:
    sums = {str(number): value for number, (value, _) in enumerate(rows)}
    meant = {str(number): share for number, (_, share) in enumerate(rows)}
    cut = factors(sums, meant, bound)
    after = {name: sums[name] * cut[name] for name in sums}
    total, here = math.fsum(after.values()), math.fsum(meant.values())
    assert all(0 < factor <= 1 for factor in cut.values())
    assert max(cut.values()) == pytest.approx(1, rel=1e-9)  # somebody keeps its size
    for name in sums:
        share, cap = after[name] / total, bound * meant[name] / here
        assert share <= cap * (1 + 1e-6)
        assert cut[name] == 1.0 or share == pytest.approx(cap, rel=1e-6)  # nobody is cut below its bound


@pytest.mark.parametrize("normalised", [True, False])
def test_one_domain_times_1024_and_one_by_1024(normalised: bool) -> None:
    """Rewards and declared ranges scaled: not a bit of any advantage changes.  Without normalisation it owns them."""
    rng = random.Random(0)
    names = [f"f{i % 4}/d{i}" for i in range(20)]
    factor = dict.fromkeys(names, 1.0) | {names[3]: 1024.0, names[8]: 1 / 1024}
    steps = [[(name, [rng.random() for _ in range(8)]) for name in names for _ in range(8)] for _ in range(12)]

    def run(scale: dict[str, float]) -> list[tuple[str, list[float | None]]]:
        statistics = DomainStatistics({name: (0.0, scale[name]) for name in names})
        found = []
        for step in steps:
            scaled = [(name, [value * scale[name] for value in values]) for name, values in step]
            for name, values in scaled:
                divisor = statistics.scale(name) if normalised else 1.0
                found.append((name, group_advantages(values, divisor, clip=5.0 if normalised else 1e9)))
            statistics.update(scaled)
        return found

    scaled = run(factor)
    if normalised:
        assert scaled == run(dict.fromkeys(names, 1.0))
        return
    sums = dict.fromkeys(names, 0.0)
    for name, advantages in scaled:
        sums[name] += math.fsum(abs(value) for value in advantages if value is not None)
    assert sums[names[3]] / math.fsum(sums.values()) > 0.9
    assert sums[names[8]] / math.fsum(sums.values()) < 1e-4
