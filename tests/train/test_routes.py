"""Routes by value: what is refused, how rows are aligned, AutoEP's own choice, the load and the load-balance loss."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from envs.types import FinishReason, Message, Routes, Status, Task, Trajectory, Turn
from rollouts.routes import decode, encode, from_output
from train import metrics
from train.policy.packing import Sample, build_row, samples_from_trajectory
from train.policy.routes import (
    RouteShape,
    balance_loss,
    check_routes,
    count_load,
    load_metrics,
    max_violation,
    num_different,
    own_choice,
    replayed,
    router_scores,
)

SHAPE = RouteShape(layers=(1, 3), top_k=2, num_experts=4)


def ids_of(num_rows: int, first: int = 0) -> np.ndarray:
    """Distinct rows: position p, layer l chooses experts (p + l + first) % 4 and the next one."""
    start = np.arange(num_rows)[:, None, None] + np.arange(2)[None, :, None] + first
    return ((start + np.arange(2)) % 4).astype(np.uint8)


def turn(prompt: list[int], completion: list[int], routes: Routes | None) -> Turn:
    return Turn(
        prompt_ids=prompt,
        completion_ids=completion,
        logprobs=[-0.5] * len(completion),
        versions=[3] * len(completion),
        forced=[False] * len(completion),
        message=Message.of("assistant", "x"),
        observation=(),
        finish_reason=FinishReason.STOP,
        routes=routes,
    )


def trajectory(*segments: list[Turn]) -> Trajectory:
    task = Task(id="a/b/train/1", domain="a/b", split="train", index=1, prompt=(Message.of("user", "q"),))
    return Trajectory(task=task, tier="low", sample=0, segments=list(segments), status=Status.DONE)


# --- encoding ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_encoding_is_exact(kind: Any) -> None:
    rows = np.arange(3 * 2 * 2).reshape(3, 2, 2).astype(kind) + (0 if kind is np.uint8 else 1000)
    routes = encode(rows, (1, 3))
    assert (routes.num_rows, routes.width, routes.top_k) == (3, rows.itemsize, 2)
    assert np.array_equal(decode(routes), rows)
    with pytest.raises(ValueError, match="11 bytes are no rows of 2 layers x 2 x 1"):
        Routes(layers=(1, 3), top_k=2, width=1, ids=bytes(11))


def test_a_gpu_engine_returns_all_layers_and_a_row_too_many() -> None:
    rows = np.arange(5 * 4 * 2).reshape(5, 4, 2).astype(np.uint8)
    assert np.array_equal(decode(from_output(rows, (1, 3), 4)), rows[:4][:, [1, 3]])


# --- alignment ---------------------------------------------------------------------------------------------------


def test_routes_follow_the_tokens_over_turns_and_segments() -> None:
    """Turns after the first bring only what is new: the bridge, and the last token of the turn before."""
    first = turn([7, 8, 9], [20, 21], encode(ids_of(4), (1, 3)))  # positions 0 to 3
    second = turn([7, 8, 9, 20, 21, 5], [22], encode(ids_of(2, first=4), (1, 3)))  # positions 4 and 5
    summary = turn([1, 2], [30], encode(ids_of(2, first=9), (1, 3)))
    one, two = samples_from_trajectory(trajectory([first, second], [summary]), 1.0)
    assert one.routes is not None and two.routes is not None
    assert np.array_equal(one.routes, ids_of(6)) and np.array_equal(two.routes, ids_of(2, first=9))
    assert (len(one.ids), len(two.ids)) == (7, 3) and one.route_layers == (1, 3)
    row = build_row([one, two], [1.0, 1.0], [0, 1], {"a/b": 0})
    assert row.routes is not None
    # Position 6 and 9 are the last ones of their sequences: no prediction starts there, and 0 would be an expert.
    assert row.routes[[6, 9]].eq(-1).all() and not row.routes[[0, 1, 2, 3, 4, 5, 7, 8]].eq(-1).any()
    assert row.routes[7].tolist() == ids_of(1, first=9)[0].tolist()
    assert set(row.predict_index.tolist()).isdisjoint({6, 9})


def test_an_off_by_one_is_refused() -> None:
    for num_rows in (3, 5):
        with pytest.raises(
            ValueError, match=rf"a/b/train/1: routes of {num_rows} positions for 5 ids, expected one less"
        ):
            long = turn([7, 8, 9, 0], [20, 21], encode(ids_of(num_rows), (1, 3)))
            long.prompt_ids = [7, 8, 9]  # as if a token had been lost on the way
            samples_from_trajectory(trajectory([long]), 1.0)
    with pytest.raises(ValueError, match=r"Turn.routes has 5 rows for 3 \+ 2 ids"):
        turn([7, 8, 9], [20, 21], encode(ids_of(5), (1, 3)))
    with pytest.raises(ValueError, match=r"Turn.routes has 1 rows for 3 \+ 2 ids"):
        turn([7, 8, 9], [20, 21], encode(ids_of(1), (1, 3)))


def test_routes_are_all_there_or_none() -> None:
    with_routes = turn([7, 8], [20], encode(ids_of(2), (1, 3)))
    without = turn([7, 8, 20, 5], [22], None)
    with pytest.raises(ValueError, match="1 of 2 turns have routes"):
        samples_from_trajectory(trajectory([with_routes, without]), 1.0)
    other = turn([7, 8, 20, 5], [22], encode(ids_of(2), (1, 2)))
    with pytest.raises(ValueError, match="of different layers"):
        samples_from_trajectory(trajectory([with_routes, other]), 1.0)
    one, two = samples_from_trajectory(trajectory([with_routes], [turn([7, 8], [20], None)]), 1.0)
    assert two.routes is None
    with pytest.raises(ValueError, match="it has no routes, and others of its batch have"):
        build_row([one, two], [1.0, 1.0], [0, 1], {"a/b": 0})
    assert build_row([two], [1.0], [0], {"a/b": 0}).routes is None
    assert build_row([], [], [], {"a/b": 0}).routes is None


@pytest.mark.parametrize(
    ("change", "layers", "words"),
    [
        ({}, (3, 1), r"routes are of layers \(3, 1\), the trainer routes in \(1, 3\)"),
        ({}, (1,), r"routes are of layers \(1,\)"),
        ({(0, 1, 0): 4}, (1, 3), "name expert 4, there are 4"),
        ({(2, 1, 0): 0, (2, 1, 1): 0}, (1, 3), "t/7: position 2, layer 3: one expert was chosen twice"),
    ],
)
def test_what_no_router_can_have_chosen_is_refused(change: dict[Any, int], layers: tuple[int, ...], words: str) -> None:
    ids = ids_of(4)
    check_routes(ids, (1, 3), SHAPE, "t/7")
    for where, expert in change.items():
        ids[where] = expert
    with pytest.raises(ValueError, match=words):
        check_routes(ids, layers, SHAPE, "t/7")
    with pytest.raises(ValueError, match="routes are"):
        check_routes(ids[..., :1], (1, 3), SHAPE, "t/7")


def test_absent_rows_keep_the_trainers_choice_and_another_number_of_tokens_is_refused() -> None:
    own = torch.tensor([[0, 1], [2, 3], [1, 2]])
    routes = torch.tensor([[3, 0], [-1, -1], [0, 2]], dtype=torch.int16)
    assert replayed(own, routes).tolist() == [[3, 0], [2, 3], [0, 2]]
    with pytest.raises(ValueError, match=r"routes are \(2, 2\) and the router chooses \(3, 2\)"):
        replayed(own, routes[:2])


# --- AutoEP's router ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_the_own_choice_is_autoeps(score: str, groups: int | None, bias: bool) -> None:
    from deepspeed.moe.ep_router import TokenChoiceTopKRouter

    torch.manual_seed(0)
    router = TokenChoiceTopKRouter(16, 8, groups, groups and 1, 2, score, True, 1.0, False)
    if bias:
        router.e_score_correction_bias = torch.nn.Parameter(torch.randn(8), requires_grad=False)
    x, extra = torch.randn(50, 16), torch.randn(8) if bias else None
    weights, chosen, _ = router(x, extra)
    scores = router_scores(router, x)
    assert torch.equal(own_choice(router, scores, extra), chosen)
    gathered = scores.gather(1, chosen)
    assert torch.allclose(gathered / gathered.sum(-1, keepdim=True), weights)


def test_router_formula_by_hand() -> None:
    """F72: logits 2, 1, 0, -1: the bias moves the choice and never the weights."""
    router = SimpleNamespace(
        gate=lambda x: x, score_func="softmax", e_score_correction_bias=None, num_expert_groups=None, top_k=2
    )
    scores = router_scores(router, torch.tensor([[2.0, 1.0, 0.0, -1.0]]))
    assert scores[0].tolist() == pytest.approx([0.643914, 0.236883, 0.087144, 0.032059], abs=1e-6)
    assert own_choice(router, scores, None).tolist() == [[0, 1]]
    router.e_score_correction_bias = torch.tensor([0.0, 0.0, 0.0, 1.0])
    assert sorted(own_choice(router, scores, None)[0].tolist()) == [0, 3]


# --- load --------------------------------------------------------------------------------------------------------


def test_load_by_domain_layer_and_expert() -> None:
    used = torch.tensor([[[0, 1], [2, 3]], [[0, 1], [3, 2]], [[0, 2], [0, 1]]])
    load = count_load(used, torch.tensor([0, 2, 2]), 3, 4)
    assert load[0].tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert load[1].sum() == 0
    assert load[2].tolist() == [[2, 1, 1, 0], [1, 1, 1, 1]]
    assert max_violation(load.sum(0)).tolist() == [1.0, pytest.approx(2 / 1.5 - 1)]
    found = load_metrics(load, (1, 3))
    assert found["routes/max_violation/layer/1"] == 1.0 and found["routes/dead/layer/1"] == 0.25
    assert found["routes/dead/domain/0"] == 0.5 and "routes/dead/domain/1" not in found
    assert found["routes/max_violation/domain/2"] == pytest.approx((1.0 + 0.0) / 2)
    series = metrics.expert_load(found, ["a/x", "b/y", "c/z"])
    assert series["expert_dead_by_domain"] == {"a/x": 0.5, "c/z": 0.125}
    assert series["expert_dead_by_layer"] == {"1": 0.25, "3": 0.0}


def test_sets_are_compared_not_orders() -> None:
    first = torch.tensor([[[0, 1], [2, 3]], [[0, 1], [2, 3]]])
    second = torch.tensor([[[1, 0], [2, 3]], [[0, 2], [3, 1]]])
    assert int(num_different(first, second)) == 2


def test_shares_of_what_differed() -> None:
    totals = {"routes_given": 8.0, "routes_differ": 0.0, "routes_own_differ": 2.0, "routes/dead/layer/0": 0.25}
    found = metrics.routes(totals | {"routes/max_violation/layer/0": 3.0, "balance_loss": 1.5})
    assert found == {
        "routes/max_violation": 3.0,
        "routes/dead": 0.25,
        "routes/differ": 0.0,
        "routes/own_differ": 0.25,
        "loss/balance": 1.5,
    }
    none = metrics.routes(totals | {"routes_given": 0.0, "routes/max_violation/layer/0": 3.0})
    assert "routes/differ" not in none


def test_the_balance_loss_by_hand() -> None:
    """F71: two experts, top-1, one-hot scores 0 and 1: 1.0; padding that all went to expert 0 would make it 1.25."""
    one_hot = torch.eye(2)
    even = count_load(torch.tensor([[[0]], [[1]]]), torch.zeros(2, dtype=torch.int64), 1, 2)[0]
    assert float(balance_loss([one_hot], even / even.sum(), 2)) == 1.0
    padded = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]])
    assert float(balance_loss([padded], torch.tensor([[0.75, 0.25]]), 4)) == pytest.approx(1.25)


def test_the_parts_of_a_batch_add_up_to_the_same_balance_loss_and_gradient() -> None:
    torch.manual_seed(1)
    logits = torch.randn(30, 4, dtype=torch.float64)
    fractions = torch.tensor([[0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)

    def run(cuts: list[int]) -> tuple[float, torch.Tensor]:
        leaf = logits.clone().requires_grad_()
        parts = [balance_loss([part.softmax(-1)], fractions, 30) for part in leaf.split(cuts)]
        total = torch.stack(parts).sum()
        total.backward()
        assert leaf.grad is not None
        return float(total.detach()), leaf.grad

    whole, gradient = run([30])
    for cuts in ([10, 20], [1] * 30, [29, 1]):
        value, own = run(cuts)
        assert math.isclose(value, whole, rel_tol=1e-12) and torch.allclose(own, gradient, rtol=1e-12)
    # A sigmoid router's scores are made a distribution first; rows of a dummy are zero and count nothing.
    sigmoid = [torch.cat([logits.sigmoid(), torch.zeros(5, 4)])]
    expected = float((logits.sigmoid() / logits.sigmoid().sum(-1, keepdim=True)).sum(0) @ fractions[0]) * 4 / 30
    assert float(balance_loss(sigmoid, fractions, 30)) == pytest.approx(expected)


def test_a_sample_keeps_its_routes_out_of_comparisons() -> None:
    fields: dict[str, Any] = {
        "ids": [1, 2],
        "loss_mask": [False, True],
        "behaviour_logprobs": [0.0, -1.0],
        "versions": [-1, 3],
        "advantages": [0.0, 1.0],
        "domain": "a/b",
        "tier": "low",
        "task_id": "t",
        "sample": 0,
        "truncated": False,
    }
    assert Sample(**fields, routes=ids_of(1)) == Sample(**fields, routes=ids_of(1, first=1))
