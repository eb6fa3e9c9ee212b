"""One running bubblewrap: watched, ended with everything in it, and reaped.

In: a started `bwrap` and the descriptor on which it reports.  Out: a `Result`.  Called by `envs.sandbox.bubblewrap`
and, for its server, by `envs.sandbox.forkserver`.

bwrap reports the first process of its pid namespace, and an exit code only if the program inside was started at all;
what it cannot set up is so told apart from a program that fails.  It waits for that first process, and the kernel lets
that one go only after all others of the namespace: when bwrap has ended, nothing is left, not even a zombie.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

from envs.sandbox.limits import Limits, Result, SandboxDown

_CHUNK = 65_536
_REPORT_SECONDS = 10.0


class Running:
    """A bwrap and what runs in it.

    The first process is held by a descriptor, taken while bwrap is its parent: a process id may belong to somebody else
    later, and a fork server may be dead for hours before anybody looks.
    """

    def __init__(self, process: subprocess.Popen[bytes], status: int):
        self.process = process
        self._status = status
        self._report = b""
        self._first = self._open_first()

    def _open_first(self) -> int | None:
        deadline = time.monotonic() + _REPORT_SECONDS
        while b"\n" not in self._report and self._read_status(deadline - time.monotonic()):
            pass
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            number = json.loads(self._report.split(b"\n")[0])["child-pid"]
            descriptor = os.pidfd_open(number)
            if _parent(number) == self.process.pid:
                return descriptor
            os.close(descriptor)
        return None

    def _read_status(self, seconds: float) -> bool:
        """Whether there was more of the report within that time."""
        ready, _, _ = select.select([self._status], [], [], max(0.0, seconds))
        data = os.read(self._status, _CHUNK) if ready else b""
        self._report += data
        return bool(data)

    def check_started(self) -> None:
        """After the end.  Raises SandboxDown where the program never started: the sandbox is to blame, not it."""
        while self._read_status(0.0):
            pass
        if b'"exit-code"' in self._report:
            return
        raise SandboxDown("bubblewrap could not set up the sandbox")

    def kill(self) -> None:
        """End all that runs inside; bwrap then reaps it and ends by itself."""
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        elif self.process.poll() is None:
            self.process.kill()

    def close(self) -> None:
        """Returns when nothing of it is left."""
        self.kill()
        try:
            self.process.wait(_REPORT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._first is not None:
            os.close(self._first)
            self._first = None
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _parent(number: int) -> int | None:
    """The parent of a process of this machine, None where it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def watch(running: Running, limits: Limits) -> Result:
    """Collect output until the program ends or a limit is passed.  Raises SandboxDown where it never started."""
    process, began = running.process, time.monotonic()
    deadline = began + limits.wall_seconds
    output, killed_by = _collect(process, limits, deadline)
    if not killed_by:
        try:
            process.wait(max(deadline - time.monotonic(), 0.001))
        except subprocess.TimeoutExpired:
            killed_by = "wall"
    if killed_by:
        running.kill()
    code, seconds = process.wait(), time.monotonic() - began
    code = 128 - code if code < 0 else code
    if not killed_by:
        try:
            running.check_started()
        except SandboxDown as error:
            reason = output[1].decode(errors="replace").strip()
            raise SandboxDown(f"{error}: {reason[-500:] or f'exit code {code}'}") from None
        if code == 128 + signal.SIGXCPU or (code == 128 + signal.SIGKILL and seconds >= limits.cpu_seconds):
            killed_by = "cpu"
    return Result(exit_code=code, stdout=output[0], stderr=output[1], killed_by=killed_by, seconds=seconds)


def _collect(process: subprocess.Popen[bytes], limits: Limits, deadline: float) -> tuple[tuple[bytes, bytes], str]:
    """Standard output and error, each cut at its limit; and what ended the collecting: "", "wall" or "output"."""
    assert process.stdout is not None and process.stderr is not None
    collected: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    killed_by = ""
    with selectors.DefaultSelector() as selector:
        for pipe in collected:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and not killed_by:
            remaining = deadline - time.monotonic()
            events = selector.select(max(remaining, 0))
            if remaining <= 0:
                killed_by = "wall"
            for key, _ in events:
                pipe = key.fileobj  # type: ignore[assignment]
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(pipe)
                collected[pipe] += data
                if len(collected[pipe]) > limits.output_bytes:
                    killed_by = killed_by or "output"
    stdout, stderr = (bytes(collected[pipe][: limits.output_bytes]) for pipe in (process.stdout, process.stderr))
    return (stdout, stderr), killed_by
