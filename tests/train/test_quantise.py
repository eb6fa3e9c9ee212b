"""The report of what MXFP4 does to a model before training, on the tiny one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from train.policy import mxfp4
from train.policy.tiny import build_model, write_tiny_model
from train.quantise import ALL, divergence, expert_layers, logprobs, main, report

SIZES: dict[str, Any] = {
    "seed": 0,
    "hidden_size": 64,
    "expert_size": 32,
    "num_layers": 2,
    "num_experts": 4,
    "experts_per_token": 2,
    "context": 64,
    "initializer_range": 0.2,
}
PROMPTS = [torch.arange(20, 40)[None], torch.arange(50, 57)[None]]


def test_the_divergence_by_hand() -> None:
    p, q = torch.tensor([[0.5, 0.5], [1.0, 1e-30]]).log(), torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    first = 0.5 * (torch.tensor(2.0).log() + torch.tensor(2 / 3).log())
    assert divergence([p], [q]) == pytest.approx(float((first + torch.tensor(2.0).log()) / 2), abs=1e-6)
    assert divergence([p, p], [p, p]) == 0.0


@pytest.mark.parametrize("rule", ["even", "floor"])
def test_each_layer_alone_and_all_together(rule: str) -> None:
    model = build_model(**SIZES).eval()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    found = report(model, PROMPTS, rule)
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    layers = expert_layers(model)
    assert list(found) == [*layers, ALL] and len(layers) == 2
    reference = [logprobs(model, ids) for ids in PROMPTS]
    with torch.no_grad():
        for own in layers.values():
            for parameter in own.values():
                parameter.copy_(mxfp4.fake_quantise(parameter, rule=rule))
    assert found[ALL]["kl"] == divergence(reference, [logprobs(model, ids) for ids in PROMPTS])
    assert all(found[name]["kl"] > 0 for name in found)
    assert 0.08 < found[ALL]["error"] < 0.13 and 0.05 < found[ALL]["zeroed"] < 0.15  # Gaussian weights: .11 and .10
    # What is on the grid already does not move.
    again = report(model, PROMPTS, rule)
    assert all(row["kl"] == row["error"] == row["clipped"] == row["zeroed"] == 0 for row in again.values())


def test_a_model_without_experts_is_refused() -> None:
    with pytest.raises(ValueError, match="no routed experts"):
        expert_layers(torch.nn.Linear(2, 2))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tiny_model(tmp_path / "model", **SIZES)
    (tmp_path / "prompts").write_text("1 + 2 =\n\nsort 3 1 2\n")
    out = tmp_path / "report.json"
    assert main([f"model={tmp_path / 'model'}", f"prompts={tmp_path / 'prompts'}", "rule=rceil", f"out={out}"]) == 0
    assert "all layers" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert document["rule"] == "rceil" and document["layers"][ALL]["kl"] > 0 == document["layers"][ALL]["clipped"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=/nowhere"], "is no Hugging Face folder"),
        (["modle=x"], "did you mean 'model'"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_wrong_values_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert main([f"model={tmp_path}", "rule=ceil"]) == 2
    assert "rule='ceil' is not one of even, floor, rceil" in capsys.readouterr().err
    assert main([f"model={tmp_path}", "prompts=/nowhere"]) == 2
    assert "prompts='/nowhere' is no file" in capsys.readouterr().err


def test_a_quantised_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quantised = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": quantised}))
    assert main([f"model={tmp_path}"]) == 2
    assert "is in MXFP4 already" in capsys.readouterr().err
