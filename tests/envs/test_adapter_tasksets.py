"""Tasksets of `verifiers`: the protocol with a stand-in process, and the real library where there is one.

JOINTRL_VERIFIERS_PYTHON: the Python of an environment with verifiers 0.4.
"""

import os
import sys
from pathlib import Path

import pytest

from envs.adapters.pipes import Helper, HelperFailure, HelperRefused
from envs.check import check_domains
from envs.demonstrate import score_text
from envs.domain import Domain
from envs.families import all_domains, with_families

STAND_IN = Path(__file__).with_name("taskset_stand_in.py")
EXAMPLES = Path(__file__).resolve().parents[2] / "envs" / "adapters" / "examples"
REAL = os.environ.get("JOINTRL_VERIFIERS_PYTHON", "")


def domain_of(folder: Path, more: str = "") -> Domain:
    text = f'adapter: verifiers\npython: {sys.executable}\nserver: {STAND_IN}\ntaskset: x\ngold: "{{answer}}"\n'
    (folder / "mine.yaml").write_text(text + more)
    return all_domains(with_families({"mine": str(folder / "mine.yaml")}, {}))["mine/all"]


def test_tasks_and_rewards_come_over_the_pipe(tmp_path: Path) -> None:
    domain = domain_of(tmp_path)
    task = domain.task(43)  # 40 tasks: index 43 is task 3 again
    assert [(message.role, message.text) for message in task.prompt] == [("system", "Add."), ("user", "3+1?")]
    assert domain.num_distinct == 40 and domain.slow_verdict
    assert [score_text(domain, task, text).value for text in ("4", "5", "", "\ud800", "a" * 200_000)] == [1, 0, 0, 0, 0]
    checks = check_domains({domain.name: domain}, 4, {"mine": str(tmp_path / "mine.yaml")})
    assert [check.problems for check in checks] == [[]]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("die", "died while it was asked 'score'; its last words: last words"),
        ("hang", "no answer to 'score' within 0.5 s"),
        ("babble", "its answer to 'score' is none: b'hello there"),
        ("raise", "ZeroDivisionError"),
        ("huge", "7.0 is outside of [0, 1]; set low and high"),
    ],
)
def test_what_the_helper_does_wrong_is_no_verdict(tmp_path: Path, answer: str, says: str) -> None:
    domain = domain_of(tmp_path, "seconds: 0.5\n")
    task = domain.task(3)
    score = score_text(domain, task, answer)
    assert score.value is None and says in score.reason
    assert score_text(domain, task, "4").value == 1.0  # another process answers


def test_the_handshake_and_the_file_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_MOOD", "old")
    with pytest.raises(ValueError, match=r"mine\.yaml: python: it speaks another protocol than 1"):
        domain_of(tmp_path, "start_seconds: 11\n")
    monkeypatch.setenv("STAND_IN_MOOD", "refuses")
    with pytest.raises(ValueError, match=r"mine\.yaml: taskset: the helper says: .*No module named 'nobody'"):
        domain_of(tmp_path, "start_seconds: 12\n")
    refused = Helper([sys.executable, str(STAND_IN)], {}, 1, 5.0, 5.0)
    for _ in range(2):  # and the second request does not take the process for a greeted one
        with pytest.raises(HelperRefused, match="No module named 'nobody'"):
            refused.ask("task", index=0)
    monkeypatch.delenv("STAND_IN_MOOD")
    with pytest.raises(ValueError, match=r"gold: tasks have no 'solution'; they have answer"):
        domain_of(tmp_path, "start_seconds: 13\n")
        text = (tmp_path / "mine.yaml").read_text().replace("{answer}", "{solution}")
        (tmp_path / "mine.yaml").write_text(text)
        with_families({"mine": str(tmp_path / "mine.yaml")}, {})
    (tmp_path / "other.yaml").write_text("adapter: verifiers\ntaskset: x\npython: no/such/python\n")
    with pytest.raises(ValueError, match=r"other\.yaml: python: no/such/python is no program"):
        with_families({"mine": str(tmp_path / "other.yaml")}, {})


def test_a_helper_ends_with_close() -> None:
    helper = Helper([sys.executable, str(STAND_IN)], {}, 1, 5.0, 5.0)
    assert helper.ask("task", index=0)["data"] == {"answer": 1}
    helper.close()
    assert helper.ask("task", index=1)["data"] == {"answer": 2} and helper.num_starts == 2
    helper.close()
    with pytest.raises(HelperFailure, match="another protocol than 2"):
        Helper([sys.executable, str(STAND_IN)], {}, 2, 5.0, 5.0).ask("task", index=0)
    with pytest.raises(HelperFailure, match="does not start"):
        Helper(["/no/such/program"], {}, 1, 5.0, 5.0).ask("task", index=0)


@pytest.mark.skipif(not REAL, reason="JOINTRL_VERIFIERS_PYTHON names no Python with verifiers 0.4")
def test_the_example_with_the_real_library(tmp_path: Path) -> None:
    text = (EXAMPLES / "sums.yaml").read_text()
    text = text.replace("verifiers-venv/bin/python", REAL).replace("folder: .", f"folder: {EXAMPLES}")
    paths = {"sums": str(tmp_path / "sums.yaml")}
    Path(paths["sums"]).write_text(text)
    domains = all_domains(with_families(paths, {}))
    domain = domains["sums/all"]
    assert domain.source == "verifiers 0.4.0, taskset sums_taskset" and domain.num_distinct == 60
    task = domain.task(0)
    right, near = (score_text(domain, task, str(task.reference["answer"] + more)) for more in (0, 1))
    assert (right.value, near.value, near.parts) == (1.0, pytest.approx(0.1), {"right": 0.0, "digits": 1.0})
    assert [check.problems + check.warnings for check in check_domains(domains, 5, paths)] == [[]]
    Path(paths["sums"]).write_text(text.replace("taskset: sums_taskset", "taskset: no_such_taskset"))
    with pytest.raises(ValueError, match=r"sums\.yaml: taskset: the helper says: ModuleNotFoundError"):
        with_families(paths, {})
