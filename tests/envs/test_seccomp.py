"""The filter on system calls: run by an interpreter of its few instructions, and against the kernel's own numbers."""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
from pathlib import Path

import pytest

from envs.sandbox.seccomp import CLONE, CLONE3, OWN_ONLY, REFUSED, SOCKET, seccomp_program

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
MACHINES = {"x86_64": (0, 0xC000003E, 0), "aarch64": (1, 0xC00000B7, 63)}  # column, architecture, number of `read`


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would make of a call: an interpreter of the few instructions that we use."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps, place, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, yes, no, operand = steps[place]
        place += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            place += yes if holds else no


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_what_it_names_and_nothing_else(machine: str) -> None:
    column, architecture, read = MACHINES[machine]
    program = seccomp_program(machine)
    assert program is not None and len(program) % 8 == 0
    assert verdict(program, architecture, read, 3) == ALLOW
    assert verdict(program, 0x40000003, read) == KILL
    for numbers in REFUSED.values():
        assert verdict(program, architecture, numbers[column]) == EPERM
    for numbers, places in OWN_ONLY.values():
        assert verdict(program, architecture, numbers[column], 0, 0, 7) == ALLOW
        for place in places:
            assert verdict(program, architecture, numbers[column], *[0] * place, 4321) == EPERM
    assert verdict(program, architecture, CLONE3[column]) == ENOSYS
    assert verdict(program, architecture, CLONE[column], 0x11) == ALLOW
    assert verdict(program, architecture, CLONE[column], 0x10000011) == EPERM
    for family in range(64):
        expected = ALLOW if family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6) else EPERM
        assert verdict(program, architecture, SOCKET[column], family, 1) == expected
    assert seccomp_program("riscv64") is None


HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h")


@pytest.mark.skipif(not all(os.path.exists(path) for path in HEADERS), reason="no kernel headers for both machines")
def test_the_numbers_are_the_kernels() -> None:
    table = REFUSED | {name: numbers for name, (numbers, _) in OWN_ONLY.items()}
    table |= {"socket": SOCKET, "clone": CLONE, "clone3": CLONE3}
    for column, path in enumerate(HEADERS):
        known = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)", Path(path).read_text()))
        wrong = {name: numbers[column] for name, numbers in table.items() if known.get(name) != str(numbers[column])}
        assert wrong == {}, path
