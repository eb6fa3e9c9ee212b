"""From groups to the parts of a batch: who is in which update, and what its tokens weigh."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rewards.normalise import DomainStatistics
from rewards.parts import Part, PartStatistics
from rewards.score import scored, unscored
from rollouts.group import Group, GroupSummary, summarise
from rollouts.mixture import Outcome
from rollouts.objects import GroupResult
from train.collect import Collector, StepBatch, _sums
from train.compose import compose_run
from train.policy.workers import Item

RANGES = {"math/add": (0.0, 1.0), "text/sort": (0.0, 1.0)}


def group(ticket: int, domain: str, values: Sequence[float], tokens: int = 10) -> GroupResult:
    """Each trajectory is one segment of so many trained tokens, after a prompt of five."""
    count = len(values)
    return GroupResult(
        GroupSummary(
            ticket=ticket,
            task_id=f"{domain}/train/{ticket}",
            domain=domain,
            tier="low",
            values=tuple(values),
            reasons=("",) * count,
            statuses=("done",) * count,
            num_turns=(1,) * count,
            segments=(((tokens + 5, tokens),),) * count,
            oldest_version=0,
            newest_version=0,
            seconds=0.0,
        )
    )


def batch(groups: list[GroupResult], *options: str, num_ranks: int = 2) -> StepBatch:
    composed = compose_run(["experiment=toy", *options])
    nothing = cast(Any, None)  # pool and mixture: for `take` only
    collector = Collector(nothing, nothing, DomainStatistics(RANGES), composed.domains, composed.config)
    return collector.batch(groups, [], 4096, num_ranks)


TASK = SimpleNamespace(id="math/add/train/0", domain="math/add")
TRAJECTORY = cast(Any, SimpleNamespace(turns=[], segments=[], status="done", seconds=0.0))
SCORES = [scored(1.0, {"right": 1.0}), unscored("sandbox: down"), scored(0.0, {"right": 0.0})]


def items(part: list[list[list[Item]]]) -> list[Item]:
    return [item for rows in part for row in rows for item in row]


GROUPS = [group(i, ("math/add", "text/sort")[i % 2], [0.0, 1.0, 1.0, 0.0], tokens=10 + i) for i in range(7)]


@pytest.mark.parametrize("updates", [1, 2, 3, 7, 40])
def test_every_group_is_in_one_update_and_each_update_is_normalised_by_itself(updates: int) -> None:
    made = batch(GROUPS, f"algorithm.updates={updates}")
    assert len(made.parts) == min(updates, 7)
    groups_of = [sorted({item.group for item in items(part)}) for part in made.parts]
    assert sorted(number for numbers in groups_of for number in numbers) == list(range(7))
    assert max(map(len, groups_of)) - min(map(len, groups_of)) <= 1
    for part in made.parts:
        own = items(part)
        # Whole groups: the baseline is the group's, and gspo needs whole sequences.
        assert set(Counter(item.group for item in own).values()) == {4}
        assert len(part) == 2
        assert math.fsum(item.weight * (10 + item.group) for item in own) == pytest.approx(1.0)
    assert math.fsum(made.shares.values()) == pytest.approx(1.0)


def test_the_domains_of_an_update_share_it_by_their_quota() -> None:
    """Three groups of one domain and one of the other in one update: three quarters and one quarter of the weight."""
    made = batch([group(i, "text/sort" if i == 2 else "math/add", [0.0, 1.0]) for i in range(4)])
    (part,) = made.parts
    weight = {"math/add": 0.0, "text/sort": 0.0}
    for item in items(part):
        weight["text/sort" if item.group == 2 else "math/add"] += item.weight * 10
    assert weight == pytest.approx({"math/add": 0.75, "text/sort": 0.25})


def test_parts_of_a_reward_are_normalised_before_they_are_added() -> None:
    """Values are equal, parts are not: the group has signal, and each part of it the size that its weight gives it.

    Centred ±1/2 of ranges 1 and 100, half of each range is the scale: ±1 each; weights 3 and -1 make them 3/4 and -1/4.
    """
    composed = compose_run(["experiment=toy"])
    parts = {"right": Part((0.0, 1.0), 3.0), "length": Part((0.0, 100.0), -1.0)}
    statistics = PartStatistics({"math/add": parts})
    nothing = cast(Any, None)
    collector = Collector(
        nothing, nothing, DomainStatistics(RANGES), composed.domains, composed.config, None, statistics
    )
    made = group(0, "math/add", [1.0, 1.0])
    rows = ({"right": 1.0, "length": 100.0}, {"right": 0.0, "length": 0.0})
    differ, same = (GroupResult(replace(made.summary, parts=found)) for found in (rows, rows[:1] * 2))
    assert collector.judge([differ, same]) == ([differ], [(same, Outcome.FILTERED)])
    (part,) = collector.batch([differ], [], 4096, 1).parts
    assert {item.trajectory: item.advantage for item in items(part)} == {0: 0.5, 1: -0.5}
    assert statistics.state_dict()["sum"]["moments"]["math/add"]["num_groups"] == 1


UNSCALED = ("algorithm.scale=none", "algorithm.scale_floor=0", "algorithm.scale_warm_groups=0")


def test_a_trajectory_counts_once_however_many_fragments() -> None:
    """F27: the baseline of rewards 1 and 0 is 0.5, not 0.75, although the first has three segments."""
    made = group(0, "math/add", [1.0, 0.0])
    cut = GroupResult(replace(made.summary, segments=(((8, 3), (9, 0), (9, 4), (7, 2)), ((15, 10),))))
    (part,) = batch([cut], *UNSCALED).parts
    found = sorted((item.trajectory, item.segment, item.advantage) for item in items(part))
    assert found == [(0, 0, 0.5), (0, 1, 0.5), (0, 2, 0.5), (1, 0, -0.5)]


def by_turns(values: Sequence[float], rewards: Sequence[Sequence[float]]) -> GroupResult:
    """Two segments of two and one turns for the first trajectory, one segment for the others."""
    made = group(0, "math/add", values)
    tokens = (((2, 3), (4,)), *(((5,) * len(own),) for own in rewards[1:]))
    sizes = tuple(tuple((sum(own) + 5, sum(own)) for own in segments) for segments in tokens)
    turns = tuple(tuple(own) for own in rewards)
    return GroupResult(replace(made.summary, segments=sizes, turn_rewards=turns, turn_tokens=tokens))


def bare_collector(*options: str) -> Collector:
    composed = compose_run(["experiment=toy", *options])
    nothing = cast(Any, None)
    return Collector(nothing, nothing, DomainStatistics(RANGES), composed.domains, composed.config)


def test_turns_have_advantages_of_their_own() -> None:
    """Returns at turn 0: 1.5 and 1, at turn 1: 1 and 1, at turn 2: 1 and 1 (that of the ended one is its value)."""
    made = by_turns([1.0, 1.0], [[0.5, 0.0, 0.0], [0.0]])
    turn_level = ("algorithm.estimator=turn_level", *UNSCALED)
    (rows,) = batch([made], *turn_level, num_ranks=1).parts[0]
    found = {(item.trajectory, item.segment): item.advantage for row in rows for item in row}
    assert found == {(0, 0): (0.25, 0.0, 0.0), (0, 1): (0.25, 0.0, 0.0), (1, 0): (-0.25,)}
    # The sums see the turns of each segment: 2 tokens of 0.25 in the first, none in the second, 5 in the other.
    expected = (0.25 * 2 + 0.25 * 5) * rows[0][0].weight
    assert _sums(rows, [made]) == {"math/add": pytest.approx(expected)}
    same = by_turns([1.0, 1.0], [[0.0, 0.0, 0.0], [0.0]])
    assert bare_collector(*turn_level).judge([made, same]) == ([made], [(same, Outcome.FILTERED)])
    # Another estimator sees the values only, and they are equal.
    assert bare_collector().judge([made]) == ([], [(made, Outcome.FILTERED)])


def trajectory_of(*segments: list[SimpleNamespace]) -> Any:
    turns = [turn for segment in segments for turn in segment]
    return SimpleNamespace(task=TASK, turns=turns, segments=segments, status="done", seconds=0.0)


def test_summaries_carry_the_rewards_of_turns() -> None:
    first, second = (
        SimpleNamespace(completion_ids=[1] * size, forced=[False] * size, prompt_ids=[1], versions=[0])
        for size in (2, 3)
    )
    two, one = trajectory_of([first], [], [second]), trajectory_of([first])
    made = summarise(Group(0, cast(Any, TASK), "low", [two, one], [scored(1.0, turns=(0.5, 0.25)), scored(0.0)]))
    assert made.turn_rewards == ((0.5, 0.25), (0.0,)) and made.turn_tokens == (((2,), (3,)), ((2,),))
    with pytest.raises(ValueError, match="math/add/train/0: a score has rewards for 1 of 2 turns"):
        summarise(Group(0, cast(Any, TASK), "low", [two], [scored(1.0, turns=(0.5,))]))
    assert summarise(Group(0, cast(Any, TASK), "low", [one], [scored(1.0)])).turn_rewards == ()


def test_summaries_carry_parts_where_there_are_any() -> None:
    made = summarise(Group(0, cast(Any, TASK), "low", [TRAJECTORY] * 3, SCORES))
    assert made.parts == ({"right": 1.0}, None, {"right": 0.0})
    assert summarise(Group(0, cast(Any, TASK), "low", [TRAJECTORY], [scored(1.0)])).parts == ()


def test_a_domain_above_its_bound_is_reported_and_cut_only_if_asked() -> None:
    """Half of the groups each, all with the same |A|: text holds half of the sum, with 63 tokens as with 7.

    A token-wise mean gives it 9 tenths: 1.8 times its half.  A bound of 1.5 leaves 3 quarters, three times the tenth.
    """
    groups = [group(i, ("math/add", "text/sort")[i % 2], [0.0, 1.0], tokens=(7, 63)[i % 2]) for i in range(6)]
    token = ("algorithm.normalisation=token", "algorithm.share_bound=1.5")
    plain, acts = batch(groups, *token), batch(groups, *token, "algorithm.share_bound_acts=true")
    assert plain.shares == pytest.approx({"math/add": 0.1, "text/sort": 0.9}) and plain.cut == {}
    assert plain.over == acts.over == {"text/sort": pytest.approx(1.8)}
    assert acts.shares == pytest.approx({"math/add": 0.25, "text/sort": 0.75})
    assert acts.cut == {"text/sort": pytest.approx(1 / 3)}
    weights = [{item.group: item.weight for item in items(part)} for part in (plain.parts[0], acts.parts[0])]
    assert weights[1][0] == weights[0][0] and weights[1][1] == pytest.approx(weights[0][1] / 3)
    assert batch(groups).over == {} == batch(groups).cut


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        # Rewards 0, 1, 1, 1: mean 3/4, std sqrt(3)/4, and no statistics of the domain yet (half the range).
        ("grpo", (-math.sqrt(3), 1 / math.sqrt(3))),
        ("grpo_mean", (-0.75, 0.25)),
        ("dppo", (-1.5, 0.5)),
    ],
)
def test_what_centred_rewards_are_divided_by(preset: str, expected: tuple[float, float]) -> None:
    (part,) = batch([group(0, "math/add", [0.0, 1.0, 1.0, 1.0])], f"algorithm={preset}", num_ranks=1).parts
    found = {item.trajectory: item.advantage for item in items(part)}
    assert [found[number] for number in range(4)] == pytest.approx([expected[0], *[expected[1]] * 3])


def test_grpo_weighs_sequences_alike_and_its_mean_only_form_tokens() -> None:
    groups = [group(0, "math/add", [0.0, 1.0], tokens=10), group(1, "math/add", [0.0, 1.0], tokens=30)]
    for preset, expected in (("grpo", (1 / 40, 1 / 120)), ("grpo_mean", (1 / 80, 1 / 80))):
        (part,) = batch(groups, f"algorithm={preset}").parts
        weights = {item.group: item.weight for item in items(part)}
        assert (weights[0], weights[1]) == pytest.approx(expected)
