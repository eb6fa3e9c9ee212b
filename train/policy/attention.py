"""Attention over packed rows: every sequence attends to itself alone, and no mask of the size T x T is made.

In: queries, keys and values [1, heads, T, head_dim] of one packed row, and the sequences' boundaries.  Out: the
attention of each sequence.  `train.policy.policy` loads models with `attn_implementation=register()`, and
`train.policy.model` passes `packed_attention_arguments(boundaries)` to the model's forward, whose keyword arguments
transformers hands down to every attention layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

NAME = "jointrl_packed"
