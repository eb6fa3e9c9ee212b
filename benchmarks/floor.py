"""A whole step against the least that it could take: `python -m benchmarks.floor [--steps 20] [key=value …]`.

In: nothing (a cold start is made first), or `resume=<run or checkpoint>` to leave that out.  Out: seconds of each step
and of its floor, medians, and their ratio by part.

Our step is the loop's own: draw, roll out, judge, pack, train, publish, log.  Its floor is made of the same work, done
in the same processes right after it, with nothing of ours around it:

- raw vLLM: the same turns with the same lengths, each added the moment its predecessor's tokens are back;
- bare DeepSpeed: forward, backward and step on the same packed rows, with the same quantised forward;
- one copy of the published bytes in memory.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rollouts import pool as pool_module
from rollouts.objects import GroupResult, fetch_groups
from rollouts.pool import EngineActor
from train import loop
from train.checkpoint import newest
from train.collect import Collector
from train.compose import compose_run, stages
from train.launch import launched
from train.policy import workers as trainer_module
from train.policy.packing import build_row
from train.policy.workers import TrainerActor
from train.run import Run

TARGET = 1.25
# Prompt ids and number of sampled tokens of each turn of an episode.
Turns = list[tuple[list[int], int]]


class RawEngine(EngineActor):
    """An engine actor that can also be used as bare vLLM."""

    def raw(self, episodes: list[Turns]) -> float:
        """Seconds that vLLM takes for these turns when tools cost nothing."""
        seconds: float = self._server.run(lambda driver: raw_vllm(driver._engine, episodes))
        return seconds


class BareTrainer(TrainerActor):
    """A trainer actor that can also be used as bare DeepSpeed."""

    def prepare(self, parts: Any, places: Any, domain_index: Any) -> None:
        groups = dict(zip(places, fetch_groups(list(places.values())), strict=True))
        routed = self._policy.settings.routes != "none"
        self._rows = [build_row(*self._samples(row, groups, routed), domain_index) for rows in parts for row in rows]

    def bare(self) -> float:
        """Seconds of forward, backward and step; the learning rate is 0, so that nothing changes."""
        policy = self._policy
        policy.engine.train()
        began = time.perf_counter()
        for number, row in enumerate(self._rows):
            policy.engine.set_gradient_accumulation_boundary(number == len(self._rows) - 1)
            logprobs, _ = policy._forward(row)
            policy.engine.backward(-(row.weights * logprobs).sum(), scale_wrt_gas=False)
        for group in policy.engine.optimizer.param_groups:
            group["lr"] = 0.0
        policy.engine.step()
        policy.quantiser.stepped()
        return time.perf_counter() - began


def raw_vllm(engine: Any, episodes: list[Turns]) -> float:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    def add(episode: int, turn: int) -> None:
        prompt, count = episodes[episode][turn]
        sampling = SamplingParams(
            temperature=1.0,
            max_tokens=count,
            ignore_eos=True,
            seed=1_000 * episode + turn,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        engine.add_request(f"{episode}.{turn}", {"prompt_token_ids": prompt}, sampling)

    engine.reset_prefix_cache()
    began = time.perf_counter()
    for episode in range(len(episodes)):
        add(episode, 0)
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                episode, turn = map(int, output.request_id.split("."))
                if turn + 1 < len(episodes[episode]):
                    add(episode, turn + 1)
    return time.perf_counter() - began


@dataclass(slots=True)
class Recorder:
    """What the last step rolled out and trained on."""

    results: list[GroupResult] = field(default_factory=list)
    training: tuple[Any, ...] = ()

    def attach(self, run: Run, collector: Collector) -> None:
        take, train = collector.take, run.trainers.train

        def recorded_take(version: int) -> Any:
            accepted, dropped = take(version)
            self.results = [*accepted, *(result for result, _ in dropped)]
            return accepted, dropped

        def recorded_train(*arguments: Any) -> Any:
            self.training = arguments
            return train(*arguments)

        collector.take = recorded_take  # type: ignore[method-assign]
        run.trainers.train = recorded_train  # type: ignore[method-assign]

    def episodes(self) -> list[Turns]:
        places = [result.place for result in self.results if result.place is not None]
        return [
            [(list(turn.prompt_ids), len(turn.completion_ids)) for turn in trajectory.turns]
            for group in fetch_groups(places)
            for trajectory in group.trajectories
        ]


def floor_of(run: Run, recorder: Recorder, num_bytes: int) -> dict[str, float]:
    """Seconds of each part of the floor of the step that was recorded."""
    import ray  # not before our own packages, which keep it on loopback

    episodes = recorder.episodes()
    engines = run.pool._engines
    shares = [episodes[number :: len(engines)] for number in range(len(engines))]
    raw = ray.get([engine.raw.remote(share) for engine, share in zip(engines, shares, strict=True)])
    parts, places, domain_index = recorder.training[:3]
    actors = run.trainers._actors
    own = [[part[rank] for part in parts] for rank in range(len(actors))]
    needed = [{item.group for rows in mine for row in rows for item in row} for mine in own]
    ray.get(
        [
            actor.prepare.remote(mine, {number: places[number] for number in sorted(groups)}, domain_index)
            for actor, mine, groups in zip(actors, own, needed, strict=True)
        ]
    )
    bare = ray.get([actor.bare.remote() for actor in actors])
    source = torch.zeros(num_bytes, dtype=torch.uint8)
    began = time.perf_counter()
    source.clone()
    return {"raw vLLM": max(raw), "bare DeepSpeed": max(bare), "copy": time.perf_counter() - began}


def measure(run: Run, num_steps: int) -> list[dict[str, float]]:
    """One row a step: seconds of ours by phase, and of the floor by part; the first step of all is not counted."""
    import ray

    ((name, stage),) = [(name, stage) for name, stage in stages(run.composed.config) if stage.kind == "rl"]
    run.stage, run.stage_step = name, 0
    config = run.composed.config
    collector = Collector(run.pool, run.mixtures[name], run.statistics, run.domains, config.algorithm, config.seed)
    recorder = Recorder()
    recorder.attach(run, collector)
    loop.publish(run)
    num_chunks, make_chunk = run.trainers.publisher(run.version, "mxfp4", 1, delta=False)
    assert num_chunks == 1
    num_bytes = sum(len(shard.payload) for shard in ray.get(make_chunk(0, True, 60.0)))
    rows = []
    for number in range(num_steps + 1):
        before = dict(run.seconds)
        began = time.perf_counter()
        loop._reinforce_once(run, stage, collector)
        ours = time.perf_counter() - began
        phases = {phase: run.seconds[phase] - before.get(phase, 0.0) for phase in ("rollout", "train", "publish")}
        floor = floor_of(run, recorder, num_bytes)
        rows.append({"ours": ours, **phases, "floor": sum(floor.values()), **floor})
        print(f"step {number}: ours {ours:.2f} s, floor {sum(floor.values()):.2f} s", flush=True)
    return rows[1:]


def main(arguments: list[str]) -> None:
    num_steps = 20
    if "--steps" in arguments:
        place = arguments.index("--steps")
        num_steps = int(arguments[place + 1])
        arguments = arguments[:place] + arguments[place + 2 :]
    pool_module.EngineActor = RawEngine  # type: ignore[misc]
    trainer_module.TrainerActor = BareTrainer  # type: ignore[misc]
    # Constant: a step of the toy's falling rate would make the last ones easier or harder than the first.
    chosen = ["experiment=toy", "stage.rl.schedule=constant", "stage.cold_start.steps=200", "tracking.wandb=disabled"]
    with tempfile.TemporaryDirectory() as folder:
        composed = compose_run([*chosen, f"runs_dir={folder}", "name=floor", *arguments])
        run_dir = Path(folder) / "floor"
        run_dir.mkdir()
        given = composed.config.resume
        saved = None if given in ("auto", "never") else newest(Path(given))
        with launched(composed, run_dir, lambda: False, saved) as run:
            cold = [(name, stage) for name, stage in stages(composed.config) if stage.kind == "sft"]
            for name, stage in cold if saved is None else []:
                run.stage, run.stage_step = name, 0
                loop.cold_start(run, stage)
            rows = measure(run, num_steps)
            run.pool.finish_storing()
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    ratio = statistics.median(row["ours"] / row["floor"] for row in rows)
    print(f"\nmedians of {len(rows)} steps, seconds")
    print("  ours " + "  ".join(f"{name} {medians[name]:.3f}" for name in ("ours", "rollout", "train", "publish")))
    print("  floor " + "  ".join(f"{name} {medians[name]:.3f}" for name in ("floor", *list(rows[0])[5:])))
    print(f"  rollout / raw vLLM {medians['rollout'] / medians['raw vLLM']:.2f}")
    print(f"  train / bare DeepSpeed {medians['train'] / medians['bare DeepSpeed']:.2f}")
    print(f"  ours / floor {ratio:.2f} (target {TARGET}), {medians['ours'] - medians['floor']:.3f} s above it")


if __name__ == "__main__":
    main(sys.argv[1:])
