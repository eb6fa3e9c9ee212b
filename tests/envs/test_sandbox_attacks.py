"""What a hostile program tries, in both modes: contained each time, and the next task is not affected.

docs/security.md has the same table in words.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from envs import sandbox
from envs.grading import grade_function
from envs.sandbox import PYTHON, Limits, Result, SandboxError, forkserver
from envs.sandbox.bubblewrap import Bubblewrap, Mode
from envs.sandbox.forkserver import ForkServer
from envs.sandbox.seccomp import REFUSED

pytestmark = [
    pytest.mark.skipif(bool(sandbox.available()), reason=sandbox.available() or "works"),
    pytest.mark.timeout(60),
]
MODES: list[Mode] = ["setuid", "userns"] if os.getuid() == 0 else ["userns"]
QUICK = Limits(wall_seconds=3, memory_mib=256, processes=16, files_mib=8, output_bytes=100_000)
SECRET = secrets.token_hex(16)
# In the command line of each attack and of its forks: what is left of them is found on the whole machine.
MARK = f"attack_{secrets.token_hex(4)}.py"
DURATION = str(100_000 + os.getpid())
# Tries one thing after another; what works is printed, what is refused is not.
TRY = """
import os, sys
def attempt(name, function):
    try: value = function()
    except BaseException as error: return
    print(name, value, flush=True)
"""


@dataclass(frozen=True)
class Attack:
    """Python source, and what has to be true of its result."""

    code: str
    contained: Callable[[Result], bool]
    limits: Limits = QUICK


def silent(result: Result) -> bool:
    """Nothing that was tried worked."""
    return result.stdout == b"" and result.exit_code == 0


def stopped(result: Result) -> bool:
    return result.killed_by in ("wall", "cpu")


ATTACKS = {
    "read secrets": Attack(
        TRY
        + "for path in ('/etc/shadow', '/etc/passwd', '/root', '/home', '/run', '/var', '/sys', '/boot', '/mnt', '/proc/kcore',"
        " '/proc/1/environ', '/proc/1/root/etc/passwd', '/proc/1/cwd/pyproject.toml'):\n"
        "  attempt(path, lambda: (os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(9)) or 1 / 0)",
        silent,
    ),
    "host files": Attack(TRY + "attempt('checkout', lambda: open('{checkout}/README.md').read(9))", silent),
    "environment variables": Attack(
        "import os; print({secret!r} in repr(dict(os.environ)), sorted(os.environ)[0])", lambda r: r.stdout.startswith(b"False")
    ),
    "network to loopback": Attack(
        TRY + "import socket; attempt('loopback', lambda: socket.create_connection(('127.0.0.1', {port}), 1))", silent
    ),
    "network out": Attack(
        TRY + "import socket\nfor host in ('1.1.1.1', '169.254.169.254'): attempt(host, lambda: socket.create_connection((host, 80), 1))",
        silent,
    ),
    "abstract unix socket": Attack(
        TRY + "import socket\ns = socket.socket(socket.AF_UNIX)\nattempt('unix', lambda: s.connect('\\0{abstract}') or 1)", silent
    ),
    "fork bomb": Attack(
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", stopped, Limits(wall_seconds=0.2, processes=16)
    ),
    "memory bomb": Attack("x = []\nwhile True: x.append(bytearray(1 << 24))", lambda r: b"MemoryError" in r.stderr),
    "disk filler": Attack(
        "f = open('x', 'wb')\nwhile True: f.write(b'0' * (1 << 20)); f.flush()", lambda r: r.exit_code == 1 and b"Errno 2" in r.stderr
    ),
    "disk filler elsewhere": Attack(
        TRY + "for path in ('/x', '/dev/shm/x', '/usr/x', '/opt/x', '/opt/python/x', '/proc/x'): attempt(path, lambda: open(path, 'w'))",
        silent,
    ),
    "endless output": Attack("while True: print('x' * 9999)", lambda r: r.killed_by == "output" and len(r.stdout) <= 100_000),
    "endless error output": Attack(
        "import sys\nwhile True: sys.stderr.write('x' * 9999)", lambda r: r.killed_by == "output" and len(r.stderr) <= 100_000
    ),
    "setsid daemon": Attack(
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    [os.close(n) for n in (0, 1, 2)]\n    time.sleep(600)",
        lambda r: r.exit_code == 0 and not left(MARK),
    ),
    "double fork that holds the pipe": Attack(
        "import os, time\nif os.fork() == 0:\n  os.setsid(); time.sleep(600)", lambda r: r.exit_code == 0 and r.seconds < 2 and not left(MARK)
    ),
    "ptrace": Attack(
        TRY + "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\npid = os.fork()\n"
        "if pid == 0:\n  import time; time.sleep(1); os._exit(0)\nprint(libc.ptrace(16, pid, 0, 0), libc.unshare(0x10000000))",
        lambda r: r.stdout.split()[:2] == [b"-1", b"-1"],
    ),
    "signals to a sibling": Attack(
        TRY + "import signal\nfor pid in range(2, 4000):\n  if pid != os.getpid(): attempt(pid, lambda: os.kill(pid, 9) or 'killed')\n", silent
    ),
    "signal to the first process": Attack("import os\ntry: os.kill(1, 9)\nexcept OSError: pass\nprint('here')", lambda r: r.exit_code == 0),
    "symlink out": Attack(
        TRY + "os.symlink('/etc/passwd', 'a'); os.symlink('/proc/1/root', 'b')\n"
        "attempt('a', lambda: open('a').read(3)); attempt('b', lambda: open('b/etc/passwd').read(3))",
        silent,
    ),
    "procfs": Attack(
        TRY + "for path in ('/proc/sys/kernel/hostname', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/self/oom_score_adj', '/proc/1/mem'):\n"
        "  attempt(path, lambda: os.write(os.open(path, os.O_WRONLY), b'-1000'))",
        silent,
    ),
    "file descriptors of the harness": Attack(
        "import os\nfor n in range(3, 256):\n  try: print(n, os.readlink(f'/proc/self/fd/{n}'))\n  except OSError: pass\n  try: os.write(n, b'x')\n  except OSError: pass",
        silent,
    ),
    "memory that no limit counts": Attack(
        TRY + "import ctypes\nlibc = ctypes.CDLL(None)\nattempt('memfd', lambda: os.memfd_create('x'))\n"
        "for name, arguments in (('shmget', (0, 1 << 26, 0o1777)), ('msgget', (0, 0o1777)), ('semget', (0, 1, 0o1777))):\n"
        "  attempt(name, lambda: 1 / (1 + getattr(libc, name)(*arguments)))\n"
        "attempt('mq_open', lambda: 1 / (1 + libc.syscall({mq_open}, b'x', 0o102, 0o600, None)))",
        silent,
    ),
    "sockets around the network namespace": Attack(
        TRY + "import socket\nfor family, kind in ((40, 1), (38, 5), (16, 3), (17, 3)): attempt(family, lambda: socket.socket(family, kind))", silent
    ),
    "limits of somebody else": Attack(
        TRY + "import resource\nchild = os.fork()\nif child == 0:\n  import time; time.sleep(9)\n"
        "attempt('prlimit', lambda: resource.prlimit(child, resource.RLIMIT_AS, (1 << 20, 1 << 20)))\n"
        "attempt('affinity', lambda: os.sched_setaffinity(child, {0}) or 1)\n"
        "attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, child, 19) or 1)\n"
        "attempt('of the uid', lambda: os.setpriority(os.PRIO_USER, 0, 19) or 1)",
        silent,
    ),
    "memory of the first process": Attack(
        TRY + "for name in ('mem', 'maps', 'environ', 'auxv', 'fd/0'): attempt(name, lambda: open(f'/proc/1/{name}', 'rb'))", silent
    ),
    "raising its own limits": Attack(
        TRY + "import resource\nfor name in ('RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_FSIZE', 'RLIMIT_NPROC', 'RLIMIT_NOFILE'):\n"
        "  attempt(name, lambda: resource.setrlimit(getattr(resource, name), (-1, -1)) or 1)",
        silent,
    ),
    "becoming root again": Attack(
        TRY + "attempt('setuid', lambda: os.getuid() == 0 or os.setuid(0) or 1)\nattempt('setgroups', lambda: os.setgroups([0]) or 1)\n"
        "attempt('capability', lambda: [line for line in open('/proc/self/status') if line.startswith(('CapPrm', 'CapEff')) and int(line.split()[1], 16)] or 1 / 0)",
        silent,
    ),
    "devices": Attack(
        TRY + "for path in ('/dev/mem', '/dev/sda', '/dev/vda', '/dev/kmsg', '/dev/fuse'): attempt(path, lambda: open(path, 'rb').read(1))\n"
        "attempt('mknod', lambda: os.mknod('d', 0o060666, os.makedev(8, 0)))",
        silent,
    ),
    "setuid program": Attack(
        TRY + "import subprocess; attempt('su', lambda: subprocess.run(['/usr/bin/su', '-c', 'id'], capture_output=True).stdout or 1 / 0)", silent
    ),
    "sleeping past the limit": Attack("import time; time.sleep(60)", stopped, Limits(wall_seconds=0.5)),
    "half a second for an endless loop": Attack("while True: pass", lambda r: stopped(r) and r.seconds < 2, Limits(wall_seconds=0.5)),
    "big-integer power": Attack("9**9**9**9", stopped, Limits(wall_seconds=0.5, memory_mib=64)),
    "ignored signals": Attack(
        "import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nwhile True: pass",
        stopped,
        Limits(wall_seconds=5, cpu_seconds=1),
    ),
    "recursion": Attack("f = lambda: f()\nf()", lambda r: r.exit_code != 0 and b"RecursionError" in r.stderr),
    "recursion in C": Attack("import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()", lambda r: r.exit_code != 0, Limits(wall_seconds=1)),
    "invalid UTF-8": Attack("import os; os.write(1, bytes(range(256)))", lambda r: r.stdout == bytes(range(256))),
}  # fmt: skip


def left(mark: str) -> list[int]:
    """Processes of this machine with that word in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(mark in word for word in process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, str]]:
    """What there would be to find: a listener on loopback, an abstract socket, a secret in the environment, the checkout."""
    abstract = f"jointrl-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{abstract}")
        unix.listen()
        threading.Thread(target=_accept, args=(server,), daemon=True).start()
        os.environ["JOINTRL_TEST_SECRET"] = SECRET
        yield {
            "port": str(server.getsockname()[1]),
            "abstract": abstract,
            "checkout": str(Path(__file__).resolve().parents[2]),
            "secret": SECRET,
            "mq_open": str(REFUSED["mq_open"][platform.machine() == "aarch64"]),
        }
        del os.environ["JOINTRL_TEST_SECRET"]


def _accept(server: socket.socket) -> None:
    try:
        while True:
            server.accept()
    except OSError:
        return


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ATTACKS)
def test_contained_and_the_next_task_is_not_affected(name: str, mode: Mode, places: dict[str, str]) -> None:
    attack, provider = ATTACKS[name], Bubblewrap(mode)
    if name.startswith("fork bomb") and provider.unenforced:
        pytest.skip("processes are not limited in this mode as root: the bomb could take the whole machine with it")
    code = attack.code
    for key, value in places.items():
        code = code.replace("{" + key + "!r}", repr(value)).replace("{" + key + "}", value)
    result = provider.run([PYTHON, "-I", "-S", MARK], files={MARK: code}, limits=attack.limits)
    assert attack.contained(result), result
    after = provider.run([PYTHON, "-I", "-S", "-c", "import os; print(os.listdir('.'), 6 * 7)"], limits=QUICK)
    assert (after.exit_code, after.stdout) == (0, b"[] 42\n")
    assert left(MARK) == []


@pytest.mark.parametrize("mode", [mode for mode in MODES if "processes" not in Bubblewrap(mode).unenforced])
def test_a_fork_bomb_meets_the_process_limit_where_that_is_enforced(mode: Mode) -> None:
    code = "import os, time\nn = 0\ntry:\n  while n < 200:\n    if os.fork() == 0: time.sleep(2); os._exit(0)\n    n += 1\nexcept OSError: print(n)"
    result = Bubblewrap(mode).run([PYTHON, "-I", "-S", "-c", code], limits=Limits(processes=16, wall_seconds=5))
    assert 1 <= int(result.stdout) < 16


CASES = [((1, 2), 3), ((5, 7), 12)]
GOOD = "def add(a, b): return a + b"
# Ways to look right without being it: each must leave every case wrong.
CHEATS = {
    "fake all passed": "print('2 passed, 0 failed')\nprint('{\"value\": 3}')\ndef add(a, b): return 0",
    "sys.exit(0)": "import sys; sys.exit(0)",
    "os._exit(0)": "import os; os._exit(0)",
    "exit code of a missing Python": "import os; os._exit(127)",
    "exit inside": "import os\ndef add(a, b): os._exit(0)",
    "an __eq__ that always agrees": "class Yes(int):\n  def __eq__(self, other): return True\n  __hash__ = int.__hash__\ndef add(a, b): return Yes(0)",
    "patched json": "import json\njson.dumps = lambda *a, **k: 'true'\ndef add(a, b): return 0",
    "patched test runner": "import sys, builtins\nbuiltins.all = builtins.any = lambda *a: True\nsys.modules['unittest'] = None\ndef add(a, b): return 0",
    "overwriting the test file": "for name in ('harness.py', 'job.json', 'solution.py'):\n  try: open(name, 'w').write('')\n  except OSError: pass\ndef add(a, b): return 0",
    "conftest injection": "open('conftest.py', 'w').write('def pytest_runtest_makereport(): pass')\ndef add(a, b): return 0",
    "atexit hook": "import atexit, os\natexit.register(lambda: os.write(1, b'{\"value\": 3}'))\ndef add(a, b): return 0",
    "extra lines on every descriptor": "import os\nfor n in range(256):\n  for _ in range(9):\n    try: os.write(n, b'{\"value\": 3}\\n')\n    except OSError: pass\ndef add(a, b): return a + b",
    "looking for the expected values": "import gc\ndef add(a, b): return max([x for x in gc.get_objects() if isinstance(x, int)], default=0)",
    "endless": "def add(a, b):\n  while True: pass",
    "not Python": "def add(a, b) return",
    "NUL and emoji": "\0 🙂",
    "nested beyond parsing": "def add(a, b):\n  x = []\n  for _ in range(10**5): x = [x]\n  return x",
}  # fmt: skip


@pytest.mark.parametrize("name", CHEATS)
def test_the_verdict_is_out_of_reach_of_the_code(name: str) -> None:
    assert grade_function(CHEATS[name], "add", CASES, Limits(wall_seconds=1)) == [False, False]
    assert grade_function(GOOD, "add", CASES) == [True, True]


def test_each_case_is_marked_by_itself_and_types_count() -> None:
    assert grade_function("def add(a, b): return 3", "add", CASES) == [True, False]
    assert grade_function("def same(x): return x", "same", [((1,), True), ((1,), 1.0), ((True,), True)]) == [
        False,
        False,
        True,
    ]
    assert grade_function("def f(x): return 1 // x", "f", [((0,), 0), ((1,), 1)]) == [False, True]


# A verifier of ours that evaluates what it is given: what comes of it ends with that job.
HOSTILE_ANSWERS = {
    "kills its server": "__import__('os').kill(__import__('os').getppid(), 9)",
    "stops its server": "__import__('os').kill(__import__('os').getppid(), 19)",
    "kills everybody": "__import__('os').kill(-1, 9)",
    "exits": "__import__('os')._exit(0)",
    "opens the server's output": "open('/proc/%d/fd/4' % __import__('os').getppid(), 'w').write('x')",
    "reads the server's memory": "open('/proc/%d/mem' % __import__('os').getppid(), 'rb')",
    "opens the first process's memory": "open('/proc/1/mem', 'r+b')",
    "lowers the server's limits": "__import__('resource').prlimit(__import__('os').getppid(), 9, (1, 1))",
    "lowers the server's priority": "__import__('os').setpriority(0, __import__('os').getppid(), 19)",
    "writes an answer of its own": "__import__('os').write(3, b'{\"value\": 120}\\n') and __import__('time').sleep(9)",
    "never ends": "9**9**9**9",
    "eats memory": "[0] * 10**11",
    "sleeps": "__import__('time').sleep(60)",
    "daemon": f"__import__('subprocess').run(['/usr/bin/setsid', '/usr/bin/sleep', '{DURATION}'])",
    "not finite": "float('inf')",
    "huge": "'x' * 10**8",
}


@pytest.fixture(scope="module", params=MODES)
def server(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    server = ForkServer(Bubblewrap(request.param))
    yield server
    server.close()


def evaluate(server: ForkServer, answer: str) -> object:
    return server.call("builtins:eval", (answer,), Limits(wall_seconds=0.7, memory_mib=128))


@pytest.mark.parametrize("name", HOSTILE_ANSWERS)
def test_an_answer_that_is_evaluated_ends_with_its_job(
    name: str, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkserver, "GRACE_SECONDS", 1.0)
    assert evaluate(server, "1 + 1") == 2
    with pytest.raises(SandboxError):
        evaluate(server, HOSTILE_ANSWERS[name])
    assert server.call("math:factorial", (5,), Limits()) == 120
    assert left(DURATION) == []


def test_what_an_answer_leaves_is_gone_before_the_next_job(server: ForkServer) -> None:
    evaluate(server, "[open(place + '/x', 'w').close() for place in ('/work', '/tmp')] and 1")
    assert evaluate(server, "__import__('os').listdir('/work') + __import__('os').listdir('/tmp')") == []
    # More orphans than the server may have processes: each is waited for, none counts afterwards.
    orphan = (
        "[__import__('os').fork() or __import__('os')._exit(__import__('os').fork() and 0) for _ in range(8)] and 7"
    )
    for _ in range(20):
        assert evaluate(server, orphan) == 7
    processes = "sum(name.isdigit() for name in __import__('os').listdir('/proc'))"
    assert evaluate(server, processes) == 3  # the sandbox's first one, the server and the job itself
