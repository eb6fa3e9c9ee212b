"""Quantisation-aware training of named weights: what the forward pass computes with, and what is served for it.

In: a weight by trainer name (the module's own tensor, gathered), and the options of `quant` in the config.  Out: its
quantised values under a straight-through gradient, the values and scales to pack, and counts for the metrics.  Pure
but for its memory; used by `train.policy.model` (forward), `train.policy.policy` (shards, state) and `train.quantise`.

Everything is done once an optimiser step and kept: micro-batches, recomputation and the replay of checkpointed
activations all read the same tensor.

State that cannot be made again from the weights goes into the checkpoint as `<name>.<kind>`, kinds in `STATE`; without
options there is none, and checkpoints are those of a run without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from train.policy import mxfp4

# scales: frozen bytes.  source_scales: those of the MXFP4 checkpoint that the run started from.  average: of Q-EMA.
STATE = ("scales", "source_scales", "average")
COUNTS = ("weights", "flipped", "clipped", "zeroed", "blocks", "scale_drift")


@dataclass(frozen=True, slots=True, kw_only=True)
class QatOptions:
    """How weights are quantised in training.

    - `rule`: the scale rule, one of `mxfp4.RULES`.
    - `start_step`: optimiser steps that the trainer computes on the masters before (served bytes are MXFP4 throughout).
    - `freeze_scales`: scales stay those of `start_step` (or of the MXFP4 checkpoint that the run started from).
    - `average`: decay of Q-EMA, 0 for off: each weight takes the one of its two neighbours on the grid that is nearer
      to its running mean, against oscillation (TetraJet, arXiv 2502.20853).
    """

    rule: str = mxfp4.RULE
    start_step: int = 0
    freeze_scales: bool = False
    average: float = 0.0


class QuantisedWeights:
    """The options' memory for all quantised weights of a rank.  `step` counts optimiser steps."""

    def __init__(self, options: QatOptions, *, enabled: bool = True):
        self.options, self.enabled, self.step = options, enabled, 0
        self.state: dict[str, dict[str, Tensor]] = {kind: {} for kind in STATE}
        self._values: dict[str, Tensor] = {}
        self._averaged_at: dict[str, int] = {}
        self._last: dict[str, mxfp4.Packed] = {}
        self._first_scales: dict[str, Tensor] = {}

    def forward(self, name: str, weight: Tensor) -> Tensor:
        """What the forward pass uses for `weight` [..., in]; the gradient passes straight through to it."""
        if not self.enabled or self.step < self.options.start_step:
            return weight
        if name not in self._values:
            values, scales = self.served(name, weight.detach())
            quantised = mxfp4.fake_quantise(values, name=name, rule=self.options.rule, scales=scales)
            self._values[name] = quantised.to(weight.dtype)
        return mxfp4.straight_through(weight, self._values[name])

    @torch.no_grad()
    def served(self, name: str, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """Values and scales (None: by the rule) whose MXFP4 bytes stand for `weight` where it is served."""
        rule, started = self.options.rule, self.step >= self.options.start_step
        source = self.state["source_scales"].get(name)
        frozen = self._frozen(name, weight) if self.options.freeze_scales and started else None
        values = weight
        if self.options.average and started:
            grid = mxfp4.quantise(weight, name, rule=rule).scales if frozen is None else frozen
            values = nearest_to_average(weight, self._average(name, weight), grid)
        if frozen is not None or source is None:
            return values, frozen
        return values, mxfp4.kept_scales(values, source, name, rule=rule)

    def packed(self, name: str, weight: Tensor) -> mxfp4.Packed:
        """The served bytes of `weight`."""
        values, scales = self.served(name, weight)
        return mxfp4.quantise(values, name, rule=self.options.rule, scales=scales)

    def stepped(self) -> None:
        """The optimiser moved the masters: the next forward quantises again."""
        self.step += 1
        self._values.clear()

    def state_of(self, name: str) -> dict[str, Tensor]:
        """This weight's state by kind."""
        return {kind: self.state[kind][name] for kind in STATE if name in self.state[kind]}

    def restore(self, step: int, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Put back `step`, and by weight name what `state_of` gave."""
        self.step = step
        self.state = {kind: {name: own[kind] for name, own in state.items() if kind in own} for kind in STATE}
        self._averaged_at = dict.fromkeys(self.state["average"], step)
        self._values.clear()
        self._last.clear()
        self._first_scales.clear()

    @torch.no_grad()
    def counts(self, name: str, weight: Tensor) -> dict[str, float]:
        """Sums for the metrics (`COUNTS`).

        Flips are against the last call, the drift of scales (in powers of two) against the first call; both are zero
        in the first call, so also after a resume.
        """
        packed = self.packed(name, weight)
        last, first = self._last.get(name, packed), self._first_scales.setdefault(name, packed.scales)
        self._last[name] = packed
        before, now = mxfp4.dequantise(last), mxfp4.dequantise(packed)
        exact = weight.to(torch.bfloat16).float()
        largest = 6.0 * torch.exp2(packed.scales.float() - 127).repeat_interleave(mxfp4.BLOCK, dim=-1)
        return {
            "weights": float(weight.numel()),
            "flipped": float((before != now).sum()),
            "clipped": float((exact.abs() > largest).sum()),
            "zeroed": float(((now == 0) & (exact != 0)).sum()),
            "blocks": float(packed.scales.numel()),
            "scale_drift": float((packed.scales.float() - first.float()).abs().sum()),
        }

    def _frozen(self, name: str, weight: Tensor) -> Tensor:
        frozen = self.state["scales"]
        if name not in frozen:
            source = self.state["source_scales"].get(name)
            rule = mxfp4.quantise(weight, name, rule=self.options.rule).scales
            frozen[name] = rule if source is None else mxfp4.kept_scales(weight, source, name, rule=self.options.rule)
        return frozen[name]

    def _average(self, name: str, weight: Tensor) -> Tensor:
        """The running mean of a weight, brought up to this step once."""
        averages, decay = self.state["average"], self.options.average
        if name not in averages:
            averages[name] = weight.float().clone()
        elif self._averaged_at[name] < self.step:
            averages[name].lerp_(weight.float(), 1 - decay)
        self._averaged_at[name] = self.step
        return averages[name]


def nearest_to_average(weight: Tensor, average: Tensor, scales: Tensor) -> Tensor:
    """Of the two MXFP4 values around each weight [..., in] the one nearer to `average`, under `scales` [..., in/32]."""
    grid = torch.tensor([*(-value for value in mxfp4.E2M1[:0:-1]), *mxfp4.E2M1], device=weight.device)
    unit = torch.exp2(scales.float() - 127).repeat_interleave(mxfp4.BLOCK, dim=-1)
    scaled = (weight.to(torch.bfloat16).float() / unit).clamp_(-6.0, 6.0)
    upper = torch.bucketize(scaled, grid)  # grid[upper - 1] < scaled <= grid[upper]
    high = grid[upper]
    low = torch.where(high == scaled, high, grid[(upper - 1).clamp_(min=0)])
    values = mxfp4.fake_quantise((average / unit).clamp(low, high) * unit, scales=scales)
    # Zeros keep the weight's sign, as they do without a mean: a checkpoint's own bytes come back.
    return torch.where(values == 0, torch.copysign(values, weight.float()), values)
