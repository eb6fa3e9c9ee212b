"""The sandbox: nothing that a model writes runs outside of it.

    run(argv, files=…)              a program that a model wrote: its own bubblewrap, gone afterwards
    call("package.module:function") our own verifier on a model's answer: a fork in a server in a bubblewrap
    number("package.module:function")  the same, for a verdict that has to lie in a range
    Programs(permissions, limits)   what a domain lets such programs do: it runs them, and tells the model
    available()                     "" or why no sandbox works here; then domains that need one refuse to load

Both block, bound how many run at once, and may be used from several threads; `run_async` and `call_async` from asyncio.
There is no unprotected way: without a sandbox they raise SandboxDown.  What is enforced: docs/security.md.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from envs.sandbox.bubblewrap import PYTHON, WORK, Bubblewrap
from envs.sandbox.forkserver import ForkServers
from envs.sandbox.limits import (
    Limits,
    Permissions,
    Provider,
    Result,
    SandboxDown,
    SandboxError,
    SandboxFailed,
    SandboxTimeout,
)

__all__ = [
    "PYTHON",
    "WORK",
    "Limits",
    "Permissions",
    "Programs",
    "Provider",
    "Result",
    "SandboxDown",
    "SandboxError",
    "SandboxFailed",
    "SandboxTimeout",
    "available",
    "call",
    "call_async",
    "number",
    "run",
    "run_async",
]

CONCURRENCY = max(2, os.cpu_count() or 1)


@functools.cache
def provider() -> Bubblewrap:
    """The one that runs programs here: as root `setuid` or nothing, since `userns` would not limit processes there."""
    return Bubblewrap()


@functools.cache
def available() -> str:
    """Empty where the sandbox works here, else why not and what to do.  Asked once a process."""
    return provider().why_not()


def run(
    argv: Sequence[str],
    *,
    files: Mapping[str, str | bytes] | None = None,
    stdin: bytes = b"",
    limits: Limits | None = None,
    permissions: Permissions | None = None,
) -> Result:
    """A program with all it starts, in /work, where `files` lie read-only.  Never raises on what the program does.

    Example: ``run([PYTHON, "-I", "-S", "main.py"], files={"main.py": "print(1)"}).stdout == b"1\\n"``

    Raises SandboxDown where no sandbox works, PermissionError for a command that is not permitted.
    """
    _require()
    with _programs():
        return provider().run(argv, files=files, stdin=stdin, limits=limits, permissions=permissions)


def call(function: str, *arguments: Any, limits: Limits | None = None) -> Any:
    """`function` ("package.module:name", ours or a user's family's) on JSON-able arguments, in a killable process.

    The result is JSON, of finite numbers.  Raises SandboxTimeout and SandboxFailed for what the job did, SandboxDown
    where the sandbox or the import is to blame.
    """
    _require()
    with _servers(os.getpid()).server() as server:
        return server.call(function, arguments, limits or Limits())


def number(function: str, *arguments: Any, low: float = 0.0, high: float = 1.0, limits: Limits | None = None) -> float:
    """`call` for a verdict: SandboxFailed for anything but a number from low to high."""
    value = call(function, *arguments, limits=limits)
    if type(value) not in (int, float) or not low <= value <= high:
        raise SandboxFailed(f"{function}: not a number from {low:g} to {high:g}: {value!r:.100}")
    return float(value)


_NO_PERMISSIONS, _USUAL_LIMITS = Permissions(), Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What the programs that a model writes in a domain may touch and use: `Domain.programs`.

    The domain's environment and verifier run them by `run` and nothing else; `describe` stands in its prompts.
    """

    permissions: Permissions = _NO_PERMISSIONS
    limits: Limits = _USUAL_LIMITS

    def run(self, argv: Sequence[str], *, files: Mapping[str, str | bytes] | None = None, stdin: bytes = b"") -> Result:
        """`run` within these bounds.  Raises SandboxDown, and PermissionError for a command that is not permitted."""
        return run(argv, files=files, stdin=stdin, limits=self.limits, permissions=self.permissions)

    async def run_async(
        self, argv: Sequence[str], *, files: Mapping[str, str | bytes] | None = None, stdin: bytes = b""
    ) -> Result:
        """The same beside an event loop."""
        return await run_async(argv, files=files, stdin=stdin, limits=self.limits, permissions=self.permissions)

    def describe(self) -> str:
        """In words for the model; says what this machine's sandbox does not enforce, if anything."""
        return self.permissions.describe(self.limits, provider().unenforced)


async def run_async(argv: Sequence[str], **options: Any) -> Result:
    """`run` beside an event loop."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), functools.partial(run, argv, **options))


async def call_async(function: str, *arguments: Any, limits: Limits | None = None) -> Any:
    """`call` beside an event loop."""
    job = functools.partial(call, function, *arguments, limits=limits)
    return await asyncio.get_running_loop().run_in_executor(_threads(), job)


def _require() -> None:
    if available():
        raise SandboxDown(available())


@functools.cache
def _programs() -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(CONCURRENCY)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Of our own: jobs that wait for their turn must not take up the event loop's default threads."""
    return ThreadPoolExecutor(2 * CONCURRENCY, thread_name_prefix="sandbox")


@functools.cache
def _servers(process: int) -> ForkServers:
    """Of this process: a fork of it must not talk to the same servers."""
    servers = ForkServers(provider(), CONCURRENCY)
    atexit.register(servers.close)
    return servers
