"""Starting from an MXFP4 checkpoint: the masters are its values, and the bytes of step 0 are its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from compressed_tensors.compressors.mx_utils import decompress_mx_scale
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from safetensors.torch import load_file, save_file
from torch import Tensor

from train.compose import compose_run
from train.launch import prepare_model
from train.policy import mxfp4
from train.policy.qat import QatOptions, QuantisedWeights
from train.weights import formats
from train.weights.sources import SOURCE_SCALES, decode_checkpoint, packed_format

LAYER = "model.layers.0.mlp"
SHAPES = {"gate_proj": (64, 32), "up_proj": (64, 32), "down_proj": (32, 64)}
CONFIGS = {
    "mxfp4": {"quant_method": "mxfp4"},
    "quark": {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}},
    "compressed-tensors": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"},
}


def packed(shape: tuple[int, ...], seed: int) -> tuple[Tensor, Tensor]:
    """Any codes under any scales, as another tool with another rule may have written them."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (*shape[:-1], shape[-1] // 2), generator=generator, dtype=torch.uint8)
    codes[..., 0, :] &= 0x99  # rows of 0 and .5: no rule would choose their scale
    return codes, torch.randint(115, 125, (*shape[:-1], shape[-1] // 32), generator=generator, dtype=torch.uint8)


def write(folder: Path, layout: str) -> dict[str, Tensor]:
    """Two experts over two files, codes and scales apart; the packed tensors by mxfp4 names."""
    folder.mkdir()
    tensors: dict[str, Tensor] = {}
    for expert in range(2):
        for number, (name, shape) in enumerate(SHAPES.items()):
            stem = f"{LAYER}.experts.{expert}.{name}.weight"
            tensors[stem], tensors[f"{stem}_scale"] = packed(shape, 10 * expert + number)
    suffix = "_packed" if layout == "compressed-tensors" else ""
    codes = {name + suffix: tensor for name, tensor in tensors.items() if not name.endswith("_scale")}
    rest = {name: tensor for name, tensor in tensors.items() if name.endswith("_scale")}
    save_file(codes | {"model.norm.weight": torch.ones(32, dtype=torch.bfloat16)}, folder / "model-1.safetensors")
    save_file(rest, folder / "model-2.safetensors")
    document = {"model_type": "qwen3_moe", "quantization_config": CONFIGS[layout]}
    (folder / "config.json").write_text(json.dumps(document))
    (folder / "tokenizer.json").write_text("{}")
    return tensors


def by_library(codes: Tensor, scales: Tensor) -> Tensor:
    rows, half = codes.shape
    values = unpack_fp4_from_uint8(codes, rows, 2 * half, dtype=torch.float32)
    return (values.view(rows, -1, 32) * decompress_mx_scale(scales).float()[..., None]).view(rows, -1)


@pytest.mark.parametrize("layout", CONFIGS)
@pytest.mark.parametrize("rule", mxfp4.RULES)
def test_step_0_serves_the_checkpoints_bytes(layout: str, rule: str, tmp_path: Path) -> None:
    stored = write(tmp_path / "source", layout)
    assert packed_format(tmp_path / "source") == layout
    decode_checkpoint(tmp_path / "source", tmp_path / "model")
    loaded: dict[str, Tensor] = {}
    for path in (tmp_path / "model").glob("model-*.safetensors"):
        loaded |= load_file(path)
    weights = [name for name in stored if not name.endswith("_scale")]
    assert set(loaded) == {*weights, "model.norm.weight"}
    for name in weights:
        assert loaded[name].dtype == torch.bfloat16
        assert torch.equal(loaded[name].float(), by_library(stored[name], stored[f"{name}_scale"])), name
    # As the trainer holds them: experts stacked, FP32.
    masters = {
        f"{LAYER}.experts.{ours}": torch.stack(
            [loaded[f"{LAYER}.experts.{expert}.{theirs}.weight"].float() for expert in range(2)]
        )
        for ours, theirs in formats.EXPERT_PROJECTIONS.items()
    }
    quantiser = QuantisedWeights(QatOptions(rule=rule))
    scales = formats.stack_scales(tmp_path / "model" / SOURCE_SCALES, masters, 2)
    quantiser.restore(0, {name: {"source_scales": own} for name, own in scales.items()})
    served = formats.serve_all(masters, "mxfp4", quantiser)
    assert served.keys() == stored.keys()
    assert all(torch.equal(served[name], stored[name]) for name in stored)
    for name, master in masters.items():
        assert torch.equal(quantiser.forward(name, master), master)
    by_rule = formats.serve_all(masters, "mxfp4", QuantisedWeights(QatOptions(rule=rule)))
    assert not all(torch.equal(by_rule[name], stored[name]) for name in stored)


def test_the_folder_is_a_plain_one(tmp_path: Path) -> None:
    write(tmp_path / "source", "mxfp4")
    decode_checkpoint(tmp_path / "source", tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text()) == {"model_type": "qwen3_moe"}
    assert (tmp_path / "model" / "tokenizer.json").exists() and packed_format(tmp_path / "model") == ""
    assert not list(tmp_path.glob(".*"))


def test_gpt_oss_blocks(tmp_path: Path) -> None:
    """Blocks [E, out, in/32, 16] decode to Hugging Face's [E, in, out]; 2 experts of 64 x 96."""
    codes, scales = packed((2, 64, 96), 5)
    stem = "model.layers.0.mlp.experts.gate_up_proj"
    tensors = {f"{stem}_blocks": codes.view(2, 64, 3, 16), f"{stem}_scales": scales}
    save_file(tensors | {f"{stem}_bias": torch.zeros(2, 64)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "mxfp4"}}))
    assert packed_format(tmp_path) == "gpt-oss"
    decode_checkpoint(tmp_path, tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert set(found) == {stem, f"{stem}_bias"} and found[stem].shape == (2, 96, 64)
    for expert in range(2):
        assert torch.equal(found[stem][expert].T.float(), by_library(codes[expert], scales[expert]))
    weight = found[stem].transpose(1, 2).float().contiguous()
    source = load_file(tmp_path / "out" / SOURCE_SCALES)[f"{stem}_scale"]
    again = mxfp4.quantise(weight, scales=mxfp4.kept_scales(weight, source))
    assert torch.equal(again.codes, codes) and torch.equal(again.scales, scales)


def lose_scales(tensors: dict[str, Tensor]) -> None:
    del tensors[f"{LAYER}.experts.1.up_proj.weight_scale"]


def nan_scale(tensors: dict[str, Tensor]) -> None:
    tensors[f"{LAYER}.experts.1.up_proj.weight_scale"][0, 0] = 255


def wrong_shape(tensors: dict[str, Tensor]) -> None:
    name = f"{LAYER}.experts.1.up_proj.weight_scale"
    tensors[name] = tensors[name].T.contiguous()


@pytest.mark.parametrize(
    ("fault", "says"), [(lose_scales, "bytes without the scales"), (nan_scale, "up to 255"), (wrong_shape, "belong")]
)
def test_a_damaged_checkpoint_is_refused_by_name(
    fault: Callable[[dict[str, Tensor]], None], says: str, tmp_path: Path
) -> None:
    write(tmp_path / "source", "mxfp4")
    path = tmp_path / "source" / "model-2.safetensors"
    tensors = load_file(path)
    fault(tensors)
    save_file(tensors, path)
    with pytest.raises(ValueError, match=rf"experts\.1\.up_proj\.weight: .*{says}"):
        decode_checkpoint(tmp_path / "source", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_another_quantisation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "awq"}}))
    with pytest.raises(ValueError, match=r"quantised .awq.*bf16 weights in model\.path"):
        packed_format(tmp_path)


def test_a_run_prepares_its_model_once(tmp_path: Path) -> None:
    """A packed folder is decoded into the run's own, which a resumed run finds there; a bf16 one is used as it is."""
    write(tmp_path / "source", "compressed-tensors")
    config = compose_run(["model=path", f"model.path={tmp_path / 'source'}"]).config
    directory = tmp_path / "run" / "model"
    assert prepare_model(config, directory) == directory
    (directory / "mark").touch()
    assert prepare_model(config, directory) == directory and (directory / "mark").exists()
    plain = compose_run(["model=path", f"model.path={directory}"]).config
    assert prepare_model(plain, tmp_path / "other") == directory
