"""What every domain promises, tried out: the same tasks everywhere, a gold that wins, and no prize for nonsense.

In: domains and a number of tasks each.  Out: a `DomainCheck` each, with problems (broken promises) and warnings.
Called by `python -m envs check` and tests.  `python -m envs.check` is the helper process that makes the same tasks
under another PYTHONHASHSEED.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.demonstrate import demonstrate_sync, score_text
from envs.domain import Domain, Family
from envs.families import FAMILIES, all_domains, with_families
from envs.types import Message, Task
from rewards.score import Score

OTHER_HASH_SEED = "4242"
CONSTANT_LIMIT = 0.5
NUM_HOSTILE_TASKS = 3
DIGEST_TIMEOUT_SECONDS = 900

HOSTILE_ANSWERS: dict[str, str] = {
    "empty": "",
    "white space": " \n\t ",
    "100 kB": "a" * 100_000,
    "NUL": "\0",
    "emoji": "😀🏁",
    "invalid JSON": '{"name": "x", "arguments": {',
    "not a number": "nan",
}


@dataclass(slots=True, kw_only=True)
class DomainCheck:
    """The findings on one domain.  `accepted` maps a hostile answer that scored the maximum to why that is right."""

    name: str
    num_tasks: int
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)
    duplicate_rate: float = 0.0
    gold_score: float = 0.0
    constant_answer: str = ""
    constant_score: float = 0.0
    generate_seconds: float = 0.0
    score_seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        return not self.problems


def check_domains(
    domains: Mapping[str, Domain], num_tasks: int, family_paths: Mapping[str, str] | None = None
) -> list[DomainCheck]:
    """Check each domain on its first `num_tasks` indices.  `family_paths` names the user's own families."""
    elsewhere = digests_elsewhere(list(domains), num_tasks, family_paths or {})
    foreign = {name: _final_text(domain) for name, domain in domains.items()}
    return [check_domain(domain, num_tasks, elsewhere.get(name), foreign) for name, domain in domains.items()]


def check_domain(
    domain: Domain, num_tasks: int, elsewhere: str | None = None, foreign_golds: Mapping[str, str] | None = None
) -> DomainCheck:
    """All checks of one domain; `elsewhere` is the digest that another process made, None to skip that check."""
    check = DomainCheck(name=domain.name, num_tasks=num_tasks)
    start = time.perf_counter()
    try:
        tasks = [domain.task(index) for index in range(num_tasks)]
    except Exception as problem:  # any exception is the finding, it is reported in full
        check.problems.append(f"making a task raises {_words(problem)}")
        return check
    check.generate_seconds = (time.perf_counter() - start) / num_tasks
    _check_tasks(check, domain, tasks, elsewhere)
    golds = _check_gold(check, domain, tasks)
    _check_hostile(check, domain, tasks[:NUM_HOSTILE_TASKS], golds, foreign_golds or {})
    if check.is_good:  # else the scorer may raise, and the finding is made
        _check_constant(check, domain, tasks, golds)
    return check


def _check_tasks(check: DomainCheck, domain: Domain, tasks: Sequence[Task], elsewhere: str | None) -> None:
    if len({task.id for task in tasks}) < len(tasks):
        check.problems.append("two tasks have the same id")
    if domain.task(tasks[0].index) != tasks[0]:
        check.problems.append("a task differs when it is made again")
    if elsewhere is not None and elsewhere != digest(tasks):
        check.problems.append(f"tasks differ in another process with PYTHONHASHSEED={OTHER_HASH_SEED}")
    check.duplicate_rate = 1 - len({task.prompt for task in tasks}) / len(tasks)
    if check.duplicate_rate > 0.5:
        check.warnings.append(f"{check.duplicate_rate:.0%} of the prompts are duplicates")


def _check_gold(check: DomainCheck, domain: Domain, tasks: Sequence[Task]) -> list[str]:
    """Demonstrations must score the maximum; returns their final texts."""
    finals, total, start = [], 0.0, time.perf_counter()
    for task in tasks:
        try:
            messages, score = demonstrate_sync(domain, task)
        except Exception as problem:  # any exception is the finding, it is reported in full
            check.problems.append(f"gold of {task.id} raises {_words(problem)}")
            finals.append("")
            continue
        finals.append(messages[-1].text)
        if score.value is None:
            check.problems.append(f"gold of {task.id} is unscored: {score.reason}")
        elif score.value != domain.score_range[1]:
            check.problems.append(f"gold of {task.id} scores {score.value}, not {domain.score_range[1]}")
        total += score.value or 0.0
    check.score_seconds = (time.perf_counter() - start) / len(tasks)
    check.gold_score = total / len(tasks)
    return finals


def _check_hostile(
    check: DomainCheck, domain: Domain, tasks: Sequence[Task], golds: Sequence[str], foreign: Mapping[str, str]
) -> None:
    answers = HOSTILE_ANSWERS | {f"gold of {name}": text for name, text in foreign.items() if name != domain.name}
    for task, gold in zip(tasks, golds, strict=False):
        for label, answer in answers.items():
            problem = _hostile_problem(domain, task, answer)
            if problem == "maximum" and _same_answer(answer, gold):
                check.accepted[label] = f"it is the answer of {task.id}"
            elif problem:
                check.problems.append(f"{label} as the answer of {task.id}: {problem}")


def _hostile_problem(domain: Domain, task: Task, answer: str) -> str:
    """Empty where the verdict is a number in range below the maximum."""
    try:
        score = score_text(domain, task, answer)
    except Exception as problem:  # any exception is the finding, it is reported in full
        return f"raises {_words(problem)}"
    low, high = domain.score_range
    if score.value is None:
        return f"unscored: {score.reason}"
    if not low <= score.value <= high:
        return f"scores {score.value}, outside [{low}, {high}]"
    return "maximum" if score.value == high else ""


def _check_constant(check: DomainCheck, domain: Domain, tasks: Sequence[Task], golds: Sequence[str]) -> None:
    """The best single answer, tried among the most common gold answers."""
    for answer, _ in Counter(golds).most_common(3):
        mean = sum(score_text(domain, task, answer).value or 0.0 for task in tasks) / len(tasks)
        if mean > check.constant_score:
            check.constant_answer, check.constant_score = answer, mean
    if check.constant_score > CONSTANT_LIMIT and len(tasks) > 2:
        check.warnings.append(f"the constant answer {check.constant_answer[:40]!r} scores {check.constant_score:.2f}")


def _final_text(domain: Domain) -> str:
    """What the gold of the first task ends with, as bait for the others."""
    try:
        return demonstrate_sync(domain, domain.task(0))[0][-1].text
    except Exception:  # reported by the check of that domain itself
        return ""


def _words(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _same_answer(answer: str, gold: str) -> bool:
    """Up to answer tags, case, white space, and the spelling of a number."""
    answer, gold = _bare(answer), _bare(gold)
    if _NUMBER.fullmatch(answer) and _NUMBER.fullmatch(gold):
        return float(answer) == float(gold)
    return answer == gold


_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")


def _bare(text: str) -> str:
    return " ".join(re.sub(r"</?answer>", " ", text).casefold().split())


# ---- the same tasks in another process ------------------------------------------------------------------------------


def digest(tasks: Sequence[Task]) -> str:
    """A hash of all that a task is; sets, whose order depends on the hash seed, show as what they are."""
    text = "\n".join(repr((task.id, task.prompt, task.reference, dict(task.metadata))) for task in tasks)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digests(domains: Mapping[str, Domain], names: Sequence[str], num_tasks: int) -> dict[str, str]:
    """Made from the last index to the first: a task may not depend on which others were made before it."""
    return {name: _digest_of(domains[name], num_tasks) for name in names}


def _digest_of(domain: Domain, num_tasks: int) -> str:
    try:
        return digest([domain.task(index) for index in reversed(range(num_tasks))][::-1])
    except Exception as problem:  # no digest: the caller sees that they differ
        return f"raises {_words(problem)}"


def digests_elsewhere(names: Sequence[str], num_tasks: int, family_paths: Mapping[str, str]) -> dict[str, str]:
    """`digests` in a fresh process under another PYTHONHASHSEED."""
    request = json.dumps({"names": list(names), "num_tasks": num_tasks, "families": dict(family_paths)})
    environment = os.environ | {
        "PYTHONHASHSEED": OTHER_HASH_SEED,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "envs.check"],
        input=request,
        capture_output=True,
        text=True,
        env=environment,
        timeout=DIGEST_TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the helper process failed with code {done.returncode}:\n{done.stderr[-2000:]}")
    answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _answer_request() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    families: dict[str, Family] = with_families(request["families"], FAMILIES)
    print(json.dumps(digests(all_domains(families), request["names"], request["num_tasks"])))


# ---- for people ------------------------------------------------------------------------------------------------------


def render_task(task: Task, messages: Sequence[Message], score: Score) -> str:
    """One task with a conversation and its score, as plain text."""
    lines = [f"id         {task.id}", f"reference  {task.reference!r}", f"metadata   {dict(task.metadata)!r}", ""]
    for message in (*task.prompt, *messages):
        label = f"{message.role} {message.name}".strip()
        if message.reasoning:
            lines.append(f"[{label}, reasoning] {message.reasoning}")
        if message.text or not (message.tool_calls or message.reasoning):
            lines.append(f"[{label}] {message.text}")
        lines += [f"[{label}, call] {call.raw}" for call in message.tool_calls]
    return "\n".join([*lines, "", render_score(score)])


def render_score(score: Score) -> str:
    if score.value is None:
        return f"unscored   {score.reason}"
    parts = ", ".join(f"{name} {value:g}" for name, value in score.parts.items())
    return f"score      {score.value:g}" + (f"  ({parts})" if parts else "")


if __name__ == "__main__":
    _answer_request()
