"""An engine as an actor: turns for its server, and the receiving end of publishing.

In: turns, chunks of weights.  Out: completions, and reports of what is served.  A plain class that knows no Ray;
`rollouts.pool` makes an actor of it.  Threaded: a waiting `collect` blocks nobody.

The order of a publish is pause < begin < chunks < commit < prefix cache reset < resume; anything else is an error.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rollouts.engine import Completion, EngineFailure, TurnRequest
from rollouts.engine_server import EngineServer
from rollouts.vllm_engine import EngineSettings, VllmDriver


class StaleBase(Exception):
    """A patch starts from other bytes than this engine holds: the chunk is wanted in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A chunk of weights on an engine's node: one file in serving format.

    `num_bytes` travelled for it; `full_bytes` would have without patches.
    """

    path: str
    num_tensors: int
    num_bytes: int
    full_bytes: int


class Receiver(Protocol):
    """Checks what comes; see `train.weights.publish.Receiver`."""

    def begin(self, version: int, num_chunks: int) -> None: ...

    def take(self, shards: Sequence[Any]) -> Prepared: ...

    def finish(self) -> tuple[str, Mapping[str, str]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReport:
    """What became of a chunk: loaded, or wanted in full because its patches start from something else."""

    is_loaded: bool
    num_bytes: int = 0
    full_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """What an engine says it serves: version, checksum of the published bytes, checksum of what its kernels read."""

    version: int
    checksum: str
    kernel_checksum: str
    busy_seconds: float


class EngineActor:
    """An `EngineServer` and the receiving end of publishing."""

    def __init__(self, settings: EngineSettings, deterministic: bool, receiver: Callable[[], Receiver]):
        self._server = EngineServer(lambda: VllmDriver(settings), deterministic=deterministic)
        self._receiver = receiver()
        self._digests: Mapping[str, str] | None = None
        self._kernel_checksum = ""
        self._awaited: int | None = None  # version whose chunks are coming
        self._is_begun = False

    def open(self, episodes: Sequence[int]) -> None:
        self._server.open(episodes)

    def submit(self, client: str, requests: Sequence[TurnRequest], released: Sequence[int]) -> None:
        self._server.submit(client, requests, released)

    def collect(self, client: str, timeout: float) -> list[Completion]:
        return self._server.collect(client, timeout)

    def begin_publish(self, version: int, num_chunks: int) -> None:
        """Pause, and wait for the chunks of a version.  What is served stays until the first good one is here."""
        self.abort_publish()
        self._server.pause()
        self._receiver.begin(version, num_chunks)
        self._awaited = version

    def take_chunk(self, *shards: Any) -> ChunkReport:
        """Check a chunk and load it.  After an error the publish is over, and the engine may serve nothing."""
        if self._awaited is None:
            raise EngineFailure("a chunk of weights came, but no publish was begun")
        try:
            prepared = self._receiver.take(shards)
        except StaleBase:
            return ChunkReport(is_loaded=False)
        except Exception:
            self.abort_publish()
            raise
        try:
            if not self._is_begun:
                self._is_begun = True
                self._server.run(lambda driver: driver.begin_update())
            self._server.run(lambda driver: driver.load_chunk(prepared.path, prepared.num_tensors))
        except Exception:
            self.abort_publish()
            raise
        finally:
            pathlib.Path(prepared.path).unlink(missing_ok=True)
        return ChunkReport(is_loaded=True, num_bytes=prepared.num_bytes, full_bytes=prepared.full_bytes)

    def transfer(self, method: str, payload: Any) -> None:
        """vLLM's own transfer, for `rollouts.direct.Engines`: connect once; in a publish start, and update."""
        if method == "connect":
            self._server.run(lambda driver: driver.connect(payload))
            return
        if self._awaited is None:
            raise EngineFailure(f"a transfer of weights came ({method}), but no publish was begun")
        try:
            if method == "start":
                self._is_begun = True
                self._server.run(lambda driver: driver.begin_update())
            else:
                self._server.run(lambda driver: driver.update(payload))
        except Exception:
            self.abort_publish()
            raise

    def commit_publish(self, digests: Mapping[str, str] | None = None, checksum: str = "") -> EngineReport:
        """Serve the version, if all of it came.  `digests`, `checksum`: where the trainer made them (a transfer)."""
        version = self._awaited
        if version is None:
            raise EngineFailure("weights were committed, but no publish was begun")
        try:
            if digests is None:
                checksum, digests = self._receiver.finish()
            self._server.run(lambda driver: driver.commit_update(version, checksum))
            self._kernel_checksum = self._server.run(lambda driver: driver.kernel_checksum())
            self._digests = digests
        finally:
            self.abort_publish()  # nothing is left to abort where all went well
        return self.report()

    def abort_publish(self) -> None:
        """End a publish, finished or not, and go on with what is served (version -1 where that is not whole)."""
        if self._awaited is None:
            return
        self._awaited = None
        if self._is_begun:
            self._is_begun = False
            self._server.run(lambda driver: driver.abort_update())
        self._server.resume()

    def digests(self) -> dict[str, str]:
        """Digest of every tensor of the version that is served, as it was published."""
        if self._digests is None:
            raise EngineFailure("nothing was published to this engine yet")
        return dict(self._digests)

    def report(self) -> EngineReport:
        def read(driver: VllmDriver) -> EngineReport:
            return EngineReport(
                version=driver.version,
                checksum=driver.checksum,
                kernel_checksum=self._kernel_checksum,
                busy_seconds=self._server.busy_seconds,
            )

        report: EngineReport = self._server.run(read)
        return report

    def reset_prefix_cache(self) -> None:
        self._server.run(lambda driver: driver.reset_prefix_cache())

    def complete(self, requests: Sequence[TurnRequest]) -> list[Completion]:
        completions: list[Completion] = self._server.run(lambda driver: driver.complete(requests))
        return completions

    def stop(self) -> None:
        self._server.stop()
