"""Weights that move: from the config, through steps of the collector with a made-up pool, and resumed."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import pytest

from envs.types import Message, Task
from rewards.normalise import DomainStatistics
from rollouts.adaptive import AdaptiveWeights
from rollouts.mixture import Mixture
from rollouts.objects import GroupResult
from rollouts.retired import RetiredTasks
from rollouts.weights import skill_and_level
from tests.train.test_collect import group
from train.collect import Collector
from train.compose import Composed
from train.compose import compose_run as compose
from train.launch import make_mixtures
from train.steer import make_adaptive, make_retired, rules_of

ADD, SORT = "math/add-easy", "text/sort-easy"
TWO = ["experiment=toy", "stage=rl", "~mix.families.*", f"mix.domains.{ADD}=1", f"mix.domains.{SORT}=1"]
LEARN = ["mix.adaptive.signal=learnability", "mix.adaptive.bound=3", "mix.update_every=2"]


@functools.cache
def composed_of(*arguments: str) -> Composed:
    return compose(arguments)


def compose_run(arguments: Sequence[str]) -> Composed:
    """Composing takes long, and nobody here changes what comes out."""
    return composed_of(*arguments)


class Pool:
    """Tasks of any domain, whose groups are solved as `rewards` says: domain -> one reward a trajectory."""

    def __init__(self, rewards: dict[str, Sequence[float]], tokens: dict[str, int] | None = None):
        self.rewards, self.tokens = rewards, tokens or {}

    def make_tasks(self, wanted: Sequence[tuple[str, str, int, int]]) -> list[tuple[list[Task], float]]:
        return [([_task(domain, start + i) for i in range(count)], 0.0) for domain, _, start, count in wanted]

    def run(self, groups: Sequence[tuple[int, Task, str]], **_: object) -> list[GroupResult]:
        return [
            group(number, task.domain, self.rewards[task.domain], self.tokens.get(task.domain, 10))
            for number, task, _ in groups
        ]


class Repeating(Pool):
    """Task i has prompt i mod ten; half of the prompts are solved by all, the others by half of a group."""

    def __init__(self, prompts: Sequence[str]):
        super().__init__({})
        self.prompts, self.solved, self.asked = prompts, set(prompts[:5]), list[str]()

    def make_tasks(self, wanted: Sequence[tuple[str, str, int, int]]) -> list[tuple[list[Task], float]]:
        size = len(self.prompts)
        return [
            ([_train_task(domain, i, self.prompts[i % size]) for i in range(start, start + count)], 0.0)
            for domain, _, start, count in wanted
        ]

    def run(self, groups: Sequence[tuple[int, Task, str]], **_: object) -> list[GroupResult]:
        texts = [task.prompt[0].text for _, task, _ in groups]
        self.asked += texts
        return [
            group(number, task.domain, (1.0, 1.0) if text in self.solved else (0.0, 1.0))
            for (number, task, _), text in zip(groups, texts, strict=True)
        ]


def _task(domain: str, index: int) -> Task:
    return _train_task(domain, index, next(text for text in map(str, range(1000)) if _in_train(text)))


def _in_train(text: str) -> bool:
    from envs.domain import split_of

    return split_of((Message.of("user", text),)) == "train"


def _train_task(domain: str, index: int, text: str) -> Task:
    return Task(
        id=f"{domain}/train/{index}",
        domain=domain,
        split="train",
        index=index,
        prompt=(Message.of("user", text),),
        reference="",
        metadata={},
    )


def parts(composed: Composed) -> tuple[Mixture, AdaptiveWeights | None]:
    return make_mixtures(composed)["rl"], make_adaptive(composed).get("rl")


def steps(
    composed: Composed, pool: Pool, mixture: Mixture, adaptive: AdaptiveWeights | None, count: int
) -> Counter[str]:
    """So many steps; which domain each group was of."""
    ranges = {name: domain.score_range for name, domain in composed.domains.items()}
    collector = Collector(
        cast(Any, pool), mixture, DomainStatistics(ranges), composed.domains, composed.config, adaptive
    )
    drawn: Counter[str] = Counter()
    for _ in range(count):
        accepted, dropped = collector.take(0)
        drawn.update(result.summary.domain for result in [*accepted, *(result for result, _ in dropped)])
    return drawn


def test_fixed_weights_have_nothing_that_moves_them() -> None:
    composed = compose_run(TWO)
    assert make_adaptive(composed) == {}
    mixture, _ = parts(composed)
    pool = Pool({ADD: (0.0, 1.0), SORT: (0.0, 1.0)})
    assert steps(composed, pool, mixture, None, 3) == {ADD: 60, SORT: 60}


def test_what_can_be_learned_is_drawn_more_after_the_first_update_that_knows_it() -> None:
    """Spreads 1/2 and 1/8 on equal shares: 4 : 1, within the bound of three times and a third."""
    composed = compose_run([*TWO, *LEARN])
    mixture, adaptive = parts(composed)
    pool = Pool({ADD: (0.0, 1.0), SORT: (0.5, 0.75)})
    assert steps(composed, pool, mixture, adaptive, 1) == {ADD: 20, SORT: 20}
    assert mixture.weights == {ADD: Fraction(1, 2), SORT: Fraction(1, 2)}  # an update every two steps
    steps(composed, pool, mixture, adaptive, 1)
    assert float(mixture.weights[ADD]) == pytest.approx(0.8, abs=1e-5)
    drawn = steps(composed, pool, mixture, adaptive, 10)
    assert drawn[ADD] == pytest.approx(320, abs=2)


def test_groups_without_signal_count_and_are_accounted_for_with_a_reason() -> None:
    composed = compose_run([*TWO, *LEARN])
    mixture, adaptive = parts(composed)
    steps(composed, Pool({ADD: (1.0, 1.0), SORT: (0.0, 1.0)}), mixture, adaptive, 4)
    assert mixture.weights[ADD] == Fraction(1, 6)
    assert set(mixture.losses()[ADD]) == {"filtered: all rewards 1"} and SORT not in mixture.losses()


def test_a_curriculum_climbs_through_the_loop() -> None:
    ladder = ["math/add-easy", "math/add"]
    options = ["mix.curriculum.focus=1", "mix.curriculum.up=0.8", "mix.curriculum.down=0.2", "mix.curriculum.groups=8"]
    wanted = [f"mix.domains.{name}=1" for name in ladder]
    composed = compose_run([*TWO[:3], *wanted, *options, "mix.update_every=1"])
    mixture, adaptive = parts(composed)
    pool = Pool({"math/add-easy": (0.0, 1.0), "math/add": (0.0, 0.1)})
    steps(composed, pool, mixture, adaptive, 2)
    assert set(mixture.weights) == {"math/add-easy"}
    pool.rewards["math/add-easy"] = (0.9, 1.0)
    steps(composed, pool, mixture, adaptive, 3)
    assert set(mixture.weights) == {"math/add"}
    steps(composed, pool, mixture, adaptive, 3)
    assert set(mixture.weights) == {"math/add-easy"}  # too hard: down again


def test_tokens_are_balanced_through_the_loop() -> None:
    options = ["mix.balance=tokens", "mix.balance_bound=8", "mix.update_every=1", "algorithm.normalisation=token"]
    composed = compose_run([*TWO, *options])
    mixture, adaptive = parts(composed)
    tokens = {ADD: 30, SORT: 10}
    pool = Pool({ADD: (0.0, 1.0), SORT: (0.0, 1.0)}, tokens)
    steps(composed, pool, mixture, adaptive, 1)
    drawn = steps(composed, pool, mixture, adaptive, 20)
    assert drawn[ADD] * tokens[ADD] == pytest.approx(drawn[SORT] * tokens[SORT], rel=0.02)


def test_resume_goes_on_exactly() -> None:
    composed = compose_run([*TWO, *LEARN])
    pool = Pool({ADD: (0.0, 1.0), SORT: (0.5, 0.75)})
    mixture, adaptive = parts(composed)
    assert adaptive is not None
    steps(composed, pool, mixture, adaptive, 3)
    document = json.loads(json.dumps([mixture.state_dict(), adaptive.state_dict()]))
    later, resumed = parts(composed)
    assert resumed is not None
    later.load_state_dict(document[0])
    resumed.load_state_dict(document[1])
    assert steps(composed, pool, later, resumed, 4) == steps(composed, pool, mixture, adaptive, 4)
    assert later.state_dict() == mixture.state_dict() and resumed.state_dict() == adaptive.state_dict()


def test_with_room_for_refills_lossy_domains_keep_their_share() -> None:
    """Six of ten groups of one domain are lost: a quarter of a step is too little to make up for it, half is enough."""
    found = {}
    for room in (0.25, 0.5):
        composed = compose_run([*TWO, f"mix.refill_share={room}"])
        mixture, _ = parts(composed)
        pool = Pool({ADD: (0.0, 1.0), SORT: (0.0, 1.0)})
        for number in range(150):
            pool.rewards[SORT] = (0.0, 1.0) if number % 5 in (0, 2) else (0.0, 0.0)
            steps(composed, pool, mixture, None, 1)
        found[room] = mixture.accepted_shares()[SORT]
    assert found[0.5] == pytest.approx(0.5, rel=0.02) and found[0.25] < 0.47


def test_solved_tasks_are_retired_until_hardly_any_is_left() -> None:
    """Ten prompts that come again and again; all groups of five of them are solved.  Those vanish after two each."""
    composed = compose_run([*TWO, "mix.retire_after=2", f"~mix.domains.{SORT}", "algorithm.groups_per_step=4"])
    with pytest.raises(ValueError, match="num_distinct"):
        make_retired(composed)
    finite = composed.domains | {ADD: replace(composed.domains[ADD], num_distinct=10)}
    composed = replace(composed, domains=finite)
    prompts = [text for text in map(str, range(100)) if _in_train(text)][:10]
    pool = Repeating(prompts)
    mixture, retired = make_mixtures(composed)["rl"], make_retired(composed)
    ranges = {ADD: (0.0, 1.0)}
    collector = Collector(
        cast(Any, pool), mixture, DomainStatistics(ranges), composed.domains, composed.config, retired=retired
    )
    for _ in range(8):
        collector.take(0)
    assert retired.counts() == {ADD: 5}
    resumed = make_retired(composed)
    resumed.load_state_dict(json.loads(json.dumps(retired.state_dict())))
    assert resumed.state_dict() == retired.state_dict()
    pool.asked.clear()
    for _ in range(10):
        collector.take(0)
    assert len(pool.asked) == 40 and set(pool.asked) == set(prompts[5:])
    pool.solved = set(prompts)
    for _ in range(20):
        collector.take(0)  # goes on when everything is retired
    assert retired.counts() == {ADD: 10}


def test_one_group_that_is_not_solved_begins_the_count_anew() -> None:
    retired, task = RetiredTasks([ADD], 2), _task(ADD, 0)
    for values in ((1.0, 1.0), (1.0, 0.0), (1.0, None), (None, None)):
        retired.observe(task, values, 1.0)
    assert task not in retired
    retired.observe(_task(ADD, 99), (1.0, 1.0), 1.0)  # the same prompt under another index
    assert task in retired and _task(SORT, 0) not in retired
    retired.observe(_task(SORT, 0), (1.0, 1.0), 1.0)
    assert retired.state_dict().keys() == {ADD}


def test_the_adaptive_preset_splits_skills_over_levels() -> None:
    composed = compose_run(["experiment=toy", "stage=rl", "mix=adaptive", "~mix.families.tools"])
    weights = composed.mixes["rl"].weights
    by_skill: dict[str, Fraction] = {}
    for name, share in weights.items():
        skill = skill_and_level(name)[0]
        by_skill[skill] = by_skill.get(skill, Fraction(0)) + share
    maths = {share for skill, share in by_skill.items() if skill.startswith("math/")}
    assert len(maths) == 1  # whether a skill has one level or two
    rules = rules_of(composed.config.mix)
    assert (rules.signal, rules.bound, rules.focus, rules.token_bound) == ("learnability", 3.0, 0.7, 0.0)
    assert math.isclose(sum(map(float, weights.values())), 1.0)
