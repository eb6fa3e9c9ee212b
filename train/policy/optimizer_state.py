"""Masters and Adam moments of every parameter by name, out of DeepSpeed and back, exact to the bit.

In: a DeepSpeed engine (ZeRO 1, 2 or 3, AutoEP).  Out: whole tensors by trainer name, experts gathered over the
expert-parallel group, so that a checkpoint knows expert e as expert e at any parallel size.  Called by
`train.policy.policy` on every rank at once (all functions here are collectives).

DeepSpeed's own checkpoints are not used: they unpickle, and loading under another expert-parallel size is silently
wrong (measured with 0.19.8).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from deepspeed.utils import (
    groups,
    safe_get_full_fp32_param,
    safe_get_full_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_optimizer_state,
)
from torch import Tensor

from train.weights.formats import is_expert

MOMENTS = ("exp_avg", "exp_avg_sq")
_FLAT_ATTRIBUTES = ("single_partition_of_fp32_groups", "fp32_groups_flat_partition", "fp32_partitioned_groups_flat")


def expert_group() -> Any:
    """The expert-parallel process group (AutoEP makes exactly one)."""
    made = groups._get_expert_parallel_group_dict()
    assert len(made) == 1, f"expected one expert-parallel group, DeepSpeed made {sorted(made)}"
    return next(iter(made.values()))


def read_state(engine: Any) -> tuple[dict[str, Tensor], int]:
    """All masters and moments as `<name>` / `<name>.exp_avg` / `<name>.exp_avg_sq`, and Adam's step count.

    Every rank gets everything.  Before the first optimiser step the moments are zero.
    """
    steps = {int(state["step"]) for state in engine.optimizer.optimizer.state.values() if "step" in state}
    assert len(steps) <= 1, f"parameter groups disagree on Adam's step: {steps}"
    step = steps.pop() if steps else 0
    _link_moments(engine)
    out: dict[str, Tensor] = {}
    for name, parameter in engine.module.named_parameters():
        out[name] = _whole(name, parameter, safe_get_full_fp32_param(parameter))
        for moment in MOMENTS:
            value = safe_get_full_optimizer_state(parameter, moment) if step else None
            out[f"{name}.{moment}"] = torch.zeros_like(out[name]) if value is None else _whole(name, parameter, value)
    out |= {name: buffer.detach().float().clone() for name, buffer in kept_buffers(engine.module).items()}
    return out, step


def kept_buffers(module: Any) -> dict[str, Tensor]:
    """Buffers that are part of a model's checkpoint, by name: the same on every rank, and never trained."""
    stored = module.state_dict(keep_vars=True).keys()
    return {name: buffer for name, buffer in module.named_buffers() if name in stored}


def write_state(engine: Any, tensors: dict[str, Tensor], step: int) -> None:
    """Put masters, moments and step back.

    Raises ValueError, before anything is written, where the tensors are those of another model.
    """
    optimizer = engine.optimizer
    _check_model(engine, tensors)
    for flat in _flat_masters(optimizer):
        optimizer.optimizer.state[flat] = {
            "step": torch.tensor(float(step)),
            "exp_avg": torch.zeros_like(flat),
            "exp_avg_sq": torch.zeros_like(flat),
        }
    _link_moments(engine)
    with torch.no_grad():
        for name, parameter in engine.module.named_parameters():
            master = _local(name, tensors[name])
            safe_set_full_fp32_param(parameter, master)
            for moment in MOMENTS:
                safe_set_full_optimizer_state(parameter, _local(name, tensors[f"{name}.{moment}"]), moment)
            if not hasattr(parameter, "ds_id"):
                # DeepSpeed's setters leave the working weights as they were (silently 4e-3 off).
                parameter.data.copy_(master)
        for name, buffer in kept_buffers(engine.module).items():
            buffer.copy_(tensors[name])
        _copy_masters_to_stage3_weights(optimizer)


def _check_model(engine: Any, tensors: dict[str, Tensor]) -> None:
    """Every parameter and moment, and nothing else, in the right shape."""
    wanted: dict[str, tuple[int, ...]] = {}
    for name, parameter in engine.module.named_parameters():
        shape = list(getattr(parameter, "ds_shape", parameter.shape))
        if is_expert(name):
            shape[0] *= dist.get_world_size(expert_group())
        wanted |= dict.fromkeys((name, *(f"{name}.{moment}" for moment in MOMENTS)), tuple(shape))
    wanted |= {name: tuple(buffer.shape) for name, buffer in kept_buffers(engine.module).items()}
    missing, foreign = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or foreign:
        raise ValueError(
            f"the checkpoint is of another model: {len(missing)} tensors are missing {missing[:3]}, {len(foreign)} are "
            f"unknown {foreign[:3]}"
        )
    for name, expected in wanted.items():
        if tuple(tensors[name].shape) != expected:
            raise ValueError(
                f"the checkpoint is of another model: {name} is {list(tensors[name].shape)}, here {list(expected)}"
            )


def _flat_masters(optimizer: Any) -> list[Tensor]:
    for attribute in _FLAT_ATTRIBUTES:
        if hasattr(optimizer, attribute):
            return list(getattr(optimizer, attribute))
    raise AssertionError(f"unknown DeepSpeed optimizer {type(optimizer).__name__}")


def _link_moments(engine: Any) -> None:
    """ZeRO 1 and 2 link only the first group's moments by themselves, experts are in another; stage 3 needs nothing."""
    optimizer = engine.optimizer
    if hasattr(optimizer, "_hp_optimizer_states_linked") and optimizer.optimizer.state:
        optimizer._hp_optimizer_states_linked = False
        optimizer._lazy_init_hp_params_optimizer_state()


def _whole(name: str, parameter: Any, value: Tensor) -> Tensor:
    value = value.detach().float().clone().contiguous()
    if hasattr(parameter, "ds_shape"):
        value = value.view(parameter.ds_shape)
    return whole_experts(value) if is_expert(name) else value


def whole_experts(value: Tensor) -> Tensor:
    """All experts out of this rank's own (first dimension), the same on every rank."""
    group = expert_group()
    value = value.contiguous()
    parts = [torch.empty_like(value) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, value, group=group)
    return torch.cat(parts)


def local_experts(value: Tensor) -> Tensor:
    """Inverse of `whole_experts`."""
    group = expert_group()
    return value.chunk(dist.get_world_size(group))[dist.get_rank(group)].contiguous()


def _local(name: str, value: Tensor) -> Tensor:
    return local_experts(value) if is_expert(name) else value


def _copy_masters_to_stage3_weights(optimizer: Any) -> None:
    if not hasattr(optimizer, "fp16_partitioned_groups_flat"):
        return
    flats = zip(optimizer.fp16_partitioned_groups_flat, optimizer.fp32_partitioned_groups_flat, strict=True)
    for index, (working, master) in enumerate(flats):
        if master.numel():
            working.data.copy_(master.data)
        parts = optimizer.unflatten(working, optimizer.fp16_partitioned_groups[index])
        for parameter, part in zip(optimizer.fp16_partitioned_groups[index], parts, strict=True):
            parameter.data = part.data
    # Gathered copies are of the old weights, and an all-gather leaves what is gathered as it is.
    optimizer._partition_all_parameters()
    if optimizer.persistent_parameters:
        optimizer.persistent_parameters[0].all_gather(optimizer.persistent_parameters)
