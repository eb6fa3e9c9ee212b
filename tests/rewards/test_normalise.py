"""Domain statistics: values, what they read, and that neither order, scale nor a checkpoint changes a bit."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.advantages import group_advantages
from rewards.normalise import UNKNOWN_RMS, DomainStatistics

Step = list[tuple[str, list[float | None]]]

RANGES = {"math/add": (0.0, 1.0), "math/mul": (0.0, 10.0), "code/sort": (-1.0, 1.0)}


def filled(
    domain: str = "math/add", values: Sequence[float | None] = (0.0, 1.0), num_groups: int = 64, **options: float
) -> DomainStatistics:
    statistics = DomainStatistics(RANGES, None, **options)  # type: ignore[arg-type]
    statistics.update([(domain, values)] * num_groups)
    return statistics


def random_step(rng: random.Random, num_groups: int = 200) -> Step:
    step: Step = []
    for _ in range(num_groups):
        domain = rng.choice(sorted(RANGES))
        low, high = RANGES[domain]
        step.append((domain, [rng.choice([None, rng.uniform(low, high)]) for _ in range(8)]))
    return step


def test_rms_of_centred_rewards_by_value() -> None:
    assert filled(values=(0.0, 1.0)).scale("math/add") == 0.5
    assert filled(values=(0.0, 0.0, 0.0, 1.0)).scale("math/add") == pytest.approx(math.sqrt(3) / 4)
    assert filled("code/sort", (-1.0, 1.0)).scale("code/sort") == 1.0
    assert filled(values=(0.0, 1.0, None, None)).scale("math/add") == 0.5


def test_groups_without_signal_do_not_count() -> None:
    statistics = filled()
    statistics.update([("math/add", [1.0, 1.0, 1.0 + 1e-9]), ("math/add", [None, 1.0])] * 1000)
    assert statistics.describe("math/add").num_groups == 64
    assert statistics.scale("math/add") == 0.5


def test_fallbacks_and_floor() -> None:
    statistics = filled(num_groups=63)
    assert statistics.describe("math/add").source == "unknown"
    assert statistics.scale("math/mul") == UNKNOWN_RMS * 10
    statistics.update([("math/mul", [0.0, 2.0])])  # the family has its 64 now: units of the range are comparable
    described = statistics.describe("math/mul")
    assert described.source == "family" and described.num_groups == 1
    assert statistics.describe("code/sort").source == "all"
    statistics.update([("math/mul", [0.0, 0.001])] * 64)
    assert statistics.describe("math/mul").source == "domain"
    assert filled("math/mul", [0.0, 0.001]).scale("math/mul") == 0.05 * 10


def test_old_groups_fade_with_the_half_life() -> None:
    statistics = filled(values=(0.0, 1.0), num_groups=64, half_life=64)
    statistics.update([("math/add", [0.0, 0.5])] * 64)
    assert statistics.scale("math/add") == pytest.approx(math.sqrt((0.5 * 0.25 + 0.0625) / 1.5))


def test_order_within_a_step_cannot_matter() -> None:
    step = random_step(random.Random(1))
    reordered = [(domain, random.Random(2).sample(values, len(values))) for domain, values in reversed(step)]
    one, two = DomainStatistics(RANGES), DomainStatistics(RANGES)
    one.update(step)
    two.update(reordered)
    assert one.state_dict() == two.state_dict()
    assert [one.scale(domain) for domain in RANGES] == [two.scale(domain) for domain in RANGES]


@settings(max_examples=25, deadline=None)
@given(st.integers(-30, 30), st.integers(0, 2**32))
def test_rescaling_a_domain_by_a_power_of_two_changes_no_bit(power: int, seed: int) -> None:
    factor = 2.0**power
    scaled_ranges = RANGES | {"math/mul": (0.0, 10.0 * factor)}
    plain, scaled = DomainStatistics(RANGES), DomainStatistics(scaled_ranges)

    def rescale(domain: str, values: list[float | None]) -> list[float | None]:
        return [None if value is None else value * factor for value in values] if domain == "math/mul" else values

    rng = random.Random(seed)
    for _ in range(3):
        step = random_step(rng)
        rescaled = [(domain, rescale(domain, values)) for domain, values in step]
        for (domain, values), (_, other) in zip(step, rescaled, strict=True):
            assert group_advantages(values, plain.scale(domain)) == group_advantages(other, scaled.scale(domain))
        plain.update(step)
        scaled.update(rescaled)


def test_resume_is_bit_exact_and_survives_a_change_of_domains() -> None:
    rng = random.Random(3)
    statistics = DomainStatistics(RANGES)
    for _ in range(3):
        statistics.update(random_step(rng))
    text = json.dumps(statistics.state_dict())
    resumed = DomainStatistics(RANGES)
    resumed.load_state_dict(json.loads(text))
    step = random_step(rng)
    for each in (statistics, resumed):
        each.update(step)
    assert json.dumps(resumed.state_dict()) == json.dumps(statistics.state_dict())

    fewer = DomainStatistics({"math/add": (0.0, 1.0), "sql/join": (0.0, 1.0)})
    fewer.load_state_dict(json.loads(text))
    assert fewer.describe("math/add").source == "domain"
    assert fewer.describe("sql/join").num_groups == 0
    assert json.loads(json.dumps(fewer.state_dict())) == json.loads(text)  # the absent are remembered


def test_user_mistakes() -> None:
    with pytest.raises(ValueError, match=r"sql/join"):
        DomainStatistics(RANGES).scale("sql/join")
    with pytest.raises(ValueError, match="empty"):
        DomainStatistics({"math/add": (1.0, 1.0)})
