"""One batch, every loss and normalisation: no split over rows, ranks, experts or optimiser states changes its gradient.

The full matrix takes minutes, so all but one way of using the ranks are marked `long`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.invariance_ranks import COMBINATIONS, MICRO_BATCHES, Split, measure
from tests.integration.policy_ranks import Case, carry, launch
from tests.integration.tiny import write_folder

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

TOLERANCE = 1e-5
# (ranks, ranks that share the experts): data-parallel 1, 2, 4 and expert-parallel 1, 2, 4.
WORLDS = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)]
IN_CI = (2, 2)


def splits(world: int, expert_parallel: int) -> list[Split]:
    """Every ZeRO stage and both ways of checkpointing; all pairs of them where it is cheap."""
    first = 3 * WORLDS.index((world, expert_parallel))
    if (world, expert_parallel) == (2, 1):
        pairs = [(stage, checkpointing) for stage in (1, 2, 3) for checkpointing in (False, True)]
    elif (world, expert_parallel) == IN_CI:
        pairs = [(2, True)]
    else:
        pairs = [(1, True), (2, False), (3, True)]
    return [
        Split(number=first + number, zero_stage=stage, activation_checkpointing=checkpointing)
        for number, (stage, checkpointing) in enumerate(pairs)
    ]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("invariance") / "model", 1)


@pytest.fixture(scope="module")
def reference(model_dir: Path) -> Path:
    """Loss and gradients on one rank, the whole batch in one row, ZeRO 1."""
    plain = Split(number=0, zero_stage=1, activation_checkpointing=False)
    (found,) = launch(measure, 1, model_dir, model_dir.parent / "reference", 1, [plain], None)
    path = model_dir.parent / "reference.pt"
    torch.save(found, path)
    return path


@pytest.mark.parametrize(
    ("world", "expert_parallel"),
    [pytest.param(*pair, marks=[] if pair == IN_CI else pytest.mark.long) for pair in WORLDS],
)
def test_no_split_changes_loss_or_gradient(model_dir: Path, reference: Path, world: int, expert_parallel: int) -> None:
    out = model_dir.parent / f"world-{world}-{expert_parallel}"
    cases = splits(world, expert_parallel)
    ranks: list[dict[str, Any]] = launch(measure, world, model_dir, out, expert_parallel, cases, reference)
    updates = {name: value for name, value in ranks[0].items() if name.startswith("updates")}
    rest = {name: value for name, value in ranks[0].items() if name not in updates}
    assert len(rest) == len(COMBINATIONS) * len(cases) and len(updates) == len(cases)
    for name, gaps in rest.items():
        assert gaps["smallest"] > 0, f"{name}: a parameter without gradient proves nothing"
        assert gaps["tokens"] == 0, name
        assert max(gaps["loss"], gaps["norm"], gaps["gradient"]) < TOLERANCE, (name, gaps)
    for name, seen in updates.items():
        assert seen["updates"] == 2 and seen["same"] and seen["moved"], name
        assert seen["proximal"], f"{name}: ratios must be against the policy before the first update"
        own = sum(rank[name]["own mismatch"] for rank in ranks)
        assert seen["mismatch"] == pytest.approx(own, rel=1e-5), name


# (ranks, ranks that share the experts, ZeRO stage): expert-parallel 2, 1, 4, 2 and data-parallel 1, 2 among them.
RESHARDED = [(2, 2, 1), (1, 1, 1), (4, 4, 1), (2, 1, 2), (4, 2, 3), (2, 2, 1)]


@pytest.mark.long
def test_a_checkpoint_goes_on_at_any_size(model_dir: Path) -> None:
    """A step at each size in turn: the state comes back to the bit, computes and serves the same, and learns the same.

    The same six steps by two ranks that never changed are the standard.
    """
    states: dict[str, Any] = {}
    for chain in ("resharded", "straight"):
        saved = None
        for number, (world, expert_parallel, stage) in enumerate(RESHARDED):
            shape = (world, expert_parallel, stage) if chain == "resharded" else RESHARDED[0]
            case = Case(name="", expert_parallel=shape[1], zero_stage=shape[2])
            out = model_dir.parent / f"{chain}-{number}"
            ranks = launch(carry, shape[0], model_dir, out, case, saved)
            if saved is not None:
                for rank in ranks:
                    assert rank["back"].keys() == saved[0].keys()
                    assert all(torch.equal(rank["back"][name], value) for name, value in saved[0].items()), shape
            saved = ranks[0]["saved"]
            assert saved[1] == number + 1
            merged: dict[str, Any] = {"logprobs": {}, "shard": {}}
            for rank in ranks:
                merged["logprobs"] |= rank["logprobs"]
                merged["shard"] |= rank["shard"]
            states[f"{chain} {number}"] = merged | {"totals": ranks[0]["totals"], "state": saved[0]}
    for number, shape in enumerate(RESHARDED):
        found, wanted = states[f"resharded {number}"], states[f"straight {number}"]
        assert found["totals"]["loss"] == pytest.approx(wanted["totals"]["loss"], rel=1e-5), shape
        assert found["shard"].keys() == wanted["shard"].keys()
        for sequence, values in wanted["logprobs"].items():
            assert found["logprobs"][sequence] == pytest.approx(values, abs=2e-4), shape
        for name, value in wanted["state"].items():
            gap = float((found["state"][name] - value).norm() / value.norm().clamp_min(1e-12))
            assert gap < (1e-5 if "exp_avg" not in name else 1e-3), (shape, name, gap)


def test_every_pair_of_axes_is_in_the_matrix() -> None:
    """Each loss meets each number of rows, and each way of using ranks each stage and both kinds of checkpointing."""
    met = set()
    for world, expert_parallel in WORLDS:
        cases = splits(world, expert_parallel)
        for case in cases:
            for number, combination in enumerate(COMBINATIONS):
                met.add((combination, MICRO_BATCHES[(number + case.number) % len(MICRO_BATCHES)]))
        if (world, expert_parallel) != IN_CI:
            assert {case.zero_stage for case in cases} == {1, 2, 3}
            assert {case.activation_checkpointing for case in cases} == {False, True}
    assert len(met) == len(COMBINATIONS) * len(MICRO_BATCHES)
