"""The trained policy on one rank: DeepSpeed with AutoEP, MXFP4 experts.

In: this rank's micro-batches.  Out: sums of metrics, this rank's share of the weights to publish, or the whole state
by name.  Every public method is a collective: call it on all ranks.  Wrapped into Ray actors by
`train.policy.workers`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from train.policy.losses import LOSSES, LossOptions, mismatch_statistics
from train.policy.packing import MicroBatch
from train.policy.qat import COUNTS, STATE
from train.policy.setup import (
    CONVERSION_TOLERANCE,
    PolicySettings,
    deepspeed_config,
    leaks,
    prepare_process,
    probe_batch,
)
from train.weights import formats


class Policy:
    """One rank of the policy.  See the module docstring; `rank` and `world` count trainer ranks."""

    def __init__(self, settings: PolicySettings, rank: int, world: int):
        self.settings, self.rank, self.world = settings, rank, world
        prepare_process(settings, rank, world)
        import deepspeed
        from transformers import AutoModelForCausalLM

        from train.policy import attention
        from train.policy.model import ExpertQuantiser, attach_logprob_forward
        from train.policy.routes import RouteReplay

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
            model=model, model_parameters=model.parameters(), config=deepspeed_config(settings, world)
        )
        self.quantiser = ExpertQuantiser(self.engine.module, settings.qat, enabled=False)
        self.replay = RouteReplay(self.engine.module)
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
        num_domains: int,
        load_balance: float = 0.0,
    ) -> dict[str, float]:
        """One optimiser step on each part of the batch, in order; the weights of each part normalise that part.

        `load_balance`: factor of the load-balance loss, which needs the routes of every sample.

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
        load = torch.zeros(num_domains, len(self.replay.shape.layers), self.num_experts, dtype=torch.int64)
        for number, part in enumerate(parts):
            totals, maximum = self._accumulate(part, loss, options, version, load, load_balance)
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
        return sums | once | counts | self._load_metrics(load)

    def _accumulate(
        self,
        batches: Sequence[MicroBatch],
        loss: str,
        options: LossOptions,
        version: int,
        load: Tensor,
        load_balance: float,
    ) -> tuple[dict[str, float], float]:
        """Forward and backward over one part; sums over ranks, and the largest mismatch of a token.

        Adds the tokens of each domain, layer and expert to `load`.
        """
        from train.policy.routes import balance_loss, count_load, num_different

        self.engine.train()
        fractions, num_tokens = self._choices(batches) if load_balance else (None, 0.0)
        sums: dict[str, Tensor] = {}
        maximum = 0.0
        for number, batch in enumerate(batches):
            self.engine.set_gradient_accumulation_boundary(number == len(batches) - 1)
            with self._replaying(batch, keep_scores=fractions is not None):
                logprobs, entropies = self._forward(batch)
                seen = self.replay.observed()
                result = LOSSES[loss].function(logprobs, batch, options)
                total = result.loss
                if fractions is not None:
                    own = [scores * _real(batch, torch.ones_like(entropies))[:, None] for scores in seen.scores]
                    balance = balance_loss(own, fractions, num_tokens)
                    total = total + load_balance * balance
                    _add(sums, {"balance_loss": balance})
                # DeepSpeed averages over data-parallel ranks; weights already normalise over the whole part.
                self.engine.backward(total * self.world, scale_wrt_gas=False)
            mismatch = _mismatch(logprobs, batch, version)
            maximum = max(maximum, float(mismatch.pop("mismatch_max")))
            extra = {"loss": total.detach(), "entropy_sum": _real(batch, entropies).sum()}
            real = batch.weights != 0
            used, chosen = seen.used[real.to(seen.used.device)], seen.own[real.to(seen.own.device)]
            load += count_load(used, batch.domain_ids[real], len(load), self.num_experts).cpu()
            # What is summed over ranks has the same keys everywhere, also where a rank has no routes to compare with.
            given = used if batch.routes is None else batch.routes[batch.predict_index][real].to(used)
            compared = 0 if batch.routes is None else used.shape[0] * used.shape[1]
            extra["routes_given"] = torch.tensor(float(compared))
            extra["routes_differ"] = num_different(used, given)
            extra["routes_own_differ"] = num_different(chosen, given) * bool(compared)
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
        out = []
        for batch in batches:
            with self._replaying(batch):
                out.append(self._forward(batch)[0].cpu())
        return out

    def shard(self, format: str, names: Collection[str] | None = None) -> dict[str, Tensor]:
        """This rank's share of these parameters (default: all) in serving format: its own experts, and from rank 0
        all the rest."""
        from train.policy.optimizer_state import expert_group

        group = expert_group()
        ep_rank, ep_size = dist.get_rank(group), dist.get_world_size(group)
        first = ep_rank * (self.num_experts // ep_size)
        # With more data-parallel ranks than expert-parallel ones only the first holder of an expert sends it.
        owns_experts = self.rank < ep_size
        out: dict[str, Tensor] = {}
        for name, parameter in self._published:
            if names is not None and name not in names:
                continue
            with _gathered(parameter):
                values = parameter.detach()
                if formats.is_expert(name):
                    if owns_experts:
                        out |= formats.serve_experts(name, values, first, format, self.quantiser)
                elif self.rank == 0:
                    out[formats.dense_name(name)] = formats.serve_dense(name, values).clone()
        return {name: tensor.cpu().contiguous() for name, tensor in out.items()}

    def whole_tensors(self, format: str) -> Iterator[tuple[str, Tensor]]:
        """Every tensor of the policy in serving format, on the device, the same on every rank (a collective)."""
        from train.policy.optimizer_state import expert_group, whole_experts

        group = expert_group()
        for name, parameter in self._published:
            with _gathered(parameter):
                values = parameter.detach()
                if not formats.is_expert(name):
                    yield formats.dense_name(name), formats.serve_dense(name, values).clone()
                    continue
                own = formats.serve_experts(name, values, 0, format, self.quantiser)
            count = self.num_experts // dist.get_world_size(group)
            stacks = {
                suffix: whole_experts(
                    torch.stack([own[formats.expert_name(name, expert) + suffix] for expert in range(count)])
                )
                for suffix in ("", formats.SCALE_SUFFIX)[: 2 if format == "mxfp4" else 1]
            }
            for expert in range(self.num_experts):
                for suffix, stack in stacks.items():
                    yield formats.expert_name(name, expert) + suffix, stack[expert]

    def parameter_names(self) -> dict[str, int]:
        """Trainer names, each with its number of experts over all ranks (0: no routed expert)."""
        return {name: self.num_experts if formats.is_expert(name) else 0 for name, _ in self._published}

    @functools.cached_property
    def _published(self) -> list[tuple[str, Tensor]]:
        """Parameters, and the buffers that belong to a checkpoint (a router's bias), in the order of the model.

        Tied weights are one parameter, under its first name.
        """
        from train.policy import optimizer_state

        return [*self.engine.module.named_parameters(), *optimizer_state.kept_buffers(self.engine.module).items()]

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

    def _replaying(self, batch: MicroBatch, *, keep_scores: bool = False) -> Any:
        routes = batch.routes if self.settings.routes == "replay" else None
        return self.replay.of(routes, batch.predict_index, keep_scores=keep_scores)

    def _choices(self, batches: Sequence[MicroBatch]) -> tuple[Tensor, float]:
        """Of a part over all ranks, at the positions that predict: each expert's share by layer, and their number."""
        from train.policy.routes import count_load

        shape = self.replay.shape
        counts = torch.zeros(1, len(shape.layers), shape.num_experts, dtype=torch.int64)
        for batch in batches:
            real = batch.weights != 0
            if batch.routes is not None:
                used = batch.routes[batch.predict_index][real].long()
                counts += count_load(used, torch.zeros(len(used), dtype=torch.int64), 1, shape.num_experts)
        counts = counts.to(self.settings.device)
        dist.all_reduce(counts)
        fractions = counts[0].double() / counts[0].sum(-1, keepdim=True)
        return fractions.float(), float(counts[0, 0].sum()) / shape.top_k

    def _load_metrics(self, load: Tensor) -> dict[str, float]:
        from train.policy.routes import load_metrics

        whole = load.to(self.settings.device)
        dist.all_reduce(whole)
        return load_metrics(whole.cpu(), self.replay.shape.layers)

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
