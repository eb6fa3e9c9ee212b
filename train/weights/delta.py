"""What changed of MXFP4 bytes since they were last published: whole blocks, and which.

In: a tensor's codes and scales, before and now.  Out: a patch that makes the one of the other.  Pure; used by
`train.weights.publish`, which checks both ends by digest.

A patch of a tensor with B blocks of which n changed: one bit a block, then codes (16 bytes) and scale (1 byte) of each
changed one, in order: B/8 + 17 n bytes against 17 B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from train.policy.mxfp4 import BLOCK

CODE_BYTES = BLOCK // 2


@dataclass(frozen=True, slots=True)
class Patch:
    """`mask`: U8 [B/8, rounded up], most significant bit first; `codes`: U8 [n, 16]; `scales`: U8 [n]."""

    mask: Tensor
    codes: Tensor
    scales: Tensor

    @property
    def num_bytes(self) -> int:
        return self.mask.numel() + self.codes.numel() + self.scales.numel()


def make_patch(old_codes: Tensor, old_scales: Tensor, codes: Tensor, scales: Tensor) -> Patch:
    """The blocks of `codes` [..., in/2] and `scales` [..., in/32] that differ from the old ones, all U8."""
    assert old_codes.shape == codes.shape and old_scales.shape == scales.shape
    blocks, flat = codes.reshape(-1, CODE_BYTES), scales.reshape(-1)
    changed = (old_codes.reshape(-1, CODE_BYTES) != blocks).any(-1) | (old_scales.reshape(-1) != flat)
    return Patch(torch.from_numpy(np.packbits(changed.numpy())), blocks[changed], flat[changed])


def apply_patch(old_codes: Tensor, old_scales: Tensor, patch: Patch) -> tuple[Tensor, Tensor]:
    """New codes and scales; the old ones are left alone.  Raises ValueError where the patch is of another tensor."""
    num_blocks = old_scales.numel()
    if patch.mask.numel() != -(-num_blocks // 8) or patch.codes.shape[1:] != (CODE_BYTES,):
        raise ValueError(f"a patch with {patch.mask.numel()} mask bytes is not of {num_blocks} blocks")
    changed = torch.from_numpy(np.unpackbits(patch.mask.numpy(), count=num_blocks).astype(bool))
    if int(changed.sum()) != len(patch.codes) or len(patch.codes) != len(patch.scales):
        raise ValueError(f"a patch names {int(changed.sum())} blocks and brings {len(patch.codes)}")
    codes, scales = old_codes.clone(), old_scales.clone()
    codes.view(-1, CODE_BYTES)[changed] = patch.codes
    scales.view(-1)[changed] = patch.scales
    return codes, scales
