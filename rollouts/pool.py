"""The pool: Ray actors of engines and episode workers, and the driver's handle on them.

In: assignments, weight shards (references).  Out: group summaries, with references to the groups themselves: tokens go
from worker to trainer through the object store and never pass the driver.  Built by `train.launch`.

    driver ── run ──► workers (CPU nodes) ── submit / collect ──► engines
       └───── publish(version, shard refs) ─────────────────────►
"""

from __future__ import annotations

import asyncio
import itertools
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from envs.types import Split, Task
from rollouts.engine import Completion, EngineFailure, TurnRequest
from rollouts.engine_actor import ChunkReport, EngineActor, EngineReport, Receiver
from rollouts.group import summarise
from rollouts.objects import GroupResult, GroupWriter, Place, fetch_groups, put_groups
from rollouts.store import read_groups, write_groups
from rollouts.vllm_engine import EngineSettings
from rollouts.worker import Assignment, EpisodeWorker, WorkerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """How many actors of each kind, what each may take, and on which node each lives; from `cluster` in the config.

    `engine_nodes` and `worker_nodes`: a Ray resource for each actor (as `train.cluster.placement` names them), or
    empty on one machine.
    """

    engine: EngineSettings
    worker: WorkerSettings
    format: str
    num_engines: int
    num_workers: int
    deterministic: bool
    engine_cpus: float
    engine_gpus: float
    worker_cpus: float
    engine_environment: dict[str, str]
    worker_environment: dict[str, str]
    start_seconds: float
    publish_seconds: float
    engine_nodes: Sequence[Mapping[str, float]] = ()
    worker_nodes: Sequence[Mapping[str, float]] = ()


# (number of the chunk, whether in full, seconds it may take) -> references to the trainer ranks' shards
MakeChunk = Callable[[int, bool, float], Sequence[Any]]
# (engine actors, seconds it may take) -> digests by tensor, checksum of the version
Send = Callable[[Sequence[Any], float], tuple[Mapping[str, str], str]]


@dataclass(slots=True, kw_only=True)
class PublishReport:
    """What a publish cost: bytes that travelled to one engine, what they would have been without patches, and chunks
    that some engine wanted in full."""

    num_bytes: int = 0
    full_bytes: int = 0
    refreshed: int = 0
    engine: EngineReport | None = None

    def add(self, reports: Sequence[ChunkReport]) -> None:
        self.num_bytes += max(report.num_bytes for report in reports)
        self.full_bytes += reports[0].full_bytes


class WorkerActor:
    """An `EpisodeWorker`; groups it rolled out stay in its object store."""

    def __init__(self, settings: WorkerSettings, name: str, engines: Sequence[Any]):
        self._worker = EpisodeWorker(settings, name)
        self._engines = {number: RayEngineHandle(actor) for number, actor in enumerate(engines)}

    def ready(self) -> str:
        return self._worker.name

    def make_tasks(self, requests: Sequence[tuple[str, Split, int, int]]) -> list[tuple[list[Task], int]]:
        return [self._worker.make_tasks(*request) for request in requests]

    def held_out_tasks(self, domain: str, count: int, seconds: float) -> list[Task]:
        return self._worker.held_out_tasks(domain, count, seconds)

    def tasks_by_id(self, domain: str, ids: Sequence[str]) -> list[Task]:
        return self._worker.tasks_by_id(domain, ids)

    def prompts(self, tasks: Sequence[tuple[Task, str]]) -> list[list[int]]:
        return [self._worker.prompt_ids(task, tier) for task, tier in tasks]

    def demonstrate(self, groups: Sequence[tuple[int, Task, str]]) -> list[GroupResult]:
        return put_groups(self._worker.demonstrate(groups))

    def store(self, path: str, places: Sequence[Place]) -> None:
        write_groups(pathlib.Path(path), fetch_groups(places))

    def load(self, path: str) -> list[GroupResult]:
        return put_groups(read_groups(pathlib.Path(path)))

    def run(self, assignments: Sequence[Assignment], keep: bool) -> list[GroupResult]:
        """Results in no particular order (the caller knows them by ticket)."""
        if not keep:
            return [GroupResult(summarise(group)) for group in self._worker.run_groups(assignments, self._engines)]
        writer = GroupWriter()
        self._worker.run_groups(assignments, self._engines, writer.add)
        return writer.results()


class RayEngineHandle:
    """An engine actor as an episode worker sees it."""

    def __init__(self, actor: Any):
        self._actor = actor

    async def submit(self, client: str, requests: Sequence[TurnRequest], released: Sequence[int]) -> None:
        await _engine_call(self._actor.submit.remote(client, requests, released))

    async def collect(self, client: str, timeout: float) -> list[Completion]:
        completions: list[Completion] = await _engine_call(self._actor.collect.remote(client, timeout))
        return completions


async def _engine_call(reference: Any) -> Any:
    try:
        return await asyncio.wrap_future(reference.future())
    except ray.exceptions.RayActorError as error:
        raise EngineFailure(f"an engine process died: {error}") from error


class RolloutPool:
    """The driver's handle.  All methods block; all raise `EngineFailure` where an engine failed."""

    def __init__(self, settings: PoolSettings, receiver: Callable[[], Receiver]):
        self.settings = settings
        self._episodes = itertools.count()
        self._storing: list[Any] = []
        self._engines = [self._make_engine(number, receiver) for number in range(settings.num_engines)]
        self._workers = [self._make_worker(number) for number in range(settings.num_workers)]

    def wait_until_ready(self) -> None:
        """Block until every actor is up; EngineFailure carries the text of the first that is not."""
        waiting = [actor.report.remote() for actor in self._engines]
        waiting += [actor.ready.remote() for actor in self._workers]
        _get(waiting, self.settings.start_seconds, "start")

    def publish(self, version: int, num_chunks: int, make_chunk: MakeChunk) -> PublishReport:
        """Load one version everywhere, chunk by chunk; EngineFailure names a refused shard, a dead or a slow engine.

        make_chunk(number, full, seconds): references to every trainer rank's shard of a chunk, without patches where
        `full`.  The next chunk is made while one is loaded.  A failed publish leaves engines on version -1, which
        nothing is sampled from, or on what they served; the next one works.
        """
        deadline = time.monotonic() + self.settings.publish_seconds
        try:
            self._ask("begin_publish", version, num_chunks, seconds=deadline - time.monotonic())
            found = PublishReport()
            shards = make_chunk(0, False, deadline - time.monotonic())
            for number in range(num_chunks):
                loading = [actor.take_chunk.remote(*shards) for actor in self._engines]
                if number + 1 < num_chunks:
                    shards = make_chunk(number + 1, False, deadline - time.monotonic())
                doing = f"load chunk {number} of {num_chunks} of version {version}"
                reports = _get(loading, deadline - time.monotonic(), doing)
                found.add(self._refresh(found, number, reports, make_chunk, doing, deadline))
            reports = self._ask("commit_publish", seconds=deadline - time.monotonic(), doing=f"serve version {version}")
        except Exception:
            for actor in self._engines:
                actor.abort_publish.remote()  # nobody waits for an engine that may hang or be dead
            raise
        self._check_reports(reports, version)
        found.engine = reports[0]
        return found

    def publish_directly(self, version: int, send: Send) -> PublishReport:
        """Load one version everywhere by vLLM's own transfer; see `publish` for what is raised.

        send(engines, seconds): has the trainers send; the digest of every tensor, and the checksum of the version.
        """
        deadline = time.monotonic() + self.settings.publish_seconds
        try:
            self._ask("begin_publish", version, 0, seconds=deadline - time.monotonic())
            digests, checksum = send(self._engines, deadline - time.monotonic())
            doing = f"serve version {version}"
            seconds = deadline - time.monotonic()
            reports = self._ask("commit_publish", digests, checksum, seconds=seconds, doing=doing)
        except Exception:
            for actor in self._engines:
                actor.abort_publish.remote()
            raise
        self._check_reports(reports, version)
        return PublishReport(engine=reports[0])

    def _refresh(
        self,
        found: PublishReport,
        number: int,
        reports: list[ChunkReport],
        make_chunk: MakeChunk,
        doing: str,
        deadline: float,
    ) -> list[ChunkReport]:
        """Send a chunk in full to the engines that could not use its patches."""
        stale = [actor for actor, report in zip(self._engines, reports, strict=True) if not report.is_loaded]
        if not stale:
            return reports
        found.refreshed += 1
        shards = make_chunk(number, True, deadline - time.monotonic())
        again = _get([actor.take_chunk.remote(*shards) for actor in stale], deadline - time.monotonic(), doing)
        if not all(report.is_loaded for report in again):
            raise EngineFailure(f"could not {doing}: an engine refused it in full")
        return [*(report for report in reports if report.is_loaded), *again]

    def _ask(self, method: str, *arguments: Any, seconds: float, doing: str = "begin a publish") -> list[Any]:
        return _get([getattr(actor, method).remote(*arguments) for actor in self._engines], seconds, doing)

    def digests(self) -> dict[str, str]:
        """Name -> digest of every tensor that the engines serve (they were checked to agree)."""
        found: dict[str, str] = _get(
            [self._engines[0].digests.remote()], self.settings.publish_seconds, "read digests"
        )[0]
        return found

    def check_version(self, version: int) -> EngineReport:
        """Ask every engine what it serves; EngineFailure where that is not `version` with one checksum for all."""
        reports = _get([actor.report.remote() for actor in self._engines], self.settings.publish_seconds, "report")
        self._check_reports(reports, version)
        report: EngineReport = reports[0]
        return report

    def make_tasks(self, requests: Sequence[tuple[str, Split, int, int]]) -> list[tuple[list[Task], int]]:
        """For each (domain, split, start index, count): that many tasks, and the next index.  Spread over workers."""
        num_workers = len(self._workers)
        shares = [requests[number::num_workers] for number in range(num_workers)]
        made = ray.get([worker.make_tasks.remote(own) for worker, own in zip(self._workers, shares, strict=True)])
        # Request n went to worker n modulo their number.
        return [made[number % num_workers][number // num_workers] for number in range(len(requests))]

    def run(
        self,
        groups: Sequence[tuple[int, Task, str]],
        *,
        num_samples: int,
        temperature: float,
        seed: int,
        keep: bool = True,
    ) -> list[GroupResult]:
        """Roll out (ticket, task, tier) groups, all at once; results in the order given."""
        assignments = [
            Assignment(
                ticket=ticket,
                task=task,
                tier=tier,
                num_samples=num_samples,
                first_episode=self._take_episodes(num_samples),
                engine=position % len(self._engines),
                temperature=temperature,
                seed=seed,
            )
            for position, (ticket, task, tier) in enumerate(groups)
        ]
        self._open(assignments)
        shares = [assignments[number :: len(self._workers)] for number in range(len(self._workers))]
        references = [
            worker.run.remote(share, keep) for worker, share in zip(self._workers, shares, strict=True) if share
        ]
        finished = [result for results in _get(references, None, "roll out") for result in results]
        by_ticket = {result.summary.ticket: result for result in finished}
        return [by_ticket[ticket] for ticket, _, _ in groups]

    def demonstrate(self, groups: Sequence[tuple[int, Task, str]]) -> Callable[[], list[GroupResult]]:
        """Start making demonstrations of (ticket, task, tier); call the result to wait for them, in the order given."""
        shares = [groups[number :: len(self._workers)] for number in range(len(self._workers))]
        references = [
            worker.demonstrate.remote(share) for worker, share in zip(self._workers, shares, strict=True) if share
        ]

        def wait() -> list[GroupResult]:
            finished = [result for results in _get(references, None, "demonstrate") for result in results]
            by_ticket = {result.summary.ticket: result for result in finished}
            return [by_ticket[ticket] for ticket, _, _ in groups]

        return wait

    def held_out_tasks(self, domains: Sequence[str], count: int, seconds: float) -> dict[str, list[Task]]:
        """For each domain up to `count` distinct held-out tasks, or as many as are made in `seconds`."""
        workers = itertools.cycle(self._workers)
        references = [next(workers).held_out_tasks.remote(domain, count, seconds) for domain in domains]
        return dict(zip(domains, ray.get(references), strict=True))

    def tasks_by_id(self, ids: Mapping[str, Sequence[str]]) -> dict[str, list[Task]]:
        """Tasks made again from their ids, by domain."""
        workers = itertools.cycle(self._workers)
        references = [next(workers).tasks_by_id.remote(domain, list(own)) for domain, own in ids.items()]
        return dict(zip(ids, ray.get(references), strict=True))

    def complete(self, tasks: Sequence[tuple[Task, str]], build: Callable[[int, list[int]], TurnRequest]) -> Any:
        """Sample first turns on the first engine, all together: (requests, completions), in order."""
        prompts = ray.get(self._workers[0].prompts.remote(list(tasks)))
        requests = [build(number, prompt) for number, prompt in enumerate(prompts)]
        return requests, _get([self._engines[0].complete.remote(requests)], None, "sample the canary")[0]

    def store(self, path: str, results: Sequence[GroupResult]) -> None:
        """Have a worker write these groups to a parquet file, meanwhile; raises if the write before this one failed."""
        self.finish_storing()
        self._storing = [self._workers[0].store.remote(path, [result.place for result in results])]

    def finish_storing(self) -> None:
        """Wait for the last `store` and raise its error, if any."""
        storing, self._storing = self._storing, []
        ray.get(storing)

    def load(self, path: str) -> list[GroupResult]:
        """Groups from a parquet file, into the object store."""
        results: list[GroupResult] = ray.get(self._workers[0].load.remote(path))
        return results

    def stop(self) -> None:
        for actor in (*self._engines, *self._workers):
            ray.kill(actor)

    def _take_episodes(self, count: int) -> int:
        first = next(self._episodes)
        for _ in range(count - 1):
            next(self._episodes)
        return first

    def _open(self, assignments: Sequence[Assignment]) -> None:
        """Fresh prefix caches (a run must not depend on what was asked before), and episodes announced."""
        waiting = [actor.reset_prefix_cache.remote() for actor in self._engines]
        for number, actor in enumerate(self._engines):
            episodes = [
                item.first_episode + sample
                for item in assignments
                if item.engine == number
                for sample in range(item.num_samples)
            ]
            waiting.append(actor.open.remote(episodes))
        _get(waiting, self.settings.publish_seconds, "open episodes")

    def _check_reports(self, reports: Sequence[EngineReport], version: int) -> None:
        wrong = [report.version for report in reports if report.version != version]
        if wrong:
            raise EngineFailure(
                f"{len(wrong)} of {len(reports)} engines serve version {wrong[0]}, the trainer is at {version}: "
                "a publish was skipped or failed; nothing was trained on their tokens"
            )
        for kind in ("checksum", "kernel_checksum"):
            checksums = {getattr(report, kind) for report in reports}
            if len(checksums) > 1:
                raise EngineFailure(f"engines at version {version} differ in their {kind}: {sorted(checksums)}")

    def _make_engine(self, number: int, receiver: Callable[[], Receiver]) -> Any:
        settings = self.settings
        options = {
            "num_cpus": settings.engine_cpus,
            "num_gpus": settings.engine_gpus,
            "max_concurrency": 2 * settings.num_workers + 4,
            "runtime_env": {"env_vars": settings.engine_environment},
            "resources": dict(settings.engine_nodes[number]) if settings.engine_nodes else {},
        }
        return ray.remote(EngineActor).options(**options).remote(settings.engine, settings.deterministic, receiver)

    def _make_worker(self, number: int) -> Any:
        settings = self.settings
        options = {
            "num_cpus": settings.worker_cpus,
            "runtime_env": {"env_vars": settings.worker_environment},
            "resources": dict(settings.worker_nodes[number]) if settings.worker_nodes else {},
        }
        return ray.remote(WorkerActor).options(**options).remote(settings.worker, f"worker-{number}", self._engines)


def _get(references: Sequence[Any], timeout: float | None, doing: str) -> list[Any]:
    try:
        return list(ray.get(list(references), timeout=timeout))
    except ray.exceptions.GetTimeoutError as error:
        raise EngineFailure(f"could not {doing} within {timeout} s (engine hung, or the limit is too short)") from error
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ray.exceptions.RayActorError):  # for instance a trainer rank, before it was asked
            raise EngineFailure(f"could not {doing}: a process whose result this needs died: {error.cause}") from error
        if not isinstance(error.cause, EngineFailure | RuntimeError | ValueError):
            raise
        raise EngineFailure(f"could not {doing}: {error.cause}") from error
    except ray.exceptions.RayActorError as error:
        raise EngineFailure(f"could not {doing}: {error}") from error
