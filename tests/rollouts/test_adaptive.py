"""Weights that follow the policy: by hand, on simulated learners, within bounds, and resumed exactly."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction

import pytest

from rollouts.adaptive import AdaptiveWeights, Rules, Seen, seen
from rollouts.mixture import Mixture

BASE = {"math/add": 1, "math/mul": 1, "code/sort": 2}
LADDER = {"math/add-easy": 1, "math/add": 1, "math/add-hard": 1, "code/sort": 3}


def binary(domain: str, success: float, tokens: int = 100) -> Seen:
    return Seen(domain, success, 2 * success * (1 - success), tokens)


def fed(adaptive: AdaptiveWeights, groups: list[Seen], steps: int = 1) -> AdaptiveWeights:
    for _ in range(steps):
        adaptive.observe(groups)
    return adaptive


def test_what_is_seen_of_a_group() -> None:
    assert seen("math/add", (0.0, 1.0, 1.0, 1.0), (0.0, 1.0), 7) == Seen("math/add", 0.75, 0.375, 7)
    assert seen("math/add", (-1.0, None, 1.0), (-1.0, 1.0), 7) == Seen("math/add", 0.5, 0.5, 7)
    assert seen("math/add", (0.5, 0.5), (0.0, 1.0), 7) == Seen("math/add", 0.5, 0.0, 7)  # half right is not learnable
    assert seen("math/add", (None, None), (0.0, 1.0), 7) is None


def test_the_defaults_move_nothing() -> None:
    adaptive = fed(AdaptiveWeights(BASE, Rules()), [binary("math/add", 0.5), binary("code/sort", 1.0, 10**6)], 100)
    assert adaptive.weights() == {"code/sort": Fraction(1, 2), "math/add": Fraction(1, 4), "math/mul": Fraction(1, 4)}


def test_learnability_by_hand() -> None:
    """Spreads 1/2, 1/4, 1/4 on base shares 1/4, 1/4, 1/2: products 2 : 1 : 2 fifths."""
    quarter = (1 - math.sqrt(0.5)) / 2  # 2p(1-p) = 1/4
    groups = [binary("math/add", 0.5), binary("math/mul", quarter), binary("code/sort", quarter)]
    found = fed(AdaptiveWeights(BASE, Rules(signal="learnability")), groups, 8).weights()
    assert sum(found.values()) == 1
    assert {name: float(share) for name, share in found.items()} == pytest.approx(
        {"math/add": 0.4, "math/mul": 0.2, "code/sort": 0.4}, abs=1e-5
    )


def test_solved_and_hopeless_lose_within_the_bound_and_the_unknown_keeps_its_own() -> None:
    rules = Rules(signal="learnability", bound=3, warm_groups=8)
    base = dict.fromkeys(("a/solved", "a/hopeless", "a/half", "a/new"), 1)
    groups = [binary("a/solved", 1.0), binary("a/hopeless", 0.0), binary("a/half", 0.5)]
    adaptive = fed(AdaptiveWeights(base, rules), groups, 7)
    assert set(adaptive.weights().values()) == {Fraction(1, 4)}  # nobody is known after seven groups
    found = fed(adaptive, groups).weights()
    assert found["a/solved"] == found["a/hopeless"] == Fraction(1, 12)
    # Three times and once the mean spread; the half-solved one may have at most three quarters of everything.
    assert float(found["a/half"]) == pytest.approx(5 / 6 * 3 / 4, abs=1e-5)
    assert float(found["a/new"]) == pytest.approx(5 / 6 / 4, abs=1e-5)


def test_old_groups_fade() -> None:
    rules = Rules(signal="learnability", half_life=16, warm_groups=1)
    adaptive = AdaptiveWeights({"a/x": 1, "a/y": 1}, rules)
    fed(adaptive, [binary("a/x", 0.5), binary("a/y", 0.5)], 200)
    found = fed(adaptive, [binary("a/x", 1.0), binary("a/y", 0.5)], 200).weights()
    assert found["a/x"] == Fraction(1, 3) * Fraction(1, 2)  # its spread is gone: the lower bound


def test_improvement_by_hand() -> None:
    """First update: no gain yet, s = J.  Mean of 0.2 and 0.6 is 0.4: xi moves by ±0.2 at rate 1."""
    rules = Rules(signal="improvement", warm_groups=1, bound=3)
    adaptive = fed(AdaptiveWeights({"a/x": 1, "b/y": 1}, rules), [binary("a/x", 0.2), binary("b/y", 0.6)])
    found = {name: float(share) for name, share in adaptive.weights().items()}
    assert found["a/x"] == pytest.approx(math.exp(0.2) / (math.exp(0.2) + math.exp(-0.2)), abs=1e-5)
    state = adaptive.state_dict()["records"]
    assert state["a/x"]["log_weight"] == pytest.approx(0.2) and state["b/y"]["log_weight"] == pytest.approx(-0.2)


def test_of_two_equally_bad_domains_the_one_that_improves_gains_less() -> None:
    rules = Rules(signal="improvement", warm_groups=1, half_life=0.01, reward_weight=0.0)
    adaptive = AdaptiveWeights({"a/stuck": 1, "a/improves": 1}, rules)
    for step in range(6):
        adaptive.observe([binary("a/stuck", 0.3), binary("a/improves", 0.1 * step)])
    found = adaptive.weights()
    assert found["a/stuck"] > Fraction(6, 10)


def test_at_a_bound_a_domain_turns_at_once() -> None:
    """No wind-up: after 500 bad updates the first good ones already move the share."""
    rules = Rules(signal="improvement", warm_groups=1, half_life=0.01)
    adaptive = AdaptiveWeights({"a/x": 1, "b/y": 1}, rules)
    stuck = fed(adaptive, [binary("a/x", 0.0), binary("b/y", 1.0)], 500).weights()["a/x"]
    assert stuck == Fraction(5, 6)  # the other's lower bound, a third of a half
    turned = fed(adaptive, [binary("a/x", 1.0), binary("b/y", 0.0)], 3).weights()["a/x"]
    assert turned < Fraction(1, 2)


@pytest.mark.parametrize("signal", ["learnability", "improvement"])
def test_many_domains_stay_within_bounds_and_reach_the_mixture(signal: str) -> None:
    rng = random.Random(1)
    base = {f"f{number % 9}/d{number}": rng.paretovariate(1.0) for number in range(200)}
    adaptive = AdaptiveWeights(base, Rules(signal=signal, warm_groups=1, bound=2.5))
    mixture = Mixture(base, dict.fromkeys(base, ("low",)))
    shares = mixture.weights
    for _ in range(10):
        adaptive.observe([binary(name, rng.random()) for name in base])
        found = adaptive.weights()
        assert sum(found.values()) == 1
        assert all(Fraction(2, 5) <= found[name] / shares[name] <= Fraction(5, 2) for name in base)
        mixture.set_weights(found)
        assert mixture.weights == found
        for _ in range(50):
            mixture.next_ticket()
        assert max(map(abs, mixture.deviations().values())) <= 1 + math.log(200)


def test_a_curriculum_climbs_and_comes_down_with_hysteresis() -> None:
    rules = Rules(focus=0.5, up=0.8, down=0.2, groups=4)
    adaptive = AdaptiveWeights(LADDER, rules)
    half, quarter = Fraction(1, 4), Fraction(1, 8)  # of the skill's own half of the mix
    easy = adaptive.weights()
    assert easy == {"code/sort": Fraction(1, 2), "math/add-easy": half, "math/add": half, "math/add-hard": 0}
    fed(adaptive, [binary("math/add-easy", 0.9)], 3)
    assert adaptive.levels() == {"math/add": "math/add-easy"}  # three groups are not four
    fed(adaptive, [binary("math/add-easy", 0.9)])
    assert adaptive.levels() == {"math/add": "math/add"}
    assert adaptive.weights()["math/add"] == half and adaptive.weights()["math/add-hard"] == quarter
    fed(adaptive, [binary("math/add", 0.5)], 50)
    assert adaptive.levels() == {"math/add": "math/add"}  # between down and up nothing moves
    fed(adaptive, [binary("math/add-easy", 1.0)], 50)
    assert adaptive.levels() == {"math/add": "math/add"}  # other levels do not count
    fed(adaptive, [binary("math/add", 0.0)], 12)
    assert adaptive.levels() == {"math/add": "math/add-easy"}
    fed(adaptive, [binary("math/add-easy", 0.0)], 50)
    assert adaptive.levels() == {"math/add": "math/add-easy"}  # there is nothing below


def test_a_curriculum_follows_a_learner_to_the_top() -> None:
    """Skill grows with what is practised; each level wants more of it.  It ends at hard, with few moves."""
    rules, skill, moves = Rules(focus=0.7, groups=8), 0.0, 0
    adaptive = AdaptiveWeights(LADDER, rules)
    wants = {"math/add-easy": 0.0, "math/add": 2.0, "math/add-hard": 4.0}
    before = adaptive.levels()
    for _ in range(300):
        present = adaptive.levels()["math/add"]
        skill += 0.02
        adaptive.observe([binary(present, 1 / (1 + math.exp(wants[present] + 1 - 2 * skill)))])
        moves += adaptive.levels() != before
        before = adaptive.levels()
    assert before == {"math/add": "math/add-hard"} and moves == 2


def test_tokens_are_balanced_by_hand() -> None:
    """Groups of 100 and 300 tokens on equal shares: 3/4 and 1/4 of the groups are half of the tokens each."""
    rules = Rules(token_bound=4.0, warm_groups=1)
    adaptive = AdaptiveWeights({"a/short": 1, "b/long": 1}, rules)
    fed(adaptive, [binary("a/short", 0.5, 100), binary("b/long", 0.5, 300)])
    assert {name: float(share) for name, share in adaptive.weights().items()} == pytest.approx(
        {"a/short": 0.75, "b/long": 0.25}, abs=1e-5
    )
    assert adaptive.tokens_per_group() == {"a/short": 100, "b/long": 300}
    bound = AdaptiveWeights({"a/short": 1, "b/long": 1}, Rules(token_bound=1.25, warm_groups=1))
    fed(bound, [binary("a/short", 0.5, 1), binary("b/long", 0.5, 10**6)])
    assert bound.weights() == {"a/short": Fraction(3, 5), "b/long": Fraction(2, 5)}


def test_an_unknown_domain_is_taken_for_its_family_in_tokens() -> None:
    adaptive = AdaptiveWeights({"a/x": 1, "a/new": 1, "b/y": 2}, Rules(token_bound=10.0, warm_groups=1))
    fed(adaptive, [binary("a/x", 0.5, 100), binary("b/y", 0.5, 300)])
    found = adaptive.weights()
    assert found["a/new"] == found["a/x"] and float(found["b/y"]) == pytest.approx(0.25, abs=1e-5)


def test_nothing_moves_between_updates() -> None:
    adaptive = AdaptiveWeights(LADDER, Rules(update_every=5, focus=0.5, groups=1))
    due = [adaptive.observe([binary("math/add-easy", 1.0)]) for _ in range(10)]
    assert due == [False] * 4 + [True] + [False] * 4 + [True]
    assert adaptive.levels() == {"math/add": "math/add"}


def test_the_order_of_groups_within_a_step_cannot_matter() -> None:
    rng = random.Random(3)
    rules = Rules(signal="improvement", focus=0.5, token_bound=2.0, warm_groups=1)
    groups = [binary(rng.choice(list(LADDER)), rng.random(), rng.randrange(1, 99)) for _ in range(60)]
    one = fed(AdaptiveWeights(LADDER, rules), groups)
    two = fed(AdaptiveWeights(LADDER, rules), groups[::-1])
    assert one.state_dict() == two.state_dict() and one.weights() == two.weights()


def test_resume_is_exact_and_survives_domains_that_come_go_and_are_renamed() -> None:
    rng = random.Random(4)
    rules = Rules(signal="improvement", focus=0.6, token_bound=3.0, update_every=2, warm_groups=2, groups=3)

    def step() -> list[Seen]:
        return [binary(name, rng.random(), rng.randrange(1, 500)) for name in LADDER]

    adaptive = AdaptiveWeights(LADDER, rules)
    for _ in range(7):
        adaptive.observe(step())
    text = json.dumps(adaptive.state_dict())
    resumed = AdaptiveWeights(LADDER, rules)
    resumed.load_state_dict(json.loads(text))
    for _ in range(5):
        groups = step()
        assert adaptive.observe(groups) == resumed.observe(groups)
        assert adaptive.weights() == resumed.weights()
    assert adaptive.state_dict() == resumed.state_dict()

    other = {"math/add-easy": 1, "math/sum": 1, "math/add-hard": 1, "code/order": 3}  # two are renamed
    changed = AdaptiveWeights(other, rules)
    changed.load_state_dict(json.loads(text))
    assert sum(changed.weights().values()) == 1
    assert set(changed.tokens_per_group()) == {"math/add-easy", "math/add-hard"}
    assert json.loads(json.dumps(changed.state_dict())) == json.loads(text)  # the absent are remembered
    changed.observe([binary("code/order", 0.5)])


def test_an_unknown_signal_is_refused() -> None:
    with pytest.raises(ValueError, match="learnability, improvement"):
        AdaptiveWeights(BASE, Rules(signal="reward"))
