"""The main loop, and nothing else: stages of supervised cold start and reinforcement learning.

    publish ─► collect (mixture, rollouts, filter, refill) ─► advantages ─► rows ─► train ─► publish ─► log ─► save

In: the live parts of a run (`train.launch`).  Out: a trained policy, checkpoints, metrics.  Everything with state is
in `train.run`.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from rollouts.mixture import Mixture, Outcome
from rollouts.objects import GroupResult
from rollouts.pool import PublishReport
from rollouts.store import file_name
from train import checkpoint, metrics
from train.canary import sample_canary
from train.collect import Collector, EmptyBatch, plan_items, take_tasks
from train.compose import stages
from train.config import AlgorithmConfig, StageConfig
from train.evaluate import Evaluation, evaluate
from train.policy.losses import LOSSES, LossOptions
from train.policy.packing import loss_token_weights
from train.policy.workers import Item
from train.run import Run, shard_format, state
from train.tracking import StepView
from train.weights.state import write_json_atomic

MAX_EMPTY_STEPS = 5


class Stopped(Exception):
    """The user or the time limit asked for an end; the last checkpoint is at `step`."""

    def __init__(self, step: int):
        super().__init__(f"stopped at step {step}")
        self.step = step


def run_stages(run: Run) -> None:
    """All stages that are not done yet, with an evaluation before and after reinforcement learning."""
    for name, stage in stages(run.composed.config):
        if name in run.done:
            continue
        if run.stage != name:
            run.stage, run.stage_step = name, 0
        run.display.stage(name)
        (cold_start if stage.kind == "sft" else reinforce)(run, stage)
        run.done.append(name)
    run.pool.finish_storing()
    if run.composed.config.mode != "rollout_only":
        publish(
            run
        )  # a run that was killed after its last save has nothing left to do, and its engines have no weights
        save(run)


def cold_start(run: Run, stage: StageConfig) -> None:
    """Supervised steps on demonstrations of the domains' gold policies, until `stop_accuracy` or `steps`."""
    mixture = run.mixtures[run.stage]
    tickets, wait = _start_demonstrations(run, mixture, stage)
    while run.stage_step < stage.steps:
        began = time.perf_counter()
        groups = run.timed("demonstrations", wait)
        for ticket in tickets:
            mixture.settle(ticket, metrics.ACCEPTED)
        tickets, wait = _start_demonstrations(run, mixture, stage)
        totals = run.timed("train", functools.partial(_train_supervised, run, stage, groups))
        series = metrics.quantisation(totals)
        _finish_step(run, metrics.supervised(totals), began, tokens=totals["tokens"], series=series)
        if stage.probe_every and run.stage_step % stage.probe_every == 0 and _probe(run, stage) >= stage.stop_accuracy:
            break
        _stop_if_asked(run)


def reinforce(run: Run, stage: StageConfig) -> None:
    """Policy-gradient steps; evaluates before the first and after the last, and when due."""
    config = run.composed.config
    limit = min(stage.steps, config.steps) if config.steps else stage.steps
    collector = Collector(
        run.pool,
        run.mixtures[run.stage],
        run.statistics,
        run.domains,
        config,
        run.adaptive.get(run.stage),
        run.part_statistics,
        run.retired,
    )
    publish(run)
    if config.mode == "rollout_only":
        while run.stage_step < limit:
            _roll_out_once(run, collector)
        return
    if "before" not in run.evaluations:
        _evaluate(run, "before")
        save(run)
    while run.stage_step < limit:
        _reinforce_once(run, stage, collector)
        if config.evaluate.every and run.stage_step % config.evaluate.every == 0 and run.stage_step < limit:
            _evaluate(run, f"step-{run.version}")
        if run.stage_step % config.checkpoint.every == 0 and run.stage_step < limit:
            save(run)
        if run.stage_step < limit:
            _stop_if_asked(run)
    _evaluate(run, "after")


def _roll_out_once(run: Run, collector: Collector) -> None:
    """Debug mode: a step's rollouts are scored and stored, and nothing is trained."""
    began = time.perf_counter()
    accepted, dropped = run.timed("rollout", lambda: collector.take(run.version))
    groups = [*accepted, *(result for result, _ in dropped)]
    _store(run, groups, run.stage_step)
    tokens = sum(result.summary.num_sampled_tokens for result in groups)
    _finish_step(run, metrics.rollout(accepted, dropped), began, tokens=tokens, updated=False)


def _reinforce_once(run: Run, stage: StageConfig, collector: Collector) -> None:
    began = time.perf_counter()
    config = run.composed.config
    run.pool.check_version(run.version)
    accepted, dropped = run.timed("rollout", lambda: _take(run, collector))
    if not accepted:
        _count_empty_step(run, dropped, began)
        return
    run.empty_steps = 0
    batch = collector.batch(accepted, dropped, _row_tokens(run), run.trainers.num_ranks)
    _store(run, accepted, run.version)
    totals = run.timed(
        "train",
        lambda: run.trainers.train(
            batch.parts,
            batch.places,
            _domain_index(run),
            config.algorithm.loss,
            loss_options(config.algorithm),
            learning_rate(stage, run.stage_step),
            run.version,
            config.algorithm.load_balance,
        ),
    )
    mismatch = run.fidelity.observe(totals["mismatch_abs_sum"], totals["mismatch_count"])
    numbers, series = metrics.reinforcement(batch, totals, run.mixtures[run.stage], mismatch, list(_domain_index(run)))
    _finish_step(run, numbers, began, tokens=totals["tokens"], series=series)
    run.rl_steps_here += 1
    publish(run)


def _take(run: Run, collector: Collector) -> tuple[list[GroupResult], list[tuple[GroupResult, Outcome]]]:
    """This step's groups: rolled out now, or read from a run's trajectories (`mode=train_only`)."""
    config = run.composed.config
    if config.mode != "train_only":
        return collector.take(run.version)
    files = sorted(Path(config.trajectories).glob("step-*.parquet"))
    return collector.judge(run.pool.load(str(files[run.stage_step % len(files)])))


def _count_empty_step(run: Run, dropped: list[tuple[GroupResult, Outcome]], began: float) -> None:
    """No group had signal: nothing to train on.  Logged, and an error when it goes on."""
    run.empty_steps += 1
    _finish_step(run, metrics.rollout([], dropped) | {"groups/empty_step": 1.0}, began, tokens=0.0, updated=False)
    if run.empty_steps >= MAX_EMPTY_STEPS:
        raise EmptyBatch(
            f"none of {len(dropped)} groups carried signal, for the {run.empty_steps}th step in a row: tasks are all "
            "solved or all failed; choose other domains, a larger algorithm.group_size or algorithm.refill_rounds"
        )


def publish(run: Run) -> None:
    """Make every engine serve this version, checked; nothing to do where they do already."""
    if run.engine_version == run.version:
        return

    engine = run.composed.config.cluster.engine

    def work() -> PublishReport:
        if engine.publish_through != "objects":
            sizes = [engine.tensor_parallel_size] * engine.count
            send = run.trainers.sender(run.version, shard_format(run), engine.publish_through, sizes)
            return run.pool.publish_directly(run.version, send)
        chunks = run.trainers.publisher(run.version, shard_format(run), engine.publish_chunks, engine.publish_delta)
        return run.pool.publish(run.version, *chunks)

    run.tracker.log(run.version, metrics.publish(run.timed("publish", work)))
    run.engine_version = run.version


def save(run: Run) -> None:
    """A checkpoint with its canary, unless this version has one already."""
    if run.last_saved == run.version:
        return
    config = run.composed.config
    publish(run)

    def work() -> None:
        canary = sample_canary(run)
        tensors, run.adam_step = run.trainers.read_state()
        checkpoint.save(
            run.run_dir,
            run.version,
            tensors,
            run=state(run),
            canary=canary,
            config=run.composed.tree,
            keep=config.checkpoint.keep,
        )

    run.timed("checkpoint", work)
    run.last_saved = run.version


def loss_options(algorithm: AlgorithmConfig) -> LossOptions:
    """The loss's constants: those of the config over the defaults.

    Raises ValueError naming one that does not exist, or that this loss would not read.
    """
    known = [item.name for item in fields(LossOptions)]
    spec = LOSSES[algorithm.loss]
    reads = spec.reads + (spec.reads_if_proximal if algorithm.updates > 1 else ())
    for name, value in algorithm.options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise ValueError(f"algorithm.options.{name}={value}: there is no such option{hint}")
        if name not in reads:
            more = " (it does with algorithm.updates above 1)" if name in spec.reads_if_proximal else ""
            raise ValueError(
                f"algorithm.options.{name}={value} is not read by the loss {algorithm.loss}{more}, which reads "
                f"{', '.join(reads)}; remove it, or take another preset (algorithm=...)"
            )
    options: dict[str, Any] = dict(algorithm.options)
    try:
        return LossOptions(**options)
    except ValueError as error:
        raise ValueError(f"algorithm.options: {error}") from error


def learning_rate(stage: StageConfig, step: int) -> float:
    """Linear warm-up from step 0 on, then the stage's schedule down to zero at its end (or constant)."""
    warm = min(1.0, (step + 1) / stage.warmup_steps) if stage.warmup_steps else 1.0
    done = step / max(stage.steps, 1)
    decay = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}[stage.schedule]
    return stage.learning_rate * warm * decay


def _finish_step(
    run: Run,
    numbers: dict[str, float],
    began: float,
    *,
    tokens: float,
    series: dict[str, dict[str, float]] | None = None,
    updated: bool = True,
) -> None:
    """Count, log and show one step; only one that `updated` the weights makes a new version."""
    run.version += updated
    run.stage_step += 1
    seconds = time.perf_counter() - began
    numbers |= {"time/step_seconds": seconds, "time/tokens_per_second": tokens / seconds}
    # What changed nothing has no version of its own, and may not write over the step that has.
    step, prefix = run.version, run.stage
    if not updated and run.composed.config.mode == "rollout_only":
        step += run.stage_step
    elif not updated:
        prefix = f"{run.stage}/not_trained"
    run.tracker.log(step, {f"{prefix}/{name}": value for name, value in numbers.items()}, series)
    run.display.step(
        StepView(
            step=run.version,
            reward=numbers.get("reward/mean"),
            mismatch=numbers.get("fidelity/mismatch_rolling"),
            tokens_per_second=tokens / seconds,
        )
    )


def _start_demonstrations(run: Run, mixture: Mixture, stage: StageConfig) -> Any:
    """Draw tickets and have workers play gold policies while the trainer is busy.

    After a resume the tickets that were in flight come first: their demonstrations were not trained on.
    """
    flying = mixture.in_flight()
    if flying:
        tickets = [ticket for ticket, _ in flying]
        made = run.pool.make_tasks([(ticket.domain, "train", index or 0, 1) for ticket, index in flying])
        tasks = [own[0] for own, _ in made]
    else:
        tickets = [mixture.next_ticket() for _ in range(stage.samples_per_step)]
        tasks = take_tasks(run.pool, mixture, tickets)
    groups = [(ticket.number, task, ticket.tier) for ticket, task in zip(tickets, tasks, strict=True)]
    return tickets, run.pool.demonstrate(groups)


def _train_supervised(run: Run, stage: StageConfig, groups: list[GroupResult]) -> dict[str, float]:
    counts = [result.summary.num_sampled_tokens for result in groups]
    weights = loss_token_weights([result.summary.domain for result in groups], counts, "domain")
    items = [Item(number, number, 0, 0, 0.0, weight) for number, weight in enumerate(weights)]
    return run.trainers.train(
        [plan_items(items, groups, _row_tokens(run), run.trainers.num_ranks)],
        [result.place for result in groups],
        _domain_index(run),
        "sft",
        LossOptions(),
        learning_rate(stage, run.stage_step),
        run.version,
    )


def _probe(run: Run, stage: StageConfig) -> float:
    """Mean held-out accuracy over domains on a few tasks of each."""
    publish(run)
    found = run.timed("evaluate", lambda: evaluate_run(run, stage.probe_tasks))
    run.tracker.log(run.version, {f"{run.stage}/probe/accuracy": found.mean})
    return found.mean


def _evaluate(run: Run, label: str) -> None:
    publish(run)
    config = run.composed.config.evaluate
    run.display.stage(f"evaluating {label}")
    found = run.timed("evaluate", lambda: evaluate_run(run, config.tasks_per_domain))
    run.evaluations[label] = found.as_dict()
    run.tracker.log(run.version, {"held_out/mean": found.mean}, {"held_out": found.means})
    run.display.stage(run.stage)


def evaluate_run(run: Run, num_tasks: int) -> Evaluation:
    """The first `num_tasks` held-out tasks of every domain; they are made once and their ids kept in the run folder."""
    config = run.composed.config.evaluate
    path = run.run_dir / "held_out.json"
    if not run.held_out and path.exists():
        # A resumed run evaluates on the tasks that it was evaluated on before, however many were made in time then.
        run.held_out = run.pool.tasks_by_id(json.loads(path.read_text()))
    if not run.held_out:
        run.held_out = run.pool.held_out_tasks(run.evaluated, config.tasks_per_domain, config.seconds)
        ids = {domain: [task.id for task in tasks] for domain, tasks in run.held_out.items()}
        write_json_atomic(path, ids)
    tasks = {domain: own[:num_tasks] for domain, own in run.held_out.items()}
    tiers = {domain: run.domains[domain].tiers for domain in tasks}
    return evaluate(run.pool, tasks, config.tier, tiers)


def _store(run: Run, groups: list[GroupResult], number: int) -> None:
    """Have a worker write the groups; an error of an earlier write is raised here, not lost."""
    if not run.composed.config.tracking.store_trajectories:
        return
    folder = run.run_dir / "trajectories"
    folder.mkdir(exist_ok=True)
    run.pool.store(str(folder / file_name(number)), groups)


def _stop_if_asked(run: Run) -> None:
    stop_after = run.composed.config.stop_after
    if run.stop_requested() or (stop_after and run.rl_steps_here >= stop_after):
        save(run)
        raise Stopped(run.version)


def _row_tokens(run: Run) -> int:
    return run.trainers.row_tokens(run.composed.config.algorithm.row_tokens)


def _domain_index(run: Run) -> dict[str, int]:
    return {name: number for number, name in enumerate(run.domains)}
