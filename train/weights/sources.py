"""Starting from an MXFP4 checkpoint: its decoded values become the masters, its scales are remembered.

In: a Hugging Face folder whose experts are packed (layouts in `LAYOUTS`).  Out: the same folder in bf16, which holds
every decoded value exactly, and beside it the scales by serving name, so that the bytes published at step 0 are the
checkpoint's own.  Called by `train.launch` and `train.quantise`.

    mxfp4, quark          …gate_proj.weight U8 [out, in/2]            …gate_proj.weight_scale U8 [out, in/32]
    compressed-tensors    …gate_proj.weight_packed                    …gate_proj.weight_scale
    gpt-oss               …gate_up_proj_blocks U8 [E, out, in/32, 16] …gate_up_proj_scales; decoded [E, in, out]
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from train.policy import mxfp4

SOURCE_SCALES = "source_scales.safetensors"
# Layout -> suffixes of codes, of scales, and of the decoded weight.
LAYOUTS = {
    "mxfp4": (".weight", ".weight_scale", ".weight"),
    "quark": (".weight", ".weight_scale", ".weight"),
    "compressed-tensors": (".weight_packed", ".weight_scale", ".weight"),
    "gpt-oss": ("_blocks", "_scales", ""),
}
_INDEX = "model.safetensors.index.json"


def packed_format(folder: Path) -> str:
    """The layout of a folder's MXFP4 weights, or nothing where they are not quantised.

    Raises ValueError for a quantisation that is not MXFP4: training would start from something else than it serves.
    """
    config = json.loads((folder / "config.json").read_text())
    quantisation = config.get("quantization_config") or config.get("text_config", {}).get("quantization_config")
    if not quantisation:
        return ""
    method = quantisation.get("quant_method")
    if method == "mxfp4":
        return "gpt-oss" if any(name.endswith("_blocks") for name in _files(folder)) else "mxfp4"
    if method == "compressed-tensors" and quantisation.get("format") == "mxfp4-pack-quantized":
        return "compressed-tensors"
    weight = (quantisation.get("global_quant_config") or {}).get("weight") or {}
    if method == "quark" and weight.get("dtype") == "fp4" and weight.get("group_size") == mxfp4.BLOCK:
        return "quark"
    raise ValueError(
        f"{folder} is quantised ({method}, {quantisation.get('format', 'format unknown')}), and not in MXFP4 as "
        f"{', '.join(LAYOUTS)} write it; give the bf16 weights in model.path"
    )


def decode_checkpoint(source: Path, directory: Path) -> None:
    """Write `source` to the new folder `directory` in bf16, one file after another, whole or not at all.

    Raises ValueError naming a tensor that cannot be decoded.
    """
    layout = packed_format(source)
    assert layout, f"{source} is not quantised"
    scratch = directory.with_name(f".{directory.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.is_file() and path.suffix != ".safetensors" and path.name not in ("config.json", _INDEX):
            shutil.copy(path, scratch / path.name)
    files = _files(source)
    scales: dict[str, Tensor] = {}
    index: dict[str, str] = {}
    for file_name in sorted(set(files.values())):
        decoded = _decode_file(source, file_name, files, layout, scales)
        save_file(decoded, scratch / file_name, metadata={"format": "pt"})
        index |= dict.fromkeys(decoded, file_name)
    if len(set(index.values())) > 1:
        (scratch / _INDEX).write_text(json.dumps({"metadata": {}, "weight_map": index}))
    save_file(scales, scratch / SOURCE_SCALES)
    (scratch / "config.json").write_text(json.dumps(_unquantised(json.loads((source / "config.json").read_text()))))
    shutil.rmtree(directory, ignore_errors=True)
    scratch.rename(directory)


def _decode_file(
    source: Path, file_name: str, files: dict[str, str], layout: str, scales: dict[str, Tensor]
) -> dict[str, Tensor]:
    """One file's tensors in bf16; adds their scales, by the name of the decoded weight, to `scales`."""
    of_codes, of_scales, of_weight = LAYOUTS[layout]
    out: dict[str, Tensor] = {}
    with safe_open(source / file_name, "pt") as file:
        for name in sorted(file.keys()):
            stem = name.removesuffix(of_codes)
            if name.endswith(of_scales) and name.removesuffix(of_scales) + of_codes in files:
                continue
            if not (name.endswith(of_codes) and stem + of_scales in files):
                out[name] = _plain(file.get_tensor(name), name)
                continue
            own = _read(source, files, stem + of_scales)
            weight = stem + of_weight
            out[weight] = decode(file.get_tensor(name), own, name, layout)
            scales[f"{weight}_scale"] = own
    return out


def decode(codes: Tensor, scales: Tensor, name: str, layout: str) -> Tensor:
    """The bf16 weight of one tensor's bytes, exact, as Hugging Face names and shapes it.  Raises ValueError."""
    if scales.dtype != torch.uint8 or (scales.numel() and int(scales.max()) > mxfp4.LARGEST_SCALE):
        raise ValueError(f"{name}: has scales of {scales.dtype} up to {scales.max()}: NaN, or beyond the range of bf16")
    if layout == "gpt-oss":
        values = mxfp4.dequantise(mxfp4.Packed(codes.flatten(-2), scales), torch.bfloat16)
        return values.transpose(-1, -2).contiguous()
    try:
        return mxfp4.dequantise(mxfp4.Packed(codes, scales), torch.bfloat16)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _plain(tensor: Tensor, name: str) -> Tensor:
    if not tensor.is_floating_point() and tensor.dtype == torch.uint8:
        raise ValueError(f"{name}: holds bytes without the scales that would say what they stand for")
    return tensor


def _read(source: Path, files: dict[str, str], name: str) -> Tensor:
    with safe_open(source / files[name], "pt") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def _files(folder: Path) -> dict[str, str]:
    """Tensor name -> file name.  Raises ValueError where there are no safetensors, or a listed one is missing."""
    out: dict[str, str] = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != SOURCE_SCALES:
            with safe_open(path, "pt") as file:
                out |= dict.fromkeys(file.keys(), path.name)
    if not out:
        raise ValueError(f"{folder} holds no safetensors")
    if (folder / _INDEX).exists():
        missing = sorted(set(json.loads((folder / _INDEX).read_text())["weight_map"]) - set(out))
        if missing:
            raise ValueError(f"{folder}: {len(missing)} tensors of its index are in no file, the first is {missing[0]}")
    return out


def _unquantised(config: dict[str, Any]) -> dict[str, Any]:
    inner = {"text_config": _unquantised(config["text_config"])} if "text_config" in config else {}
    return {key: value for key, value in config.items() if key != "quantization_config"} | inner
