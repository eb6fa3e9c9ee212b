"""Each loss against hand-computed values, and the property that a split of the batch changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from train.policy.losses import LOSSES, LossOptions, LossResult, k3, mismatch_statistics
from train.policy.packing import NOBODY, MicroBatch

POLICY_LOSSES = [name for name in LOSSES if name != "sft"]
PER_TARGET = ["target_ids", "predict_index", "behaviour_logprobs", "advantages", "weights"]
PER_TARGET += ["domain_ids", "versions", "sequence_ids", "proximal_logprobs", "reference_logprobs"]


def batch_of(
    behaviour: Sequence[float],
    advantages: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
    sequences: Sequence[int] | None = None,
    proximal: Sequence[float] | None = None,
    reference: Sequence[float] | None = None,
) -> MicroBatch:
    """A micro-batch in double precision of which only what losses read has a meaning."""
    length = len(behaviour)
    integers = torch.zeros(length, dtype=torch.int64)

    def numbers(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    return MicroBatch(
        input_ids=integers[None],
        position_ids=integers[None],
        boundaries=torch.tensor([0, length], dtype=torch.int32),
        predict_index=integers,
        target_ids=integers,
        behaviour_logprobs=numbers(behaviour),
        advantages=numbers(advantages),
        weights=numbers([1.0] * length if weights is None else weights),
        domain_ids=integers,
        versions=integers,
        sequence_ids=torch.tensor(range(length) if sequences is None else sequences, dtype=torch.int64),
        proximal_logprobs=numbers(behaviour if proximal is None else proximal),
        reference_logprobs=numbers(behaviour if reference is None else reference),
    )


def select(batch: MicroBatch, chosen: Tensor) -> MicroBatch:
    return replace(batch, **{name: getattr(batch, name)[chosen] for name in PER_TARGET})


def run(name: str, logprobs: Sequence[float], batch: MicroBatch, **options: object) -> tuple[LossResult, Tensor]:
    """The result and the gradient with respect to the log-probs."""
    leaf = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    result = LOSSES[name].function(leaf, batch, LossOptions(**options))  # type: ignore[arg-type]
    result.loss.backward()
    assert leaf.grad is not None
    return result._replace(loss=result.loss.detach()), leaf.grad


def numbers_of(result: LossResult) -> dict[str, float]:
    return {key: float(value) for key, value in result.metrics.items()}


def test_dppo_by_hand() -> None:
    """Kept up, masked up, masked down, kept down beyond the threshold on the harmless side."""
    mu = [0.5, 0.5, 0.5, 0.5]
    pi = [0.6, 0.8, 0.2, 0.8]
    advantages = [2.0, 2.0, -1.0, -1.0]
    weights = [0.1, 0.2, 0.3, 0.4]
    batch = batch_of([math.log(p) for p in mu], advantages, weights=weights)
    result, gradient = run("dppo", [math.log(p) for p in pi], batch)
    ratios = [p / m for p, m in zip(pi, mu, strict=True)]
    kept = [True, False, False, True]
    assert result.kept.tolist() == kept
    expected = sum(
        w * ((-r * a if keep else 0.0) + 1e-3 * math.log(r) ** 2)
        for w, r, a, keep in zip(weights, ratios, advantages, kept, strict=True)
    )
    assert float(result.loss) == pytest.approx(expected, rel=1e-12)
    assert gradient.tolist() == pytest.approx(
        [
            w * ((-r * a if keep else 0.0) + 2e-3 * math.log(r))
            for w, r, a, keep in zip(weights, ratios, advantages, kept, strict=True)
        ]
    )
    metrics = numbers_of(result)
    assert (metrics["tokens"], metrics["masked_high"], metrics["masked_low"]) == (4, 1, 1)
    assert metrics["log_ratio_abs_sum"] == pytest.approx(sum(abs(math.log(r)) for r in ratios))
    assert metrics["k1_sum"] == pytest.approx(-sum(math.log(r) for r in ratios))
    assert metrics["k3_sum"] == pytest.approx(sum(r - 1 - math.log(r) for r in ratios))
    assert metrics["penalty_sum"] == pytest.approx(sum(1e-3 * math.log(r) ** 2 for r in ratios))
    assert metrics["advantage_sum"] == 2.0
    assert metrics["band_masked"] == metrics["vetoed_tokens"] == metrics["vetoed_sequences"] == 0


def test_the_threshold_of_dppo_is_on_probabilities_not_ratios() -> None:
    """A rare token may move by a factor of 100."""
    result, _ = run("dppo", [math.log(0.1)], batch_of([math.log(0.001)], [1.0]), log_ratio_penalty=0.0)
    assert float(result.loss) == pytest.approx(-100.0) and result.kept.tolist() == [True]


def test_ratio_band_and_veto_are_options_and_counted() -> None:
    logprobs = [-1.0, -4.0, -12.0, -1.0]
    batch = batch_of([-1.0] * 4, [1.0] * 4, sequences=[7, 7, 8, 9])
    plain, _ = run("dppo", logprobs, batch, log_ratio_penalty=0.0)
    assert plain.kept.tolist() == [True] * 4
    banded, gradient = run("dppo", logprobs, batch, log_ratio_penalty=0.0, band_low=0.5, band_high=2.0)
    assert banded.kept.tolist() == [True, False, False, True] and numbers_of(banded)["band_masked"] == 2
    assert float(banded.loss) == pytest.approx(-2.0) and gradient.tolist() == pytest.approx([-1, 0, 0, -1])
    vetoed, _ = run("dppo", logprobs, batch, log_ratio_penalty=0.0, veto_below=0.06)
    metrics = numbers_of(vetoed)
    assert vetoed.kept.tolist() == [False, False, False, True]
    assert (metrics["vetoed_tokens"], metrics["vetoed_sequences"], metrics["sequences"]) == (3, 2, 3)


def test_cispo_by_hand() -> None:
    """Ratios 2, 10 (cut to 5), 0.1; every token has a gradient."""
    ratios, advantages = [2.0, 10.0, 0.1], [1.0, -1.0, 2.0]
    logprobs = [-1.0, -2.0, -3.0]
    batch = batch_of([p - math.log(r) for p, r in zip(logprobs, ratios, strict=True)], advantages)
    result, gradient = run("cispo", logprobs, batch)
    assert float(result.loss) == pytest.approx(2 * 1 - 5 * 2 + 0.1 * 2 * 3)
    assert gradient.tolist() == pytest.approx([-2.0, 5.0, -0.2])
    assert (numbers_of(result)["clipped_high"], numbers_of(result)["clipped_low"]) == (1, 0)
    bounded, _ = run("cispo", logprobs, batch, cispo_low=0.2, cispo_high=0.28)
    assert float(bounded.loss) == pytest.approx(1.28 * 1 - 1.28 * 2 + 0.8 * 2 * 3)
    assert (numbers_of(bounded)["clipped_high"], numbers_of(bounded)["clipped_low"]) == (2, 1)


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "slope"),
    [(1, 2, -1.2, 0.0), (1, 0.5, -0.5, -0.5), (-1, 2, 2.0, 2.0), (-1, 0.5, 0.8, 0.0)],
)
@pytest.mark.parametrize("name", ["grpo", "icepop"])
def test_the_clip_is_in_effect(name: str, advantage: float, ratio: float, loss: float, slope: float) -> None:
    """F14: the four cases at eps 0.2."""
    batch = batch_of([-1.0], [advantage])
    result, gradient = run(name, [-1.0 + math.log(ratio)], batch, clip_low=0.2, clip_high=0.2)
    assert float(result.loss) == pytest.approx(loss) and float(gradient[0]) == pytest.approx(slope)
    assert result.kept.tolist() == [slope != 0]
    metrics = numbers_of(result)
    assert (metrics["clipped_high"], metrics["clipped_low"]) == (float(loss == -1.2), float(loss == 0.8))


def test_grpo_clips_higher_and_truncates_the_mismatch() -> None:
    batch = batch_of([-1.0, -1.0], [1.0, 1.0], proximal=[-1.0 + math.log(3.0), -1.0 + math.log(1.5)])
    result, gradient = run("grpo", [-1.0 + math.log(6.0), -1.0 + math.log(1.5)], batch)
    assert float(result.loss) == pytest.approx(-2.0 * 1.28 - 1.5 * 1.0)
    assert gradient.tolist() == pytest.approx([0.0, -1.5])
    assert numbers_of(result)["mismatch_truncated"] == 1


def test_icepop_drops_what_the_engine_got_wrong() -> None:
    proximal = [-1.0 + math.log(rho) for rho in (0.4, 0.6, 4.0, 6.0)]
    result, gradient = run("icepop", proximal, batch_of([-1.0] * 4, [1.0] * 4, proximal=proximal))
    assert float(result.loss) == pytest.approx(-(0.6 + 4.0))
    assert gradient.tolist() == pytest.approx([0.0, -0.6, -4.0, 0.0])
    assert result.kept.tolist() == [False, True, True, False] and numbers_of(result)["popped"] == 2


def test_gspo_by_hand() -> None:
    """Two tokens with log-ratios 0.1 and 0.3 are one sequence of ratio e^0.2."""
    batch = batch_of([-1.0, -1.0, -2.0], [1.0, 1.0, -2.0], sequences=[0, 0, 1], weights=[0.25, 0.25, 0.5])
    logprobs = [-0.9, -0.7, -1.5]
    result, gradient = run("gspo", logprobs, batch, gspo_clip_low=0.5, gspo_clip_high=0.5)
    assert float(result.loss) == pytest.approx(-0.5 * math.exp(0.2) + 0.5 * 2 * math.exp(0.5))
    assert gradient.tolist() == pytest.approx([-0.25 * math.exp(0.2), -0.25 * math.exp(0.2), 0.5 * 2 * math.exp(0.5)])
    clipped, gradient = run("gspo", logprobs, batch)
    assert float(clipped.loss) == pytest.approx(-0.5 * 1.0004 + 0.5 * 2 * math.exp(0.5))
    assert gradient[:2].tolist() == [0.0, 0.0] and numbers_of(clipped)["clipped_high"] == 2


def test_the_gradient_of_gspo_is_that_of_the_sequence_ratio() -> None:
    """The token form equals the derivative of exp(mean log-ratio) where a sequence has one advantage."""
    logprobs = torch.tensor([-0.9, -0.7, -1.5], dtype=torch.float64, requires_grad=True)
    batch = batch_of([-1.0, -1.1, -1.2], [1.5] * 3, sequences=[4] * 3, weights=[1 / 3] * 3)
    (-(logprobs - batch.behaviour_logprobs).mean().exp() * 1.5).backward()
    _, gradient = run("gspo", logprobs.tolist(), batch, gspo_clip_low=0.9, gspo_clip_high=0.9)
    assert logprobs.grad is not None and torch.allclose(gradient, logprobs.grad)


def test_ref_kl_pulls_towards_the_reference() -> None:
    """F13: sign.  The policy above the reference goes down, below it goes up; k3 is a metric, never negative."""
    batch = batch_of([-1.0, -2.0], [9.0, 9.0], reference=[-1.5, -1.0])
    result, gradient = run("ref_kl", [-1.0, -2.0], batch)
    assert gradient.tolist() == pytest.approx([0.5, -1.0])
    assert float(result.loss) == pytest.approx(0.5 * -1.0 - 1.0 * -2.0)
    metrics = numbers_of(result)
    assert metrics["reference_k3_sum"] == pytest.approx((math.exp(-0.5) + 0.5 - 1) + (math.e - 1 - 1))
    assert metrics["reference_k1_sum"] == pytest.approx(0.5 - 1.0)
    off_policy, gradient = run("ref_kl", [-1.0, -2.0], replace(batch, behaviour_logprobs=torch.tensor([-3.0, -1.5])))
    assert gradient.tolist() == pytest.approx([2 * 0.5, -1.0 * math.exp(-0.5)])
    assert numbers_of(off_policy)["mismatch_truncated"] == 1


def test_the_expected_gradient_of_ref_kl_is_that_of_the_kl() -> None:
    """Summed over a whole vocabulary, sampled from the policy itself."""
    logits = torch.tensor([0.3, -0.2, 1.0, 0.1], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.1, 0.4, -1.0, 0.5], dtype=torch.float64).log_softmax(0)
    policy = logits.log_softmax(0)
    (policy.exp() * (policy - reference)).sum().backward()
    exact = logits.grad
    logits.grad = None
    logprobs = logits.log_softmax(0)
    batch = batch_of(policy.tolist(), [0.0] * 4, weights=policy.detach().exp().tolist(), reference=reference.tolist())
    LOSSES["ref_kl"].function(logprobs, batch, LossOptions()).loss.backward()
    assert exact is not None and logits.grad is not None and torch.allclose(logits.grad, exact, atol=1e-12)


def test_k3_values() -> None:
    """F13."""
    assert float(k3(torch.tensor(-1.0), torch.tensor(-1.5))) == pytest.approx(0.10653, abs=1e-5)
    differences = torch.linspace(-9, 9, 181, dtype=torch.float64)
    assert bool((k3(torch.zeros_like(differences), differences) >= 0).all())
    assert float(k3(torch.tensor(-1.0), torch.tensor(-1.0))) == 0.0


def test_sft_is_weighted_cross_entropy() -> None:
    result, gradient = run("sft", [-1.0, -3.0], batch_of([0.0, 0.0], [9.0, 9.0], weights=[0.25, 0.75]))
    assert float(result.loss) == pytest.approx(2.5) and gradient.tolist() == [-0.25, -0.75]
    assert numbers_of(result) == {"tokens": 2, "sequences": 2, "nll_sum": 4.0}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("gap", [100.0, -100.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_extreme_log_ratios_stay_finite(name: str, gap: float, advantage: float) -> None:
    """F12: against the sampling policy, against the proximal one, and against the reference; in fp32."""
    for proximal in (-1.0, -1.0 - gap):
        batch = batch_of([-1.0 - gap], [advantage], proximal=[proximal], reference=[-1.0 - gap])
        names = ["behaviour_logprobs", "advantages", "weights", "proximal_logprobs", "reference_logprobs"]
        batch = replace(batch, **{field: getattr(batch, field).float() for field in names})
        leaf = torch.tensor([-1.0], requires_grad=True)
        result = LOSSES[name].function(leaf, batch, LossOptions())
        result.loss.backward()
        assert bool(result.loss.isfinite()) and leaf.grad is not None and bool(leaf.grad.isfinite().all())
        assert all(math.isfinite(value) for value in numbers_of(result).values())


@pytest.mark.parametrize("name", LOSSES)
def test_a_dummy_changes_neither_loss_nor_metrics(name: str) -> None:
    """F17, F22: a token of weight 0 with an absurd gap."""
    logprobs, behaviour, advantages = [-0.9, -1.2], [-1.0, -1.1], [1.0, -1.0]
    real, gradient = run(name, logprobs, batch_of(behaviour, advantages))
    padded = batch_of([*behaviour, 0.0], [*advantages, 0.0], weights=[1.0, 1.0, 0.0], sequences=[0, 1, NOBODY])
    with_dummy, longer = run(name, [*logprobs, -50.0], padded)
    assert float(with_dummy.loss) == float(real.loss)
    assert longer.tolist() == [*gradient.tolist(), 0.0]
    assert numbers_of(with_dummy) == numbers_of(real)


@pytest.mark.parametrize("name", POLICY_LOSSES)
def test_the_ratio_is_against_what_was_sampled(name: str) -> None:
    """F62: weights that changed since the rollout show; nothing is anchored to the current policy."""
    result, _ = run(name, [-0.5], batch_of([-1.0], [1.0]))
    assert numbers_of(result)["log_ratio_abs_sum"] == pytest.approx(0.5)


def test_many_small_gaps_do_not_explode_a_sequence() -> None:
    """F65: 1,000 tokens with 0.01 each; the product of ratios is e^10, gspo's mean is e^0.01 and clipped."""
    batch = batch_of([-1.0] * 1000, [1.0] * 1000, sequences=[0] * 1000, weights=[1e-3] * 1000)
    result, gradient = run("gspo", [-0.99] * 1000, batch)
    assert float(result.loss) == pytest.approx(-1.0004) and float(gradient.abs().sum()) == 0
    assert numbers_of(result)["clipped_high"] == 1000
    plain, _ = run("dppo", [-0.99] * 1000, batch)
    assert float(plain.loss) == pytest.approx(-math.exp(0.01) + 1e-3 * 1e-4)
    assert numbers_of(plain)["vetoed_tokens"] == 0


values = st.floats(-5.0, -0.01)
tokens = st.lists(
    st.tuples(values, values, values, values, st.floats(-3, 3), st.floats(0, 1), st.integers(0, 5)),
    min_size=2,
    max_size=24,
)


@settings(max_examples=25, deadline=None)
@given(tokens, st.lists(st.integers(0, 3), min_size=24, max_size=24))
@pytest.mark.parametrize("name", LOSSES)
def test_no_split_changes_loss_gradient_or_metrics(
    name: str, drawn: list[tuple[float, float, float, float, float, float, int]], parts: list[int]
) -> None:
    """Any split of the tokens for token-level losses; of whole sequences for gspo and for counts of sequences."""
    logprobs, behaviour, proximal, reference, advantages, weights, sequences = (
        list(c) for c in zip(*drawn, strict=True)
    )
    batch = batch_of(
        behaviour, advantages, weights=weights, sequences=sequences, proximal=proximal, reference=reference
    )
    whole, gradient = run(name, logprobs, batch)
    by_sequence = torch.tensor([parts[sequence] for sequence in sequences])
    by_token = torch.tensor(parts[: len(drawn)])
    for part_of in [by_sequence] if name == "gspo" else [by_sequence, by_token]:
        loss, pieces, metrics = 0.0, torch.zeros_like(gradient), dict.fromkeys(whole.metrics, 0.0)
        for part in part_of.unique():
            chosen = part_of == part
            piece, piece_gradient = run(name, torch.tensor(logprobs)[chosen].tolist(), select(batch, chosen))
            loss += float(piece.loss)
            pieces[chosen] = piece_gradient
            metrics = {key: metrics[key] + value for key, value in numbers_of(piece).items()}
        assert loss == pytest.approx(float(whole.loss), rel=1e-5, abs=1e-5)
        assert torch.allclose(pieces, gradient, rtol=1e-5, atol=1e-6)
        if part_of is by_sequence:
            assert metrics == pytest.approx(numbers_of(whole), rel=1e-5, abs=1e-4)


def test_a_veto_is_by_sequence_wherever_the_sequence_lies() -> None:
    batch = batch_of([-1.0] * 4, [1.0] * 4, sequences=[0, 1, 0, 1])
    result, _ = run("dppo", [-1.0, -1.0, -9.0, -1.0], batch, veto_below=1e-2)
    assert result.kept.tolist() == [False, True, False, True]


def test_log_probs_of_another_batch_are_refused() -> None:
    with pytest.raises(AssertionError, match="log-probs"):
        run("dppo", [-1.0, -2.0, -3.0], batch_of([-1.0, -2.0], [1.0, 1.0]))


def test_mismatch_statistics_see_the_outlier() -> None:
    """F64: one sequence off by 5 nats among many hides in the mean, not in the maximum; other versions do not count."""
    behaviour = torch.zeros(2000)
    trainer = torch.full((2000,), 0.005)
    trainer[100:104] = 5.0
    trainer[1999] = 50.0
    own = torch.ones(2000, dtype=torch.bool)
    own[1999] = False
    found = {key: float(value) for key, value in mismatch_statistics(trainer, behaviour, own).items()}
    assert found["count"] == 1999 and found["max"] == 5.0 and found["above_one_nat"] == 4
    assert found["abs_sum"] / found["count"] == pytest.approx((1995 * 0.005 + 20) / 1999, rel=1e-6)
    nothing = mismatch_statistics(trainer, behaviour, torch.zeros(2000, dtype=torch.bool))
    assert {key: float(value) for key, value in nothing.items()} == dict.fromkeys(found, 0.0)
    trainer[0] = math.nan
    assert math.isnan(float(mismatch_statistics(trainer, behaviour, own)["max"]))


def test_every_field_of_a_micro_batch_is_known_here() -> None:
    """A new per-target field must be split by `select` too, or the invariance test would not notice it."""
    known = {*PER_TARGET, "input_ids", "position_ids", "boundaries", "routes"}
    assert {field.name for field in fields(MicroBatch)} == known
