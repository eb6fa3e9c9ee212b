"""A system-call filter for sandboxed programs: what namespaces, limits and another uid do not already forbid.

Out: the bytes of a classic BPF program, as `bwrap --seccomp` reads them.  Refused calls return EPERM; `clone3` returns
ENOSYS, because its flags lie in memory that a filter cannot read, and the C library then falls back to `clone`.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct

_MACHINES = ("x86_64", "aarch64")
_AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Numbers on x86-64 and on arm64 (linux: syscall_64.tbl, asm-generic/unistd.h).
REFUSED = {
    # other processes' memory, other namespaces, parts of the kernel that nobody here needs
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsmount": (432, 432), "mount_setattr": (442, 442),
    "setns": (308, 268), "unshare": (272, 97), "open_by_handle_at": (304, 265), "kexec_load": (246, 104),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # memory that no limit counts, and that can outlive the process that filled it
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180),
    # of whole users
    "ioprio_set": (251, 30),
}  # fmt: skip

# Only on oneself: these arguments must be zero.  A job in a fork server has its server's uid, and could otherwise lower
# the limits and the priority that all later jobs inherit.
OWN_ONLY = {
    "prlimit64": ((302, 261), (0,)), "sched_setaffinity": ((203, 122), (0,)), "sched_setscheduler": ((144, 119), (0,)),
    "sched_setparam": ((142, 118), (0,)), "sched_setattr": ((314, 274), (0,)), "setpriority": ((141, 140), (0, 1)),
}  # fmt: skip

# A network namespace does not hold back others: on a virtual machine AF_VSOCK reaches the host.
SOCKET, SOCKET_FAMILIES = (41, 198), (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
CLONE, CLONE3, CLONE_NEWUSER = (56, 220), (435, 435), 0x10000000
X32_BIT = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; arguments are 8 bytes, low half first
_REFUSE = _ERRNO | errno.EPERM


def seccomp_program(machine: str = "") -> bytes | None:
    """The filter for this machine or another one, None where the call numbers are not known here."""
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        return None
    column = _MACHINES.index(machine)
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, _AUDIT_ARCHITECTURE[machine], yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_JUMP_GREATER_EQUAL, X32_BIT, no=1),
        _step(_RETURN, _KILL),
        *_when(CLONE3[column], [_step(_RETURN, _ERRNO | errno.ENOSYS)]),
    ]
    for numbers in REFUSED.values():
        program += _when(numbers[column], [_step(_RETURN, _REFUSE)])
    for numbers, arguments in OWN_ONLY.values():
        program += _when(numbers[column], _unless_zero(arguments))
    program += _when(SOCKET[column], _unless_family())
    newuser = [_argument(0), _step(_JUMP_ANY_BIT, CLONE_NEWUSER, no=1), _step(_RETURN, _REFUSE)]
    program += _when(CLONE[column], [*newuser, _step(_RETURN, _ALLOW)])
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _when(number: int, steps: list[bytes]) -> list[bytes]:
    """These steps, which end in a return, for one system call; its number is loaded before and after."""
    return [_step(_JUMP_EQUAL, number, no=len(steps)), *steps]


def _unless_zero(arguments: tuple[int, ...]) -> list[bytes]:
    """Refuse where one of these arguments (32 bits: process ids) is not zero."""
    tests = [step for index in arguments for step in (_argument(index), *_refuse_unless_equal(0))]
    return [*tests, _step(_RETURN, _ALLOW)]


def _refuse_unless_equal(value: int) -> tuple[bytes, bytes]:
    return _step(_JUMP_EQUAL, value, yes=1), _step(_RETURN, _REFUSE)


def _unless_family() -> list[bytes]:
    """Refuse a socket of any family but those few."""
    families = [int(family) for family in SOCKET_FAMILIES]
    tests = [_step(_JUMP_EQUAL, family, yes=len(families) - place) for place, family in enumerate(families)]
    return [_argument(0), *tests, _step(_RETURN, _REFUSE), _step(_RETURN, _ALLOW)]


def _argument(index: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * index)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One instruction (struct sock_filter): `yes` and `no` say how many to skip."""
    return struct.pack("=HBBI", code, yes, no, value)
