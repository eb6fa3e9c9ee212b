"""The policy as the trainer computes it: token log-probs out of packed rows, experts on MXFP4 values.

In: a Hugging Face causal MoE model and one micro-batch.  Out: log-probs (fp32) of the trained tokens only; logits of a
whole sequence never exist.  Used by `train.policy.policy`, which hands the model to DeepSpeed.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from train.policy.attention import packed_attention_arguments
from train.policy.qat import QatOptions, QuantisedWeights
from train.weights import formats


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


class ExpertQuantiser(QuantisedWeights):
    """Makes AutoEP's expert modules compute on MXFP4 values of their master weights.  Parameter names do not change.

    Which weights those are is said once, by `formats.is_expert`: publisher, exporter and checkpoints go by it as well,
    and a model in which AutoEP's modules are not exactly these is refused.
    """

    NAMES = tuple(formats.EXPERT_PROJECTIONS)

    def __init__(self, model: nn.Module, options: QatOptions, *, enabled: bool):
        from deepspeed.moe.ep_experts import GroupedExperts

        super().__init__(options, enabled=enabled)
        modules = {name: module for name, module in model.named_modules() if isinstance(module, GroupedExperts)}
        if not modules:
            raise ValueError(
                "AutoEP converted no expert layer of this model; see expert_parallel in docs/architecture.md"
            )
        check_expert_names(model, modules, self.NAMES)
        for name, module in modules.items():
            module.forward = types.MethodType(self._make_forward(name), module)

    def _make_forward(self, prefix: str) -> Any:
        from deepspeed.moe import ep_experts

        quantiser = self

        def forward(self: Any, x: Tensor, num_tokens_per_expert: Tensor) -> Tensor:
            run = ep_experts._run_experts_grouped_mm if self.use_grouped_mm else ep_experts._run_experts_for_loop
            w1, w2, w3 = (quantiser.forward(f"{prefix}.{name}", getattr(self, name)) for name in ("w1", "w2", "w3"))
            activation = (self.activation, self.activation_alpha, self.activation_limit)
            return run(w1, w2, w3, x, num_tokens_per_expert, *activation)

        return forward


def check_expert_names(model: nn.Module, modules: Iterable[str], weights: Iterable[str]) -> None:
    """The weights that compute on MXFP4 values are those that are served in MXFP4.  Raises ValueError."""
    computed = {f"{module}.{weight}" for module in modules for weight in weights}
    served = {name for name, _ in model.named_parameters() if formats.is_expert(name)}
    if computed != served:
        raise ValueError(
            f"experts that are trained and experts that are served differ: {sorted(computed ^ served)[:3]} (names in "
            "train/weights/formats.py)"
        )
