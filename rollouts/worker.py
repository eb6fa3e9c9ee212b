"""An episode worker: many episodes at once on one event loop, their environments, tools and scores.

In: assignments (a task, a tier, how many samples).  Out: `Group`s.  A plain class that knows no Ray: `rollouts.pool`
wraps it into an actor on a CPU node and gives it engine handles.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from envs import sandbox
from envs.domain import Domain, render_key
from envs.families import all_domains, with_families
from envs.types import Split, Status, Task, Trajectory
from rewards.score import Score, scored, unscored
from rollouts.chat import ChatRenderer
from rollouts.engine import Completion, TurnRequest
from rollouts.episode import EpisodeLimits, EpisodeSettings, run_episode
from rollouts.group import Group

COLLECT_SECONDS = 30.0
DRY_TASKS, DRY_FACTOR = 500, 25  # after so many tasks without a new held-out prompt a domain counts as exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One group to roll out: `num_samples` episodes of `task`, numbered from `first_episode`, on engine `engine`."""

    ticket: int
    task: Task
    tier: str
    num_samples: int
    first_episode: int
    engine: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a worker needs to build domains and prompts.

    `families` are the user's own (`name -> module:FAMILY` or `name -> /path/to/file.yaml`).

    `routes`: whether engines are asked which experts they chose.
    """

    model_dir: str
    stop_ids: tuple[int, ...]
    limits: Mapping[str, EpisodeLimits]
    families: Mapping[str, str]
    unscored_retries: int
    routes: bool = False


class EngineHandle(Protocol):
    """How a worker reaches an engine; `rollouts.pool` has the one over Ray, tests a local one."""

    async def submit(self, client: str, requests: Sequence[TurnRequest], released: Sequence[int]) -> None: ...

    async def collect(self, client: str, timeout: float) -> list[Completion]: ...


class EngineClient:
    """The `Engine` of all episodes on one event loop: turns asked for in the same tick travel in one message."""

    def __init__(self, handle: EngineHandle, name: str):
        self._handle, self._name = handle, name
        self._waiting: dict[int, asyncio.Future[Completion]] = {}
        self._requests: list[TurnRequest] = []
        self._released: list[int] = []
        self._flush_scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    async def generate(self, request: TurnRequest) -> Completion:
        self._check()
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting[request.episode] = future
        self._requests.append(request)
        self._schedule_flush()
        return await future

    def release(self, episode: int) -> None:
        self._released.append(episode)
        self._schedule_flush()

    async def drain(self) -> None:
        """Wait until everything that was said has reached the engine; raises what kept it from that."""
        while self._failure is None and (self._tasks or self._flush_scheduled):
            await asyncio.sleep(0)
            if self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        requests, self._requests = self._requests, []
        released, self._released = self._released, []
        self._spawn(self._handle.submit(self._name, requests, released))
        if self._waiting and (self._pump is None or self._pump.done()):
            self._pump = self._spawn(self._collect())

    def _spawn(self, coroutine: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._settle)
        return task

    def _settle(self, task: asyncio.Task[None]) -> None:
        """What breaks the way to the engine, whatever it is, is raised in everybody who waits for it."""
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is None:
            return
        self._failure = failure
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(failure)
        self._waiting.clear()

    async def _collect(self) -> None:
        while self._waiting:
            for completion in await self._handle.collect(self._name, COLLECT_SECONDS):
                self._waiting.pop(completion.episode).set_result(completion)
            # Let the woken episodes ask for their next turns before looking for more.
            await asyncio.sleep(0)


class EpisodeWorker:
    """Builds tasks, runs groups, scores them."""

    def __init__(self, settings: WorkerSettings, name: str):
        from transformers import AutoTokenizer

        self.settings, self.name = settings, name
        self.domains: dict[str, Domain] = all_domains(with_families(settings.families))
        self.renderer = ChatRenderer(AutoTokenizer.from_pretrained(settings.model_dir), settings.stop_ids)
        # More than run at once: a verdict that waits for its sandbox must not hold up one that needs none.
        self._scorers = ThreadPoolExecutor(2 * sandbox.CONCURRENCY, thread_name_prefix="scorer")

    def make_tasks(self, domain: str, split: Split, start: int, count: int) -> tuple[list[Task], int]:
        """`count` tasks of a split from generator index `start` on, and the index after the last."""
        tasks: list[Task] = []
        for task in self.domains[domain].tasks(split, start):
            tasks.append(task)
            if len(tasks) == count:
                break
        return tasks, tasks[-1].index + 1

    def held_out_tasks(self, domain: str, count: int, seconds: float) -> list[Task]:
        """Up to `count` held-out tasks with distinct prompts, from index 0 on, within `seconds` of making them.

        A small domain runs dry earlier: when many tasks in a row brought no new prompt, it has no more.
        """
        found: dict[str, Task] = {}
        latest = 0
        deadline = time.monotonic() + seconds
        for index in itertools.count():
            task = self.domains[domain].task(index)
            if task.split == "held_out" and found.setdefault(render_key(task.prompt), task) is task:
                latest = index
            dry = index - latest > max(DRY_TASKS, DRY_FACTOR * len(found))
            if len(found) == count or dry or time.monotonic() > deadline:
                break
        return list(found.values())

    def tasks_by_id(self, domain: str, ids: Sequence[str]) -> list[Task]:
        """Tasks made again; ValueError where one is not what its id says (the generator has changed)."""
        tasks = [self.domains[domain].task(int(task_id.rsplit("/", 1)[1])) for task_id in ids]
        for task, task_id in zip(tasks, ids, strict=True):
            if task.id != task_id:
                raise ValueError(f"{task_id} comes back as {task.id}: the domain is not the one that it was made with")
        return tasks

    def prompt_ids(self, task: Task, tier: str) -> list[int]:
        return self.renderer.prompt_ids(task.prompt, self.domains[task.domain].tools, tier)

    def run_groups(
        self,
        assignments: Sequence[Assignment],
        engines: Mapping[int, EngineHandle],
        finished: Callable[[Group], None] = lambda group: None,
    ) -> list[Group]:
        """Roll out and score all assignments together.  Raises EngineFailure.

        `finished` is called with each group once it is whole, while engines still work for the others.
        """
        return asyncio.run(self._run_groups(assignments, engines, finished))

    def demonstrate(self, assignments: Sequence[tuple[int, Task, str]]) -> list[Group]:
        """A demonstration of each (ticket, task, tier), in order.  ValueError where a gold policy is not best."""
        return asyncio.run(self._demonstrate(assignments))

    async def _demonstrate(self, assignments: Sequence[tuple[int, Task, str]]) -> list[Group]:
        from rollouts.demonstration import demonstrate_group  # it scores through this module

        return list(
            await asyncio.gather(
                *(
                    demonstrate_group(ticket, task, self.domains[task.domain], tier, self.renderer)
                    for ticket, task, tier in assignments
                )
            )
        )

    async def _run_groups(
        self,
        assignments: Sequence[Assignment],
        engines: Mapping[int, EngineHandle],
        finished: Callable[[Group], None],
    ) -> list[Group]:
        clients = {number: EngineClient(handle, self.name) for number, handle in engines.items()}

        async def run(assignment: Assignment) -> Group:
            group = await self._run_group(assignment, clients[assignment.engine])
            finished(group)
            return group

        groups = await asyncio.gather(*(run(item) for item in assignments))
        for client in clients.values():
            await client.drain()
        return list(groups)

    async def _run_group(self, assignment: Assignment, engine: EngineClient) -> Group:
        domain = self.domains[assignment.task.domain]
        prompt = self.prompt_ids(assignment.task, assignment.tier)
        samples = range(assignment.num_samples)
        results = await asyncio.gather(
            *(self._run_sample(assignment, domain, sample, prompt, engine) for sample in samples)
        )
        return Group(
            ticket=assignment.ticket,
            task=assignment.task,
            tier=assignment.tier,
            trajectories=[trajectory for trajectory, _ in results],
            scores=[score for _, score in results],
        )

    async def _run_sample(
        self, assignment: Assignment, domain: Domain, sample: int, prompt: list[int], engine: EngineClient
    ) -> tuple[Trajectory, Score]:
        """One episode and its score; retried while the infrastructure, not the model, is to blame."""
        settings = EpisodeSettings(
            number=assignment.first_episode + sample,
            sample=sample,
            tier=assignment.tier,
            limits=self.settings.limits[assignment.tier],
            temperature=assignment.temperature,
            seed=assignment.seed,
            routes=self.settings.routes,
        )
        try:
            for _ in range(self.settings.unscored_retries + 1):
                trajectory = await run_episode(assignment.task, domain, settings, self.renderer, engine, prompt)
                score = await self._score(domain, trajectory)
                if score.is_scored:
                    break
        finally:
            # Only now: a deterministic engine waits for an episode until it is released, also between two tries.
            engine.release(settings.number)
        return trajectory, score

    async def _score(self, domain: Domain, trajectory: Trajectory) -> Score:
        """Where the verdict may take seconds, the other episodes go on meanwhile."""
        if not (domain.needs_sandbox or domain.slow_verdict):
            return score_trajectory(domain, trajectory)
        return await asyncio.get_running_loop().run_in_executor(self._scorers, score_trajectory, domain, trajectory)


def score_trajectory(domain: Domain, trajectory: Trajectory) -> Score:
    """The domain's verdict.  Cut by a token budget: the lowest score, trained; broken infrastructure: unscored."""
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error)
    if trajectory.status is Status.TRUNCATED:
        return scored(domain.score_range[0], parts={"truncated": 1.0})
    score = domain.score(trajectory.task, trajectory)
    low, high = domain.score_range
    if score.value is not None and not low <= score.value <= high:
        raise ValueError(f"domain {domain.name} scored {score.value}, outside its declared range [{low}, {high}]")
    return score
