"""Which experts the engine chose, read out of vLLM's own routers: for the trainer to replay.

In: the steps of an engine.  Out: `Routes` of finished turns.  vLLM mixes `RouteCapture` into its workers (see
`rollouts.extension`), so it runs in the worker's process at any tensor-parallel size; `rollouts.vllm_engine` calls it.

What a router chose is kept by cache slot, as keys and values are: a position that a later request finds in the prefix
cache has its routes there too, and a request that was preempted overwrites its own.

GPU builds of vLLM return routes by themselves (`enable_return_routed_experts`); `from_output` reads those.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from envs.types import Routes


class RouteCapture:
    """Methods that vLLM's workers get.  `self` is the worker."""

    model_runner: Any
    _slots: np.ndarray  # [slots, layers, top_k]: a slot's row is that of the last token written to it
    _layers: tuple[int, ...]

    def routed_layers(self) -> tuple[int, ...]:
        """Numbers of the model's routed layers, in order.  Raises ValueError where there is none."""
        layers = tuple(sorted(_runners(self.model_runner.model)))
        if not layers:
            raise ValueError("this model has no routed experts: set algorithm.routes=none")
        return layers

    def start_route_capture(self) -> None:
        """Have every router write what it chooses.  Raises ValueError, with the remedy, where that is not possible."""
        runner = self.model_runner
        routers = _runners(runner.model)
        self._layers = self.routed_layers()
        groups = runner.kv_cache_config.kv_cache_groups
        if len(groups) != 1:
            raise ValueError(
                f"routes are kept by cache slot, and this model has {len(groups)} kinds of caches: set "
                "algorithm.routes=none"
            )
        first = next(iter(routers.values())).router
        kind = np.uint8 if first.global_num_experts <= 256 else np.uint16
        num_slots = runner.kv_cache_config.num_blocks * groups[0].kv_cache_spec.block_size
        # Pages of it are only taken where a slot is written.
        self._slots = np.zeros((num_slots, len(self._layers), first.top_k), dtype=kind)
        for row, layer in enumerate(self._layers):
            router = routers[layer].router
            if not hasattr(router, "set_capture_fn"):
                raise ValueError(f"the router {type(router).__name__} cannot be read: set algorithm.routes=none")
            router.set_capture_fn(functools.partial(self._capture, row))

    def _capture(self, row: int, expert_ids: Any) -> None:
        from vllm.forward_context import get_forward_context

        mapping = get_forward_context().slot_mapping
        if not mapping:
            return  # a warm-up pass: nothing is cached
        assert isinstance(mapping, dict), "steps in micro-batches of their own have several mappings"
        slots = next(iter(mapping.values()))[: len(expert_ids)].cpu().numpy()
        real = slots >= 0
        self._slots[slots[real], row] = expert_ids.cpu().numpy()[real]

    def routes_of(self, wanted: dict[str, tuple[int, int]]) -> dict[str, Routes]:
        """Routes of requests that have just finished, by their name: of positions first … last - 1.

        To be called before the next step, in which their slots may be given to others.
        """
        known = {name.rpartition("-")[0]: state for name, state in self.model_runner.requests.items()}
        size = self.model_runner.kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
        out = {}
        for name, (first, last) in wanted.items():
            blocks = np.asarray(known[name].block_ids[0])
            positions = np.arange(first, last)
            rows = self._slots[blocks[positions // size] * size + positions % size]
            out[name] = encode(rows, self._layers)
        return out


def encode(rows: np.ndarray, layers: Sequence[int]) -> Routes:
    """`Routes` from expert ids [positions, layers, top_k] in an unsigned type of one or two bytes."""
    assert rows.ndim == 3 and rows.shape[1] == len(layers) and rows.dtype in (np.uint8, np.uint16)
    width = rows.dtype.itemsize
    ids = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<")).tobytes()
    return Routes(layers=tuple(layers), top_k=rows.shape[2], width=width, ids=ids)


def decode(routes: Routes) -> np.ndarray:
    """Expert ids [positions, layers, top_k]: the inverse of `encode`."""
    kind = np.dtype(np.uint8 if routes.width == 1 else "<u2")
    return np.frombuffer(routes.ids, dtype=kind).reshape(-1, len(routes.layers), routes.top_k)


def from_output(rows: np.ndarray, layers: Sequence[int], num_rows: int) -> Routes:
    """`Routes` from what a GPU engine returns: all layers of the model, routed or not, and maybe one row too many."""
    return encode(np.ascontiguousarray(rows[:num_rows, list(layers)]), layers)


def _runners(model: Any) -> dict[int, Any]:
    """vLLM's expert layers by layer number."""
    from vllm.model_executor.layers.fused_moe.layer import MoERunner

    return {module.layer_id: module for module in model.modules() if isinstance(module, MoERunner)}
