"""Every policy loss, in one table.

In: the trainer's log-probs of the loss tokens of one micro-batch, and that micro-batch.  Out: a `LossResult`: the loss,
and metrics as sums, which add over micro-batches and ranks.  Called by `train.policy.policy`.  Pure: no process group.

Every loss is a sum over loss tokens of weight * token loss.  The weights (`train.policy.packing.token_weights`) carry
the whole normalisation, so that any split of a batch gives the same loss and gradient.

pi is the trainer's policy, mu the one that sampled (the engine), "proximal" the trainer's before the first update of
the batch.  With one update a batch dppo and cispo take their ratios straight against mu.  With several every loss takes
them against proximal, and the engine's mismatch enters as a weight of its own, min(proximal / mu, cap).  All log-probs
are in nats; L is the number of loss tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from train.policy.packing import MicroBatch

Metrics = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class LossOptions:
    """Constants of the losses; each loss's docstring says which it reads.

    - `log_ratio_clamp`: log-ratios are cut to this before exp, so that no ratio overflows.
    - `tv_threshold`, `log_ratio_penalty`: dppo.
    - `band_low`, `band_high`: dppo: tokens with pi / mu outside get no policy gradient; off as they are.
    - `veto_below`: dppo: a sequence with any pi / mu below gets none (0: off).  Biased against long sequences.
    - `clip_low`, `clip_high`: grpo and icepop.  `gspo_clip_low`, `gspo_clip_high`: gspo.
    - `cispo_low`, `cispo_high`: cispo; low 1.0 means no lower bound.
    - `mismatch_cap`: largest weight that makes up for the engine's mismatch (grpo, gspo, ref_kl; dppo and cispo with
      several updates a batch).
    - `icepop_low`, `icepop_high`: band of the mismatch outside which icepop drops a token.
    """

    log_ratio_clamp: float = 10.0
    tv_threshold: float = 0.2
    log_ratio_penalty: float = 1e-3
    band_low: float = 0.0
    band_high: float = math.inf
    veto_below: float = 0.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    gspo_clip_low: float = 3e-4
    gspo_clip_high: float = 4e-4
    cispo_low: float = 1.0
    cispo_high: float = 4.0
    mismatch_cap: float = 2.0
    icepop_low: float = 0.5
    icepop_high: float = 5.0

    def __post_init__(self) -> None:
        for name in ("log_ratio_clamp", "tv_threshold", "mismatch_cap", "clip_high", "gspo_clip_high", "cispo_high"):
            if not getattr(self, name) > 0:
                raise ValueError(f"loss option {name} must be positive, got {getattr(self, name)}")
        for name in ("clip_low", "gspo_clip_low", "cispo_low"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"loss option {name} must be in (0, 1], got {getattr(self, name)}")
        for name in ("icepop", "band"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if not 0 <= low < 1 < high:
                raise ValueError(f"loss options {name}_low, {name}_high must be a band around 1, got {low:g}, {high:g}")
        for name in ("log_ratio_penalty", "veto_below"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"loss option {name} must be 0 or more, got {getattr(self, name)}")


class LossResult(NamedTuple):
    """What a loss gives back.

    - `loss`: scalar with gradient.
    - `metrics`: detached scalar sums and counts over real loss tokens; the keys depend on the loss alone.
    - `kept`: bool [L], the tokens whose policy-gradient term is in effect; for break-downs by domain and length.
    """

    loss: Tensor
    metrics: Metrics
    kept: Tensor


Loss = Callable[[Tensor, MicroBatch, LossOptions], LossResult]


@dataclass(frozen=True, slots=True)
class LossSpec:
    """A loss, what it needs beyond behaviour log-probs and advantages, and which of `LossOptions` it reads.

    `reads_if_proximal`: those that it reads in addition where it has proximal log-probs without needing them.
    """

    function: Loss
    reads: tuple[str, ...]
    reads_if_proximal: tuple[str, ...] = ()
    needs_proximal: bool = False
    needs_reference: bool = False


def dppo(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """Trust region in total variation, straight against the sampling policy (arXiv 2602.04879).

    r = pi / mu.  Token loss -r * A, but nothing where A > 0 and pi - mu > threshold, or A < 0 and pi - mu < -threshold:
    probability differences, because ratios of rare tokens are noise.  Plus penalty * (log pi / mu)^2 on every token
    (Kimi K2.5, arXiv 2602.02276), with the log-ratio as it is, so that the furthest tokens are pulled back hardest.
    With proximal log-probs these take the place of mu in r and in the threshold.
    """
    x = _inputs(logprobs, batch, options)
    anchor, mismatch, truncated = _anchor(batch, x, options)
    moved = (logprobs.detach().exp() - anchor.exp()).detach()
    masked_high = (x.advantages > 0) & (moved > options.tv_threshold)
    masked_low = (x.advantages < 0) & (moved < -options.tv_threshold)
    sampled_ratio = x.ratio.detach()
    outside = _outside(sampled_ratio, options.band_low, options.band_high)
    vetoed = _vetoed(sampled_ratio, batch.sequence_ids.to(logprobs.device), options.veto_below)
    kept = ~(masked_high | masked_low | outside | vetoed)
    penalty = options.log_ratio_penalty * (logprobs - x.behaviour).square()
    surrogate = mismatch * _ratio(logprobs - anchor, options) * x.advantages
    loss = _weighted(x, torch.where(kept, -surrogate, 0.0) + penalty)
    counts = {
        "masked_high": _count(x, masked_high),
        "masked_low": _count(x, masked_low),
        "band_masked": _count(x, outside),
        "vetoed_tokens": _count(x, vetoed),
        "vetoed_sequences": _num_sequences(batch.sequence_ids.to(logprobs.device)[vetoed & x.real]),
        "penalty_sum": _sum(x, penalty),
        "mismatch_truncated": _count(x, truncated),
    }
    return LossResult(loss, _common_metrics(logprobs, batch, x) | counts, kept)


def cispo(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """Clipped importance weight on REINFORCE; no token loses its gradient (arXiv 2506.13585).

    -sg(clip(pi / mu, 1 - low, 1 + high)) * A * log pi; with proximal log-probs these take the place of mu in the clip.
    """
    x = _inputs(logprobs, batch, options)
    anchor, mismatch, truncated = _anchor(batch, x, options)
    ratio = _ratio(logprobs.detach() - anchor, options)
    low, high = 1 - options.cispo_low, 1 + options.cispo_high
    loss = _weighted(x, -mismatch * ratio.clamp(low, high) * x.advantages * logprobs)
    metrics = {
        "clipped_high": _count(x, ratio > high),
        "clipped_low": _count(x, ratio < low),
        "mismatch_truncated": _count(x, truncated),
    }
    return LossResult(loss, _common_metrics(logprobs, batch, x) | metrics, torch.ones_like(x.real))


def grpo(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """PPO's clipped objective, clip-higher (arXiv 2402.03300, 2503.14476), truncated importance weight for the engine.

    -min(proximal / mu, cap) * min(r * A, clip(r, 1 - low, 1 + high) * A), r = pi / proximal.
    """
    x = _inputs(logprobs, batch, options)
    proximal = _proximal(batch, logprobs.device, "grpo")
    ratio = _ratio(logprobs - proximal, options)
    mismatch = _ratio(proximal - x.behaviour, options)
    surrogate, clipped_high, clipped_low = _clipped(ratio, x.advantages, options.clip_low, options.clip_high)
    loss = _weighted(x, -mismatch.clamp(max=options.mismatch_cap) * surrogate)
    metrics = {
        "clipped_high": _count(x, clipped_high),
        "clipped_low": _count(x, clipped_low),
        "mismatch_truncated": _count(x, mismatch > options.mismatch_cap),
    }
    return LossResult(loss, _common_metrics(logprobs, batch, x) | metrics, ~(clipped_high | clipped_low))


def gspo(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """Sequence-level ratio, in the paper's token form, which admits an advantage per token (arXiv 2507.18071).

    s = exp(mean over the sequence of log pi - log proximal); s_t = sg(s / pi_t) * pi_t has the value s and gives token
    t its own gradient.  -min(proximal / mu, cap) * min(s_t * A, clip(s_t, 1 - low, 1 + high) * A).  Each sequence must
    lie in one micro-batch whole, as `pack` sees to.
    """
    x = _inputs(logprobs, batch, options)
    proximal = _proximal(batch, logprobs.device, "gspo")
    sequence_log_ratio = _sequence_mean((logprobs - proximal).detach(), batch.sequence_ids.to(logprobs.device))
    ratio = _ratio(sequence_log_ratio, options) * (logprobs - logprobs.detach()).exp()
    mismatch = _ratio(proximal - x.behaviour, options)
    surrogate, clipped_high, clipped_low = _clipped(ratio, x.advantages, options.gspo_clip_low, options.gspo_clip_high)
    loss = _weighted(x, -mismatch.clamp(max=options.mismatch_cap) * surrogate)
    metrics = {
        "clipped_high": _count(x, clipped_high),
        "clipped_low": _count(x, clipped_low),
        "mismatch_truncated": _count(x, mismatch > options.mismatch_cap),
    }
    return LossResult(loss, _common_metrics(logprobs, batch, x) | metrics, ~(clipped_high | clipped_low))


def icepop(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """GRPO whose tokens with a large engine mismatch are dropped (arXiv 2510.18855).

    -pop(proximal / mu) * min(r * A, clip(r, 1 - low, 1 + high) * A), pop(x) = x inside the band, 0 outside.
    """
    x = _inputs(logprobs, batch, options)
    proximal = _proximal(batch, logprobs.device, "icepop")
    ratio = _ratio(logprobs - proximal, options)
    mismatch = _ratio(proximal - x.behaviour, options)
    popped = _outside(mismatch, options.icepop_low, options.icepop_high)
    surrogate, clipped_high, clipped_low = _clipped(ratio, x.advantages, options.clip_low, options.clip_high)
    loss = _weighted(x, -torch.where(popped, 0.0, mismatch) * surrogate)
    metrics = {
        "clipped_high": _count(x, clipped_high),
        "clipped_low": _count(x, clipped_low),
        "popped": _count(x, popped),
    }
    return LossResult(loss, _common_metrics(logprobs, batch, x) | metrics, ~(clipped_high | clipped_low | popped))


def ref_kl(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """KL to a reference policy in policy-gradient form: A = sg(log ref - log pi), no other advantage.

    -sg(min(pi / mu, cap)) * A * log pi; its expected gradient is that of KL(pi || ref).  The k3 estimate, which has the
    wrong gradient as a loss, is the metric `reference_k3_sum`.
    """
    x = _inputs(logprobs, batch, options)
    if batch.reference_logprobs is None:
        raise ValueError("loss 'ref_kl' needs reference log-probs, and this micro-batch has none")
    reference = batch.reference_logprobs.to(logprobs.device)
    limit = options.log_ratio_clamp
    pull = (reference - logprobs.detach()).clamp(-limit, limit)
    weight = x.ratio.detach().clamp(max=options.mismatch_cap)
    loss = _weighted(x, -weight * pull * logprobs)
    metrics = {
        "reference_k1_sum": _sum(x, -pull),
        "reference_k3_sum": _sum(x, k3(logprobs.detach(), reference, limit)),
        "mismatch_truncated": _count(x, x.ratio.detach() > options.mismatch_cap),
    }
    return LossResult(loss, _common_metrics(logprobs, batch, x) | metrics, torch.ones_like(x.real))


def sft(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """Cross entropy: -log pi.  Advantages, behaviour log-probs and options are not read."""
    real = batch.sequence_ids.to(logprobs.device) >= 0
    metrics = {
        "tokens": real.sum(),
        "sequences": _num_sequences(batch.sequence_ids.to(logprobs.device)[real]),
        "nll_sum": torch.where(real, -logprobs.detach(), 0.0).sum(),
    }
    return LossResult((batch.weights.to(logprobs.device) * -logprobs).sum(), metrics, torch.ones_like(real))


LOSSES: dict[str, LossSpec] = {
    "dppo": LossSpec(
        dppo,
        reads=("log_ratio_clamp", "tv_threshold", "log_ratio_penalty", "band_low", "band_high", "veto_below"),
        reads_if_proximal=("mismatch_cap",),
    ),
    "cispo": LossSpec(cispo, reads=("log_ratio_clamp", "cispo_low", "cispo_high"), reads_if_proximal=("mismatch_cap",)),
    "grpo": LossSpec(grpo, reads=("log_ratio_clamp", "clip_low", "clip_high", "mismatch_cap"), needs_proximal=True),
    "gspo": LossSpec(
        gspo, reads=("log_ratio_clamp", "gspo_clip_low", "gspo_clip_high", "mismatch_cap"), needs_proximal=True
    ),
    "icepop": LossSpec(
        icepop, reads=("log_ratio_clamp", "clip_low", "clip_high", "icepop_low", "icepop_high"), needs_proximal=True
    ),
    "ref_kl": LossSpec(ref_kl, reads=("log_ratio_clamp", "mismatch_cap"), needs_reference=True),
    "sft": LossSpec(sft, reads=()),
}


def k3(sampled: Tensor, other: Tensor, log_ratio_clamp: float = 10.0) -> Tensor:
    """Schulman's k3 estimate of KL(sampled || other) per token, never negative; tokens are drawn from `sampled`.

    exp(d) - 1 - d with d = log other - log sampled (http://joschu.net/blog/kl-approx.html).
    """
    difference = (other - sampled).clamp(-log_ratio_clamp, log_ratio_clamp)
    return torch.expm1(difference) - difference


@torch.no_grad()
def mismatch_statistics(trainer_logprobs: Tensor, behaviour_logprobs: Tensor, own_version_mask: Tensor) -> Metrics:
    """How far engine and trainer differ on tokens that were sampled under the trainer's own version.

    All arguments are [L].  Returns scalars: `count`, `abs_sum` (mean |difference| is abs_sum / count), `above_one_nat`
    (a count), which add over micro-batches and ranks, and `max`, of which the maximum is to be taken.  A mean alone
    does not see a single sequence that is far off.  A NaN is passed on, not hidden.
    """
    difference = (trainer_logprobs - behaviour_logprobs).abs().double()
    difference = torch.where(own_version_mask, difference, 0.0)
    return {
        "count": own_version_mask.sum().double(),
        "abs_sum": difference.sum(),
        "above_one_nat": (difference > 1.0).sum().double(),
        "max": torch.cat((difference, difference.new_zeros(1))).max(),
    }


class _Inputs(NamedTuple):
    """A micro-batch's fields [L] on the device of the log-probs; `ratio` = pi / mu has the gradient."""

    behaviour: Tensor
    advantages: Tensor
    weights: Tensor
    ratio: Tensor
    real: Tensor


def _inputs(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> _Inputs:
    assert logprobs.shape == batch.weights.shape, (
        f"{list(logprobs.shape)} log-probs, {list(batch.weights.shape)} weights"
    )
    device = logprobs.device
    behaviour = batch.behaviour_logprobs.to(device)
    return _Inputs(
        behaviour=behaviour,
        advantages=batch.advantages.to(device),
        weights=batch.weights.to(device),
        ratio=_ratio(logprobs - behaviour, options),
        # The dummy that fills up a rank must not show in any count.
        real=batch.sequence_ids.to(device) >= 0,
    )


def _ratio(log_ratio: Tensor, options: LossOptions) -> Tensor:
    return log_ratio.clamp(-options.log_ratio_clamp, options.log_ratio_clamp).exp()


def _proximal(batch: MicroBatch, device: torch.device, name: str) -> Tensor:
    if batch.proximal_logprobs is None:
        raise ValueError(f"loss {name!r} needs proximal log-probs, and this micro-batch has none")
    return batch.proximal_logprobs.to(device)


def _anchor(batch: MicroBatch, x: _Inputs, options: LossOptions) -> tuple[Tensor, Tensor, Tensor]:
    """What ratios are taken against, the weight for the engine's mismatch, and where that was cut: all [L].

    Without proximal log-probs the anchor is the engine itself, and there is no mismatch beside the ratio.
    """
    if batch.proximal_logprobs is None:
        return x.behaviour, torch.ones_like(x.behaviour), torch.zeros_like(x.real)
    proximal = batch.proximal_logprobs.to(x.behaviour.device)
    mismatch = _ratio(proximal - x.behaviour, options)
    return proximal, mismatch.clamp(max=options.mismatch_cap), mismatch > options.mismatch_cap


def _clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> tuple[Tensor, Tensor, Tensor]:
    """PPO's pessimistic surrogate, and where the clip is in effect (above, below)."""
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    detached = ratio.detach()
    return surrogate, (advantages > 0) & (detached > 1 + high), (advantages < 0) & (detached < 1 - low)


def _outside(ratio: Tensor, low: float, high: float) -> Tensor:
    return (ratio < low) | (ratio > high)


def _vetoed(ratio: Tensor, sequence_ids: Tensor, below: float) -> Tensor:
    """True on every token of a sequence that has one ratio under `below`."""
    return torch.isin(sequence_ids, sequence_ids[ratio < below])


def _sequence_mean(values: Tensor, sequence_ids: Tensor) -> Tensor:
    """Each token's sequence mean of `values` [L]."""
    _, index, counts = torch.unique(sequence_ids, return_inverse=True, return_counts=True)
    sums = values.new_zeros(len(counts)).index_add_(0, index, values)
    means: Tensor = (sums / counts).index_select(0, index)
    return means


def _num_sequences(sequence_ids: Tensor) -> Tensor:
    return torch.tensor(len(torch.unique(sequence_ids)), device=sequence_ids.device)


def _weighted(x: _Inputs, token_losses: Tensor) -> Tensor:
    return (x.weights * token_losses).sum()


def _count(x: _Inputs, mask: Tensor) -> Tensor:
    return (mask & x.real).sum()


def _sum(x: _Inputs, values: Tensor) -> Tensor:
    return torch.where(x.real, values.detach(), 0.0).sum()


@torch.no_grad()
def _common_metrics(logprobs: Tensor, batch: MicroBatch, x: _Inputs) -> Metrics:
    """Sums that every policy-gradient loss reports; log r and KL are against the sampling policy."""
    log_ratio = logprobs.detach() - x.behaviour
    return {
        "tokens": x.real.sum(),
        "sequences": _num_sequences(batch.sequence_ids.to(logprobs.device)[x.real]),
        "log_ratio_abs_sum": _sum(x, log_ratio.abs()),
        "k1_sum": _sum(x, -log_ratio),
        "k3_sum": _sum(x, k3(x.behaviour, logprobs.detach())),
        "advantage_sum": _sum(x, x.advantages),
    }
