"""The policy as the trainer computes it: token log-probs out of packed rows, experts on MXFP4 values.

In: a Hugging Face causal MoE model and one micro-batch.  Out: log-probs (fp32) of the trained tokens only; logits of a
whole sequence never exist.  Used by `train.policy.policy`, which hands the model to DeepSpeed.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from train.policy.attention import packed_attention_arguments
from train.policy.mxfp4 import fake_quantise, straight_through


def attach_logprob_forward(model: nn.Module, *, chunk_tokens: int, temperature: float) -> None:
    """Replace the model's forward by `logprob_forward`, and its head's by `head_logprobs`.

    The modules themselves stay the Hugging Face ones, so that parameter names, AutoEP's layer patterns and ZeRO-3's
    hooks on submodules are those that everybody else sees.
    """
    head: Any = model.lm_head

    def head_forward(self: Any, rows: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return head_logprobs(self, rows, targets, chunk_tokens, temperature)

    head.forward = types.MethodType(head_forward, head)

    def forward(
        self: Any,
        input_ids: Tensor,
        position_ids: Tensor,
        boundaries: Tensor,
        predict_index: Tensor,
        target_ids: Tensor,
    ) -> tuple[Tensor, Tensor]:
        return logprob_forward(self, input_ids, position_ids, boundaries, predict_index, target_ids)

    model.forward = types.MethodType(forward, model)


def logprob_forward(
    model: Any,
    input_ids: Tensor,
    position_ids: Tensor,
    boundaries: Tensor,
    predict_index: Tensor,
    target_ids: Tensor,
) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies of `target_ids` [L], each predicted at `predict_index` [L] of one packed row [1, T].

    The head runs on the L predicting positions only.
    """
    arguments = packed_attention_arguments(boundaries)
    hidden = model.model(input_ids=input_ids, position_ids=position_ids, use_cache=False, **arguments)[0]
    found: tuple[Tensor, Tensor] = model.lm_head(hidden[0].index_select(0, predict_index), target_ids)
    return found


def head_logprobs(
    head: Any, predicting: Tensor, target_ids: Tensor, chunk_tokens: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies [L] of targets [L] from the hidden states [L, D] that predict them.

    Of the distribution at `temperature`, the one that is sampled; nats, fp32.  `chunk_tokens` logits at a time,
    recomputed in backward.  The loop is inside of the head's own forward: ZeRO 3 gathers a module's weights when it is
    called, and ranks that called it another number of times would wait for each other for ever.
    """
    logprobs, entropies = [], []
    for rows, targets in zip(predicting.split(chunk_tokens), target_ids.split(chunk_tokens), strict=True):
        arguments = (head.weight, head.bias, rows, targets, temperature)
        if torch.is_grad_enabled():
            chunk, entropy = checkpoint(_chunk_logprobs, *arguments, use_reentrant=False)
        else:
            chunk, entropy = _chunk_logprobs(*arguments)
        logprobs.append(chunk)
        entropies.append(entropy)
    return torch.cat(logprobs), torch.cat(entropies)


def _chunk_logprobs(
    weight: Tensor, bias: Tensor | None, rows: Tensor, targets: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    logits = linear(rows, weight, bias).float() / temperature
    normaliser = logits.logsumexp(dim=-1)
    logprobs = logits.gather(1, targets[:, None])[:, 0] - normaliser
    with torch.no_grad():
        probabilities = (logits - normaliser[:, None]).exp()
        entropy = normaliser - (probabilities * logits).sum(dim=-1)
    return logprobs, entropy


class ExpertQuantiser:
    """Makes AutoEP's expert modules compute on MXFP4 values of their master weights.

    The quantised copy is made once an optimiser step and kept (`invalidate` after a step); the gradient passes straight
    through to the master.  Parameter names do not change.
    """

    NAMES = ("w1", "w2", "w3")

    def __init__(self, model: nn.Module, *, rule: str, enabled: bool):
        from deepspeed.moe.ep_experts import GroupedExperts

        self.enabled, self.rule = enabled, rule
        self._cache: dict[int, Tensor] = {}
        self.modules = [module for module in model.modules() if isinstance(module, GroupedExperts)]
        if not self.modules:
            raise ValueError(
                "AutoEP converted no expert layer of this model; see expert_parallel in docs/architecture.md"
            )
        for module in self.modules:
            module.forward = types.MethodType(self._make_forward(), module)

    def invalidate(self) -> None:
        """The masters changed: the next forward quantises again."""
        self._cache.clear()

    def _values(self, weight: Tensor) -> Tensor:
        if not self.enabled:
            return weight
        cached = self._cache.get(id(weight))
        if cached is None:
            cached = fake_quantise(weight.detach(), rule=self.rule).to(weight.dtype)
            self._cache[id(weight)] = cached
        return straight_through(weight, cached)

    def _make_forward(self) -> Any:
        from deepspeed.moe import ep_experts

        quantiser = self

        def forward(self: Any, x: Tensor, num_tokens_per_expert: Tensor) -> Tensor:
            run = ep_experts._run_experts_grouped_mm if self.use_grouped_mm else ep_experts._run_experts_for_loop
            w1, w2, w3 = (quantiser._values(getattr(self, name)) for name in quantiser.NAMES)
            activation = (self.activation, self.activation_alpha, self.activation_limit)
            return run(w1, w2, w3, x, num_tokens_per_expert, *activation)

        return forward
