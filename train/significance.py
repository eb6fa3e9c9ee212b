"""Is a difference real?  Paired scores of the same tasks before and after, by domain.

In: per-task scores by domain, in the same task order on both sides.  Out: a difference with its interval, exact
p-values, corrected decisions, regressions.  Pure; called by `train.evaluate`, `train.report` and the guards.

Scores are shares of a domain's declared range, 0 the worst and 1 the best: a point is a hundredth of that range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

Direction = Literal["better", "worse", "different"]
_ALTERNATIVES = {"better": "greater", "worse": "less", "different": "two-sided"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A mean difference (after - before) and how sure it is; `low` and `high` are its 95 % interval."""

    mean: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A domain that lost: `points` of 100 on average, with the p-value of its own one-sided test (uncorrected)."""

    points: float
    p_value: float
    num_tasks: int


def paired_difference(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], confidence: float = 0.95
) -> Difference:
    """The mean over domains of the mean paired difference: every domain counts alike, however many tasks it has.

    The error is stratified, sqrt(Σ_d s_d²/n_d) / D: that some domains gained more than others is no noise.  A domain
    of one task takes the variance pooled over the others.  The interval is Student's, with Welch–Satterthwaite degrees
    of freedom; where all differences within each domain are equal it has no width.
    Raises ValueError where the two sides do not pair up, or no domain has two tasks.
    """
    differences = _paired(before, after)
    sizes = np.array([len(values) for values in differences.values()])
    freedom = sizes - 1
    if not freedom.any():
        raise ValueError("a standard error needs a domain with at least two tasks, every domain here has one")
    squares = np.array([((values - values.mean()) ** 2).sum() for values in differences.values()])
    pooled = squares.sum() / freedom.sum()
    variances = np.where(freedom > 0, squares / np.maximum(freedom, 1), pooled) / sizes
    mean = float(np.mean([values.mean() for values in differences.values()]))
    error = math.sqrt(variances.sum()) / len(sizes)
    if error == 0.0:
        return Difference(mean=mean, standard_error=0.0, low=mean, high=mean)
    shares = variances / variances.sum()
    degrees = 1.0 / float((shares**2 / np.where(freedom > 0, freedom, freedom.sum())).sum())
    margin = float(stats.t.ppf(0.5 + confidence / 2, degrees)) * error
    return Difference(mean=mean, standard_error=error, low=mean - margin, high=mean + margin)


def exact_paired_test(before: Sequence[float], after: Sequence[float], direction: Direction) -> float:
    """The p-value of "nothing changed" against "after is `direction`", from the pairs that differ.

    Under the null each of them went either way with probability 1/2.  For scores of 0 and 1 this is McNemar's exact
    test, for others the sign test: it asks how many tasks changed, not by how much.
    """
    differences = _differences(before, after, "exact_paired_test")
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    if wins + losses == 0:
        return 1.0
    return float(stats.binomtest(wins, wins + losses, 0.5, alternative=_ALTERNATIVES[direction]).pvalue)


def holm(p_values: Mapping[str, float], alpha: float) -> dict[str, bool]:
    """Which hypotheses are rejected so that a false one among them has probability at most `alpha` (Holm, 1979)."""
    ordered = sorted(p_values, key=lambda name: (p_values[name], name))
    rejected = dict.fromkeys(p_values, False)
    for position, name in enumerate(ordered):
        if p_values[name] > alpha / (len(ordered) - position):
            break
        rejected[name] = True
    return rejected


def regressions(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    alpha: float = 0.05,
    points: float = 10.0,
    *,
    corrected: bool = True,
) -> dict[str, Regression]:
    """Domains that lost more than `points` of 100 and significantly so, the largest loss first.

    Both are asked for: of hundreds of domains some lose ten points by luck, and with thousands of tasks a loss of
    half a point is significant.  `corrected` applies Holm over all domains; without it each is tested on its own,
    which misses less and accuses more.
    """
    differences = _paired(before, after)
    p_values = {domain: exact_paired_test(before[domain], after[domain], "worse") for domain in differences}
    significant = holm(p_values, alpha) if corrected else {name: p <= alpha for name, p in p_values.items()}
    found = {
        domain: Regression(points=-100 * float(values.mean()), p_value=p_values[domain], num_tasks=len(values))
        for domain, values in differences.items()
        if significant[domain] and -100 * float(values.mean()) > points
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].points))


def wilson_interval(successes: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """The score interval of a proportion (Wilson, 1927): unlike mean ± 2 errors it is right near 0 and 1."""
    if not 0 <= successes <= total or total == 0:
        raise ValueError(f"{successes} successes of {total} is no proportion")
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    share = successes / total
    centre = share + z * z / (2 * total)
    margin = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)


def _paired(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    if before.keys() != after.keys() or not before:
        raise ValueError(f"domains differ or are none: before {sorted(before)}, after {sorted(after)}")
    return {domain: _differences(before[domain], after[domain], domain) for domain in before}


def _differences(before: Sequence[float], after: Sequence[float], what: str) -> np.ndarray:
    if len(before) != len(after) or not len(before):
        raise ValueError(f"{what}: {len(before)} scores before and {len(after)} after are no pairs")
    differences = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    if not np.isfinite(differences).all():
        raise ValueError(f"{what}: a score is not finite; leave unscored tasks out on both sides")
    return differences
