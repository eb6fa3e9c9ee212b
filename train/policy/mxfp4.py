"""The one MXFP4 quantiser: what the trainer computes with, what is published, and what is exported.

In: a weight tensor [..., in].  Out: its serving bytes (`quantise`), the values those bytes stand for (`dequantise`),
or those values directly (`fake_quantise`), made usable in a forward pass by `straight_through`.
Called by `train.policy.policy` (forward), `train.weights` (publishing, export, proof) and `train.quantise`.

Format (OCP Microscaling 1.0): blocks of 32 along the input dimension; scale byte b stands for 2^(b-127), 255 for NaN;
an E2M1 code is a sign (bit 3) and an index into {0, .5, 1, 1.5, 2, 3, 4, 6}; two codes a byte, even index in the low
nibble.  It is always the bf16 copy of a weight that is quantised, also when the trainer computes in fp32: otherwise
trainer and exporter could round a weight near a boundary to different codes.

Scale rules (`quant.rule`), with m the mantissa of amax in [1, 2); a decoder does not depend on them:

    even    e = floor(log2 amax) - 2 + [m >= 1.75]     compressed-tensors, AMD Quark; amax / 2^e in [3.5, 7): no clamp
    floor   e = floor(log2 amax) - 2                   OCP's minimum; in [4, 8), what is above 6 is clamped to it
    rceil   e = floor(log2 amax) - 2 + [m > 1.5]       ceil(log2(amax / 6)), gpt-oss tools; in (3, 6]: no clamp

Quantising decoded values a second time gives the same bytes under even and floor.  Under rceil a block whose largest
value became 3 moves to the next smaller scale: other bytes, the same values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

BLOCK = 32
RULE = "even"
# What is added to the bits of amax, so that they carry into the exponent exactly where the rule rounds the scale up.
RULES = {"even": 1 << 21, "floor": 0, "rceil": (1 << 22) - 1}

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_EXPONENT_MASK = 0x7F800000
_ONE_BITS = 0x3F800000
# At or below this amax every code is zero even under the smallest scale, 2^-127.
_LARGEST_ZERO_AMAX = 2.0**-129
# From here on amax would round to 2^128, which neither fp32 nor bf16 can hold.
_TOO_LARGE_AMAX = 1.75 * 2.0**127
_LARGEST = _E2M1[-1]
# Elements handled at a time: on a CPU all temporaries stay in the cache, elsewhere the peak memory is bounded.
_CPU_CHUNK = 1 << 18
_DEVICE_CHUNK = 1 << 26


class Packed(NamedTuple):
    """A quantised weight as it is served.

    - `codes`: uint8 [..., in/2], two E2M1 codes a byte, even input index in the low nibble.
    - `scales`: uint8 [..., in/32], biased exponents.
    """

    codes: Tensor
    scales: Tensor


@torch.no_grad()
def quantise(weight: Tensor, name: str = "weight", rule: str = RULE) -> Packed:
    """Pack `weight` [..., in] (any float type, any device) into MXFP4 bytes.

    A block whose values all round to zero gets scale byte 127.  Negative values that round to zero keep their sign.
    Raises `ValueError` naming the tensor (`name`) where `in` is not a multiple of 32, or a value is not finite in bf16
    or at least 1.75 * 2^127 (it would decode to infinity).
    """
    _check_shape(weight, name)
    *leading, inputs = weight.shape
    codes = torch.empty((*leading, inputs // 2), dtype=torch.uint8, device=weight.device)
    scales = torch.empty((*leading, inputs // BLOCK), dtype=torch.uint8, device=weight.device)
    blocks, code_blocks, flat_scales = weight.reshape(-1, BLOCK), codes.view(-1, BLOCK // 2), scales.view(-1, 1)
    for rows in _chunks(blocks):
        values = blocks[rows].to(torch.bfloat16).float()
        bytes_ = _scale_bytes(values, name, rule)
        code_blocks[rows] = _pack_nibbles(_codes(values, bytes_))
        flat_scales[rows] = bytes_.to(torch.uint8)
    return Packed(codes, scales)


@torch.no_grad()
def dequantise(packed: Packed, dtype: torch.dtype = torch.float32) -> Tensor:
    """The values [..., in] that the bytes stand for, exactly, in `dtype` (float32 or bfloat16).

    Scale byte 255 gives a block of NaN.  Raises `ValueError` where codes and scales do not belong together.
    """
    codes, scales = packed
    if codes.dtype != torch.uint8 or scales.dtype != torch.uint8:
        raise ValueError(f"MXFP4 codes and scales are uint8, got {codes.dtype} and {scales.dtype}")
    if codes.shape[:-1] != scales.shape[:-1] or codes.shape[-1] * 2 != scales.shape[-1] * BLOCK:
        raise ValueError(f"codes {list(codes.shape)} and scales {list(scales.shape)} do not belong together")
    out = torch.empty((*codes.shape[:-1], codes.shape[-1] * 2), dtype=dtype, device=codes.device)
    code_blocks, flat_scales, blocks = codes.reshape(-1, BLOCK // 2), scales.reshape(-1, 1), out.view(-1, BLOCK)
    pairs = _byte_to_pair(codes.device)
    for rows in _chunks(blocks):
        values = pairs.index_select(0, code_blocks[rows].reshape(-1).int()).view(-1, BLOCK)
        blocks[rows] = values * _scale_values(flat_scales[rows].int())
    return out


@torch.no_grad()
def fake_quantise(weight: Tensor, out: Tensor | None = None, name: str = "weight", rule: str = RULE) -> Tensor:
    """`dequantise(quantise(weight))` bit for bit, without the bytes in between; in the type of `out` or `weight`.

    `out` (contiguous, the shape of `weight`, float32 or bfloat16) is written and returned where given; a large
    allocation costs as much as the arithmetic.  It may be `weight` itself.  Raises as `quantise` does.
    """
    _check_shape(weight, name)
    if out is None:
        out = torch.empty(weight.shape, dtype=weight.dtype, device=weight.device)
    assert out.shape == weight.shape and out.is_contiguous(), f"{name}: out is {list(out.shape)}, or not contiguous"
    blocks, out_blocks = weight.reshape(-1, BLOCK), out.view(-1, BLOCK)
    for rows in _chunks(blocks):
        values = blocks[rows].to(torch.bfloat16).float()
        bytes_ = _scale_bytes(values, name, rule)
        rounded = _round_to_grid(_magnitudes(values, bytes_))
        out_blocks[rows] = torch.copysign(rounded.mul_(_scale_values(bytes_)), values)
    return out


def straight_through(weight: Tensor, quantised: Tensor) -> Tensor:
    """`quantised` in the forward pass, the identity towards `weight` in the backward pass, everywhere.

    `quantised` is what `fake_quantise(weight)` gave, computed once an optimiser step and kept by the caller.
    Both have one shape; their types may differ (bf16 compute over fp32 masters).
    """
    assert weight.shape == quantised.shape, f"weight {list(weight.shape)}, quantised {list(quantised.shape)}"
    result: Tensor = _StraightThrough.apply(weight, quantised)
    return result


class _StraightThrough(torch.autograd.Function):
    """Identity gradient: E2M1 rounding has zero derivative almost everywhere, and masters must go on moving."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, quantised: Tensor) -> Tensor:
        ctx.weight_dtype = weight.dtype
        return quantised.view_as(quantised)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return grad_outputs[0].to(ctx.weight_dtype), None


def _check_shape(weight: Tensor, name: str) -> None:
    if not weight.is_floating_point():
        raise ValueError(f"{name}: MXFP4 quantises floating-point tensors, got {weight.dtype}")
    if weight.ndim == 0 or weight.shape[-1] % BLOCK:
        raise ValueError(f"{name}: the last dimension of {list(weight.shape)} is not a multiple of {BLOCK}")


def _chunks(blocks: Tensor) -> Iterator[slice]:
    rows = (_CPU_CHUNK if blocks.device.type == "cpu" else _DEVICE_CHUNK) // BLOCK
    for start in range(0, blocks.shape[0], rows):
        yield slice(start, start + rows)


def _scale_bytes(values: Tensor, name: str, rule: str) -> Tensor:
    """The scale bytes [n, 1] (int32) of blocks [n, 32] (fp32 holding bf16 values)."""
    if rule not in RULES:
        raise ValueError(f"quant.rule={rule!r} is not one of {', '.join(RULES)}")
    amax = values.abs().amax(dim=1, keepdim=True)
    # Written so that NaN fails it too.
    if not bool((amax < _TOO_LARGE_AMAX).all()):
        raise ValueError(f"{name}: has a value that is NaN, infinite, or beyond the range of MXFP4 in bf16 (3e38)")
    biased = ((amax.view(torch.int32) + RULES[rule]) >> 23) - 2
    # A block that rounds to zero throughout is an all-zero block, or quantising again would change its byte.
    return biased.clamp_(min=0).masked_fill_(amax <= _LARGEST_ZERO_AMAX, 127)


def _magnitudes(values: Tensor, bytes_: Tensor) -> Tensor:
    """|values| in units of their block's scale; above 6 (rule floor only) they are 6."""
    return values.abs().mul_(_inverse_scales(bytes_)).clamp_(max=_LARGEST)


def _inverse_scales(bytes_: Tensor) -> Tensor:
    """2^(127 - b), always a normal number because b <= 253; multiplying by it is exact where it matters."""
    return ((254 - bytes_) << 23).view(torch.float32)


def _scale_values(bytes_: Tensor) -> Tensor:
    """2^(b - 127) from int32 bytes; 0 is the subnormal 2^-127 and 255 is NaN."""
    bits = bytes_ << 23
    bits.masked_fill_(bytes_ == 0, 0x00400000).masked_fill_(bytes_ == 255, 0x7FC00000)
    return bits.view(torch.float32)


def _round_to_grid(magnitudes: Tensor) -> Tensor:
    """Round magnitudes in [0, 7) to {0, .5, 1, 1.5, 2, 3, 4, 6}, ties to the even code; destroys its input.

    The grid's step is half the value's power of two, and .5 below 1.  Adding and subtracting a constant whose last
    place is that step makes the hardware's round-to-nearest-even do the work.
    """
    power = (magnitudes.view(torch.int32) & _EXPONENT_MASK).clamp_(min=_ONE_BITS).view(torch.float32)
    magic = power.mul_(1.5 * 2.0**22)
    return magnitudes.add_(magic).sub_(magic)


def _codes(values: Tensor, bytes_: Tensor) -> Tensor:
    """E2M1 codes with sign, int32 [n, 32].

    At 2^23 the last place of fp32 is one, so each sum below rounds to an integer, ties to even; the codes as a
    function of the magnitude m are the concave min(2m, m + 2, m/2 + 4), and its low 3 bits are the code.
    """
    m = _magnitudes(values, bytes_)
    code = torch.minimum(m * 2 + 2.0**23, m + (2.0**23 + 2))
    code = torch.minimum(code, m.mul_(0.5).add_(2.0**23 + 4)).view(torch.int32).bitwise_and_(7)
    return code.bitwise_or_((values.view(torch.int32) >> 28).bitwise_and_(8))


def _pack_nibbles(codes: Tensor) -> Tensor:
    """int32 codes [n, 32] to bytes [n, 16], even index in the low nibble."""
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).to(torch.uint8)


def _byte_to_pair(device: torch.device) -> Tensor:
    """[256, 2]: the two values of each byte, low nibble first."""
    nibbles = torch.tensor([*_E2M1, *(-value for value in _E2M1)], dtype=torch.float32, device=device)
    return torch.stack((nibbles.repeat(16), nibbles.repeat_interleave(16)), dim=1)
