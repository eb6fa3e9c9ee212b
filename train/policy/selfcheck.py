"""Small computations of the policy's parts that have one right answer on any device: for `train.gpucheck`."""

from __future__ import annotations

import os

import torch
from torch import Tensor


def replay_on(device: str) -> tuple[Tensor, Tensor]:
    """Weights [64, 2] and the router's gradient where a router is told which experts to use, on the CPU.

    Asserts that it used those and no others.
    """
    os.environ.setdefault("DS_ACCELERATOR", "cpu" if device == "cpu" else "cuda")
    from deepspeed.moe.ep_router import TokenChoiceTopKRouter

    from train.policy.routes import RouteReplay

    generator = torch.Generator().manual_seed(0)
    x, routes = torch.randn(64, 32, generator=generator), torch.rand(64, 1, 8, generator=generator).argsort(-1)[..., :2]
    torch.manual_seed(0)
    router = TokenChoiceTopKRouter(32, 8, None, None, 2, "softmax", True, 1.0, False).to(device)
    replay = RouteReplay(torch.nn.ModuleDict({"model": _Nested(router)}))
    with replay.of(routes.to(torch.int16), torch.arange(63)):
        weights, chosen, counts = router(x.to(device))
        seen = replay.observed()
    assert torch.equal(chosen.cpu(), routes[:, 0]), "other experts were used than those that were given"
    assert torch.equal(seen.used.cpu()[:, 0], routes[:63, 0]) and int(counts.sum()) == 128
    weights[:, 0].sum().backward()
    assert router.gate.weight.grad is not None
    return weights.detach().cpu(), router.gate.weight.grad.cpu()


class _Nested(torch.nn.Module):
    """`layers.0.router`, as AutoEP names it."""

    def __init__(self, router: torch.nn.Module):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.ModuleDict({"router": router})])
