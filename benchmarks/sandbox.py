"""What the sandbox costs: `python -m benchmarks.sandbox [--jobs 10000]`.

In: nothing.  Out: jobs a second and median milliseconds of a bare bubblewrap that starts Python, of our sandbox doing
the same, and of a fork-server job, on 1 and 2 threads, in the same run and taking turns.  With `--jobs` that many
fork-server jobs and a hundredth as many programs: memory and process count before and after.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil

from envs import sandbox
from envs.sandbox.bubblewrap import PYTHON, find_bwrap

ROUNDS, PROGRAMS_A_ROUND, CALLS_A_ROUND = 5, 10, 100
# The same Python with the same mounts that it needs, and nothing else that our sandbox adds.
BARE = ["--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "--", sys.base_prefix + "/bin/python3"]
PROGRAM = ["-I", "-S", "-c", "pass"]


def bare() -> None:
    bwrap = find_bwrap()
    assert bwrap is not None
    subprocess.run([bwrap, *BARE, *PROGRAM], check=True, capture_output=True)


def ours() -> None:
    assert sandbox.run([PYTHON, *PROGRAM]).exit_code == 0


def fork_server() -> None:
    assert sandbox.call("math:factorial", 5) == 120


def timed(job: Callable[[], None], count: int, threads: int) -> tuple[list[float], float]:
    """Milliseconds of each of `count` jobs over so many threads, and the seconds they all took."""
    found: list[float] = []

    def work() -> None:
        for _ in range(count // threads):
            began = time.perf_counter()
            job()
            found.append(1e3 * (time.perf_counter() - began))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found, time.perf_counter() - began


def measure(threads: int) -> dict[str, float]:
    """Median milliseconds by kind of job; prints a line each."""
    kinds = {
        "bare bubblewrap + python": (bare, PROGRAMS_A_ROUND),
        "our sandbox + python": (ours, PROGRAMS_A_ROUND),
        "fork-server job": (fork_server, CALLS_A_ROUND),
    }
    for job, _ in kinds.values():
        timed(job, threads, threads)  # starts what there is to start
    times: dict[str, list[float]] = {name: [] for name in kinds}
    seconds = dict.fromkeys(kinds, 0.0)
    for _ in range(ROUNDS):
        for name, (job, count) in kinds.items():
            found, took = timed(job, count, threads)
            times[name] += found
            seconds[name] += took
    for name, found in times.items():
        rate = len(found) / seconds[name]
        print(f"{threads} thread(s)  {name:<26} {rate:8.1f} jobs/s  median {statistics.median(found):7.2f} ms")
    return {name: statistics.median(found) for name, found in times.items()}


def endurance(jobs: int) -> None:
    """Many jobs; what is left of them."""
    process = psutil.Process()

    def state() -> str:
        children = process.children(recursive=True)
        memory = process.memory_info().rss + sum(child.memory_info().rss for child in children)
        zombies = sum(other.info["status"] == psutil.STATUS_ZOMBIE for other in psutil.process_iter(["status"]))
        return (
            f"{memory / 2**20:7.1f} MiB, {len(children)} child processes, {zombies} zombies on this machine, "
            f"{process.num_fds()} descriptors"
        )

    for done in range(jobs + 1):
        if done % max(1, jobs // 5) == 0:
            print(f"after {done:6} jobs: {state()}", flush=True)
        fork_server()
        if done % 100 == 0:
            ours()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=0)
    jobs = parser.parse_args().jobs
    if sandbox.available():
        sys.exit(f"no sandbox here: {sandbox.available()}")
    if jobs:
        endurance(jobs)
        return
    for threads in (1, 2):
        found = measure(threads)
        ratio = found["our sandbox + python"] / found["bare bubblewrap + python"]
        print(f"{threads} thread(s)  our sandbox / bare bubblewrap: {ratio:.2f}\n")


if __name__ == "__main__":
    main()
