"""A run: its live parts, where it stands, and all of its state that is no tensor.

In: what `train.launch` built.  Out: the object that `train.loop` drives; `state` and `load_state` are the two sides of
a checkpoint's `run` document.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from envs.domain import Domain
from envs.types import Task
from rewards.normalise import DomainStatistics
from rewards.parts import PartStatistics
from rollouts.adaptive import AdaptiveWeights
from rollouts.mixture import Mixture
from rollouts.pool import RolloutPool
from rollouts.retired import RetiredTasks
from train.checkpoint import Checkpoint
from train.compose import Composed
from train.fidelity import Fidelity
from train.policy.workers import TrainerGroup
from train.tracking import Display, Tracker


@dataclass(slots=True)
class Run:
    """The live parts of a run, and where it stands.

    `version` counts steps of the loop that trained; it stamps weights and tokens.  `stage_step` counts those of stage
    `stage`.
    """

    composed: Composed
    run_dir: Path
    pool: RolloutPool
    trainers: TrainerGroup
    tracker: Tracker
    display: Display
    format: str
    stop_requested: Callable[[], bool]
    mixtures: dict[str, Mixture]
    statistics: DomainStatistics
    fidelity: Fidelity
    adaptive: dict[str, AdaptiveWeights] = field(default_factory=dict)
    part_statistics: PartStatistics = field(default_factory=lambda: PartStatistics({}))
    retired: RetiredTasks = field(default_factory=RetiredTasks)
    version: int = 0
    adam_step: int = 0
    stage: str = ""
    stage_step: int = 0
    rl_steps_here: int = 0
    engine_version: int = -1
    done: list[str] = field(default_factory=list)
    evaluations: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, list[Task]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    last_saved: int = -1
    empty_steps: int = 0

    @property
    def evaluated(self) -> list[str]:
        """Domains that any stage trains on."""
        return sorted({domain for mix in self.composed.mixes.values() for domain in mix.weights})

    @property
    def domains(self) -> dict[str, Domain]:
        return self.composed.domains

    def timed(self, phase: str, function: Callable[[], Any]) -> Any:
        """Call, and add the seconds to `phase`."""
        began = time.perf_counter()
        result = function()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - began
        return result


def state(run: Run) -> dict[str, Any]:
    """Everything that has state and is no tensor."""
    return {
        "version": run.version,
        "adam_step": run.adam_step,
        "stage": run.stage,
        "stage_step": run.stage_step,
        "done": run.done,
        "mixtures": {name: mixture.state_dict() for name, mixture in run.mixtures.items()},
        "adaptive": {name: adaptive.state_dict() for name, adaptive in run.adaptive.items()},
        "retired": run.retired.state_dict(),
        "statistics": run.statistics.state_dict(),
        "part_statistics": run.part_statistics.state_dict(),
        "fidelity": run.fidelity.state_dict(),
        "evaluations": run.evaluations,
        "seconds": run.seconds,
        "published": run.pool.digests(),
        "format": shard_format(run),
        "engine": {
            "format": run.pool.settings.format,
            "settings": asdict(run.pool.settings.engine),
            "threads": run.composed.config.cluster.engine.threads,
        },
    }


def load_state(run: Run, saved: Checkpoint) -> None:
    """Put a run back where its checkpoint was written."""
    document = saved.run
    run.trainers.write_state(saved.tensors, document["adam_step"])
    run.version, run.adam_step = document["version"], document["adam_step"]
    run.stage, run.stage_step = document["stage"], document["stage_step"]
    for name, mixture in run.mixtures.items():
        if name in document["mixtures"]:
            mixture.load_state_dict(document["mixtures"][name])
    for name, adaptive in run.adaptive.items():
        if name in document.get("adaptive", {}):  # not in checkpoints of a run with fixed weights
            adaptive.load_state_dict(document["adaptive"][name])
    run.retired.load_state_dict(document.get("retired", {}))
    run.statistics.load_state_dict(document["statistics"])
    if "part_statistics" in document:  # not in checkpoints from before domains had parts
        run.part_statistics.load_state_dict(document["part_statistics"])
    run.fidelity.load_state_dict(document["fidelity"])
    run.done = list(document["done"])
    run.evaluations, run.seconds = document["evaluations"], document["seconds"]
    run.last_saved = run.version


def shard_format(run: Run) -> str:
    """What trainers send: packed MXFP4, also to engines that serve its values in bf16; bf16 without quantisation."""
    return "mxfp4" if run.composed.config.quant.experts == "mxfp4" else "bf16"
