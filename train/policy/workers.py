"""Ray actors around the policy: one a trainer rank, and the driver's handle on all of them.

In: rows (which sample of which group, its advantage and weight) and references to groups.  Out: metrics, shards,
state.  Each rank fetches from the object store only the groups that its own rows name.  Built by `train.launch`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from torch import Tensor

from rollouts.objects import Place, fetch_groups
from rollouts.pool import MakeChunk, Send
from train.policy.losses import LossOptions
from train.policy.packing import MicroBatch, Sample, build_row, pack, samples_from_trajectory, token_weights
from train.policy.policy import Policy
from train.policy.routes import check_routes
from train.policy.setup import PolicySettings
from train.weights import formats
from train.weights.publish import Base, Shard, make_shard, tensor_digest, version_checksum


class TrainerFailure(Exception):
    """A trainer rank failed or died; the text is the first rank's own."""


@dataclass(frozen=True, slots=True)
class Item:
    """One sample of a row: its number in the batch, where its tokens lie, its advantage, the weight of one token.

    `advantage`: one for the whole trajectory, or one for each of its turns.
    """

    number: int
    group: int
    trajectory: int
    segment: int
    advantage: float | tuple[float, ...]
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRequest:
    """A chunk of a version: trainer parameters with their number of experts.

    delta: as patches of what was published last, unless `full`.
    """

    version: int
    format: str
    names: Mapping[str, int]
    chunk: int
    num_chunks: int
    delta: bool
    full: bool


class TrainerActor:
    """One rank.  All methods are collectives over ranks unless they say otherwise."""

    def __init__(self, settings: PolicySettings, rank: int, world: int):
        self._policy = Policy(settings, rank, world)
        self._rank, self._world = rank, world
        self._base: Base | None = None
        self._sender: Any = None

    def names(self) -> tuple[dict[str, int], bool, tuple[int, ...]]:
        """Trainer parameter names with their number of experts, whether rows may hold several sequences, and the
        numbers of the routed layers."""
        return self._policy.parameter_names(), self._policy.can_pack, self._policy.replay.shape.layers

    def train(
        self,
        parts: Sequence[Sequence[Sequence[Item]]],
        places: Mapping[int, Place],
        domain_index: Mapping[str, int],
        loss: str,
        options: LossOptions,
        learning_rate: float,
        version: int,
        load_balance: float,
    ) -> dict[str, float]:
        """One optimiser step on this rank's rows of each part; `places` says where the groups that they name lie."""
        groups = dict(zip(places, fetch_groups(list(places.values())), strict=True))
        routed = loss != "sft" and self._policy.settings.routes != "none"
        batches = [[build_row(*self._samples(row, groups, routed), domain_index) for row in rows] for rows in parts]
        num_domains = max(domain_index.values(), default=0) + 1
        return self._policy.train_step(batches, loss, options, learning_rate, version, num_domains, load_balance)

    def logprobs(self, samples: Sequence[Sample], row_tokens: int) -> dict[int, list[float]]:
        """Log-probs of the trained tokens of the samples on this rank's rows, by sample number."""
        domain_index = {domain: number for number, domain in enumerate(sorted({item.domain for item in samples}))}
        weights = token_weights(samples, "token")
        batches = pack(samples, weights, domain_index, row_tokens, self._world)[self._rank]
        out: dict[int, list[float]] = {}
        for batch, values in zip(batches, self._policy.logprobs(batches), strict=True):
            _scatter(out, batch, values)
        return out

    def shard(self, request: ChunkRequest) -> tuple[None, Shard]:
        """Nothing, and this rank's share of a chunk, packed and with checksums: the driver waits for the first."""
        tensors = self._policy.shard(request.format, set(request.names))
        if request.delta and (request.full or self._base is None):
            self._base = self._base or Base()
            self._base.forget(tensors)
        shard = make_shard(
            tensors,
            version=request.version,
            rank=self._rank,
            num_ranks=self._world,
            expected=formats.expected_names(request.names, request.format),
            chunk=request.chunk,
            num_chunks=request.num_chunks,
            base=self._base if request.delta else None,
        )
        return None, shard

    def send(self, format: str, backend: str, engines: Sequence[Any], sizes: Sequence[int]) -> dict[str, str]:
        """This version to all engines by vLLM's transfer; the digest of every tensor, from rank 0."""
        digests: dict[str, str] = {}

        def tensors() -> Iterator[tuple[str, Tensor]]:
            for name, tensor in self._policy.whole_tensors(format):
                if self._rank == 0:
                    digests[name] = tensor_digest(tensor.cpu())
                yield name, tensor

        from rollouts.direct import Engines, Sender, Tensorwise

        if self._sender is None:
            meta = [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._policy.whole_tensors(format)]
            client = Engines(
                lambda number, method, payload: engines[number].transfer.remote(method, payload), ray.get, sizes
            )
            self._source = Tensorwise(meta, tensors)
            address, port = ray.util.get_node_ip_address(), _free_port()
            self._sender = Sender(backend, self._rank, self._source, client, address, port)
        self._source._tensors = tensors
        self._sender.send()
        return digests

    def read_state(self) -> tuple[dict[str, Tensor], int] | None:
        """Masters and moments by name, from rank 0 only (every rank has to be asked)."""
        state = self._policy.read_state()
        return state if self._rank == 0 else None

    def write_state(self, tensors: dict[str, Tensor], step: int) -> None:
        self._policy.write_state(tensors, step)

    def _samples(
        self, row: Sequence[Item], groups: Mapping[int, Any], routed: bool
    ) -> tuple[list[Sample], list[float], list[int]]:
        samples = [
            samples_from_trajectory(groups[item.group].trajectories[item.trajectory], item.advantage)[item.segment]
            for item in row
        ]
        for sample in samples:
            if not routed:
                sample.routes = None
            elif sample.routes is None:
                raise ValueError(f"{sample.task_id}: it was sampled without routes: set algorithm.routes=none")
            else:
                check_routes(sample.routes, sample.route_layers, self._policy.replay.shape, sample.task_id)
        return samples, [item.weight for item in row], [item.number for item in row]


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("", 0))
        port: int = server.getsockname()[1]
    return port


def _scatter(out: dict[int, list[float]], batch: MicroBatch, values: Tensor) -> None:
    for sequence, value in zip(batch.sequence_ids.tolist(), values.tolist(), strict=True):
        if sequence >= 0:
            out.setdefault(sequence, []).append(value)


class TrainerGroup:
    """All ranks.  Methods block and raise TrainerFailure with the text of the first rank that failed."""

    def __init__(
        self,
        settings: PolicySettings,
        num_ranks: int,
        options: Mapping[str, Any],
        nodes: Sequence[Mapping[str, float]] = (),
    ):
        """`nodes`: the Ray resource that puts each rank on its node; empty on one machine."""
        self.num_ranks = num_ranks
        self._actors = [
            ray.remote(TrainerActor)
            .options(**options, resources=dict(nodes[rank]) if nodes else {})
            .remote(settings, rank, num_ranks)
            for rank in range(num_ranks)
        ]

    def wait_until_ready(self, timeout: float) -> None:
        """Block until the policy is built on all ranks; keeps the names of its weights."""
        found: tuple[dict[str, int], bool, tuple[int, ...]]
        found = _get([actor.names.remote() for actor in self._actors], timeout)[0]
        self.parameter_names, self.can_pack, self.routed_layers = found
        if not self.can_pack:
            print(
                "[trainer] this architecture's layers carry a state from one sequence of a row into the next: every "
                "sequence gets a row of its own (algorithm.row_tokens is not used), which is slower",
                flush=True,
            )

    def row_tokens(self, wanted: int) -> int:
        """How many tokens a row may hold; a longer sequence gets one to itself, so 1 keeps all of them apart."""
        return wanted if self.can_pack else 1

    def train(
        self,
        parts: Sequence[Sequence[Sequence[Sequence[Item]]]],
        places: Sequence[Place | None],
        domain_index: Mapping[str, int],
        loss: str,
        options: LossOptions,
        learning_rate: float,
        version: int,
        load_balance: float = 0.0,
    ) -> dict[str, float]:
        """One optimiser step a part; `part[rank]` are that rank's rows.  Returns sums over the whole batch."""
        calls = []
        for rank, actor in enumerate(self._actors):
            own = [part[rank] for part in parts]
            needed = {item.group for rows in own for row in rows for item in row}
            # A reference inside another object is not fetched by Ray before the call: the rank fetches what it needs.
            own_places = {number: places[number] for number in sorted(needed)}
            arguments = (own, own_places, domain_index, loss, options, learning_rate, version, load_balance)
            calls.append(actor.train.remote(*arguments))
        metrics: dict[str, float] = _get(calls)[0]
        return metrics

    def logprobs(self, samples: Sequence[Sample], row_tokens: int) -> list[list[float]]:
        """For each sample the trainer's log-probs of its trained tokens, nats."""
        stored = ray.put(list(samples))
        merged: dict[int, list[float]] = {}
        row_tokens = self.row_tokens(row_tokens)
        for part in _get([actor.logprobs.remote(stored, row_tokens) for actor in self._actors]):
            merged |= part
        return [merged[number] for number in range(len(samples))]

    def publisher(self, version: int, format: str, num_chunks: int, delta: bool) -> tuple[int, MakeChunk]:
        """How many chunks a version has, and what makes them (for `RolloutPool.publish`).

        Making one gives references to every rank's shard: the bytes do not pass the driver.  TrainerFailure where a
        rank fails, dies, or takes longer than it may.
        """
        plan = formats.plan_chunks(self.parameter_names, num_chunks)

        def make(chunk: int, full: bool, seconds: float) -> list[Any]:
            request = ChunkRequest(
                version=version,
                format=format,
                names={name: self.parameter_names[name] for name in plan[chunk]},
                chunk=chunk,
                num_chunks=len(plan),
                delta=delta,
                full=full,
            )
            made = [actor.shard.options(num_returns=2).remote(request) for actor in self._actors]
            _get([done for done, _ in made], max(seconds, 0.0))
            return [shard for _, shard in made]

        return len(plan), make

    def sender(self, version: int, format: str, backend: str, sizes: Sequence[int]) -> Send:
        """What has all ranks send a version by vLLM's transfer (for `RolloutPool.publish_directly`).

        sizes: tensor-parallel workers of each engine.  TrainerFailure as in `publisher`.
        """

        def send(engines: Sequence[Any], seconds: float) -> tuple[dict[str, str], str]:
            calls = [actor.send.remote(format, backend, list(engines), list(sizes)) for actor in self._actors]
            digests: dict[str, str] = _get(calls, max(seconds, 0.0))[0]
            return digests, version_checksum(digests)

        return send

    def read_state(self) -> tuple[dict[str, Tensor], int]:
        state: tuple[dict[str, Tensor], int] = _get([actor.read_state.remote() for actor in self._actors])[0]
        return state

    def write_state(self, tensors: dict[str, Tensor], step: int) -> None:
        stored = ray.put(tensors)
        _get([actor.write_state.remote(stored, step) for actor in self._actors])

    def stop(self) -> None:
        for actor in self._actors:
            ray.kill(actor)


def _get(references: Sequence[Any], timeout: float | None = None) -> list[Any]:
    """All results, or the first failure as soon as it happens: other ranks may hang in a collective for it."""
    waiting = list(references)
    try:
        while waiting:
            done, waiting = ray.wait(waiting, num_returns=1, timeout=timeout)
            if not done:
                raise TrainerFailure(f"trainer ranks did not answer within {timeout} s")
            ray.get(done[0])
        return list(ray.get(list(references)))
    except ray.exceptions.RayTaskError as error:
        raise TrainerFailure(f"{type(error.cause).__name__}: {error.cause}") from error
    except ray.exceptions.RayActorError as error:
        raise TrainerFailure(str(error)) from error
