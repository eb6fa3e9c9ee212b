"""From trajectories to packed micro-batches, with every normalising count fixed before the batch is split.

In: trajectories with advantages.  Out: for each data-parallel rank a list of `MicroBatch`, as many on every rank.

    samples_from_trajectory -> token_weights -> pack

Called by `train.loop`; the micro-batches are read by `train.policy.policy` and `train.policy.losses`.  Pure: no
process group, no tokenizer.  Token ids are those that the engine saw and sampled; text is never tokenised again.

Legend of shapes: T tokens of a packed row, L loss tokens of a packed row, n sequences of a packed row.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from envs.types import FinishReason, Status, Trajectory, Turn
from train.policy.routes import row_routes, segment_routes

WEIGHT_MODES = ("domain", "token", "sequence")
# What a micro-batch has in the place of a sequence id or a version where no real token stands behind it.
NOBODY = -1


@dataclass(slots=True)
class Sample:
    """One segment of a trajectory as training sees it; per-token lists are parallel to `ids`.

    - `loss_mask`: True at token t where token t is trained: sampled by the policy, and not forced.
    - `behaviour_logprobs`: of the distribution that was sampled, nats; 0.0 where not trained.
    - `versions`: policy version that sampled the token; -1 where no policy did.
    - `advantages`: 0.0 where not trained.
    - `sample`: number of the trajectory within its group; segments of one trajectory share it.
    - `routes`: expert ids [len(ids) - 1, layers, top_k] that the engine chose at every position but the last, with
      `route_layers`, or None.

    Raises `ValueError` on lists of different length or on a trained first token, which nothing could predict.

    Example::

        Sample(ids=[2, 7, 40, 5], loss_mask=[False, False, True, True], behaviour_logprobs=[0.0, 0.0, -0.1, -0.01],
               versions=[-1, -1, 3, 3], advantages=[0.0, 0.0, 0.5, 0.5], domain="math/add", tier="low",
               task_id="math/add/train/17", sample=0, truncated=False)
    """

    ids: list[int]
    loss_mask: list[bool]
    behaviour_logprobs: list[float]
    versions: list[int]
    advantages: list[float]
    domain: str
    tier: str
    task_id: str
    sample: int
    truncated: bool
    routes: np.ndarray | None = field(default=None, compare=False, repr=False)
    route_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("loss_mask", "behaviour_logprobs", "versions", "advantages"):
            if len(getattr(self, name)) != len(self.ids):
                raise ValueError(
                    f"{self.task_id}: {name} has {len(getattr(self, name))} entries for {len(self.ids)} ids"
                )
        if self.loss_mask and self.loss_mask[0]:
            raise ValueError(f"{self.task_id}: the first token of a sequence cannot be trained, nothing predicts it")
        if self.routes is not None and len(self.routes) != len(self.ids) - 1:
            raise ValueError(
                f"{self.task_id}: routes of {len(self.routes)} positions for {len(self.ids)} ids, expected one less"
            )

    @property
    def num_loss_tokens(self) -> int:
        return sum(self.loss_mask)


@dataclass(slots=True)
class MicroBatch:
    """One packed row: n sequences one after the other, without padding.

    - `input_ids`, `position_ids`: int64 [1, T]; positions restart at every sequence.
    - `boundaries`: int32 [n + 1], cumulative: sequence i is at boundaries[i]:boundaries[i + 1].
    - `predict_index`: int64 [L], the position whose hidden state predicts a trained token: one before it.
    - `target_ids`: int64 [L], the trained tokens.
    - `behaviour_logprobs`, `advantages`, `weights`: fp32 [L]; the weights carry the whole normalisation.
    - `domain_ids`, `versions`, `sequence_ids`: int64 [L]; `sequence_ids` index the samples that `pack` was given.
    - `routes`: int16 [T, layers, top_k], the experts to use; -1 at the last position of every sequence and in dummies.
      None where the trainer chooses by itself.
    - `proximal_logprobs`, `reference_logprobs`: fp32 [L], filled in by a pass of the trainer, or of a frozen reference
      engine, for the losses that need them.

    A dummy, which fills up a rank that has less work, has one target of weight 0, sequence id -1 and version -1.
    """

    input_ids: Tensor
    position_ids: Tensor
    boundaries: Tensor
    predict_index: Tensor
    target_ids: Tensor
    behaviour_logprobs: Tensor
    advantages: Tensor
    weights: Tensor
    domain_ids: Tensor
    versions: Tensor
    sequence_ids: Tensor
    routes: Tensor | None = None
    proximal_logprobs: Tensor | None = None
    reference_logprobs: Tensor | None = None

    @property
    def num_tokens(self) -> int:
        return self.input_ids.shape[1]


def samples_from_trajectory(trajectory: Trajectory, advantage: float | Sequence[float]) -> list[Sample]:
    """One `Sample` a segment that has trained tokens; none where the trajectory has none.

    `advantage` is one number for the trajectory, or one for each of `trajectory.turns`.  Stop tokens are trained (they
    were sampled); forced tokens, prompts and observations are not.  Asserts, naming the task, that each turn's prompt
    extends the previous turn's prompt and completion: anything else means that tokens were made again from text.
    """
    per_turn = _per_turn(trajectory, advantage)
    truncated = trajectory.status is Status.TRUNCATED or any(
        turn.finish_reason is FinishReason.LENGTH for turn in trajectory.turns
    )
    samples = []
    first = 0
    for segment in trajectory.segments:
        sample = _sample_of_segment(trajectory, segment, per_turn[first : first + len(segment)], truncated)
        first += len(segment)
        if any(sample.loss_mask):
            samples.append(sample)
    return samples


def token_weights(samples: Sequence[Sample], mode: str, quota: Mapping[str, float] | None = None) -> list[list[float]]:
    """The factor of every token's loss, parallel to each sample's `ids`; 0.0 where not trained.  They sum to 1.

    - `domain`: q_d / N_d; `quota` gives q_d, renormalised over the domains present (None: all alike), and N_d is the
      domain's number of loss tokens in the whole batch.  A domain of long answers owns no more than its quota.
    - `token`: 1 / N, N the loss tokens of the batch (DAPO, arXiv 2503.14476).
    - `sequence`: 1 / (S * N_s), S the samples and N_s the sample's loss tokens (GRPO, arXiv 2402.03300).

    To be called on the whole batch before it is split.  Raises as `loss_token_weights` does.
    """
    counts = [sample.num_loss_tokens for sample in samples]
    factors = loss_token_weights([sample.domain for sample in samples], counts, mode, quota)
    return [
        [factor if trained else 0.0 for trained in sample.loss_mask]
        for sample, factor in zip(samples, factors, strict=True)
    ]


def loss_token_weights(
    domains: Sequence[str], counts: Sequence[int], mode: str, quota: Mapping[str, float] | None = None
) -> list[float]:
    """The weight of one loss token of each sample, from each sample's domain and number of loss tokens.

    What `token_weights` spreads over tokens; enough by itself where only counts are known (the driver).  Raises
    `ValueError` on an unknown mode, on a domain without a quota, and where all the domains present have quota 0.
    """
    if mode not in WEIGHT_MODES:
        raise ValueError(f"unknown normalisation {mode!r}; known are {', '.join(WEIGHT_MODES)}")
    if mode == "token":
        return [1.0 / max(sum(counts), 1)] * len(counts)
    if mode == "sequence":
        num_samples = sum(count > 0 for count in counts)
        return [1.0 / (num_samples * count) if count else 0.0 for count in counts]
    per_domain: dict[str, int] = defaultdict(int)
    for domain, count in zip(domains, counts, strict=True):
        per_domain[domain] += count
    shares = _shares([domain for domain, count in per_domain.items() if count], quota)
    return [
        shares[domain] / per_domain[domain] if count else 0.0 for domain, count in zip(domains, counts, strict=True)
    ]


def plan_rows(lengths: Sequence[int], row_tokens: int, num_ranks: int) -> list[list[list[int]]]:
    """Which samples (by number) go into which row of which rank, from their lengths alone; see `pack`.

    Every rank gets the same number of rows; some may be empty.
    """
    rows = _rows(lengths, row_tokens, num_ranks)
    return [rows[rank::num_ranks] for rank in range(num_ranks)]


def build_row(
    samples: Sequence[Sample], weights: Sequence[float], numbers: Sequence[int], domain_index: Mapping[str, int]
) -> MicroBatch:
    """One planned row.  `weights`: of one loss token of each sample; `numbers`: their sequence ids in the batch."""
    if not samples:
        return _dummy()
    spread = [
        [weight if trained else 0.0 for trained in sample.loss_mask]
        for sample, weight in zip(samples, weights, strict=True)
    ]
    row = _micro_batch(range(len(samples)), samples, spread, domain_index)
    row.sequence_ids = torch.tensor(numbers)[row.sequence_ids]
    return row


def pack(
    samples: Sequence[Sample],
    weights: Sequence[Sequence[float]],
    domain_index: Mapping[str, int],
    row_tokens: int,
    num_ranks: int,
) -> list[list[MicroBatch]]:
    """Split samples into rows of at most `row_tokens` tokens, the same number of rows for each of `num_ranks` ranks.

    A longer sequence gets a row to itself.  Rows are filled longest sequence first, always into the emptiest row, and
    dealt so that the ranks' k-th rows are of about the same size (ranks wait for each other at every expert
    exchange).  The result depends on the arguments only.  O(n log n).  Raises `ValueError` on a domain that is not
    in `domain_index`; asserts that weights fit and every sample has a loss token.
    """
    assert len(samples) == len(weights) and row_tokens > 0 and num_ranks > 0
    for sample, sample_weights in zip(samples, weights, strict=True):
        assert len(sample_weights) == len(sample.ids), f"{sample.task_id}: weights do not fit the tokens"
        assert any(sample.loss_mask), f"{sample.task_id}: a sample without loss tokens"
        if sample.domain not in domain_index:
            raise ValueError(f"{sample.task_id}: domain {sample.domain!r} is not one of this run's domains")
    planned = plan_rows([len(sample.ids) for sample in samples], row_tokens, num_ranks)
    return [
        [_micro_batch(row, samples, weights, domain_index) if row else _dummy() for row in rows] for rows in planned
    ]


def _per_turn(trajectory: Trajectory, advantage: float | Sequence[float]) -> list[float]:
    num_turns = len(trajectory.turns)
    if isinstance(advantage, int | float):
        return [float(advantage)] * num_turns
    assert len(advantage) == num_turns, f"{trajectory.task.id}: {len(advantage)} advantages for {num_turns} turns"
    return list(advantage)


def _sample_of_segment(
    trajectory: Trajectory, segment: Sequence[Turn], advantages: Sequence[float], truncated: bool
) -> Sample:
    sample = Sample(
        ids=[],
        loss_mask=[],
        behaviour_logprobs=[],
        versions=[],
        advantages=[],
        domain=trajectory.task.domain,
        tier=trajectory.tier,
        task_id=trajectory.task.id,
        sample=trajectory.sample,
        truncated=truncated,
    )
    for turn, advantage in zip(segment, advantages, strict=True):
        _append_turn(sample, turn, advantage)
    sample.routes, sample.route_layers = segment_routes(sample.task_id, [turn.routes for turn in segment])
    return replace(sample)  # a new one, so that the finished lists are checked


def _append_turn(sample: Sample, turn: Turn, advantage: float) -> None:
    """Append what is new in the turn's prompt (untrained), then its completion."""
    seen = len(sample.ids)
    assert turn.prompt_ids[:seen] == sample.ids, (
        f"{sample.task_id} sample {sample.sample}: a turn's prompt does not extend the {seen} tokens before it"
    )
    num_new = len(turn.prompt_ids) - seen
    trained = [not forced for forced in turn.forced]
    sample.ids += turn.prompt_ids[seen:] + turn.completion_ids
    sample.loss_mask += [False] * num_new + trained
    sample.behaviour_logprobs += [0.0] * num_new
    sample.behaviour_logprobs += [value if train else 0.0 for value, train in zip(turn.logprobs, trained, strict=True)]
    sample.versions += [NOBODY] * num_new
    sample.versions += [value if train else NOBODY for value, train in zip(turn.versions, trained, strict=True)]
    sample.advantages += [0.0] * num_new + [advantage if train else 0.0 for train in trained]


def _shares(domains: Sequence[str], quota: Mapping[str, float] | None) -> dict[str, float]:
    if quota is None:
        return {domain: 1.0 / len(domains) for domain in domains}
    missing = [domain for domain in domains if domain not in quota]
    if missing:
        raise ValueError(f"no quota for {', '.join(missing)}, which has samples in this batch")
    total = sum(quota[domain] for domain in domains)
    if domains and not total > 0:
        raise ValueError(f"the domains of this batch have quota {total} in all: {', '.join(domains)}")
    return {domain: quota[domain] / total for domain in domains}


def _rows(lengths: Sequence[int], row_tokens: int, num_ranks: int) -> list[list[int]]:
    """Sample indices of each row, fullest row first; the number of rows is a multiple of `num_ranks`."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    single = [[index] for index in order if lengths[index] > row_tokens]
    rest = order[len(single) :]
    tokens = sum(lengths[index] for index in rest)
    num_rows = _round_up(len(single) + -(-tokens // row_tokens), num_ranks) - len(single)
    filled = _fill(rest, lengths, row_tokens, num_rows)
    if len(filled) > num_rows:
        # They did not fit; filling the number that was needed evenly leaves no row nearly empty.
        filled = _fill(rest, lengths, row_tokens, _round_up(len(single) + len(filled), num_ranks) - len(single))
    rows = single + filled
    rows += [[] for _ in range(_round_up(len(rows), num_ranks) - len(rows))]
    return sorted(rows, key=lambda row: (-sum(lengths[index] for index in row), row))


def _fill(order: Sequence[int], lengths: Sequence[int], row_tokens: int, num_rows: int) -> list[list[int]]:
    """Longest first into the emptiest row; where that has no room none has, and a row is opened."""
    rows: list[list[int]] = [[] for _ in range(num_rows)]
    loads = [(0, row) for row in range(num_rows)]
    for index in order:
        if not loads or loads[0][0] + lengths[index] > row_tokens:
            heapq.heappush(loads, (lengths[index], len(rows)))
            rows.append([index])
        else:
            load, row = loads[0]
            heapq.heapreplace(loads, (load + lengths[index], row))
            rows[row].append(index)
    return rows


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _micro_batch(
    row: Sequence[int], samples: Sequence[Sample], weights: Sequence[Sequence[float]], domain_index: Mapping[str, int]
) -> MicroBatch:
    chosen = [samples[index] for index in row]
    lengths = np.array([len(sample.ids) for sample in chosen])
    boundaries = np.concatenate(([0], np.cumsum(lengths)))
    targets = np.flatnonzero(_flat((sample.loss_mask for sample in chosen), bool))
    ids = _flat((sample.ids for sample in chosen), np.int64)
    sequence_of_target = np.searchsorted(boundaries, targets, side="right") - 1
    domains = np.array([domain_index[sample.domain] for sample in chosen])

    def of_targets(lists: Iterable[Sequence[float]], kind: type) -> Tensor:
        return torch.from_numpy(_flat(lists, kind)[targets])

    return MicroBatch(
        input_ids=torch.from_numpy(ids)[None],
        position_ids=torch.from_numpy(np.arange(len(ids)) - np.repeat(boundaries[:-1], lengths))[None],
        boundaries=torch.from_numpy(boundaries.astype(np.int32)),
        predict_index=torch.from_numpy(targets - 1),
        target_ids=torch.from_numpy(ids[targets]),
        behaviour_logprobs=of_targets((sample.behaviour_logprobs for sample in chosen), np.float32),
        advantages=of_targets((sample.advantages for sample in chosen), np.float32),
        weights=of_targets((weights[index] for index in row), np.float32),
        domain_ids=torch.from_numpy(domains[sequence_of_target]),
        versions=of_targets((sample.versions for sample in chosen), np.int64),
        sequence_ids=torch.from_numpy(np.array(row)[sequence_of_target]),
        routes=row_routes([(sample.task_id, sample.routes) for sample in chosen]),
    )


def _flat(lists: Iterable[Sequence[float]], kind: type) -> np.ndarray:
    return np.fromiter(chain.from_iterable(lists), dtype=kind)


def _dummy() -> MicroBatch:
    """Two tokens and one target without weight, so that every collective of a step runs on every rank."""
    integers, zeros = torch.zeros(1, dtype=torch.int64), torch.zeros(1)
    return MicroBatch(
        input_ids=torch.zeros(1, 2, dtype=torch.int64),
        position_ids=torch.arange(2)[None],
        boundaries=torch.tensor([0, 2], dtype=torch.int32),
        predict_index=integers,
        target_ids=integers.clone(),
        behaviour_logprobs=zeros,
        advantages=zeros.clone(),
        weights=zeros.clone(),
        domain_ids=integers.clone(),
        versions=torch.full((1,), NOBODY),
        sequence_ids=torch.full((1,), NOBODY),
    )
