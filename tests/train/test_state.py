"""State on disk: bit-exact, complete or absent, and every damage named."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from train.weights import state
from train.weights.state import (
    RunLock,
    StorageFailure,
    find_resume,
    latest_complete,
    prune,
    read_state,
    step_name,
    step_of,
    verify_state,
    write_json_atomic,
    write_state,
)


def example_tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    master = torch.randn(17, 32, generator=generator)
    return {
        "master": master,
        "transposed": master.T,
        "tied": master,
        "bf16": master.to(torch.bfloat16),
        "codes": torch.randint(0, 256, (5, 16), generator=generator, dtype=torch.uint8),
        "step": torch.tensor(2**53 + 1, dtype=torch.int64),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0, 1e-45]),
        "empty": torch.empty(0, 4),
        "also empty": torch.empty(0, 4),
    }


DOCUMENTS: dict[str, Any] = {"mixture": {"counts": {"math.sum": 3}, "rng": [1, 2, 2**63]}, "loop": {"lr": 0.1 + 0.2}}


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    directory = tmp_path / "checkpoints" / step_name(15)
    write_state(directory, example_tensors(), DOCUMENTS)
    return directory


def test_everything_comes_back_to_the_bit(saved: Path) -> None:
    tensors, documents = read_state(saved)
    expected = example_tensors()
    assert documents == DOCUMENTS
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (tensors[name].dtype, tensors[name].shape) == (tensor.dtype, tensor.shape), name
        assert bits(tensors[name]) == bits(tensor), name
    assert [path.name for path in saved.parent.iterdir()] == ["step-000015"], "no leftovers"


def test_a_state_without_tensors_or_documents(tmp_path: Path) -> None:
    write_state(tmp_path / "a", {}, DOCUMENTS)
    assert read_state(tmp_path / "a") == ({}, DOCUMENTS)
    write_state(tmp_path / "b", {"x": torch.ones(2)}, {})
    assert read_state(tmp_path / "b")[1] == {}


@pytest.mark.parametrize("name", ["tensors.safetensors", "mixture.json", "loop.json", "manifest.json"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_named(saved: Path, name: str, share: float) -> None:
    path = saved / name
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(StorageFailure, match=name):
        read_state(saved)


@pytest.mark.parametrize("name", ["tensors.safetensors", "mixture.json", "loop.json", "manifest.json"])
def test_a_flipped_bit_is_found_anywhere(saved: Path, name: str) -> None:
    path = saved / name
    content = path.read_bytes()
    rng = random.Random(name)
    for position in [0, len(content) - 1, *(rng.randrange(len(content)) for _ in range(100))]:
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(StorageFailure, match=str(saved)):
            read_state(saved)
    path.write_bytes(content)
    verify_state(saved)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "mixture.json").unlink(), r"mixture\.json is missing"),
        (lambda d: (d / "tensors.safetensors").unlink(), r"tensors\.safetensors is missing"),
        (lambda d: (d / "manifest.json").unlink(), r"manifest\.json is missing"),
        (lambda d: (d / "pytorch_model.bin").write_bytes(b"\x80"), r"pytorch_model\.bin is foreign"),
        (lambda d: (d / "manifest.json").write_text('{"metadata": {}}'), "foreign: it does not say format"),
        (lambda d: (d / "manifest.json").write_text("[]"), "foreign"),
        (lambda d: (d / "mixture.json").write_text("x" * 10_000), "longer than written"),
        (shutil.rmtree, "does not exist"),
    ],
)
def test_other_damage_is_named(saved: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(saved)
    with pytest.raises(StorageFailure, match=message):
        read_state(saved)


def test_another_version_is_refused_by_its_number(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "VERSION", 2)
    write_state(saved, {}, {})
    monkeypatch.undo()
    with pytest.raises(StorageFailure, match=r"unknown version 2: this code reads 1"):
        read_state(saved)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rng": (1, 2)}, "lists for tuples"),
        ({1: "a"}, "strings for keys"),
        ({"loss": float("nan")}, "strict JSON"),
        ({"x": torch.ones(1)}, "strict JSON"),
    ],
)
def test_documents_that_would_come_back_changed_are_refused(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_state(tmp_path / "s", {}, {"doc": value})
    assert list(tmp_path.iterdir()) == []


def test_a_document_cannot_leave_the_directory(tmp_path: Path) -> None:
    for name in ["../x", "a/b", "", ".hidden", "manifest"]:
        with pytest.raises(ValueError, match="document"):
            write_state(tmp_path / "s", {}, {name: {}})


# --- being killed -------------------------------------------------------------------------------------------------


def in_a_killed_child(work: Callable[[], None], kill_at: int) -> bool:
    """Run `work` in a forked child that kills itself at its n-th call of fsync or rename; say whether it was killed."""
    child = os.fork()
    if child == 0:
        calls = 0

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments)

            return call

        os.fsync = counted(os.fsync)
        Path.rename = counted(Path.rename)  # type: ignore[method-assign]
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_a_kill_at_any_point_leaves_the_checkpoint_complete_or_absent(tmp_path: Path) -> None:
    first, second = tmp_path / step_name(1), tmp_path / step_name(2)
    write_state(first, {"x": torch.ones(4)}, {"loop": {"step": 1}})
    kill_at = 1
    while in_a_killed_child(lambda: write_state(second, {"x": torch.zeros(4)}, {"loop": {"step": 2}}), kill_at):
        latest = latest_complete(tmp_path)
        assert latest.passed_over == [], f"killed at call {kill_at}"
        assert latest.path in (first, second)
        if second.exists():
            shutil.rmtree(second)
        kill_at += 1
    assert kill_at > 6, "the child was never killed: the test does not hold"
    assert latest_complete(tmp_path).path == second
    assert prune(tmp_path, keep=1) == [first]
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002"]


def test_a_kill_during_a_large_save_leaves_the_previous_one(tmp_path: Path) -> None:
    write_state(tmp_path / step_name(1), {"x": torch.ones(4)}, {})
    large = torch.zeros(64 * 2**20)
    child = os.fork()
    if child == 0:
        write_state(tmp_path / step_name(2), {"x": large}, {})
        os._exit(0)
    deadline = time.monotonic() + 30
    while not (tmp_path / ".step-000002.new.unfinished" / "tensors.safetensors").exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert latest_complete(tmp_path) == (tmp_path / step_name(1), [])
    write_state(tmp_path / step_name(2), {"x": torch.ones(1)}, {})
    assert find_resume(tmp_path).path == tmp_path / step_name(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000001", "step-000002"]


# --- choosing and pruning -----------------------------------------------------------------------------------------


def write_steps(root: Path, *steps: int) -> None:
    for step in steps:
        write_state(root / step_name(step), {"x": torch.tensor(step)}, {})


def test_the_newest_complete_one_is_taken_by_number_and_the_others_are_named(tmp_path: Path) -> None:
    write_steps(tmp_path, 5, 999_999, 1_000_000)
    assert latest_complete(tmp_path) == (tmp_path / "step-1000000", [])
    (tmp_path / "step-1000000" / "manifest.json").unlink()
    with (tmp_path / "step-999999" / "tensors.safetensors").open("r+b") as file:
        file.truncate(8)
    (tmp_path / "notes").mkdir()
    latest = latest_complete(tmp_path)
    assert latest.path == tmp_path / "step-000005"
    assert [(path.name, "missing" in why, "truncated" in why) for path, why in latest.passed_over] == [
        ("step-1000000", True, False),
        ("step-999999", False, True),
    ]


def test_resuming_from_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    """F91: a resume path that does not exist fails; it never starts afresh."""
    for path in [tmp_path / "nowhere", tmp_path / step_name(3), tmp_path]:
        with pytest.raises(StorageFailure, match=str(path)):
            find_resume(path)
    write_steps(tmp_path, 3)
    assert find_resume(tmp_path / step_name(3)) == find_resume(tmp_path) == (tmp_path / step_name(3), [])


def test_resuming_lists_why_no_checkpoint_would_do(tmp_path: Path) -> None:
    write_steps(tmp_path, 3)
    (tmp_path / step_name(3) / "manifest.json").unlink()
    with pytest.raises(StorageFailure, match=r"no complete checkpoint(.|\n)*step-000003: .*manifest\.json is missing"):
        find_resume(tmp_path)


def test_pruning_counts_complete_checkpoints_only(tmp_path: Path) -> None:
    write_steps(tmp_path, 1, 2, 3, 4)
    (tmp_path / step_name(4) / "manifest.json").unlink()
    assert prune(tmp_path, keep=2) == [tmp_path / step_name(1)]
    assert prune(tmp_path, keep=2) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000002", "step-000003", "step-000004"]
    with pytest.raises(ValueError, match="keep=0"):
        prune(tmp_path, keep=0)


def test_step_names() -> None:
    assert step_name(15) == "step-000015"
    assert step_of(Path("runs/a/step-000015")) == 15
    assert step_of(Path(step_name(12_345_678))) == 12_345_678
    with pytest.raises(ValueError, match="step-000015"):
        step_of(Path("latest"))


def test_json_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    write_json_atomic(path, {"step": 1})
    with pytest.raises(ValueError, match="strict JSON"):
        write_json_atomic(path, {"step": float("inf")})
    assert json.loads(path.read_text()) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


# --- the run lock -------------------------------------------------------------------------------------------------


def test_a_run_directory_is_held_by_one(tmp_path: Path) -> None:
    with RunLock(tmp_path), pytest.raises(StorageFailure, match=rf"in use by pid {os.getpid()}, host \S+"):
        RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with RunLock(tmp_path):
            os.write(writer, b"held")
            signal.pause()
    assert os.read(reader, 4) == b"held"
    with pytest.raises(StorageFailure, match=f"pid {child}"), RunLock(tmp_path):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with RunLock(tmp_path):
        assert f"pid {os.getpid()}" in (tmp_path / "lock").read_text()
