"""The engine server: who is admitted when and beside whom, what a dying engine tells, and what runs between steps."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.types import FinishReason
from rollouts.engine import Completion, EngineFailure, SamplingParams, TurnRequest
from rollouts.engine_server import GRACE_STEPS, EngineServer
from rollouts.vllm_engine import VllmDriver
from rollouts.worker import EngineClient
from tests.fakes import FakeDriver, LocalEngineHandle


def request(episode: int, turn: int = 0, stop_ids: tuple[int, ...] = (2,)) -> TurnRequest:
    sampling = SamplingParams(temperature=1.0, max_tokens=50, seed=1000 * episode + turn, stop_ids=stop_ids)
    return TurnRequest(episode=episode, turn=turn, prompt_ids=(1, episode, turn), sampling=sampling)


def length_of(request: TurnRequest) -> int:
    """Between 1 and 6 tokens, so that turns end at different steps."""
    return 1 + (7 * request.episode + 3 * request.turn) % 6


@contextmanager
def serving(driver: FakeDriver, *, deterministic: bool) -> Iterator[EngineServer]:
    server = EngineServer(lambda: driver, deterministic=deterministic)
    try:
        yield server
    finally:
        server.stop()


def collect_all(server: EngineServer, client: str, count: int, seconds: float = 5.0) -> list[Completion]:
    found: list[Completion] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found += server.collect(client, 0.1)
    return found


# --- deterministic mode ------------------------------------------------------------------------------------------

NUM_EPISODES = 6


def num_turns(episode: int) -> int:
    return 1 + episode % 3


async def play(server: EngineServer, name: str, episodes: list[int], rng: random.Random) -> dict[Any, list[int]]:
    """What a worker does, with tools that take any time; returns the ids of every turn."""
    client = EngineClient(LocalEngineHandle(server), name)
    sampled: dict[Any, list[int]] = {}

    async def episode(number: int) -> None:
        for turn in range(num_turns(number)):
            completion = await client.generate(request(number, turn))
            sampled[number, turn] = completion.token_ids
            if rng.random() < 0.7:
                await asyncio.sleep(rng.random() * 0.004)
        client.release(number)

    rng.shuffle(episodes)
    await asyncio.gather(*(episode(number) for number in episodes))
    await client.drain()
    return sampled


def run(num_clients: int, seed: int) -> tuple[FakeDriver, dict[Any, list[int]]]:
    """Play all episodes, each client on a thread of its own."""
    driver = FakeDriver(length_of)
    sampled: dict[Any, list[int]] = {}

    def client(number: int) -> None:
        episodes = list(range(number, NUM_EPISODES, num_clients))
        sampled.update(asyncio.run(play(server, f"worker-{number}", episodes, random.Random(f"{seed}.{number}"))))

    with serving(driver, deterministic=True) as server:
        server.open(range(NUM_EPISODES))
        threads = [threading.Thread(target=client, args=(number,)) for number in range(num_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
    return driver, sampled


REFERENCE, REFERENCE_IDS = run(1, 0)


def test_the_reference_run_is_whole() -> None:
    wanted = {(episode, turn) for episode in range(NUM_EPISODES) for turn in range(num_turns(episode))}
    assert set(REFERENCE_IDS) == set(REFERENCE.admitted) == wanted and len(REFERENCE.admitted) == len(wanted)
    assert REFERENCE.admitted[:NUM_EPISODES] == [(episode, 0) for episode in range(NUM_EPISODES)]
    steps = Counter(key for company in REFERENCE.company for key in company)
    assert steps == {key: length_of(request(*key)) for key in wanted}
    assert len(REFERENCE.threads) == 1


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([1, 2]), st.integers(0, 10**6))
def test_order_and_company_do_not_depend_on_timing(num_clients: int, seed: int) -> None:
    """One or two workers, slow or fast tools: the engine sees the same turns in the same company at every step."""
    driver, ids = run(num_clients, seed)
    assert driver.admitted == REFERENCE.admitted
    assert driver.company == REFERENCE.company
    assert ids == REFERENCE_IDS


def test_nothing_happens_while_an_episode_is_due() -> None:
    driver = FakeDriver(lambda request: 2)
    with serving(driver, deterministic=True) as server:
        server.open([0, 1])
        server.submit("w", [request(1)], [])
        assert server.collect("w", 0.2) == [] and driver.admitted == [] and driver.company == []
        server.submit("w", [request(0)], [])
        assert {item.episode for item in collect_all(server, "w", 2)} == {0, 1}
        assert driver.admitted == [(0, 0), (1, 0)] and driver.company == [((0, 0), (1, 0))] * 2

        # Both are due again: one asks, the other is silent, then is released.
        server.submit("w", [request(1, 1)], [])
        assert server.collect("w", 0.2) == [] and driver.admitted == [(0, 0), (1, 0)]
        server.submit("w", [], [0])
        assert [item.turn for item in collect_all(server, "w", 1)] == [1]
        assert driver.admitted == [(0, 0), (1, 0), (1, 1)]


def test_running_turns_wait_for_the_due_ones() -> None:
    """While a short turn's tool is out a long one makes its grace steps, never more and never fewer.

    Else its company would depend on the tool.
    """
    driver = FakeDriver(lambda request: 1 if request.episode == 0 and request.turn == 0 else 3)
    with serving(driver, deterministic=True) as server:
        server.open([0, 1])
        server.submit("w", [request(0), request(1)], [])
        assert [item.episode for item in collect_all(server, "w", 1)] == [0]
        time.sleep(0.1)
        assert GRACE_STEPS == 1 and driver.company == [((0, 0), (1, 0)), ((1, 0),)]
        server.submit("w", [request(0, 1)], [])
        assert [item.episode for item in collect_all(server, "w", 1)] == [1]
        assert driver.company[2] == ((1, 0), (0, 1))


def test_an_answer_within_the_grace_steps_is_held_back_until_they_are_made() -> None:
    """The fake's second step lets the next turn arrive first; it enters at the third all the same."""
    driver = FakeDriver(lambda request: 1 if request.key == (0, 0) else 3)
    with serving(driver, deterministic=True) as server:
        step, count = driver.step, itertools.count()

        def answered_meanwhile() -> list[Completion]:
            if next(count) == 1:
                server.submit("w", [request(0, 1)], [])
            return step()

        server.run(lambda driver: setattr(driver, "step", answered_meanwhile))
        server.open([0, 1])
        server.submit("w", [request(0), request(1)], [])
        assert [item.episode for item in collect_all(server, "w", 2)] == [0, 1]
        assert driver.company[:3] == [((0, 0), (1, 0)), ((1, 0),), ((1, 0), (0, 1))]


def test_where_nothing_runs_no_step_is_waited_for() -> None:
    """Both turns end at one step, and both next ones enter together: grace steps of an idle engine are skipped."""
    driver = FakeDriver(lambda request: 1)
    with serving(driver, deterministic=True) as server:
        server.open([0, 1])
        server.submit("w", [request(0), request(1)], [])
        collect_all(server, "w", 2)
        server.submit("w", [request(1, 1)], [])
        time.sleep(0.05)
        server.submit("w", [request(0, 1)], [])
        collect_all(server, "w", 2)
        assert driver.company == [((0, 0), (1, 0)), ((0, 1), (1, 1))]


# --- the other mode ----------------------------------------------------------------------------------------------


def test_without_deterministic_mode_nobody_waits() -> None:
    driver = FakeDriver(lambda request: 2)
    with serving(driver, deterministic=False) as server:
        server.open([0, 1])
        server.submit("w", [request(1)], [])
        assert [item.episode for item in collect_all(server, "w", 1)] == [1]
        server.submit("w", [request(1, 1)], [])
        assert [item.turn for item in collect_all(server, "w", 1)] == [1]


def test_every_client_gets_its_own_completions() -> None:
    with serving(FakeDriver(length_of), deterministic=False) as server:
        server.submit("a", [request(episode) for episode in (0, 2, 4)], [])
        server.submit("b", [request(episode) for episode in (1, 3)], [])
        assert {item.episode for item in collect_all(server, "b", 2)} == {1, 3}
        assert {item.episode for item in collect_all(server, "a", 3)} == {0, 2, 4}


def test_the_turn_of_a_released_episode_is_dropped() -> None:
    """Its worker gave up; the engine goes on for the others."""
    driver = FakeDriver(lambda request: 1_000_000 if request.episode == 0 else 1)
    with serving(driver, deterministic=False) as server:
        server.submit("w", [request(0)], [])
        server.submit("w", [], [0])
        server.run(lambda driver: setattr(driver, "_length", lambda request: 1))
        server.submit("w", [request(1)], [])
        assert [item.episode for item in collect_all(server, "w", 1)] == [1]


# --- failures ----------------------------------------------------------------------------------------------------


def raised_by(call: Callable[[], Any], into: list[BaseException]) -> threading.Thread:
    def target() -> None:
        try:
            call()
        except EngineFailure as failure:
            into.append(failure)

    thread = threading.Thread(target=target)
    thread.start()
    return thread


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_driver_that_raises_fails_everybody_with_its_text(deterministic: bool) -> None:
    failures: list[BaseException] = []
    began = time.monotonic()
    with serving(FakeDriver(lambda request: 50, fail_at_step=3), deterministic=deterministic) as server:
        waiting = [raised_by(lambda name=name: server.collect(name, 60.0), failures) for name in "abc"]  # type: ignore[misc]
        server.submit("a", [request(0)], [])
        for thread in waiting:
            thread.join(timeout=5)
        for call in (
            lambda: server.submit("a", [request(1)], []),
            lambda: server.collect("a", 60.0),
            lambda: server.run(lambda driver: 1),
        ):
            raised_by(call, failures).join(timeout=5)
    assert time.monotonic() - began < 5
    assert len(failures) == 6
    assert all("RuntimeError: the fake engine broke on purpose" in str(failure) for failure in failures)


def test_a_driver_that_cannot_be_built_fails_the_constructor() -> None:
    def build() -> FakeDriver:
        raise RuntimeError("no such model")

    with pytest.raises(RuntimeError, match="no such model"):
        EngineServer(build, deterministic=True)


def test_a_stopped_server_refuses_instead_of_hanging() -> None:
    server = EngineServer(lambda: FakeDriver(length_of), deterministic=True)
    failures: list[BaseException] = []
    waiting = raised_by(lambda: server.collect("w", 60.0), failures)
    server.stop()
    waiting.join(timeout=5)
    raised_by(lambda: server.run(lambda driver: 1, timeout=5), failures).join(timeout=5)
    raised_by(lambda: server.submit("w", [request(0)], []), failures).join(timeout=5)
    assert [str(failure) for failure in failures] == ["engine was stopped"] * 3


# --- jobs --------------------------------------------------------------------------------------------------------


def test_jobs_run_on_the_stepping_thread_also_while_an_episode_is_due() -> None:
    driver = FakeDriver(lambda request: 1)
    with serving(driver, deterministic=True) as server:
        server.open([0])
        server.submit("w", [], [])
        assert server.run(lambda driver: driver.num_running, timeout=5) == 0
        server.submit("w", [request(0)], [])
        collect_all(server, "w", 1)
        assert driver.threads == {server.run(lambda driver: threading.get_ident(), timeout=5)}


def test_a_job_lets_nobody_in_and_makes_no_step_while_an_episode_is_due() -> None:
    driver = FakeDriver(lambda request: 1 if request.key == (0, 0) else 3)
    with serving(driver, deterministic=True) as server:
        server.open([0, 1])
        server.submit("w", [request(1)], [])
        # The second job comes after all that the first one's boundary did.
        assert [server.run(lambda driver: list(driver.admitted), timeout=5) for _ in range(2)] == [[], []]
        server.submit("w", [request(0)], [])
        assert [item.episode for item in collect_all(server, "w", 1)] == [0]
        # The first of these jobs may come before the grace step.
        counts = [server.run(lambda driver: len(driver.company), timeout=5) for _ in range(3)]
        assert counts[0] in (1, 2) and counts[1:] == [2, 2]


def test_jobs_run_between_steps_and_their_errors_are_the_callers() -> None:
    driver = FakeDriver(lambda request: 5_000)
    with serving(driver, deterministic=False) as server:
        server.submit("w", [request(0)], [])
        counts = [server.run(lambda driver: len(driver.company), timeout=5) for _ in range(3)]
        assert counts == sorted(counts)
        with pytest.raises(ZeroDivisionError):
            server.run(lambda driver: 1 // 0, timeout=5)
        assert len(collect_all(server, "w", 1)) == 1


# --- the real driver's reading of vLLM's output ------------------------------------------------------------------


def completion_of(ids: list[int], reason: str, stop_ids: tuple[int, ...]) -> Completion:
    """What `VllmDriver` makes of a finished vLLM output, without a vLLM."""
    driver = VllmDriver.__new__(VllmDriver)
    driver.version = 4
    driver._requests = {"3.1": request(3, 1, stop_ids)}
    # As vLLM gives them: a position holds the sampled token and possibly a more likely one.
    logprobs = [{token: SimpleNamespace(logprob=-token / 10), 999: SimpleNamespace(logprob=0.0)} for token in ids]
    sampled = SimpleNamespace(token_ids=ids, logprobs=logprobs, finish_reason=reason)
    return driver._completion(SimpleNamespace(request_id="3.1", outputs=[sampled]), None)


@pytest.mark.parametrize(
    ("ids", "reason", "wanted"),
    [
        ([7, 8, 2], "stop", FinishReason.STOP),
        ([7, 8, 5], "stop", FinishReason.STOP),  # F84: the second stop id
        ([7, 8, 2], "length", FinishReason.STOP),  # the stop token was the last one that the budget allowed
        ([7, 8, 9], "length", FinishReason.LENGTH),
    ],
)
def test_the_finish_reason_follows_the_last_sampled_token(ids: list[int], reason: str, wanted: FinishReason) -> None:
    completion = completion_of(ids, reason, (2, 5))
    assert completion.finish_reason is wanted
    assert completion.token_ids == ids and completion.versions == [4] * 3  # F85: all lists parallel
    assert completion.logprobs == [-token / 10 for token in ids]
    assert (completion.episode, completion.turn) == (3, 1)


def test_an_aborted_turn_is_an_engine_failure() -> None:
    with pytest.raises(EngineFailure, match=r"episode 3.*'abort'"):
        completion_of([7], "abort", (2,))
