"""`python -m train.gpucheck`: what it says on a CPU, and of checks that fail, hang or crash."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from train import gpucheck
from train.compose import compose_run
from train.gpucheck import CHECKS, RESULT, Outcome, Skip, main, run_command


@pytest.mark.parametrize("name", ["losses", "packing", "replay"])
def test_a_check_that_needs_no_gpu_passes_here(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"only={name}", "device=cpu"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(RESULT)]
    found = json.loads(line.removeprefix(RESULT))
    assert found["kind"] == "PASS" and "cpu" in found["detail"].lower() + "cpu"


@pytest.mark.parametrize("name", ["device", "toy"])
def test_what_needs_a_gpu_is_skipped_with_the_reason(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"only={name}", "device=cpu"]) == 0
    assert '"kind": "SKIP"' in capsys.readouterr().out


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_hang_is_ended_with_what_it_started() -> None:
    began = time.monotonic()
    code = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
    assert run_command(child(code), 1.0) == Outcome("FAIL", "did not end within 1 s")
    assert time.monotonic() - began < 20


def test_a_crash_is_named() -> None:
    code = "import os, signal; print('so far so good', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
    assert run_command(child(code), 30) == Outcome("FAIL", "ended by signal SIGSEGV: so far so good")
    assert run_command(child("raise SystemExit(3)"), 30) == Outcome("FAIL", "ended by code 3: without a word")


def test_what_a_child_reports_is_taken_over() -> None:
    code = f'print(\'noise\'); print(\'{RESULT}\' + \'{{"kind": "SKIP", "detail": "why"}}\')'
    assert run_command(child(code), 30) == Outcome("SKIP", "why")


def test_a_failing_check_fails_the_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(device: str) -> str:
        assert device == "cuda", "bytes differ"
        return ""

    def skipped(device: str) -> str:
        raise Skip("no such thing here")

    checks = {"good": (lambda device: "fine", 1.0), "broken": (broken, 1.0), "skipped": (skipped, 1.0)}
    monkeypatch.setattr(gpucheck, "CHECKS", checks)
    monkeypatch.setattr(gpucheck, "run_check", lambda name, device, limit: gpucheck.here(name, device))
    assert main(["device=cpu", f"out={tmp_path / 'found.json'}"]) == 1
    said = capsys.readouterr().out
    assert "1 PASS, 1 FAIL, 1 SKIP" in said and "AssertionError: bytes differ" in said
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["device"] == "cpu" and document["checks"]["skipped"] == {
        "kind": "SKIP",
        "detail": "no such thing here",
    }
    del checks["broken"]
    assert main(["device=cpu"]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["only=toys"], "is not one of device, quantiser"),
        (["device=tpu"], "is not one of auto, cpu, cuda"),
        (["devise=cpu"], "did you mean 'device'"),
        (["device=cuda"], "torch sees no CUDA device"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_the_limits_are_under_eight_minutes_and_the_toy_is_a_config() -> None:
    assert sum(limit for _, limit in CHECKS.values()) < 8 * 60
    config = compose_run(gpucheck.TOY).config
    assert config.cluster.engine.publish_through == "ipc" and config.cluster.trainer.device == "cuda"
    assert config.cluster.engine.gpus + config.cluster.trainer.gpus <= 1
