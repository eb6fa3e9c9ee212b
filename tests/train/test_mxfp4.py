"""The MXFP4 quantiser against independent decoders, a slow reference, and the faults that others have reported."""

from __future__ import annotations

import math

import pytest
import torch
from compressed_tensors.compressors.mx_utils import decompress_mx_scale
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization.utils.mxfp_utils import generate_mx_scales
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from train.policy.mxfp4 import BLOCK, RULE, Packed, dequantise, fake_quantise, quantise, straight_through

LARGEST = 223 / 128 * 2.0**127  # the last bf16 value below 1.75 * 2^127, from where on rounding would overflow
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def decode_by_definition(packed: Packed) -> list[float]:
    """The OCP definition, byte by byte, in plain Python; the flat values of every block."""
    codes, scales = packed.codes.flatten().tolist(), packed.scales.flatten().tolist()
    values: list[float] = []
    for index in range(2 * len(codes)):
        code = codes[index // 2] & 15 if index % 2 == 0 else codes[index // 2] >> 4
        scale = scales[index // 32]
        if scale == 255:
            values.append(math.nan)
            continue
        magnitude = math.ldexp(E2M1[code & 7], scale - 127)
        values.append(-magnitude if code & 8 else magnitude)
    return values


def decode_by_library(packed: Packed) -> Tensor:
    """compressed-tensors' own unpacking of `mxfp4-pack-quantized`."""
    rows, half = packed.codes.reshape(-1, packed.codes.shape[-1]).shape
    values = unpack_fp4_from_uint8(packed.codes.reshape(rows, half), rows, 2 * half, dtype=torch.float32)
    scales = decompress_mx_scale(packed.scales.reshape(rows, -1)).float()
    return (values.view(rows, -1, BLOCK) * scales[..., None]).view(*packed.codes.shape[:-1], 2 * half)


def slow_block(values: list[float]) -> tuple[int, list[int]]:
    """Scale byte and codes of one block of bf16 values, by comparing distances; exact in double precision."""
    signs = [8 if math.copysign(1.0, value) < 0 else 0 for value in values]
    amax = max(abs(value) for value in values)
    if amax == 0:
        return 127, signs
    mantissa, exponent = math.frexp(amax)  # mantissa in [0.5, 1)
    byte = max(exponent - 1 - 2 + (2 * mantissa >= 1.75) + 127, 0)
    codes = []
    for value in values:
        magnitude = math.ldexp(abs(value), 127 - byte)
        codes.append(min(range(8), key=lambda code: (abs(E2M1[code] - magnitude), code % 2)))
    if not any(codes):
        byte = 127
    return byte, [code + sign for code, sign in zip(codes, signs, strict=True)]


def codes_of(packed: Packed) -> list[int]:
    return [nibble for byte in packed.codes.flatten().tolist() for nibble in (byte & 15, byte >> 4)]


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.int32 if tensor.dtype == torch.float32 else torch.int16)


def block_with(*values: float) -> Tensor:
    block = torch.zeros(BLOCK)
    block[: len(values)] = torch.tensor(values)
    return block


@pytest.mark.parametrize(
    ("amax", "exponent"), [(4, 0), (5, 0), (6, 0), (6.5, 0), (6.96875, 0), (7, 1), (7.5, 1), (8, 1)]
)
def test_the_scale_rule_is_even(amax: float, exponent: int) -> None:
    """F43: floor, even and ceil rules differ for amax in (6, 8); ours rounds up from 7."""
    assert RULE == "even"
    packed = quantise(block_with(amax, -1.0))
    assert packed.scales.tolist() == [127 + exponent]
    assert packed.scales.tolist() == generate_mx_scales(torch.tensor([float(amax)])).int().tolist()
    assert torch.equal(fake_quantise(block_with(amax, -1.0)), dequantise(packed))
    assert float(dequantise(packed)[0]) == {4: 4, 5: 4, 6: 6, 6.5: 6, 6.96875: 6, 7: 8, 7.5: 8, 8: 8}[amax]


def test_ties_go_to_the_even_code() -> None:
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0]
    packed = quantise(block_with(*ties, *(-tie for tie in ties)))
    expected = [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0]
    assert dequantise(packed)[:16].tolist() == [*expected, *(-value for value in expected)]
    assert codes_of(packed)[:16] == [0, 2, 2, 4, 4, 6, 6, 7, 8, 10, 10, 12, 12, 14, 14, 15]


def test_the_low_nibble_is_the_even_index() -> None:
    """F44: every code at a position of its own, so that another nibble order cannot decode to the same values."""
    markers = E2M1 + [-value for value in E2M1]
    block = torch.tensor([*markers, *reversed(markers)])
    packed = quantise(block)
    assert packed.codes[:2].tolist() == [0x10, 0x32]
    assert decode_by_definition(packed) == block.tolist()
    assert torch.equal(decode_by_library(packed), block)


@pytest.mark.parametrize("shape", [(64, 64), (64, 96), (96, 64), (3, 5, 96), (1, 32), (2, 7, 3, 32), (32,)])
def test_both_independent_decoders_agree_on_every_shape(shape: tuple[int, ...]) -> None:
    """F45, F46: orientation (square and not) and block order, by decoders that know nothing of the encoder."""
    weight = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) - 100
    block_index = torch.arange(math.prod(shape) // BLOCK).repeat_interleave(BLOCK).reshape(shape)
    weight = weight * torch.exp2((block_index % 11).float() - 5)
    packed = quantise(weight)
    assert packed.codes.shape == (*shape[:-1], shape[-1] // 2) and packed.codes.dtype == torch.uint8
    assert packed.scales.shape == (*shape[:-1], shape[-1] // 32) and packed.scales.dtype == torch.uint8
    values = dequantise(packed)
    assert values.shape == weight.shape
    assert decode_by_definition(packed) == values.flatten().tolist()
    assert torch.equal(decode_by_library(packed), values)
    assert torch.equal(bits(fake_quantise(weight)), bits(values))
    assert float((values - weight).abs().max() / weight.abs().max()) < 0.2


def test_blocks_run_along_the_input_dimension() -> None:
    """F45: W and its transpose are not each other's bytes, square or not."""
    weight = torch.arange(64.0 * 64).reshape(64, 64)
    assert not torch.equal(dequantise(quantise(weight.T.contiguous())).T, dequantise(quantise(weight)))
    inputs = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    by_hand = inputs @ torch.tensor(decode_by_definition(quantise(weight))).reshape(64, 64).T
    assert torch.equal(inputs @ fake_quantise(weight).T, by_hand)


def test_each_block_keeps_its_own_scale() -> None:
    """F46: block k of an odd shape is the same pattern times 2^k."""
    pattern = torch.tensor([6.0, 3.0, -1.5, 0.5] * 8)
    powers = torch.arange(45) - 20
    weight = (pattern * torch.exp2(powers.float())[:, None]).reshape(3, 5, 96)
    packed = quantise(weight)
    assert packed.scales.flatten().tolist() == (powers + 127).tolist()
    assert torch.equal(dequantise(packed), weight)


def test_non_contiguous_input_is_read_in_its_own_order() -> None:
    weight = torch.randn(64, 40, generator=torch.Generator().manual_seed(1)).T
    assert torch.equal(dequantise(quantise(weight)), dequantise(quantise(weight.contiguous())))
    assert torch.equal(fake_quantise(weight), fake_quantise(weight.contiguous()))


def test_a_block_does_not_depend_on_its_neighbours() -> None:
    """F50: the same block alone and at position 100, also across the chunks in which the work is done."""
    block = torch.randn(BLOCK, generator=torch.Generator().manual_seed(2)) * 0.02
    many = torch.randn(9000, BLOCK, generator=torch.Generator().manual_seed(3))
    many[[100, 8191, 8192, 8999]] = block
    alone, together = quantise(block), quantise(many)
    for position in (100, 8191, 8192, 8999):
        assert torch.equal(together.codes[position], alone.codes)
        assert torch.equal(together.scales[position], alone.scales)
        assert torch.equal(fake_quantise(many)[position], fake_quantise(block))


def test_edges_of_the_range() -> None:
    """F49: zero blocks, tiny and huge amax, NaN scale byte."""
    zero = quantise(torch.zeros(BLOCK))
    assert zero.scales.tolist() == [127] and dequantise(zero).tolist() == [0.0] * BLOCK
    for exponent, byte in [(-120, 5), (-125, 0), (-126, 0), (-127, 0), (-128, 0)]:
        tiny = quantise(block_with(2.0**exponent, -(2.0**exponent)))
        assert tiny.scales.tolist() == [byte]
        assert dequantise(tiny)[:2].tolist() == [2.0**exponent, -(2.0**exponent)]
    vanishing = quantise(block_with(2.0**-130))
    assert dequantise(vanishing).tolist() == [0.0] * BLOCK and vanishing.scales.tolist() == [127]
    huge = quantise(block_with(LARGEST, -(2.0**127)))
    assert huge.scales.tolist() == [252] and dequantise(huge)[:2].tolist() == [6 * 2.0**125, -(2.0**127)]
    nan = Packed(torch.zeros(16, dtype=torch.uint8), torch.tensor([255], dtype=torch.uint8))
    assert bool(dequantise(nan).isnan().all()) and bool(dequantise(nan, torch.bfloat16).isnan().all())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, torch.finfo(torch.float32).max, 1.75 * 2.0**127])
def test_values_that_mxfp4_cannot_hold_are_refused_by_name(bad: float) -> None:
    weight = torch.ones(4, 64)
    weight[2, 33] = bad
    with pytest.raises(ValueError, match=r"layers\.3\.up_proj"):
        quantise(weight, name="layers.3.up_proj")
    with pytest.raises(ValueError, match=r"layers\.3\.up_proj"):
        fake_quantise(weight, name="layers.3.up_proj")


@pytest.mark.parametrize("weight", [torch.ones(4, 48), torch.tensor(1.0), torch.ones(32, dtype=torch.int64)])
def test_shapes_and_types_that_do_not_fit_are_refused_by_name(weight: Tensor) -> None:
    with pytest.raises(ValueError, match="router"):
        quantise(weight, name="router")
    with pytest.raises(ValueError, match="router"):
        fake_quantise(weight, name="router")


def test_codes_and_scales_of_different_tensors_are_refused() -> None:
    packed = quantise(torch.ones(4, 64))
    with pytest.raises(ValueError, match="belong together"):
        dequantise(Packed(packed.codes, packed.scales.T.contiguous()))
    with pytest.raises(ValueError, match="uint8"):
        dequantise(Packed(packed.codes, packed.scales.to(torch.bfloat16)))


def test_every_bf16_value_against_the_slow_reference() -> None:
    """All 2^16 bit patterns, 16 a block, beside a fixed amax of 6; values above it set the scale themselves."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    values = patterns[patterns.abs() <= LARGEST].reshape(-1, 1)
    assert len(values) == 2 * (0x7F80 - 32)
    blocks = torch.cat((values, torch.full_like(values, -6.0), values.new_zeros(len(values), 30)), dim=1)
    packed, fake = quantise(blocks), fake_quantise(blocks)
    assert torch.equal(bits(dequantise(packed)), bits(fake))
    scales, first, second = packed.scales[:, 0].tolist(), (packed.codes[:, 0] & 15).tolist(), packed.codes[:, 0] >> 4
    for row, value in enumerate(values[:, 0].tolist()):
        byte, codes = slow_block([value, -6.0])
        assert (scales[row], first[row], int(second[row])) == (byte, codes[0], codes[1]), value


bf16_values = st.integers(0, 2**16 - 1).map(
    lambda pattern: float(torch.tensor(pattern - 2**15, dtype=torch.int16).view(torch.bfloat16))
)
blocks_of_any_value = st.lists(bf16_values.filter(lambda value: abs(value) <= LARGEST), min_size=BLOCK, max_size=BLOCK)
blocks_of_one_range = st.builds(
    lambda values, exponent: [value * 2.0**exponent for value in values],
    st.lists(st.integers(-512, 512).map(lambda i: i / 64), min_size=BLOCK, max_size=BLOCK),
    st.integers(-125, 120),
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(blocks_of_any_value, blocks_of_one_range))
def test_random_blocks_against_the_slow_reference(values: list[float]) -> None:
    block = torch.tensor(values).to(torch.bfloat16)
    packed = quantise(block)
    byte, codes = slow_block(block.float().tolist())
    assert packed.scales.tolist() == [byte]
    assert codes_of(packed) == codes
    decoded = dequantise(packed)
    assert decode_by_definition(packed) == decoded.tolist()
    assert torch.equal(bits(fake_quantise(block.float())), bits(decoded))
    assert torch.equal(bits(fake_quantise(block)), bits(decoded.to(torch.bfloat16)))
    assert torch.equal(fake_quantise(block).float(), decoded), "every value is exact in bf16"
    again = quantise(decoded)
    assert torch.equal(again.codes, packed.codes) and torch.equal(again.scales, packed.scales)


def test_it_is_the_bf16_copy_that_is_quantised() -> None:
    """fp32 just above a tie is a tie in bf16: trainer in fp32 and exporter from bf16 must agree."""
    weight = torch.randn(64, 256, generator=torch.Generator().manual_seed(4))
    weight[0, :2] = torch.tensor([2.5001, 6.0])
    for master in (weight, weight.to(torch.bfloat16)):
        packed = quantise(master)
        assert torch.equal(packed.codes, quantise(weight).codes)
        assert torch.equal(fake_quantise(master).float(), dequantise(packed))
    assert dequantise(quantise(block_with(2.5001, 6.0)))[0] == 2.0
    assert torch.equal(dequantise(quantise(weight), torch.bfloat16).float(), dequantise(quantise(weight)))


def test_fake_quantise_writes_where_it_is_told() -> None:
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(5))
    expected = fake_quantise(weight)
    out = torch.empty(8, 64, dtype=torch.bfloat16)
    assert fake_quantise(weight, out=out) is out and torch.equal(out.float(), expected)
    assert fake_quantise(weight).dtype == torch.float32
    in_place = weight.clone()
    assert torch.equal(fake_quantise(in_place, out=in_place), expected)
    assert not torch.equal(weight, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_is_the_identity_everywhere(dtype: torch.dtype) -> None:
    """F48: also for zero blocks and for the largest value; the forward values are the quantised ones."""
    master = torch.cat((torch.randn(3, 32, generator=torch.Generator().manual_seed(6)), torch.zeros(1, 32)))
    master.requires_grad_()
    quantised = fake_quantise(master).to(dtype)
    served = straight_through(master, quantised)
    assert torch.equal(served.float(), dequantise(quantise(master))) and served.dtype == dtype
    weights = torch.arange(128.0).reshape(4, 32).to(dtype)
    (served * weights).sum().backward()
    assert master.grad is not None and master.grad.dtype == torch.float32
    assert torch.equal(master.grad, weights.float())
    assert quantised.grad is None


def test_the_master_moves_below_one_code_step() -> None:
    """Updates far smaller than a code step accumulate in the master (its bytes change only at a boundary)."""
    master = torch.nn.Parameter(torch.full((1, 32), 1.0))
    optimiser = torch.optim.SGD([master], lr=1e-3)
    for _ in range(10):
        optimiser.zero_grad()
        straight_through(master, fake_quantise(master)).sum().backward()
        optimiser.step()
    assert torch.allclose(master, torch.tensor(0.99))
    assert torch.equal(fake_quantise(master), torch.ones(1, 32))
