"""Rewards of several parts: each normalised by itself before they are weighed and added."""

from __future__ import annotations

import json
import math
import random

import pytest

from rewards.parts import Part, PartStatistics, Row

TWO = {"math/add": {"right": Part((0.0, 1.0)), "form": Part((0.0, 100.0))}}


def rows(first: list[float | None], second: list[float | None]) -> list[Row]:
    pairs = zip(first, second, strict=True)
    return [None if one is None or two is None else {"right": one, "form": two} for one, two in pairs]


def warm(group: list[Row], **options: float) -> PartStatistics:
    statistics = PartStatistics(TWO, None, **options)
    for _ in range(400):
        statistics.update([("math/add", group)])
    return statistics


def test_by_hand() -> None:
    """Both parts have half their range as their scale; weights 3 and 1 are three quarters and one quarter.

    Centred: right ±1/2 -> ±1, form ±50 -> ±1.  Weighed: 3/4 + 1/4 = 1, 3/4 - 1/4 = 1/2, and their negatives.  No
    statistics yet of the sum: half of its range (-1, 1), which is one.
    """
    parts = {"math/add": {"right": Part((0.0, 1.0), 3.0), "form": Part((0.0, 100.0), 1.0)}}
    group = rows([1.0, 1.0, 0.0, 0.0], [100.0, 0.0, 100.0, 0.0])
    assert PartStatistics(parts).advantages("math/add", group) == [1.0, 0.5, -0.5, -1.0]


def test_a_part_times_ten_changes_nothing_and_adding_first_does() -> None:
    """F16: also where only the rewards grow, and the declared range does not."""
    plain = rows([1.0, 0.0, 1.0, 0.0], [0.0, 10.0, 10.0, 0.0])
    larger = rows([1.0, 0.0, 1.0, 0.0], [0.0, 100.0, 100.0, 0.0])
    one = warm(plain, half_life=16).advantages("math/add", plain)
    two = warm(larger, half_life=16).advantages("math/add", larger)
    assert one == pytest.approx(two)
    assert one[2] is not None and one[2] > 0 and one[0] == pytest.approx(one[1]) == pytest.approx(0, abs=1e-12)
    # Added first: right hardly counts beside form.
    added = [1.0 + 0.0, 0.0 + 100.0, 1.0 + 100.0, 0.0]
    assert abs(added[2] - added[1]) < 0.02 * abs(added[1] - added[0])


def test_parts_that_cancel_exactly_have_no_signal() -> None:
    cancels = rows([1.0, 0.0], [0.0, 100.0])
    statistics = PartStatistics(TWO)
    assert not statistics.has_signal("math/add", cancels)
    assert statistics.advantages("math/add", cancels) == [0.0, 0.0]
    assert statistics.has_signal("math/add", rows([1.0, 0.0], [0.0, 0.0]))
    assert not statistics.has_signal("math/add", rows([1.0, 1.0], [50.0, 50.0 + 1e-9]))
    assert statistics.advantages("math/add", rows([1.0, 1.0, 1.0], [0.1, 0.1, 0.1])) == [0.0] * 3  # no residue


def test_a_cost_and_the_unscored() -> None:
    parts = {"math/add": {"right": Part((0.0, 1.0)), "form": Part((0.0, 100.0), -1.0)}}
    statistics = PartStatistics(parts)
    found = statistics.advantages("math/add", rows([1.0, None, 1.0], [0.0, None, 100.0]))
    assert found == [0.5, None, -0.5]


def test_the_sum_has_one_size_whatever_its_parts() -> None:
    """After warm-up the RMS of advantages is one, for parts that agree and for independent ones."""
    rng = random.Random(0)
    domains = dict.fromkeys(("a/agree", "a/free"), TWO["math/add"])
    statistics = PartStatistics(domains)

    def group(domain: str) -> list[Row]:
        right = [float(rng.random() < 0.5) for _ in range(8)]
        form = [100.0 * value if domain == "a/agree" else 100.0 * (rng.random() < 0.5) for value in right]
        return rows(list(right), list(form))

    for _ in range(30):
        statistics.update([(domain, group(domain)) for domain in domains for _ in range(10)])
    for domain in domains:
        found = [
            value for _ in range(300) for value in statistics.advantages(domain, group(domain)) if value is not None
        ]
        assert math.sqrt(sum(value * value for value in found) / len(found)) == pytest.approx(1, rel=0.1)


def test_resume_order_and_mistakes() -> None:
    rng = random.Random(1)
    step = [("math/add", rows([rng.random() for _ in range(4)], [rng.random() for _ in range(4)])) for _ in range(70)]
    one, two = PartStatistics(TWO), PartStatistics(TWO)
    one.update(step)
    two.update(step[::-1])
    assert one.state_dict() == two.state_dict()
    resumed = PartStatistics(TWO)
    resumed.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert resumed.advantages(*step[0]) == one.advantages(*step[0])
    with pytest.raises(ValueError, match=r"has the parts \['right'\]"):
        one.advantages("math/add", [{"right": 1.0}])
    with pytest.raises(ValueError, match="not zero"):
        PartStatistics({"a/x": {"right": Part((0.0, 1.0), 0.0)}})
    assert "math/add" in one and "math/mul" not in one
