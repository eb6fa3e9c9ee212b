"""From trainer ranks to engines: shards of one version, checked before a byte of them is served.

In: what each rank contributes (`make_shard`, bytes in serving format with a digest a tensor).  Out: one file on the
engine's node (`prepare`, handed to the pool as a callable).  A shard travels through Ray's object store, so trainers
and engines may sit on different nodes.

    rank r: quantise own experts ─► make_shard ─► object store ─► engine: prepare ─► file on tmpfs ─► vLLM
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save, save_file
from torch import Tensor

from rollouts.pool import Prepared
from train.weights import formats


class PublishFailure(ValueError):
    """Shards that do not make up one whole version; the text names what is wrong with which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One rank's share of one version.

    - `payload`: safetensors bytes; `digests`: name -> digest of (dtype, shape, bytes).
    - `names_digest`: digest of all names of the whole version, the same on every rank.
    """

    version: int
    rank: int
    num_ranks: int
    payload: bytes
    digests: Mapping[str, str]
    names_digest: str


def tensor_digest(tensor: Tensor) -> str:
    """A digest of dtype, shape and bytes (BLAKE2b, 128 bit)."""
    head = f"{tensor.dtype}{list(tensor.shape)}".encode()
    raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.blake2b(raw.tobytes(), digest_size=16, key=hashlib.sha256(head).digest()).hexdigest()


def names_digest(names: set[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def version_checksum(digests: Mapping[str, str]) -> str:
    """One checksum for a whole version, whatever rank its tensors came from."""
    return hashlib.sha256("\n".join(f"{name} {digests[name]}" for name in sorted(digests)).encode()).hexdigest()


def make_shard(tensors: Mapping[str, Tensor], *, version: int, rank: int, num_ranks: int, expected: set[str]) -> Shard:
    """Pack this rank's tensors.  `expected`: every name of the whole version."""
    return Shard(
        version=version,
        rank=rank,
        num_ranks=num_ranks,
        payload=save(dict(tensors)),
        digests={name: tensor_digest(tensor) for name, tensor in tensors.items()},
        names_digest=names_digest(expected),
    )


def assemble(shards: Sequence[Shard]) -> tuple[dict[str, Tensor], dict[str, str], int]:
    """Tensors, digests and version of a whole version out of its shards, in any order.

    Raises PublishFailure for shards of different versions, a missing rank, a tensor that came twice or not at all, or
    bytes that do not match their digest.
    """
    _check_belong_together(shards)
    tensors: dict[str, Tensor] = {}
    digests: dict[str, str] = {}
    for shard in shards:
        for name, tensor in _load(shard).items():
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


def prepare(shards: Sequence[Shard], format: str) -> Prepared:
    """Check the shards and write what an engine of `format` loads; the caller removes the file."""
    tensors, digests, version = assemble(shards)
    served = formats.decode(tensors) if format == "bf16" else tensors
    directory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    handle, path = tempfile.mkstemp(prefix="jointrl-weights-", suffix=".safetensors", dir=directory)
    os.close(handle)
    save_file(served, path)
    return Prepared(
        path=path,
        num_tensors=len(served),
        version=version,
        checksum=version_checksum(digests),
        digests=digests,
    )


def _check_belong_together(shards: Sequence[Shard]) -> None:
    if not shards:
        raise PublishFailure("no shards")
    versions = sorted({shard.version for shard in shards})
    if len(versions) > 1:
        raise PublishFailure(f"shards of versions {versions} were mixed: one rank sent a stale shard")
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
