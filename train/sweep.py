"""Several runs from one command line: `python -m train --multirun seed=0,1,2 stage.rl.learning_rate=1e-3,3e-4`.

In: arguments with lists of values, in Hydra's own notation.  Out: every combination, one after the other here, or all
as one array of jobs with `cluster=slurm`.  Everything is checked before the first one starts.  Called by
`train.__main__`.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from rollouts.mix import parse_mix_arguments
from train.compose import Composed, compose_run
from train.weights.state import StorageFailure


def combinations(arguments: Sequence[str]) -> list[list[str]]:
    """Every combination of the listed values, the last key's varying fastest.  Raises ValueError.

    Rules of the mix (`mix.families.<glob>=…`) are the same in all of them.
    """
    mix_rules, rest = parse_mix_arguments(arguments)
    try:
        overrides = OverridesParser.create().parse_overrides(list(rest))
        (found,) = BasicSweeper.split_arguments(overrides, max_batch_size=None)
    except HydraException as error:
        raise ValueError(f"--multirun: {error}") from error
    rules = [rule.origin.removeprefix("command line: ") for rule in mix_rules]
    return [[*own, *rules] for own in found]


def sweep(arguments: Sequence[str]) -> int:
    """Run or submit all combinations; the exit code of the first that failed, else 0."""
    from train.__main__ import complain, submit

    try:
        runs = checked(arguments)
        if runs[0][0].config.cluster.launcher == "slurm":
            first = runs[0][1]
            return submit(runs, first.with_name(first.name.rpartition("-")[0]))
    except (ValueError, StorageFailure) as error:
        return complain(error)
    codes = []
    for number, (composed, run_dir) in enumerate(runs):
        print(f"[sweep] {number + 1}/{len(runs)}: {run_dir}", flush=True)
        codes.append(subprocess.run([sys.executable, "-m", "train", *composed.arguments], check=False).returncode)
    print(f"[sweep] {codes.count(0)} of {len(runs)} runs succeeded")
    for (_, run_dir), code in zip(runs, codes, strict=True):
        print(f"[sweep]   {run_dir}: exit code {code}")
    return next((code for code in codes if code), 0)


def checked(arguments: Sequence[str]) -> list[tuple[Composed, Path]]:
    """All runs of the sweep, composed and checked, named `<name>-0`, `<name>-1`, …  Raises ValueError."""
    from train.__main__ import check_before_start, place

    found: list[tuple[Composed, Path]] = []
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    for number, own in enumerate(combinations(arguments)):
        composed = compose_run(own)
        if composed.config.mix.show:
            raise ValueError("mix.show=true shows one mix and starts nothing; leave out --multirun")
        base = composed.config.name or f"{composed.config.experiment}-{now}"
        composed = compose_run([*(item for item in own if not item.startswith("name=")), f"name={base}-{number}"])
        run_dir, _ = place(composed)
        check_before_start(composed)
        print(f"[sweep] {run_dir.name}: {' '.join(own)}")
        found.append((composed, run_dir))
    return found
