"""From a checked config to live parts, and down again: Ray, the policy's folder, trainer ranks, the pool.

In: `Composed` and a run folder.  Out: a `Run` inside a context manager that tears everything down.  Called by
`train.__main__` and by `train.commands`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import ray
from ray._private import ray_constants

from envs.adapters import absolute
from rewards.normalise import DomainStatistics
from rewards.parts import PartStatistics
from rollouts.episode import EpisodeLimits
from rollouts.mixture import Mixture
from rollouts.pool import PoolSettings, RolloutPool
from rollouts.vllm_engine import EngineSettings
from rollouts.worker import WorkerSettings
from train.checkpoint import Checkpoint
from train.cluster.placement import Placement, placement_of, resource
from train.compose import Composed, stages
from train.config import Config, check_experts
from train.fidelity import Fidelity
from train.policy.mxfp4 import RULE
from train.policy.qat import QatOptions
from train.policy.setup import PolicySettings
from train.policy.workers import TrainerGroup
from train.run import Run, load_state
from train.steer import make_adaptive, make_retired
from train.tracking import Display, Tracker, WandbMode
from train.weights import formats, publish
from train.weights.sources import SOURCE_SCALES, decode_checkpoint, packed_format

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
)


@contextlib.contextmanager
def started_ray(config: Config, logs: Path) -> Iterator[None]:
    """The run's Ray: in a job the one that its nodes started (`train.cluster.node`), else a private one on loopback.

    The logs of a private one's workers are kept in `logs`; its files have a short path (socket names are long).
    """
    if os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0" and ray_constants.ENABLE_RAY_CLUSTER:
        raise RuntimeError("ray was imported before rollouts and train: it would listen on every network interface")
    root = str(Path(__file__).resolve().parents[1])
    common: dict[str, Any] = {
        "logging_level": "warning",
        "log_to_driver": False,
        "runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}},
    }
    joins = in_job()
    temporary = os.environ["JOINTRL_RAY_FOLDER"] if joins else tempfile.mkdtemp(prefix="jr-", dir="/tmp")
    if joins:
        ray.init(os.environ["JOINTRL_RAY_ADDRESS"], _temp_dir=f"{temporary}/ray", **common)
    else:
        if config.cluster.ray_port:
            os.environ["RAY_GCS_SERVER_PORT"] = str(config.cluster.ray_port)
        ray.init(
            num_cpus=_ray_cpus(config),
            num_gpus=0 if config.cluster.trainer.device == "cpu" else None,
            include_dashboard=False,
            object_store_memory=config.cluster.object_store_mib * 2**20,
            _temp_dir=temporary,
            **common,
        )
    try:
        yield
    finally:
        ray.shutdown()
        if not joins:
            logs.mkdir(exist_ok=True)
            for path in Path(temporary).glob("session_*/logs/worker-*"):
                if path.stat().st_size:
                    shutil.copy(path, logs / path.name)
            shutil.rmtree(temporary, ignore_errors=True)


def stored(value: Any) -> Any:
    """A reference to `value` in the object store."""
    return ray.put(value)


def prepare_model(config: Config, directory: Path) -> Path:
    """The policy's starting point as a Hugging Face folder: built here, or the user's own."""
    if config.model.source == "path":
        source = Path(config.model.path)
        packed = (source / "config.json").exists() and packed_format(source)
        if packed and not (directory / "config.json").exists():
            print(f"[model] {source} is {packed}: its decoded values become the masters, in {directory}", flush=True)
            decode_checkpoint(source, directory)
        return directory if packed else source
    if not (directory / "config.json").exists():
        from train.policy.tiny import write_tiny_model

        write_tiny_model(
            directory,
            seed=config.seed,
            hidden_size=config.model.hidden_size,
            expert_size=config.model.expert_size,
            num_layers=config.model.num_layers,
            num_experts=config.model.num_experts,
            experts_per_token=config.model.experts_per_token,
            context=config.model.context,
            initializer_range=config.model.initializer_range,
        )
    return directory


def stop_ids_of(model_dir: Path) -> tuple[int, ...]:
    """Every token that ends a turn: the generation config's list, else the model's EOS."""
    for name in ("generation_config.json", "config.json"):
        path = model_dir / name
        found = json.loads(path.read_text()).get("eos_token_id") if path.exists() else None
        if found is not None:
            return tuple(found) if isinstance(found, list) else (found,)
    raise ValueError(f"{model_dir} names no eos_token_id in generation_config.json or config.json")


def engine_format(config: Config) -> tuple[str, str]:
    """The format that engines load here, and a line that says why (empty where there is nothing to say)."""
    if config.quant.experts == "none":
        return "bf16", ""
    if config.quant.serve != "auto":
        return config.quant.serve, ""
    if config.cluster.engine.gpus > 0 or _has_amx():
        return "mxfp4", ""
    return "bf16", (
        "this CPU has no AMX: engines serve the dequantised MXFP4 values in bf16 (same numbers, slower); "
        "published and exported bytes are MXFP4 all the same"
    )


def engine_dtype(config: Config) -> str:
    """`auto`: bf16 where the hardware computes in it, else float32 on the same bf16 weights (same values, faster)."""
    if config.cluster.engine.dtype != "auto":
        return config.cluster.engine.dtype
    return "bfloat16" if config.cluster.engine.gpus > 0 or _has_amx() else "float32"


def write_engine_folder(model_dir: Path, directory: Path, format: str) -> Path:
    """Config and tokenizer without weights: engines start empty and get every weight through a publish."""
    directory.mkdir(parents=True, exist_ok=True)
    config = json.loads((model_dir / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(formats.serving_config(config, format), indent=1))
    for name in TOKENIZER_FILES:
        if (model_dir / name).exists():
            shutil.copy(model_dir / name, directory / name)
    return directory


def routes_by(config: Config) -> str:
    """How engines read routes here: vLLM returns them on GPUs; on CPUs they are captured at its routers."""
    if config.algorithm.routes == "none":
        return ""
    return "output" if config.cluster.engine.gpus > 0 else "capture"


def engine_settings(config: Config, directory: Path) -> EngineSettings:
    engine = config.cluster.engine
    return EngineSettings(
        model=str(directory),
        dtype=engine_dtype(config),
        max_model_len=config.model.context,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        tensor_parallel_size=engine.tensor_parallel_size,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        cpu_cache_gib=engine.cpu_cache_gib,
        enforce_eager=engine.enforce_eager,
        enable_prefix_caching=engine.enable_prefix_caching,
        routes=routes_by(config),
        transfer=engine.publish_through,
    )


def make_pool(config: Config, model_dir: Path, run_dir: Path) -> RolloutPool:
    """Engines and episode workers; they are still starting when this returns."""
    format, _ = engine_format(config)
    placement = placement_of(config.cluster) if in_job() else Placement()
    limits = {
        name: EpisodeLimits(
            turn_tokens=tier.turn_tokens, trajectory_tokens=tier.trajectory_tokens, context=config.model.context
        )
        for name, tier in config.tiers.items()
    }
    worker = WorkerSettings(
        model_dir=str(model_dir),
        stop_ids=stop_ids_of(model_dir),
        limits=limits,
        families=absolute(config.families),
        unscored_retries=config.cluster.worker.unscored_retries,
        routes=config.algorithm.routes != "none",
    )
    engine = config.cluster.engine
    settings = PoolSettings(
        engine=engine_settings(config, write_engine_folder(model_dir, run_dir / "engine", format)),
        worker=worker,
        format=format,
        num_engines=engine.count,
        num_workers=config.cluster.worker.count,
        deterministic=config.cluster.deterministic,
        engine_cpus=engine.cpus,
        engine_gpus=engine.gpus,
        worker_cpus=config.cluster.worker.cpus,
        engine_environment=process_environment(engine.threads),
        worker_environment=process_environment(1) | {"PYTHONHASHSEED": "0"},
        engine_nodes=[resource(node) for node in placement.engines],
        worker_nodes=[resource(node) for node in placement.workers],
        start_seconds=engine.start_seconds,
        publish_seconds=engine.publish_seconds,
    )
    return RolloutPool(settings, functools.partial(publish.Receiver, format, delta=engine.publish_delta))


def make_trainers(config: Config, model_dir: Path, rendezvous: Path) -> TrainerGroup:
    """Trainer ranks, which find each other through the (new) file `rendezvous`; they are still starting."""
    trainer = config.cluster.trainer
    scales = model_dir / SOURCE_SCALES
    settings = PolicySettings(
        model_dir=str(model_dir),
        dtype=trainer.dtype,
        device=trainer.device,
        zero_stage=trainer.zero_stage,
        expert_parallel=trainer.expert_parallel,
        autoep_preset=config.model.autoep_preset,
        quantise=config.quant.experts == "mxfp4" and config.quant.trainer,
        temperature=config.algorithm.loss_temperature or config.algorithm.temperature,
        activation_checkpointing=trainer.activation_checkpointing,
        logit_chunk_tokens=trainer.logit_chunk_tokens,
        gradient_clip=config.algorithm.gradient_clip,
        betas=(config.algorithm.beta1, config.algorithm.beta2),
        weight_decay=config.algorithm.weight_decay,
        init_file=str(rendezvous),
        num_threads=trainer.threads,
        routes=config.algorithm.routes,
        qat=QatOptions(
            rule=config.quant.rule or RULE,
            start_step=config.quant.start_step,
            freeze_scales=config.quant.freeze_scales,
            average=config.quant.average,
        ),
        quant_report_every=config.quant.report_every,
        source_scales=str(scales) if config.quant.experts == "mxfp4" and scales.exists() else "",
    )
    environment = process_environment(trainer.threads) | {"DS_ACCELERATOR": trainer.device}
    options = {"num_cpus": trainer.cpus, "num_gpus": trainer.gpus, "runtime_env": {"env_vars": environment}}
    nodes = placement_of(config.cluster).trainers if in_job() else ()
    return TrainerGroup(settings, trainer.ranks, options, [resource(node) for node in nodes])


@contextlib.contextmanager
def launched(
    composed: Composed, run_dir: Path, stop_requested: Callable[[], bool], saved: Checkpoint | None = None
) -> Iterator[Run]:
    """All parts of a run, ready, and put back where `saved` was written."""
    config = composed.config
    model_dir = prepare_model(config, run_dir / "model")
    check_model(config, model_dir)
    # In the run folder, which all of a run's nodes see, and new every time: a stale one would be joined.
    with (
        tempfile.TemporaryDirectory(prefix=".rendezvous-", dir=run_dir) as scratch,
        started_ray(config, run_dir / "logs"),
    ):
        pool = make_pool(config, model_dir, run_dir)
        trainers = make_trainers(config, model_dir, Path(scratch).resolve() / "store")
        trainers.wait_until_ready(config.cluster.engine.start_seconds)
        pool.wait_until_ready()
        wandb_mode = cast(WandbMode, config.tracking.wandb)
        first = saved.run["version"] + 1 if saved is not None else 1
        with (
            Tracker(run_dir, composed.tree, wandb_mode, config.tracking.project, first_step=first) as tracker,
            Display(total_steps(composed), first_step=first - 1) as display,
        ):
            run = Run(
                composed=composed,
                run_dir=run_dir,
                pool=pool,
                trainers=trainers,
                tracker=tracker,
                display=display,
                format=pool.settings.format,
                stop_requested=stop_requested,
                mixtures=make_mixtures(composed),
                statistics=make_statistics(composed),
                adaptive=make_adaptive(composed),
                retired=make_retired(composed),
                part_statistics=make_part_statistics(composed),
                fidelity=Fidelity(alarm=config.fidelity.alarm, window=config.fidelity.window),
            )
            if saved is not None:
                load_state(run, saved)
            yield run


def total_steps(composed: Composed) -> int:
    """Optimiser steps of all stages together (an sft stage may end earlier)."""
    config = composed.config
    return sum(
        min(stage.steps, config.steps) if stage.kind == "rl" and config.steps else stage.steps
        for stage in config.stage.values()
    )


def make_mixtures(composed: Composed) -> dict[str, Mixture]:
    """One mixture a stage, each with its own quotas."""
    out = {}
    for name, _ in stages(composed.config):
        weights = composed.mixes[name].weights
        tiers = {domain: composed.domains[domain].tiers for domain in weights}
        families = {domain: composed.domains[domain].family for domain in weights}
        mix, seed = composed.config.mix, composed.config.seed
        out[name] = Mixture(weights, tiers, mix.tiers, seed, families, mix.pass_on)
    return out


def make_statistics(composed: Composed) -> DomainStatistics:
    algorithm = composed.config.algorithm
    return DomainStatistics(
        {name: domain.score_range for name, domain in composed.domains.items()},
        {name: domain.family for name, domain in composed.domains.items()},
        floor=algorithm.scale_floor,
        warm_groups=algorithm.scale_warm_groups,
    )


def make_part_statistics(composed: Composed) -> PartStatistics:
    algorithm = composed.config.algorithm
    return PartStatistics(
        {name: domain.parts for name, domain in composed.domains.items() if domain.parts},
        {name: domain.family for name, domain in composed.domains.items()},
        floor=algorithm.scale_floor,
        warm_groups=algorithm.scale_warm_groups,
    )


def check_model(config: Config, model_dir: Path) -> None:
    """The model's own sizes against the config (what `Config` could not know of a loaded model)."""
    document: dict[str, Any] = json.loads((model_dir / "config.json").read_text())
    num_experts = document.get("num_experts") or document.get("num_local_experts") or 0
    if not num_experts:
        raise ValueError(f"model.path={model_dir} is no sparse mixture-of-experts model (its config has no experts)")
    sizes = {"hidden_size": document["hidden_size"], "expert_size": document["moe_intermediate_size"]}
    check_experts(config, num_experts, sizes)


def in_job() -> bool:
    """Whether the nodes of a job started a Ray for this process.  (A job's run may be evaluated anywhere later.)"""
    return "JOINTRL_RAY_ADDRESS" in os.environ


def process_environment(threads: int) -> dict[str, str]:
    """Of every actor: few threads that sleep while they wait, loopback, no hub.

    In a job its node has set the network interface (`train.cluster.network`), which actors inherit.
    """
    chosen = {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if not in_job():
        chosen |= {"GLOO_SOCKET_IFNAME": "lo", "VLLM_HOST_IP": "127.0.0.1"}
    return chosen


def _ray_cpus(config: Config) -> int:
    cluster = config.cluster
    wanted = (
        cluster.trainer.ranks * cluster.trainer.cpus
        + cluster.engine.count * cluster.engine.cpus
        + cluster.worker.count * cluster.worker.cpus
    )
    return max(os.cpu_count() or 1, int(wanted) + 1)


def _has_amx() -> bool:
    import torch

    return bool(torch.cpu._is_amx_tile_supported())
