"""`python -m envs`: what it prints and how it exits."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from envs.__main__ import main
from envs.families import FAMILIES, all_domains


def test_list_as_json_and_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "tools", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {
        "name": "tools/calculator",
        "family": "tools",
        "turns": 4,
        "tools": ["calc"],
        "generator": all_domains()["tools/calculator-easy"].generator_id,  # a level makes no other domain
        "verifier": all_domains()["math/add"].verifier_id,
        "licence": "Apache-2.0",
        "source": "jointrl",
        "tiers": ["low", "high", "max"],
        "score_range": [0.0, 1.0],
        "knobs": dict(all_domains()["tools/calculator"].knobs),
        "permissions": {"readable": [], "writable": [], "commands": []},
        "needs_sandbox": False,
        "needs_module": "",
        "gold": "gold",
    }
    names = ["tools/calculator", "tools/calculator-easy", "tools/store", "tools/store-easy"]
    assert [row["name"] for row in rows] == names
    assert main(["list", "*/sort"]) == 0
    assert "text/sort" in capsys.readouterr().out


def test_list_shows_all_domains_and_all_exclusions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["family"] for row in rows} == set(FAMILIES)
    assert len(rows) == len(all_domains())
    # Another generator or another verifier makes a domain another one; levels do not.
    codes = {(row["generator"], row["verifier"]) for row in rows}
    assert len(codes) >= 220
    borrowed = {(row["generator"], row["verifier"]) for row in rows if row["family"] == "reasoning_gym"}
    assert len(borrowed) <= 110
    assert main(["list", "--excluded", "--json"]) == 0
    reasons = {row["name"]: row["reason"] for row in json.loads(capsys.readouterr().out)}
    assert "ships no solution" in reasons["reasoning_gym/boxnet"]
    assert (
        reasons["reasoning_gym/gsm_symbolic-hard"] == "gsm_symbolic has one level: its difficulty takes one value only"
    )


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["show", "math/ad"], "math/add"),
        (["show", "text/multiply"], "math/multiply"),
        (["list", "sequnce"], "sequence"),
        (["check", "math/sbtract"], "math/subtract"),
        (["score", "reasoning_gym/sudokku", "--answer", "1"], "reasoning_gym/sudoku"),
        (["show", "reasoning_gym/boxnet"], "ships no solution"),
        (["show", "math/add", "--task", "-1"], "indices start at 0"),
        (["check", "math/add", "--seeds", "0"], "at least 1"),
        (["list", "--family", "mine"], "NAME=PKG.MODULE:FAMILY"),
        (["list", "--family", "mine=no_module_x:F"], "no module 'no_module_x'"),
    ],
)
def test_a_wrong_name_exits_with_2_and_a_short_hint(
    arguments: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and near in captured.err
    assert len(captured.err.splitlines()) <= 5


def test_a_missing_command_exits_with_2() -> None:
    done = subprocess.run([sys.executable, "-m", "envs"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


def test_show_renders_the_gold_conversation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "tools/calculator"]) == 0
    out = capsys.readouterr().out
    assert '[user] use calc: 43+25\n[assistant, call] {"name":"calc","arguments":{"e":"43+25"}}\n' in out
    assert "[tool calc] 68\n[assistant] 68\n\nscore      1\n" in out


@pytest.mark.parametrize(("answer", "line"), [("140", "score      1\n"), ("141", "score      0\n")])
def test_score(answer: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "math/add", "--task", "0", "--answer", answer]) == 0
    assert capsys.readouterr().out == line


def test_play(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = '{"name":"calc","arguments":{"e":"43+"}}\n{"name":"calc","arguments":{"e":"43+25"}}\n68\n'
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["play", "tools/calculator"]) == 0
    out = capsys.readouterr().out
    assert "[tool calc] error: the expression ends too early" in out
    assert "[tool calc] 68" in out and "done: score      1" in out
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["play", "tools/calculator"]) == 0
    assert "ended without an answer" in capsys.readouterr().out


def test_check_passes_and_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "math/*", "--seeds", "15", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert [check["name"].split("/")[0] for check in checks] == ["math"] * 6
    assert all(check["problems"] == [] and check["gold_score"] == 1.0 for check in checks)
    assert all(check["constant_score"] <= 0.5 for check in checks)


BROKEN_FAMILY = """
from dataclasses import replace
from rewards.parts import Part
from envs.domain import Family
from envs.questions import question_domain

def domains():
    return [
        question_domain("mine/good", lambda rng: (f"double {(n := rng.randint(0, 99))}", str(2 * n)), knobs={}),
        replace(
            question_domain("mine/parts", lambda rng: (f"triple {(n := rng.randint(0, 99))}", str(3 * n)), knobs={}),
            parts={"right": Part((0.0, 1.0))},
        ),
        question_domain("mine/unstable", lambda rng: (f"{hash('a')}?", "1"), knobs={}),
    ]

FAMILY = Family(name="mine", domains=domains)
"""


def test_a_users_own_family_is_listed_and_held_to_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "their_family.py").write_text(BROKEN_FAMILY)
    monkeypatch.syspath_prepend(str(tmp_path))
    family = ["--family", "mine=their_family:FAMILY"]
    assert main(["list", "mine", "--json", *family]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert main(["check", "mine/good", "--seeds", "8", *family]) == 0
    assert main(["check", "mine/unstable", "--seeds", "8", *family]) == 1
    assert main(["check", "mine/parts", "--seeds", "8", *family]) == 1
    out = capsys.readouterr().out
    assert "has the parts [], declared are ['right']" in out
    assert "problem  mine/unstable: tasks differ in another process" in out
    assert "warning  mine/unstable: the constant answer '1' scores 1.00" in out or "duplicates" in out
