"""The one MXFP4 quantiser: what the trainer computes with, what is published, and what is exported.

In: a weight tensor [..., in].  Out: its serving bytes (`quantise`), the values those bytes stand for (`dequantise`),
or those values directly (`fake_quantise`), made usable in a forward pass by `straight_through`.
Called by `train.policy.qat` (forward), `train.weights` (publishing, export, proof) and `train.quantise`.

Format (OCP Microscaling 1.0): blocks of 32 along the input dimension; scale byte b stands for 2^(b-127), 255 for NaN;
an E2M1 code is a sign (bit 3) and an index into {0, .5, 1, 1.5, 2, 3, 4, 6}; two codes a byte, even index in the low
nibble.  It is always the bf16 copy of a weight that is quantised, also when the trainer computes in fp32: otherwise
trainer and exporter could round a weight near a boundary to different codes.

Scale rules, e = floor(log2 amax) - 2 + [mantissa(amax) passes a bound]; decoding does not depend on the rule:

    even   [m >= 1.75]   amax / 2^e in [3.5, 7) rounds to 4 or 6, never beyond: no clamp.  compressed-tensors, AMD Quark
    floor  [never]       amax / 2^e in [4, 8), clamped to 6.  OCP Microscaling 1.0
    rceil  [m > 1.5]     e = ceil(log2(amax / 6)), amax / 2^e in (3, 6], no clipping.  gpt-oss tools (triton_kernels)

Quantising a second time changes nothing with `even` and `floor`; with `rceil` it may change bytes, never values.

The arithmetic is written once.  It runs eagerly in pieces that fit the cache, or, over tensors so large that
a compilation of seconds pays, compiled for pieces of one size.  Both give the same bits (`benchmarks/mxfp4.py`).
"""

from __future__ import annotations

import functools
import itertools
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

BLOCK = 32
# Rule -> what is added to the bits of amax: it carries into the exponent exactly where the mantissa passes the bound.
RULES = {"even": 1 << 21, "floor": 0, "rceil": (1 << 22) - 1}
RULE = "even"

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_EXPONENT_MASK = 0x7F800000
_ONE_BITS = 0x3F800000
# The bits of 2^-129: at or below this amax every code is zero even under the smallest scale, 2^-127.
_LARGEST_ZERO_BITS = 1 << 20
# 6 * 2^(253 - 127) is beyond fp32 and bf16.
LARGEST_SCALE = 252
# Elements handled at a time: on a CPU all temporaries stay in the cache, elsewhere the peak memory is bounded.
_CPU_CHUNK = 1 << 18
_DEVICE_CHUNK = 1 << 26
_COMPILED_CHUNK = 1 << 20
# From so many elements on a kernel is compiled where a compiler exists: seconds once, a few milliseconds saved a call.
COMPILE_FROM = 1 << 24


class Packed(NamedTuple):
    """A quantised weight as it is served.

    - `codes`: uint8 [..., in/2], two E2M1 codes a byte, even input index in the low nibble.
    - `scales`: uint8 [..., in/32], biased exponents.
    """

    codes: Tensor
    scales: Tensor


@torch.no_grad()
def quantise(
    weight: Tensor,
    name: str = "weight",
    *,
    rule: str = RULE,
    scales: Tensor | None = None,
    compiled: bool | None = None,
) -> Packed:
    """Pack `weight` [..., in] (any float type, any device) into MXFP4 bytes.

    A block whose values all round to zero gets scale byte 127.  Negative values that round to zero keep their sign.

    - `rule`: one of `RULES`.  `scales` (uint8 [..., in/32], at most 252): these instead; larger values become 6.
    - `compiled`: whether by the compiled kernel, as far as whole pieces go; by default from `COMPILE_FROM` elements on.

    Raises `ValueError` naming the tensor (`name`) where `in` is not a multiple of 32, or a value is not finite in bf16
    or beyond the range (even: from 1.75 * 2^127 on, rceil: above 1.5 * 2^127).
    """
    _check(weight, name, rule, scales)
    *leading, inputs = weight.shape
    codes = torch.empty((*leading, inputs // 2), dtype=torch.uint8, device=weight.device)
    found = torch.empty((*leading, inputs // BLOCK), dtype=torch.uint8, device=weight.device)
    blocks, code_blocks, flat_scales = weight.reshape(-1, BLOCK), codes.view(-1, BLOCK // 2), found.view(-1, 1)
    given = None if scales is None else scales.reshape(-1, 1)
    for kernel, rows in _plan(_pack_into, blocks, compiled):
        own = None if given is None else given[rows]
        _check_range(kernel(blocks[rows], code_blocks[rows], flat_scales[rows], own, rule), name)
    return Packed(codes, found)


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
def fake_quantise(
    weight: Tensor,
    out: Tensor | None = None,
    name: str = "weight",
    *,
    rule: str = RULE,
    scales: Tensor | None = None,
    compiled: bool | None = None,
) -> Tensor:
    """`dequantise(quantise(weight))` bit for bit, without the bytes in between; in the type of `out` or `weight`.

    `out` (contiguous, the shape of `weight`, float32 or bfloat16) is written and returned where given; a large
    allocation costs as much as the arithmetic.  It may be `weight` itself.  Arguments and errors as of `quantise`.
    """
    _check(weight, name, rule, scales)
    if out is None:
        out = torch.empty(weight.shape, dtype=weight.dtype, device=weight.device)
    assert out.shape == weight.shape and out.is_contiguous(), f"{name}: out is {list(out.shape)}, or not contiguous"
    blocks, out_blocks = weight.reshape(-1, BLOCK), out.view(-1, BLOCK)
    in_place = out.data_ptr() == weight.data_ptr()
    given = None if scales is None else scales.reshape(-1, 1)
    for kernel, rows in _plan(_fake_into, blocks, False if in_place else compiled):
        _check_range(kernel(blocks[rows], out_blocks[rows], None if given is None else given[rows], rule), name)
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


def kept_scales(weight: Tensor, scales: Tensor, name: str = "weight", *, rule: str = RULE) -> Tensor:
    """Scale bytes [..., in/32] that leave a checkpoint's blocks as they were: `scales` where `weight` is still on their
    grid (as a decoded checkpoint is until a block is trained), those of `rule` elsewhere.

    The values are those of `rule` either way, because every rule holds what any scale holds exactly.
    """
    own = fake_quantise(weight, name=name, scales=scales).reshape(-1, BLOCK)
    unchanged = (own == weight.to(torch.bfloat16).to(own.dtype).view(-1, BLOCK)).all(dim=1).view(scales.shape)
    return torch.where(unchanged, scales, quantise(weight, name, rule=rule).scales)


def _check(weight: Tensor, name: str, rule: str, scales: Tensor | None) -> None:
    if rule not in RULES:
        raise ValueError(f"{name}: MXFP4 scale rule {rule!r} is not one of {', '.join(RULES)}")
    if not weight.is_floating_point():
        raise ValueError(f"{name}: MXFP4 quantises floating-point tensors, got {weight.dtype}")
    if weight.ndim == 0 or weight.shape[-1] % BLOCK:
        raise ValueError(
            f"{name}: the last dimension of {list(weight.shape)} is not a multiple of {BLOCK}, the MXFP4 block; pad it "
            "to one, or leave this tensor in bf16 (quant=none)"
        )
    if scales is None:
        return
    if scales.dtype != torch.uint8 or scales.shape != (*weight.shape[:-1], weight.shape[-1] // BLOCK):
        raise ValueError(f"{name}: {list(weight.shape)} has no scales {scales.dtype} {list(scales.shape)}")
    if scales.numel() and int(scales.max()) > LARGEST_SCALE:
        raise ValueError(f"{name}: has the scale byte {int(scales.max())}, a NaN or beyond the range of bf16")


def _check_range(bytes_: Tensor, name: str) -> None:
    if bytes_.numel() and int(bytes_.max()) > LARGEST_SCALE:
        raise ValueError(f"{name}: has a value that is NaN, infinite, or beyond the range of MXFP4 in bf16 (3e38)")


def _plan(
    kernel: Callable[..., Tensor], blocks: Tensor, compiled: bool | None
) -> Iterator[tuple[Callable[..., Tensor], slice]]:
    """Which kernel takes which rows.  Inside somebody else's graph it is traced as it is, in one."""
    rows = blocks.shape[0]
    if torch.compiler.is_compiling():
        return iter([(kernel, slice(0, rows))])
    if compiled is None:
        compiled = blocks.numel() >= COMPILE_FROM and _has_compiler(blocks.device.type)
    size = _COMPILED_CHUNK // BLOCK
    done = rows // size * size if compiled else 0
    fast = ((_compiled(kernel), slice(start, start + size)) for start in range(0, done, size))
    return itertools.chain(fast, ((kernel, part) for part in _chunks(blocks, done)))


@functools.cache
def _compiled(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """For pieces of one size: a kernel that does not know its length takes nearly twice as long."""
    compiled: Callable[..., Tensor] = torch.compile(kernel, dynamic=False, fullgraph=True)
    return compiled


@functools.cache
def _has_compiler(device_type: str) -> bool:
    return device_type != "cpu" or shutil.which("g++") is not None or shutil.which("clang++") is not None


def _chunks(blocks: Tensor, first: int = 0) -> Iterator[slice]:
    rows = (_CPU_CHUNK if blocks.device.type == "cpu" else _DEVICE_CHUNK) // BLOCK
    for start in range(first, blocks.shape[0], rows):
        yield slice(start, start + rows)


def _pack_into(blocks: Tensor, codes: Tensor, scales: Tensor, given: Tensor | None, rule: str) -> Tensor:
    """Fill `codes` [n, 16] and `scales` [n, 1] from `blocks` [n, 32]; the rule's bytes, which say what is too large."""
    values = _bf16_values(blocks.float())
    rule_bytes = _scale_bytes(blocks.float(), rule)
    bytes_ = rule_bytes if given is None else given.int()
    codes.copy_(_pack_nibbles(_codes(values, bytes_, clamped=given is not None or rule == "floor")))
    scales.copy_(bytes_)
    return rule_bytes


def _fake_into(blocks: Tensor, out: Tensor, given: Tensor | None, rule: str) -> Tensor:
    """Fill `out` [n, 32] with the decoded values of `blocks`; the rule's bytes, which say what is too large."""
    values = _bf16_values(blocks.float())
    rule_bytes = _scale_bytes(blocks.float(), rule)
    bytes_ = rule_bytes if given is None else given.int()
    magnitudes = values.abs().mul_(_inverse_scales(bytes_))
    if given is not None or rule == "floor":
        magnitudes.clamp_(max=6.0)
    out.copy_(torch.copysign(_round_to_grid(magnitudes).mul_(_scale_values(bytes_)), values))
    return rule_bytes


def _scale_bytes(values: Tensor, rule: str) -> Tensor:
    """The scale bytes [n, 1] (int32) of fp32 blocks [n, 32] rounded to bf16; above 252 where there is none.

    A NaN may come with any sign and mantissa: its bits are brought down to those of infinity first.
    """
    amax = values.abs().amax(dim=1, keepdim=True)
    bits = _round_bits((amax.view(torch.int32) & 0x7FFFFFFF).clamp_(max=_EXPONENT_MASK))
    biased = ((bits + RULES[rule]) >> 23) - 2
    # A block that rounds to zero throughout is an all-zero block, or quantising again would change its byte.
    return biased.clamp_(min=0).masked_fill_(bits <= _LARGEST_ZERO_BITS, 127)


def _bf16_values(values: Tensor) -> Tensor:
    """fp32 values rounded to bf16.  A compiler would leave a conversion to bf16 and back out, so it gets the integers
    (which make numbers of some NaNs; the scale bytes refuse those).
    """
    if torch.compiler.is_compiling():
        return _round_bits(values.view(torch.int32)).view(torch.float32)
    return values.to(torch.bfloat16).float()


def _round_bits(bits: Tensor) -> Tensor:
    """fp32 bits to the nearest that bf16 holds, ties to even."""
    return (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000


def _inverse_scales(bytes_: Tensor) -> Tensor:
    """2^(127 - b), always a normal number because b <= 252; multiplying by it is exact where it matters."""
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


def _codes(values: Tensor, bytes_: Tensor, *, clamped: bool) -> Tensor:
    """E2M1 codes with sign, int32 [n, 32].

    At 2^23 the last place of fp32 is one, so each sum below rounds to an integer, ties to even; the codes as a
    function of the magnitude m are the concave min(2m, m + 2, m/2 + 4), and its low 3 bits are the code.
    """
    m = values.abs().mul_(_inverse_scales(bytes_))
    if clamped:
        m.clamp_(max=6.0)
    code = torch.minimum(m * 2 + 2.0**23, m + (2.0**23 + 2))
    code = torch.minimum(code, m.mul_(0.5).add_(2.0**23 + 4)).view(torch.int32).bitwise_and_(7)
    return code.bitwise_or_((values.view(torch.int32) >> 28).bitwise_and_(8))


def _pack_nibbles(codes: Tensor) -> Tensor:
    """int32 codes [n, 32] to bytes [n, 16], even index in the low nibble.

    A compiler makes one vector loop of the sum, and of two strided halves a slow one; eagerly it is the other way.
    """
    if torch.compiler.is_compiling():
        pairs = codes.view(-1, BLOCK // 2, 2)
        return (pairs * torch.tensor([1, 16], dtype=torch.int32, device=codes.device)).sum(-1, dtype=torch.int32)
    return codes[:, 0::2] | (codes[:, 1::2] << 4)


def _byte_to_pair(device: torch.device) -> Tensor:
    """[256, 2]: the two values of each byte, low nibble first."""
    nibbles = torch.tensor([*E2M1, *(-value for value in E2M1)], dtype=torch.float32, device=device)
    return torch.stack((nibbles.repeat(16), nibbles.repeat_interleave(16)), dim=1)
