"""Every number against scipy's own or against arithmetic by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from train.significance import exact_paired_test, holm, paired_difference, regressions, wilson_interval


def draw(seed: int, count: int, rise: float) -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(seed)
    before = rng.random(count)
    return list(before), list(before + rise + 0.2 * rng.standard_normal(count))


# --- the paired difference ---------------------------------------------------------------------------------------


def test_one_domain_is_the_paired_t_interval() -> None:
    before, after = draw(1, 15, 0.1)
    found = paired_difference({"a": before}, {"a": after})
    reference = stats.ttest_rel(after, before)
    interval = reference.confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(after) - np.mean(before))
    assert found.mean / found.standard_error == pytest.approx(reference.statistic)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_two_domains_by_hand() -> None:
    """Differences 0, 1, 1, 0 (mean 1/2, s² = 1/3) and -1, 0 (mean -1/2, s² = 1/2)."""
    found = paired_difference({"a": [0, 0, 0, 1], "b": [1, 1]}, {"a": [0, 1, 1, 1], "b": [0, 1]})
    assert found.mean == 0.0
    assert found.standard_error == pytest.approx(math.sqrt(1 / 3 / 4 + 1 / 2 / 2) / 2)
    # Welch-Satterthwaite: (1/12 + 1/4)² / ((1/12)²/3 + (1/4)²/1) = 1.714…
    degrees = (1 / 3) ** 2 / (1 / 432 + 1 / 16)
    margin = stats.t.ppf(0.975, degrees) * found.standard_error
    assert (found.low, found.high) == pytest.approx((-margin, margin))


def test_two_domains_have_the_degrees_of_freedom_of_welch() -> None:
    """The mean of d_a and -d_b is half of scipy's two-sample difference."""
    rng = np.random.default_rng(4)
    first, second = rng.standard_normal(9), 3 * rng.standard_normal(5)
    zeros = {"a": [0.0] * 9, "b": [0.0] * 5}
    found = paired_difference(zeros, {"a": list(first), "b": list(-second)})
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (2 * found.low, 2 * found.high) == pytest.approx((interval.low, interval.high))


def test_every_domain_counts_alike_and_differences_between_them_are_no_noise() -> None:
    before = {"many": [0.0] * 1000, "few": [0.5, 0.5]}
    after = {"many": [0.1] * 1000, "few": [0.0, 0.0]}
    found = paired_difference(before, after)
    assert found.mean == pytest.approx((0.1 - 0.5) / 2)
    assert found.standard_error == pytest.approx(0.0, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((found.mean, found.mean))


def test_a_domain_of_one_task_takes_the_pooled_variance() -> None:
    """Differences 0, 1 and 0, 0, 1, 1 have sums of squares 1/2 and 1 over 1 + 3 degrees: s² = 3/8."""
    before = {"a": [0, 0], "b": [0, 0, 0, 0], "c": [0]}
    after = {"a": [0, 1], "b": [0, 0, 1, 1], "c": [1]}
    found = paired_difference(before, after)
    assert found.mean == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    assert found.standard_error == pytest.approx(math.sqrt(1 / 2 / 2 + 1 / 3 / 4 + 3 / 8) / 3)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(400):
        shifts = {f"d{i}": 0.1 * i + rng.standard_normal(6 + i) for i in range(4)}
        found = paired_difference(
            {name: [0.0] * len(shifts[name]) for name in shifts}, {n: list(v) for n, v in shifts.items()}
        )
        covered += found.low <= 0.15 <= found.high
    assert 0.91 < covered / 400 < 0.985


def test_scores_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="domains differ"):
        paired_difference({"a": [1, 0]}, {"b": [1, 0]})
    with pytest.raises(ValueError, match="domains differ or are none"):
        paired_difference({}, {})
    with pytest.raises(ValueError, match="a: 2 scores before and 1 after"):
        paired_difference({"a": [1, 0]}, {"a": [1]})
    with pytest.raises(ValueError, match="a: a score is not finite"):
        paired_difference({"a": [1, 0]}, {"a": [1, math.nan]})
    with pytest.raises(ValueError, match="at least two tasks"):
        paired_difference({"a": [1]}, {"a": [0]})


# --- the exact test ----------------------------------------------------------------------------------------------


def pairs(wins: int, losses: int, ties: int = 7) -> tuple[list[float], list[float]]:
    return [0.0] * wins + [1.0] * losses + [1.0] * ties, [1.0] * wins + [0.0] * losses + [1.0] * ties


def test_mcnemar_by_hand() -> None:
    """1 gained, 5 lost: P(at most 1 of 6 heads) = 7/64; two-sided twice that; P(at least 1) = 63/64."""
    before, after = pairs(1, 5)
    assert exact_paired_test(before, after, "worse") == pytest.approx(7 / 64)
    assert exact_paired_test(before, after, "different") == pytest.approx(14 / 64)
    assert exact_paired_test(before, after, "better") == pytest.approx(63 / 64)


@pytest.mark.parametrize(("wins", "losses"), [(0, 5), (3, 3), (12, 4), (40, 61)])
def test_mcnemar_is_the_binomial_test_of_the_discordant_pairs(wins: int, losses: int) -> None:
    before, after = pairs(wins, losses)
    for direction, alternative in (("better", "greater"), ("worse", "less"), ("different", "two-sided")):
        reference = stats.binomtest(wins, wins + losses, 0.5, alternative=alternative).pvalue
        assert exact_paired_test(before, after, direction) == pytest.approx(reference)  # type: ignore[arg-type]
        mirrored = {"better": "worse", "worse": "better", "different": "different"}[direction]
        assert exact_paired_test(after, before, mirrored) == pytest.approx(reference)  # type: ignore[arg-type]


def test_other_scores_are_compared_by_sign() -> None:
    before, after = [0.5, 0.5, 0.5, 0.5, 0.5], [0.6, 0.9, 0.51, 0.5, 0.1]
    assert exact_paired_test(before, after, "better") == pytest.approx(5 / 16)  # 3 of 4: (4 + 1) / 16


def test_no_discordant_pair_is_no_evidence() -> None:
    assert exact_paired_test([1, 0], [1, 0], "different") == 1.0


# --- many tests --------------------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    """0.01 <= 0.05/4, 0.013 <= 0.05/3, 0.03 > 0.05/2 stops: the last is kept although 0.04 <= 0.05."""
    p_values = {"c": 0.03, "a": 0.01, "d": 0.04, "b": 0.013}
    assert holm(p_values, 0.05) == {"a": True, "b": True, "c": False, "d": False}
    assert holm({"a": 0.05}, 0.05) == {"a": True}
    assert holm({}, 0.05) == {}


def test_holm_lies_between_bonferroni_and_no_correction() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        p_values = {str(i): float(p) for i, p in enumerate(rng.random(6) ** 4)}
        rejected = holm(p_values, 0.05)
        for name, p_value in p_values.items():
            assert (p_value <= 0.05 / 6) <= rejected[name] <= (p_value <= 0.05)


# --- regressions -------------------------------------------------------------------------------------------------


def test_a_regression_is_both_large_and_significant() -> None:
    scores = {
        "large": pairs(0, 30, 70),  # -30 points, p = 2^-30
        "larger": pairs(5, 60, 35),  # -55 points
        "small": pairs(0, 10, 190),  # p = 2^-10, but -5 points
        "lucky": pairs(1, 4, 15),  # -15 points, but p = 6/32
        "edge": pairs(0, 10, 90),  # exactly 10 points is not over 10
        "better": pairs(30, 0, 70),
    }
    before = {name: pair[0] for name, pair in scores.items()}
    after = {name: pair[1] for name, pair in scores.items()}
    found = regressions(before, after)
    assert list(found) == ["larger", "large"]
    assert found["large"].points == pytest.approx(30.0)
    assert found["large"].p_value == pytest.approx(2.0**-30)
    assert found["large"].num_tasks == 100
    assert list(regressions(before, after, points=4.9)) == ["larger", "large", "edge", "small"]
    assert list(regressions(after, before)) == ["better"]


def test_the_correction_counts_every_domain_that_was_tested() -> None:
    """p = 2^-6 is significant alone (0.0156 <= 0.05), not as one of ten (> 0.005)."""
    before = {"lost": pairs(0, 6, 4)[0]} | {f"same/{i}": [1.0] * 10 for i in range(9)}
    after = {"lost": pairs(0, 6, 4)[1]} | {f"same/{i}": [1.0] * 10 for i in range(9)}
    assert regressions(before, after) == {}
    assert list(regressions(before, after, corrected=False)) == ["lost"]


# --- Wilson ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("successes", "total"), [(0, 10), (10, 10), (3, 10), (1, 1), (517, 1000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_wilson_is_scipys(successes: int, total: int, confidence: float) -> None:
    reference = stats.binomtest(successes, total).proportion_ci(confidence, method="wilson")
    assert wilson_interval(successes, total, confidence) == pytest.approx((reference.low, reference.high), abs=1e-12)


@pytest.mark.parametrize(("successes", "total"), [(0, 0), (-1, 3), (4, 3)])
def test_what_is_no_proportion_is_refused(successes: int, total: int) -> None:
    with pytest.raises(ValueError, match="is no proportion"):
        wilson_interval(successes, total)
