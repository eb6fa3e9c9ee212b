"""The mixture: exact steps, resume, accounting, debts."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rollouts.mixture import MAX_OVERSAMPLING, Mixture, Outcome, Ticket, share_of
from rollouts.quotas import Weight

WEIGHTS = {"math/add": 0.55, "code/sort": 0.30, "sql/join": 0.15}
TIERS = ("low", "high", "max")


def make(weights: Mapping[str, Weight] = WEIGHTS, seed: int = 0) -> Mixture:
    return Mixture(weights, dict.fromkeys(weights, TIERS), seed=seed)


def draw(mixture: Mixture, num: int) -> list[Ticket]:
    return [mixture.next_ticket() for _ in range(num)]


def with_index(mixture: Mixture, num: int) -> list[tuple[Ticket, int]]:
    tickets = draw(mixture, num)
    return [(ticket, mixture.take_index(ticket, lambda index: index % 5 != 0)) for ticket in tickets]


def copy_of(mixture: Mixture, into: Mixture) -> Mixture:
    into.load_state_dict(json.loads(json.dumps(mixture.state_dict())))
    return into


def test_exact_steps_and_unnormalised_weights() -> None:
    """F20."""
    mixture = make()
    for _ in range(30):
        assert Counter(ticket.domain for ticket in draw(mixture, 20)) == {
            "math/add": 11,
            "code/sort": 6,
            "sql/join": 3,
        }
    for weights in ([11, 6, 3], [11 / 20, 6 / 20, 3 / 20], [5.5, 3.0, 1.5]):
        assert draw(make(dict(zip(WEIGHTS, weights, strict=True))), 200) == draw(make(), 200)
    mixture = make()
    counts: Counter[str] = Counter()
    for step in range(1, 100):
        counts.update(ticket.domain for ticket in draw(mixture, 8))
        assert all(abs(counts[name] - 8 * step * weight) < 1 for name, weight in WEIGHTS.items())


def test_order_of_the_configuration_does_not_matter() -> None:
    assert draw(make(), 100) == draw(make(dict(reversed(WEIGHTS.items()))), 100)


def test_tiers_are_exact_within_each_domain() -> None:
    tiers = {"math/add": TIERS, "code/sort": ("low", "max"), "sql/join": ("low",)}
    mixture = Mixture(WEIGHTS, tiers, tier_weights={"low": 2, "high": 1, "max": 1})
    expected = {
        "math/add": {"low": 0.5, "high": 0.25, "max": 0.25},
        "code/sort": {"low": 2 / 3, "max": 1 / 3},
        "sql/join": {"low": 1.0},
    }
    counts: dict[str, Counter[str]] = {domain: Counter() for domain in tiers}
    for ticket in draw(mixture, 500):
        counts[ticket.domain][ticket.tier] += 1
        seen = counts[ticket.domain]
        assert all(abs(seen[tier] - seen.total() * share) < 1 + 1e-9 for tier, share in expected[ticket.domain].items())
        assert set(seen) <= set(expected[ticket.domain])
    with pytest.raises(ValueError, match="sql/join"):
        Mixture(WEIGHTS, tiers, tier_weights={"high": 1, "max": 1})


def test_resume_draws_the_identical_stream() -> None:
    """F19, in this process."""
    mixture = make(seed=4)
    with_index(mixture, 50)
    for ticket, _ in mixture.in_flight()[:20]:
        mixture.settle(ticket, Outcome.FILTERED if ticket.number % 3 else Outcome.ACCEPTED)
    resumed = copy_of(mixture, make(seed=4))
    assert resumed.in_flight() == mixture.in_flight()
    assert resumed.refill_tickets(5) == mixture.refill_tickets(5)
    assert with_index(resumed, 50) == with_index(mixture, 50)
    assert resumed.state_dict() == mixture.state_dict()


def test_resume_in_a_new_process(tmp_path: Path) -> None:
    """F19: no hash seed, no global state."""
    mixture = make(seed=4)
    with_index(mixture, 50)
    (tmp_path / "state.json").write_text(json.dumps(mixture.state_dict()))
    program = (
        "import json, sys; from rollouts.mixture import Mixture\n"
        f"mixture = Mixture({WEIGHTS}, dict.fromkeys({list(WEIGHTS)}, {TIERS}), seed=4)\n"
        "mixture.load_state_dict(json.load(open(sys.argv[1])))\n"
        "tickets = [mixture.next_ticket() for _ in range(50)]\n"
        "rows = [[t.number, t.domain, t.tier, mixture.take_index(t, lambda i: i % 5 != 0)] for t in tickets]\n"
        "print(json.dumps(rows))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "state.json")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [[t.number, t.domain, t.tier, index] for t, index in with_index(mixture, 50)]


def test_resume_with_a_domain_added_and_one_removed() -> None:
    """F19: no error, nothing seen is drawn again, what is known is kept."""
    mixture = make()
    seen = {(ticket.domain, index) for ticket, index in with_index(mixture, 50)}
    changed = copy_of(mixture, make({"math/add": 1, "code/sort": 1, "games/go": 2}))
    tickets = with_index(changed, 40)
    assert Counter(ticket.domain for ticket, _ in tickets) == {"math/add": 10, "code/sort": 10, "games/go": 20}
    assert not seen & {(ticket.domain, index) for ticket, index in tickets}
    assert len({ticket.number for ticket, _ in changed.in_flight()}) == 90
    back = copy_of(changed, make())
    again = with_index(back, 50)
    assert not seen & {(ticket.domain, index) for ticket, index in again}
    assert back.accounting()["games/go"]["submitted"] == 20


def test_tasks_never_repeat_and_avoid_the_held_out() -> None:
    mixture = make()
    taken = with_index(mixture, 2000)
    pairs = [(ticket.domain, index) for ticket, index in taken]
    assert len(set(pairs)) == len(pairs) and all(index % 5 for _, index in pairs)
    other = {(ticket.domain, index) for ticket, index in with_index(make(seed=1), 2000)}
    assert not other & set(pairs)
    with pytest.raises(ValueError, match="no training task"):
        mixture.take_index(mixture.next_ticket(), lambda index: False)


def test_global_random_state_is_neither_read_nor_moved() -> None:
    """F23."""
    quiet, noisy = make(), make()
    random.seed(0), np.random.seed(0)
    before = random.getstate()
    one = draw(quiet, 50)
    assert random.getstate() == before
    two = []
    for _ in range(50):
        random.random(), np.random.rand()
        two += draw(noisy, 1)
    assert one == two


def test_accounting_adds_up_whatever_happens() -> None:
    rng = random.Random(0)
    mixture = make()
    for _ in range(300):
        open_tickets = [ticket for ticket, _ in mixture.in_flight()]
        if open_tickets and rng.random() < 0.6:
            mixture.settle(rng.choice(open_tickets), rng.choice(list(Outcome)))
        elif rng.random() < 0.5:
            mixture.refill_tickets(2)
        else:
            mixture.next_ticket()
        table = mixture.accounting()
        assert sum(row["in_flight"] for row in table.values()) == len(mixture.in_flight())
    for row in table.values():
        assert row["submitted"] == sum(row[key] for key in ("accepted", "filtered", "unscored", "stale", "in_flight"))
    ticket = mixture.next_ticket()
    mixture.settle(ticket, Outcome.ACCEPTED)
    with pytest.raises(ValueError, match="not in flight"):
        mixture.settle(ticket, Outcome.ACCEPTED)


def simulate(acceptance: Mapping[str, float], steps: int = 200, per_step: int = 20, budget: int = 10_000) -> Mixture:
    """The synchronous loop: draw, settle, refill until nothing is owed.  Returns the mixture."""
    rng, mixture = random.Random(0), make()
    for _ in range(steps):
        tickets, left = draw(mixture, per_step), budget
        while tickets:
            rng.shuffle(tickets)
            for ticket in tickets:
                good = rng.random() < acceptance[ticket.domain]
                mixture.settle(ticket, Outcome.ACCEPTED if good else Outcome.FILTERED)
            tickets = mixture.refill_tickets(left)
            left -= len(tickets)
    return mixture


def test_refills_balance_what_is_accepted() -> None:
    mixture = simulate({"math/add": 1.0, "code/sort": 0.6, "sql/join": 0.4})
    for name, share in mixture.accepted_shares().items():
        assert share == pytest.approx(WEIGHTS[name], abs=0.005)
    assert mixture.starved() == []


def test_a_hopeless_domain_is_starved_within_the_cap() -> None:
    """F7: reward always equal; it stops, with a name and an account."""
    mixture = simulate({"math/add": 1.0, "code/sort": 0.0, "sql/join": 0.5})
    table = mixture.accounting()
    assert mixture.starved() == ["code/sort"]
    assert table["code/sort"]["submitted"] <= MAX_OVERSAMPLING * 6 * 200
    assert table["code/sort"]["accepted"] == 0 and table["code/sort"]["written_off"] > 0
    assert table["sql/join"]["accepted"] == pytest.approx(600, abs=5)


FAMILY = {"math/add": 3, "math/mul": 2, "math/dead": 3, "math/hard": 2, "code/sort": 6, "code/half": 4}
ACCEPTANCE = {"math/add": 1.0, "math/mul": 0.5, "math/dead": 0.0, "math/hard": 0.1, "code/sort": 0.9, "code/half": 0.35}


def looped(mixture: Mixture, refill_share: float, steps: int = 1500, per_step: int = 40) -> Mixture:
    """What the loop does without further rounds: a step is as many refills as allowed, and ordinary draws."""
    rng = random.Random(1)
    for _ in range(steps):
        tickets = mixture.refill_tickets(int(per_step * refill_share))
        tickets += draw(mixture, per_step - len(tickets))
        for ticket in tickets:
            good = rng.random() < ACCEPTANCE[ticket.domain]
            mixture.settle(ticket, Outcome.ACCEPTED if good else Outcome.FILTERED)
    return mixture


def test_the_share_of_starved_domains_goes_to_their_family() -> None:
    """Both families keep their half of what is accepted; in the one without starved domains each keeps its own share.

    In the other one the two healthy domains take over in proportion 3 : 2 what the starved ones (a tenth accepted with
    four tries makes 0.4 of its quota) leave.
    """
    mixture = looped(Mixture(FAMILY, dict.fromkeys(FAMILY, TIERS), pass_on=True), refill_share=0.75)
    accepted = mixture.accepted_shares()
    assert mixture.starved() == ["math/dead", "math/hard"]
    assert accepted["code/sort"] == pytest.approx(0.30, rel=0.02)
    assert accepted["code/half"] == pytest.approx(0.20, rel=0.02)
    assert accepted["math/add"] + accepted["math/mul"] + accepted["math/hard"] == pytest.approx(0.5, rel=0.02)
    assert accepted["math/hard"] == pytest.approx(0.4 * 0.10, rel=0.1)
    taken = {name: row["received"] for name, row in mixture.accounting().items()}
    assert taken["math/add"] / taken["math/mul"] == pytest.approx(3 / 2, abs=0.01)
    assert taken["code/sort"] == taken["code/half"] == 0
    assert taken["math/dead"] + taken["math/hard"] < 10  # before it was known that they starve


def test_without_passing_on_the_family_shrinks() -> None:
    """The control of the test above: the same world without the rule."""
    mixture = looped(Mixture(FAMILY, dict.fromkeys(FAMILY, TIERS)), refill_share=0.75)
    accepted = mixture.accepted_shares()
    assert accepted["code/sort"] + accepted["code/half"] > 0.6
    assert all(row["received"] == 0 for row in mixture.accounting().values())


def test_a_family_that_starves_as_a_whole_does_not_grow_a_debt() -> None:
    weights = {"math/dead": 1, "code/sort": 1}
    mixture = Mixture(weights, dict.fromkeys(weights, TIERS), pass_on=True)
    looped(mixture, refill_share=0.75, steps=300)
    assert len(mixture.state_dict()["passed"]["math"]) == 16
    assert mixture.accounting()["code/sort"]["received"] == 0


def test_passing_on_resumes_exactly_and_keeps_tiers() -> None:
    tiers = {name: TIERS if name != "math/mul" else ("low",) for name in FAMILY}
    mixture = looped(Mixture(FAMILY, tiers, pass_on=True), 0.5, steps=60)
    resumed = copy_of(mixture, Mixture(FAMILY, tiers, pass_on=True))
    looped(mixture, 0.5, steps=40), looped(resumed, 0.5, steps=40)
    assert resumed.state_dict() == mixture.state_dict()
    assert any(mixture.state_dict()["passed"].values()) and mixture.accounting()["math/mul"]["received"] > 0


def test_every_loss_has_its_reason() -> None:
    mixture = make({"math/add": 1})
    outcomes = [(Outcome.FILTERED, "all solved"), (Outcome.FILTERED, "all failed"), (Outcome.UNSCORED, "sandbox")]
    for outcome, reason in [*outcomes, outcomes[0], (Outcome.ACCEPTED, ""), (Outcome.STALE, "")]:
        mixture.settle(mixture.next_ticket(), outcome, reason)
    expected = {"filtered: all solved": 2, "filtered: all failed": 1, "unscored: sandbox": 1, "stale": 1}
    assert mixture.losses() == {"math/add": expected}
    assert copy_of(mixture, make({"math/add": 1})).losses() == {"math/add": expected}
    for number in range(100):
        mixture.settle(mixture.next_ticket(), Outcome.UNSCORED, f"reason {number}")
    reasons = mixture.losses()["math/add"]
    assert len(reasons) == 21 and reasons["unscored: other"] == 100 - (20 - 4)


def test_a_checkpoint_from_before_reasons_is_read() -> None:
    mixture = make({"math/add": 1})
    mixture.settle(mixture.next_ticket(), Outcome.FILTERED, "all solved")
    state = mixture.state_dict()
    del state["passed"], state["accounts"]["math/add"]["reasons"], state["accounts"]["math/add"]["received"]
    old = make({"math/add": 1})
    old.load_state_dict(state)
    assert old.losses() == {"math/add": {"filtered": 1}}


def test_renaming_a_domain_keeps_what_is_known_of_the_rest() -> None:
    mixture = make()
    seen = {(ticket.domain, index) for ticket, index in with_index(mixture, 60)}
    for ticket, _ in mixture.in_flight():
        mixture.settle(ticket, Outcome.FILTERED if ticket.number % 3 else Outcome.ACCEPTED, "all solved")
    renamed = copy_of(mixture, make({"math/sum": 0.55, "code/sort": 0.30, "sql/join": 0.15}))
    before, after = mixture.accounting(), renamed.accounting()
    assert all(after[name] == before[name] for name in WEIGHTS)
    assert after["math/sum"]["submitted"] == 0
    again = with_index(renamed, 60)
    assert not seen & {(ticket.domain, index) for ticket, index in again}
    assert Counter(ticket.domain for ticket, _ in again) == {"math/sum": 33, "code/sort": 18, "sql/join": 9}


def test_a_refill_repeats_the_lost_tier_and_spares_the_quota() -> None:
    mixture, plain = make(), make()
    tickets = draw(mixture, 20)
    lost = next(ticket for ticket in tickets if ticket.domain == "sql/join")
    assert mixture.refill_ticket("sql/join") is None
    mixture.settle(lost, Outcome.UNSCORED)
    refill = mixture.refill_ticket("sql/join")
    assert refill is not None
    assert (refill.tier, refill.refill, refill.number, refill.position) == (lost.tier, lost.number, 20, 3)
    draw(plain, 20)
    assert [t.domain for t in draw(mixture, 50)] == [t.domain for t in draw(plain, 50)]
    with pytest.raises(ValueError, match="never in this mixture"):
        mixture.refill_ticket("sql/jion")


def test_order_of_settling_does_not_matter() -> None:
    one, two = make(), make()
    for mixture, order in ((one, 1), (two, -1)):
        for ticket in draw(mixture, 40)[::order]:
            mixture.settle(ticket, Outcome.FILTERED if ticket.number % 4 == 0 else Outcome.ACCEPTED)
    assert one.refill_tickets(4) == two.refill_tickets(4)


def test_changing_weights_carry_debts_and_resume() -> None:
    rng = random.Random(2)
    names = [f"f{i % 5}/d{i}" for i in range(40)]
    mixture = make(dict.fromkeys(names, 1))
    target = dict.fromkeys(names, 0.0)
    counts: Counter[str] = Counter()
    for _ in range(40):
        for _ in range(rng.choice([1, 5, 40])):
            counts[mixture.next_ticket().domain] += 1
            for name, share in mixture.weights.items():
                target[name] += float(share)
            assert max(abs(target[name] - counts[name]) for name in names) <= 1 + math.log(len(names))
        mixture.set_weights({name: rng.paretovariate(1.0) for name in names})
    resumed = copy_of(mixture, make(dict.fromkeys(names, 1)))
    assert draw(resumed, 100) == draw(mixture, 100)


def test_setting_equal_weights_changes_nothing_and_bad_ones_neither() -> None:
    mixture, plain = make(), make()
    draw(mixture, 7), draw(plain, 7)
    mixture.set_weights({"math/add": 11, "code/sort": 6, "sql/join": 3})
    for bad in ({"math/add": -1}, {"math/add": float("nan")}, {"math/add": 0}, {"games/go": 1}):
        with pytest.raises(ValueError, match=r"negative|finite|zero|games/go"):
            mixture.set_weights(bad)
    assert draw(mixture, 50) == draw(plain, 50)
    mixture.set_weights({"games/go": 1, "math/add": 1}, tiers={"games/go": TIERS})
    assert Counter(ticket.domain for ticket in draw(mixture, 100))["games/go"] == pytest.approx(50, abs=2)


def test_share_of() -> None:
    assert share_of({"a": 3, "b": 1, "c": 0}) == {"a": 0.75, "b": 0.25}
    assert share_of({}) == {}
