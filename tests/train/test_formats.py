"""Names and layouts of the serving formats: names by value, no matrix transposed, ranks make the whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from train.policy import mxfp4
from train.weights import formats

NUM_EXPERTS = 4
LAYER = "model.layers.3.mlp"
# Trainer name -> number of experts, as the trainer reports its parameters.
NAMES = {
    "model.embed_tokens.weight": 0,
    "model.layers.3.self_attn.q_proj.weight": 0,
    f"{LAYER}.router.gate.weight": 0,
    f"{LAYER}.experts.w1": NUM_EXPERTS,
    f"{LAYER}.experts.w2": NUM_EXPERTS,
    f"{LAYER}.experts.w3": NUM_EXPERTS,
    "lm_head.weight": 0,
}


def masters(hidden: int = 64, expert: int = 32) -> dict[str, Tensor]:
    """FP32 masters by trainer name; every value is different."""
    generator = torch.Generator().manual_seed(5)
    shapes = {"w1": (expert, hidden), "w3": (expert, hidden), "w2": (hidden, expert)}
    out = {}
    for name, num_experts in NAMES.items():
        shape = (num_experts, *shapes[name[-2:]]) if num_experts else (8, hidden)
        out[name] = torch.randn(shape, generator=generator)
    return out


def serve_rank(values: dict[str, Tensor], rank: int, num_ranks: int, format: str) -> dict[str, Tensor]:
    """What one expert-parallel rank serves; rank 0 serves what is not split."""
    share = NUM_EXPERTS // num_ranks
    out: dict[str, Tensor] = {}
    for name, tensor in values.items():
        if formats.is_expert(name):
            local = tensor[rank * share : (rank + 1) * share]
            out |= formats.serve_experts(name, local, rank * share, format)
        elif rank == 0:
            out[formats.dense_name(name)] = tensor.to(torch.bfloat16)
    return out


@pytest.mark.parametrize(
    ("trainer", "serving"),
    [
        ("model.layers.0.mlp.router.gate.weight", "model.layers.0.mlp.gate.weight"),
        ("model.layers.0.mlp.shared_experts.up_proj.weight", "model.layers.0.mlp.shared_expert.up_proj.weight"),
        ("model.layers.0.mlp.shared_experts_gate.weight", "model.layers.0.mlp.shared_expert_gate.weight"),
        ("model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.q_norm.weight"),
        ("lm_head.weight", "lm_head.weight"),
    ],
)
def test_dense_names(trainer: str, serving: str) -> None:
    assert not formats.is_expert(trainer)
    assert formats.dense_name(trainer) == serving


@pytest.mark.parametrize(("weight", "projection"), [("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")])
def test_expert_names(weight: str, projection: str) -> None:
    trainer = f"model.layers.11.mlp.experts.{weight}"
    assert formats.is_expert(trainer)
    assert formats.expert_name(trainer, 120) == f"model.layers.11.mlp.experts.120.{projection}.weight"


def test_expected_names_by_value() -> None:
    expert = "model.layers.0.mlp.experts"
    names = {"model.norm.weight": 0, "model.layers.0.mlp.router.gate.weight": 0, f"{expert}.w2": 2}
    dense = {"model.norm.weight", "model.layers.0.mlp.gate.weight"}
    weights = {f"{expert}.0.down_proj.weight", f"{expert}.1.down_proj.weight"}
    assert formats.expected_names(names, "bf16") == dense | weights
    assert formats.expected_names(names, "mxfp4") == dense | weights | {f"{name}_scale" for name in weights}


@pytest.mark.parametrize("format", formats.FORMATS)
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_together_serve_exactly_the_expected_tensors(format: str, num_ranks: int) -> None:
    values = masters()
    ranks = [serve_rank(values, rank, num_ranks, format) for rank in range(num_ranks)]
    names = [name for rank in ranks for name in rank]
    assert len(names) == len(set(names))
    assert set(names) == formats.expected_names(NAMES, format)
    whole = formats.serve_all(values, format)
    together = {name: tensor for rank in ranks for name, tensor in rank.items()}
    assert whole.keys() == together.keys()
    assert all(torch.equal(whole[name], together[name]) for name in whole)


def test_shapes_and_types() -> None:
    served = formats.serve_all(masters(hidden=64, expert=32), "mxfp4")
    expert = f"{LAYER}.experts.0"
    shapes = {name: (served[name].dtype, tuple(served[name].shape)) for name in served if name.startswith(expert)}
    assert shapes == {
        f"{expert}.gate_proj.weight": (torch.uint8, (32, 32)),
        f"{expert}.gate_proj.weight_scale": (torch.uint8, (32, 2)),
        f"{expert}.up_proj.weight": (torch.uint8, (32, 32)),
        f"{expert}.up_proj.weight_scale": (torch.uint8, (32, 2)),
        f"{expert}.down_proj.weight": (torch.uint8, (64, 16)),
        f"{expert}.down_proj.weight_scale": (torch.uint8, (64, 1)),
    }
    assert {tensor.dtype for name, tensor in served.items() if ".experts." not in name} == {torch.bfloat16}


@pytest.mark.parametrize(("weight", "projection"), [("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")])
def test_square_matrices_are_not_transposed(weight: str, projection: str) -> None:
    """With hidden == expert size a shape shows nothing: row r, column c must stay there, expert by expert."""
    size = 32
    values = torch.zeros(NUM_EXPERTS, size, size)
    for expert in range(NUM_EXPERTS):
        values[expert, 1 + expert, 20] = 4.0
    name = f"{LAYER}.experts.{weight}"
    plain = formats.serve_experts(name, values, 0, "bf16")
    decoded = formats.decode(formats.serve_experts(name, values, 0, "mxfp4"))
    for expert in range(NUM_EXPERTS):
        serving = f"{LAYER}.experts.{expert}.{projection}.weight"
        for served in (plain[serving], decoded[serving]):
            assert served.nonzero().tolist() == [[1 + expert, 20]]
            assert served[1 + expert, 20] == 4.0


def test_decoding_gives_what_the_trainer_computes_with() -> None:
    values = masters()
    decoded = formats.decode(formats.serve_all(values, "mxfp4"))
    plain = formats.serve_all(values, "bf16")
    assert decoded.keys() == plain.keys()
    for name in values:
        if not formats.is_expert(name):
            assert torch.equal(decoded[formats.dense_name(name)], plain[formats.dense_name(name)])
            continue
        for expert in range(NUM_EXPERTS):
            serving = formats.expert_name(name, expert)
            assert decoded[serving].dtype is torch.bfloat16
            assert torch.equal(decoded[serving].float(), mxfp4.fake_quantise(values[name][expert]))
            assert not torch.equal(decoded[serving], plain[serving])


def test_a_weight_that_cannot_be_quantised_is_named() -> None:
    values = torch.zeros(2, 32, 32)
    values[1, 0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"experts\.5\.gate_proj\.weight: .*NaN"):
        formats.serve_experts(f"{LAYER}.experts.w1", values, 4, "mxfp4")


def test_serving_config() -> None:
    config = {"model_type": "qwen3_moe", "dtype": "float32", "quantization_config": {"quant_method": "old"}}
    base = {"model_type": "qwen3_moe", "dtype": "bfloat16"}
    assert formats.serving_config(config, "bf16") == base
    assert formats.serving_config(config, "mxfp4") == base | {"quantization_config": {"quant_method": "mxfp4"}}
    assert config["dtype"] == "float32" and config["quantization_config"] == {"quant_method": "old"}
