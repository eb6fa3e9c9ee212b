"""Quantisation-aware training: once a step, straight through, and what is served is what was computed with."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from train.metrics import quantisation
from train.policy import mxfp4, qat
from train.policy.model import check_expert_names
from train.policy.qat import QatOptions, QuantisedWeights, nearest_to_average

NAME = "model.layers.0.mlp.experts.w1"


def master(seed: int = 0) -> Tensor:
    return torch.randn(4, 32, 64, generator=torch.Generator().manual_seed(seed)) * 0.02


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    honest = mxfp4.fake_quantise

    def counting(*arguments: Tensor, **options: object) -> Tensor:
        calls.append("call")
        return honest(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(mxfp4, "fake_quantise", counting)
    return calls


def test_quantised_once_a_step_over_micro_batches_and_recomputation(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch)
    weight, quantiser = torch.nn.Parameter(master()), QuantisedWeights(QatOptions())
    inputs = torch.randn(3, 64, generator=torch.Generator().manual_seed(1))

    def layer(rows: Tensor) -> Tensor:
        return (rows @ quantiser.forward(NAME, weight).transpose(1, 2)).square().sum()

    for _ in range(3):
        checkpoint(layer, inputs, use_reentrant=False).backward()
    assert len(calls) == 1
    quantiser.stepped()
    layer(inputs).backward()
    assert len(calls) == 2


def test_the_gradient_at_the_master_is_the_straight_through_one() -> None:
    """By value: that of the same loss at the quantised values, as if they were the parameter."""
    weight, quantiser = torch.nn.Parameter(master()), QuantisedWeights(QatOptions())
    inputs = torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
    for _ in range(2):  # two micro-batches
        (inputs @ quantiser.forward(NAME, weight).transpose(1, 2)).square().sum().backward()
    plain = mxfp4.fake_quantise(master()).requires_grad_()
    for _ in range(2):
        (inputs @ plain.transpose(1, 2)).square().sum().backward()
    assert weight.grad is not None and plain.grad is not None
    assert torch.equal(weight.grad, plain.grad)


@pytest.mark.parametrize("rule", mxfp4.RULES)
@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("average", [0.0, 0.9])
def test_what_is_served_is_what_was_computed_with(rule: str, source: bool, freeze: bool, average: float) -> None:
    """Every combination of options, over steps that move weights across code boundaries, and again after a resume."""
    options = QatOptions(rule=rule, freeze_scales=freeze, average=average)
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(0, 256, (4, 32, 32), generator=generator, dtype=torch.uint8)
    codes[0] &= 0x99  # 0 and .5 only: scales that no rule would choose
    scales = torch.randint(119, 122, (4, 32, 2), generator=generator, dtype=torch.uint8)
    quantiser, weight = QuantisedWeights(options), mxfp4.dequantise(mxfp4.Packed(codes, scales))
    if source:
        quantiser.state["source_scales"][NAME] = scales
        packed = quantiser.packed(NAME, weight)
        assert torch.equal(packed.codes, codes) and torch.equal(packed.scales, scales)
    for step in range(4):
        computed = quantiser.forward(NAME, weight)
        assert torch.equal(mxfp4.dequantise(quantiser.packed(NAME, weight)), computed), step
        again = QuantisedWeights(options)
        again.restore(quantiser.step, {NAME: {kind: own.clone() for kind, own in quantiser.state_of(NAME).items()}})
        assert torch.equal(again.forward(NAME, weight), computed)
        weight = weight + 0.004 * torch.randn(weight.shape, generator=generator)
        quantiser.stepped()
        again.stepped()
        assert torch.equal(again.forward(NAME, weight), quantiser.forward(NAME, weight))


def test_without_options_there_is_no_state() -> None:
    quantiser = QuantisedWeights(QatOptions())
    quantiser.forward(NAME, master())
    assert quantiser.state_of(NAME) == {}
    assert quantiser.served(NAME, master())[1] is None


def test_it_starts_at_its_step() -> None:
    quantiser, weight = QuantisedWeights(QatOptions(start_step=2, freeze_scales=True)), master()
    for step in range(4):
        expected = weight if step < 2 else mxfp4.fake_quantise(weight)
        assert torch.equal(quantiser.forward(NAME, weight), expected), step
        assert (NAME in quantiser.state["scales"]) == (step >= 2)
        quantiser.stepped()
    off = QuantisedWeights(QatOptions(), enabled=False)
    assert off.forward(NAME, weight) is weight


def test_frozen_scales_stay_and_clip() -> None:
    quantiser, weight = QuantisedWeights(QatOptions(freeze_scales=True)), master()
    first = quantiser.packed(NAME, weight)
    later = quantiser.packed(NAME, weight * 4)
    assert torch.equal(later.scales, first.scales)
    assert torch.equal(later.scales, mxfp4.quantise(weight).scales)
    assert torch.equal(quantiser.forward(NAME, weight * 4), mxfp4.fake_quantise(weight * 4, scales=first.scales))
    assert not torch.equal(mxfp4.dequantise(later), mxfp4.fake_quantise(weight * 4))


@pytest.mark.parametrize(
    ("weight", "average", "expected"),
    [
        (2.6, 2.1, 2.0),  # neighbours 2 and 3: the mean says 2, where rounding says 3
        (2.6, 2.9, 3.0),
        (2.4, 5.9, 3.0),  # never beyond the neighbours
        (2.4, -4.0, 2.0),
        (3.0, 1.0, 3.0),  # on the grid
        (-2.6, -2.1, -2.0),
        (0.3, -0.4, 0.0),
        (6.5, 4.5, 6.0),
    ],
)
def test_the_neighbour_nearer_to_the_running_mean(weight: float, average: float, expected: float) -> None:
    """Q-EMA by hand, under the scales 1 and 4."""
    scales = torch.tensor([127, 129], dtype=torch.uint8)
    units = torch.tensor([1.0, 4.0]).repeat_interleave(32)
    found = nearest_to_average(weight * units, average * units, scales)
    assert found.tolist() == (expected * units).tolist()


def test_a_running_mean_stops_an_oscillation() -> None:
    """A weight that jumps around a boundary each step flips each step; with Q-EMA it stays."""
    flips = {}
    for average in (0.0, 0.9):
        quantiser = QuantisedWeights(QatOptions(average=average))
        flips[average] = 0.0
        for step in range(6):
            weight = torch.full((1, 32), 2.45 + 0.1 * (step % 2))
            weight[0, 0] = 6.0
            flips[average] += quantiser.counts(NAME, weight)["flipped"]
            quantiser.stepped()
    assert flips == {0.0: 5 * 31, 0.9: 0.0}


def test_the_counts_by_hand() -> None:
    quantiser = QuantisedWeights(QatOptions())
    weight = torch.zeros(1, 64)
    weight[0, :4] = torch.tensor([6.5, 0.2, -0.1, 2.0])  # one above 6, two below .25
    weight[0, 32] = 4.0
    found = quantiser.counts(NAME, weight)
    assert found == {"weights": 64, "flipped": 0, "clipped": 1, "zeroed": 2, "blocks": 2, "scale_drift": 0}
    assert set(found) == set(qat.COUNTS)
    weight[0, 3], weight[0, 32] = 2.6, 16.0  # 2 -> 3, and a scale four times as large
    found = quantiser.counts(NAME, weight)
    assert found == {"weights": 64, "flipped": 2, "clipped": 1, "zeroed": 2, "blocks": 2, "scale_drift": 2}


def test_the_series_by_layer() -> None:
    layer = "model.layers.0.mlp.experts"
    counts = {"weights": 200.0, "flipped": 4.0, "clipped": 2.0, "zeroed": 20.0, "blocks": 5.0, "scale_drift": 10.0}
    totals = {f"quant/{name}/{layer}": value for name, value in counts.items()} | {"loss": 1.0}
    assert quantisation(totals) == {
        "quant_flipped": {layer: 0.02},
        "quant_clipped": {layer: 0.01},
        "quant_zeroed": {layer: 0.1},
        "quant_scale_drift": {layer: 2.0},
    }
    assert quantisation({"loss": 1.0}) == {}


def test_trained_and_served_experts_are_one_list() -> None:
    """A module that computes on MXFP4 and is served in bf16, or the other way round, is refused by name."""
    model = torch.nn.Module()
    model.mlp = torch.nn.Module()
    model.mlp.experts = torch.nn.ParameterDict({name: torch.zeros(1) for name in ("w1", "w2", "w3")})
    holder = torch.nn.Module()
    holder.layer = model
    names = [name for name, _ in holder.named_parameters()]
    check_expert_names(holder, ["layer.mlp.experts"], ["w1", "w2", "w3"])
    assert [name for name, _ in holder.named_parameters()] == names
    for modules, weights in ([], ["w1"]), (["layer.mlp.experts"], ["w1", "w2"]), (["layer.moe"], ["w1", "w2", "w3"]):
        with pytest.raises(ValueError, match=r"differ: \['layer\.mlp\.experts\.w"):
            check_expert_names(holder, modules, weights)
