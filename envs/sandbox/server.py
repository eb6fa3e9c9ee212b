"""Runs inside a sandbox: imports a function once, then calls it in a fresh fork for each job.

In: one JSON line a job on standard input.  Out: one JSON line each.  Standard library only; started by
`envs.sandbox.forkserver` as a script.

A job is a fork that keeps one file descriptor, the pipe of its own answer; that of the harness is closed in it, and the
server is not dumpable, so that a job of the same uid can neither trace it nor open its descriptors.
"""

from __future__ import annotations

import contextlib
import ctypes
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
PR_SET_DUMPABLE = 4


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
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


def handle(job: dict[str, Any]) -> dict[str, str]:
    """`status`: "done" (with the job's own JSON text), "timeout", "failed" or "down" (with the reason)."""
    try:
        module, name = job["function"].split(":")
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        return {"status": "down", "text": f"{job['function']} cannot be imported: {type(error).__name__}: {error}"}
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
    _, status = os.waitpid(child, 0)
    if not in_time or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return {"status": "timeout", "text": f"more than {job['wall_seconds']:g} s, or {job['cpu_seconds']:g} s of CPU"}
    if not answer.endswith(b"\n"):
        return {"status": "failed", "text": f"the job ended without an answer (wait status {status})"}
    return {"status": "done", "text": answer.decode("utf-8", "replace")}


def run_job(function: Callable[..., Any], job: dict[str, Any], sink: int) -> None:
    """In the fork: limits, then the call; never returns."""
    try:
        os.setsid()
        os.dup2(sink, 3)
        os.closerange(4, 1024)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        limit(job)
        try:
            answer = {"value": function(*job["arguments"])}
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
