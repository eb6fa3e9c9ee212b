"""The episode worker: batching towards the engine, order of groups, retries, scores, demonstrations."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from envs.base import EnvironmentFailure, StepResult
from envs.domain import Domain, Margin
from envs.families.math import FAMILY as MATH
from envs.types import Message, Status, Task
from rewards.score import Score, scored, unscored
from rollouts.demonstration import demonstrate_group
from rollouts.engine import Completion, EngineFailure, TurnRequest
from rollouts.engine_server import EngineServer
from rollouts.episode import EpisodeLimits, sampling_seed
from rollouts.worker import Assignment, EngineClient, EpisodeWorker, WorkerSettings
from tests.fakes import FakeDriver, LocalEngineHandle, ScriptedEnvironment, toy_domain, toy_renderer
from tests.rollouts.test_engine_server import request, serving
from train.policy.tiny import build_tokenizer

LIMITS = {tier: EpisodeLimits(turn_tokens=40, trajectory_tokens=400, context=4000) for tier in ("low", "high")}
RENDERER = toy_renderer()


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    build_tokenizer().save_pretrained(directory)
    return directory


def make_worker(model_dir: Path, *domains: Domain, retries: int = 0) -> EpisodeWorker:
    settings = WorkerSettings(
        model_dir=str(model_dir), stop_ids=RENDERER.stop_ids, limits=LIMITS, families={}, unscored_retries=retries
    )
    worker = EpisodeWorker(settings, "worker-0")
    worker.domains |= {domain.name: domain for domain in domains}
    return worker


@pytest.fixture
def server() -> Iterator[EngineServer]:
    driver = FakeDriver(lambda request: 2 + (request.episode + request.turn) % 3)
    with serving(driver, deterministic=True) as server:
        yield server


def assignment(task: Task, ticket: int, first_episode: int, num_samples: int = 2, tier: str = "low") -> Assignment:
    return Assignment(
        ticket=ticket,
        task=task,
        tier=tier,
        num_samples=num_samples,
        first_episode=first_episode,
        engine=0,
        temperature=1.0,
        seed=11,
    )


# --- the client --------------------------------------------------------------------------------------------------


def test_turns_of_one_tick_travel_in_one_message() -> None:
    async def main(handle: LocalEngineHandle) -> None:
        client = EngineClient(handle, "w")
        await asyncio.gather(*(client.generate(request(episode)) for episode in range(3)))
        for episode in range(3):
            client.release(episode)
        await client.drain()

    with serving(FakeDriver(lambda request: 2), deterministic=True) as server:
        handle = LocalEngineHandle(server)
        server.open(range(3))
        asyncio.run(main(handle))
    assert handle.submitted == [([(0, 0), (1, 0), (2, 0)], []), ([], [0, 1, 2])]


class BrokenHandle:
    """Answers nothing, and breaks in `submit` or in `collect`."""

    def __init__(self, failure: Exception, where: str):
        self.failure, self.where = failure, where

    async def submit(self, client: str, requests: Sequence[TurnRequest], released: Sequence[int]) -> None:
        if self.where == "submit":
            raise self.failure

    async def collect(self, client: str, timeout: float) -> list[Completion]:
        if self.where == "collect":
            raise self.failure
        await asyncio.sleep(timeout)
        return []


@pytest.mark.parametrize("where", ["submit", "collect"])
@pytest.mark.parametrize("failure", [EngineFailure("engine died"), TypeError("an unknown bug")])
def test_whatever_breaks_reaches_everybody_who_waits(failure: Exception, where: str) -> None:
    async def main() -> list[Any]:
        client = EngineClient(BrokenHandle(failure, where), "w")
        both = asyncio.gather(*(client.generate(request(episode)) for episode in range(2)), return_exceptions=True)
        found = await asyncio.wait_for(both, 5)
        with pytest.raises(type(failure), match=str(failure)):
            await client.generate(request(2))
        with pytest.raises(type(failure), match=str(failure)):
            await client.drain()
        return found

    assert asyncio.run(main()) == [failure, failure]


# --- groups ------------------------------------------------------------------------------------------------------


def test_groups_come_back_in_the_order_of_their_assignments(model_dir: Path, server: EngineServer) -> None:
    domain = toy_domain(num_replies=2, score=lambda task, trajectory: scored(task.index / 10))
    worker = make_worker(model_dir, domain)
    tasks = [domain.task(index) for index in (5, 3, 8)]
    assignments = [
        assignment(task, ticket=20 + position, first_episode=100 - 10 * position, tier=tier)
        for position, (task, tier) in enumerate(zip(tasks, ("low", "high", "low"), strict=True))
    ]
    server.open([item.first_episode + sample for item in assignments for sample in range(2)])
    groups = worker.run_groups(assignments, {0: LocalEngineHandle(server)})
    assert [(group.ticket, group.task, group.tier) for group in groups] == [
        (20, tasks[0], "low"),
        (21, tasks[1], "high"),
        (22, tasks[2], "low"),
    ]
    assert [group.values for group in groups] == [[0.5, 0.5], [0.3, 0.3], [0.8, 0.8]]
    for group in groups:
        assert [trajectory.sample for trajectory in group.trajectories] == [0, 1]
        assert [len(trajectory.turns) for trajectory in group.trajectories] == [3, 3]
        assert [trajectory.status for trajectory in group.trajectories] == [Status.DONE] * 2


@pytest.mark.parametrize(("num_workers", "num_engines"), [(1, 1), (2, 1), (1, 2), (2, 4), (4, 2)])
def test_what_is_sampled_depends_on_run_task_and_sample_alone(
    model_dir: Path, num_workers: int, num_engines: int
) -> None:
    """Made-up tokens are drawn from a turn's own seed, so that another seed would show in them."""
    domain = toy_domain(num_replies=1)
    items = [assignment(domain.task(index), index, 10 * index, num_samples=3) for index in range(4)]
    random.seed(3)
    numpy.random.seed(3)
    torch.manual_seed(3)
    before = (random.getstate(), repr(numpy.random.get_state()), torch.get_rng_state().tolist())
    found: dict[int, list[list[int]]] = {}
    with contextlib.ExitStack() as stack:
        driver = [FakeDriver(lambda request: 6) for _ in range(num_engines)]
        servers = [stack.enter_context(serving(one, deterministic=False)) for one in driver]
        handles = {number: LocalEngineHandle(server) for number, server in enumerate(servers)}
        for number in range(num_workers):
            own = [dataclasses.replace(item, engine=item.ticket % num_engines) for item in items[number::num_workers]]
            for item in own:
                servers[item.engine].open([item.first_episode + sample for sample in range(3)])
            for group in make_worker(model_dir, domain).run_groups(own, handles):
                turns = [turn for trajectory in group.trajectories for turn in trajectory.turns]
                found[group.ticket] = [turn.completion_ids for turn in turns]

    def expected_of(index: int) -> list[list[int]]:
        seeds = [sampling_seed(11, domain.task(index).id, sample, turn) for sample in range(3) for turn in range(2)]
        drawn = [[random.Random(f"{seed}.{number}").randrange(14, 100) for number in range(5)] for seed in seeds]
        return [[*ids, RENDERER.stop_ids[0]] for ids in drawn]

    expected = {index: expected_of(index) for index in range(4)}
    assert found == expected
    assert len({tuple(ids) for own in found.values() for ids in own}) == 4 * 3 * 2
    # No global stream was drawn from.
    assert (random.getstate(), repr(numpy.random.get_state()), torch.get_rng_state().tolist()) == before


class Flaky(ScriptedEnvironment):
    """Its sandbox is lost in the second step, the first `failures` times; closing takes a while."""

    failures = 0

    async def step(self, message: Message) -> StepResult:
        if len(self.seen) == 1 and Flaky.failures > 0:
            Flaky.failures -= 1
            raise EnvironmentFailure("sandbox lost")
        return await super().step(message)

    async def close(self) -> None:
        await asyncio.sleep(0.01)
        await super().close()


@pytest.mark.parametrize(
    ("failures", "status", "score"),
    [(2, Status.DONE, scored(1.0)), (3, Status.FAILED, unscored("EnvironmentFailure: sandbox lost"))],
)
def test_a_failed_environment_is_retried_then_unscored(
    model_dir: Path, server: EngineServer, failures: int, status: Status, score: Score
) -> None:
    """The episode keeps its number and stays unreleased between tries: a deterministic engine waits for it."""
    Flaky.failures = failures
    domain = toy_domain(environment=lambda task: Flaky([(Message.of("user", "more"),)] * 2))
    worker = make_worker(model_dir, domain, retries=2)
    handle = LocalEngineHandle(server)
    server.open([7])
    item = assignment(domain.task(5), ticket=1, first_episode=7, num_samples=1)
    (group,) = worker.run_groups([item], {0: handle})
    assert [trajectory.status for trajectory in group.trajectories] == [status]
    assert group.scores == [score]
    asked = [key for keys, _ in handle.submitted for key in keys]
    assert asked == [(7, 0), (7, 1)] * 2 + ([(7, 0), (7, 1), (7, 2)] if failures == 2 else [(7, 0), (7, 1)])
    assert [released for _, released in handle.submitted if released] == [[7]]


def test_a_score_outside_the_declared_range_is_raised(model_dir: Path, server: EngineServer) -> None:
    domain = toy_domain(score=lambda task, trajectory: scored(1.5))
    worker = make_worker(model_dir, domain)
    server.open([0, 1])
    with pytest.raises(ValueError, match=r"toy/echo scored 1\.5, outside its declared range \[0\.0, 1\.0\]"):
        worker.run_groups([assignment(domain.task(5), 0, 0)], {0: LocalEngineHandle(server)})


def test_a_slow_verdict_in_the_sandbox_does_not_hold_up_other_episodes(model_dir: Path) -> None:
    """The slow one waits for a verdict of another episode, which still has turns to take."""
    other_is_scored = threading.Event()

    def plain_score(task: Task, trajectory: Any) -> Score:
        other_is_scored.set()
        return scored(1.0)

    plain = toy_domain(num_replies=3, score=plain_score)
    slow = dataclasses.replace(
        toy_domain(score=lambda task, trajectory: scored(float(other_is_scored.wait(20)))),
        name="toy/slow",
        needs_sandbox=True,
    )
    worker = make_worker(model_dir, plain, slow)
    items = [assignment(slow.task(1), 0, 0, num_samples=1), assignment(plain.task(1), 1, 1, num_samples=1)]
    with serving(FakeDriver(lambda request: 3), deterministic=False) as server:
        server.open([0, 1])
        groups = worker.run_groups(items, {0: LocalEngineHandle(server)})
    assert [group.values for group in groups] == [[1.0], [1.0]]


def test_a_truncated_trajectory_gets_the_lowest_score_without_asking_the_domain(
    model_dir: Path, server: EngineServer
) -> None:
    def never(task: Task, trajectory: Any) -> Score:
        raise AssertionError("not to be asked")

    domain = toy_domain(num_replies=500, max_turns=500, score=never)
    worker = make_worker(model_dir, domain)
    server.open([0, 1])
    (group,) = worker.run_groups([assignment(domain.task(5), 0, 0)], {0: LocalEngineHandle(server)})
    assert group.scores == [scored(0.0, parts={"truncated": 1.0})] * 2


def test_an_engine_that_dies_is_raised(model_dir: Path) -> None:
    domain = toy_domain(num_replies=2)
    worker = make_worker(model_dir, domain)
    with serving(FakeDriver(lambda request: 3, fail_at_step=4), deterministic=True) as server:
        server.open([0, 1])
        with pytest.raises(EngineFailure, match="broke on purpose"):
            worker.run_groups([assignment(domain.task(5), 0, 0)], {0: LocalEngineHandle(server)})


# --- demonstrations ----------------------------------------------------------------------------------------------


def test_demonstrations_carry_tokens_like_rollouts(model_dir: Path) -> None:
    worker = make_worker(model_dir)
    names = [domain.name for domain in MATH.domains()] + ["tools/calculator", "tools/store"]
    tasks = [worker.domains[name].task(index) for index, name in enumerate(names)]
    groups = worker.demonstrate([(50 + n, task, "high") for n, task in enumerate(tasks)])
    assert [(group.ticket, group.task) for group in groups] == [(50 + n, task) for n, task in enumerate(tasks)]
    for group in groups:
        domain = worker.domains[group.task.domain]
        (trajectory,) = group.trajectories
        assert group.values == [domain.score_range[1]] and trajectory.status is Status.DONE
        ids = worker.prompt_ids(group.task, "high")
        for turn in trajectory.turns:
            count = len(turn.completion_ids)
            assert turn.prompt_ids == ids
            assert turn.completion_ids[-1] in RENDERER.stop_ids
            assert (turn.logprobs, turn.versions, turn.forced) == ([0.0] * count, [-1] * count, [False] * count)
            assert RENDERER.parse(turn.completion_ids) == turn.message
            ids = ids + turn.completion_ids + RENDERER.bridge_ids(turn.observation)
        said = [*group.task.prompt, *trajectory.messages[:-1]]
        assert trajectory.turns[-1].prompt_ids == RENDERER.prompt_ids(said, domain.tools, "high")
    assert max(len(group.trajectories[0].turns) for group in groups) >= 2


@pytest.mark.parametrize(
    ("score", "says"),
    [
        (0.5, r"toy/echo/\w+/5: its gold policy gets 0\.5, a demonstration must score the maximum 1\.0"),
        (None, r"toy/echo/\w+/5: its gold policy gets no score \(down\)"),
    ],
)
def test_a_demonstration_that_is_not_best_is_refused(score: float | None, says: str) -> None:
    verdict = unscored("down") if score is None else scored(score)
    domain = toy_domain(score=lambda task, trajectory: verdict)
    with pytest.raises(ValueError, match=says):
        asyncio.run(demonstrate_group(0, domain.task(5), domain, "low", RENDERER))


def test_a_lost_game_is_still_a_demonstration_where_nobody_is_sure_to_win() -> None:
    domain = toy_domain(score=lambda task, trajectory: scored(0.25))
    game = dataclasses.replace(domain, margin=Margin(random=domain.gold, points=0.1))
    group = asyncio.run(demonstrate_group(0, game.task(5), game, "low", RENDERER))
    assert group.values == [0.25]
    broken = dataclasses.replace(game, score=lambda task, trajectory: unscored("down"))
    with pytest.raises(ValueError, match=r"gets no score \(down\)"):
        asyncio.run(demonstrate_group(0, broken.task(5), broken, "low", RENDERER))


def test_a_gold_message_that_does_not_come_back_is_refused() -> None:
    """A name on an assistant message has no token."""
    named = Message.of("assistant", "5", name="me")
    domain = dataclasses.replace(toy_domain(), gold=lambda task, messages: named)
    with pytest.raises(ValueError, match=r"toy/echo/\w+/5: the gold message .* is read back"):
        asyncio.run(demonstrate_group(0, domain.task(5), domain, "low", RENDERER))
