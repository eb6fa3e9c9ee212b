"""A domain whose tool runs the model's programs: what they may do is told, and enforced."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envs import sandbox
from envs.base import EnvironmentFailure, StepResult
from envs.check import check_domain
from envs.demonstrate import run_policy_sync
from envs.domain import Domain, Draft, ToolSpec, split_of
from envs.questions import exact_score
from envs.sandbox import Limits, Permissions, Programs, SandboxDown
from envs.tools import parse_tool_call
from envs.types import Message, Task

SHELL = "/usr/bin/sh"
needs_sandbox = pytest.mark.skipif(bool(sandbox.available()), reason=sandbox.available() or "works")
TOOL = ToolSpec(
    name="run",
    description="Run a shell script.",
    parameters={"type": "object", "properties": {"script": {"type": "string"}}, "required": ["script"]},
)


class Shell:
    """Each call runs; a message without a call ends it."""

    def __init__(self, programs: Programs, shell: str):
        self._programs, self._shell = programs, shell

    async def reset(self) -> None:
        return None

    async def step(self, message: Message) -> StepResult:
        if not message.tool_calls:
            return StepResult(done=True)
        script = (message.tool_calls[0].arguments or {}).get("script", "")
        result = await self._programs.run_async([self._shell, "-c", str(script)])
        reply = (result.stdout + result.stderr).decode(errors="replace")
        return StepResult(observation=(Message.of("tool", reply, name="run"),))

    async def close(self) -> None:
        return None


def shell_domain(readable: Path, **changes: Any) -> Domain:
    """What number stands in the file?"""
    programs = Programs(
        permissions=Permissions(readable=(str(readable),), commands=(SHELL,)), limits=Limits(wall_seconds=2.5)
    )
    shell = changes.pop("shell", SHELL)

    def gold(task: Task, messages: tuple[Message, ...]) -> Message:
        if messages:
            return Message.of("assistant", messages[-1].text.strip())
        arguments = f'{{"script": "cat {readable}/{task.index % 2}"}}'
        call = parse_tool_call(f'{{"name": "run", "arguments": {arguments}}}')
        return Message.of("assistant", "", tool_calls=(call,))

    settings: dict[str, Any] = {
        "name": "shell/read",
        "family": "shell",
        "generate": lambda index: Draft(
            prompt=(Message.of("user", f"What does file {index % 2} in {readable} hold?"),),
            reference=str(17 + index % 2),
        ),
        "score": exact_score,
        "gold": gold,
        "environment": lambda task: Shell(programs, shell),
        "tools": (TOOL,),
        "max_turns": 3,
        "generator_id": "files@1",
        "verifier_id": "exact@1",
        "source": "jointrl",
        "licence": "Apache-2.0",
        "programs": programs,
        "needs_sandbox": True,
    }
    return Domain(**settings | changes)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "granted"
    for path in (tmp_path, folder, *tmp_path.parents[:2]):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)  # a slot's uid has to get there
    for number in (0, 1):
        (folder / str(number)).write_text(str(17 + number))
    (tmp_path / "secret").write_text("hidden")
    return folder


def script(text: str) -> Callable[[Task, tuple[Message, ...]], Message]:
    """Calls the tool once, then answers with what came back."""
    raw = json.dumps({"name": "run", "arguments": {"script": text}})
    return lambda task, messages: (
        Message.of("assistant", messages[-1].text)
        if messages
        else Message.of("assistant", "", tool_calls=(parse_tool_call(raw),))
    )


@needs_sandbox
def test_such_a_domain_keeps_its_promises(files: Path) -> None:
    check = check_domain(shell_domain(files), 2)
    assert check.problems == [] and check.gold_score == 1.0


def test_the_model_is_told_in_the_system_message(files: Path) -> None:
    domain = shell_domain(files)
    task = domain.task(0)
    assert [message.role for message in task.prompt] == ["system", "user"]
    told = task.prompt[0].text
    assert told == f"Programs that you write run in a sandbox:\n{domain.programs.describe()}"  # type: ignore[union-attr]
    assert f"May read: {files}." in told and f"May start: {SHELL}." in told and "At most 2.5 s" in told
    draft = Draft(prompt=(Message.of("system", "Be brief."), Message.of("user", "?")))
    own = dataclasses.replace(domain, generate=lambda index: draft).task(0)
    assert own.prompt[0].text == f"Be brief.\n\n{told}" and len(own.prompt) == 2
    # The split does not depend on what a machine's sandbox can do.
    assert own.split == split_of(draft.prompt)


@needs_sandbox
def test_what_it_may_not_touch_is_not_there(files: Path) -> None:
    domain = shell_domain(files)
    attempt = f"cat {files}/../secret; echo new > {files}/0; cat {files}/1"
    told = run_policy_sync(domain, domain.task(0), script(attempt))
    assert "hidden" not in told.final_text and "No such file" in told.final_text
    assert "Read-only file system" in told.final_text
    assert "18" in told.final_text and (files / "0").read_text() == "17"


@needs_sandbox
def test_a_command_that_is_not_permitted_is_a_bug_of_the_domain(files: Path) -> None:
    domain = shell_domain(files, shell="/usr/bin/bash")
    with pytest.raises(PermissionError, match="permitted commands: /usr/bin/sh"):
        run_policy_sync(domain, domain.task(0), script("true"))


def test_a_sandbox_that_breaks_in_a_tool_is_the_infrastructure(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envs.sandbox.available", lambda: "no bwrap")
    domain = shell_domain(files)
    with pytest.raises(EnvironmentFailure, match="no bwrap"):
        run_policy_sync(domain, dataclasses.replace(domain, programs=None).task(0), script("true"))
    assert issubclass(SandboxDown, EnvironmentFailure)


def test_a_domain_that_runs_programs_must_say_so(files: Path) -> None:
    with pytest.raises(ValueError, match="needs_sandbox=True"):
        shell_domain(files, needs_sandbox=False)
    assert shell_domain(files, programs=None, needs_sandbox=False).permissions == Permissions()
