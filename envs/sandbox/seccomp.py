"""A system-call filter for sandboxed programs: what namespaces and another uid do not already forbid.

Out: the bytes of a classic BPF program, as `bwrap --seccomp` reads them.  Refused calls return EPERM; `clone3` returns
ENOSYS, because its flags lie in memory that a filter cannot read, and the C library then falls back to `clone`.
"""

from __future__ import annotations

import errno
import platform
import struct

# x86-64 numbers (linux/arch/x86/entry/syscalls/syscall_64.tbl).
REFUSED = {
    "ptrace": 101, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272,
    "process_vm_readv": 310, "process_vm_writev": 311, "kexec_load": 246, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "add_key": 248, "request_key": 249, "keyctl": 250, "open_by_handle_at": 304,
    "io_uring_setup": 425, "pidfd_getfd": 438, "move_mount": 429, "open_tree": 428, "fsopen": 430,
}  # fmt: skip
CLONE, CLONE3, CLONE_NEWUSER = 56, 435, 0x10000000
AUDIT_ARCH_X86_64, X32_BIT = 0xC000003E, 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data


def seccomp_program() -> bytes | None:
    """The filter, or None on a machine whose call numbers are not known here."""
    if platform.machine() != "x86_64":
        return None
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, AUDIT_ARCH_X86_64, yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_JUMP_GREATER_EQUAL, X32_BIT, no=1),
        _step(_RETURN, _KILL),
        _step(_JUMP_EQUAL, CLONE3, no=1),
        _step(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for number in REFUSED.values():
        program += [_step(_JUMP_EQUAL, number, no=1), _step(_RETURN, _ERRNO | errno.EPERM)]
    program += [
        _step(_JUMP_EQUAL, CLONE, no=3),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_JUMP_ANY_BIT, CLONE_NEWUSER, no=1),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One instruction (struct sock_filter): `yes` and `no` say how many to skip."""
    return struct.pack("=HBBI", code, yes, no, value)
