"""A node's share of a job: `python -m train.cluster.node RUN_DIR`, started once on each node by slurm/train.sbatch.

In: Slurm's environment, the run folder.  Out: a Ray that spans the job's nodes and nobody else's; the first node runs
the driver (`train.cluster.job`) on it.  Exit code of the first node: the driver's, or 75 where the job should be
requeued, or that of the node that failed first.

    node 0:  Ray head ─► token, address ─► all joined? ─► driver ─────────► exit code ─► Ray down
    node n:                    └─────────► Ray node ─► joined ─► (wait for the exit code) ─► Ray down

Whatever breaks on any node is written as the job's exit code, which all nodes watch: nobody waits for the dead.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from train.cluster.meeting import Meeting, record, record_start, refusal, starts
from train.cluster.network import LOOPBACK, address_of, environment
from train.cluster.placement import node_resource
from train.compose import from_tree
from train.config import Config

BAD_INPUT, FAILED, REQUEUE, STOPPED = 2, 3, 75, 130
POLL_SECONDS = 0.2
ASK_SECONDS = 20.0
LEAVE_SECONDS = 15.0
RAY_CPUS = 1024  # placement is by node, not by counting cores


class NodeFailure(Exception):
    """This node, or the job as a whole, cannot go on; the text says why."""


@dataclass(slots=True)
class Share:
    """What this node knows of its job."""

    run_dir: Path
    config: Config
    meeting: Meeting
    job: str
    restart: int
    number: int
    num_nodes: int
    scratch: Path
    address: str = ""
    ray: Any = None
    terminated: bool = field(default=False)

    @property
    def is_head(self) -> bool:
        return self.number == 0

    @property
    def kept_caches(self) -> Path:
        """Kernels that an earlier allocation of this run compiled on its node of this number: half a minute's work."""
        return self.run_dir / "slurm" / "cache" / f"node-{self.number}"

    @property
    def interface(self) -> str:
        return self.config.cluster.interface or LOOPBACK

    def say(self, what: str) -> None:
        print(record(self.run_dir, self.job, self.restart, what), flush=True)


def main(arguments: list[str]) -> int:
    share = share_of(Path(arguments[0]), dict(os.environ))
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a stop is asked for through the meeting's folder
    listen(share)
    try:
        prepare(share)
        code = drive(share) if share.is_head else serve(share)
    except (NodeFailure, ValueError) as failure:
        print(f"error: node {share.number} ({socket.gethostname()}): {failure}", file=sys.stderr, flush=True)
        code = BAD_INPUT if isinstance(failure, ValueError) else FAILED
    except Exception:  # of Ray, or of the file system: the others must hear of it all the same
        traceback.print_exc()
        code = FAILED
    code = share.meeting.end(code)
    leave(share)
    # srun ends everybody at the first code that is not 0: it has to be the last node's to leave.
    return code if share.is_head else 0


def share_of(run_dir: Path, given: dict[str, str]) -> Share:
    """This node's part, from the run folder and Slurm's environment."""
    tree = json.loads((run_dir / "slurm" / "config.json").read_text(encoding="utf-8"))
    config = from_tree(tree).config
    job, restart, number = given["SLURM_JOB_ID"], int(given.get("SLURM_RESTART_COUNT", 0)), int(given["SLURM_PROCID"])
    return Share(
        run_dir=run_dir,
        config=config,
        meeting=Meeting(Path(given["JOINTRL_MEETING"])),
        job=job,
        restart=restart,
        number=number,
        num_nodes=sum(group.count for group in config.cluster.nodes.values()),
        # Short: names of sockets below it may not be longer than 107 characters.
        scratch=Path(f"/tmp/jointrl-{job}-{restart}-{number}-{_mark(run_dir)}"),
    )


def listen(share: Share) -> None:
    """SIGTERM (scancel, a node taken away) ends this node at once: Slurm sends it to Ray's processes as well."""

    def terminated(number: int, frame: FrameType | None) -> None:
        share.terminated = True

    signal.signal(signal.SIGTERM, terminated)


def prepare(share: Share) -> None:
    """Directories and environment of everything that this node starts: nothing is shared with another job."""
    for old in Path("/tmp").glob(f"jointrl-{share.job}-*-{share.number}-{_mark(share.run_dir)}"):
        shutil.rmtree(old, ignore_errors=True)  # of an allocation of this job that was killed
    share.scratch.mkdir(mode=0o700)
    if share.kept_caches.is_dir():
        shutil.copytree(share.kept_caches, share.scratch / "cache")
    share.address = address_of(share.interface)
    caches = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "VLLM_CACHE_ROOT")
    os.environ |= environment(share.interface, share.address, share.scratch)
    os.environ |= {name: str(share.scratch / "cache" / name.lower()) for name in caches}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(share.meeting.token)}
    if share.is_head:
        share.meeting.make_token()


def drive(share: Share) -> int:
    """The first node: Ray's head, then the driver once all have joined."""
    share.ray = start_ray(share, head_address=None)
    share.meeting.publish_head({"address": share.ray.gcs_address, "host": socket.gethostname()})
    share.meeting.join(share.number, socket.gethostname())
    wait_for_all(share)
    share.say(f"ready nodes={share.num_nodes}")
    step = newest_step(share.run_dir)
    record_start(share.run_dir, share.job, share.restart, step)
    if step >= 0:
        share.say(f"resumed step={step}")
    os.environ |= {"JOINTRL_RAY_ADDRESS": share.ray.gcs_address, "JOINTRL_RAY_FOLDER": str(share.scratch)}
    driver = subprocess.Popen([sys.executable, "-m", "train.cluster.job", str(share.run_dir)])
    try:
        code = watch(share, driver)
    finally:
        driver.kill()
    return requeue_code(share, code)


def wait_for_all(share: Share) -> None:
    """Until every node has joined.  Raises NodeFailure naming those that have not in time."""
    limit = share.config.cluster.slurm.join_seconds
    deadline = time.monotonic() + limit
    while missing := share.meeting.missing(share.num_nodes):
        check_alive(share)
        if time.monotonic() > deadline:
            names = ", ".join(map(str, missing))
            raise NodeFailure(
                f"{len(missing)} of {share.num_nodes} nodes did not join within cluster.slurm.join_seconds={limit:g}: "
                f"number {names}; look at {share.run_dir}/slurm/node-{missing[0]}.log"
            )
        time.sleep(POLL_SECONDS)


def watch(share: Share, driver: subprocess.Popen[bytes]) -> int:
    """Wait for the driver's end; pass a stop on to it.

    Again and again: before it listens it ignores the signal (as this process does, from which it inherits that).
    """
    asked = -math.inf
    while driver.poll() is None:
        check_alive(share)
        if share.meeting.stop_asked() and time.monotonic() - asked > ASK_SECONDS:
            asked = time.monotonic()
            driver.send_signal(signal.SIGUSR1)
        time.sleep(POLL_SECONDS)
    code = driver.returncode
    return code if code >= 0 else 128 - code


def requeue_code(share: Share, code: int) -> int:
    """The driver's exit code, or 75 where Slurm asked for the stop and another allocation would help."""
    if code != STOPPED or not share.meeting.stop_asked():
        return code
    reason = refusal(starts(share.run_dir), newest_step(share.run_dir), share.config.cluster.slurm.max_requeues)
    if reason:
        share.say(f"not requeued: {reason}")
        return code
    return REQUEUE


def serve(share: Share) -> int:
    """Any other node: a part of the first one's Ray, until the job ends."""
    deadline = time.monotonic() + share.config.cluster.slurm.join_seconds
    while (head := share.meeting.head()) is None:
        if share.meeting.ended() is not None:
            return 0
        if time.monotonic() > deadline:
            raise NodeFailure("the first node's Ray did not come up in time; look at node-0.log")
        time.sleep(POLL_SECONDS)
    if share.interface == LOOPBACK and head["host"] != socket.gethostname():
        raise ValueError(
            f"cluster.interface={LOOPBACK} reaches no other machine, and the first node is {head['host']}; name the "
            "network interface that the nodes share"
        )
    share.ray = start_ray(share, head_address=head["address"])
    share.meeting.join(share.number, socket.gethostname())
    print(f"node {share.number} ({socket.gethostname()}, {share.address}) joined {head['address']}", flush=True)
    while share.meeting.ended() is None:
        check_alive(share)
        time.sleep(POLL_SECONDS)
    return 0


def check_alive(share: Share) -> None:
    """Raises NodeFailure where a part of this node's Ray died, or another node has ended the job."""
    if share.terminated:
        raise NodeFailure("told to end by SIGTERM (scancel, or this node is taken away)")
    ended = share.meeting.ended()
    if ended is not None and share.is_head:
        raise NodeFailure(f"another node failed and ended the job with code {ended}; see the other node-*.log")
    dead = share.ray.dead_processes() if share.ray is not None else []
    if dead:
        names = ", ".join(name for name, _ in dead)
        raise NodeFailure(f"Ray's {names} died; see {share.run_dir}/slurm/{share.job}.{share.restart}/node-*")


def start_ray(share: Share, head_address: str | None) -> Any:
    """This node's Ray processes, on free ports of one interface.

    Through Ray's own class for a node: its command line puts a loopback address back on the network.
    """
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    parameters = RayParams(
        node_ip_address=share.address,
        num_cpus=RAY_CPUS,
        num_gpus=0 if share.config.cluster.trainer.device == "cpu" else None,
        resources={node_resource(share.number): 1.0},
        object_store_memory=share.config.cluster.object_store_mib * 2**20,
        include_dashboard=False,
        temp_dir=str(share.scratch / "ray"),
        **({"gcs_server_port": 0} if head_address is None else {"gcs_address": head_address}),
    )
    node = Node(parameters, head=head_address is None, shutdown_at_exit=True, spawn_reaper=True)
    listen(share)  # Ray has put its own handler in the place of ours, which would drain for 30 s
    return node


def newest_step(run_dir: Path) -> int:
    """Step of the newest complete checkpoint, -1 where there is none."""
    from train.checkpoint import FOLDER
    from train.weights.state import latest_complete

    folder = run_dir / FOLDER
    found = latest_complete(folder).path if folder.is_dir() else None
    return int(found.name.rpartition("-")[2]) if found is not None else -1


def leave(share: Share) -> None:
    """Take this node's Ray down, keep the logs, remove the rest.  The first node leaves last."""
    share.meeting.leave(share.number)
    if share.is_head and not share.terminated:
        deadline = time.monotonic() + LEAVE_SECONDS
        while len(share.meeting.missing(share.num_nodes)) < share.num_nodes and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    if share.ray is not None:
        share.ray.kill_all_processes(check_alive=False, allow_graceful=not share.terminated)
    logs = share.meeting.path / f"node-{share.number}"
    for path in (share.scratch / "ray").glob("session_*/logs/*"):
        if path.is_file() and path.stat().st_size:
            logs.mkdir(exist_ok=True)
            shutil.copy(path, logs / path.name)
    if (share.scratch / "cache").is_dir() and not share.terminated and not share.kept_caches.exists():
        # Headers are hundreds of megabytes, and of no use once the kernels are compiled.
        ignored = shutil.ignore_patterns("precompiled_headers")
        shutil.copytree(share.scratch / "cache", share.kept_caches, ignore=ignored)
    shutil.rmtree(share.scratch, ignore_errors=True)


def _mark(run_dir: Path) -> str:
    """Tells runs of two Slurms apart that number their jobs alike, on a machine that both use."""
    return hashlib.sha256(str(run_dir.resolve()).encode()).hexdigest()[:8]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
