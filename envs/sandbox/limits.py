"""What a sandboxed program may use, touch and leave behind; and the errors of the sandbox.  Pure data.

Called by all of `envs.sandbox`, and by domains that declare permissions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.base import EnvironmentFailure


class SandboxError(Exception):
    """Base of what `run` and `call` raise."""


class SandboxTimeout(SandboxError):
    """A job used up its wall clock or CPU time.  Its own doing: worth a real score, not a retry."""


class SandboxFailed(SandboxError):
    """A job raised, died or took its server with it.  Its own doing as well."""


class SandboxDown(SandboxError, EnvironmentFailure):
    """No sandbox works here, or the sandbox itself broke.  Infrastructure: such a trajectory is unscored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one job.  Raises ValueError for a limit that is not above zero.

    - `wall_seconds`: all processes are killed after so long; may be below one second.
    - `cpu_seconds`: of each process, rounded up to whole seconds (the kernel counts no finer).
    - `memory_mib`: address space of each process (for `call`: beyond what its server has already).
    - `processes`: at a time, the sandbox's own first one included.  Not enforced where `Provider.unenforced` says so.
    - `files_mib`: of each of the two writable file systems (/work, /tmp), and of any one file.
    - `output_bytes`: of standard output and standard error each; more kills the job.
    """

    wall_seconds: float = 10.0
    cpu_seconds: float = 10.0
    memory_mib: int = 512
    processes: int = 32
    files_mib: int = 64
    output_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"sandbox limit {name} must be above zero, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Host paths that a program may see besides the system's read-only files, and commands that it may start.

    Paths are absolute, and seen under the same name inside.  `commands` are checked against the first word of what is
    run; empty allows any (a started program can start others: what it may touch is bounded by the roots, not by this).

    Raises ValueError for a relative path.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in (*self.readable, *self.writable):
            if not path.startswith("/") or "/../" in f"{path}/":
                raise ValueError(f"a permitted path must be absolute and without '..', got {path!r}")

    def describe(self, limits: Limits, unenforced: Sequence[str] = ()) -> str:
        """In words, for the prompt of whoever writes the program.  unenforced: see `Provider.unenforced`."""
        lines = [
            "No network.",
            f"At most {limits.wall_seconds:g} s, {limits.memory_mib} MiB of memory, {limits.processes} processes, "
            f"{limits.files_mib} MiB of files each under /work and /tmp, {limits.output_bytes:,} bytes of output.",
            f"May read: {', '.join(self.readable) or 'the system only'}.",
            f"May write: {', '.join(('/work', '/tmp', *self.writable))}.",
        ]
        if unenforced:
            lines.append(f"Not enforced by itself here: {', '.join(unenforced)}; the time limit ends everything.")
        if self.commands:
            lines.append(f"May start: {', '.join(self.commands)}.")
        return "\n".join(lines)

    def check_command(self, argv: tuple[str, ...]) -> None:
        """Raises PermissionError where the first word is not among `commands`."""
        if self.commands and argv[0] not in self.commands:
            raise PermissionError(f"{argv[0]!r} is not one of the permitted commands: {', '.join(self.commands)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a program.

    - `exit_code`: 128 + signal where a signal ended it.
    - `killed_by`: "", "wall", "cpu" or "output".
    - `seconds`: wall clock, the sandbox's own start included.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    killed_by: str
    seconds: float

    @property
    def timed_out(self) -> bool:
        return self.killed_by in ("wall", "cpu")


class Provider(Protocol):
    """A way to run a program that a model wrote.  `envs.sandbox.bubblewrap.Bubblewrap` is the one that runs here;
    `envs.sandbox.containers` only renders commands."""

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Names of limits that it cannot enforce on this machine; the wall clock ends what they would have."""

    def why_not(self) -> str:
        """Empty where it works here, else the reason and the remedy."""

    def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, str | bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
        permissions: Permissions | None = None,
    ) -> Result:
        """Blocks until the program and all that it started are gone.  Raises SandboxDown where it could not start."""
