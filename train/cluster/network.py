"""What a job's processes listen on: one network interface, and nothing else.

In: the interface's name from the config.  Out: its address, and the environment that keeps Ray, gloo, NCCL and vLLM
on it.  Called by `train.cluster.node` before anything else is started.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import psutil

LOOPBACK = "lo"
SOURCE = Path(__file__).resolve().parents[2] / "slurm" / "bind.c"


def address_of(interface: str) -> str:
    """The IPv4 address of a network interface of this machine.  Raises ValueError naming those there are."""
    found = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }
    addresses = found.get(interface, [])
    if not addresses:
        usable = ", ".join(f"{name} ({own[0]})" for name, own in sorted(found.items()) if own)
        raise ValueError(
            f"cluster.interface={interface}: {socket.gethostname()} has no such interface with an IPv4 address; "
            f"it has {usable}"
        )
    return addresses[0]


def environment(interface: str, address: str, scratch: Path) -> dict[str, str]:
    """Variables for all processes of a node.  Raises ValueError where no compiler is found, and one is needed."""
    chosen = {
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,
        "VLLM_HOST_IP": address,
        # Ray's name for "loopback only"; it then refuses any other address.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0" if interface == LOOPBACK else "1",
    }
    if interface != LOOPBACK:
        preload = [str(build_bind(scratch)), os.environ.get("LD_PRELOAD", "")]
        chosen |= {"JOINTRL_BIND_ADDRESS": address, "LD_PRELOAD": ":".join(part for part in preload if part)}
    return chosen


def build_bind(scratch: Path) -> Path:
    """Compile slurm/bind.c (its first lines say what for)."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ValueError(
            f"{socket.gethostname()} has no C compiler: without slurm/bind.c Ray would listen on every network "
            "interface; load one in cluster.slurm.setup (module load gcc), or use one node"
        )
    library = scratch / "bind.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{socket.gethostname()}: {' '.join(command)} failed: {done.stderr.strip()[-300:]}")
    return library
