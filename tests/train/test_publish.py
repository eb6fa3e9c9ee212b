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
from safetensors.torch import load, load_file, save
from torch import Tensor

from rollouts.engine_actor import Prepared, StaleBase
from tests.train.test_formats import NAMES, masters, serve_rank
from train.policy import mxfp4
from train.weights import formats
from train.weights.delta import apply_patch, make_patch
from train.weights.publish import (
    Base,
    PublishFailure,
    Receiver,
    Shard,
    assemble,
    make_shard,
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


def receive(shards: list[Shard], format: str) -> tuple[Prepared, str]:
    """One chunk that is a whole version; the caller removes its file."""
    receiver = Receiver(format, delta=False)
    receiver.begin(7, 1)
    ready = receiver.take(shards)
    return ready, receiver.finish()[0]


@contextmanager
def prepared(shards: list[Shard], format: str) -> Iterator[tuple[Prepared, str]]:
    ready, checksum = receive(shards, format)
    try:
        yield ready, checksum
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
    """In any order, and by a receiver as well."""
    for order in itertools.permutations(shards):
        with pytest.raises(PublishFailure, match=says):
            assemble(order)
    with pytest.raises(PublishFailure, match=says):
        receive(shards, "mxfp4")


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


def test_a_receiver_writes_the_serving_bytes() -> None:
    with prepared(SHARDS, "mxfp4") as (ready, checksum):
        written = load_file(ready.path)
    tensors, digests, _ = assemble(SHARDS)
    assert ready.num_tensors == len(EXPECTED)
    assert checksum == version_checksum(digests)
    assert ready.full_bytes == sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    assert {name: tensor_digest(tensor) for name, tensor in written.items()} == digests
    assert written.keys() == tensors.keys()


def test_a_receiver_for_bf16_writes_the_dequantised_values() -> None:
    """An engine without MXFP4 kernels serves the same policy, under the same checksum."""
    with prepared(SHARDS, "bf16") as (ready, checksum), prepared(SHARDS, "mxfp4") as (_, packed):
        written = load_file(ready.path)
        assert checksum == packed
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
        receive(SHARDS[:1], "mxfp4")
    assert made == []


# --- chunks ------------------------------------------------------------------------------------------------------


def chunked(num_chunks: int, values: dict[str, Tensor] = VALUES, bases: list[Base] | None = None) -> list[list[Shard]]:
    """Two ranks' shards of every chunk; `bases`: what each rank published last."""
    plan = formats.plan_chunks(NAMES, num_chunks)
    found = []
    for chunk, names in enumerate(plan):
        expected = formats.expected_names({name: NAMES[name] for name in names}, "mxfp4")
        shards = []
        for rank in range(2):
            own = serve_rank({name: values[name] for name in names}, rank, 2, "mxfp4")
            base = bases[rank] if bases else None
            numbers = {"version": 7, "rank": rank, "num_ranks": 2, "chunk": chunk, "num_chunks": len(plan)}
            shards.append(make_shard(own, expected=expected, base=base, **numbers))
        found.append(shards)
    return found


def take_all(receiver: Receiver, chunks: list[list[Shard]]) -> tuple[str, dict[str, str]]:
    receiver.begin(7, len(chunks))
    for shards in chunks:
        Path(receiver.take(shards).path).unlink()
    return receiver.finish()


def test_a_version_is_the_same_in_any_number_of_chunks() -> None:
    whole = version_checksum(assemble(SHARDS)[1])
    for num_chunks in (0, 1, 2, 7):
        for delta in (False, True):
            chunks = chunked(num_chunks)
            checksum, digests = take_all(Receiver("mxfp4", delta=delta), chunks[::-1])
            assert checksum == whole and digests.keys() == EXPECTED
    assert len(chunked(7)) == 7
    assert len(chunked(1)) == 1


def test_chunks_are_layers_in_the_order_of_the_model() -> None:
    names = ["model.embed_tokens.weight", "model.layers.0.a", "model.layers.0.mlp.experts.w1", "model.layers.10.a"]
    names += ["model.layers.10.b", "model.norm.weight", "lm_head.weight"]
    assert formats.plan_chunks(names, 0) == [[names[0], *names[5:]], names[1:3], names[3:5]]
    assert formats.plan_chunks(names, 2) == [names[:3], names[3:]]
    assert formats.plan_chunks(names, 99) == [[name] for name in names]


def test_missing_doubled_and_foreign_chunks() -> None:
    receiver, chunks = Receiver("mxfp4", delta=False), chunked(2)
    receiver.begin(7, 2)
    Path(receiver.take(chunks[0]).path).unlink()
    with pytest.raises(PublishFailure, match=r"version 7: chunks \[1\] of 2 did not come"):
        receiver.finish()
    with pytest.raises(PublishFailure, match=r"chunk 0 of 2 .* of which \[0\] are here"):
        receiver.take(chunks[0])
    with pytest.raises(PublishFailure, match=r"shards of chunks \[\(0, 2\), \(1, 2\)\] were mixed"):
        receiver.take([chunks[0][0], chunks[1][1]])
    receiver.begin(8, 2)
    with pytest.raises(PublishFailure, match="of version 7 came while version 8 in 2 chunks was awaited"):
        receiver.take(chunks[1])


# --- deltas ------------------------------------------------------------------------------------------------------


def moved(share: float, seed: int = 5) -> dict[str, Tensor]:
    """The masters with this share of expert blocks replaced."""
    generator = torch.Generator().manual_seed(seed)
    out = {}
    for name, value in VALUES.items():
        blocks = value.clone().view(-1, 32) if formats.is_expert(name) else value.clone()
        if formats.is_expert(name):
            which = torch.rand(len(blocks), generator=generator) < share
            blocks[which] = -3.0 * blocks[which]
        out[name] = blocks.view(value.shape)
    return out


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_a_delta_gives_the_very_bytes(share: float) -> None:
    bases, receiver = [Base(), Base()], Receiver("mxfp4", delta=True)
    take_all(receiver, chunked(2, bases=bases))
    now = moved(share)
    patched, full = chunked(2, now, bases), chunked(2, now)
    checksum, digests = take_all(receiver, patched)
    assert (checksum, digests) == take_all(Receiver("mxfp4", delta=False), full)
    sizes = [sum(len(shard.payload) for shards in chunks for shard in shards) for chunks in (patched, full)]
    whole = sum(shard.full_bytes for shards in patched for shard in shards)
    assert whole == sum(shard.full_bytes for shards in full for shard in shards)
    assert (sizes[0] < 0.8 * sizes[1]) if share < 0.1 else sizes[0] <= 1.05 * sizes[1]
    # And once more, from there: nothing moved.
    again = chunked(2, now, bases)
    assert take_all(receiver, again)[0] == checksum


def test_patches_of_another_base_are_not_applied() -> None:
    """An engine that is new, or that missed a version, asks for the chunk in full."""
    bases, behind, new = [Base(), Base()], Receiver("mxfp4", delta=True), Receiver("mxfp4", delta=True)
    take_all(behind, chunked(1, bases=bases))
    chunked(1, moved(0.1), bases)  # published, and missed by this engine
    now = moved(0.2, seed=6)
    (shards,) = chunked(1, now, bases)
    (full,) = chunked(1, now)
    for receiver in (behind, new, Receiver("mxfp4", delta=False)):
        receiver.begin(7, 1)
        with pytest.raises(StaleBase):
            receiver.take(shards)
        Path(receiver.take(full).path).unlink()
        assert receiver.finish()[0] == version_checksum(assemble(full)[1])


def test_a_damaged_patch_is_refused() -> None:
    bases, receiver = [Base(), Base()], Receiver("mxfp4", delta=True)
    take_all(receiver, chunked(1, bases=bases))
    (shards,) = chunked(1, moved(0.05), bases)
    tensors = load(shards[0].payload)
    name = next(name for name in tensors if name.endswith("#codes"))
    for change, says in (
        (lambda: tensors.update({name: tensors[name][:-1]}), "names .* blocks and brings"),
        (lambda: tensors.update({name: tensors[name].bitwise_xor(1)}), "does not match its checksum"),
        (lambda: tensors.pop(name), "cannot be read"),
    ):
        before = dict(tensors)
        change()
        receiver.begin(7, 1)
        with pytest.raises(PublishFailure, match=says):
            receiver.take([dataclasses.replace(shards[0], payload=save(tensors)), shards[1]])
        tensors.clear()
        tensors.update(before)


def test_a_patch_by_hand() -> None:
    old, scales = torch.zeros(2, 32, dtype=torch.uint8), torch.full((2, 2), 127, dtype=torch.uint8)
    new, changed = old.clone(), scales.clone()
    new[0, 20] = 9  # block 1
    changed[1, 0] = 128  # block 2
    patch = make_patch(old, scales, new, changed)
    assert patch.mask.tolist() == [0b01100000]
    assert patch.codes.tolist() == [[0, 0, 0, 0, 9, *([0] * 11)], [0] * 16] and patch.scales.tolist() == [127, 128]
    found = apply_patch(old, scales, patch)
    assert torch.equal(found[0], new) and torch.equal(found[1], changed) and not old.any()
    with pytest.raises(ValueError, match="is not of 9 blocks"):
        apply_patch(torch.zeros(9, 16, dtype=torch.uint8), torch.zeros(9, dtype=torch.uint8), patch)
