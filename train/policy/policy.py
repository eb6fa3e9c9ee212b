"""The trained policy on one rank: DeepSpeed with AutoEP, MXFP4 experts.

In: this rank's micro-batches.  Out: sums of metrics, this rank's share of the weights to publish, or the whole state
by name.  Every public method is a collective: call it on all ranks.  Wrapped into Ray actors by
`train.policy.workers`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from train.policy.losses import LOSSES, LossOptions, mismatch_statistics
from train.policy.packing import MicroBatch
from train.policy.qat import COUNTS, STATE, QatOptions
from train.weights import formats

CONVERSION_TOLERANCE = 1e-3  # nats; measured differences are below 1e-5 in fp32
PROBE_LENGTHS = (24, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """What one rank needs to build its part of the policy; from `model`, `quant` and `cluster.trainer` in the config.

    `init_file` is the rendezvous (a file store: no socket is opened by it); it must not exist beforehand.
    `quant_report_every`: optimiser steps between two counts of what quantisation does (0: never).  `source_scales`: the
    file of scales by serving name of an MXFP4 checkpoint that `model_dir` was decoded from, or nothing.
    """

    model_dir: str
    dtype: str
    device: str
    zero_stage: int
    expert_parallel: int
    autoep_preset: str
    quantise: bool
    rule: str
    temperature: float
    activation_checkpointing: bool
    logit_chunk_tokens: int
    gradient_clip: float
    betas: tuple[float, float]
    weight_decay: float
    init_file: str
    num_threads: int
    qat: QatOptions = field(default_factory=QatOptions)
    quant_report_every: int = 0
    source_scales: str = ""


class Policy:
    """One rank of the policy.  See the module docstring; `rank` and `world` count trainer ranks."""

    def __init__(self, settings: PolicySettings, rank: int, world: int):
        self.settings, self.rank, self.world = settings, rank, world
        _prepare_process(settings, rank, world)
        import deepspeed
        from transformers import AutoModelForCausalLM

        from train.policy import attention
        from train.policy.model import ExpertQuantiser, attach_logprob_forward

        backend = "gloo" if settings.device == "cpu" else "nccl"
        deepspeed.init_distributed(
            backend,
            auto_mpi_discovery=False,
            init_method=f"file://{settings.init_file}",
            rank=rank,
            world_size=world,
            verbose=False,
        )
        model = AutoModelForCausalLM.from_pretrained(
            settings.model_dir, dtype=torch.float32, attn_implementation=attention.register()
        )
        model.config.use_cache = False
        if settings.activation_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        attach_logprob_forward(model, chunk_tokens=settings.logit_chunk_tokens, temperature=settings.temperature)
        probe = probe_batch(model.config.vocab_size)
        with torch.no_grad():
            reference = model(**probe)[0]
        self.can_pack = not leaks(model, probe, reference)
        self.num_experts = int(getattr(model.config, "num_experts", 0) or getattr(model.config, "num_local_experts", 0))
        self.engine, *_ = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=_deepspeed_config(settings, world)
        )
        self.quantiser = ExpertQuantiser(self.engine.module, settings.qat, enabled=False)
        self._check_conversion(probe, reference)
        self.quantiser.enabled = settings.quantise
        if settings.source_scales:
            self._read_source_scales(Path(settings.source_scales))

    def train_step(
        self,
        parts: Sequence[Sequence[MicroBatch]],
        loss: str,
        options: LossOptions,
        learning_rate: float,
        version: int,
    ) -> dict[str, float]:
        """One optimiser step on each part of the batch, in order; the weights of each part normalise that part.

        Returns sums over all parts and ranks, the mean `loss` of the parts, the largest `gradient_norm`, and
        `mismatch_max`.  `version` is that of the weights before the first step: engine and trainer are compared on
        tokens sampled under it.

        Raises FloatingPointError on every rank where a loss or a gradient is not finite.  At the loss of the first
        part no weight has changed; after anything else the state must not be saved.
        """
        if LOSSES[loss].needs_proximal or len(parts) > 1:
            batches = [batch for part in parts for batch in part]
            for batch, values in zip(batches, self.logprobs(batches), strict=True):
                batch.proximal_logprobs = values
        sums: dict[str, float] = {}
        norms, maxima = [], []
        for number, part in enumerate(parts):
            totals, maximum = self._accumulate(part, loss, options, version)
            if not math.isfinite(totals["loss"]):
                changed = f"resume: {number} updates of this batch were made" if number else "no weight was changed"
                raise FloatingPointError(f"the {loss} loss is {totals['loss']} at this step; {changed}")
            norms.append(self._update(learning_rate))
            maxima.append(maximum)
            sums = {key: sums.get(key, 0.0) + value for key, value in totals.items()}
        sums["loss"] /= len(parts)
        every = self.settings.quant_report_every
        counts = self._quantiser_counts() if every and self.quantiser.step % every == 0 else {}
        once = {"gradient_norm": max(norms), "mismatch_max": max(maxima), "updates": float(len(parts))}
        return sums | once | counts

    def _accumulate(
        self, batches: Sequence[MicroBatch], loss: str, options: LossOptions, version: int
    ) -> tuple[dict[str, float], float]:
        """Forward and backward over one part; sums over ranks, and the largest mismatch of a token."""
        self.engine.train()
        sums: dict[str, Tensor] = {}
        maximum = 0.0
        for number, batch in enumerate(batches):
            self.engine.set_gradient_accumulation_boundary(number == len(batches) - 1)
            logprobs, entropies = self._forward(batch)
            result = LOSSES[loss].function(logprobs, batch, options)
            # DeepSpeed averages over data-parallel ranks; weights already normalise over the whole part.
            self.engine.backward(result.loss * self.world, scale_wrt_gas=False)
            mismatch = _mismatch(logprobs, batch, version)
            maximum = max(maximum, float(mismatch.pop("mismatch_max")))
            extra = {"loss": result.loss.detach(), "entropy_sum": _real(batch, entropies).sum()}
            _add(sums, result.metrics | mismatch | extra)
        return self._reduce(sums), self._maximum(maximum)

    def _update(self, learning_rate: float) -> float:
        """Adam's step on what was accumulated; the gradient norm before the clip."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = learning_rate
        self.engine.step()
        self.quantiser.stepped()
        norm = float(self.engine.get_global_grad_norm() or 0.0)
        if not math.isfinite(norm):
            raise FloatingPointError(f"the gradient norm is {norm}; resume from the last checkpoint")
        return norm

    @torch.no_grad()
    def logprobs(self, batches: Sequence[MicroBatch]) -> list[Tensor]:
        """Log-probs of each micro-batch's targets under the current weights (fp32, nats)."""
        self.engine.eval()
        return [self._forward(batch)[0].cpu() for batch in batches]

    def shard(self, format: str) -> dict[str, Tensor]:
        """This rank's share of the policy in serving format: its own experts, and from rank 0 all the rest."""
        from train.policy.optimizer_state import expert_group

        group = expert_group()
        ep_rank, ep_size = dist.get_rank(group), dist.get_world_size(group)
        first = ep_rank * (self.num_experts // ep_size)
        # With more data-parallel ranks than expert-parallel ones only the first holder of an expert sends it.
        owns_experts = self.rank < ep_size
        out: dict[str, Tensor] = {}
        for name, parameter in self.engine.module.named_parameters():
            with _gathered(parameter):
                values = parameter.detach()
                if formats.is_expert(name):
                    if owns_experts:
                        out |= formats.serve_experts(name, values, first, format, self.quantiser)
                elif self.rank == 0:
                    out[formats.dense_name(name)] = values.to(torch.bfloat16).clone()
        return {name: tensor.cpu().contiguous() for name, tensor in out.items()}

    def parameter_names(self) -> dict[str, int]:
        """Trainer names, each with its number of experts over all ranks (0: no routed expert)."""
        return {
            name: self.num_experts if formats.is_expert(name) else 0
            for name, _ in self.engine.module.named_parameters()
        }

    def read_state(self) -> tuple[dict[str, Tensor], int]:
        """Masters, moments and Adam's step by name (whole; the same on every rank)."""
        from train.policy import optimizer_state

        tensors, step = optimizer_state.read_state(self.engine)
        for name, parameter in self._expert_parameters():
            with _gathered(parameter):
                self.quantiser.served(name, parameter.detach())  # brings a running mean up to this step
            for kind, own in self.quantiser.state_of(name).items():
                tensors[f"{name}.{kind}"] = optimizer_state.whole_experts(own)
        return tensors, step

    def write_state(self, tensors: dict[str, Tensor], step: int) -> None:
        """Inverse of `read_state`, at any expert-parallel size and ZeRO stage."""
        from train.policy import optimizer_state

        own, rest = formats.split_quantiser_state(tensors, STATE)
        optimizer_state.write_state(self.engine, rest, step)
        local = {
            name: {kind: optimizer_state.local_experts(value) for kind, value in kinds.items()}
            for name, kinds in own.items()
        }
        self.quantiser.restore(step, local)

    def _expert_parameters(self) -> list[tuple[str, Any]]:
        return [item for item in self.engine.module.named_parameters() if formats.is_expert(item[0])]

    def _quantiser_counts(self) -> dict[str, float]:
        """`quant/<count>/<layer>`, summed over ranks."""
        sums: dict[str, Tensor] = {}
        for name, parameter in self._expert_parameters():
            with _gathered(parameter):
                found = self.quantiser.counts(name, parameter.detach())
            layer = name.rpartition(".")[0]
            _add(sums, {f"quant/{count}/{layer}": torch.tensor(found[count], dtype=torch.float64) for count in COUNTS})
        return self._reduce(sums)

    def _read_source_scales(self, path: Path) -> None:
        """This rank's share of the scales of the MXFP4 checkpoint that the run starts from."""
        from train.policy import optimizer_state

        stored = formats.stack_scales(path, [name for name, _ in self._expert_parameters()], self.num_experts)
        own = {name: {"source_scales": optimizer_state.local_experts(scales)} for name, scales in stored.items()}
        self.quantiser.restore(0, own)

    def _forward(self, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        device = self.settings.device
        return self.engine(
            input_ids=batch.input_ids.to(device),
            position_ids=batch.position_ids.to(device),
            boundaries=batch.boundaries,
            predict_index=batch.predict_index.to(device),
            target_ids=batch.target_ids.to(device),
        )

    def _reduce(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Sum over ranks, in one collective; keys are the same on every rank."""
        keys = sorted(sums)
        vector = torch.stack([sums[key].detach().double().cpu() for key in keys])
        vector = vector.to(self.settings.device)
        dist.all_reduce(vector)
        return dict(zip(keys, vector.tolist(), strict=True))

    def _maximum(self, value: float) -> float:
        vector = torch.tensor([value], dtype=torch.float64, device=self.settings.device)
        dist.all_reduce(vector, op=dist.ReduceOp.MAX)
        return float(vector)

    def _check_conversion(self, probe: dict[str, Tensor], reference: Tensor) -> None:
        """AutoEP must compute what transformers computed before it took the model apart."""
        self.engine.eval()
        with torch.no_grad():
            converted = self.engine(**probe)[0]
        gap = float((converted - reference.to(converted.device)).abs().max())
        if not gap <= CONVERSION_TOLERANCE:
            raise ValueError(
                f"expert-parallel conversion changes the model: log-probs differ by up to {gap:.3g} nats from "
                f"transformers' own (preset {self.settings.autoep_preset!r}). Give the preset of this architecture "
                "in model.autoep_preset"
            )


def _prepare_process(settings: PolicySettings, rank: int, world: int) -> None:
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


def _deepspeed_config(settings: PolicySettings, world: int) -> dict[str, Any]:
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


def _gathered(parameter: Any) -> Any:
    """The whole parameter in ZeRO 3; nothing to do otherwise."""
    import contextlib

    import deepspeed

    if hasattr(parameter, "ds_id"):
        return deepspeed.zero.GatheredParameters([parameter])
    return contextlib.nullcontext()


def _mismatch(logprobs: Tensor, batch: MicroBatch, version: int) -> dict[str, Tensor]:
    """Of the weights before the first update, which is what the proximal log-probs are of."""
    if batch.proximal_logprobs is not None:
        logprobs = batch.proximal_logprobs.to(logprobs.device)
    own = batch.versions.to(logprobs.device) == version
    found = mismatch_statistics(logprobs.detach(), batch.behaviour_logprobs.to(logprobs.device), own)
    return {f"mismatch_{name}": value for name, value in found.items()}


def _add(sums: dict[str, Tensor], more: dict[str, Tensor]) -> None:
    for key, value in more.items():
        sums[key] = sums[key] + value.detach() if key in sums else value.detach()


def _real(batch: MicroBatch, values: Tensor) -> Tensor:
    """Zero where a target carries no weight (the dummy of a rank that got less work)."""
    return values * (batch.weights.to(values.device) != 0)
