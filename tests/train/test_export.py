"""The export and the part of its proof that needs no engine: what was published is what lies in the folder.

Each fault is written so that the folder looks sound in every other respect: the manifest is made again after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from rollouts.engine import Completion
from train import checkpoint
from train.export import MANIFEST, WEIGHTS, _file_digest, export, main, prove
from train.policy.qat import QatOptions, QuantisedWeights
from train.weights import formats
from train.weights.proof import check_engine, check_trainer
from train.weights.publish import tensor_digest

LAYER = "model.layers.0.mlp"


def masters(seed: int = 0) -> dict[str, Tensor]:
    """Trainer names: four experts, a router, a norm."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"w1": (4, 32, 64), "w2": (4, 64, 32), "w3": (4, 32, 64)}
    out = {f"{LAYER}.experts.{name}": torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    out[f"{LAYER}.router.gate.weight"] = torch.randn(4, 64, generator=generator)
    out["model.norm.weight"] = torch.randn(64, generator=generator)
    return out


RULE = "floor"  # not the default one: an export that forgot its run's rule would have other bytes
QUANTISER = QuantisedWeights(QatOptions(rule=RULE))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run folder with one checkpoint whose published digests are those of its own masters."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "config.json").write_text(json.dumps({"model_type": "qwen3_moe"}))
    (tmp_path / "engine" / "tokenizer.json").write_text("{}")
    (tmp_path / "engine" / "chat_template.jinja").write_text("{{ messages }}")
    published = {
        name: tensor_digest(tensor) for name, tensor in formats.serve_all(masters(), "mxfp4", QUANTISER).items()
    }
    checkpoint.save(
        tmp_path,
        7,
        masters(),
        run={"version": 7, "adam_step": 7, "format": "mxfp4", "published": published, "engine": {}},
        canary={"tokens": []},
        config={
            "name": "test",
            "checkpoint": {"canary_tokens": 1},
            "fidelity": {"alarm": 0.012},
            "quant": {"rule": RULE},
        },
        keep=1,
    )
    return tmp_path


def flip_a_scale_byte(tensors: dict[str, Tensor]) -> None:
    tensors[f"{LAYER}.experts.2.up_proj.weight_scale"].view(-1)[0] ^= 1


def swap_two_experts(tensors: dict[str, Tensor]) -> None:
    for suffix in ("weight", "weight_scale"):
        a, b = (f"{LAYER}.experts.{expert}.gate_proj.{suffix}" for expert in (0, 1))
        tensors[a], tensors[b] = tensors[b].clone(), tensors[a].clone()


def one_stale_shard(tensors: dict[str, Tensor]) -> None:
    stale = formats.serve_all(masters(seed=1), "mxfp4", QUANTISER)
    for name in tensors:
        if ".experts.3." in name:
            tensors[name] = stale[name]


def lose_a_tensor(tensors: dict[str, Tensor]) -> None:
    del tensors["model.norm.weight"]


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][WEIGHTS] = _file_digest(folder / WEIGHTS)
    (folder / MANIFEST).write_text(json.dumps(manifest))


FAULTS: dict[Callable[[dict[str, Tensor]], None], str] = {
    flip_a_scale_byte: "1 wrong, first: model.layers.0.mlp.experts.2.up_proj.weight_scale differs",
    swap_two_experts: "4 wrong, first: model.layers.0.mlp.experts.0.gate_proj.weight differs",
    one_stale_shard: "6 wrong, first: model.layers.0.mlp.experts.3.down_proj.weight differs",
    lose_a_tensor: "1 wrong, first: model.norm.weight is missing",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_bytes_fails_the_proof_before_any_engine_starts(
    run_dir: Path, fault: Callable[[dict[str, Tensor]], None]
) -> None:
    folder = export(run_dir, "mxfp4", run_dir / "export" / "mxfp4")
    rewrite(folder, fault)
    report = prove(run_dir, folder, "mxfp4")
    assert not report.passed
    assert [check.name for check in report.checks] == ["manifest", "bytes"]
    assert FAULTS[fault] in report.checks[1].detail
    assert json.loads((folder / "proof.json").read_text())["passed"] is False


def test_a_changed_side_file_fails_it(run_dir: Path) -> None:
    folder = export(run_dir, "mxfp4", run_dir / "export" / "mxfp4")
    (folder / "chat_template.jinja").write_text("{{ other }}")
    report = prove(run_dir, folder, "mxfp4")
    assert not report.passed and "chat_template.jinja" in report.checks[0].detail


def test_the_bf16_export_holds_the_decoded_values(run_dir: Path) -> None:
    folder = export(run_dir, "bf16", run_dir / "export" / "bf16")
    found = load_file(folder / WEIGHTS)
    wanted = formats.decode(formats.serve_all(masters(), "mxfp4", QUANTISER))
    assert set(found) == set(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("rule", ["floor", "rceil"])
def test_the_export_packs_as_the_trainer_did_and_says_so(tmp_path: Path, run_dir: Path, rule: str) -> None:
    """Rule and frozen scales come back from the checkpoint; manifest, weights' metadata and card name the rule."""
    options = QatOptions(rule=rule, freeze_scales=True)
    trainer, moved = QuantisedWeights(options), {name: value * 1.3 for name, value in masters().items()}
    state: dict[str, Tensor] = {}
    for name, value in masters().items():
        if formats.is_expert(name):
            trainer.forward(name, value)
            state |= {f"{name}.{kind}": own for kind, own in trainer.state_of(name).items()}
    wanted = formats.serve_all(moved, "mxfp4", trainer)
    moments = {f"{name}.exp_avg": torch.zeros_like(value) for name, value in moved.items()}
    checkpoint.save(
        run_dir,
        8,
        moved | moments | state,
        run={
            "version": 8,
            "adam_step": 8,
            "format": "mxfp4",
            "published": {name: tensor_digest(tensor) for name, tensor in wanted.items()},
            "engine": {},
        },
        canary={"tokens": []},
        config={"name": "test", "quant": {"rule": rule, "freeze_scales": True}},
        keep=1,
    )
    saved = checkpoint.newest(run_dir)
    assert saved.masters.keys() == moved.keys() and saved.moments.keys() == moments.keys()
    assert saved.tensors.keys() == {*moved, *moments, *state}
    folder = export(run_dir, "mxfp4", tmp_path / "out")
    found = load_file(folder / WEIGHTS)
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    plain = formats.serve_all(moved, "mxfp4", QuantisedWeights(QatOptions(rule=rule)))
    assert not all(torch.equal(found[name], plain[name]) for name in wanted)
    assert json.loads((folder / MANIFEST).read_text())["scale_rule"] == rule
    with safe_open(folder / WEIGHTS, "pt") as file:
        assert file.metadata()["scale_rule"] == rule
    assert f"scale rule `{rule}`" in (folder / "README.md").read_text()


def test_side_files_are_those_of_the_rollouts(run_dir: Path) -> None:
    folder = export(run_dir, "mxfp4", run_dir / "export" / "mxfp4")
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (folder / name).read_bytes() == (run_dir / "engine" / name).read_bytes()
    assert json.loads((folder / "config.json").read_text())["quantization_config"] == {"quant_method": "mxfp4"}
    assert json.loads((folder / MANIFEST).read_text())["scale_rule"] == RULE
    assert f"scale rule `{RULE}`" in (folder / "README.md").read_text()


def _canary(engine: list[float], trainer: list[float]) -> dict[str, Any]:
    return {"tokens": [[1, 2, 3]], "engine_logprobs": [engine], "trainer_logprobs": [trainer]}


def _completion(ids: list[int], logprobs: list[float]) -> Completion:
    from envs.types import FinishReason

    return Completion(
        episode=0, turn=0, token_ids=ids, logprobs=logprobs, versions=[0] * len(ids), finish_reason=FinishReason.STOP
    )


def test_the_same_kernel_has_to_agree_to_the_bit() -> None:
    canary = _canary([-0.5, -0.25, -0.125], [0.0, 0.0, 0.0])
    equal = _completion([1, 2, 3], [-0.5, -0.25, -0.125])
    off = _completion([1, 2, 3], [-0.5, -0.25, -0.12500000000000003])
    assert check_engine(canary, [equal], same_kernel=True).passed
    assert not check_engine(canary, [off], same_kernel=True).passed
    assert not check_engine(canary, [_completion([1, 2, 4], equal.logprobs)], same_kernel=True).passed
    assert check_engine(canary, [off], same_kernel=False).passed
    assert not check_engine(canary, [_completion([1, 2, 3], [-0.5, -0.25, -0.135])], same_kernel=False).passed


def test_the_trainer_has_to_be_near_over_enough_tokens() -> None:
    canary = _canary([0.0] * 3, [-0.51, -0.26, -0.135])
    fresh = [_completion([1, 2, 3], [-0.5, -0.25, -0.125])]
    assert check_trainer(canary, fresh, alarm=0.012, minimum=3).passed
    assert not check_trainer(canary, fresh, alarm=0.009, minimum=3).passed
    assert not check_trainer(canary, fresh, alarm=0.012, minimum=4).passed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run=/nowhere"], "is not a run folder"),
        (["rnu=x"], "did you mean 'run'"),
        (["run=.", "format=int4"], "format='int4' is not one of mxfp4, bf16"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
