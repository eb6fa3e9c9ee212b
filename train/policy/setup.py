"""Building one rank of the policy: its settings, DeepSpeed's configuration, and what proves the conversion right.

In: `PolicySettings`.  Out: DeepSpeed's config, and probes of a model before and after AutoEP took it apart.  Used by
`train.policy.policy`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.policy.qat import QatOptions

CONVERSION_TOLERANCE = 1e-3  # nats; measured differences are below 1e-5 in fp32
PROBE_LENGTHS = (24, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """What one rank needs to build its part of the policy; from `model`, `quant` and `cluster.trainer` in the config.

    `init_file` is the rendezvous (a file store: no socket is opened by it); it must not exist beforehand.
    `quant_report_every`: optimiser steps between two counts of what quantisation does (0: never).  `source_scales`: the
    file of scales by serving name of an MXFP4 checkpoint that `model_dir` was decoded from, or nothing.
    `routes`: "replay" the engine's, "observe" how they differ from the trainer's own, or "none".
    """

    model_dir: str
    dtype: str
    device: str
    zero_stage: int
    expert_parallel: int
    autoep_preset: str
    quantise: bool
    temperature: float
    activation_checkpointing: bool
    logit_chunk_tokens: int
    gradient_clip: float
    betas: tuple[float, float]
    weight_decay: float
    init_file: str
    num_threads: int
    routes: str = "none"
    qat: QatOptions = field(default_factory=QatOptions)
    quant_report_every: int = 0
    source_scales: str = ""


def prepare_process(settings: PolicySettings, rank: int, world: int) -> None:
    torch.set_num_threads(settings.num_threads)
    if settings.device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
        # DeepSpeed would compile an operator for tensor-parallel inference here, which needs a compiler and leaves a
        # 66 MiB file in shared memory; training never calls it.
        import deepspeed.ops

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_SIZE": str(world)}
    Path(settings.init_file).parent.mkdir(parents=True, exist_ok=True)


def deepspeed_config(settings: PolicySettings, world: int) -> dict[str, Any]:
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {"stage": settings.zero_stage},
        "gradient_clipping": settings.gradient_clip,
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
        "expert_parallel": {
            "enabled": True,
            "autoep_size": settings.expert_parallel,
            "preset_model": settings.autoep_preset,
            "use_grouped_mm": settings.device != "cpu",
            "disable_triton_grouped_mm": settings.device == "cpu",
        },
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": 0.0,
                "betas": list(settings.betas),
                "weight_decay": settings.weight_decay,
                "torch_adam": True,
            },
        },
    }
    if settings.dtype == "bfloat16":
        config |= {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}
    return config


@torch.no_grad()
def leaks(model: Any, probe: dict[str, Tensor], packed: Tensor) -> bool:
    """Whether the second sequence of `probe_batch` sees the first: `packed` are the log-probs of both.

    Layers that carry a state along the row (gated delta rule, state spaces, convolutions) do on their CPU paths, which
    know of no boundaries.
    """
    first = PROBE_LENGTHS[0]
    predicts = probe["predict_index"] >= first
    alone, _ = model(
        input_ids=probe["input_ids"][:, first:],
        position_ids=probe["position_ids"][:, first:],
        boundaries=torch.tensor([0, PROBE_LENGTHS[1]], dtype=torch.int32),
        predict_index=probe["predict_index"][predicts] - first,
        target_ids=probe["target_ids"][predicts],
    )
    return not float((alone - packed[predicts]).abs().max()) <= CONVERSION_TOLERANCE


def probe_batch(vocab_size: int) -> dict[str, Tensor]:
    """Two packed sequences of fixed ids: enough to see a wrong expert, a wrong router and a leak between sequences."""
    generator = torch.Generator().manual_seed(0)
    lengths = PROBE_LENGTHS
    ids = torch.randint(0, vocab_size, (1, sum(lengths)), generator=generator)
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    boundaries = torch.tensor([0, lengths[0], sum(lengths)], dtype=torch.int32)
    predict = torch.cat([torch.arange(0, lengths[0] - 1), torch.arange(lengths[0], sum(lengths) - 1)])
    return {
        "input_ids": ids,
        "position_ids": positions,
        "boundaries": boundaries,
        "predict_index": predict,
        "target_ids": ids[0, predict + 1],
    }
