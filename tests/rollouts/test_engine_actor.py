"""The receiving end of a publish: its order, what is refused, and what an error leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollouts import engine_actor
from rollouts.engine import EngineFailure
from rollouts.engine_actor import EngineActor, Prepared, StaleBase


class Recorder:
    """A driver and a receiver in one: writes down what is called, and fails where `fails` says."""

    def __init__(self, folder: Path):
        self.calls: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.folder, self.version, self.checksum, self.num_running = folder, 0, "", 0

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.fails:
            raise self.fails[call]

    # the driver
    def begin_update(self) -> None:
        self.version = -1
        self.note("begin")

    def load_chunk(self, path: str, num_tensors: int) -> None:
        assert Path(path).exists()
        self.note(f"load {num_tensors}")

    def connect(self, payload: Any) -> None:
        self.note(f"connect {payload}")

    def update(self, payload: Any) -> None:
        self.note(f"update {payload}")

    def commit_update(self, version: int, checksum: str) -> None:
        self.note("commit")
        self.note("reset")  # the real one resets its prefix cache in here
        self.version, self.checksum = version, checksum

    def abort_update(self) -> None:
        self.note("abort")

    def kernel_checksum(self) -> str:
        return "kernel"

    # the receiver
    def begin(self, version: int, num_chunks: int) -> None:
        self.note(f"await {version} in {num_chunks}")

    def take(self, shards: Sequence[Any]) -> Prepared:
        self.note(f"take {shards[0]}")
        path = self.folder / f"{shards[0]}.safetensors"
        path.touch()
        return Prepared(path=str(path), num_tensors=shards[0], num_bytes=3, full_bytes=7)

    def finish(self) -> tuple[str, dict[str, str]]:
        self.note("finish")
        return "sum", {"w": "digest"}


Made = tuple[EngineActor, Recorder]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    recorder = Recorder(tmp_path)
    monkeypatch.setattr(engine_actor, "VllmDriver", lambda settings: recorder)
    receiver: Callable[[], Any] = lambda: recorder  # noqa: E731
    actor = EngineActor(None, True, receiver)  # type: ignore[arg-type]
    pause, resume = actor._server.pause, actor._server.resume

    def noted(call: str, function: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            function()
            recorder.note(call)

        return run

    monkeypatch.setattr(actor._server, "pause", noted("pause", pause))
    monkeypatch.setattr(actor._server, "resume", noted("resume", resume))
    yield actor, recorder
    actor.stop()


def test_the_order_of_a_publish(made: Made) -> None:
    """Paused before anything changes; resumed after the prefix cache forgot the old weights."""
    actor, recorder = made
    actor.begin_publish(7, 2)
    assert actor._server.is_paused
    for chunk in (1, 2):
        report = actor.take_chunk(chunk)
        assert (report.is_loaded, report.num_bytes, report.full_bytes) == (True, 3, 7)
    found = actor.commit_publish()
    assert (found.version, found.checksum, found.kernel_checksum) == (7, "sum", "kernel")
    assert actor.digests() == {"w": "digest"} and not actor._server.is_paused
    assert recorder.calls == [
        "pause",
        "await 7 in 2",
        *("take 1", "begin", "load 1"),
        *("take 2", "load 2"),
        *("finish", "commit", "reset", "abort", "resume"),
    ]
    assert list(recorder.folder.iterdir()) == []


def test_out_of_order_is_an_error(made: Made) -> None:
    actor, _ = made
    with pytest.raises(EngineFailure, match="a chunk of weights came, but no publish was begun"):
        actor.take_chunk(1)
    with pytest.raises(EngineFailure, match="weights were committed, but no publish was begun"):
        actor.commit_publish()
    with pytest.raises(EngineFailure, match="nothing was published"):
        actor.digests()


def test_a_chunk_that_is_refused_first_leaves_what_is_served(made: Made) -> None:
    actor, recorder = made
    recorder.fails["take 1"] = ValueError("bad bytes")
    actor.begin_publish(7, 1)
    with pytest.raises(ValueError, match="bad bytes"):
        actor.take_chunk(1)
    assert recorder.calls[-1] == "resume" and "begin" not in recorder.calls
    assert actor.report().version == 0 and not actor._server.is_paused


@pytest.mark.parametrize("fails", ["load 2", "take 2", "finish", "commit", "begin"])
def test_after_an_error_the_engine_serves_nothing_until_the_next_publish(made: Made, fails: str) -> None:
    actor, recorder = made
    recorder.fails[fails] = RuntimeError("broken")
    actor.begin_publish(7, 2)
    with pytest.raises(RuntimeError, match="broken"):
        for chunk in (1, 2):
            actor.take_chunk(chunk)
        actor.commit_publish()
    assert actor.report().version == -1 and recorder.calls[-1] == "resume"
    assert list(recorder.folder.iterdir()) == []
    recorder.fails.clear()
    actor.begin_publish(8, 1)
    actor.take_chunk(1)
    assert actor.commit_publish().version == 8


def test_patches_of_another_base_are_asked_for_in_full(made: Made) -> None:
    actor, recorder = made
    recorder.fails["take 1"] = StaleBase("w")
    actor.begin_publish(7, 1)
    assert not actor.take_chunk(1).is_loaded
    recorder.fails.clear()
    assert actor.take_chunk(1).is_loaded
    assert actor.commit_publish().version == 7


def test_a_publish_that_was_given_up_is_aborted_by_the_next(made: Made) -> None:
    actor, recorder = made
    actor.begin_publish(7, 2)
    actor.take_chunk(1)
    actor.begin_publish(8, 1)
    assert recorder.calls[-4:] == ["abort", "resume", "pause", "await 8 in 1"]
    actor.abort_publish()
    actor.abort_publish()
    assert recorder.calls[-1] == "resume" and recorder.calls.count("resume") == 2


def test_nothing_is_admitted_while_paused(made: Made) -> None:
    from rollouts.engine import SamplingParams, TurnRequest

    actor, recorder = made
    admitted: list[int] = []
    recorder.add = lambda request: admitted.append(request.episode)  # type: ignore[attr-defined]
    recorder.step = lambda: []  # type: ignore[attr-defined]
    actor.begin_publish(7, 1)
    sampling = SamplingParams(temperature=1.0, max_tokens=4, seed=0, stop_ids=(2,))
    actor.submit("w", [TurnRequest(episode=3, turn=0, prompt_ids=(1,), sampling=sampling)], [])
    actor.take_chunk(1)
    assert admitted == []
    actor.commit_publish()
    actor.report()  # a job: done at a step boundary, after the admission before it
    for _ in range(100):
        if admitted:
            break
        actor.report()
    assert admitted == [3]


def test_a_transfer_keeps_the_order_and_brings_its_own_digests(made: Made) -> None:
    actor, recorder = made
    actor.transfer("connect", "here")
    with pytest.raises(EngineFailure, match=r"a transfer of weights came \(update\), but no publish was begun"):
        actor.transfer("update", 1)
    actor.begin_publish(7, 0)
    actor.transfer("start", None)
    for number in (1, 2):
        actor.transfer("update", number)
    report = actor.commit_publish({"w": "digest"}, "sum of the trainer")
    assert (report.version, report.checksum, actor.digests()) == (7, "sum of the trainer", {"w": "digest"})
    assert recorder.calls == [
        *("connect here", "pause", "await 7 in 0", "begin", "update 1", "update 2"),
        *("commit", "reset", "abort", "resume"),
    ]


def test_a_transfer_that_fails_leaves_nothing_served(made: Made) -> None:
    actor, recorder = made
    recorder.fails["update 2"] = RuntimeError("broken")
    actor.begin_publish(7, 0)
    actor.transfer("start", None)
    actor.transfer("update", 1)
    with pytest.raises(RuntimeError, match="broken"):
        actor.transfer("update", 2)
    assert actor.report().version == -1 and recorder.calls[-2:] == ["abort", "resume"]
