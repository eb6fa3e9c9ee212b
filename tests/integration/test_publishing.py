"""A publish between processes: hang, death and error of either side end in a named error, in time.

Real Ray, the pool's and the trainer group's own code; engines and trainers are small actors that fail on demand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.engine import EngineFailure
from rollouts.pool import PoolSettings, RolloutPool
from tests.integration.publish_actors import Engine, Trainer
from tests.integration.tiny import tiny_config
from train import launch
from train.policy.workers import TrainerFailure, TrainerGroup
from train.weights.publish import version_checksum

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]

SECONDS = 3.0


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    config = tiny_config("cluster.engine.cpus=0.1", "cluster.worker.cpus=0.1")
    with launch.started_ray(config, Path(tmp_path_factory.mktemp("logs"))):
        yield


SETTINGS = PoolSettings(
    engine=None,  # type: ignore[arg-type]
    worker=None,  # type: ignore[arg-type]
    format="mxfp4",
    num_engines=0,
    num_workers=0,
    deterministic=True,
    engine_cpus=0.1,
    engine_gpus=0,
    worker_cpus=0.1,
    engine_environment={},
    worker_environment={},
    start_seconds=60,
    publish_seconds=SECONDS,
)
Parts = tuple[RolloutPool, TrainerGroup, list[Any]]


@pytest.fixture(scope="module")
def alive(ray_cluster: None) -> dict[str, list[Any]]:
    """Actors that outlive a test: starting one takes seconds."""
    return {"engines": [], "trainers": []}


@pytest.fixture
def parts(alive: dict[str, list[Any]]) -> Iterator[Callable[..., Parts]]:
    """A pool of two engines and a group of two trainers; the second of each has the faults."""
    import ray

    broken: list[tuple[str, Any]] = []

    def make(engine: dict[str, str] | None = None, trainer: dict[str, str] | None = None, stale: Any = ()) -> Parts:
        options = {"num_cpus": 0.1, "max_concurrency": 4}
        while len(alive["engines"]) < 2:
            alive["engines"].append(ray.remote(Engine).options(**options).remote({}, []))
        while len(alive["trainers"]) < 2:
            rank = int(len(alive["trainers"]) == 1)
            alive["trainers"].append(ray.remote(Trainer).options(num_cpus=0.1).remote({}, rank, 2))
        engines, trainers = alive["engines"], alive["trainers"]
        ray.get([engines[0].fresh.remote({}, []), engines[1].fresh.remote(engine or {}, list(stale))])
        ray.get([trainers[0].fresh.remote({}), trainers[1].fresh.remote(trainer or {})])
        broken.extend([("engines", engines[1])] if engine else [])
        broken.extend([("trainers", trainers[1])] if trainer else [])
        pool = RolloutPool(SETTINGS, lambda: None)  # type: ignore[arg-type, return-value]
        pool._engines = list(engines)
        group = TrainerGroup(None, 0, {})  # type: ignore[arg-type]
        group._actors, group.num_ranks = list(trainers), 2
        group.wait_until_ready(60)
        return pool, group, engines

    yield make
    for kind, actor in broken:
        alive[kind].remove(actor)
        ray.kill(actor)


def publish(pool: RolloutPool, group: TrainerGroup) -> Any:
    return pool.publish(7, *group.publisher(7, "mxfp4", 0, delta=True))


def test_every_engine_gets_every_rank_of_every_chunk_in_order(parts: Callable[..., Parts]) -> None:
    import ray

    pool, group, engines = parts(stale=[1])
    report = publish(pool, group)
    assert (report.num_bytes, report.full_bytes, report.refreshed) == (30, 300, 1)
    one, other = ray.get([actor.seen.remote() for actor in engines])
    wanted = [f"{chunk} of 3 rank {rank}" for chunk in range(3) for rank in range(2)]
    assert one == wanted
    assert other == [text + " full" if text.startswith("1") else text for text in wanted]


@pytest.mark.parametrize("method", ["begin", "chunk", "commit"])
@pytest.mark.parametrize(
    ("kind", "says"),
    [("hang", r"within .* s \(engine hung"), ("death", "died|actor"), ("error", "broken on purpose")],
)
def test_an_engine_that_fails_is_named_in_time(parts: Callable[..., Parts], method: str, kind: str, says: str) -> None:
    doing = {"begin": "begin a publish", "chunk": "load chunk 0 of 3 of version 7", "commit": "serve version 7"}
    pool, group, _ = parts(engine={method: kind})
    began = time.monotonic()
    with pytest.raises(EngineFailure, match=f"could not {doing[method]}.*({says})"):
        publish(pool, group)
    assert time.monotonic() - began < SECONDS + 10


@pytest.mark.parametrize(
    ("kind", "says"), [("hang", "did not answer within"), ("death", "died|actor"), ("error", "broken on purpose")]
)
def test_a_trainer_that_fails_is_named_in_time(parts: Callable[..., Parts], kind: str, says: str) -> None:
    import ray

    pool, group, engines = parts(trainer={"1": kind})
    began = time.monotonic()
    with pytest.raises(TrainerFailure, match=says):
        publish(pool, group)
    assert time.monotonic() - began < SECONDS + 10
    deadline = time.monotonic() + 10  # nobody waits for an abort
    while not all("abort" in seen for seen in ray.get([actor.seen.remote() for actor in engines])):
        assert time.monotonic() < deadline, "the engines were not told that the publish is over"
        time.sleep(0.05)


def test_engines_that_differ_are_named(parts: Callable[..., Parts]) -> None:
    pool, group, _ = parts(engine={"kernel": "other"})
    with pytest.raises(
        EngineFailure, match=r"engines at version 7 differ in their kernel_checksum: \['other', 'same'\]"
    ):
        publish(pool, group)


def test_a_transfer_goes_from_all_trainers_to_all_engines(parts: Callable[..., Parts]) -> None:
    import ray

    pool, group, engines = parts()
    report = pool.publish_directly(7, group.sender(7, "mxfp4", "nccl", [2, 2]))
    assert report.engine is not None and report.engine.checksum == version_checksum({"w": "digest"})
    for seen in ray.get([actor.seen.remote() for actor in engines]):
        assert seen == ["update mxfp4 nccl [2, 2]", "commit ['w']"]


@pytest.mark.parametrize("kind", ["hang", "error"])
@pytest.mark.parametrize("side", ["engine", "trainer"])
def test_a_transfer_that_fails_is_named_in_time(parts: Callable[..., Parts], side: str, kind: str) -> None:
    faults = {"engine": {"engine": {"transfer": kind}}, "trainer": {"trainer": {"send": kind}}}[side]
    pool, group, _ = parts(**faults)
    began = time.monotonic()
    with pytest.raises(TrainerFailure, match=r"did not answer within|broken on purpose"):
        pool.publish_directly(7, group.sender(7, "mxfp4", "ipc", [1, 1]))
    assert time.monotonic() - began < SECONDS + 10
