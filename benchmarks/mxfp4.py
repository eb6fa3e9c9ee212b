"""How fast the quantiser is, against a copy of the same FP32 weights: `python -m benchmarks.mxfp4 [MILLIONS]`.

In: nothing (16.8 M normal weights, unless told).  Out: a table of pack and fake-quantise (into a preallocated output),
eager and compiled, as multiples of the copy, and of torchao's `to_mx` where torchao is installed; exit code 1 where
compiled differs from eager in a bit, or takes more than `LIMIT` copies.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from train.policy.mxfp4 import fake_quantise, quantise

LIMIT = 3.5
REPEATS = 5


def seconds(work: Callable[[], object]) -> float:
    """The fastest of a few calls, after one that compiles and touches memory."""
    work()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def equal(weight: Tensor, out: Tensor) -> bool:
    """Whether compiled and eager give the same bits."""
    eager, compiled = (quantise(weight, compiled=flag) for flag in (False, True))
    same = torch.equal(eager.codes, compiled.codes) and torch.equal(eager.scales, compiled.scales)
    fake_quantise(weight, out, compiled=True)
    return same and torch.equal(out.view(torch.int32), fake_quantise(weight, compiled=False).view(torch.int32))


def torchao_pack(weight: Tensor) -> Callable[[], object] | None:
    """torchao's packer under the same rule, compiled; None where it is not installed."""
    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
    except ImportError:
        return None
    compiled = torch.compile(to_mx)
    return lambda: compiled(weight, torch.float4_e2m1fn_x2, 32, ScaleCalculationMode.EVEN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("millions", type=float, nargs="?", default=16.777216)
    rows = int(parser.parse_args().millions * 1e6) // 4096
    weight = torch.randn(rows, 4096, generator=torch.Generator().manual_seed(0)) * 0.02
    out = torch.empty_like(weight)
    if not equal(weight, out):
        print("compiled and eager differ")
        return 1
    copy = seconds(lambda: out.copy_(weight))
    found = {
        "pack, eager": seconds(lambda: quantise(weight, compiled=False)) / copy,
        "fake-quantise, eager": seconds(lambda: fake_quantise(weight, out, compiled=False)) / copy,
        "pack, compiled": seconds(lambda: quantise(weight, compiled=True)) / copy,
        "fake-quantise, compiled": seconds(lambda: fake_quantise(weight, out, compiled=True)) / copy,
    }
    other = torchao_pack(weight)
    if other is not None:
        found["pack, torchao to_mx compiled"] = seconds(other) / copy
    print(f"{weight.numel() / 1e6:.1f} M weights, {torch.get_num_threads()} threads, copy {copy * 1e3:.1f} ms")
    for name, times in found.items():
        print(f"{name:32} {times:6.1f} copies")
    return int(max(found["pack, compiled"], found["fake-quantise, compiled"]) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
