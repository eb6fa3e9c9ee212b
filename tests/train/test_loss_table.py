"""What the table of losses says of each, and what several updates on a batch change: by hand-computed values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from tests.train.test_losses import batch_of, numbers_of, run
from train.policy.losses import LOSSES, LossOptions


def test_the_table_says_what_each_loss_needs() -> None:
    assert set(LOSSES) == {"dppo", "cispo", "grpo", "gspo", "icepop", "ref_kl", "sft"}
    assert {name for name, spec in LOSSES.items() if spec.needs_proximal} == {"grpo", "gspo", "icepop"}
    assert {name for name, spec in LOSSES.items() if spec.needs_reference} == {"ref_kl"}
    bare = replace(batch_of([-1.0], [1.0]), proximal_logprobs=None, reference_logprobs=None)
    for name, spec in LOSSES.items():
        if spec.needs_proximal or spec.needs_reference:
            with pytest.raises(ValueError, match=name):
                run(name, [-1.0], bare)
        else:
            run(name, [-1.0], bare)


def test_with_several_updates_dppo_is_against_the_policy_of_before_the_first() -> None:
    """pi/proximal 1.5, 3, 0.5; proximal/mu 1.2, 4 (cut to 2), 0.5; the second token has moved too far from proximal,
    the third less than from mu, where it would be masked."""
    ratios, mismatches, advantages = [1.5, 3.0, 0.5], [1.2, 4.0, 0.5], [1.0, 1.0, -1.0]
    proximal = [math.log(0.2), math.log(0.2), math.log(0.3)]
    behaviour = [p - math.log(m) for p, m in zip(proximal, mismatches, strict=True)]
    logprobs = [p + math.log(r) for p, r in zip(proximal, ratios, strict=True)]
    batch = batch_of(behaviour, advantages, proximal=proximal)
    result, gradient = run("dppo", logprobs, batch, log_ratio_penalty=1e-3)
    penalties = [1e-3 * math.log(r * m) ** 2 for r, m in zip(ratios, mismatches, strict=True)]
    assert float(result.loss) == pytest.approx(-1.2 * 1.5 + 0.5 * 0.5 + sum(penalties))
    assert result.kept.tolist() == [True, False, True]
    slopes = [2e-3 * math.log(r * m) for r, m in zip(ratios, mismatches, strict=True)]
    assert gradient.tolist() == pytest.approx([-1.2 * 1.5 + slopes[0], slopes[1], 0.25 + slopes[2]])
    assert numbers_of(result)["mismatch_truncated"] == 1
    straight, _ = run("dppo", logprobs, replace(batch, proximal_logprobs=None), log_ratio_penalty=0.0)
    assert straight.kept.tolist() == [True, False, False]


def test_with_several_updates_cispo_clips_what_moved_since_the_first() -> None:
    """pi/proximal 8 (cut to 5) and 0.5, proximal/mu 3 (cut to 2) and 0.25."""
    batch = batch_of([-1.0, -1.0], [1.0, -2.0], proximal=[-1.0 + math.log(3.0), -1.0 + math.log(0.25)])
    logprobs = [-1.0 + math.log(24.0), -1.0 + math.log(0.125)]
    result, gradient = run("cispo", logprobs, batch)
    assert gradient.tolist() == pytest.approx([-2 * 5.0, 2 * 0.25 * 0.5])
    assert float(result.loss) == pytest.approx(-2 * 5 * logprobs[0] + 2 * 0.25 * 0.5 * logprobs[1])
    assert (numbers_of(result)["clipped_high"], numbers_of(result)["mismatch_truncated"]) == (1, 1)


class Recorded(LossOptions):
    """Notes which options a loss reads."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            Recorded.read.add(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("has_proximal", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_table_says_what_a_loss_reads(name: str, has_proximal: bool) -> None:
    spec = LOSSES[name]
    if spec.needs_proximal and not has_proximal:
        return
    batch = batch_of([-1.0, -2.0], [1.0, -1.0])
    options = Recorded()
    Recorded.read.clear()
    spec.function(
        torch.tensor([-1.5, -1.0]), batch if has_proximal else replace(batch, proximal_logprobs=None), options
    )
    assert Recorded.read == {*spec.reads, *(spec.reads_if_proximal if has_proximal else ())}


def test_options_that_mean_nothing_are_refused() -> None:
    for bad in (
        {"clip_low": 1.5},
        {"mismatch_cap": 0.0},
        {"band_low": 2.0, "band_high": 3.0},
        {"veto_below": -0.1},
        {"log_ratio_penalty": -1e-3},
        {"icepop_low": 1.5},
        {"tv_threshold": -1.0},
    ):
        with pytest.raises(ValueError, match=next(iter(bad)).split("_low")[0]):
            LossOptions(**bad)
