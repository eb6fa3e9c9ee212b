"""The part of the config tree that says where a run lives: its processes, its machine, its Slurm job.

In: the `cluster` group of `conf/`.  Out: plain dataclasses; a value that cannot work is a ValueError that names its
key.  Part of `train.config`, which everybody imports.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from train.config_checks import not_negative, one_of, positive, unread

DTYPES = ("float32", "bfloat16")
PUBLISH_THROUGH = ("objects", "nccl", "ipc")
ROLES = ("trainer", "engine", "worker")
# Options of sbatch and srun that the launcher writes itself.
SLURM_OURS = ("job-name", "output", "error", "time", "signal", "requeue", "no-requeue", "open-mode", "array", "nodes")


@dataclass(kw_only=True, slots=True)
class TrainerConfig:
    """Trainer ranks: how many, how they split experts and optimiser state."""

    ranks: int
    expert_parallel: int
    zero_stage: int
    dtype: str
    device: str
    activation_checkpointing: bool
    logit_chunk_tokens: int
    threads: int
    cpus: float
    gpus: float

    def __post_init__(self) -> None:
        one_of("cluster.trainer.dtype", self.dtype, DTYPES)
        one_of("cluster.trainer.device", self.device, ("cpu", "cuda"))
        positive("cluster.trainer", self, "ranks", "expert_parallel", "logit_chunk_tokens", "threads")
        if self.zero_stage not in (1, 2, 3):
            raise ValueError(f"cluster.trainer.zero_stage={self.zero_stage} is not one of 1, 2, 3")
        if self.ranks % self.expert_parallel:
            raise ValueError(
                f"cluster.trainer.expert_parallel={self.expert_parallel} does not divide "
                f"cluster.trainer.ranks={self.ranks}"
            )


@dataclass(kw_only=True, slots=True)
class EngineConfig:
    """vLLM engines: how many, and the sizing of each (passed on as they are).

    `publish_through`: how weights come: Ray's object store, or vLLM's NCCL or CUDA IPC transfer (GPUs; ipc: trainer
    and engine share a GPU).  `publish_chunks`: of a version, 0 for one a layer.  `publish_delta`: patches of experts.
    """

    count: int
    tensor_parallel_size: int
    dtype: str
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    cpu_cache_gib: int
    enforce_eager: bool
    enable_prefix_caching: bool
    cpus: float
    gpus: float
    threads: int
    start_seconds: float
    publish_seconds: float
    publish_through: str
    publish_chunks: int
    publish_delta: bool

    def __post_init__(self) -> None:
        one_of("cluster.engine.dtype", self.dtype, ("auto", *DTYPES))
        positive("cluster.engine", self, "count", "tensor_parallel_size", "max_num_seqs", "max_num_batched_tokens")
        not_negative("cluster.engine.", self, "publish_chunks")
        one_of("cluster.engine.publish_through", self.publish_through, PUBLISH_THROUGH)
        if self.publish_through != "objects":
            through = f"cluster.engine.publish_through={self.publish_through}"
            unread(through, "cluster.engine", self, "publish_chunks", "publish_delta")
            if self.gpus <= 0:
                raise ValueError(f"{through} moves weights between GPUs, and cluster.engine.gpus={self.gpus}")
        positive("cluster.engine", self, "threads", "start_seconds", "publish_seconds", "cpu_cache_gib")


@dataclass(kw_only=True, slots=True)
class WorkerConfig:
    """Episode workers (CPU): how many, and how often an episode is tried again when the infrastructure failed."""

    count: int
    cpus: float
    unscored_retries: int

    def __post_init__(self) -> None:
        positive("cluster.worker", self, "count")


@dataclass(kw_only=True, slots=True)
class NodesConfig:
    """A group of a Slurm job's nodes: how many, which roles (trainer, engine, worker) run on each of them.

    `options` are long options of sbatch for this group only (`gres: gpu:8`, `constraint: cpu`); where any group has
    some, the job is a heterogeneous one.
    """

    count: int
    roles: list[str]
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive("cluster.nodes.<name>", self, "count")
        for role in self.roles:
            one_of("cluster.nodes.<name>.roles", role, ROLES)
        if not self.roles:
            raise ValueError(f"cluster.nodes.<name>.roles=[] leaves these nodes idle; give some of {', '.join(ROLES)}")


@dataclass(kw_only=True, slots=True)
class SlurmConfig:
    """How to ask Slurm; read with `cluster=slurm` only.

    - `time`: the limit of one allocation, as sbatch takes it; the run goes on in as many as it needs.
    - `signal_seconds`: before the limit, the run is asked to write a checkpoint and stop (must cover step and save).
    - `max_requeues`, and none after two allocations in a row that made no step.
    - `join_seconds`: all nodes must have joined Ray by then.
    - `python`: the interpreter on the nodes.
    - `setup`: shell lines before anything else (`module load …`, `source …/activate`).
    - `options`: long options of sbatch (partition, account, qos, constraint, gres, exclusive: "", …).
    - `srun`: long options of srun (pyxis: container-image, container-mounts, …).
    - `wrap`: words before the interpreter (`apptainer exec --nv image.sif`).
    - `array_parallel`: of a sweep's runs at most so many at once (0: as many as Slurm starts).
    """

    time: str
    signal_seconds: int
    max_requeues: int
    join_seconds: float
    python: str
    setup: list[str]
    options: dict[str, str] = field(default_factory=dict)
    srun: dict[str, str] = field(default_factory=dict)
    wrap: str
    array_parallel: int

    def __post_init__(self) -> None:
        not_negative("cluster.slurm.", self, "signal_seconds", "max_requeues", "join_seconds", "array_parallel")
        for key, given in (("options", self.options), ("srun", self.srun)):
            for name, value in given.items():
                if name in SLURM_OURS or any(sign in f"{name}{value}" for sign in "\n\r\0"):
                    raise ValueError(
                        f"cluster.slurm.{key}.{name}={value!r}: this is written by the launcher itself"
                        if name in SLURM_OURS
                        else f"cluster.slurm.{key}.{name}={value!r} must be one line"
                    )


@dataclass(kw_only=True, slots=True)
class ClusterConfig:
    """Where it runs.

    - `launcher`: local starts everything here, on loopback; slurm submits a job (`dry_run` prints its script instead).
    - `interface`: the network interface that a job's nodes share; nothing of the run listens on any other.
    - `nodes`: the job's groups of nodes, in order.
    - `ray_port` 0 lets Ray choose.
    """

    launcher: str
    dry_run: bool
    interface: str
    nodes: dict[str, NodesConfig]
    slurm: SlurmConfig
    trainer: TrainerConfig
    engine: EngineConfig
    worker: WorkerConfig
    deterministic: bool
    ray_port: int
    object_store_mib: int

    def __post_init__(self) -> None:
        if self.engine.publish_through != "objects" and self.trainer.device == "cpu":
            raise ValueError(
                f"cluster.engine.publish_through={self.engine.publish_through} moves weights between GPUs, and "
                "cluster.trainer.device=cpu"
            )
        one_of("cluster.launcher", self.launcher, ("local", "slurm"))
        if not 0 <= self.ray_port <= 65535:
            raise ValueError(f"cluster.ray_port={self.ray_port} must be a port, 1 to 65535, or 0 to let Ray choose")
        positive("cluster", self, "object_store_mib")
        if self.launcher == "local":
            unread("cluster=local", "cluster", self, "dry_run", "interface", "nodes")
            unread("cluster=local", "cluster.slurm", self.slurm, *(item.name for item in fields(SlurmConfig)))
        else:
            self._check_slurm()

    def _check_slurm(self) -> None:
        unread("cluster=slurm (ports are always free ones)", "cluster", self, "ray_port")
        positive("cluster.slurm", self.slurm, "signal_seconds", "join_seconds")
        if not self.slurm.time:
            raise ValueError("cluster.slurm.time is empty: give the limit of one allocation, such as 24:00:00")
        served = {role for group in self.nodes.values() for role in group.roles}
        missing = [role for role in ROLES if role not in served]
        if missing:
            raise ValueError(
                f"cluster.nodes: no group of nodes has the role {missing[0]}; add it to some group's roles"
            )
        if sum(group.count for group in self.nodes.values()) > 1 and not self.interface:
            raise ValueError(
                "cluster.interface is empty: with several nodes, name the network interface that they share, such as "
                "ib0 (`ip -brief address` on a node lists them)"
            )
