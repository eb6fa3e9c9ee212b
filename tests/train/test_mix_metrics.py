"""What a step logs of the mix: who starves, who holds too much, and weights once they moved."""

from __future__ import annotations

from rollouts.mixture import Mixture, Outcome
from tests.train.test_collect import batch, group
from train.metrics import reinforcement

TOTALS = {
    **dict.fromkeys(("loss", "gradient_norm", "entropy_sum", "tokens", "mismatch_abs_sum", "mismatch_count"), 1.0),
    "mismatch_max": 0.0,
    "routes_given": 0.0,
    "routes/max_violation/layer/0": 1.0,
    "routes/dead/layer/0": 0.0,
}
EVEN = {"math/add": 1, "text/sort": 1}


def test_series_of_the_mix() -> None:
    mixture = Mixture(EVEN, dict.fromkeys(EVEN, ("low",)))
    made = batch([group(i, ("math/add", "text/sort")[i % 2], [0.0, 1.0]) for i in range(4)])
    numbers, series = reinforcement(made, TOTALS, mixture, 0.0, [])
    assert series["starved"] == series["mix_share"] == series["share_over_bound"] == series["share_cut"] == {}
    assert numbers["shares/over_bound"] == numbers["shares/cut"] == numbers["groups/starved_domains"] == 0
    for _ in range(40):
        ticket = mixture.next_ticket()
        lost = ticket.domain == "math/add"
        mixture.settle(ticket, Outcome.FILTERED if lost else Outcome.ACCEPTED)
        for refill in mixture.refill_tickets(3):
            mixture.settle(refill, Outcome.FILTERED)
    mixture.set_weights({"math/add": 1, "text/sort": 3})
    numbers, series = reinforcement(made, TOTALS, mixture, 0.0, [])
    assert series["starved"].keys() == {"math/add"} and 0.1 < series["starved"]["math/add"] < 1
    assert series["mix_share"] == {"math/add": 0.25, "text/sort": 0.75}
    assert numbers["groups/starved_domains"] == 1
