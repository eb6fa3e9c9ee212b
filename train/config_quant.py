"""The config of quantisation: a part of the tree in `train.config`, checked in the same way."""

from __future__ import annotations

from dataclasses import dataclass

from train.config_checks import not_negative, one_of, unread

SERVE_FORMATS = ("auto", "mxfp4", "bf16")
SCALE_RULES = ("even", "floor", "rceil")


@dataclass(kw_only=True, slots=True)
class QuantConfig:
    """What becomes of routed experts.

    `experts`: mxfp4 or none.  `trainer`: whether the trainer computes on the quantised values (off only as a negative
    control).  `serve`: the engine's format; `auto` is mxfp4 where a kernel exists, else the same values in bf16.
    `rule`, `start_step`, `freeze_scales`, `average`: see `train.policy.qat.QatOptions`.  `report_every`: optimiser
    steps between two rows of flips, clipped and zeroed shares and drift of scales by layer (0: never).
    """

    experts: str
    trainer: bool
    serve: str
    rule: str
    start_step: int
    freeze_scales: bool
    average: float
    report_every: int

    def __post_init__(self) -> None:
        one_of("quant.experts", self.experts, ("mxfp4", "none"))
        if self.experts == "none":
            if self.rule:
                raise ValueError(f"quant.rule={self.rule} is not read with quant.experts=none; write quant=none")
            options = ("start_step", "freeze_scales", "average", "report_every")
            unread("quant.experts=none", "quant", self, *options)
        else:
            one_of("quant.rule", self.rule, SCALE_RULES)
        not_negative("quant.", self, "start_step", "average", "report_every")
        if self.average >= 1:
            raise ValueError(f"quant.average={self.average} is the decay of a running mean: below 1, or 0 for none")
        if not self.trainer:
            unread("quant.trainer=False", "quant", self, "start_step", "average")
        one_of("quant.serve", self.serve, SERVE_FORMATS)
        if self.experts == "none" and self.serve == "mxfp4":
            raise ValueError("quant.serve=mxfp4 needs quant.experts=mxfp4")
        if self.experts == "none" and self.trainer:
            raise ValueError("quant.trainer=True is not read with quant.experts=none; write quant=none")
