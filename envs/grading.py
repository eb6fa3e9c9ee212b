"""Marks for a function that a model wrote, by what it returns, never by what it says about itself.

In: source text, the function's name, cases of arguments and expected results.  Out: one verdict a case.  The model's
code runs in a sandbox of its own and sees the arguments only; expected results stay in this process, and what comes
back is parsed as JSON and compared here.  So nothing that the code can do (patching a test runner, printing "passed",
an `__eq__` that always agrees, exiting early) reaches the verdict: a wrong value is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envs import sandbox
from envs.sandbox import PYTHON, Limits, SandboxDown

# Results leave by a descriptor of their own, so that prints do not mix with them.
HARNESS = """
import json, os, sys
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
job = json.load(open("job.json"))
space = {"__name__": "solution"}
exec(compile(open("solution.py").read(), "solution.py", "exec"), space)
for arguments in job["arguments"]:
    try:
        line = json.dumps({"value": space[job["name"]](*arguments)})
    except Exception as error:
        line = json.dumps({"error": type(error).__name__})
    os.write(out, line.encode() + b"\\n")
"""


def grade_function(
    code: str, name: str, cases: Sequence[tuple[Sequence[Any], Any]], limits: Limits | None = None
) -> list[bool]:
    """For each (arguments, expected): whether the function gave exactly that.  Both are JSON-able.

    Types count: 1 is not True and not 1.0, as in JSON text.  What ends early leaves the remaining cases wrong.  Raises
    SandboxDown where no sandbox works.
    """
    job = json.dumps({"name": name, "arguments": [list(arguments) for arguments, _ in cases]})
    files: dict[str, str | bytes] = {
        "harness.py": HARNESS,
        "solution.py": code.encode("utf-8", "replace"),
        "job.json": job,
    }
    result = sandbox.run([PYTHON, "-I", "-S", "harness.py"], files=files, limits=limits)
    if result.exit_code == 127 and not _python_starts():
        # The code itself can exit with 127 too, and must not get out of its mark that way.
        raise SandboxDown(f"Python does not start in the sandbox: {result.stderr[-200:].decode(errors='replace')}")
    lines = result.stdout.split(b"\n")[:-1]
    if len(lines) > len(cases):
        # More answers than questions: somebody else wrote to the channel, and nothing on it can be told apart.
        return [False] * len(cases)
    found = [_value(line) for line in lines] + [None] * (len(cases) - len(lines))
    return [
        value is not None and value == [_canonical(expected)] for value, (_, expected) in zip(found, cases, strict=True)
    ]


def _python_starts() -> bool:
    return sandbox.run([PYTHON, "-I", "-S", "-c", "pass"]).exit_code == 0


def _value(line: bytes) -> list[str] | None:
    """The canonical text of the value on one line, in a list; None where there is none."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.keys() != {"value"}:
        return None
    return [_canonical(document["value"])]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=True)
