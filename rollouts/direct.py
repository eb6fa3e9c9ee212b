"""Weights from trainer GPUs straight into engine GPUs: vLLM's own NCCL and CUDA IPC transfer, with our checks.

In: on every trainer rank an iteration over a version's whole tensors in serving format; on the engines' side vLLM's
calls.  Out: loaded weights, and an error where a parameter got none.  Used by `train.policy.workers` (`Sender`) and, by
name, by vLLM's workers (`rollouts.transfer.register`).  Chosen by `cluster.engine.publish_through`; GPUs only.

    nccl   trainer rank 0 broadcasts to all engine workers, anywhere
    ipc    an engine's worker maps the memory of the trainer rank on its own GPU
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource
from vllm.distributed.weight_transfer.ipc_engine import (
    IPCTrainerInitInfo,
    IPCTrainerWeightTransferEngine,
    IPCWeightTransferEngine,
)
from vllm.distributed.weight_transfer.nccl_engine import (
    NCCLTrainerInitInfo,
    NCCLTrainerWeightTransferEngine,
    NCCLWeightTransferEngine,
)

from rollouts.transfer import Complete

Tensors = Callable[[], Iterable[tuple[str, Tensor]]]
Call = Callable[[int, str, Any], Any]  # (engine number, method, payload) -> a reference to wait for


class NcclTransfer(Complete, NCCLWeightTransferEngine):
    """vLLM's receiving end, checked for completeness."""


class IpcTransfer(Complete, IPCWeightTransferEngine):
    """vLLM's receiving end, checked for completeness."""


class Tensorwise(WeightSource):
    """A version as vLLM wants it: first what will come, then the tensors, every time anew."""

    def __init__(self, meta: Sequence[tuple[str, Any, tuple[int, ...]]], tensors: Tensors):
        self._meta = [ParamMeta(*item) for item in meta]
        self._tensors = tensors

    def metadata(self) -> list[ParamMeta]:
        return self._meta

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self._tensors())


class Engines:
    """vLLM's control calls, to all engines at once.  `sizes`: tensor-parallel workers of each engine.

    With NCCL the trainer's sender is rank 0, and the workers of engine i follow those of the engines before it.
    """

    def __init__(self, call: Call, wait: Callable[[list[Any]], Any], sizes: Sequence[int]):
        self._call, self._wait, self._sizes = call, wait, sizes

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        waiting = []
        for number in range(len(self._sizes)):
            own = dict(init_info)
            if "rank_offset" in own:
                own["rank_offset"] += sum(self._sizes[:number])
            waiting.append(self._call(number, "connect", own))
        self._wait(waiting)

    def start_weight_update(self) -> None:
        self._all("start", None)

    def update_weights(self, update_info: Any) -> None:
        self._all("update", update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Nothing: engines commit when the pool says so, after every one of them has everything."""

    def _all(self, method: str, payload: Any) -> None:
        self._wait([self._call(number, method, payload) for number in range(len(self._sizes))])


class Sender:
    """A trainer rank's end; all ranks make one and call `send` together, rank 0 sends."""

    def __init__(self, backend: str, rank: int, source: WeightSource, engines: Engines, address: str, port: int):
        """`address` and `port`: of NCCL's rendezvous, on rank 0."""
        sizes = engines._sizes
        self._engine: Any
        if backend == "nccl":
            info = NCCLTrainerInitInfo(address, port, 1 + sum(sizes), rank=rank)
            self._engine = NCCLTrainerWeightTransferEngine.trainer_init(info, client=engines, source=source)
        else:
            shared = IPCTrainerInitInfo(packed=True, rank=rank)
            self._engine = IPCTrainerWeightTransferEngine.trainer_init(shared, client=engines, source=source)

    def send(self) -> None:
        self._engine.send_weights()
