"""Metrics reach the local file whatever happens; W&B gets its own axis and a curated few; the display has two forms."""

from __future__ import annotations

import io
import json
import logging
import math
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from train.tracking import Display, DomainRow, StepView, Tracker, domain_table, extremes, read_metrics


class StubRun:
    """Remembers what it is given; raises where told to."""

    def __init__(self, fails: frozenset[str] = frozenset()) -> None:
        self.fails = fails
        self.logged: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.exit_codes: list[int] = []

    def start(self, run_dir: Path, config: Mapping[str, Any], mode: str, project: str, run_id: str) -> StubRun:
        self.ids.append(run_id)
        if {"init", mode} & self.fails:
            raise RuntimeError("no network")
        return self

    def log(self, panels: dict[str, Any], **options: Any) -> None:
        assert not options, "never W&B's own step"
        if "log" in self.fails:
            raise ConnectionError("gone")
        self.logged.append(panels)

    def finish(self, exit_code: int) -> None:
        if "finish" in self.fails:
            raise TimeoutError("slow")
        self.exit_codes.append(exit_code)


def tracker(run_dir: Path, stub: StubRun, first_step: int = 0) -> Tracker:
    return Tracker(run_dir, {}, "offline", "test", first_step=first_step, start_wandb=stub.start)


def steps(run_dir: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_after_a_crash_and_a_resume_every_step_is_there_once(tmp_path: Path) -> None:
    """F103: log up to step 8, crash, resume from a checkpoint of step 5, log 6, 7, 8."""
    stub = StubRun()
    crashed = tracker(tmp_path, stub)
    for step in range(1, 9):
        crashed.log(step, {"loss": float(step)})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "met')  # the crash cut a line short
    with tracker(tmp_path, stub, first_step=6) as resumed:
        for step in (6, 7, 8):
            resumed.log(step, {"loss": 10.0 * step})
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [record["metrics"]["loss"] for record in read_metrics(tmp_path)] == [1, 2, 3, 4, 5, 60, 70, 80]
    assert [(panels["train/step"], panels["loss"]) for panels in stub.logged[-3:]] == [(6, 60), (7, 70), (8, 80)]
    assert len(set(stub.ids)) == 1 and len(stub.ids) == 2, "a resumed run keeps its W&B id"


def test_several_calls_for_one_step_land_on_that_step(tmp_path: Path) -> None:
    """F103: the evaluation of a step is logged after the step itself."""
    stub = StubRun()
    with tracker(tmp_path, stub) as tracked:
        tracked.log(1, {"loss": 1.0}, {"reward": {"a": 0.5}})
        tracked.log(1, {"eval": 2.0}, {"reward": {"b": 0.25}})
        tracked.log(2, {"loss": 3.0})
    first, second = read_metrics(tmp_path)
    assert first["metrics"] == {"loss": 1.0, "eval": 2.0}
    assert first["series"] == {"reward": {"a": 0.5, "b": 0.25}}
    assert second["metrics"] == {"loss": 3.0}
    assert [panels["train/step"] for panels in stub.logged] == [1, 1, 2]


@pytest.mark.parametrize("fails", [{"init"}, {"log"}, {"finish"}, {"log", "finish"}])
def test_whatever_wandb_does_the_local_file_has_every_step(
    tmp_path: Path, fails: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """F104: a failing W&B is said once, counted, and stops nothing."""
    stub = StubRun(frozenset(fails))
    tracked = tracker(tmp_path, stub)
    for step in range(1, 6):
        tracked.log(step, {"loss": 0.5})
        assert steps(tmp_path)[-1] == step, "on disk before the next step starts"
    tracked.finish()
    tracked.finish()
    assert steps(tmp_path) == [1, 2, 3, 4, 5]
    assert (
        tracked.num_wandb_failures
        == {"init": 1, "log": 5, "finish": 1, "log,finish": 6}[",".join(sorted(fails, reverse=True))]
    )
    assert sum("W&B failed" in message for message in caplog.messages) == 1


def test_online_without_a_network_becomes_offline_under_the_same_id(tmp_path: Path) -> None:
    stub = StubRun(frozenset({"online"}))
    with Tracker(tmp_path, {}, "online", start_wandb=stub.start) as tracked:
        tracked.log(1, {"loss": 1.0})
    assert stub.logged == [{"loss": 1.0, "train/step": 1}]
    assert len(stub.ids) == 2 and len(set(stub.ids)) == 1
    assert tracked.num_wandb_failures == 1


def test_an_exception_in_the_run_flushes_and_marks_the_run_as_failed(tmp_path: Path) -> None:
    """F104: raise in step 5."""
    stub = StubRun()
    with pytest.raises(RuntimeError, match="boom"), tracker(tmp_path, stub) as tracked:
        for step in range(1, 6):
            tracked.log(step, {"loss": 0.5})
        raise RuntimeError("boom")
    assert steps(tmp_path) == [1, 2, 3, 4, 5]
    assert stub.exit_codes == [1]


def test_an_absent_domain_is_absent_and_the_mean_weights_by_count(tmp_path: Path) -> None:
    """F105: a step without domain B logs nothing of B, neither 0 nor NaN."""
    stub = StubRun()
    with tracker(tmp_path, stub) as tracked:
        tracked.log(1, {}, {"reward": {"a": 1.0, "b": 0.0}}, counts={"a": 30, "b": 10})
        tracked.log(2, {}, {"reward": {"a": 0.5}}, counts={"a": 40})
        tracked.log(3, {}, {"reward": {}}, counts={})
    assert [record["series"]["reward"] for record in read_metrics(tmp_path)] == [{"a": 1.0, "b": 0.0}, {"a": 0.5}, {}]
    assert stub.logged[0]["reward/mean"] == 0.75
    assert stub.logged[1]["reward/mean"] == 0.5
    assert stub.logged[2] == {"train/step": 3}


def test_hundreds_of_domains_become_a_handful_of_panels(tmp_path: Path) -> None:
    values = {f"domain{index:03d}": index / 1000 for index in range(500)}
    stub = StubRun()
    with tracker(tmp_path, stub) as tracked:
        tracked.log(1, {"loss": 1.0}, {"reward": values})
    assert len(stub.logged[0]) == 2 + 1 + 2 * 3 * 2
    assert stub.logged[0]["reward/lowest_1_domain"] == "domain000"
    assert stub.logged[0]["reward/highest_3"] == 0.497
    assert read_metrics(tmp_path)[0]["series"]["reward"] == values


def test_extremes_by_value() -> None:
    assert extremes("r", {}) == {}
    assert extremes("r", {"a": None}, {"a": 3}) == {}
    assert extremes("r", {"a": 1.0, "b": None, "c": 0.0})["r/mean_of_domains"] == 0.5
    assert extremes("r", {"b": 1.0, "a": 1.0}, {"a": 1, "b": 1})["r/lowest_1_domain"] == "a", "ties by name"
    with pytest.raises(ValueError, match="no counts for b"):
        extremes("r", {"a": 1.0, "b": 1.0}, {"a": 1})


def test_what_is_not_finite_is_null_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stub = StubRun()
    with tracker(tmp_path, stub) as tracked:
        tracked.log(7, {"loss": math.nan, "lr": 0.1}, {"reward": {"a": math.inf, "b": 1.0}}, counts={"a": 1, "b": 1})
        assert tracked.num_non_finite == 2

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not strict JSON")

    record = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert record["metrics"] == {"loss": None, "lr": 0.1}
    assert record["series"] == {"reward": {"a": None, "b": 1.0}}
    assert record["non_finite"] == ["loss", "reward/a"]
    assert any("step 7" in message and "loss, reward/a" in message for message in caplog.messages)
    assert "loss" not in stub.logged[0]
    assert stub.logged[0]["reward/mean"] == 1.0


def test_damage_in_the_middle_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1\n{"step": 2}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 1 is damaged"):
        read_metrics(tmp_path)


def test_a_misspelt_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="offline, online or disabled"):
        Tracker(tmp_path, {}, "ofline")  # type: ignore[arg-type]


def test_disabled_starts_nothing(tmp_path: Path) -> None:
    stub = StubRun()
    with Tracker(tmp_path, {}, "disabled", start_wandb=stub.start) as tracked:
        tracked.log(1, {"loss": 1.0})
    assert stub.ids == [] and steps(tmp_path) == [1]


def test_the_real_wandb_works_offline_inside_the_run_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    looked_up: list[Any] = []

    def look_up(*arguments: Any, **options: Any) -> list[Any]:
        looked_up.append(arguments)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    caplog.set_level(logging.WARNING)
    for first_step in (1, 3):  # the second is a resume
        with Tracker(tmp_path, {"seed": 1}, "offline", first_step=first_step) as tracked:
            tracked.log(first_step, {"loss": 1.0}, {"reward": {"a": 0.5}})
            assert tracked.num_wandb_failures == 0, caplog.messages
    run_id = (tmp_path / "wandb_id").read_text().strip()
    files = list(tmp_path.glob(f"wandb/offline-run-*-{run_id}/run-{run_id}.wandb"))
    assert files and all(path.stat().st_size > 0 for path in files)
    assert looked_up == []


# --- the screen ---------------------------------------------------------------------------------------------------


def test_without_a_terminal_a_step_is_one_plain_line() -> None:
    text = io.StringIO()
    now = iter([0.0, 0.0, 10.0, 20.0])
    with Display(60, first_step=10, console=Console(file=text, width=40), clock=lambda: next(now)) as display:
        display.stage("rollout")
        display.step(StepView(step=11, reward=0.41234, mismatch=0.00612, tokens_per_second=9123.4))
        display.step(StepView(step=12))
    assert text.getvalue().splitlines() == [
        "step 11/60  reward 0.412  mismatch 0.0061  tokens/s 9,123  left 8:10",
        "step 12/60  reward –  mismatch –  tokens/s –  left 8:00",
    ]


def test_on_a_terminal_there_is_a_bar_and_the_stage() -> None:
    text = io.StringIO()
    with Display(4, console=Console(file=text, width=100, force_terminal=True)) as display:
        display.stage("rollout")
        display.step(StepView(step=2, reward=0.5))
        display.stage("train")
    shown = text.getvalue()
    assert all(word in shown for word in ("starting", "rollout", "train", "2/4", "0.500", "━"))


def test_the_closing_table_shows_differences_and_colours_only_the_certain_ones() -> None:
    rows = [
        DomainRow(domain="math.sum", before=0.4, after=0.55, num_tasks=200, interval=(0.06, 0.24)),
        DomainRow(domain="logic.truth", before=0.5, after=0.4, num_tasks=100, interval=(-0.2, 0.01)),
        DomainRow(domain="text.reverse", before=0.5, after=0.3, num_tasks=100, interval=(-0.3, -0.1)),
        DomainRow(domain="new", before=None, after=0.3, num_tasks=9),
    ]
    table = domain_table(rows)
    assert [row.style for row in table.rows] == ["green", "", "red", ""]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert "+0.150" in text and "+0.060 … +0.240" in text and "200" in text
