"""Replaying the engine's routes through AutoEP's routers, and what the load of the experts looks like.

In: a micro-batch with the experts that the engine chose (`MicroBatch.routes`).  Out: a forward pass through just those
experts, weighted by the trainer's own scores, so that the router still gets its gradient: with I the engine's choice
and s the trainer's scores, g_i = s_i / sum_{j in I} s_j where the model normalises (arXiv 2510.11370).  Used by
`train.policy.policy`; the counts are pure functions.

Where a row has no routes (the last token of a sequence, which predicts nothing; a dummy) the trainer's own choice
stands.  AutoEP never updates a router's bias, so none moves in reinforcement learning; a bias that the model brings
enters its own choice only.
"""

from __future__ import annotations

import contextlib
import re
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from envs.types import Routes
from rollouts.routes import decode

ABSENT = -1
_LAYER = re.compile(r"\.layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class RouteShape:
    """What routes have to look like: layer numbers in order, experts a token, experts in all."""

    layers: tuple[int, ...]
    top_k: int
    num_experts: int


def check_routes(ids: np.ndarray, layers: Sequence[int], shape: RouteShape, where: str) -> None:
    """Refuse routes [positions, layers, top_k] that no router of this model can have made.

    Raises ValueError, naming `where`, for layers in another order or number, ids out of range, or one id twice.
    """
    if tuple(layers) != shape.layers:
        raise ValueError(f"{where}: routes are of layers {tuple(layers)}, the trainer routes in {shape.layers}")
    if ids.shape[1:] != (len(shape.layers), shape.top_k):
        raise ValueError(f"{where}: routes are {ids.shape[1:]} a token, expected {(len(shape.layers), shape.top_k)}")
    if ids.size and int(ids.max()) >= shape.num_experts:
        raise ValueError(f"{where}: routes name expert {int(ids.max())}, there are {shape.num_experts}")
    ordered = np.sort(ids, axis=-1)
    twice = (ordered[..., 1:] == ordered[..., :-1]).any(axis=-1)
    if twice.any():
        position, layer = np.argwhere(twice)[0]
        raise ValueError(f"{where}: position {position}, layer {shape.layers[layer]}: one expert was chosen twice")


def segment_routes(where: str, turns: Sequence[Routes | None]) -> tuple[np.ndarray | None, tuple[int, ...]]:
    """Expert ids [positions, layers, top_k] of a segment's turns one after the other, and their layers.

    None where no turn has any.  Raises ValueError, naming `where`, where only some have, or of other layers.
    """
    found = [routes for routes in turns if routes is not None]
    if not found:
        return None, ()
    if len(found) < len(turns):
        raise ValueError(f"{where}: {len(found)} of {len(turns)} turns have routes; all must have them, or none")
    if len({(routes.layers, routes.top_k) for routes in found}) > 1:
        raise ValueError(f"{where}: the routes of its turns are of different layers")
    return np.concatenate([decode(routes) for routes in found]), found[0].layers


def row_routes(samples: Sequence[tuple[str, np.ndarray | None]]) -> Tensor | None:
    """Routes int16 [T, layers, top_k] of a row's tokens, from each sample's name and its routes of all tokens but one.

    Each last token has `ABSENT`: the engine computed nothing there, and nothing is predicted from it.
    """
    given = [routes for _, routes in samples if routes is not None]
    if not given:
        return None
    parts: list[np.ndarray] = []
    for where, routes in samples:
        if routes is None:
            raise ValueError(f"{where}: it has no routes, and others of its batch have")
        parts += [routes.astype(np.int16), np.full((1, *routes.shape[1:]), ABSENT, np.int16)]
    return torch.from_numpy(np.concatenate(parts))


class RouteReplay:
    """Stands between every AutoEP router of a model and its choice.  Parameter names do not change."""

    def __init__(self, model: nn.Module):
        from deepspeed.moe.ep_router import TokenChoiceTopKRouter

        routers = {
            int(found[1]): module
            for name, module in model.named_modules(remove_duplicate=False)
            if isinstance(module, TokenChoiceTopKRouter) and name.endswith(".router") and (found := _LAYER.search(name))
        }
        self._routers = [routers[number] for number in sorted(routers)]
        first = self._routers[0]
        self.shape = RouteShape(tuple(sorted(routers)), first.top_k, first.num_experts)
        self._routes: Tensor | None = None
        self._kept: Tensor | None = None
        self._chosen: list[Tensor] | None = None
        self._own: list[Tensor] = []
        self._scores: list[Tensor] = []
        self._keeps_scores = False
        for row, router in enumerate(self._routers):
            router.forward = types.MethodType(self._make_forward(row, router.forward), router)

    @contextlib.contextmanager
    def of(self, routes: Tensor | None, predicting: Tensor, *, keep_scores: bool = False) -> Iterator[None]:
        """Forward and backward of one micro-batch inside of this block use `routes` [T, layers, top_k] (None: own).

        The choices at `predicting` [L], and with `keep_scores` all scores, are read with `observed`.
        """
        self._routes, self._kept, self._keeps_scores = routes, predicting, keep_scores
        self._chosen, self._own, self._scores = [], [], []
        try:
            yield
        finally:
            self._routes = self._kept = self._chosen = None
            self._own, self._scores = [], []

    def observed(self) -> Observed:
        """What the forward pass just done chose; what is recomputed in the backward pass is not seen again."""
        assert self._chosen is not None and len(self._chosen) == len(self._routers), "read between forward and backward"
        scores = [own[self._kept] for own in self._scores]
        found = Observed(torch.stack(self._chosen, 1), torch.stack(self._own, 1), scores)
        self._chosen = None
        return found

    def _make_forward(self, row: int, original: Any) -> Any:
        replay = self

        def forward(self: Any, x: Tensor, expert_bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
            from deepspeed.moe.ep_count import count_tokens_per_expert

            if replay._kept is None:
                found: tuple[Tensor, Tensor, Tensor] = original(x, expert_bias)
                return found
            scores = router_scores(self, x)
            own = own_choice(self, scores.detach(), expert_bias)
            chosen = own if replay._routes is None else replayed(own, replay._routes[:, row])
            if replay._chosen is not None:
                kept = replay._kept
                replay._chosen.append(chosen[kept])
                replay._own.append(own[kept])
                if replay._keeps_scores:
                    # Whole, and indexed outside: what is saved here for the backward pass has to be what recomputation
                    # saves again.
                    replay._scores.append(scores)
            weights = scores.gather(1, chosen)
            if self.route_norm:
                weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
            return weights * self.route_scale, chosen, count_tokens_per_expert(chosen, self.num_experts)

        return forward


@dataclass(slots=True)
class Observed:
    """One forward pass at L predicting positions: expert ids used and those that the trainer would have chosen, both
    [L, layers, top_k], and where they were kept every layer's scores [L, experts] with their gradient."""

    used: Tensor
    own: Tensor
    scores: list[Tensor]


def router_scores(router: Any, x: Tensor) -> Tensor:
    """fp32 scores [T, experts] of a router, before any choice."""
    logits = router.gate(x).float()
    return torch.sigmoid(logits) if router.score_func == "sigmoid" else F.softmax(logits, dim=1)


def own_choice(router: Any, scores: Tensor, expert_bias: Tensor | None) -> Tensor:
    """Experts [T, top_k] that AutoEP's router would choose from its scores: biases enter here and nowhere else."""
    for bias in (expert_bias, router.e_score_correction_bias):
        scores = scores if bias is None else scores + bias
    if router.num_expert_groups is not None:
        scores = router._get_node_limited_routing_scores(scores)
    return torch.topk(scores, k=router.top_k, dim=-1, sorted=False)[1]


def replayed(own: Tensor, routes: Tensor) -> Tensor:
    """The engine's experts [T, top_k], and the trainer's `own` where the engine gave none (`ABSENT`).

    Raises ValueError where the numbers of tokens differ: the router would mix up tokens.
    """
    if routes.shape != own.shape:
        raise ValueError(f"routes are {tuple(routes.shape)} and the router chooses {tuple(own.shape)}")
    routes = routes.to(device=own.device, dtype=own.dtype)
    return torch.where(routes == ABSENT, own, routes)


def num_different(first: Tensor, second: Tensor) -> Tensor:
    """In how many (token, layer) the sets of experts [L, layers, top_k] differ."""
    return (first.sort(-1).values != second.sort(-1).values).any(-1).sum()


def count_load(used: Tensor, domains: Tensor, num_domains: int, num_experts: int) -> Tensor:
    """Tokens by domain, layer and expert, int64 [domains, layers, experts], from ids [L, layers, top_k]."""
    num_layers = used.shape[1]
    layers = torch.arange(num_layers, device=used.device)[None, :, None]
    cells = (domains.to(used.device)[:, None, None] * num_layers + layers) * num_experts + used
    counts = torch.bincount(cells.flatten(), minlength=num_domains * num_layers * num_experts)
    return counts.view(num_domains, num_layers, num_experts)


def max_violation(load: Tensor) -> Tensor:
    """How far the fullest expert is above the mean, max / mean - 1, of loads [..., experts] (arXiv 2408.15664)."""
    load = load.double()
    return load.amax(-1) / load.mean(-1).clamp_min(1e-300) - 1.0


def load_metrics(load: Tensor, layers: Sequence[int]) -> dict[str, float]:
    """`routes/<what>/layer/<number>` and `routes/<what>/domain/<index>` of loads [domains, layers, experts].

    max_violation and dead (the share of experts without a token), of a domain as the mean over layers; a domain
    without tokens has none.
    """
    found: dict[str, float] = {}
    whole = load.sum(0)
    for row, layer in enumerate(layers):
        found[f"routes/max_violation/layer/{layer}"] = float(max_violation(whole[row]))
        found[f"routes/dead/layer/{layer}"] = float((whole[row] == 0).double().mean())
    for index in load.sum((1, 2)).nonzero().flatten().tolist():
        found[f"routes/max_violation/domain/{index}"] = float(max_violation(load[index]).mean())
        found[f"routes/dead/domain/{index}"] = float((load[index] == 0).double().mean())
    return found


def balance_loss(scores: Sequence[Tensor], fractions: Tensor, num_tokens: float) -> Tensor:
    """E · Σ_e f_e · P_e, mean over layers (Switch Transformer, arXiv 2101.03961, eq. 4): 1 where all is even.

    scores: each layer's [L, experts] of this micro-batch's predicting positions; prompts, tool results and dummies are
    not among them.  fractions: f [layers, experts], the share of all choices of the whole batch that fell on an expert.
    num_tokens: predicting positions of the whole batch.  As f is known before (the engine chose), the parts of a batch
    add up to the same loss however it is split.
    """
    parts = []
    for own, share in zip(scores, fractions, strict=True):
        probabilities = own / own.sum(-1, keepdim=True).clamp_min(1e-20)
        parts.append((probabilities.sum(0) / num_tokens * share).sum() * share.numel())
    return torch.stack(parts).mean()
