"""From trainer ranks to engines: a version in chunks of layers, checked before a byte of them is served.

In: what each rank contributes to a chunk (`make_shard`, bytes in serving format with a digest a tensor).  Out: one file
a chunk on the engine's node, and at the end the whole version's digests (`Receiver`, made in the engine's process by
the pool).  A shard travels through Ray's object store, so trainers and engines may sit on different nodes; the driver
holds none of it, and nobody more than two chunks.

    rank r: quantise own experts ─► make_shard ─► object store ─► engine: Receiver ─► file on tmpfs ─► vLLM
            └ one chunk after another: the next is made while this one is loaded

With a delta a rank sends of experts only the blocks that changed since its last publish (`train.weights.delta`).  Both
ends name what they start from by digest: an engine that holds anything else asks for the chunk in full.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save, save_file
from torch import Tensor

from rollouts.engine_actor import Prepared, StaleBase
from train.weights import formats
from train.weights.delta import Patch, apply_patch, make_patch

_PATCH = ("#mask", "#codes", "#scales")


class PublishFailure(ValueError):
    """Shards that do not make up one whole version; the text names what is wrong with which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One rank's share of one chunk of one version.

    - `payload`: safetensors bytes; `digests`: name -> digest of (dtype, shape, bytes) of whole tensors.
    - `bases`: name -> digest of what a patch in the payload (`<name>#mask`, …) starts from.
    - `names_digest`: digest of all names of the chunk over all ranks, the same on every rank.
    - `full_bytes`: size of the tensors without patches.
    """

    version: int
    rank: int
    num_ranks: int
    payload: bytes
    digests: Mapping[str, str]
    names_digest: str
    chunk: int = 0
    num_chunks: int = 1
    bases: Mapping[str, str] = field(default_factory=dict)
    full_bytes: int = 0


def tensor_digest(tensor: Tensor) -> str:
    """A digest of dtype, shape and bytes (BLAKE2b, 128 bit)."""
    head = f"{tensor.dtype}{list(tensor.shape)}".encode()
    raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.blake2b(raw.tobytes(), digest_size=16, key=hashlib.sha256(head).digest()).hexdigest()


def names_digest(names: set[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def version_checksum(digests: Mapping[str, str]) -> str:
    """One checksum for a whole version, whatever rank and chunk its tensors came in."""
    return hashlib.sha256("\n".join(f"{name} {digests[name]}" for name in sorted(digests)).encode()).hexdigest()


class Base:
    """MXFP4 bytes as they were last published, on either end: what a patch starts from."""

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._digests: dict[str, str] = {}

    def keep(self, tensors: Mapping[str, Tensor], digests: Mapping[str, str]) -> None:
        """Remember the packed ones among these tensors."""
        for name in tensors:
            if name + formats.SCALE_SUFFIX in tensors:
                for own in (name, name + formats.SCALE_SUFFIX):
                    self._tensors[own], self._digests[own] = tensors[own].clone(), digests[own]

    def forget(self, names: Iterable[str]) -> None:
        """The next patches of these start from nothing: they are sent in full."""
        for name in names:
            self._tensors.pop(name, None)
            self._digests.pop(name, None)

    def digests_of(self, name: str) -> dict[str, str]:
        """Digests of a packed weight and its scales; empty where it is not kept."""
        names = (name, name + formats.SCALE_SUFFIX)
        return {own: self._digests[own] for own in names if own in self._digests}

    def pair(self, name: str) -> tuple[Tensor, Tensor]:
        return self._tensors[name], self._tensors[name + formats.SCALE_SUFFIX]


def make_shard(
    tensors: Mapping[str, Tensor],
    *,
    version: int,
    rank: int,
    num_ranks: int,
    expected: set[str],
    chunk: int = 0,
    num_chunks: int = 1,
    base: Base | None = None,
) -> Shard:
    """Pack this rank's tensors of a chunk.  `expected`: every name of the chunk, over all ranks.

    base: what was published last: packed tensors become patches where these are smaller, and it takes in the new ones.
    """
    digests = {name: tensor_digest(tensor) for name, tensor in tensors.items()}
    sent = dict(tensors)
    bases: dict[str, str] = {}
    for name in tensors:
        known = base.digests_of(name) if base and name + formats.SCALE_SUFFIX in tensors else {}
        if base and known:
            patched = _patched(name, tensors, base)
            if patched:
                del sent[name], sent[name + formats.SCALE_SUFFIX]
                sent |= patched
                bases |= known
    if base:
        base.keep(tensors, digests)
    return Shard(
        version=version,
        rank=rank,
        num_ranks=num_ranks,
        payload=save(sent),
        digests=digests,
        names_digest=names_digest(expected),
        chunk=chunk,
        num_chunks=num_chunks,
        bases=bases,
        full_bytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()),
    )


def _patched(name: str, tensors: Mapping[str, Tensor], base: Base) -> dict[str, Tensor]:
    """A patch of a packed weight by name; empty where the weight itself is smaller."""
    codes, scales = tensors[name], tensors[name + formats.SCALE_SUFFIX]
    patch = make_patch(*base.pair(name), codes, scales)
    if patch.num_bytes >= codes.numel() + scales.numel():
        return {}
    return dict(zip((name + kind for kind in _PATCH), (patch.mask, patch.codes, patch.scales), strict=True))


def assemble(shards: Sequence[Shard], base: Base | None = None) -> tuple[dict[str, Tensor], dict[str, str], int]:
    """Tensors, digests and version of a whole chunk out of its shards, in any order.

    Raises StaleBase where a patch starts from anything else than `base`, and PublishFailure for shards of different
    versions or chunks, a missing rank, a tensor that came twice or not at all, or bytes that do not match their digest.
    """
    _check_belong_together(shards)
    tensors: dict[str, Tensor] = {}
    digests: dict[str, str] = {}
    for shard in shards:
        for name, tensor in _unpatched(_load(shard), shard, base).items():
            if name in tensors:
                raise PublishFailure(f"{name} came twice, the second time from rank {shard.rank}")
            if tensor_digest(tensor) != shard.digests.get(name):
                raise PublishFailure(f"{name} from rank {shard.rank} does not match its checksum")
            tensors[name] = tensor
        digests |= shard.digests
    _check_complete(tensors, digests, shards[0])
    return tensors, digests, shards[0].version


def _load(shard: Shard) -> dict[str, Tensor]:
    try:
        return load(shard.payload)
    except (SafetensorError, KeyError) as error:  # KeyError: a type that torch has no name for
        raise PublishFailure(f"the shard from rank {shard.rank} cannot be read: {error}") from error


def _unpatched(tensors: dict[str, Tensor], shard: Shard, base: Base | None) -> dict[str, Tensor]:
    """Whole tensors: patches applied to `base`."""
    patched = [name.removesuffix(_PATCH[0]) for name in tensors if name.endswith(_PATCH[0])]
    for name in patched:
        known = base.digests_of(name) if base else {}
        if not known or any(shard.bases.get(own) != digest for own, digest in known.items()):
            raise StaleBase(name)
        try:
            patch = Patch(*(tensors.pop(name + kind) for kind in _PATCH))
            assert base is not None
            codes, scales = apply_patch(*base.pair(name), patch)
        except (KeyError, ValueError) as error:
            raise PublishFailure(f"the patch of {name} from rank {shard.rank} cannot be read: {error}") from error
        tensors |= {name: codes, name + formats.SCALE_SUFFIX: scales}
    return tensors


class Receiver:
    """The engine's end: chunks of one version after another, each checked and written where the engine loads it.

    format: what the engine loads; delta: keep the packed bytes, for patches to start from.
    """

    def __init__(self, format: str, *, delta: bool):
        self._format = format
        self._base = Base() if delta else None
        self.begin(-1, 0)

    def begin(self, version: int, num_chunks: int) -> None:
        """Forget a version that was not finished, and wait for this one."""
        self._version, self._num_chunks = version, num_chunks
        self._taken: set[int] = set()
        self._digests: dict[str, str] = {}

    def take(self, shards: Sequence[Shard]) -> Prepared:
        """Check a chunk and write its file; the caller removes that.  Raises PublishFailure and StaleBase."""
        tensors, digests, version = assemble(shards, self._base)
        chunk, num_chunks = shards[0].chunk, shards[0].num_chunks
        if (version, num_chunks) != (self._version, self._num_chunks) or chunk in self._taken:
            raise PublishFailure(
                f"chunk {chunk} of {num_chunks} of version {version} came while version {self._version} in "
                f"{self._num_chunks} chunks was awaited, of which {sorted(self._taken)} are here"
            )
        if self._base:
            self._base.keep(tensors, digests)
        self._taken.add(chunk)
        self._digests |= digests
        served = formats.decode(tensors) if self._format == "bf16" else tensors
        return Prepared(
            path=_write(served),
            num_tensors=len(served),
            num_bytes=sum(len(shard.payload) for shard in shards),
            full_bytes=sum(shard.full_bytes for shard in shards),
        )

    def finish(self) -> tuple[str, dict[str, str]]:
        """Checksum of the whole version, and the digest of each tensor.  PublishFailure where chunks are missing."""
        missing = sorted(set(range(self._num_chunks)) - self._taken)
        if missing or not self._num_chunks:
            raise PublishFailure(f"version {self._version}: chunks {missing} of {self._num_chunks} did not come")
        return version_checksum(self._digests), dict(self._digests)


def _write(tensors: Mapping[str, Tensor]) -> str:
    directory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    handle, path = tempfile.mkstemp(prefix="jointrl-weights-", suffix=".safetensors", dir=directory)
    os.close(handle)
    save_file(dict(tensors), path)
    return path


def _check_belong_together(shards: Sequence[Shard]) -> None:
    if not shards:
        raise PublishFailure("no shards")
    versions = sorted({shard.version for shard in shards})
    if len(versions) > 1:
        raise PublishFailure(f"shards of versions {versions} were mixed: one rank sent a stale shard")
    chunks = sorted({(shard.chunk, shard.num_chunks) for shard in shards})
    if len(chunks) > 1:
        raise PublishFailure(f"shards of chunks {chunks} were mixed")
    sizes = sorted({shard.num_ranks for shard in shards})
    if len(sizes) > 1:
        raise PublishFailure(f"trainer ranks disagree on how many they are: {sizes}")
    ranks = sorted(shard.rank for shard in shards)
    if ranks != list(range(shards[0].num_ranks)):
        raise PublishFailure(f"shards came from ranks {ranks}, expected 0 to {shards[0].num_ranks - 1}")
    if len({shard.names_digest for shard in shards}) > 1:
        raise PublishFailure("trainer ranks disagree on the names of the model's weights")


def _check_complete(tensors: Mapping[str, Tensor], digests: Mapping[str, str], shard: Shard) -> None:
    absent = sorted(set(digests) - set(tensors))
    if absent:
        raise PublishFailure(f"{len(absent)} announced tensors are missing, the first are {absent[:3]}")
    if names_digest(set(tensors)) != shard.names_digest:
        raise PublishFailure(f"the {len(tensors)} tensors that came are not the model's: some are missing or unknown")
