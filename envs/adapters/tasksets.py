"""Tasksets of the library `verifiers` as domains: its tasks and its rewards, in a process of its own beside ours.

In: a YAML file with `adapter: verifiers`.  Out: a `Family` of one single-turn domain.  Listed in `envs.adapters`.

A taskset is code that the user chose to install, and is trusted as such; it runs in another virtual environment,
because the two projects want other versions of the same libraries, and in another process, so that it cannot take ours
down.  What the model writes goes there as data.
"""

from __future__ import annotations

import functools
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.adapters.pipes import Helper, HelperFailure, HelperRefused
from envs.adapters.settings import Settings
from envs.adapters.template import Template
from envs.base import EnvironmentFailure
from envs.domain import Domain, Draft, Family, NoGold
from envs.identity import code_id
from envs.types import Message, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

PROTOCOL = 1
SERVER = Path(__file__).with_name("tasksets_server.py")
MAX_ANSWER = 100_000  # a longer one is worth the least, and is not sent
ROLES = ("system", "user", "assistant")


def family(settings: Settings) -> Family:
    """Starts the helper process, which imports the taskset: what it cannot offer is refused here."""
    taskset = settings.text("taskset")
    helper = _helper(settings, taskset)
    low, high = settings.number("low", 0.0), settings.number("high", 1.0)
    if not low < high:
        raise settings.wrong("low", f"the range from low={low:g} to high={high:g} is empty")
    gold = _gold_template(settings)
    tiers, licence = settings.tiers(), settings.licence()
    name = settings.text("domain", "all")
    settings.finish()
    greeting = _greet(settings, helper)
    size, version = int(greeting["size"]), f"verifiers {greeting['version']}"
    source = f"{version}, taskset {taskset}"
    first = helper.ask("task", index=0)["data"]
    if gold is not None and (missing := [field for field in gold.fields if field not in first]):
        raise settings.wrong("gold", f"tasks have no {missing[0]!r}; they have {', '.join(sorted(first))}")
    domain = Domain(
        name=f"{settings.family}/{name}",
        family=settings.family,
        generate=functools.partial(_generate, helper, size),
        score=functools.partial(_score, helper, size, (low, high)),
        gold=functools.partial(_gold, gold),
        tiers=tiers,
        score_range=(low, high),
        generator_id=code_id("taskset", source),
        verifier_id=code_id("taskset", source, *greeting["rewards"]),
        source=source,
        licence=licence,
        knobs={"tasks": size, "rewards": list(greeting["rewards"])},
        slow_verdict=True,
        num_distinct=size,
    )
    about = f"The taskset {taskset} of {version}, run beside this process by the file {settings.path.name}."
    return Family(name=settings.family, domains=lambda: [domain], about=about)


def _helper(settings: Settings, taskset: str) -> Helper:
    python = settings.text("python")
    found = shutil.which(python) or shutil.which(str(settings.folder / python))
    if found is None:
        raise settings.wrong("python", f"{python} is no program; give the python of an environment with `verifiers`")
    folder = str((settings.folder / settings.text("folder")).resolve()) if settings.has("folder") else ""
    hello = {
        "folder": folder,
        "taskset": taskset,
        "options": settings.mapping("options"),
        "limit": settings.integer("limit", 10_000, least=1),
    }
    return _shared(
        (found, "-u", settings.text("server", str(SERVER))),
        json.dumps(hello),
        settings.number("seconds", 60.0, least=0.1),
        settings.number("start_seconds", 120.0, least=0.1),
    )


@functools.cache
def _shared(command: tuple[str, ...], hello: str, seconds: float, start_seconds: float) -> Helper:
    """However often this process reads the file, one helper serves it."""
    return Helper(command, json.loads(hello), PROTOCOL, seconds, start_seconds)


def _greet(settings: Settings, helper: Helper) -> Mapping[str, Any]:
    try:
        helper.ask("task", index=0)
    except HelperRefused as problem:
        raise settings.wrong("taskset", f"the helper says: {problem}") from problem
    except HelperFailure as problem:
        raise settings.wrong("python", str(problem)) from problem
    return helper.greeting


def _gold_template(settings: Settings) -> Template | None:
    """`gold: "{answer}"` over the fields of a task; `gold: none` where nobody knows."""
    text = settings.text("gold")
    if text == "none":
        return None
    try:
        return Template(text)
    except ValueError as problem:
        raise settings.wrong("gold", str(problem)) from problem


def _generate(helper: Helper, size: int, index: int) -> Draft:
    """Raises EnvironmentFailure where the helper fails twice: a task has to come from somewhere."""
    try:
        found = _twice(helper, "task", index=index % size)
    except (HelperFailure, HelperRefused) as problem:
        raise EnvironmentFailure(f"task {index}: {problem}") from problem
    messages = [(str(message["role"]), str(message["text"])) for message in found["messages"]]
    if not messages or any(role not in ROLES for role, _ in messages):
        raise EnvironmentFailure(f"task {index}: its prompt has no messages, or of other roles than {', '.join(ROLES)}")
    prompt = tuple(Message.of(role, text) for role, text in messages)  # type: ignore[arg-type]
    return Draft(prompt=prompt, reference=found["data"], metadata={"row": index % size})


def _twice(helper: Helper, method: str, **arguments: Any) -> Any:
    """A second try is worth it: the first may have found the helper dead, and this one starts another."""
    try:
        return helper.ask(method, **arguments)
    except HelperFailure:
        return helper.ask(method, **arguments)


def _gold(template: Template | None, task: Task, messages: tuple[Message, ...]) -> Message:
    if template is None:
        raise NoGold(f"{task.domain} comes from a taskset, and its file says `gold: none`")
    return Message.of("assistant", template.fill(task.reference))


def _score(helper: Helper, size: int, limits: tuple[float, float], task: Task, trajectory: Trajectory) -> Score:
    """The taskset's own rewards, weighed and added, within the declared range.

    A reward that raises is the taskset's fault on this answer; nobody knows what the answer is worth.
    """
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error or "the episode failed")
    low, high = limits
    if trajectory.status is not Status.DONE or len(trajectory.final_text) > MAX_ANSWER:
        return scored(low)
    message = trajectory.turns[-1].message
    text, reasoning = (_plain(part) for part in (message.text, message.reasoning))
    try:
        rewards = helper.ask("score", index=task.index % size, answer=text, reasoning=reasoning)
    except (HelperFailure, HelperRefused) as problem:
        return unscored(f"taskset: {problem}")
    return _sum(rewards, low, high)


def _plain(text: str) -> str:
    """Lone surrogates are no characters, and JSON on the other side would refuse them."""
    return text.encode("utf-8", "replace").decode()


def _sum(rewards: Any, low: float, high: float) -> Score:
    try:
        parts = {str(name): float(score) for name, (score, _) in rewards.items()}
        value = sum(float(score) * float(weight) for score, weight in rewards.values())
    except (AttributeError, TypeError, ValueError):
        return unscored(f"taskset: its rewards are none: {str(rewards)[:200]}")
    if not all(map(math.isfinite, [*parts.values(), value])) or not low - 1e-9 <= value <= high + 1e-9:
        return unscored(f"taskset: its reward {value} is outside of [{low:g}, {high:g}]; set low and high in the file")
    return scored(min(max(value, low), high), parts=parts)
