"""The tiny model as each part of the stack holds it: masters by trainer name, serving tensors, transformers' own.

In: a seed.  Out: weights and the reference log-probs that engines and trainers are compared with.  For tests only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.compose import compose_run
from train.config import Config
from train.policy.tiny import build_model, write_tiny_model
from train.weights import formats
from train.weights.publish import Shard, make_shard

EOS = 2  # <|end|>
CHARACTERS = (14, 109)  # token ids of printable characters: first, one past the last


def tiny_config(*arguments: str) -> Config:
    """The defaults, as `python -m train` composes them."""
    return compose_run(arguments).config


def sizes(config: Config) -> dict[str, Any]:
    names = ("hidden_size", "expert_size", "num_layers", "num_experts", "experts_per_token", "context")
    return {name: getattr(config.model, name) for name in (*names, "initializer_range")}


def write_folder(directory: Path, seed: int = 0) -> Path:
    write_tiny_model(directory, seed=seed, **sizes(tiny_config()))
    return directory


def masters(seed: int) -> dict[str, Tensor]:
    """FP32 weights of the tiny model with that seed, by trainer name."""
    out: dict[str, Tensor] = {}
    for name, parameter in build_model(seed=seed, **sizes(tiny_config())).named_parameters():
        values = parameter.detach()
        if name.endswith(".experts.gate_up_proj"):
            out[name.replace("gate_up_proj", "w1")], out[name.replace("gate_up_proj", "w3")] = values.chunk(2, dim=1)
        elif name.endswith(".experts.down_proj"):
            out[name.replace("down_proj", "w2")] = values
        else:
            out[name.replace(".mlp.gate.", ".mlp.router.gate.")] = values
    return out


def shard_of(tensors: Mapping[str, Tensor], version: int) -> Shard:
    """The whole policy as one rank's shard."""
    return make_shard(tensors, version=version, rank=0, num_ranks=1, expected=set(tensors))


def transformers_model(served: Mapping[str, Tensor]) -> Any:
    """transformers' own model, fp32, on the values of serving tensors in bf16 form."""
    model = build_model(seed=0, **sizes(tiny_config()))
    num_experts = model.config.num_experts

    def experts(layer: str, projection: str) -> Tensor:
        return torch.stack([served[f"{layer}.{number}.{projection}.weight"] for number in range(num_experts)]).float()

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            layer, _, last = name.rpartition(".")
            if last == "gate_up_proj":
                parameter.copy_(torch.cat([experts(layer, "gate_proj"), experts(layer, "up_proj")], dim=1))
            elif last == "down_proj":
                parameter.copy_(experts(layer, "down_proj"))
            else:
                parameter.copy_(served[name])
    return model.eval()


def decoded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What an engine computes with when these masters are trained in MXFP4."""
    return formats.decode(formats.serve_all(weights, "mxfp4"))


def trained(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a trainer computes with: dequantised experts, everything else as the masters are, by serving name."""
    experts = {name: tensor for name, tensor in decoded(weights).items() if ".experts." in name}
    dense = {formats.dense_name(name): tensor for name, tensor in weights.items() if not formats.is_expert(name)}
    return experts | dense


@contextlib.contextmanager
def forced_experts(model: Any, ids: Tensor) -> Iterator[None]:
    """transformers' model goes through these experts [positions, layers, top_k], weighted by its own scores."""
    originals = [layer.mlp.gate.forward for layer in model.model.layers]

    def make_forward(gate: Any, chosen: Tensor) -> Any:
        def forward(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            logits = torch.nn.functional.linear(hidden.reshape(-1, gate.hidden_dim), gate.weight)
            picked = logits.softmax(-1).gather(1, chosen)
            return logits, picked / picked.sum(-1, keepdim=True), chosen

        return forward

    for row, layer in enumerate(model.model.layers):
        layer.mlp.gate.forward = make_forward(layer.mlp.gate, ids[:, row])
    try:
        yield
    finally:
        for layer, original in zip(model.model.layers, originals, strict=True):
            layer.mlp.gate.forward = original


@torch.no_grad()
def own_experts(model: Any, ids: Sequence[int]) -> Tensor:
    """What transformers' routers choose [positions, layers, top_k], each set in ascending order."""
    found: list[Tensor] = []
    hooks = [
        layer.mlp.gate.register_forward_hook(lambda module, inputs, output: found.append(output[2].sort(-1).values))
        for layer in model.model.layers
    ]
    model(input_ids=torch.tensor([list(ids)]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return torch.stack(found, dim=1)


@torch.no_grad()
def continuation_logprobs(
    model: Any, prompt: Sequence[int], completion: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """Log-probs of a completion's tokens under transformers' own forward pass, nats."""
    logits = model(input_ids=torch.tensor([[*prompt, *completion]]), use_cache=False).logits[0] / temperature
    chosen = logits.log_softmax(-1)[len(prompt) - 1 : -1].gather(1, torch.tensor(completion)[:, None])
    values: list[float] = chosen[:, 0].tolist()
    return values
