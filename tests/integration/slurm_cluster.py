"""A real Slurm on this machine: munged, slurmctld and two slurmd, started for the tests and taken down after.

In: a directory.  Out: two nodes `n1` and `n2`, each of which pretends to have 8 CPUs; `SLURM_CONF` points at it.  By
hand: `python -m tests.integration.slurm_cluster` keeps one up until it is interrupted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel", "sacctmgr")
CONFIG = """\
ClusterName=toy
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=0
ReturnToService=2
SlurmctldPort={ports[0]}
MpiDefault=none
JobRequeue=1
KillWait=20
MessageTimeout=60
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 RealMemory=8000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 RealMemory=8000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why there can be no Slurm here, or nothing."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if absent:
        return f"no {', '.join(absent)} (Debian: apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "Slurm's daemons are started as root"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[None]:
    """Slurm, up and with both nodes idle; everything that it started is gone afterwards."""
    (folder / "state").mkdir(parents=True)
    for node in ("n1", "n2"):
        (folder / "spool" / node).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    ports = [_free_port() for _ in range(3)]
    config.write_text(CONFIG.format(folder=folder, host=socket.gethostname().split(".")[0], ports=ports))
    before = {name: os.environ.get(name) for name in ("SLURM_CONF", "PATH")}
    os.environ |= {"SLURM_CONF": str(config), "PATH": _path()}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in (
            f"munged --foreground --force --key-file={key} --socket={folder}/munge.socket "
            f"--pid-file={folder}/munged.pid --seed-file={folder}/munge.seed --log-file={folder}/munged.log",
            "slurmctld -D",
            "slurmd -D -N n1",
            "slurmd -D -N n2",
        ):
            log = (folder / f"{command.split()[0]}-{len(daemons)}.out").open("w")
            daemons.append(subprocess.Popen(command.split(), stdout=log, stderr=subprocess.STDOUT))
            if command.startswith("munged"):
                _wait_for(lambda: (folder / "munge.socket").exists(), "munged's socket", folder)
        _wait_for(lambda: _states() == ["idle", "idle"], "two idle nodes", folder)
        yield
    finally:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["scancel", "--user=root"], check=False, timeout=20)
            _wait_for(lambda: not jobs(), "an empty queue", folder, seconds=30)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in reversed(daemons):
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def jobs() -> list[str]:
    """Ids of all jobs that have not ended."""
    return _output("squeue", "--noheader", "--format=%i").split()


def job(number: str) -> dict[str, str]:
    """What `scontrol show job` says: JobState, ExitCode, Restarts, …"""
    words = _output("scontrol", "show", "job", number).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def _states() -> list[str]:
    return _output("sinfo", "--noheader", "--Node", "--format=%t").split()


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _wait_for(condition: object, what: str, folder: Path, seconds: float = 30.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            tails = [f"{path.name}: {path.read_text()[-500:]}" for path in sorted(folder.glob("*.log"))]
            raise AssertionError(f"Slurm: no {what} within {seconds:g} s\n" + "\n".join(tails))
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as name, running(Path(name) / "s"):
        print(f"export SLURM_CONF={os.environ['SLURM_CONF']}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(60)
