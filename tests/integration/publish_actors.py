"""Small engines and trainers that fail on demand, for `test_publishing`.  Imports little: each is a process."""

from __future__ import annotations

import os
import time
from typing import Any

from rollouts.engine_actor import ChunkReport, EngineReport

NAMES = {"model.embed_tokens.weight": 0, "model.layers.0.mlp.experts.w1": 4, "model.layers.1.mlp.experts.w1": 4}


def fault(kind: str) -> None:
    if kind == "hang":
        time.sleep(600)
    if kind == "death":
        os._exit(1)
    if kind == "error":
        raise RuntimeError("broken on purpose")


class Engine:
    """Loads chunks in order.  `faults`: (method, what happens); `stale`: chunks whose patches it cannot use."""

    def __init__(self, faults: dict[str, str], stale: list[int]):
        self._faults, self._stale, self._seen = faults, stale, list[str]()

    def begin_publish(self, version: int, num_chunks: int) -> None:
        self._version = version
        fault(self._faults.get("begin", ""))

    def take_chunk(self, *shards: str) -> ChunkReport:
        fault(self._faults.get("chunk", ""))
        chunk = int(shards[0].split()[0])
        if chunk in self._stale and not shards[0].endswith("full"):
            return ChunkReport(is_loaded=False)
        self._seen += shards
        return ChunkReport(is_loaded=True, num_bytes=10, full_bytes=100)

    def transfer(self, method: str, payload: Any) -> None:
        fault(self._faults.get("transfer", ""))
        self._seen.append(f"{method} {payload}")

    def commit_publish(self, digests: dict[str, str] | None = None, checksum: str = "sum") -> EngineReport:
        if digests is not None:
            self._seen.append(f"commit {sorted(digests)}")
        fault(self._faults.get("commit", ""))
        kernel = self._faults.get("kernel", "same")
        return EngineReport(version=self._version, checksum=checksum, kernel_checksum=kernel, busy_seconds=0.0)

    def abort_publish(self) -> None:
        self._seen.append("abort")

    def seen(self) -> list[str]:
        return self._seen

    def fresh(self, faults: dict[str, str], stale: list[int]) -> None:
        self._faults, self._stale, self._seen = faults, stale, []


class Trainer:
    """Hands out the text of what it was asked for."""

    def __init__(self, faults: dict[str, str], rank: int, world: int):
        self._faults, self._rank = faults, rank

    def names(self) -> tuple[dict[str, int], bool, tuple[int, ...]]:
        return NAMES, True, (0, 1)

    def shard(self, request: Any) -> tuple[None, str]:
        fault(self._faults.get(f"{request.chunk}", "") if self._rank == 1 else "")
        return None, f"{request.chunk} of {request.num_chunks} rank {self._rank}{' full' if request.full else ''}"

    def send(self, format: str, backend: str, engines: list[Any], sizes: list[int]) -> dict[str, str]:
        import ray

        fault(self._faults.get("send", "") if self._rank == 1 else "")
        if self._rank == 0:
            ray.get([engine.transfer.remote("update", f"{format} {backend} {sizes}") for engine in engines])
        return {"w": "digest"} if self._rank == 0 else {}

    def fresh(self, faults: dict[str, str]) -> None:
        self._faults = faults
