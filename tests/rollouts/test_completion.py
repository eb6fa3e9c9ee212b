"""Slow domains get what was drawn for them: a simulated clock, with the naive rule as a control."""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from rollouts.completion import CompletionOrder
from rollouts.mixture import Mixture, Outcome

PER_STEP = 8
Latency = Mapping[str, Callable[[], float]]


def world(weights: Mapping[str, float]) -> Mixture:
    return Mixture(weights, dict.fromkeys(weights, ("low",)))


def corrected(latency: Latency, weights: Mapping[str, float], max_staleness: int, steps: int) -> tuple:
    """(trained groups by domain, the order, the clock at the end): a step takes one unit of time."""
    mixture, order, clock = world(weights), CompletionOrder(max_staleness, PER_STEP), 0.0
    running: list[tuple[float, int]] = []
    domains: dict[int, str] = {}
    trained: Counter[str] = Counter()
    for version in range(steps):
        while order.num_free:
            ticket = mixture.next_ticket()
            domains[ticket.number] = ticket.domain
            order.submit(ticket.number, ticket.domain, version)
            heapq.heappush(running, (clock + latency[ticket.domain](), ticket.number))
        waited = False
        while not order.is_ready(version):
            if not waited and order.blocking(version):
                order.wait(version)
                waited = True
            clock, number = heapq.heappop(running)
            order.finish(number, version)
        for number in order.take(version):
            trained[domains[number]] += 1
        clock += 1.0
        while running and running[0][0] <= clock:
            order.finish(heapq.heappop(running)[1], version + 1)
    return trained, order, clock


def naive(latency: Latency, weights: Mapping[str, float], max_staleness: int, steps: int) -> Counter[str]:
    """Take what is finished, in that order, and drop what is too old."""
    mixture, clock = world(weights), 0.0
    running: list[tuple[float, int, str, int]] = []
    trained: Counter[str] = Counter()
    for version in range(steps):
        while len(running) < 10 * PER_STEP:
            ticket = mixture.next_ticket()
            heapq.heappush(running, (clock + latency[ticket.domain](), ticket.number, ticket.domain, version))
        taken = 0
        while taken < PER_STEP and running:
            end, _, domain, started = heapq.heappop(running)
            clock = max(clock, end)
            if version - started <= max_staleness:
                taken += 1
                trained[domain] += 1
        clock += 1.0
    return trained


EVEN = {"a/fast": 1, "b/slow": 1}
LATENCY: Latency = {"a/fast": lambda: 1.0, "b/slow": lambda: 10.0}


def test_a_domain_slower_than_the_staleness_is_trained_on_as_much() -> None:
    """F21: latency 1 and 10 steps, staleness 4, 200 steps: within 5 % of 1 : 1."""
    trained, order, clock = corrected(LATENCY, EVEN, 4, 200)
    assert trained["a/fast"] == pytest.approx(trained["b/slow"], rel=0.05)
    assert sum(trained.values()) == 200 * PER_STEP
    report = order.report()
    assert all(report[name].bias == pytest.approx(1, abs=0.05) for name in EVEN)
    assert report["b/slow"].held_up > 30 > report["a/fast"].held_up
    assert report["b/slow"].steps > 2 * report["a/fast"].steps
    assert clock < 200 * 3  # five steps in flight share each wait of ten: it is not a wait of ten a step


def test_the_naive_rule_starves_it() -> None:
    """The control: the same world shows the fault."""
    trained = naive(LATENCY, EVEN, 4, 200)
    assert trained["b/slow"] < 0.2 * trained["a/fast"]


@pytest.mark.parametrize("max_staleness", [0, 1, 8])
def test_heavy_tails_and_unequal_weights(max_staleness: int) -> None:
    rng = random.Random(max_staleness)
    latency: Latency = {
        "a/x": lambda: rng.expovariate(1.0),
        "a/y": lambda: rng.paretovariate(1.2),
        "b/z": lambda: rng.choice([0.1, 30.0]),
    }
    weights = {"a/x": 5, "a/y": 3, "b/z": 2}
    trained, order, _ = corrected(latency, weights, max_staleness, 300)
    late = PER_STEP * max_staleness  # what is still in flight
    for name, weight in weights.items():
        assert abs(trained[name] - weight / 10 * sum(trained.values())) <= late + 1
    assert sum(row.trained for row in order.report().values()) == 300 * PER_STEP


def test_oldest_first_and_never_too_old() -> None:
    """Two a step, one step of staleness: at version 1 both of version 0 are at their last step."""
    order = CompletionOrder(1, 2)
    for number, version in ((7, 0), (8, 0), (9, 1), (10, 1)):
        order.submit(number, "a/x", version)
    for number in (10, 9, 8):
        order.finish(number, 1)
    assert not order.is_ready(1) and order.blocking(1) == [7]
    with pytest.raises(AssertionError, match="has to wait"):
        order.take(1)
    order.finish(7, 1)
    assert order.is_ready(1) and order.take(1) == [7, 8] and order.take(2) == [9, 10]


def test_a_step_waits_before_it_is_too_late_for_all_that_are_old() -> None:
    """Four of version 0, two a step, last step 1: the first step has to take two of them, not the newer ones."""
    order = CompletionOrder(1, 2)
    for number in range(4):
        order.submit(number, "a/x", 0)
    assert order.num_free == 0 and order.blocking(0) == [0, 1, 2, 3]
    order.finish(2, 0)
    assert not order.is_ready(0)
    order.finish(3, 0)
    assert order.take(0) == [2, 3] and order.blocking(1) == [0, 1]
    with pytest.raises(ValueError, match="no more are in time"):
        for number in range(4, 9):
            order.submit(number, "a/x", 1)


def test_resume_starts_again_what_was_in_flight_and_keeps_the_account() -> None:
    order = CompletionOrder(3, 1)
    for number in range(4):
        order.submit(number, f"a/{number % 2}", 5)
    order.finish(1, 5)
    assert order.take(5) == [1]
    resumed = CompletionOrder(3, 1)
    resumed.load_state_dict(json.loads(json.dumps(order.state_dict())), version=7)
    assert resumed.report() == order.report()
    assert resumed.blocking(7) == [] and resumed.blocking(8) == [0, 2, 3] and resumed.num_free == 1


def test_stale_losses_are_made_up_for_by_the_mixture() -> None:
    """Where waiting is not wanted: stale groups are refilled as any loss, up to four tries for one."""
    mixture, rng = world(EVEN), random.Random(0)
    for _ in range(400):
        tickets = mixture.refill_tickets(10)
        tickets += [mixture.next_ticket() for _ in range(20 - len(tickets))]
        for ticket in tickets:
            late = ticket.domain == "b/slow" and rng.random() < 0.5
            mixture.settle(ticket, Outcome.STALE if late else Outcome.ACCEPTED)
    assert mixture.accepted_shares()["b/slow"] == pytest.approx(0.5, rel=0.02)
    assert mixture.losses()["b/slow"].keys() == {"stale"}


def test_a_negative_staleness_and_a_ticket_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="synchronous"):
        CompletionOrder(-1, 1)
    order = CompletionOrder(0, 2)
    order.submit(1, "a/x", 0)
    with pytest.raises(ValueError, match="under way"):
        order.submit(1, "a/x", 0)
