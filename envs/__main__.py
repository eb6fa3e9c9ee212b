"""The command line of the worlds: `python -m envs list|show|score|play|check|pages`.

In: names or globs.  Out: tables or JSON; exit code 0, 1 where a check failed, 2 for a wrong name or option.
Thin: what it shows is computed in `envs.check`, `envs.demonstrate` and `envs.pages`.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from envs.base import EnvironmentFailure
from envs.check import SECONDS_A_DOMAIN, DomainCheck, check_domains, render_score, render_task
from envs.demonstrate import demonstrate_sync, run_policy_sync, score_text
from envs.domain import Domain, Family, NoGold, select
from envs.families import FAMILIES, all_domains, with_families
from envs.pages import render_pages
from envs.tools import parse_tool_call
from envs.types import Message, Task
from rewards.score import unscored


class UsageError(Exception):
    """The user named something that does not exist; the text says what is near."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.family_paths = _family_paths(options.family)
        options.families = with_families(options.family_paths, FAMILIES)
        options.domains = all_domains(options.families)
        return _COMMANDS[options.command](options)
    except (UsageError, ValueError, EnvironmentFailure) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--family",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="add a family of your own: PKG.MODULE:FAMILY, or an adapter's YAML file",
    )
    parser = argparse.ArgumentParser(prog="python -m envs", description="Look at, play and check the domains.")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[shared])

    listing = command("list", "Domains that match a glob.")
    listing.add_argument("glob", nargs="?", default="*")
    listing.add_argument("--json", action="store_true")
    listing.add_argument("--excluded", action="store_true", help="names that are not offered, and why")
    show = command("show", "One task with its gold conversation and score.")
    score = command("score", "What an answer to one task is worth.")
    play = command("play", "Play one task: a line is an answer, or a tool call in JSON.")
    for single in (show, score, play):
        single.add_argument("name")
        single.add_argument("--task", type=int, default=0, metavar="N", help="index of the task")
    score.add_argument("--answer", required=True, metavar="TEXT")
    check = command("check", "Try out what every domain promises.")
    check.add_argument("glob", nargs="?", default="*")
    check.add_argument("--seeds", type=int, default=20, metavar="N", help="tasks of each domain")
    check.add_argument(
        "--seconds", type=float, default=SECONDS_A_DOMAIN, metavar="S", help="slow domains get fewer tasks than that"
    )
    check.add_argument("--json", action="store_true")
    command("pages", "The text of docs/domains.md: every family with a sample.")
    return parser


def _family_paths(items: Sequence[str]) -> dict[str, str]:
    paths = dict(item.partition("=")[::2] for item in items)
    for name, path in paths.items():
        if not path:
            raise UsageError(f"--family {name!r} must be written as NAME=PKG.MODULE:FAMILY or NAME=FILE.yaml")
    return paths


# ---- selection -------------------------------------------------------------------------------------------------------


def _matching(options: argparse.Namespace) -> dict[str, Domain]:
    names = select(options.domains, options.glob)
    if not names:
        raise UsageError(f"no domain matches {options.glob!r}{_nearest(options.glob, options.domains)}")
    return {name: options.domains[name] for name in names}


def _named_task(options: argparse.Namespace) -> tuple[Domain, Task]:
    if options.name not in options.domains:
        raise UsageError(_unknown_name(options.name, options.domains, options.families))
    if options.task < 0:
        raise UsageError(f"--task {options.task} is negative, indices start at 0")
    domain: Domain = options.domains[options.name]
    return domain, domain.task(options.task)


def _unknown_name(name: str, domains: Mapping[str, Domain], families: Mapping[str, Family]) -> str:
    family, _, rest = name.partition("/")
    if family in families and rest in families[family].excluded:
        return f"{name!r} is excluded: {families[family].excluded[rest]}"
    return f"there is no domain {name!r}{_nearest(name, domains)}"


def _nearest(name: str, domains: Mapping[str, Domain]) -> str:
    """The most similar names, also by the part after the slash; two lines at most."""
    short = {domain.split("/")[1]: domain for domain in domains}
    families = {domain.split("/")[0] for domain in domains}
    near = difflib.get_close_matches(name, [*domains, *families], n=3, cutoff=0.6)
    near += [short[key] for key in difflib.get_close_matches(name.split("/")[-1], short, n=2, cutoff=0.7)]
    hint = f"\nnearest: {', '.join(dict.fromkeys(near))}" if near else ""
    return f"{hint}\n`python -m envs list` shows all {len(domains)}"


# ---- commands --------------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    if options.excluded:
        return _list_excluded(options)
    rows = [(_contract if options.json else _row)(domain) for domain in _matching(options).values()]
    if options.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        _print_table(rows, f"{len(rows)} domains")
    return 0


def _list_excluded(options: argparse.Namespace) -> int:
    reasons = {f"{f.name}/{name}": reason for f in options.families.values() for name, reason in f.excluded.items()}
    rows = [{"name": name, "reason": reasons[name]} for name in select(sorted(reasons), options.glob)]
    if options.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        _print_table(rows, f"{len(rows)} excluded")
    return 0


def _row(domain: Domain) -> dict[str, Any]:
    return {
        "name": domain.name,
        "family": domain.family,
        "turns": domain.max_turns,
        "tools": [tool.name for tool in domain.tools],
        "generator": domain.generator_id,
        "verifier": domain.verifier_id,
        "licence": domain.licence,
        "source": domain.source,
    }


def _contract(domain: Domain) -> dict[str, Any]:
    """All that a domain declares, for --json."""
    return _row(domain) | {
        "tiers": list(domain.tiers),
        "score_range": list(domain.score_range),
        "knobs": dict(domain.knobs),
        "permissions": dataclasses.asdict(domain.permissions),
        "needs_sandbox": domain.needs_sandbox,
        "needs_module": domain.needs_module,
        "gold": "gold" if domain.margin is None else f"beats random by {domain.margin.points:g}",
    }


def _show(options: argparse.Namespace) -> int:
    domain, task = _named_task(options)
    try:
        messages, score = demonstrate_sync(domain, task)
    except NoGold as problem:
        messages, score = [], unscored(f"no gold: {problem}")
    print(render_task(task, messages, score))
    return 0


def _score(options: argparse.Namespace) -> int:
    domain, task = _named_task(options)
    print(render_score(score_text(domain, task, options.answer)))
    return 0


def _play(options: argparse.Namespace) -> int:
    domain, task = _named_task(options)
    for message in task.prompt:
        print(f"[{message.role}] {message.text}")
    for tool in domain.tools:
        print(f"[tool {tool.name}] {tool.description} {json.dumps(dict(tool.parameters))}")
    try:
        trajectory = run_policy_sync(domain, task, _ask_person)
    except EOFError:
        print("\nended without an answer")
        return 0
    print(f"{trajectory.status.value}: {render_score(domain.score(task, trajectory))}")
    return 0


def _ask_person(task: Task, messages: tuple[Message, ...]) -> Message:
    """The policy is whoever sits at the keyboard; replies since the last line are shown first."""
    new = messages[max((i + 1 for i, m in enumerate(messages) if m.role == "assistant"), default=0) :]
    for message in new:
        print(f"[{message.role} {message.name}] {message.text}")
    line = input("> ")
    if line.lstrip().startswith('{"name"'):
        return Message.of("assistant", "", tool_calls=(parse_tool_call(line.strip()),))
    return Message.of("assistant", line)


def _check(options: argparse.Namespace) -> int:
    if options.seeds < 1:
        raise UsageError(f"--seeds {options.seeds} must be at least 1")
    checks = check_domains(_matching(options), options.seeds, options.family_paths, options.seconds)
    if options.json:
        print(json.dumps([_as_json(check) for check in checks], ensure_ascii=False, indent=1))
    else:
        _print_checks(checks)
    return 0 if all(check.is_good for check in checks) else 1


def _pages(options: argparse.Namespace) -> int:
    print(render_pages(options.families), end="")
    return 0


def _as_json(check: DomainCheck) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(check).items() if key != "tasks"}


def _print_checks(checks: Sequence[DomainCheck]) -> None:
    rows = [
        {
            "name": check.name,
            "ok": "yes" if check.is_good else "NO",
            "tasks": check.num_tasks,
            "gold": f"{check.gold_score:.2f}",
            "constant": f"{check.constant_score:.2f}",
            "duplicates": f"{check.duplicate_rate:.0%}",
            "accepted": len(check.accepted),
            "make ms": f"{1000 * check.generate_seconds:.1f}",
            "score ms": f"{1000 * check.score_seconds:.1f}",
        }
        for check in checks
    ]
    num_bad = sum(not check.is_good for check in checks)
    _print_table(rows, f"{len(checks)} domains checked, {num_bad} with problems")
    for check in checks:
        for line in check.problems:
            print(f"problem  {check.name}: {line}")
        for line in check.warnings:
            print(f"warning  {check.name}: {line}")
        for label, reason in check.accepted.items():
            print(f"accepted {check.name}: {label}, {reason}")


def _print_table(rows: Sequence[Mapping[str, Any]], caption: str) -> None:
    table = Table(*(rows[0] if rows else ()), caption=caption)
    for row in rows:
        cells = (", ".join(value) if isinstance(value, list) else str(value) for value in row.values())
        table.add_row(*(escape(cell) for cell in cells))
    console = Console()
    Console(width=None if console.is_terminal else 200).print(table)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "score": _score,
    "play": _play,
    "check": _check,
    "pages": _pages,
}

if __name__ == "__main__":
    sys.exit(main())
