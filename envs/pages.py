"""What docs/domains.md says: `python -m envs pages > docs/domains.md`.

In: the families.  Out: Markdown, a page a family: what it is, its skills, a sample with its gold conversation and
score, and what a task and a verdict cost.  Called by `python -m envs pages` and by the test that the file in docs/ is
what the code says.
"""

from __future__ import annotations

import statistics
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence

from envs.demonstrate import demonstrate_sync
from envs.domain import Domain, Family
from envs.types import Message

LEVELS = ("easy", "hard")  # suffixes of names; medium has none
SAMPLE_CHARACTERS = 1_600  # of a message; the middle of a longer one is left out
COSTED_DOMAINS, COSTED_TASKS = 8, 2  # a family's costs are medians over so many domains and tasks of each
COST_LINE = "A task takes"  # begins the only line that differs from machine to machine

HEAD = """\
# Domains

{num_domains} domains in {num_families} families, {num_codes} of them distinct: with a generator or a verifier of their
own (levels, number ranges and names make no other domain). {num_multi} distinct ones take several turns, {num_tools}
use tools.

This page is written by `python -m envs pages`, from the code; a test compares the two. `python -m envs show NAME
--task 3` shows any task, `python -m envs play NAME` lets you try, `python -m envs list` shows all with their licences,
`python -m envs check GLOB` tries what they promise. Weights are set in [conf/mix](../conf/mix).

Every skill has the levels `NAME-easy`, `NAME` (medium) and `NAME-hard` where nothing else is said. Tiers are the
thinking budgets that make sense for it. Costs were measured on one slow core, without an engine.

| family | distinct | domains | turns | tools | sandbox | licence |
|---|---|---|---|---|---|---|
"""


def render_pages(families: Mapping[str, Family]) -> str:
    """The whole of docs/domains.md."""
    found = {name: sorted(family.domains(), key=lambda domain: domain.name) for name, family in families.items()}
    everything = [domain for domains in found.values() for domain in domains]
    head = HEAD.format(
        num_domains=len(everything),
        num_families=len(families),
        num_codes=len(_codes(everything)),
        num_multi=len(_codes(domain for domain in everything if domain.max_turns > 1)),
        num_tools=len(_codes(domain for domain in everything if domain.tools)),
    )
    rows = [_summary(name, domains) for name, domains in found.items()]
    pages = [_page(families[name], domains) for name, domains in found.items()]
    return head + "\n".join([*rows, "", *pages])


def skills_of(domains: Iterable[Domain]) -> dict[str, list[str]]:
    """Skill -> its levels, by the names: `["a-easy", "a", "b"]` -> `{"a": ["easy", "medium"], "b": ["medium"]}`."""
    found: dict[str, list[str]] = {}
    names = {domain.name for domain in domains}
    for domain in domains:
        family, _, short = domain.name.partition("/")
        skill, dash, level = short.rpartition("-")
        is_level = bool(dash) and (level in LEVELS or f"{family}/{skill}" in names)
        found.setdefault(skill if is_level else short, []).append(level if is_level else "medium")
    return {skill: sorted(levels, key=_level_order) for skill, levels in sorted(found.items())}


def _level_order(level: str) -> tuple[int, str]:
    order = ("easy", "medium", "hard")
    return (order.index(level), "") if level in order else (len(order) + len(level), level)


def _codes(domains: Iterable[Domain]) -> set[tuple[str, str]]:
    return {(domain.generator_id, domain.verifier_id) for domain in domains}


def _summary(name: str, domains: Sequence[Domain]) -> str:
    turns = [domain.max_turns for domain in domains]
    span = f"{min(turns)}" if min(turns) == max(turns) else f"{min(turns)} to {max(turns)}"
    tools, boxed = (sum(map(bool, flags)) for flags in zip(*((d.tools, d.needs_sandbox) for d in domains), strict=True))
    licences = ", ".join(sorted({domain.licence for domain in domains}))
    return f"| [{name}](#{name}) | {len(_codes(domains))} | {len(domains)} | {span} | {tools} | {boxed} | {licences} |"


def _page(family: Family, domains: Sequence[Domain]) -> str:
    low, high = min(d.score_range[0] for d in domains), max(d.score_range[1] for d in domains)
    lines = [
        f"## {family.name}",
        "",
        _filled(family.about),
        "",
        _filled(f"Scores from {low:g} to {high:g}. {_sources(domains)} {_tiers(domains)}"),
        *([] if _needed(domains) else [_costs(domains)]),
        "",
        _skills(domains),
        "",
    ]
    if family.excluded:
        lines += [
            f"Not offered: {len(family.excluded)}, and `python -m envs list '{family.name}/*' --excluded` says why.",
            "",
        ]
    return "\n".join([*lines, _needed(domains) or _sample(domains), ""])


def _needed(domains: Sequence[Domain]) -> str:
    """What to install before a sample can be made; the page is the same where that is installed."""
    if not (module := domains[0].needs_module):
        return ""
    return _filled(
        f"It needs `{module}`, which is no part of the usual set-up: `pip install 'jointrl[games]'`. Then "
        f"`python -m envs show {domains[0].name}` shows a sample and its gold."
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def _sources(domains: Sequence[Domain]) -> str:
    sources = sorted({domain.source for domain in domains})
    shown = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
    return f"{'Source' if len(sources) == 1 else 'Sources'}: {shown}."


def _tiers(domains: Sequence[Domain]) -> str:
    kinds = sorted({domain.tiers for domain in domains}, key=len)
    return f"Tiers: {'; or '.join(', '.join(kind) for kind in kinds)}."


def _skills(domains: Sequence[Domain]) -> str:
    """Skills with the usual levels in one line, others with theirs."""
    skills = skills_of(domains)
    usual = [skill for skill, levels in skills.items() if levels == ["easy", "medium", "hard"]]
    other = [f"`{skill}` ({', '.join(levels)})" for skill, levels in skills.items() if skill not in usual]
    lines = [f"Skills: {', '.join(f'`{skill}`' for skill in usual)}."] if usual else []
    return "\n\n".join(map(_filled, lines + ([f"With other levels: {', '.join(other)}."] if other else [])))


def _costs(domains: Sequence[Domain]) -> str:
    """Median milliseconds; a first task pays for imports, so it is not counted."""
    step = max(1, len(domains) // COSTED_DOMAINS)
    make, play = [], []
    for domain in domains[::step]:
        demonstrate_sync(domain, domain.task(0))
        for index in range(1, 1 + COSTED_TASKS):
            began = time.perf_counter()
            task = domain.task(index)
            made = time.perf_counter()
            demonstrate_sync(domain, task)
            make.append(made - began)
            play.append(time.perf_counter() - made)
    return (
        f"{COST_LINE} {_milliseconds(make)} to make, its gold episode with the verdict {_milliseconds(play)} (medians)."
    )


def _milliseconds(seconds: Sequence[float]) -> str:
    return f"{1000 * statistics.median(seconds):.1f} ms"


def _sample(domains: Sequence[Domain]) -> str:
    """The first task of the domain, among the first few of the easiest level, whose episode is shortest to read."""
    easiest = [domain for domain in domains if domain.name.endswith("-easy")] or list(domains)
    samples = []
    for domain in easiest[:12]:
        task = domain.task(0)
        messages, score = demonstrate_sync(domain, task)
        text = "\n".join(_lines((*task.prompt, *messages)))
        samples.append(
            (len(text), f"`python -m envs show {domain.name}`, worth {score.value:g}:\n\n````text\n{text}\n````")
        )
    return min(samples)[1]


def _lines(messages: Iterable[Message]) -> Iterable[str]:
    for message in messages:
        text = message.text
        if len(text) > SAMPLE_CHARACTERS:
            left_out = len(text) - SAMPLE_CHARACTERS
            half = SAMPLE_CHARACTERS // 2
            text = f"{text[:half]}\n[... {left_out:,} characters ...]\n{text[-half:]}"
        if text:
            yield f"[{f'{message.role} {message.name}'.strip()}] {text}"
        yield from (f"[{message.role}, call] {call.raw}" for call in message.tool_calls)
