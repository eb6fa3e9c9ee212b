"""Runs inside a sandbox: imports a function once, then calls it in a fresh fork for each job.

In: one JSON line a job on standard input.  Out: one JSON line each.  Standard library only; started by
`envs.sandbox.forkserver` as a script.

A job is a fork that keeps one file descriptor, the pipe of its own answer; that of the harness is closed in it, and the
server is not dumpable, so that a job of the same uid can neither trace it nor open its descriptors.  After each job all
of its processes are killed and reaped, and the server says whether the job left files behind: it is then replaced.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

MAX_ANSWER = 1 << 20
MAX_FILES = 1_000
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
WRITABLE = ("/work", "/tmp")


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    # What a job starts and leaves becomes a child of the server, which waits for it.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Whatever an imported library prints goes nowhere.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    answers.write(b'{"status": "ready"}\n')
    answers.flush()
    for line in jobs:
        answers.write(json.dumps(handle(json.loads(line))).encode() + b"\n")
        answers.flush()


def handle(job: dict[str, Any]) -> dict[str, Any]:
    """`status`: "done" (with the job's own JSON text), "timeout", "failed" or "down" (with the reason); `clean`."""
    try:
        module, name = job["function"].split(":")
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        return {"status": "down", "text": f"{job['function']} cannot be imported: {type(error).__name__}: {error}"}
    gc.freeze()  # else a collection in the fork would touch, and so copy, all that the server imported
    before = files()
    answer = run(function, job)
    return answer | {"clean": before is not None and files() == before}


def run(function: Callable[..., Any], job: dict[str, Any]) -> dict[str, Any]:
    """One job in a fork; nothing of it is left when this returns."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        run_job(function, job, sink)
    os.close(sink)
    answer, in_time = read_answer(source, job["wall_seconds"])
    os.close(source)
    # One job at a time, so all that this may kill is that job's: children in other sessions as well.
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    status = reap(child)
    if not in_time or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return {"status": "timeout", "text": f"more than {job['wall_seconds']:g} s, or {job['cpu_seconds']:g} s of CPU"}
    if not answer.endswith(b"\n"):
        return {"status": "failed", "text": f"the job ended without an answer (wait status {status})"}
    return {"status": "done", "text": answer.decode("utf-8", "replace")}


def reap(child: int) -> int:
    """The wait status of `child`, once it and everything that it started is gone."""
    status = -1
    with contextlib.suppress(ChildProcessError):
        while True:
            number, found = os.waitpid(-1, 0)
            if number == child:
                status = found
    return status


def files() -> frozenset[tuple[str, int, int]] | None:
    """What lies in the writable places, with when it changed (no program can set that); None for too much to tell."""
    found: set[tuple[str, int, int]] = set()
    folders = list(WRITABLE)
    try:
        while folders:
            for entry in os.scandir(folders.pop()):
                state = entry.stat(follow_symlinks=False)
                found.add((entry.path, state.st_ino, state.st_ctime_ns))
                if len(found) > MAX_FILES:
                    return None
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except OSError:
        return None
    return frozenset(found)


def run_job(function: Callable[..., Any], job: dict[str, Any], sink: int) -> None:
    """In the fork: limits, then the call; never returns."""
    try:
        os.setsid()
        os.dup2(sink, 3)
        os.closerange(4, 1024)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        limit(job)
        try:
            answer = {"value": function(*job["arguments"]), "nonce": job["nonce"]}
            text = json.dumps(answer, allow_nan=False)
        except MemoryError:
            text = json.dumps({"error": "MemoryError"})
        except BaseException as error:
            text = json.dumps({"error": f"{type(error).__name__}: {error}"[:500]})
        data = memoryview(text.encode("utf-8", "replace") + b"\n")
        while data:
            data = data[os.write(3, data) :]
    finally:
        os._exit(0)


def limit(job: dict[str, Any]) -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    memory = used + (job["memory_mib"] << 20)
    cpu = max(1, -int(-job["cpu_seconds"] // 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))


def read_answer(source: int, wall_seconds: float) -> tuple[bytes, bool]:
    """Up to the first newline or end; False where the time ran out first."""
    deadline = time.monotonic() + wall_seconds
    answer = b""
    while not answer.endswith(b"\n") and len(answer) <= MAX_ANSWER:
        ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return answer, False
        data = os.read(source, 65_536)
        if not data:
            break
        answer += data
    return answer, True


if __name__ == "__main__":
    # `-P` keeps the folder of this script off the path; what to import from is said on the command line.
    sys.path[:0] = sys.argv[1:]
    main()
