"""The three scale rules, given scales, and the compiled kernel: against exact fractions and against each other."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from train.config_quant import SCALE_RULES
from train.policy import mxfp4
from train.policy.mxfp4 import BLOCK, RULES, Packed, dequantise, fake_quantise, kept_scales, quantise

E2M1 = [Fraction(value) for value in ("0", "1/2", "1", "3/2", "2", "3", "4", "6")]


def floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def slow_scale(amax: Fraction, rule: str) -> int:
    """The scale byte of a block by the definition of its rule, in exact arithmetic."""
    exponent = floor_log2(amax) - 2
    if rule == "even":
        exponent += amax / Fraction(2) ** floor_log2(amax) >= Fraction(7, 4)
    if rule == "rceil":
        exponent = floor_log2(amax / 6)
        exponent += amax / 6 != Fraction(2) ** exponent
    return max(exponent + 127, 0)


def slow_block(values: list[float], rule: str, byte: int | None = None) -> tuple[int, list[int]]:
    """Scale byte and codes of one block of bf16 values, by comparing distances; ties to the even code."""
    exact = [Fraction(abs(value)) for value in values]
    signs = [8 if math.copysign(1.0, value) < 0 else 0 for value in values]
    given = byte is not None
    if byte is None:
        byte = slow_scale(max(exact), rule) if any(exact) else 127
    scaled = [min(value / Fraction(2) ** (byte - 127), Fraction(6)) for value in exact]
    codes = [min(range(8), key=lambda code: (abs(E2M1[code] - value), code % 2)) for value in scaled]
    return byte if given or any(codes) else 127, [code + sign for code, sign in zip(codes, signs, strict=True)]


def codes_of(packed: Packed) -> list[int]:
    return [nibble for byte in packed.codes.flatten().tolist() for nibble in (byte & 15, byte >> 4)]


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.int32)


def block_with(*values: float) -> Tensor:
    block = torch.zeros(BLOCK)
    block[: len(values)] = torch.tensor(values)
    return block


@pytest.mark.parametrize(
    ("amax", "exponents", "values"),
    [
        (4.0, (0, 0, 0), (4, 4, 4)),
        (6.0, (0, 0, 0), (6, 6, 6)),
        (6.03125, (0, 0, 1), (6, 6, 6)),
        (6.5, (0, 0, 1), (6, 6, 6)),
        (7.0, (1, 0, 1), (8, 6, 8)),
        (7.5, (1, 0, 1), (8, 6, 8)),
        (8.0, (1, 1, 1), (8, 8, 8)),
        (12.0, (1, 1, 1), (12, 12, 12)),
    ],
)
def test_where_the_rules_differ(amax: float, exponents: tuple[int, ...], values: tuple[int, ...]) -> None:
    """F43: between 6 and 8, by hand."""
    for rule, exponent, value in zip(("even", "floor", "rceil"), exponents, values, strict=True):
        packed = quantise(block_with(amax, -amax), rule=rule)
        assert packed.scales.tolist() == [127 + exponent], rule
        assert dequantise(packed)[:2].tolist() == [value, -value], rule
        assert fake_quantise(block_with(amax, -amax), rule=rule)[:2].tolist() == [value, -value], rule


bf16_values = st.integers(0, 2**16 - 1).map(
    lambda pattern: float(torch.tensor(pattern - 2**15, dtype=torch.int16).view(torch.bfloat16))
)
any_block = st.lists(bf16_values.filter(lambda value: abs(value) <= 1.5 * 2.0**127), min_size=BLOCK, max_size=BLOCK)
one_range = st.builds(
    lambda values, exponent: [value * 2.0**exponent for value in values],
    st.lists(st.integers(-512, 512).map(lambda i: i / 64), min_size=BLOCK, max_size=BLOCK),
    st.integers(-131, 120),
)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None)
@given(values=st.one_of(any_block, one_range))
def test_random_blocks_against_exact_fractions(rule: str, values: list[float]) -> None:
    block = torch.tensor(values).to(torch.bfloat16).float()
    packed = quantise(block, rule=rule)
    byte, codes = slow_block(block.tolist(), rule)
    assert packed.scales.tolist() == [byte] and codes_of(packed) == codes
    decoded = dequantise(packed)
    assert torch.equal(bits(fake_quantise(block, rule=rule)), bits(decoded))
    again = quantise(decoded, rule=rule)
    assert torch.equal(bits(dequantise(again)), bits(decoded))
    if rule != "rceil":
        assert torch.equal(again.codes, packed.codes) and torch.equal(again.scales, packed.scales)


def test_rceil_may_code_its_own_values_otherwise() -> None:
    """3.25 rounds to 3 under 2^0, which fits under 2^-1 as 6."""
    packed = quantise(block_with(3.25), rule="rceil")
    again = quantise(dequantise(packed), rule="rceil")
    assert (packed.scales.tolist(), again.scales.tolist()) == ([127], [126])
    assert dequantise(packed)[0] == dequantise(again)[0] == 3.0


@pytest.mark.parametrize("rule", RULES)
def test_the_ends_of_the_range(rule: str) -> None:
    """F49: signed zeros, subnormals, the largest value of each rule, and the first that it refuses."""
    signed = quantise(block_with(0.0, -0.0), rule=rule)
    assert signed.scales.tolist() == [127] and codes_of(signed)[:2] == [0, 8]
    assert math.copysign(1.0, float(fake_quantise(block_with(-0.0), rule=rule)[0])) == -1.0
    for tiny in (2.0**-128, -(2.0**-127), 2.0**-126):
        assert fake_quantise(block_with(tiny), rule=rule)[0] == tiny
    assert quantise(block_with(2.0**-129), rule=rule).scales.tolist() == [127]
    assert quantise(block_with(2.0**-129 + 2.0**-133), rule=rule).scales.tolist() == [0]
    largest, refused = {
        "even": (223 / 128 * 2.0**127, 1.75 * 2.0**127),
        "floor": (255 / 128 * 2.0**127, math.inf),
        "rceil": (1.5 * 2.0**127, 193 / 128 * 2.0**127),
    }[rule]
    assert fake_quantise(block_with(largest), rule=rule)[0] == 1.5 * 2.0**127
    for bad in (refused, math.nan, -math.inf, torch.finfo(torch.float32).max):
        for call in (quantise, fake_quantise):
            with pytest.raises(ValueError, match=r"up_proj: has a value that is NaN"):
                call(block_with(1.0, bad), name="up_proj", rule=rule)


@pytest.mark.parametrize("pattern", [0x7FFFFFFF, -1, 0x7F800001, -0x7FFFFF, 0x7FC00000])
@pytest.mark.parametrize("scales", [None, torch.tensor([127], dtype=torch.uint8)])
def test_a_nan_of_any_bits_is_refused(pattern: int, scales: Tensor | None) -> None:
    block = torch.ones(BLOCK, dtype=torch.int32).float()
    block.view(torch.int32)[7] = pattern
    assert bool(block[7].isnan())
    for call in (quantise, fake_quantise):
        with pytest.raises(ValueError, match="gate_proj"):
            call(block, name="gate_proj", scales=scales)


def test_what_does_not_fit_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"experts\.0: .*\[4, 48\] is not a multiple of 32.*pad.*quant=none"):
        quantise(torch.ones(4, 48), name="experts.0")
    with pytest.raises(ValueError, match="'ceil' is not one of even, floor, rceil"):
        fake_quantise(torch.ones(32), rule="ceil")
    with pytest.raises(ValueError, match=r"has no scales torch\.uint8 \[4, 2\]"):
        quantise(torch.ones(4, 96), scales=torch.zeros(4, 2, dtype=torch.uint8))
    with pytest.raises(ValueError, match="scale byte 255"):
        fake_quantise(torch.ones(32), scales=torch.tensor([255], dtype=torch.uint8))


@settings(max_examples=60, deadline=None)
@given(values=one_range, byte=st.integers(0, 252))
def test_given_scales_are_used_as_they_are(values: list[float], byte: int) -> None:
    block = torch.tensor(values).to(torch.bfloat16).float()
    scales = torch.tensor([byte], dtype=torch.uint8)
    packed = quantise(block, scales=scales)
    assert (packed.scales.tolist(), codes_of(packed)) == ([byte], slow_block(block.tolist(), "even", byte)[1])
    assert torch.equal(bits(fake_quantise(block, scales=scales)), bits(dequantise(packed)))


@pytest.mark.parametrize("rule", RULES)
def test_a_checkpoints_bytes_are_kept_until_a_block_changes(rule: str) -> None:
    """All codes under any scale: the decoded values give the bytes back; a moved block gets those of the rule."""
    generator = torch.Generator().manual_seed(7)
    codes = torch.randint(0, 256, (40, 32), generator=generator, dtype=torch.uint8)
    codes[0] = 0x80  # a zero block with signs, whose scale says nothing
    codes[1] = 0x11  # .5 throughout: any rule would take a smaller scale
    scales = torch.randint(0, 250, (40, 2), generator=generator, dtype=torch.uint8)
    weight = dequantise(Packed(codes, scales))
    again = quantise(weight, rule=rule, scales=kept_scales(weight, scales, rule=rule))
    assert torch.equal(again.codes, codes) and torch.equal(again.scales, scales)
    assert not torch.equal(quantise(weight, rule=rule).scales, scales)
    assert torch.equal(bits(fake_quantise(weight, rule=rule)), bits(weight)), "the values are the rule's as well"
    weight[1] *= 1.3
    moved = quantise(weight, rule=rule, scales=kept_scales(weight, scales, rule=rule))
    assert torch.equal(moved.scales[1], quantise(weight, rule=rule).scales[1])
    assert torch.equal(bits(dequantise(moved)), bits(fake_quantise(weight, rule=rule)))
    assert torch.equal(moved.scales[[0, *range(2, 40)]], scales[[0, *range(2, 40)]])


@pytest.mark.parametrize("rule", RULES)
def test_it_can_be_traced_whole(rule: str) -> None:
    """One graph, no break, without data-dependent control flow: what `torch.compile` needs of the kernels."""
    weight = torch.randn(6, BLOCK, generator=torch.Generator().manual_seed(8)) * 0.02
    out, codes, scales = torch.empty_like(weight), *(torch.empty(6, n, dtype=torch.uint8) for n in (16, 1))
    torch.compile(mxfp4._fake_into, backend="eager", fullgraph=True)(weight, out, None, rule)
    torch.compile(mxfp4._pack_into, backend="eager", fullgraph=True)(weight, codes, scales, None, rule)
    packed = quantise(weight, rule=rule)
    assert torch.equal(out, dequantise(packed))
    assert torch.equal(codes, packed.codes) and torch.equal(scales, packed.scales)


def test_small_tensors_are_never_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compilation takes longer than all quantisation of a toy run."""
    called: list[object] = []

    def compiled(kernel: object) -> object:
        called.append(kernel)
        return kernel

    monkeypatch.setattr(mxfp4, "_compiled", compiled)
    weight = torch.ones(64, BLOCK)
    fake_quantise(weight)
    assert not called and mxfp4.COMPILE_FROM >= 1 << 24
    monkeypatch.setattr(mxfp4, "COMPILE_FROM", weight.numel())
    monkeypatch.setattr(mxfp4, "_COMPILED_CHUNK", weight.numel() // 2)
    monkeypatch.setattr(mxfp4, "_has_compiler", lambda device_type: True)
    fake_quantise(weight)
    assert called == [mxfp4._fake_into] * 2
    monkeypatch.setattr(mxfp4, "_has_compiler", lambda device_type: False)
    quantise(weight)
    assert called == [mxfp4._fake_into] * 2


SCALES = torch.full((1001, 3), 100, dtype=torch.uint8)


@pytest.mark.long
@pytest.mark.parametrize(("rule", "scales"), [("even", None), ("floor", None), ("even", SCALES)])
def test_the_compiled_kernels_give_the_same_bits(
    rule: str, scales: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that a compiled library leaves subnormals alone (linked with fast maths, it would flush them to zero)."""
    monkeypatch.setattr(mxfp4, "_COMPILED_CHUNK", 1000 * BLOCK)  # three pieces, and the last three rows eagerly
    weight = torch.randn(1001, 96, generator=torch.Generator().manual_seed(9)) * torch.logspace(-42, 37, 1001)[:, None]
    fast, slow = (quantise(weight, rule=rule, scales=scales, compiled=flag) for flag in (True, False))
    assert torch.equal(fast.codes, slow.codes) and torch.equal(fast.scales, slow.scales)
    values = fake_quantise(weight, rule=rule, scales=scales, compiled=True)
    assert torch.equal(bits(values), bits(dequantise(slow)))
    assert float(torch.tensor(1e-40) * 1) > 0
    weight[500, 50] = math.nan
    with pytest.raises(ValueError, match="NaN"):
        quantise(weight, rule=rule, scales=scales, compiled=True)


def test_the_rules_are_those_of_the_config() -> None:
    assert set(RULES) == set(SCALE_RULES)
