"""Publishing: one whole version or an error that names what is wrong with which shard (F54)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save
from torch import Tensor

from rollouts.pool import Prepared
from tests.train.test_formats import NAMES, masters, serve_rank
from train.policy import mxfp4
from train.weights import formats
from train.weights.publish import (
    PublishFailure,
    Shard,
    assemble,
    make_shard,
    prepare,
    tensor_digest,
    version_checksum,
)

EXPECTED = formats.expected_names(NAMES, "mxfp4")
VALUES = masters()


def rank_tensors(rank: int, num_ranks: int) -> dict[str, Tensor]:
    return serve_rank(VALUES, rank, num_ranks, "mxfp4")


def make_shards(num_ranks: int = 2, version: int = 7) -> list[Shard]:
    return [
        make_shard(rank_tensors(rank, num_ranks), version=version, rank=rank, num_ranks=num_ranks, expected=EXPECTED)
        for rank in range(num_ranks)
    ]


SHARDS = make_shards()


@contextmanager
def prepared(shards: list[Shard], format: str) -> Iterator[Prepared]:
    ready = prepare(shards, format)
    try:
        yield ready
    finally:
        Path(ready.path).unlink()


def with_tensors(shard: Shard, tensors: dict[str, Tensor]) -> Shard:
    digests = {name: tensor_digest(tensor) for name, tensor in tensors.items()}
    return dataclasses.replace(shard, payload=save(tensors), digests=digests)


# --- whole versions ----------------------------------------------------------------------------------------------


def test_a_whole_version_comes_back_bit_for_bit() -> None:
    tensors, digests, version = assemble(SHARDS)
    whole = formats.serve_all(VALUES, "mxfp4")
    assert version == 7 and tensors.keys() == digests.keys() == whole.keys() == EXPECTED
    for name, tensor in whole.items():
        assert tensors[name].dtype is tensor.dtype and torch.equal(tensors[name], tensor)


def test_neither_order_nor_split_changes_the_checksum() -> None:
    checksums = set()
    for num_ranks in (1, 2, 4):
        for order in itertools.permutations(make_shards(num_ranks)):
            checksums.add(version_checksum(assemble(order)[1]))
    assert len(checksums) == 1


def test_the_checksum_sees_every_bit_name_shape_and_type() -> None:
    base = torch.arange(8, dtype=torch.uint8)
    flipped = base.clone()
    flipped[3] ^= 1
    others = [flipped, base.view(2, 4), base.view(4, 2), base.view(torch.int8)]
    digests = [tensor_digest(tensor) for tensor in (base, *others)]
    assert len(set(digests)) == len(digests)
    assert tensor_digest(base) == tensor_digest(base.clone())
    assert tensor_digest(torch.tensor([0.0])) != tensor_digest(torch.tensor([-0.0]))
    transposed = torch.arange(6.0).view(2, 3).T
    assert tensor_digest(transposed) == tensor_digest(transposed.contiguous())
    assert len({version_checksum({"a": "1", "b": "2"}), version_checksum({"a": "2", "b": "1"})}) == 2


# --- what is refused ---------------------------------------------------------------------------------------------


def refused(shards: list[Shard], says: str) -> None:
    """In any order, and by `prepare` as well."""
    for order in itertools.permutations(shards):
        with pytest.raises(PublishFailure, match=says):
            assemble(order)
    with pytest.raises(PublishFailure, match=says):
        prepare(shards, "mxfp4")


def test_a_missing_or_doubled_rank() -> None:
    refused([], "no shards")
    refused(SHARDS[:1], r"ranks \[0\], expected 0 to 1")
    refused(SHARDS[1:], r"ranks \[1\], expected 0 to 1")
    refused([SHARDS[0], SHARDS[0]], r"ranks \[0, 0\], expected 0 to 1")


def test_ranks_that_disagree_on_their_number() -> None:
    alone = dataclasses.replace(SHARDS[0], num_ranks=1)
    refused([alone, SHARDS[1]], "disagree on how many they are")


def test_a_stale_shard() -> None:
    refused([SHARDS[0], make_shards(version=6)[1]], r"versions \[6, 7\] were mixed")


def test_a_tensor_that_came_twice() -> None:
    name = f"{formats.expert_name('model.layers.3.mlp.experts.w1', 0)}"
    extra = rank_tensors(1, 2) | {name: rank_tensors(0, 2)[name]}
    refused([SHARDS[0], with_tensors(SHARDS[1], extra)], f"{name} came twice")


def test_a_tensor_that_did_not_come() -> None:
    tensors = rank_tensors(1, 2)
    tensors.pop(formats.expert_name("model.layers.3.mlp.experts.w2", 3))
    refused([SHARDS[0], with_tensors(SHARDS[1], tensors)], "are not the model's")
    announced = dataclasses.replace(SHARDS[1], payload=save(tensors))
    refused([SHARDS[0], announced], r"1 announced tensors are missing.*experts\.3\.down_proj\.weight'")


def test_a_renamed_parameter() -> None:
    """F54: a name that nobody knows is an error, not a tensor that is quietly left alone."""
    tensors = rank_tensors(0, 2)
    tensors["lm_head.weights"] = tensors.pop("lm_head.weight")
    refused([with_tensors(SHARDS[0], tensors), SHARDS[1]], "are not the model's")


def test_ranks_that_disagree_on_the_names() -> None:
    other = make_shard(rank_tensors(1, 2), version=7, rank=1, num_ranks=2, expected=EXPECTED | {"extra"})
    refused([SHARDS[0], other], "disagree on the names")


def test_a_flipped_byte_in_a_tensor_names_it() -> None:
    payload = bytearray(SHARDS[1].payload)
    payload[-1] ^= 1
    refused([SHARDS[0], dataclasses.replace(SHARDS[1], payload=bytes(payload))], "from rank 1 does not match")


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_no_damage_to_a_shard_goes_unnoticed(data: st.DataObject) -> None:
    """Header or values, a flipped bit or a lost end: refused as what it is, or without effect."""
    payload = bytearray(SHARDS[1].payload)
    header = 8 + int.from_bytes(payload[:8], "little")
    position = data.draw(st.integers(0, header - 1) | st.integers(0, len(payload) - 1))
    if data.draw(st.booleans()):
        payload[position] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del payload[position:]
    damaged = dataclasses.replace(SHARDS[1], payload=bytes(payload))
    try:
        tensors, _, _ = assemble([SHARDS[0], damaged])
    except PublishFailure:
        return
    whole, _, _ = assemble(SHARDS)
    assert all(torch.equal(tensors[name], whole[name]) for name in whole)


# --- what the engine loads ---------------------------------------------------------------------------------------


def test_prepare_writes_the_serving_bytes() -> None:
    with prepared(SHARDS, "mxfp4") as ready:
        written = load_file(ready.path)
    tensors, digests, _ = assemble(SHARDS)
    assert (ready.version, ready.num_tensors) == (7, len(EXPECTED))
    assert ready.checksum == version_checksum(digests)
    assert {name: tensor_digest(tensor) for name, tensor in written.items()} == digests
    assert written.keys() == tensors.keys()


def test_prepare_for_bf16_writes_the_dequantised_values() -> None:
    """An engine without MXFP4 kernels serves the same policy, under the same checksum."""
    with prepared(SHARDS, "bf16") as ready, prepared(SHARDS, "mxfp4") as packed:
        written = load_file(ready.path)
        assert ready.checksum == packed.checksum
    assert ready.num_tensors == len(written)
    assert written.keys() == formats.expected_names(NAMES, "bf16")
    for name, num_experts in NAMES.items():
        for expert in range(num_experts):
            value = written[formats.expert_name(name, expert)]
            assert torch.equal(value, mxfp4.fake_quantise(VALUES[name][expert].to(torch.bfloat16)))


def test_a_refused_version_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr("train.weights.publish.tempfile.mkstemp", lambda **options: made.append("a file"))
    with pytest.raises(PublishFailure):
        prepare(SHARDS[:1], "mxfp4")
    assert made == []
