"""The harness's side of a fork server: calls of our own verifier code on what a model wrote, killable, in milliseconds.

In: the name of a function and JSON-able arguments.  Out: its JSON-able result, or a `SandboxError`.  One job at a time
a server; `ForkServers` keeps several.  A server that dies is started again, and the job that it died with has failed.

What this guarantees: a job ends in time, keeps no process, touches no file, no network and no other job.  What it does
not: code that a model smuggles into the *same process* as a verifier (an `eval` inside it) can forge that one verdict
(a nonce makes that a little harder: code that only writes to the channel fails, code that searches its process wins).
So a verifier that evaluates must look at what it evaluates first (see docs/security.md), and model-written programs
never come here: they run by `envs.sandbox.run`, and `envs.grading` compares what they print.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import queue
import secrets
import select
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from envs.sandbox import bubblewrap
from envs.sandbox.bubblewrap import PYTHON, Bubblewrap
from envs.sandbox.limits import Limits, Permissions, SandboxDown, SandboxFailed, SandboxTimeout
from envs.sandbox.process import Running

START_SECONDS = 60.0  # first import of a verifier library included
GRACE_SECONDS = 5.0
PROJECT, SITE, EXTRA = "/opt/project", "/opt/site", "/opt/extra"
# Of the server itself; each job has its own, narrower ones.
SERVER_LIMITS = Limits(wall_seconds=1e9, cpu_seconds=1e9, memory_mib=65_536, processes=64)


class ForkServer:
    """One server process in one sandbox; started at the first call.  Not for two threads at once."""

    def __init__(self, provider: Bubblewrap):
        self._provider = provider
        self._stack = contextlib.ExitStack()
        self._running: Running | None = None
        self._used = False
        self._imported: set[str] = set()
        self._extra: set[Path] = set()
        self._places: dict[str, Path | None] = {}

    def call(self, function: str, arguments: tuple[Any, ...], limits: Limits) -> Any:
        nonce = secrets.token_hex(8)
        job = {
            "function": function,
            "arguments": list(arguments),
            "wall_seconds": limits.wall_seconds,
            "cpu_seconds": limits.cpu_seconds,
            "memory_mib": limits.memory_mib,
            "nonce": nonce,
        }
        line = json.dumps(job, allow_nan=False).encode() + b"\n"
        self._ready_for(function)
        fresh, self._used = not self._used, True
        answer = self._exchange(line, limits.wall_seconds + GRACE_SECONDS + self._import_seconds(function))
        if answer is None:
            gone = self._gone()
            self.close()
            if gone and not fresh:
                # It may have died of something else while it waited.  If it was the job, a new one dies as well.
                return self.call(function, arguments, limits)
            raise SandboxFailed(f"{function}: the job took its server with it, or held it up")
        if not answer.pop("clean", True):
            self.close()
        return _value(function, answer, nonce)

    def close(self) -> None:
        self._stack.close()
        self._running = None
        self._used = False
        self._imported = set()

    def _gone(self) -> bool:
        assert self._running is not None
        try:
            self._running.process.wait(0.5)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _import_seconds(self, function: str) -> float:
        known = function in self._imported
        self._imported.add(function)
        return 0.0 if known else START_SECONDS

    def _ready_for(self, function: str) -> None:
        """A running server that can import `function`."""
        if function not in self._places:
            self._places[function] = _outside_package(function)
        outside = self._places[function]
        if outside is not None and outside not in self._extra:
            self._extra.add(outside)
            self.close()
        if self._running is not None and self._running.process.poll() is None:
            return
        self.close()
        self._extra = {place for place in self._extra if place.exists()}
        binds, path = _binds(self._extra)
        # Not `-I`: the environment is the sandbox's own, and its PYTHONHASHSEED has to count.
        argv = [PYTHON, "-P", "-s", "-S", f"{PROJECT}/envs/sandbox/server.py", *path]
        started = self._provider.started(argv, {}, None, SERVER_LIMITS, Permissions(), binds)
        self._running = _starter(os.getpid()).run(lambda: self._stack.enter_context(started))
        if self._exchange(b"", START_SECONDS) != {"status": "ready"}:
            stderr = self._running.process.stderr if self._gone() else None
            reason = stderr.read(2_000).decode(errors="replace") if stderr else "no answer"
            self.close()
            raise SandboxDown(f"the fork server does not start: {reason.strip()}")

    def _exchange(self, line: bytes, seconds: float) -> Any:
        """Send a line, read one; None where the server is gone or does not answer in time."""
        assert self._running is not None
        process, deadline = self._running.process, time.monotonic() + seconds
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError:
            return None
        descriptor, answer = process.stdout.fileno(), b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(descriptor, 65_536) if ready else b""
            if not data:
                return None
            answer += data
        return json.loads(answer)


class ForkServers:
    """A pool of `size` servers; callers wait for a free one.  Safe for threads."""

    def __init__(self, provider: Bubblewrap, size: int):
        self._free: queue.LifoQueue[ForkServer] = queue.LifoQueue()
        self._all = [ForkServer(provider) for _ in range(size)]
        for server in self._all:
            self._free.put(server)
        self._closing = threading.Lock()

    @contextlib.contextmanager
    def server(self) -> Iterator[ForkServer]:
        server = self._free.get()
        try:
            yield server
        finally:
            self._free.put(server)

    def close(self) -> None:
        with self._closing:
            for server in self._all:
                server.close()


class _Starter:
    """Starts servers from a thread that stays as long as the process: when a thread ends, the kernel kills the
    bubblewraps that it started, and a caller's thread may end in the middle of another one's job."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        # A daemon: others are ended before `atexit`, and their servers with them, instead of being closed.
        threading.Thread(target=self._work, name="sandbox-starter", daemon=True).start()

    def run(self, start: Callable[[], Running]) -> Running:
        future: Future[Running] = Future()
        self._orders.put((future, start))
        return future.result()

    def _work(self) -> None:
        while True:
            future, start = self._orders.get()
            try:
                future.set_result(start())
            except BaseException as error:
                future.set_exception(error)


@functools.cache
def _starter(process: int) -> _Starter:
    """Of this process: a fork of it has none of its threads."""
    return _Starter()


def _value(function: str, answer: dict[str, str], nonce: str) -> Any:
    """The job's own JSON, or the error that fits."""
    status, text = answer["status"], answer["text"]
    if status == "timeout":
        raise SandboxTimeout(f"{function}: {text}")
    if status == "down":
        raise SandboxDown(text)
    if status == "failed":
        raise SandboxFailed(f"{function}: {text}")
    try:
        document = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise SandboxFailed(f"{function}: the answer is no JSON: {error}") from error
    if not isinstance(document, dict) or document.keys() != {"value", "nonce"} or document["nonce"] != nonce:
        reason = document.get("error", "not the job's answer") if isinstance(document, dict) else "not the job's answer"
        raise SandboxFailed(f"{function}: {reason}")
    return document["value"]


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _outside_package(function: str) -> Path | None:
    """The folder from which a package outside the project and its environment is imported (a user's own family)."""
    top = function.split(":")[0].split(".")[0]
    spec = find_spec(top)
    if spec is None:
        raise SandboxDown(f"{function}: there is no module {top!r}")
    places = list(spec.submodule_search_locations or []) or ([spec.origin] if spec.origin else [])
    place = Path(places[0]).resolve()
    known = (_project(), *(Path(folder) for folder in _site_folders()), Path(sysconfig.get_path("stdlib")))
    return None if any(place.is_relative_to(folder) for folder in known) else place


def _binds(extra: set[Path]) -> tuple[dict[str, str], list[str]]:
    """Host path -> path inside, and the inside's `sys.path`."""
    binds = {str(_project() / name): f"{PROJECT}/{name}" for name in ("envs", "rewards")}
    path = [PROJECT]
    for number, folder in enumerate(_site_folders()):
        binds[folder] = f"{SITE}/{number}"
        path.append(f"{SITE}/{number}")
    for number, place in enumerate(sorted(extra)):
        binds[str(place)] = f"{EXTRA}/{number}/{place.name}"
        path.append(f"{EXTRA}/{number}")
    return binds, path


def _project() -> Path:
    return Path(bubblewrap.__file__).resolve().parents[2]


def _site_folders() -> list[str]:
    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
