"""Every policy loss, in one table.

In: the trainer's log-probs of the loss tokens of one micro-batch, and that micro-batch.  Out: a `LossResult`: the loss,
and metrics as sums, which add over micro-batches and ranks.  Called by `train.policy.policy`.  Pure: no process group.

Every loss is a sum over loss tokens of weight * token loss.  The weights (`train.policy.packing.token_weights`) carry
the whole normalisation, so that any split of a batch gives the same loss and gradient.

pi is the trainer's policy, mu the one that sampled (the engine), "proximal" the trainer's before the first update of
the batch.  All log-probs are in nats; L is the number of loss tokens.
"""

from __future__ import annotations

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
    - `ratio_band`: dppo, optional: tokens with a ratio outside (low, high) get no policy gradient.
    - `veto_below`: dppo, optional: a sequence with any ratio below gets none.  Biased against long sequences.
    - `clip_low`, `clip_high`: grpo and icepop.  `gspo_clip_low`, `gspo_clip_high`: gspo.
    - `cispo_low`, `cispo_high`: cispo; low 1.0 means no lower bound.
    - `mismatch_cap`: largest weight that makes up for the engine's mismatch (grpo, gspo, ref_kl).
    - `icepop_low`, `icepop_high`: band of the mismatch outside which icepop drops a token.
    """

    log_ratio_clamp: float = 10.0
    tv_threshold: float = 0.2
    log_ratio_penalty: float = 1e-3
    ratio_band: tuple[float, float] | None = None
    veto_below: float | None = None
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
        bands = {"icepop": (self.icepop_low, self.icepop_high), "ratio_band": self.ratio_band}
        for name, band in bands.items():
            if band is not None and not 0 <= band[0] < 1 < band[1]:
                raise ValueError(f"loss option {name} must be a band around 1, got {band}")


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
    """A loss and what it needs beyond behaviour log-probs and advantages."""

    function: Loss
    needs_proximal: bool = False
    needs_reference: bool = False


def dppo(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """Trust region in total variation, straight against the sampling policy (arXiv 2602.04879).

    r = pi / mu.  Token loss -r * A, but nothing where A > 0 and pi - mu > threshold, or A < 0 and pi - mu < -threshold:
    probability differences, because ratios of rare tokens are noise.  Plus penalty * (log r)^2 on every token (Kimi
    K2.5, arXiv 2602.02276), with the log-ratio as it is, so that the furthest tokens are pulled back hardest.
    """
    x = _inputs(logprobs, batch, options)
    moved = (logprobs.detach().exp() - x.behaviour.exp()).detach()
    masked_high = (x.advantages > 0) & (moved > options.tv_threshold)
    masked_low = (x.advantages < 0) & (moved < -options.tv_threshold)
    ratio = x.ratio.detach()
    outside = _outside(ratio, options.ratio_band)
    vetoed = _vetoed(ratio, batch.sequence_ids.to(ratio.device), options.veto_below)
    kept = ~(masked_high | masked_low | outside | vetoed)
    penalty = options.log_ratio_penalty * (logprobs - x.behaviour).square()
    loss = _weighted(x, torch.where(kept, -x.ratio * x.advantages, 0.0) + penalty)
    counts = {
        "masked_high": _count(x, masked_high),
        "masked_low": _count(x, masked_low),
        "band_masked": _count(x, outside),
        "vetoed_tokens": _count(x, vetoed),
        "vetoed_sequences": _num_sequences(batch.sequence_ids.to(ratio.device)[vetoed & x.real]),
        "penalty_sum": _sum(x, penalty),
    }
    return LossResult(loss, _common_metrics(logprobs, batch, x) | counts, kept)


def cispo(logprobs: Tensor, batch: MicroBatch, options: LossOptions) -> LossResult:
    """Clipped importance weight on REINFORCE; no token loses its gradient (arXiv 2506.13585).

    -sg(clip(pi / mu, 1 - low, 1 + high)) * A * log pi.
    """
    x = _inputs(logprobs, batch, options)
    ratio = x.ratio.detach()
    low, high = 1 - options.cispo_low, 1 + options.cispo_high
    loss = _weighted(x, -ratio.clamp(low, high) * x.advantages * logprobs)
    metrics = {"clipped_high": _count(x, ratio > high), "clipped_low": _count(x, ratio < low)}
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
    popped = _outside(mismatch, (options.icepop_low, options.icepop_high))
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
    """Cross entropy: -log pi.  Advantages and behaviour log-probs are not read."""
    x = _inputs(logprobs, batch, options)
    metrics = {
        "tokens": x.real.sum(),
        "sequences": _num_sequences(batch.sequence_ids.to(logprobs.device)[x.real]),
        "nll_sum": _sum(x, -logprobs),
    }
    return LossResult(_weighted(x, -logprobs), metrics, torch.ones_like(x.real))


LOSSES: dict[str, LossSpec] = {
    "dppo": LossSpec(dppo),
    "cispo": LossSpec(cispo),
    "grpo": LossSpec(grpo, needs_proximal=True),
    "gspo": LossSpec(gspo, needs_proximal=True),
    "icepop": LossSpec(icepop, needs_proximal=True),
    "ref_kl": LossSpec(ref_kl, needs_reference=True),
    "sft": LossSpec(sft),
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


def _clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> tuple[Tensor, Tensor, Tensor]:
    """PPO's pessimistic surrogate, and where the clip is in effect (above, below)."""
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    detached = ratio.detach()
    return surrogate, (advantages > 0) & (detached > 1 + high), (advantages < 0) & (detached < 1 - low)


def _outside(ratio: Tensor, band: tuple[float, float] | None) -> Tensor:
    if band is None:
        return torch.zeros_like(ratio, dtype=torch.bool)
    return (ratio < band[0]) | (ratio > band[1])


def _vetoed(ratio: Tensor, sequence_ids: Tensor, below: float | None) -> Tensor:
    """True on every token of a sequence that has one ratio under `below`."""
    if below is None:
        return torch.zeros_like(ratio, dtype=torch.bool)
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
