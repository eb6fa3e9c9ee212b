"""A thread that steps an engine for many clients: turns go in, completions come out, in an order that can be repeated.

In: turns of episodes.  Out: completions.  `EngineServer` runs inside a Ray actor made by `rollouts.pool`; its clients
are the episode workers, through submit and collect; what it steps is `rollouts.vllm_engine`.

    worker ── submit(turns, releases) ──► inbox ─► admit at a step boundary ─► vLLM step ─► outbox ── collect ──► worker

In deterministic mode the engine sees the same requests in the same company on every run, which is what makes its
log-probs the same to the bit: an episode whose turn ended at step n is due `GRACE_STEPS` steps later, its next turn is
admitted exactly then, however early it came, and no step is made before it was asked for or the episode released.
Within those steps the engine works while the world answers.  Turns of one boundary enter in (episode, turn) order.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from rollouts.engine import Completion, EngineFailure, TurnRequest

GRACE_STEPS = 1  # of the engine, that the world has for its answer before the engine waits for it


class Driver(Protocol):
    """What a server steps.  All calls come from one thread."""

    def add(self, request: TurnRequest) -> None: ...

    def step(self) -> list[Completion]: ...

    @property
    def num_running(self) -> int: ...


@dataclass(slots=True)
class _Client:
    outbox: list[Completion] = field(default_factory=list)
    outstanding: int = 0


class EngineServer:
    """One thread that owns a driver; any number of threads submit turns and collect completions.

    Raises EngineFailure to every caller once the stepping thread has died, with the text of what killed it.
    """

    def __init__(self, build: Callable[[], Any], *, deterministic: bool):
        self._deterministic = deterministic
        self._condition = threading.Condition()
        self._clients: dict[str, _Client] = {}
        self._owner: dict[int, str] = {}
        self._steps = 0  # of the engine; in deterministic mode also those that it skipped while nothing ran
        self._due: dict[int, int] = {}  # episode that has to say what it wants -> step before which it has to
        self._inbox: dict[int, list[TurnRequest]] = {}  # step before which they are admitted -> turns asked for
        self._jobs: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = queue.SimpleQueue()
        self._error = ""
        self._stopping = False
        self.is_paused = False
        self.busy_seconds = 0.0
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(build, started), name="engine", daemon=True)
        self._thread.start()
        started.result()

    def open(self, episodes: Sequence[int]) -> None:
        """Announce episodes: in deterministic mode nothing is admitted before each has asked or been released."""
        with self._condition:
            if self._deterministic:
                self._due |= dict.fromkeys(episodes, self._steps)

    def submit(self, client: str, requests: Sequence[TurnRequest], released: Sequence[int]) -> None:
        """Hand in turns, and say which episodes ask for no more."""
        with self._condition:
            self._check()
            state = self._clients.setdefault(client, _Client())
            state.outstanding += len(requests)
            for request in requests:
                self._owner[request.episode] = client
                step = self._due.pop(request.episode, self._steps)
                self._inbox.setdefault(step, []).append(request)
            for episode in released:
                self._due.pop(episode, None)
                self._owner.pop(episode, None)
            self._condition.notify_all()

    def collect(self, client: str, timeout: float) -> list[Completion]:
        """Completions of this client's turns, as soon as there are any (empty after `timeout` seconds)."""
        with self._condition:
            state = self._clients.setdefault(client, _Client())
            self._condition.wait_for(lambda: state.outbox or self._error, timeout)
            self._check()
            out, state.outbox = state.outbox, []
            state.outstanding -= len(out)
            return out

    def run(self, function: Callable[[Any], Any], timeout: float | None = None) -> Any:
        """Call `function(driver)` on the stepping thread, between two steps, and return its result."""
        future: Future[Any] = Future()
        with self._condition:
            self._check()
            self._jobs.put((function, future))
            self._condition.notify_all()
        return future.result(timeout)

    def pause(self) -> None:
        """Make no step and admit nothing until `resume`; jobs are done all the same."""
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, is_paused: bool) -> None:
        with self._condition:
            self.is_paused = is_paused
            self._condition.notify_all()

    def stop(self) -> None:
        with self._condition:
            self._stopping = True
            self._error = self._error or "engine was stopped"
            self._condition.notify_all()
        self._thread.join(timeout=10)

    def _check(self) -> None:
        if self._error:
            raise EngineFailure(self._error)

    def _run(self, build: Callable[[], Any], started: Future[None]) -> None:
        try:
            driver = build()
        except BaseException as error:
            self._error = f"engine did not start: {error}"
            started.set_exception(error)
            return
        started.set_result(None)
        try:
            while not self._stopping:
                self._boundary(driver)
        except BaseException:
            with self._condition:
                self._error = f"engine died:\n{traceback.format_exc(limit=-4)}"
                self._condition.notify_all()
        finally:
            self._cancel_jobs()

    def _boundary(self, driver: Any) -> None:
        """One turn of the stepping thread: jobs, admission, one engine step, delivery."""
        with self._condition:
            self._condition.wait_for(lambda: self._can_go_on(driver))
            if self._stopping:
                return
            jobs = [self._jobs.get() for _ in range(self._jobs.qsize())]
            waits = self.is_paused or self._waits(driver)
            admitted = [] if waits else self._admit(driver)
        for function, future in jobs:
            self._run_job(function, future, driver)
        for request in sorted(admitted, key=lambda request: request.key):
            driver.add(request)
        if waits or not driver.num_running:
            return
        began = time.perf_counter()
        finished = driver.step()
        self.busy_seconds += time.perf_counter() - began
        self._steps += 1
        self._deliver(finished)

    def _can_go_on(self, driver: Any) -> bool:
        if self._stopping or not self._jobs.empty():
            return True
        if self.is_paused:
            return False
        return (bool(self._inbox) or driver.num_running > 0) and not self._waits(driver)

    def _waits(self, driver: Any) -> bool:
        """Whether an episode that is due before the next step has not yet said what it wants."""
        horizon = self._horizon(driver)
        return any(step <= horizon for step in self._due.values())

    def _horizon(self, driver: Any) -> int:
        """The step that comes next.  Where nothing runs, that of the first turns that are, or may be, asked for."""
        if driver.num_running:
            return self._steps
        return max(self._steps, min(itertools.chain(self._due.values(), self._inbox), default=self._steps))

    def _admit(self, driver: Any) -> list[TurnRequest]:
        self._steps = self._horizon(driver)
        ready = [step for step in self._inbox if step <= self._steps]
        return [request for step in ready for request in self._inbox.pop(step)]

    def _deliver(self, finished: list[Completion]) -> None:
        if not finished:
            return
        with self._condition:
            for completion in finished:
                if completion.episode not in self._owner:
                    continue  # released while it was sampled: its worker gave up
                self._clients[self._owner[completion.episode]].outbox.append(completion)
                if self._deterministic:
                    self._due[completion.episode] = self._steps + GRACE_STEPS
            self._condition.notify_all()

    @staticmethod
    def _run_job(function: Callable[[Any], Any], future: Future[Any], driver: Any) -> None:
        try:
            future.set_result(function(driver))
        except Exception as error:
            future.set_exception(error)

    def _cancel_jobs(self) -> None:
        while not self._jobs.empty():
            _, future = self._jobs.get()
            future.set_exception(EngineFailure(self._error))
