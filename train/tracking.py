"""What a run writes down and shows: `metrics.jsonl` first, then W&B, the live display, and the closing table.

In: one dictionary of numbers a step, from `train.loop`.  Out: a local file that holds every number of every step
whatever W&B does; a few curated panels in W&B (offline unless asked otherwise); one screen for the person watching.

A line of `metrics.jsonl`:

    {"step": 3, "time": 1.7e9, "metrics": {"loss": 0.1}, "series": {"reward": {"math.sum": 0.5}}, "non_finite": []}

`metrics` are numbers of the run, `series` numbers a domain.  `time` is the only wall-clock field.  Only this module
imports wandb.
"""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

log = logging.getLogger(__name__)

METRICS = "metrics.jsonl"
NUM_EXTREMES = 3

WandbMode = Literal["offline", "online", "disabled"]
# Without a key or a network "online" becomes "offline": `wandb sync` can send it later.
_ATTEMPTS: dict[WandbMode, tuple[WandbMode, ...]] = {
    "online": ("online", "offline"),
    "offline": ("offline",),
    "disabled": (),
}


# --- the local file ----------------------------------------------------------------------------------------------


def read_metrics(run_dir: Path) -> list[dict[str, Any]]:
    """The steps of a run in order, one dictionary each; several lines of one step are merged, the later one winning.

    A last line cut short by a crash is left out.  Raises `ValueError` for damage anywhere else.
    """
    steps: dict[int, dict[str, Any]] = {}
    for line in _whole_lines(run_dir / METRICS):
        record = steps.setdefault(line["step"], {"step": line["step"], "metrics": {}, "series": {}, "non_finite": []})
        record["time"] = line["time"]
        record["metrics"].update(line["metrics"])
        for name, values in line["series"].items():
            record["series"].setdefault(name, {}).update(values)
        record["non_finite"] += line["non_finite"]
    return [steps[step] for step in sorted(steps)]


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.split("\n")[:-1]  # what follows the last newline was cut short, or is empty
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is damaged: {error}") from error
    return records


def _drop_from(path: Path, first_step: int) -> None:
    """Keep the lines before `first_step`: the steps from there on will be done, and logged, again."""
    if not path.exists():
        return
    records = _whole_lines(path)
    kept = [record for record in records if record["step"] < first_step]
    if len(kept) < len(records):
        log.info("%s: %d lines from step %d on will be written again", path, len(records) - len(kept), first_step)
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text("".join(_line(record) for record in kept), encoding="utf-8")
    scratch.replace(path)


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def _finite(values: Mapping[str, float], prefix: str = "") -> tuple[dict[str, float | None], list[str]]:
    """Values fit for strict JSON, and the names of those that were NaN or infinite (null in the file)."""
    clean = {name: float(value) if math.isfinite(value) else None for name, value in values.items()}
    return clean, [prefix + name for name, value in clean.items() if value is None]


# --- what goes to W&B --------------------------------------------------------------------------------------------


def extremes(
    name: str, values: Mapping[str, float | None], counts: Mapping[str, float] | None = None
) -> dict[str, float | str]:
    """A series over hundreds of domains in a handful of panels: mean, the lowest three and the highest three.

    The mean weights each domain by its count; without counts it is the plain mean over domains, and called so.  Domains
    that are absent or null take no part: an empty series gives no key at all, never 0 or NaN.

        extremes("reward", {"a": 1.0, "b": 0.0}, {"a": 3, "b": 1})["reward/mean"] == 0.75
    """
    present = {domain: value for domain, value in values.items() if value is not None}
    panels: dict[str, float | str] = {}
    if counts is None:
        if present:
            panels[f"{name}/mean_of_domains"] = math.fsum(present.values()) / len(present)
    else:
        unknown = sorted(present.keys() - counts.keys())
        if unknown:
            raise ValueError(f"series {name!r} has values but no counts for {', '.join(unknown)}")
        total = math.fsum(counts[domain] for domain in present)
        if total > 0:
            panels[f"{name}/mean"] = math.fsum(value * counts[domain] for domain, value in present.items()) / total
    ranked = sorted(present, key=lambda domain: (present[domain], domain))
    for rank in range(min(NUM_EXTREMES, len(ranked))):
        for end, domain in (("lowest", ranked[rank]), ("highest", ranked[-1 - rank])):
            panels[f"{name}/{end}_{rank + 1}"] = present[domain]
            panels[f"{name}/{end}_{rank + 1}_domain"] = domain
    return panels


def _start_wandb(run_dir: Path, config: Mapping[str, Any], mode: WandbMode, project: str, run_id: str) -> Any:
    """Start a W&B run.  Offline it opens no connection: error reports to its maker, on by default, are off."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    run = wandb.init(
        mode=mode,
        project=project,
        dir=str(run_dir),  # wandb makes run_dir/wandb itself
        id=run_id,
        name=run_dir.name,
        resume="allow",
        config=dict(config),
        settings=wandb.Settings(
            save_code=False,
            disable_code=True,
            disable_git=True,
            disable_job_creation=True,
            x_disable_stats=True,
            x_disable_meta=True,
            console="off",
            silent=True,
            init_timeout=60,
            finish_timeout=120,  # an unreachable server must not hold a finished job on its machines
        ),
    )
    # Our own axis: with W&B's, a step that is not larger than the last one is dropped with only a warning.
    run.define_metric("train/step")
    run.define_metric("*", step_metric="train/step")
    return run


def _run_id(run_dir: Path) -> str:
    """The W&B id of this run directory: made once, kept over resumes."""
    path = run_dir / "wandb_id"
    if not path.exists():
        path.write_text(secrets.token_hex(4) + "\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


class Tracker:
    """Writes every number to `run_dir/metrics.jsonl`, and the curated ones to W&B.

    - `first_step`: the first step that this process logs (0 for a new run).  What an earlier process wrote of it and of
      later steps is dropped, since those steps will be done again: nothing is lost and nothing is there twice.
    - `start_wandb`: how a W&B run is made; tests pass a stub.

    A failure of W&B never reaches the caller: it is logged once and counted in `num_wandb_failures`.
    """

    def __init__(
        self,
        run_dir: Path,
        config: Mapping[str, Any],
        wandb_mode: WandbMode = "offline",
        project: str = "jointrl",
        *,
        first_step: int = 0,
        start_wandb: Callable[[Path, Mapping[str, Any], WandbMode, str, str], Any] = _start_wandb,
    ) -> None:
        if wandb_mode not in _ATTEMPTS:
            raise ValueError(f"wandb_mode={wandb_mode!r}: offline, online or disabled")
        run_dir.mkdir(parents=True, exist_ok=True)
        self.num_non_finite = 0
        self.num_wandb_failures = 0
        _drop_from(run_dir / METRICS, first_step)
        self._file: IO[str] = (run_dir / METRICS).open("a", buffering=1, encoding="utf-8")
        self._run: Any = None
        for mode in _ATTEMPTS[wandb_mode]:
            if self._run is None:
                self._run = self._shielded(
                    "init", partial(start_wandb, run_dir, config, mode, project, _run_id(run_dir))
                )

    def log(
        self,
        step: int,
        metrics: Mapping[str, float],
        series: Mapping[str, Mapping[str, float]] | None = None,
        counts: Mapping[str, float] | None = None,
    ) -> None:
        """Write one step down.  Several calls for one step are several lines that `read_metrics` merges.

        - `series`: name -> domain -> value, for the domains present in this step only.
        - `counts`: domain -> how many samples its values are means of; they weight the means shown in W&B.
        """
        clean, bad = _finite(metrics)
        clean_series: dict[str, dict[str, float | None]] = {}
        for name, values in (series or {}).items():
            clean_series[name], bad_here = _finite(values, prefix=f"{name}/")
            bad += bad_here
        record = {"step": step, "time": time.time(), "metrics": clean, "series": clean_series, "non_finite": bad}
        self._file.write(_line(record))
        self._file.flush()
        if bad:
            self.num_non_finite += len(bad)
            log.warning("step %d: not finite, written as null: %s", step, ", ".join(bad))
        panels: dict[str, float | str] = {name: value for name, value in clean.items() if value is not None}
        for name, cleaned in clean_series.items():
            panels |= extremes(name, cleaned, counts)
        if self._run is not None:
            self._shielded("log", partial(self._run.log, {**panels, "train/step": step}))

    def finish(self, exit_code: int = 0) -> None:
        """Flush everything.  A second call does nothing."""
        if self._file.closed:
            return
        os.fsync(self._file.fileno())
        self._file.close()
        if self._run is not None:
            run, self._run = self._run, None
            self._shielded("finish", partial(run.finish, exit_code=exit_code))

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(exit_code=0 if kind is None else 1)

    def _shielded(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # whatever W&B raises: the local file has it all, and training goes on
            if self.num_wandb_failures == 0:
                log.warning("W&B failed at %s (%s: %s); metrics.jsonl goes on", what, type(error).__name__, error)
            self.num_wandb_failures += 1
            return None


# --- the screen --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """The numbers of one finished step that a person watches.  None shows as a dash.

    - `mismatch`: mean |log p_engine - log p_trainer|: the one number that shows a missed or wrong weight update.
    """

    step: int
    reward: float | None = None
    mismatch: float | None = None
    tokens_per_second: float | None = None


class Display:
    """The run on one screen: a live panel on a terminal, one plain line a step anywhere else.

    with Display(total_steps=60) as display:
        display.stage("rollout")
        display.step(StepView(step=1, reward=0.4, mismatch=0.006, tokens_per_second=9000))
    """

    def __init__(
        self,
        total_steps: int,
        *,
        first_step: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total_steps = total_steps
        self._first_step = first_step
        self._console = console or Console(file=sys.stdout)
        self._clock = clock
        self._start = clock()
        self._stage = "starting"
        self._view = StepView(step=first_step)
        self._live = Live(console=self._console, transient=True) if self._console.is_terminal else None

    def __enter__(self) -> Display:
        self._start = self._clock()
        if self._live is not None:
            self._live.start()
            self._live.update(self._panel(), refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._console.print(self._text(), highlight=False)

    def stage(self, name: str) -> None:
        """Say what the run is doing now; without a terminal this waits for the step's line."""
        self._stage = name
        if self._live is not None:
            self._live.update(self._panel(), refresh=True)

    def step(self, view: StepView) -> None:
        """Show a finished step."""
        self._view = view
        if self._live is not None:
            self._live.update(self._panel(), refresh=True)
        else:
            self._console.print(self._text(), highlight=False, soft_wrap=True)

    def _fields(self) -> list[tuple[str, str]]:
        view = self._view
        return [
            ("step", f"{view.step}/{self._total_steps}"),
            ("reward", _number(view.reward, ".3f")),
            ("mismatch", _number(view.mismatch, ".4f")),
            ("tokens/s", _number(view.tokens_per_second, ",.0f")),
            ("left", self._left()),
        ]

    def _left(self) -> str:
        done = self._view.step - self._first_step
        if done <= 0:
            return "–"
        seconds = (self._clock() - self._start) / done * max(0, self._total_steps - self._view.step)
        minutes, seconds = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

    def _text(self) -> str:
        return "  ".join(f"{name} {value}" for name, value in self._fields())

    def _panel(self) -> Group:
        bar = ProgressBar(total=self._total_steps, completed=self._view.step, width=60)
        return Group(bar, Text(f"{self._stage:<9} {self._text()}", no_wrap=True, overflow="ellipsis"))


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRow:
    """One domain before and after training.

    - `before`, `after`: mean held-out score; None if it was not evaluated.
    - `interval`: lower and upper end of the difference's confidence interval.
    """

    domain: str
    before: float | None
    after: float | None
    num_tasks: int
    interval: tuple[float, float] | None = None


def domain_table(rows: Iterable[DomainRow], title: str = "Held-out score by domain") -> Table:
    """The end-of-run table.  A difference is coloured only where its interval leaves zero out."""
    table = Table(title=title, title_justify="left")
    table.add_column("domain", overflow="fold")
    for heading in ("before", "after", "difference", "interval", "n"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        gain = None if row.before is None or row.after is None else row.after - row.before
        low, high = row.interval or (-math.inf, math.inf)
        style = "green" if low > 0 else "red" if high < 0 else ""
        interval = "–" if row.interval is None else f"{low:+.3f} … {high:+.3f}"
        cells = (_number(row.before, ".3f"), _number(row.after, ".3f"), _number(gain, "+.3f"), interval)
        table.add_row(row.domain, *cells, str(row.num_tasks), style=style)
    return table
