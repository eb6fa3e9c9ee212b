"""A run on one machine listens on loopback only: Ray, its workers, and the trainers' process group."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]


ROOT = Path(__file__).resolve().parents[2]


class Member:
    """One rank of a process group that is made as the trainers make theirs."""

    def __init__(self, store: str, rank: int):
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        total = torch.ones(1)
        dist.all_reduce(total)
        self._total = float(total)

    def report(self) -> tuple[int, float]:
        return os.getpid(), self._total


def listeners(processes: list[psutil.Process]) -> dict[str, set[str]]:
    """Address (without port) of every listening TCP socket, v4 and v6 -> names of the processes that hold it."""
    found: dict[str, set[str]] = {}
    for process in processes:
        for connection in process.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN:
                found.setdefault(connection.laddr.ip, set()).add(process.name())
    return found


def is_loopback(ip: str) -> bool:
    """127.0.0.0/8, also as a v6 socket shows it, or ::1."""
    address = ipaddress.ip_address(ip)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


@pytest.mark.parametrize("first", ["train.collect", "rollouts.pool"])
def test_ray_is_never_imported_before_its_setting(first: str) -> None:
    """Ray reads it once, when it is imported; whichever module of ours comes first has to have set it."""
    code = f"import {first}, train.launch; from ray._private import ray_constants as r; print(r.ENABLE_RAY_CLUSTER)"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=clean)
    assert done.stdout.strip() == "False"


def test_every_listener_is_on_loopback(tmp_path: Path) -> None:
    # Here, and not above: Ray's workers import this module, and would import all that as well.
    from tests.integration.tiny import tiny_config
    from train.launch import process_environment, ray, started_ray

    here = psutil.Process()
    before = set(here.children(recursive=True))
    with started_ray(tiny_config(), tmp_path / "logs"):
        options: dict[str, Any] = {"num_cpus": 0.5, "runtime_env": {"env_vars": process_environment(1)}}
        actors = [ray.remote(Member).options(**options).remote(str(tmp_path / "store"), rank) for rank in range(2)]
        reports = ray.get([actor.report.remote() for actor in actors], timeout=120)
        assert [total for _, total in reports] == [2.0, 2.0]
        tree = [here, *here.children(recursive=True)]
        # The actors' processes are Ray's, and those are children of this one.
        assert {pid for pid, _ in reports} <= {process.pid for process in tree}
        found = listeners(tree)
    assert {"raylet", "gcs_server"} <= {name for names in found.values() for name in names}
    assert {ip: names for ip, names in found.items() if not is_loopback(ip)} == {}
    assert psutil.wait_procs(set(tree[1:]) - before, timeout=10)[1] == []  # nothing of Ray's is left
