"""The same job as a command for docker or apptainer, for tasks that need an image of their own.

Out: an argument list that a site may run; nothing here runs it.  Called by domains whose task names an image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from envs.sandbox.bubblewrap import NOBODY, WORK
from envs.sandbox.limits import Limits, Permissions


def docker_command(
    image: str, argv: Sequence[str], limits: Limits, permissions: Permissions | None = None
) -> list[str]:
    """No network, read-only root, no capability, a tmpfs at /work, limits; removed when it ends.

    The wall clock is kept by `timeout` inside, which the image has to have (coreutils or busybox).
    """
    granted = permissions or Permissions()
    granted.check_command(tuple(argv))
    command = ["docker", "run", "--rm", "--init", "--network=none", "--read-only", "--cap-drop=ALL"]
    command += ["--security-opt=no-new-privileges", f"--user={NOBODY}:{NOBODY}", f"--workdir={WORK}"]
    command += [f"--tmpfs={WORK}:rw,exec,mode=1777,size={limits.files_mib}m", f"--pids-limit={limits.processes}"]
    command += [f"--memory={limits.memory_mib}m", f"--memory-swap={limits.memory_mib}m"]
    command += [f"--ulimit=cpu={math.ceil(limits.cpu_seconds)}", f"--ulimit=fsize={limits.files_mib << 20}"]
    command += [f"--volume={path}:{path}:ro" for path in granted.readable]
    command += [f"--volume={path}:{path}:rw" for path in granted.writable]
    return [*command, image, *_timed(argv, limits)]


def apptainer_command(
    image: str, argv: Sequence[str], limits: Limits, permissions: Permissions | None = None
) -> list[str]:
    """As `docker_command`; apptainer limits memory and processes only where cgroups v2 are delegated to the user."""
    granted = permissions or Permissions()
    granted.check_command(tuple(argv))
    command = ["apptainer", "exec", "--containall", "--cleanenv", "--no-home", "--net", "--network=none"]
    command += ["--no-privs", "--writable-tmpfs", f"--pwd={WORK}", f"--scratch={WORK}"]
    command += [f"--memory={limits.memory_mib}M", f"--pids-limit={limits.processes}"]
    command += [f"--bind={path}:{path}:ro" for path in granted.readable]
    command += [f"--bind={path}:{path}:rw" for path in granted.writable]
    return [*command, image, *_timed(argv, limits)]


def _timed(argv: Sequence[str], limits: Limits) -> list[str]:
    return ["timeout", "--signal=KILL", f"{limits.wall_seconds:g}", *argv]
