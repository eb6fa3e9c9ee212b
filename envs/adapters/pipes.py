"""A helper process that answers requests, one JSON line each: started when needed, timed, restarted, ended with us.

In: a command, and requests.  Out: answers.  Called by `envs.adapters.tasksets`.  The pipes carry data only; what comes
back is parsed as JSON.  Whatever the process does wrong (it dies, hangs, answers something else) is a `HelperFailure`,
which is infrastructure and never a verdict; the next request starts another process.

    {"id": 7, "method": "score", …} ─► stdin │ helper │ stdout ─► {"id": 7, "result": …} or {"id": 7, "error": "…"}
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any

MAX_LINE = 64 * 1024 * 1024
LAST_WORDS = 2_000


class HelperFailure(Exception):
    """The helper process, not the model, failed."""


class HelperRefused(Exception):
    """The helper answered that it cannot do that; its own words."""


class Helper:
    """One process, one request at a time; safe to use from several threads.

    - `hello`: the first request of every process; its answer must hold `protocol` as given here.
    - `seconds`, `start_seconds`: what a request, and a start with its hello, may take.
    """

    def __init__(
        self, command: Sequence[str], hello: Mapping[str, Any], protocol: int, seconds: float, start_seconds: float
    ):
        self._command, self._hello, self._protocol = list(command), dict(hello), protocol
        self._seconds, self._start_seconds = seconds, start_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._errors: IO[bytes] | None = None
        self._owner = 0
        self._number = 0
        self.greeting: dict[str, Any] = {}
        self.num_starts = 0

    def ask(self, method: str, **arguments: Any) -> Any:
        """The result.  Raises HelperFailure, and HelperRefused where the helper itself says no."""
        with self._lock:
            self._ensure_started()
            return self._exchange(method, arguments, self._seconds)

    def close(self) -> None:
        """End the process; another request would start a new one."""
        with self._lock:
            self._stop()

    def _ensure_started(self) -> None:
        if self._process is not None and self._owner != os.getpid():
            self._process = None  # a fork: the process belongs to the parent
        if self._process is not None and self._process.poll() is None:
            return
        self._stop()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _stop
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as problem:
            raise HelperFailure(f"{self._command[0]} does not start: {problem.strerror or problem}") from problem
        self._owner = os.getpid()
        self.num_starts += 1
        atexit.register(self._stop)
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True).start()
        try:
            said: Any = self._exchange("hello", self._hello, self._start_seconds)
        except HelperRefused:
            self._stop()  # a process that was not greeted must not be taken for one that was
            raise
        if not isinstance(said, dict) or said.get("protocol") != self._protocol:
            self._stop()
            raise HelperFailure(f"it speaks another protocol than {self._protocol}: {str(said)[:200]}")
        self.greeting = said

    def _exchange(self, method: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        assert self._process is not None and self._process.stdin is not None
        self._number += 1
        request = json.dumps({"id": self._number, "method": method, **arguments})
        try:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise self._failure(f"it gave no answer to {method!r} within {seconds:g} s") from None
        except OSError:
            line = b""
        if not line:
            raise self._failure(f"it died while it was asked {method!r}")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or answer.get("id") != self._number or not {"result", "error"} & answer.keys():
            raise self._failure(f"its answer to {method!r} is none: {line[:200]!r}")
        if "error" in answer:
            raise HelperRefused(str(answer["error"])[:LAST_WORDS])
        return answer["result"]

    def _failure(self, what: str) -> HelperFailure:
        """The process cannot be trusted to be in step any more: it is ended."""
        self._kill()
        words = self._last_words()
        self._stop()
        return HelperFailure(f"the helper {self._command[0]}: {what}" + (f"; its last words: {words}" if words else ""))

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - LAST_WORDS, 0))
        return self._errors.read().decode("utf-8", "replace").strip()

    def _kill(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            # Its own session, so its children go too.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, 9)
            self._process.wait()

    def _stop(self) -> None:
        self._kill()
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._errors is not None:
            self._errors.close()
        self._process, self._errors = None, None
        atexit.unregister(self._stop)


def _environment() -> dict[str, str]:
    """Ours without what would mix the two Pythons; text is UTF-8 and no set's order differs from run to run."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    return kept | {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}


def _read(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Lines as they come; an empty one says that there are no more, also where one is too long."""
    while True:
        line = pipe.readline(MAX_LINE)
        whole = line.endswith(b"\n")
        lines.put(line if whole else b"")
        if not whole:
            return
