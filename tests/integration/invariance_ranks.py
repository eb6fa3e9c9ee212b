"""What the processes of `test_invariance` do: the same batch, every loss, split in every way.

In: a folder with a tiny model, and what a single rank found with everything in one row.  Out: how far loss and
gradients are from that.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.integration.policy_ranks import DOMAINS, LEARNING_RATE, VERSION, Case, make_policy, sequences
from train.policy.losses import LOSSES, LossOptions
from train.policy.packing import WEIGHT_MODES, MicroBatch, build_row, loss_token_weights

BATCH = (21, 24)  # seed and number of sequences
QUOTA = {"a/x": 0.3, "b/y": 0.7}
COMBINATIONS = tuple(itertools.product(LOSSES, WEIGHT_MODES))
ALONE = 0  # every sequence in a row of its own
MICRO_BATCHES = (1, 2, 4, ALONE)
# Wide enough that no token sits on the edge of a clip, where the last digit would decide about it.
OPTIONS = LossOptions(cispo_high=100.0, mismatch_cap=100.0, icepop_high=100.0, icepop_low=1e-6, tv_threshold=0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How ranks divide the work; `number` turns the wheel of micro-batch counts, so that every loss meets each."""

    number: int
    zero_stage: int
    activation_checkpointing: bool


def micro_batches(mode: str, rank: int, world: int, num_rows: int) -> list[MicroBatch]:
    """The batch dealt out to `num_rows` rows a rank."""
    samples = sequences(*BATCH)
    counts = [sample.num_loss_tokens for sample in samples]
    weights = loss_token_weights([sample.domain for sample in samples], counts, mode, QUOTA)
    num_rows = num_rows or -(-len(samples) // world)
    rows = []
    for row in range(num_rows):
        numbers = list(range(rank * num_rows + row, len(samples), world * num_rows))
        own = build_row([samples[i] for i in numbers], [weights[i] for i in numbers], numbers, DOMAINS)
        # Any numbers will do as a reference policy, as long as they belong to the token.
        own.reference_logprobs = own.behaviour_logprobs - 0.25 + 0.001 * own.target_ids
        rows.append(own)
    return rows


def measure(
    rank: int,
    world: int,
    model_dir: Path,
    store: Path,
    expert_parallel: int,
    splits: list[Split],
    reference: Path | None,
) -> dict[str, Any]:
    """Per split and combination the distances from `reference` (on rank 0), and what several updates do.

    Without a reference, the loss and gradients themselves.
    """
    expected = torch.load(reference, weights_only=True) if reference and rank == 0 else None
    seen: dict[str, Any] = {}
    for split in splits:
        case = Case(
            name="",
            expert_parallel=expert_parallel,
            zero_stage=split.zero_stage,
            activation_checkpointing=split.activation_checkpointing,
        )
        policy = make_policy(rank, world, model_dir, store, case)
        start, _ = policy.read_state()
        for number, (loss, mode) in enumerate(COMBINATIONS):
            policy.write_state(start, 0)
            num_rows = MICRO_BATCHES[(number + split.number) % len(MICRO_BATCHES)] if reference else 1
            rows = micro_batches(mode, rank, world, num_rows)
            totals = policy.train_step([rows], loss, OPTIONS, LEARNING_RATE, VERSION, len(DOMAINS))
            found = {"totals": totals, "gradients": gradients(policy)}
            key = f"{loss} {mode}"
            if reference is None:
                seen[key] = found
            elif expected is not None:
                seen[f"{key}, {num_rows or 'all'} rows, {split}"] = distances(found, expected[key])
        if reference:
            seen[f"updates, {split}"] = several_updates(policy, start, rank, world)
    return seen


def gradients(policy: Any) -> dict[str, Tensor]:
    """Of every parameter, after the clip: Adam's first moment after its first step is (1 - beta1) times it."""
    state, step = policy.read_state()
    assert step == 1
    return {name: tensor / 0.1 for name, tensor in state.items() if name.endswith(".exp_avg")}


def distances(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, float]:
    """Relative: of the loss, the gradient norm, and the worst parameter's gradient; and the difference in tokens."""
    one, other = found["totals"], expected["totals"]
    assert found["gradients"].keys() == expected["gradients"].keys()
    gaps = {
        name: float((found["gradients"][name] - value).norm() / value.norm())
        for name, value in expected["gradients"].items()
    }
    return {
        "loss": abs(one["loss"] - other["loss"]) / abs(other["loss"]),
        "norm": abs(one["gradient_norm"] - other["gradient_norm"]) / other["gradient_norm"],
        "gradient": max(gaps.values()),
        "tokens": abs(one["tokens"] - other["tokens"]),
        "smallest": min(float(value.norm()) for value in expected["gradients"].values()),
    }


def several_updates(policy: Any, start: dict[str, Tensor], rank: int, world: int) -> dict[str, Any]:
    """A batch in two parts against two batches, and a loss whose ratios are against the policy before both."""
    parts = [micro_batches("token", rank, world, 2)[row : row + 1] for row in range(2)]

    def after(loss: str, *steps: list[list[MicroBatch]]) -> tuple[dict[str, Tensor], list[dict[str, float]]]:
        policy.write_state(start, 0)
        totals = [policy.train_step(step, loss, OPTIONS, 0.01, VERSION, len(DOMAINS)) for step in steps]
        return policy.read_state()[0], totals

    together, totals = after("sft", parts)
    apart, _ = after("sft", [parts[0]], [parts[1]])
    moved, (clipped,) = after("dppo", parts)
    policy.write_state(start, 0)
    batches = [batch for part in parts for batch in part]
    proximal = torch.cat(policy.logprobs(batches))
    behaviour = torch.cat([batch.behaviour_logprobs for batch in batches])
    filled = [batch.proximal_logprobs for batch in batches]
    return {
        "updates": totals[0]["updates"],
        "same": all(torch.equal(together[name], apart[name]) for name in apart),
        "moved": any(not torch.equal(moved[name], start[name]) for name in start),
        "proximal": torch.equal(proximal, torch.cat([values for values in filled if values is not None])),
        "mismatch": clipped["mismatch_abs_sum"],
        "own mismatch": float((proximal - behaviour).abs().double().sum()),
    }
