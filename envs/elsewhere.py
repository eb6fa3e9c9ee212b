"""The same tasks in another process: a hash of what a domain makes, here and under another PYTHONHASHSEED.

In: names of domains and a number of tasks each.  Out: a digest each.  Called by `envs.check`; this module, run, is the
helper process.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from envs.domain import Domain, Family
from envs.families import FAMILIES, all_domains, with_families
from envs.types import Task

OTHER_HASH_SEED = "4242"
TIMEOUT_SECONDS = 1800


def digest(tasks: Sequence[Task]) -> str:
    """A hash of all that a task is; sets, whose order depends on the hash seed, show as what they are."""
    text = "\n".join(repr((task.id, task.prompt, task.reference, dict(task.metadata))) for task in tasks)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digests(domains: Mapping[str, Domain], counts: Mapping[str, int]) -> dict[str, str]:
    """Made from the last index to the first: a task may not depend on which others were made before it."""
    return {name: _digest_of(domains.get(name), count) for name, count in counts.items()}


def _digest_of(domain: Domain | None, num_tasks: int) -> str:
    if domain is None:
        return "there is no such domain"
    try:
        return digest([domain.task(index) for index in reversed(range(num_tasks))][::-1])
    except Exception as problem:  # no digest: the caller sees that they differ
        return f"raises {type(problem).__name__}: {problem}"


class Elsewhere:
    """`digests` in a fresh process under another PYTHONHASHSEED, started at once; `result()` waits for it."""

    def __init__(self, counts: Mapping[str, int], family_paths: Mapping[str, str]):
        environment = os.environ | {
            "PYTHONHASHSEED": OTHER_HASH_SEED,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        self._request = json.dumps({"counts": dict(counts), "families": dict(family_paths)})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "envs.elsewhere", self._request],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def result(self) -> dict[str, str]:
        """Raises RuntimeError where the process failed, with its last words."""
        try:
            said, errors = self._process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            self._process.kill()
        if self._process.returncode != 0:
            raise RuntimeError(f"the helper process failed with code {self._process.returncode}:\n{errors[-2000:]}")
        answer: dict[str, str] = json.loads(said.splitlines()[-1])
        return answer


def digests_elsewhere(counts: Mapping[str, int], family_paths: Mapping[str, str]) -> dict[str, str]:
    """The same, waited for."""
    return Elsewhere(counts, family_paths).result()


def _answer_request() -> None:
    request: dict[str, Any] = json.loads(sys.argv[1])
    families: dict[str, Family] = with_families(request["families"], FAMILIES)
    print(json.dumps(digests(all_domains(families), request["counts"])))


if __name__ == "__main__":
    _answer_request()
