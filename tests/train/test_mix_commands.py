"""`python -m train … mix.show=true`: the printed table, row by row, and nothing else happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from envs.families import all_domains
from train import __main__ as command

# domain -> (weight, groups a step, where it comes from)
Table = dict[str, tuple[str, str, str]]
Show = Callable[..., dict[str, Table]]

PROCEDURAL = ("logic", "math", "sequence", "text", "tools")
BASE = ("stage=rl", "mix=procedural", "algorithm.groups_per_step=60")
DOMAINS: dict[str, list[str]] = {}
for _name, _domain in all_domains().items():
    if not _domain.not_installed:
        DOMAINS.setdefault(_domain.family, []).append(_name)


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    """`show(*arguments)`: the tables of the stages, checked for their sums, by the names they are printed under."""

    def run(*arguments: str) -> dict[str, Table]:
        assert command.main([f"runs_dir={tmp_path}", *arguments, "mix.show=true"]) == command.OK
        assert list(tmp_path.iterdir()) == []
        printed = capsys.readouterr().out.strip().split("\n\n")
        return dict(map(parse, printed))

    return run


def parse(block: str) -> tuple[str, Table]:
    title, header, *rows, total = block.splitlines()
    assert header.split() == ["domain", "weight", "groups/step", "first", "step", "from"]
    table: Table = {}
    first_steps = 0
    for row in rows:
        domain, weight, quota, first, origin = re.split(r"\s{2,}", row, maxsplit=4)
        assert abs(int(first) - float(quota)) < 1
        first_steps += int(first)
        table[domain] = (weight, quota, origin)
    taking_part = [domain for domain, (weight, _, _) in table.items() if weight != "0.0000%"]
    families = {domain.split("/")[0] for domain in taking_part}
    sums = re.split(r"\s{2,}", total)
    assert sums[:2] == [f"{len(taking_part)} domains, {len(families)} families", "100%"]
    assert int(sums[2]) == int(sums[3]) == first_steps
    rounding = 0.00005 * len(table) + 1e-6
    assert sum(float(weight.rstrip("%")) for weight, _, _ in table.values()) == pytest.approx(100, abs=rounding)
    # Every row is rounded to a thousandth.
    assert sum(float(q) for _, q, _ in table.values()) == pytest.approx(int(sums[2]), abs=0.0005 * len(table) + 1e-6)
    return title.removeprefix("[mix] "), table


def table_of(families: dict[str, float], origins: dict[str, str] | None = None, groups: int = 60) -> Table:
    """Families with these weights, split evenly over their domains."""
    total = sum(families.values())
    return {
        name: row(weight / total / len(DOMAINS[family]), groups, (origins or {}).get(family, "conf/mix"))
        for family, weight in families.items()
        for name in DOMAINS[family]
    }


def row(share: float, groups: int = 60, origin: str = "conf/mix") -> tuple[str, str, str]:
    return f"{share:.4%}", f"{share * groups:.3f}", origin


EVEN = dict.fromkeys(PROCEDURAL, 1.0)


def test_the_toy_preset_gives_every_easy_domain_the_same_in_every_stage(show: Show) -> None:
    easy = [name for family in PROCEDURAL for name in DOMAINS[family] if name.endswith("-easy")]
    shown = show("experiment=toy", "stage.cold_start.samples_per_step=90", "algorithm.groups_per_step=60")
    assert len(easy) >= 10
    assert shown == {
        "cold_start": dict.fromkeys(easy, row(1 / len(easy), 90)),
        "rl": dict.fromkeys(easy, row(1 / len(easy))),
    }


def test_stages_with_one_mix_share_a_table(show: Show) -> None:
    shown = show(*BASE[1:], "stage=toy", "stage.cold_start.samples_per_step=60")
    assert shown == {"cold_start, rl": table_of(EVEN)}


def test_a_family_override(show: Show) -> None:
    table = show(*BASE, "mix.families.math=2")["rl"]
    assert table == table_of({**EVEN, "math": 2}, {"math": "command line: mix.families.math=2"})
    share = 1 / 3 / len(DOMAINS["math"])
    assert table["math/add"] == (f"{share:.4%}", f"{60 * share:.3f}", "command line: mix.families.math=2")


def test_a_removed_domain_stays_visible_and_its_family_keeps_its_weight(show: Show) -> None:
    expected = table_of(EVEN) | dict.fromkeys(DOMAINS["text"], row(1 / 5 / (len(DOMAINS["text"]) - 1)))
    expected["text/upper"] = ("0.0000%", "0.000", "removed by command line: ~mix.domains.text/upper")
    assert show(*BASE, "~mix.domains.text/upper")["rl"] == expected


def test_a_removed_family_leaves_its_share_to_the_others(show: Show) -> None:
    removed = ("0.0000%", "0.000", "removed by command line: ~mix.domains.tools/*")
    others = {family: 1.0 for family in PROCEDURAL if family != "tools"}
    expected = table_of(others) | dict.fromkeys(DOMAINS["tools"], removed)
    assert show(*BASE, "~mix.domains.tools/*")["rl"] == expected


def test_a_glob_over_families(show: Show) -> None:
    """In a family that has a weight the split changes; one that has none gets the domain with its factor as weight."""
    table = show(*BASE, "mix.domains.*/su*=3")["rl"]
    command_line = "command line: mix.domains.*/su*=3"
    others = [name for family in DOMAINS if family not in PROCEDURAL for name in DOMAINS[family]]
    added = [name for name in others if name.split("/")[1].startswith("su")]
    levels = ("", "-easy", "-hard")
    assert set(added) >= {f"reasoning_gym/{name}{level}" for name in ("sudoku", "survo") for level in levels}
    total = 5 + 3 * len(added)
    expected: Table = dict.fromkeys(added, row(3 / total, 60, command_line))
    for family in PROCEDURAL:
        factors = {name: 3 if name.split("/")[1].startswith("su") else 1 for name in DOMAINS[family]}
        for name, factor in factors.items():
            origin = f"conf/mix; {command_line}" if factor == 3 else "conf/mix"
            expected[name] = row(factor / sum(factors.values()) / total, 60, origin)
    assert table == expected
    assert [table[name][2] for name in ("math/subtract", "sequence/sum")] == [f"conf/mix; {command_line}"] * 2


def test_the_later_rule_wins(show: Show) -> None:
    others = len(DOMAINS["math"]) - 1
    first = show(*BASE, "mix.domains.math/*=9", "mix.domains.math/add=1")["rl"]
    assert first["math/add"] == row(1 / (1 + 9 * others) / 5, 60, "conf/mix; command line: mix.domains.math/add=1")
    assert first["math/digits"] == row(9 / (1 + 9 * others) / 5, 60, "conf/mix; command line: mix.domains.math/*=9")
    second = show(*BASE, "mix.domains.math/add=1", "mix.domains.math/*=9")["rl"]
    assert second["math/add"] == row(1 / 5 / (1 + others), 60, "conf/mix; command line: mix.domains.math/*=9")


def test_the_reasoning_preset(show: Show) -> None:
    table = show("stage=rl", "mix=reasoning", "algorithm.groups_per_step=60")["rl"]
    assert table == table_of({"reasoning_gym": 1}) and len(table) == 303


def test_the_balanced_preset_gives_a_large_family_no_more_than_a_small_one(show: Show) -> None:
    table = show("stage=rl", "mix=balanced", "algorithm.groups_per_step=60")["rl"]
    taking_part = {name: found for name, found in table.items() if "removed by this machine" not in found[2]}
    assert taking_part == table_of(dict.fromkeys(DOMAINS, 1.0))
    assert table["reasoning_gym/sudoku"] == row(1 / len(DOMAINS) / 303)


def test_an_emptied_preset_and_single_domains_by_their_factors(show: Show) -> None:
    table = show(*BASE, "~mix.families.*", "mix.domains.math/add=3", "+mix.domains.reasoning_gym/sudoku=1")["rl"]
    taking_part = {name: found for name, found in table.items() if found[0] != "0.0000%"}
    assert taking_part == {
        "math/add": ("75.0000%", "45.000", "command line: mix.domains.math/add=3"),
        "reasoning_gym/sudoku": ("25.0000%", "15.000", "command line: +mix.domains.reasoning_gym/sudoku=1"),
    }
