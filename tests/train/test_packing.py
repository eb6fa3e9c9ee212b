"""Packing: what was sampled is what is trained, nothing is lost or doubled, and no split changes a weight."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.types import FinishReason, Message, Status, Task, Trajectory, Turn
from train.policy.packing import NOBODY, MicroBatch, Sample, pack, samples_from_trajectory, token_weights

TASK = Task(id="math/add/train/17", domain="math/add", split="train", index=17, prompt=(Message.of("user", "?"),))


def turn(
    prompt: list[int],
    completion: list[int],
    *,
    forced: Sequence[int] = (),
    finish: FinishReason = FinishReason.STOP,
    version: int = 3,
) -> Turn:
    """A turn whose log-prob for token id i is -i/100, so that a misplaced one shows."""
    return Turn(
        prompt_ids=prompt,
        completion_ids=completion,
        logprobs=[-token / 100 for token in completion],
        versions=[version] * len(completion),
        forced=[position in forced for position in range(len(completion))],
        message=Message.of("assistant", "x"),
        observation=(),
        finish_reason=finish,
    )


def trajectory(*segments: list[Turn], status: Status = Status.DONE) -> Trajectory:
    return Trajectory(task=TASK, tier="low", sample=2, segments=list(segments), status=status)


def sample(length: int, mark: int = 0, domain: str = "a", prompt: int = 1) -> Sample:
    """`length` tokens of which all after `prompt` are trained; ids, log-probs and advantage tell who it is."""
    trained = [position >= prompt for position in range(length)]
    return Sample(
        ids=[1000 * mark + position for position in range(length)],
        loss_mask=trained,
        behaviour_logprobs=[-(mark + position / 1024) if train else 0.0 for position, train in enumerate(trained)],
        versions=[mark if train else NOBODY for train in trained],
        advantages=[float(mark) if train else 0.0 for train in trained],
        domain=domain,
        tier="low",
        task_id=f"{domain}/train/{mark}",
        sample=0,
        truncated=False,
    )


def test_a_multi_turn_segment_becomes_one_sample() -> None:
    """F75, F81: ids are those sampled; trained ids are exactly the sampled ones, end-of-turn tokens included."""
    first = turn([1, 2, 3], [10, 11, 99])
    second = turn([1, 2, 3, 10, 11, 99, 4, 5], [20, 99], version=4)
    third = turn([1, 2, 3, 10, 11, 99, 4, 5, 20, 99, 6], [30, 31, 99], version=5)
    (made,) = samples_from_trajectory(trajectory([first, second, third]), 0.5)
    assert made.ids == [1, 2, 3, 10, 11, 99, 4, 5, 20, 99, 6, 30, 31, 99]
    trained = [token for token, train in zip(made.ids, made.loss_mask, strict=True) if train]
    assert trained == [10, 11, 99, 20, 99, 30, 31, 99]
    for token, train, logprob, version, advantage in zip(
        made.ids, made.loss_mask, made.behaviour_logprobs, made.versions, made.advantages, strict=True
    ):
        assert logprob == (-token / 100 if train else 0.0)
        assert advantage == (0.5 if train else 0.0)
        assert (version == NOBODY) is not train
    assert [version for version in made.versions if version != NOBODY] == [3, 3, 3, 4, 4, 5, 5, 5]
    assert (made.domain, made.tier, made.task_id, made.sample) == ("math/add", "low", TASK.id, 2)


def test_sampled_ids_stand_even_where_text_would_merge_them() -> None:
    """F75: ids 1 = "a", 2 = "b", 3 = "ab"; the model sampled [a, b] and that is what the next turn's prompt holds."""
    (made,) = samples_from_trajectory(trajectory([turn([9], [1, 2]), turn([9, 1, 2, 9], [1])]), 1.0)
    assert made.ids == [9, 1, 2, 9, 1] and made.loss_mask == [False, True, True, False, True]
    with pytest.raises(AssertionError, match="math/add/train/17 sample 2"):
        samples_from_trajectory(trajectory([turn([9], [1, 2]), turn([9, 3, 9], [1])]), 1.0)


def test_a_prompt_shorter_than_the_history_is_caught() -> None:
    with pytest.raises(AssertionError, match="does not extend"):
        samples_from_trajectory(trajectory([turn([9, 8], [1, 2]), turn([9, 8, 1], [1])]), 1.0)


def test_forced_tokens_carry_no_loss() -> None:
    (made,) = samples_from_trajectory(trajectory([turn([9], [5, 6, 7, 8], forced=(1, 2))]), 1.0)
    assert made.loss_mask == [False, True, False, False, True]
    assert made.behaviour_logprobs == [0.0, -0.05, 0.0, 0.0, -0.08]
    assert samples_from_trajectory(trajectory([turn([9], [5, 6], forced=(0, 1))]), 1.0) == []
    assert samples_from_trajectory(trajectory([turn([9], [])]), 1.0) == []
    assert samples_from_trajectory(trajectory(), 1.0) == []


def test_each_segment_is_a_sample_and_turns_may_differ_in_advantage() -> None:
    episode = trajectory([turn([1], [10]), turn([1, 10, 2], [11])], [turn([7], [12, 13])])
    two, one = samples_from_trajectory(episode, [0.1, -0.2, 0.3])
    assert two.advantages == [0.0, 0.1, 0.0, -0.2] and one.advantages == [0.0, 0.3, 0.3]
    with pytest.raises(AssertionError, match="2 advantages for 3 turns"):
        samples_from_trajectory(episode, [0.1, 0.2])


def test_caps_of_a_turn_and_of_the_trajectory_are_told_apart() -> None:
    """F80, F86: 3 turns of 8 tokens are 24 trained tokens; a cut first turn makes the trajectory truncated."""

    def episode(cap: int) -> Trajectory:
        finish = FinishReason.STOP if cap == 8 else FinishReason.LENGTH
        turns = [turn([0], list(range(1, cap + 1)), finish=finish)]
        for start in (100, 200):
            history = turns[-1].prompt_ids + turns[-1].completion_ids + [0]
            turns.append(turn(history, list(range(start, start + 8))))
        return trajectory(turns)

    (whole,) = samples_from_trajectory(episode(8), 1.0)
    assert whole.num_loss_tokens == 24 and not whole.truncated
    (cut,) = samples_from_trajectory(episode(4), 1.0)
    assert cut.num_loss_tokens == 20 and cut.truncated
    (status,) = samples_from_trajectory(trajectory([turn([0], [1])], status=Status.TRUNCATED), 1.0)
    assert status.truncated


def test_parallel_lists_of_different_length_are_refused() -> None:
    """F85."""
    good = sample(4)
    for name in ("loss_mask", "behaviour_logprobs", "versions", "advantages"):
        fields = {field: getattr(good, field) for field in Sample.__dataclass_fields__} | {name: [0]}
        with pytest.raises(ValueError, match=name):
            Sample(**fields)
    with pytest.raises(ValueError, match="first token"):
        sample(4, prompt=0)


def test_domain_weights_give_each_domain_its_quota() -> None:
    samples = [sample(11, 0, "long"), sample(31, 1, "long"), sample(3, 2, "short"), sample(5, 3, "even", prompt=3)]
    weights = token_weights(samples, "domain", {"long": 0.25, "short": 0.25, "even": 0.3, "absent": 0.2})
    sums = [sum(values) for values in weights]
    assert sums == pytest.approx([0.3125 * 10 / 40, 0.3125 * 30 / 40, 0.3125, 0.375])
    assert weights[2] == pytest.approx([0.0, 0.15625, 0.15625])
    assert [sum(values) for values in token_weights(samples, "domain")] == pytest.approx([1 / 12, 1 / 4, 1 / 3, 1 / 3])


def test_token_and_sequence_weights() -> None:
    samples = [sample(11, 0), sample(31, 1), sample(3, 2)]
    assert [sum(values) for values in token_weights(samples, "token")] == pytest.approx([10 / 42, 30 / 42, 2 / 42])
    by_sequence = token_weights(samples, "sequence")
    assert [sum(values) for values in by_sequence] == pytest.approx([1 / 3] * 3)
    assert by_sequence[2] == pytest.approx([0.0, 1 / 6, 1 / 6])


def test_weights_refuse_what_they_cannot_mean() -> None:
    with pytest.raises(ValueError, match="'tokens'"):
        token_weights([sample(3)], "tokens")
    with pytest.raises(ValueError, match="no quota for a"):
        token_weights([sample(3)], "domain", {"b": 1.0})
    with pytest.raises(ValueError, match="quota 0"):
        token_weights([sample(3)], "domain", {"a": 0.0})
    assert token_weights([], "domain", {}) == []


def batches_of(samples: list[Sample], row_tokens: int, ranks: int, mode: str = "token") -> list[list[MicroBatch]]:
    domains = {domain: index for index, domain in enumerate(sorted({sample.domain for sample in samples}))}
    return pack(samples, token_weights(samples, mode), domains, row_tokens, ranks)


def assert_row_is_its_samples(batch: MicroBatch, samples: list[Sample], weights: list[list[float]]) -> list[int]:
    """Every field of a real row, rebuilt sequence by sequence; returns the samples that are in it."""
    bounds = batch.boundaries.tolist()
    present = []
    targets = 0
    for start, end in itertools.pairwise(bounds):
        inside = (batch.predict_index >= start) & (batch.predict_index < end)
        (index,) = set(batch.sequence_ids[inside].tolist())
        wanted = samples[index]
        trained = [position for position, train in enumerate(wanted.loss_mask) if train]
        assert batch.input_ids[0, start:end].tolist() == wanted.ids
        assert batch.position_ids[0, start:end].tolist() == list(range(end - start))
        assert (batch.predict_index[inside] - start).tolist() == [position - 1 for position in trained]
        assert batch.target_ids[inside].tolist() == [wanted.ids[position] for position in trained]
        for name, values in (
            ("behaviour_logprobs", wanted.behaviour_logprobs),
            ("advantages", wanted.advantages),
            ("versions", wanted.versions),
            ("weights", weights[index]),
        ):
            assert getattr(batch, name)[inside].tolist() == pytest.approx([values[position] for position in trained])
        targets += len(trained)
        present.append(index)
    assert targets == len(batch.target_ids) and bounds[-1] == batch.num_tokens
    return present


@settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(2, 40), st.integers(1, 39), st.sampled_from("abc")), min_size=1, max_size=40),
    row_tokens=st.integers(8, 64),
    ranks=st.integers(1, 5),
)
def test_no_sample_is_lost_doubled_or_scrambled(
    shapes: list[tuple[int, int, str]], row_tokens: int, ranks: int
) -> None:
    """F5, round trip: whatever the sizes, every sample is in exactly one row, with its own numbers."""
    samples = [sample(n, mark, domain, min(prompt, n - 1)) for mark, (n, prompt, domain) in enumerate(shapes)]
    weights = token_weights(samples, "domain")
    domains = {"a": 5, "b": 0, "c": 7}
    per_rank = pack(samples, weights, domains, row_tokens, ranks)
    assert len({len(batches) for batches in per_rank}) == 1 and len(per_rank) == ranks
    seen: list[int] = []
    for batch in (batch for batches in per_rank for batch in batches):
        if batch.sequence_ids.tolist() == [NOBODY]:
            continue
        present = assert_row_is_its_samples(batch, samples, weights)
        assert batch.num_tokens <= row_tokens or len(present) == 1
        assert batch.domain_ids.tolist() == [domains[samples[index].domain] for index in batch.sequence_ids.tolist()]
        seen += present
    assert sorted(seen) == list(range(len(samples)))
    total = sum(float(batch.weights.double().sum()) for batches in per_rank for batch in batches)
    assert total == pytest.approx(1.0, abs=1e-6)


def test_a_dummy_has_a_target_and_no_weight() -> None:
    """F22: three rows over four ranks; no real sample is repeated to fill the fourth."""
    samples = [sample(10, mark) for mark in range(3)]
    per_rank = batches_of(samples, row_tokens=10, ranks=4)
    assert [len(batches) for batches in per_rank] == [1, 1, 1, 1]
    weight_of = Counter[int]()
    for (batch,) in per_rank:
        for index, weight in zip(batch.sequence_ids.tolist(), batch.weights.tolist(), strict=True):
            weight_of[index] += weight
    assert dict(weight_of) == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3, NOBODY: 0.0})
    (dummy,) = per_rank[3]
    assert len(dummy.target_ids) == len(dummy.predict_index) == 1 and dummy.boundaries.tolist() == [0, 2]
    assert dummy.weights.tolist() == dummy.advantages.tolist() == [0.0] and dummy.versions.tolist() == [NOBODY]
    for name in MicroBatch.__dataclass_fields__:
        real, fill = getattr(per_rank[0][0], name), getattr(dummy, name)
        assert (real is None and fill is None) or (real.dtype == fill.dtype and real.ndim == fill.ndim), name


def test_rows_are_full_and_ranks_are_balanced() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = (torch.rand(500, generator=generator) ** 3 * 300 + 10).long().tolist()
    samples = [sample(length, mark) for mark, length in enumerate(lengths)]
    per_rank = batches_of(samples, row_tokens=2048, ranks=4)
    loads = [[batch.num_tokens for batch in batches] for batches in per_rank]
    needed = -(-sum(lengths) // 2048)
    assert len(loads[0]) <= -(-needed // 4) + 1
    totals = [sum(row) for row in loads]
    assert max(totals) - min(totals) <= 20
    for step in zip(*loads, strict=True):
        assert max(step) - min(step) <= 20


def test_an_oversized_sequence_gets_its_own_row() -> None:
    samples = [sample(10, 0), sample(100, 1), sample(10, 2)]
    ((first, second),) = batches_of(samples, row_tokens=32, ranks=1)
    assert first.sequence_ids.unique().tolist() == [1] and first.num_tokens == 100
    assert second.sequence_ids.unique().tolist() == [0, 2] and second.boundaries.tolist() == [0, 10, 20]


def test_the_result_depends_on_the_arguments_only() -> None:
    samples = [sample(5 + mark % 7, mark) for mark in range(50)]
    one, two = batches_of(samples, 32, 2), batches_of(samples, 32, 2)
    for left, right in zip(one[0] + one[1], two[0] + two[1], strict=True):
        for name in MicroBatch.__dataclass_fields__:
            if name not in ("proximal_logprobs", "reference_logprobs", "routes"):
                assert torch.equal(getattr(left, name), getattr(right, name))


def test_misfits_are_refused() -> None:
    with pytest.raises(ValueError, match="domain 'a' is not"):
        pack([sample(3)], [[0.0, 0.5, 0.5]], {"b": 0}, 32, 1)
    with pytest.raises(AssertionError, match="weights"):
        pack([sample(3)], [[0.5, 0.5]], {"a": 0}, 32, 1)
    assert pack([], [], {}, 32, 2) == [[], []]


def test_many_samples_pack_in_little_time() -> None:
    samples = [sample(40 + mark % 17, mark % 9) for mark in range(5000)]
    weights = token_weights(samples, "token")
    start = time.process_time()
    per_rank = pack(samples, weights, {"a": 0}, 4096, 8)
    assert time.process_time() - start < 5.0
    assert sum(batch.num_tokens for batches in per_rank for batch in batches) == sum(len(s.ids) for s in samples)
