"""Names, layouts and configs of the serving formats, and of AutoEP's trainer names.

In: a trainer's parameter (name, this rank's values).  Out: the tensors of the serving format, by the names that vLLM
and Hugging Face load.  Pure; used by `train.policy.policy` (shards), `train.weights.publish` and `train.export`.

    trainer (AutoEP)                         serving (mxfp4)                                       serving (bf16)
    …mlp.experts.w1 [E/ep, out, in]      →   …mlp.experts.{j}.gate_proj.weight        U8 [out, in/2]    BF16 [out, in]
                                             …mlp.experts.{j}.gate_proj.weight_scale  U8 [out, in/32]   –
    …mlp.router.gate.weight              →   …mlp.gate.weight                              BF16         BF16
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from train.policy import mxfp4
from train.policy.qat import QatOptions, QuantisedWeights

EXPERT_PROJECTIONS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
_LAYER = re.compile(r".*?\blayers\.\d+\.")
ROUTER_BIAS = ".e_score_correction_bias"
SCALE_SUFFIX = "_scale"
FORMATS = ("mxfp4", "bf16")
_EXPERT = re.compile(r"^(?P<layer>.*\.mlp)\.experts\.(?P<weight>w[123])$")
_RENAMES = (
    (".mlp.router.gate.", ".mlp.gate."),
    (".mlp.router.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"),
    (".mlp.shared_experts_gate.", ".mlp.shared_expert_gate."),
    (".mlp.shared_experts.", ".mlp.shared_expert."),
)


def is_expert(trainer_name: str) -> bool:
    """Whether a trainer parameter holds routed experts (sharded over the expert-parallel group, quantised)."""
    return _EXPERT.match(trainer_name) is not None


def dense_name(trainer_name: str) -> str:
    """The serving name of a parameter that is no routed expert."""
    for ours, theirs in _RENAMES:
        trainer_name = trainer_name.replace(ours, theirs)
    return trainer_name


def expert_name(trainer_name: str, expert: int) -> str:
    """The serving name of routed expert `expert` (global number) of a trainer parameter."""
    match = _EXPERT.match(trainer_name)
    assert match is not None, trainer_name
    return f"{match['layer']}.experts.{expert}.{EXPERT_PROJECTIONS[match['weight']]}.weight"


def serve_dense(trainer_name: str, master: Tensor) -> Tensor:
    """A weight that is not quantised: bf16, except for the bias by which routers choose, whose last bits decide."""
    return master.float() if trainer_name.endswith(ROUTER_BIAS) else master.to(torch.bfloat16)


def serve_experts(
    trainer_name: str, local: Tensor, first_expert: int, format: str, quantiser: QuantisedWeights | None = None
) -> dict[str, Tensor]:
    """This rank's experts [E/ep, out, in] in serving format; `mxfp4` bytes come from the one quantiser.

    quantiser: the rule and state that the trainer computes with (default: rule "even", no state).
    """
    if format == "bf16":
        return {
            expert_name(trainer_name, first_expert + offset): weight.to(torch.bfloat16)
            for offset, weight in enumerate(local)
        }
    quantiser = quantiser or QuantisedWeights(QatOptions())
    try:
        packed = quantiser.packed(trainer_name, local)  # all experts in one go
    except ValueError:
        for offset, weight in enumerate(local):  # raises for the one expert, by its name
            mxfp4.quantise(weight, expert_name(trainer_name, first_expert + offset), rule=quantiser.options.rule)
        raise
    out: dict[str, Tensor] = {}
    for offset, (codes, scales) in enumerate(zip(packed.codes, packed.scales, strict=True)):
        name = expert_name(trainer_name, first_expert + offset)
        out[name], out[name + SCALE_SUFFIX] = codes, scales
    return out


def serve_all(
    masters: Mapping[str, Tensor], format: str, quantiser: QuantisedWeights | None = None
) -> dict[str, Tensor]:
    """A whole policy in serving format from its masters by trainer name (as a checkpoint holds them)."""
    out: dict[str, Tensor] = {}
    for name, master in masters.items():
        if is_expert(name):
            out |= serve_experts(name, master, 0, format, quantiser)
        else:
            out[dense_name(name)] = serve_dense(name, master)
    return out


def decode(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The `bf16` form of `mxfp4` tensors: experts dequantised (exact in bf16), everything else as it is."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALE_SUFFIX):
            continue
        scales = tensors.get(name + SCALE_SUFFIX)
        out[name] = tensor if scales is None else mxfp4.dequantise(mxfp4.Packed(tensor, scales), torch.bfloat16)
    return out


def split_quantiser_state(
    tensors: Mapping[str, Tensor], kinds: Collection[str]
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
    """A checkpoint's `<expert>.<kind>` as name -> kind -> tensor, and everything else."""
    own: dict[str, dict[str, Tensor]] = {}
    rest: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        name, _, kind = key.rpartition(".")
        if kind in kinds and is_expert(name):
            own.setdefault(name, {})[kind] = tensor
        else:
            rest[key] = tensor
    return own, rest


def stack_scales(path: Path, trainer_names: Iterable[str], num_experts: int) -> dict[str, Tensor]:
    """Scales [experts, out, in/32] by trainer name, out of a file that holds them by serving name.

    Weights that the checkpoint held in bf16 are left out.  Raises ValueError where it quantised only some experts.
    """
    out: dict[str, Tensor] = {}
    with safe_open(path, "pt") as file:
        stored = set(file.keys())
        for name in trainer_names:
            wanted = [expert_name(name, expert) + SCALE_SUFFIX for expert in range(num_experts)]
            absent = [item for item in wanted if item not in stored]
            if len(absent) < len(wanted):
                if absent:
                    raise ValueError(f"{path} has scales for some experts of {name} and none for {absent[0]}")
                out[name] = torch.stack([file.get_tensor(item) for item in wanted])
    return out


def plan_chunks(trainer_names: Iterable[str], num_chunks: int) -> list[list[str]]:
    """Trainer parameters in the chunks that they are published in, in the order of the model.

    num_chunks: at most so many, of about as many parameters each; 0: one a layer, and one for what is in no layer.
    """
    names = list(trainer_names)
    if num_chunks:
        count = min(num_chunks, len(names))
        return [names[len(names) * part // count : len(names) * (part + 1) // count] for part in range(count)]
    found: dict[str, list[str]] = {}
    for name in names:
        layer = _LAYER.match(name)
        found.setdefault(layer[0] if layer else "", []).append(name)
    return list(found.values())


def expected_names(trainer_names: Mapping[str, int], format: str) -> set[str]:
    """Every serving name; `trainer_names` maps a trainer parameter to its number of experts (0: not an expert)."""
    names: set[str] = set()
    for trainer_name, num_experts in trainer_names.items():
        if not num_experts:
            names.add(dense_name(trainer_name))
        for expert in range(num_experts):
            name = expert_name(trainer_name, expert)
            names |= {name} if format == "bf16" else {name, name + SCALE_SUFFIX}
    return names


def serving_config(config: Mapping[str, Any], format: str) -> dict[str, Any]:
    """The model's `config.json` for a serving format."""
    out = dict(config) | {"dtype": "bfloat16"}
    out.pop("quantization_config", None)
    if format == "mxfp4":
        out["quantization_config"] = {"quant_method": "mxfp4"}
    return out
