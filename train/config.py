"""The typed config tree and its checks.

In: what Hydra composed from `conf/` and the command line.  Out: plain dataclasses; below `train.__main__` nobody sees
OmegaConf.  A value that cannot work is a ValueError that names its key, here, before anything is started.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from train.config_checks import not_negative, one_of, positive, unread
from train.config_cluster import ClusterConfig, EngineConfig, NodesConfig, SlurmConfig, TrainerConfig, WorkerConfig
from train.config_mix import AdaptiveConfig, CurriculumConfig, MixConfig
from train.config_quant import QuantConfig

__all__ = [
    "AdaptiveConfig",
    "ClusterConfig",
    "CurriculumConfig",
    "EngineConfig",
    "MixConfig",
    "NodesConfig",
    "SlurmConfig",
    "TrainerConfig",
    "WorkerConfig",
]

STAGE_KINDS = ("sft", "rl")
MODES = ("run", "rollout_only", "train_only")
SCHEDULES = ("constant", "linear", "cosine")
SCALES = ("domain", "group", "none")
ROUTES = ("replay", "observe", "none")
NORMALISATIONS = ("domain", "token", "sequence")


@dataclass(kw_only=True, slots=True)
class ModelConfig:
    """Which policy.  `source=tiny` builds one from the sizes below; `source=path` loads a Hugging Face folder."""

    source: str
    path: str
    hidden_size: int
    expert_size: int
    num_layers: int
    num_experts: int
    experts_per_token: int
    context: int
    initializer_range: float
    autoep_preset: str

    def __post_init__(self) -> None:
        one_of("model.source", self.source, ("tiny", "path"))
        positive("model", self, "context")
        if self.source == "path" and not self.path:
            raise ValueError("model.source=path needs model.path=<Hugging Face folder>")
        if self.source == "path":
            sizes = ("hidden_size", "expert_size", "num_layers", "num_experts", "experts_per_token")
            unread("model.source=path", "model", self, *sizes, "initializer_range")
        if self.source == "tiny" and self.path:
            raise ValueError(f"model.path={self.path} is not read with model.source=tiny; write model=path as well")
        if self.source == "tiny":
            positive("model", self, "hidden_size", "expert_size", "num_layers", "num_experts", "experts_per_token")
            positive("model", self, "initializer_range")
            if self.experts_per_token > self.num_experts:
                raise ValueError(
                    f"model.experts_per_token={self.experts_per_token} exceeds model.num_experts={self.num_experts}"
                )


@dataclass(kw_only=True, slots=True)
class TierConfig:
    """Hard token budgets of a thinking tier: for one turn, and for all turns of a trajectory together."""

    turn_tokens: int
    trajectory_tokens: int

    def __post_init__(self) -> None:
        positive("tiers.<name>", self, "turn_tokens", "trajectory_tokens")


@dataclass(kw_only=True, slots=True)
class AlgorithmConfig:
    """The recipe (docs/architecture.md, "Recipe").  `options` are those of `train.policy.losses.LossOptions`.

    `loss_temperature`: that of the trainer's log-probs; 0 means `temperature`, anything else is a negative control.
    `updates`: optimiser steps a batch, each on its own part of the groups.
    `scale`: what centred rewards are divided by: the domain's running RMS, the group's std, or nothing;
    `scale_floor` and `scale_warm_groups` belong to the first.
    `routes`: the experts that the engine chose are replayed in the trainer, observed only (how often it would have
    chosen others), or not asked for.  `load_balance`: factor of the load-balance loss, whose expert shares come from
    them.
    `share_bound`: a domain above so many times its share of sum |advantage| * weight is reported, and cut if it `acts`.
    """

    loss: str
    updates: int
    normalisation: str
    group_size: int
    groups_per_step: int
    refill_rounds: int
    temperature: float
    loss_temperature: float
    options: dict[str, float] = field(default_factory=dict)
    estimator: str
    advantage_clip: float
    scale: str
    scale_floor: float
    scale_warm_groups: int
    routes: str
    load_balance: float
    share_bound: float
    share_bound_acts: bool
    gradient_clip: float
    beta1: float
    beta2: float
    weight_decay: float
    row_tokens: int

    def __post_init__(self) -> None:
        one_of("algorithm.normalisation", self.normalisation, NORMALISATIONS)
        positive("algorithm", self, "groups_per_step", "temperature", "row_tokens", "gradient_clip", "advantage_clip")
        if not 1 <= self.updates <= self.groups_per_step:
            raise ValueError(
                f"algorithm.updates={self.updates} must be 1 to algorithm.groups_per_step={self.groups_per_step}"
            )
        if not self.share_bound >= 1:
            raise ValueError(f"algorithm.share_bound={self.share_bound} must be 1 or more times a domain's share")
        if self.group_size < 2:
            raise ValueError(
                f"algorithm.group_size={self.group_size} leaves no baseline: a group needs at least 2 samples"
            )
        not_negative("algorithm.", self, "refill_rounds", "loss_temperature", "scale_floor", "scale_warm_groups")
        one_of("algorithm.routes", self.routes, ROUTES)
        not_negative("algorithm.", self, "load_balance")
        if self.routes != "replay":
            unread(f"algorithm.routes={self.routes}", "algorithm", self, "load_balance")
        one_of("algorithm.scale", self.scale, SCALES)
        if self.scale != "domain":
            unread(f"algorithm.scale={self.scale}", "algorithm", self, "scale_floor", "scale_warm_groups")


@dataclass(kw_only=True, slots=True)
class StageConfig:
    """One stage: supervised cold start on demonstrations (`sft`) or reinforcement learning (`rl`).

    `stop_accuracy`: an sft stage ends early once the mean held-out accuracy of `probe_tasks` tasks a domain reaches it
    (0: never).  `mix`: its own families and domains; empty means the run's mix.
    """

    kind: str
    order: int
    steps: int
    learning_rate: float
    warmup_steps: int
    schedule: str
    samples_per_step: int
    stop_accuracy: float
    probe_every: int
    probe_tasks: int
    families: dict[str, float] = field(default_factory=dict)
    domains: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("stage.<name>.kind", self.kind, STAGE_KINDS)
        one_of("stage.<name>.schedule", self.schedule, SCHEDULES)
        not_negative("stage.<name>.", self, "steps", "warmup_steps", "samples_per_step", "probe_every", "probe_tasks")
        positive("stage.<name>", self, "learning_rate")
        if self.kind == "rl":
            names = ("samples_per_step", "stop_accuracy", "probe_every", "probe_tasks")
            unread("kind=rl", "stage.<name>", self, *names)
        elif not self.samples_per_step:
            raise ValueError("stage.<name>.samples_per_step=0: a step of kind=sft needs demonstrations")
        elif not self.probe_every:
            unread("probe_every=0", "stage.<name>", self, "stop_accuracy", "probe_tasks")
        elif not self.probe_tasks:
            raise ValueError(f"stage.<name>.probe_tasks=0 with probe_every={self.probe_every}: a probe needs tasks")


@dataclass(kw_only=True, slots=True)
class EvaluateConfig:
    """Held-out evaluation: greedy, the same tasks before and after.  `seconds` caps the making of tasks a domain."""

    tasks_per_domain: int
    seconds: float
    every: int
    tier: str

    def __post_init__(self) -> None:
        positive("evaluate", self, "tasks_per_domain", "seconds")


@dataclass(kw_only=True, slots=True)
class CheckpointConfig:
    """When state is written, how many are kept, and how many canary tokens each stores for the proof."""

    every: int
    keep: int
    canary_tokens: int

    def __post_init__(self) -> None:
        positive("checkpoint", self, "every", "keep", "canary_tokens")


@dataclass(kw_only=True, slots=True)
class FidelityConfig:
    """The alarm: mean |log p_engine − log p_trainer| over own-version tokens, averaged over `window` steps."""

    alarm: float
    window: int

    def __post_init__(self) -> None:
        positive("fidelity", self, "alarm", "window")


@dataclass(kw_only=True, slots=True)
class TrackingConfig:
    """Where metrics go besides `metrics.jsonl`."""

    wandb: str
    project: str
    store_trajectories: bool

    def __post_init__(self) -> None:
        one_of("tracking.wandb", self.wandb, ("offline", "online", "disabled"))


@dataclass(kw_only=True, slots=True)
class Config:
    """The whole run."""

    experiment: str
    name: str
    runs_dir: str
    seed: int
    resume: str
    mode: str
    trajectories: str
    steps: int
    stop_after: int
    export: list[str]
    families: dict[str, str] = field(default_factory=dict)
    tiers: dict[str, TierConfig]
    model: ModelConfig
    mix: MixConfig
    algorithm: AlgorithmConfig
    quant: QuantConfig
    cluster: ClusterConfig
    stage: dict[str, StageConfig]
    evaluate: EvaluateConfig
    checkpoint: CheckpointConfig
    fidelity: FidelityConfig
    tracking: TrackingConfig

    def __post_init__(self) -> None:
        one_of("mode", self.mode, MODES)
        not_negative("", self, "steps", "stop_after")
        if "/" in self.name or self.name in (".", ".."):
            raise ValueError(f"name={self.name} must be the name of a folder in runs_dir={self.runs_dir}, without '/'")
        if self.mode == "train_only" and not self.trajectories:
            raise ValueError("mode=train_only needs trajectories=<a run's trajectories folder>")
        if self.trajectories and self.mode != "train_only":
            raise ValueError(f"trajectories={self.trajectories} is not read with mode={self.mode}; add mode=train_only")
        for export in self.export:
            one_of("export", export, ("mxfp4", "bf16"))
        self._check_tiers()
        self._check_experts()
        self._check_quantisation_start()
        self._check_mix()

    def _check_mix(self) -> None:
        draws = self.mode != "train_only" and any(stage.kind == "rl" for stage in self.stage.values())
        if not draws and (self.mix.is_moving or self.mix.retire_after):
            raise ValueError(
                f"mix.update_every={self.mix.update_every}, mix.retire_after={self.mix.retire_after}: nothing is "
                f"rolled out with mode={self.mode} and these stages, so nothing could move the mix; take a mix without"
            )
        if self.mix.balance == "tokens" and self.algorithm.normalisation != "token":
            raise ValueError(
                f"mix.balance=tokens makes shares of tokens, algorithm.normalisation={self.algorithm.normalisation} "
                "weighs by groups: domains with long answers would lose twice; add algorithm.normalisation=token"
            )

    def _check_tiers(self) -> None:
        asked = {tier: f"mix.tiers.{tier}={weight:g}" for tier, weight in self.mix.tiers.items()}
        for tier, key in {self.evaluate.tier: f"evaluate.tier={self.evaluate.tier}", **asked}.items():
            if tier not in self.tiers:
                raise ValueError(f"{key}: no tier {tier!r}; those with a budget in tiers are {', '.join(self.tiers)}")
        for name, tier_config in self.tiers.items():
            if tier_config.turn_tokens >= self.model.context:
                raise ValueError(
                    f"tiers.{name}.turn_tokens={tier_config.turn_tokens} does not fit "
                    f"model.context={self.model.context}"
                )

    def _check_quantisation_start(self) -> None:
        """Engines serve MXFP4 from the first rollout: trained on anything else, rollouts are of another policy."""
        before = 0
        for name, stage in sorted(self.stage.items(), key=lambda item: item[1].order):
            if stage.kind == "rl" and self.quant.start_step > before:
                raise ValueError(
                    f"quant.start_step={self.quant.start_step} is later than the start of stage.{name} (kind=rl, after "
                    f"{before} supervised steps), whose rollouts are of quantised weights; choose {before} or less"
                )
            before += stage.steps

    def _check_experts(self) -> None:
        """What can be known of experts before the model is built (a loaded model's config is checked at launch)."""
        if self.model.source == "tiny":
            check_experts(
                self,
                self.model.num_experts,
                {"hidden_size": self.model.hidden_size, "expert_size": self.model.expert_size},
            )


def check_experts(config: Config, num_experts: int, sizes: dict[str, int]) -> None:
    """Experts must split over ranks, and into MXFP4 blocks of 32."""
    parallel = config.cluster.trainer.expert_parallel
    if num_experts % parallel:
        raise ValueError(
            f"cluster.trainer.expert_parallel={parallel} does not divide the model's {num_experts} experts "
            "(model.num_experts)"
        )
    if config.quant.experts == "mxfp4":
        for name, size in sizes.items():
            if size % 32:
                raise ValueError(
                    f"model.{name}={size} is not divisible by 32, the MXFP4 block; choose {size // 32 * 32 or 32} or "
                    f"{(size // 32 + 1) * 32}, or quant=none"
                )
