"""What every domain promises, tried out: the same tasks everywhere, a gold that wins, and no prize for nonsense.

In: domains and a number of tasks each.  Out: a `DomainCheck` each, with problems (broken promises) and warnings.
Called by `python -m envs check` and tests.  Domains whose tasks or verdicts take long are tried on fewer tasks.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envs.demonstrate import demonstrate_sync, run_policy_sync, score_text
from envs.domain import Domain, NoGold, Policy
from envs.elsewhere import OTHER_HASH_SEED, Elsewhere, digest
from envs.families import FAMILIES, all_domains
from envs.tools import check_arguments, parse_tool_call
from envs.types import Message, Status, Task, ToolCall, Trajectory
from rewards.score import Score

CONSTANT_LIMIT = 0.5
NUM_HOSTILE_TASKS = 3
NUM_FOREIGN_GOLDS = 12
LEAST_TASKS = 3  # however slow a domain is
SECONDS_A_DOMAIN = 10.0
# Their golds are tried on every domain, also where it is checked alone.
BAIT = ("math/add", "text/sort", "logic/and_or", "tools/store")
# Tried as constant answers, besides the most common golds.
CONSTANTS = ("0", "1", "2", "yes", "no", "true", "false", "[]", "A")

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
    """The findings on one domain.

    - `num_tasks`: tried, at most `num_asked`; fewer where the domain is slow.
    - `accepted`: a hostile answer that scored the maximum -> why that is right.
    """

    name: str
    num_asked: int
    num_tasks: int = 0
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)
    duplicate_rate: float = 0.0
    gold_score: float = 0.0
    constant_answer: str = ""
    constant_score: float = 0.0
    random_score: float = 0.0
    generate_seconds: float = 0.0
    score_seconds: float = 0.0
    tasks: list[Task] = field(default_factory=list, repr=False)

    @property
    def is_good(self) -> bool:
        return not self.problems


def check_domains(
    domains: Mapping[str, Domain],
    num_tasks: int,
    family_paths: Mapping[str, str] | None = None,
    seconds: float = SECONDS_A_DOMAIN,
) -> list[DomainCheck]:
    """Check each domain on its first `num_tasks` indices, or as many as take it about `seconds`.

    `family_paths` names the user's own families.
    """
    checks = [_started(domain, num_tasks, seconds) for domain in domains.values()]
    elsewhere = Elsewhere({check.name: len(check.tasks) for check in checks}, family_paths or {})
    baits = {name: domain for name, domain in all_domains(FAMILIES).items() if name in BAIT} | dict(domains)
    golds = {name: _final_text(domain) for name, domain in baits.items()}
    known: set[tuple[str, str]] = set()
    for number, (check, domain) in enumerate(zip(checks, domains.values(), strict=True)):
        code = (domain.generator_id, domain.verifier_id)
        _finish(check, domain, {} if code in known else _foreign(golds, domain.name, number), seconds, code in known)
        known.add(code)
    found = elsewhere.result()
    for check in checks:
        _check_elsewhere(check, found.get(check.name))
    return checks


def check_domain(
    domain: Domain, num_tasks: int, elsewhere: str | None = None, foreign_golds: Mapping[str, str] | None = None
) -> DomainCheck:
    """All checks of one domain; `elsewhere` is the digest that another process made, None to skip that check."""
    check = _started(domain, num_tasks, SECONDS_A_DOMAIN)
    _finish(check, domain, foreign_golds or {}, SECONDS_A_DOMAIN)
    _check_elsewhere(check, elsewhere)
    return check


def _started(domain: Domain, num_tasks: int, seconds: float) -> DomainCheck:
    """The tasks are made, here; another process will make them again."""
    check = DomainCheck(name=domain.name, num_asked=num_tasks)
    if domain.not_installed:
        check.warnings.append(f"left out: {domain.not_installed}")
        return check
    start = time.perf_counter()
    try:
        for index in range(num_tasks):
            if index >= LEAST_TASKS and time.perf_counter() - start > seconds / 4:
                break
            check.tasks.append(domain.task(index))
    except Exception as problem:  # any exception is the finding, it is reported in full
        check.problems.append(f"making task {len(check.tasks)} raises {_words(problem)}")
    check.generate_seconds = (time.perf_counter() - start) / max(len(check.tasks), 1)
    return check


def _finish(
    check: DomainCheck, domain: Domain, foreign_golds: Mapping[str, str], seconds: float, known_code: bool = False
) -> None:
    """`known_code`: another level of the same code was tried already, so that nonsense is tried on one task only."""
    if not check.is_good or not check.tasks:
        return
    _check_tasks(check, domain)
    golds = _check_gold(check, domain, seconds / 4)
    tasks = check.tasks[: len(golds)]
    nonsense = tasks[: 1 if known_code else NUM_HOSTILE_TASKS]
    _check_hostile(check, domain, nonsense, golds, foreign_golds)
    _check_hostile_calls(check, domain, nonsense)
    if check.is_good:  # else the scorer may raise, and the finding is made
        usual = () if known_code and domain.needs_sandbox else CONSTANTS
        _check_constant(check, domain, tasks, golds, usual, seconds / 4)


def _check_elsewhere(check: DomainCheck, found: str | None) -> None:
    if found is not None and check.tasks and found != digest(check.tasks):
        check.problems.append(f"tasks differ in another process with PYTHONHASHSEED={OTHER_HASH_SEED}")


def _check_tasks(check: DomainCheck, domain: Domain) -> None:
    tasks = check.tasks
    if len({task.id for task in tasks}) < len(tasks):
        check.problems.append("two tasks have the same id")
    if domain.task(tasks[0].index) != tasks[0]:
        check.problems.append("a task differs when it is made again")
    check.duplicate_rate = 1 - len({task.prompt for task in tasks}) / len(tasks)
    if check.duplicate_rate > 0.5:
        check.warnings.append(f"{check.duplicate_rate:.0%} of the prompts are duplicates")


# ---- gold ------------------------------------------------------------------------------------------------------------


def _check_gold(check: DomainCheck, domain: Domain, seconds: float) -> list[str]:
    """Demonstrations must parse and score the maximum, or their margin; returns the final texts of those tried."""
    finals: list[str] = []
    values: list[float] = []
    start = time.perf_counter()
    for task in check.tasks:
        if len(finals) >= LEAST_TASKS and time.perf_counter() - start > seconds:
            break
        try:
            trajectory = run_policy_sync(domain, task, domain.gold)
            score = domain.score(task, trajectory)
        except NoGold as problem:
            check.warnings += [f"no gold: {problem}"] if not finals else []
            finals.append("")
            continue
        except Exception as problem:  # any exception is the finding, it is reported in full
            check.problems.append(f"gold of {task.id} raises {_words(problem)}")
            finals.append("")
            continue
        finals.append(trajectory.final_text)
        values.append(score.value or 0.0)
        check.problems += [f"gold of {task.id} {fault}" for fault in _gold_faults(domain, trajectory, score)]
    check.num_tasks = len(finals)
    check.score_seconds = (time.perf_counter() - start) / len(finals)
    check.gold_score = sum(values) / len(finals)
    if domain.margin is not None:
        _check_margin(check, domain, check.tasks[: len(finals)])
    return finals


def _gold_faults(domain: Domain, trajectory: Trajectory, score: Score) -> list[str]:
    faults = []
    if trajectory.status is not Status.DONE:
        faults.append(f"does not end within {domain.max_turns} turns")
    if score.value is None:
        faults.append(f"is unscored: {score.reason}")
    elif domain.margin is None and score.value != domain.score_range[1]:
        faults.append(f"scores {score.value}, not {domain.score_range[1]}")
    if score.value is not None and domain.parts and score.parts.keys() != domain.parts.keys():
        faults.append(f"has the parts {sorted(score.parts)}, declared are {sorted(domain.parts)}")
    calls = [call for turn in trajectory.turns for call in turn.message.tool_calls]
    return faults + [fault for call in calls if (fault := _call_fault(domain, call))]


def _call_fault(domain: Domain, call: ToolCall) -> str:
    """Empty where the call is read back from its own text, and fits its tool."""
    if parse_tool_call(call.raw) != call:
        return f"has a call that is read back otherwise: {call.raw[:60]!r}"
    spec = next((tool for tool in domain.tools if tool.name == call.name), None)
    if spec is None:
        return f"calls {call.name!r}, which is none of the domain's tools"
    wrong = check_arguments(spec, call.arguments)
    return f"calls {call.name} with wrong arguments: {wrong}" if wrong else ""


def _check_margin(check: DomainCheck, domain: Domain, tasks: Sequence[Task]) -> None:
    """The reference policy of an adversarial game must beat the random one by what the domain states."""
    assert domain.margin is not None
    scores = [domain.score(task, run_policy_sync(domain, task, domain.margin.random)) for task in tasks]
    check.random_score = sum(score.value or 0.0 for score in scores) / len(scores)
    if check.gold_score - check.random_score < domain.margin.points:
        check.problems.append(
            f"the reference policy scores {check.gold_score:.2f}, a random one {check.random_score:.2f}: "
            f"less than {domain.margin.points:g} apart"
        )


# ---- nonsense --------------------------------------------------------------------------------------------------------


def _foreign(golds: Mapping[str, str], name: str, number: int) -> dict[str, str]:
    """Golds of other domains: all baits, and others evenly from the rest, not the same for each domain."""
    others = [other for other in golds if other != name and other not in BAIT]
    step = max(1, len(others) // NUM_FOREIGN_GOLDS)
    chosen = [*others[number % step :: step][:NUM_FOREIGN_GOLDS], *(other for other in BAIT if other != name)]
    return {other: golds[other] for other in chosen}


def _check_hostile(
    check: DomainCheck, domain: Domain, tasks: Sequence[Task], golds: Sequence[str], foreign: Mapping[str, str]
) -> None:
    answers = HOSTILE_ANSWERS | {f"gold of {name}": text for name, text in foreign.items()}
    for task, gold in zip(tasks, golds, strict=False):
        for label, answer in answers.items():
            problem = _hostile_problem(domain, task, answer)
            if problem == "maximum" and _same_answer(answer, gold):
                check.accepted[label] = f"it is the answer of {task.id}"
            elif problem:
                check.problems.append(f"{label} as the answer of {task.id}: {problem}")


def _hostile_problem(domain: Domain, task: Task, answer: str) -> str:
    return _verdict_problem(domain, task, lambda task, messages: Message.of("assistant", answer))


def _verdict_problem(domain: Domain, task: Task, policy: Policy) -> str:
    """Empty where the verdict is a number in range below the maximum."""
    try:
        score = domain.score(task, run_policy_sync(domain, task, policy))
    except Exception as problem:  # any exception is the finding, it is reported in full
        return f"raises {_words(problem)}"
    low, high = domain.score_range
    if score.value is None:
        return f"unscored: {score.reason}"
    if not low <= score.value <= high:
        return f"scores {score.value}, outside [{low}, {high}]"
    if domain.parts and score.parts.keys() != domain.parts.keys():
        return f"has the parts {sorted(score.parts)}, declared are {sorted(domain.parts)}"
    return "maximum" if score.value == high else ""


def _check_hostile_calls(check: DomainCheck, domain: Domain, tasks: Sequence[Task]) -> None:
    """Calls that no tool takes, in each turn: never an exception, and never the maximum."""
    if not domain.tools:
        return
    known = domain.tools[0].name
    for raw in (
        "",
        "{",
        "null",
        f'{{"name": "{known}", "arguments": {{}}}}',
        '{"name": "no_such_tool", "arguments": {}}',
    ):
        policy = _calls_only(raw)
        for task in tasks:
            if problem := _verdict_problem(domain, task, policy):
                check.problems.append(f"the call {raw!r} in each turn of {task.id}: {problem}")


def _calls_only(raw: str) -> Policy:
    return lambda task, messages: Message.of("assistant", "", tool_calls=(parse_tool_call(raw),))


def _check_constant(
    check: DomainCheck,
    domain: Domain,
    tasks: Sequence[Task],
    golds: Sequence[str],
    usual: Sequence[str],
    seconds: float,
) -> None:
    """The best single answer, tried among the most common gold answers and the `usual` ones."""
    start = time.perf_counter()
    for answer in dict.fromkeys([gold for gold, _ in Counter(golds).most_common(3)] + list(usual)):
        mean = sum(score_text(domain, task, answer).value or 0.0 for task in tasks) / len(tasks)
        if mean > check.constant_score:
            check.constant_answer, check.constant_score = answer, mean
        if time.perf_counter() - start > seconds:
            break
    if check.constant_score > CONSTANT_LIMIT and len(tasks) > LEAST_TASKS:
        check.warnings.append(f"the constant answer {check.constant_answer[:40]!r} scores {check.constant_score:.2f}")


def _final_text(domain: Domain) -> str:
    """What the gold of the first task ends with, as bait for the others."""
    if domain.not_installed:
        return ""
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
