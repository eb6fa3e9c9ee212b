"""Attention over packed rows: every sequence attends to itself alone, and no mask of T x T is ever made.

In: queries, keys and values [1, heads, T, head_dim] of one packed row, and where its sequences begin.  Out: causal
attention within each sequence, [1, T, heads, head_dim].  `train.policy.policy` loads models with
`attn_implementation=register()`; `train.policy.model` passes `packed_attention_arguments(boundaries)` to the model's
forward, and transformers hands keyword arguments down to every attention layer.

Neighbours of equal length share one kernel call on views, without a copy; `pack` puts long sequences first, so equal
ones are neighbours.  Gathering similar lengths into padded batches was measured, and is slower: the copies cost more
than the calls.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

NAME = "jointrl_packed"
# Features of some architectures that this attention does not compute, under transformers' keyword names.
_UNSUPPORTED = ("s_aux", "softcap", "position_bias")


def register() -> str:
    """Make the attention known to transformers (any number of times); returns its name for `attn_implementation`."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, packed_attention)
    AttentionMaskInterface.register(NAME, _no_mask)
    return NAME


def packed_attention_arguments(boundaries: Tensor) -> dict[str, Any]:
    """Keyword arguments for a model's forward, from cumulative boundaries, int [n + 1]; computed once for all layers.

    Example: boundaries [0, 5, 10, 12] give ``{"packed_runs": [(5, 2), (2, 1)]}``: two sequences of 5, one of 2.
    """
    lengths = [end - start for start, end in pairwise(boundaries.tolist())]
    return {"packed_runs": [(length, len(list(equal))) for length, equal in groupby(lengths)]}


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_runs: list[tuple[int, int]] | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature; grouped queries share keys.  Positions are in the rotary embedding already.

    Raises `ValueError` where sequences would leak into each other (no boundaries, a mask, boundaries of another row)
    or the architecture asks for something that is not computed here.
    """
    if packed_runs is None or attention_mask is not None or query.shape[0] != 1:
        raise ValueError(f"{NAME} attention takes one packed row with packed_attention_arguments and no mask")
    if sum(length * count for length, count in packed_runs) != query.shape[2]:
        raise ValueError(f"{NAME} attention: boundaries are of another row than these {query.shape[2]} tokens")
    if sliding_window is not None and any(length > sliding_window for length, _ in packed_runs):
        raise ValueError(f"{NAME} attention has no sliding window, and a sequence is longer than {sliding_window}")
    for name in _UNSUPPORTED:
        if unused.get(name) is not None:
            raise ValueError(f"{NAME} attention does not compute {name!r}, which this architecture asks for")
    sizes = [length * count for length, count in packed_runs]
    outputs = []
    by_run = [torch.split(heads, sizes, dim=2) for heads in (query, key, value)]
    for (length, count), *heads in zip(packed_runs, *by_run, strict=True):
        # [1, heads, count * length, dim] -> [count, heads, length, dim]
        q, k, v = (part[0].unflatten(1, (count, length)).transpose(0, 1) for part in heads)
        output = scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=q.shape[1] != k.shape[1]
        )
        outputs.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)[None], None


def _no_mask(*_: Any, attention_mask: Tensor | None = None, **__: Any) -> None:
    """The boundaries say everything; a mask given to the model would be dropped in silence, so it is refused."""
    if attention_mask is not None:
        raise ValueError(f"{NAME} attention takes no attention mask: leave it out, the boundaries say everything")
