"""The doctor's verdicts, from made-up machines."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from train import doctor
from train.doctor import LIBRARIES, Probes, blockers, judge, table

VERSIONS = {
    "torch": "2.13.0+cpu",
    "vllm": "0.32.0",
    "deepspeed": "0.19.8",
    "ray": "2.60.0",
    "transformers": "5.19.0",
    "compressed-tensors": "0.17.0",
    "hydra": "1.3.8",
}
PERFECT = Probes(
    python="3.11.7",
    versions={**VERSIONS, "torch": "2.13.0+cu130"},
    pins={**{name: (version,) for name, version in VERSIONS.items()}, "torch": ("2.13.0+cpu", "2.13.0")},
    programs={name: f"/usr/bin/{name}" for name in doctor.PROGRAMS},
    flags=frozenset({"avx2", "avx512f", "amx_tile"}),
    cores=2,
    memory_gib=20.0,
    disk_gib=50.0,
    shared_memory_gib=10.0,
    python_header=True,
    gpus=("NVIDIA H200",),
)


def without(*programs: str) -> dict[str, str | None]:
    return {name: None if name in programs else path for name, path in PERFECT.programs.items()}


def test_a_perfect_machine_lacks_nothing() -> None:
    rows = judge(PERFECT)
    assert [row for row in rows if row.verdict != "ok"] == []
    assert [row.name for row in rows][1:8] == list(LIBRARIES)


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "says"),
    [
        ({"python": "3.12.1"}, "python", "blocking", "3.11"),
        ({"versions": {**VERSIONS, "vllm": None}}, "vllm", "blocking", "make setup"),
        ({"versions": {**VERSIONS, "ray": "2.54.0"}}, "ray", "lacking", "2.60.0 is tested"),
        ({"versions": VERSIONS}, "GPU", "lacking", "EXTRAS=gpu,dev make setup"),
        ({"cores": 1}, "cores", "lacking", "twice the time"),
        ({"memory_gib": 3.9}, "memory", "blocking", "5 GiB are needed"),
        ({"disk_gib": 0.2}, "disk", "blocking", "checkpoints"),
        ({"shared_memory_gib": 0.06}, "shared memory", "lacking", "--shm-size"),
        ({"flags": frozenset({"avx2", "avx512f"})}, "AMX", "lacking", "dequantised bf16 experts: the same numbers"),
        ({"flags": frozenset({"avx2"})}, "vector unit", "lacking", "half speed"),
        ({"flags": frozenset(), "gpus": ()}, "vector unit", "blocking", "does not start"),
        ({"flags": frozenset()}, "vector unit", "lacking", "does not start"),
        ({"programs": without("g++")}, "compiler", "blocking", "apt-get install g++"),
        ({"programs": without("ninja"), "python_header": False}, "compiler", "blocking", "ninja-build python3.11-dev"),
        ({"programs": without("bwrap")}, "sandbox", "lacking", "apt-get install bubblewrap"),
        ({"sandbox_error": "no permission"}, "sandbox", "lacking", "user namespaces"),
        ({"programs": without("sbatch")}, "Slurm", "lacking", "no sbatch"),
        ({"gpus": ()}, "GPU", "lacking", "toy size"),
    ],
)
def test_what_is_missing_is_named_with_its_cost_and_its_remedy(
    changes: dict[str, Any], name: str, verdict: str, says: str
) -> None:
    rows = judge(dataclasses.replace(PERFECT, **changes))
    row = next(row for row in rows if row.name == name)
    assert row.verdict == verdict
    assert row.cost and row.remedy
    assert says in f"{row.found} {row.cost} {row.remedy}"
    assert (row in blockers(rows)) == (verdict == "blocking")


def test_the_table_shows_every_row() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table(judge(PERFECT)))
    text = console.export_text()
    assert all(row.name in text and row.found in text for row in judge(PERFECT))


def test_the_exit_code_says_whether_the_toy_can_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "probe", lambda directory: PERFECT)
    assert doctor.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["can_run_toy"] is True
    assert doctor.main([]) == 0
    assert "make toy" in capsys.readouterr().out
    broken = dataclasses.replace(PERFECT, programs=without("g++"))
    monkeypatch.setattr(doctor, "probe", lambda directory: broken)
    assert doctor.main([]) == 1
    assert "toy run cannot work here: compiler: no g++" in " ".join(capsys.readouterr().out.split())


def test_the_pins_are_read_from_the_project_file() -> None:
    pins = doctor.probe(Path.cwd()).pins
    assert set(pins["torch"]) == {"2.13.0+cpu", "2.13.0"}
    assert all(pins.values()), pins


def test_a_container_limit_below_the_machines_memory_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert doctor._free_memory(tmp_path) == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert doctor._free_memory(tmp_path) > 2**20


def test_programs_that_hang_or_do_not_exist_are_answers() -> None:
    assert doctor._ask(["/nonexistent"])[0] == 1
    assert doctor._ask(["sleep", "5"], timeout=0.1)[0] == 1
    assert doctor._ask(["sh", "-c", "echo no; exit 3"]) == (3, "no")


def test_it_imports_nothing_heavy() -> None:
    heavy = {"torch", "vllm", "ray", "deepspeed", "transformers"}
    code = f"import sys, train.doctor; print(sorted({heavy} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
