"""What the processes of `test_policy_stack` do: one policy after another on each rank, with everything seen kept.

In: a folder with a tiny model, and the cases.  Out: one file a rank and process group, read by the test.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.integration.tiny import CHARACTERS
from train.policy.losses import LossOptions
from train.policy.packing import MicroBatch, Sample, pack, token_weights
from train.policy.qat import QatOptions
from train.weights import formats

VERSION = 3
LEARNING_RATE = 1e-3
FIRST, SECOND = (11, 14), (12, 1)  # seed and number of sequences; with one sequence the other rank gets a dummy
ROW_TOKENS = 120  # several rows a rank
DOMAINS = {"a/x": 0, "b/y": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One policy.  `extras`: also shards, the quantiser's values, a second step, and a step on a batch with NaN.

    `routes`: of the policy; the samples of its step then bring `forced_routes`.  `load_balance`: its factor.
    """

    name: str
    expert_parallel: int = 2
    zero_stage: int = 1
    activation_checkpointing: bool = False
    extras: bool = False
    routes: str = "none"
    load_balance: float = 0.0
    source_scales: str = ""
    qat: QatOptions = field(default_factory=QatOptions)


def forced_routes(samples: list[Sample], num_layers: int, num_experts: int, top_k: int) -> list[np.ndarray]:
    """Experts drawn at random for every token but the last: hardly ever those that a router would choose."""
    rng = np.random.default_rng(5)
    return [
        rng.random((len(sample.ids) - 1, num_layers, num_experts)).argsort(-1)[..., :top_k].astype(np.uint8)
        for sample in samples
    ]


def sequences(seed: int, count: int) -> list[Sample]:
    """Made-up samples: a prompt, then trained tokens with the log-probs of an engine that was not quite this policy."""
    rng = random.Random(seed)
    samples = []
    for number in range(count):
        prompt, completion = rng.randrange(4, 20), rng.randrange(3, 30)
        trained = [False] * prompt + [True] * completion
        advantage = rng.gauss(0, 1)
        samples.append(
            Sample(
                ids=[1, *(rng.randrange(*CHARACTERS) for _ in range(prompt + completion - 1))],
                loss_mask=trained,
                behaviour_logprobs=[rng.gauss(-6, 0.3) if flag else 0.0 for flag in trained],
                versions=[VERSION if flag else -1 for flag in trained],
                advantages=[advantage if flag else 0.0 for flag in trained],
                domain=rng.choice(list(DOMAINS)),
                tier="low",
                task_id=f"t/{number}",
                sample=number,
                truncated=False,
            )
        )
    return samples


def batches(batch: tuple[int, int], rank: int, world: int) -> list[MicroBatch]:
    samples = sequences(*batch)
    return pack(samples, token_weights(samples, "domain"), DOMAINS, ROW_TOKENS, world)[rank]


def launch(work: Callable[..., dict[str, Any]], world: int, model_dir: Path, out: Path, *arguments: Any) -> list[Any]:
    """Run `work` on `world` new processes; what each rank returned, in rank order."""
    out.mkdir(parents=True)
    torch.multiprocessing.spawn(_rank, (work, world, model_dir, out, arguments), nprocs=world)
    return [torch.load(out / f"rank-{rank}.pt", weights_only=False) for rank in range(world)]


def _rank(rank: int, work: Any, world: int, model_dir: Path, out: Path, arguments: tuple[Any, ...]) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    found = work(rank, world, model_dir, out / "store", *arguments)
    torch.save(found, out / f"rank-{rank}.pt")


def make_policy(rank: int, world: int, model_dir: Path, store: Path, case: Case, preset: str = "qwen3_moe") -> Any:
    from train.policy.policy import Policy
    from train.policy.setup import PolicySettings

    settings = PolicySettings(
        model_dir=str(model_dir),
        dtype="float32",
        device="cpu",
        zero_stage=case.zero_stage,
        expert_parallel=case.expert_parallel,
        autoep_preset=preset,
        quantise=True,
        temperature=1.0,
        activation_checkpointing=case.activation_checkpointing,
        logit_chunk_tokens=64,
        gradient_clip=1.0,
        betas=(0.9, 0.95),
        weight_decay=0.0,
        init_file=str(store),
        num_threads=1,
        routes=case.routes,
        qat=case.qat,
        source_scales=case.source_scales,
    )
    return Policy(settings, rank, world)


def step(policy: Any, batch: tuple[int, int]) -> dict[str, float]:
    rows = batches(batch, policy.rank, policy.world)
    totals: dict[str, float] = policy.train_step([rows], "dppo", LossOptions(), LEARNING_RATE, VERSION, len(DOMAINS))
    return totals


def train(rank: int, world: int, model_dir: Path, store: Path, cases: list[Case]) -> dict[str, Any]:
    """Each case in turn; one process group serves them all."""
    return {case.name: _train(make_policy(rank, world, model_dir, store, case), case) for case in cases}


def _train(policy: Any, case: Case) -> dict[str, Any]:
    seen: dict[str, Any] = {"names": policy.parameter_names()}
    seen["logprobs"] = policy.logprobs(batches(FIRST, policy.rank, policy.world))
    if case.extras:
        seen["tensors"] = policy.shard("mxfp4")
        seen["whole"] = {format: dict(policy.whole_tensors(format)) for format in ("mxfp4", "bf16")}
        seen["own"] = {format: policy.shard(format) for format in ("mxfp4", "bf16")}
        seen["cached"] = cached_values(policy)
    seen["totals"] = step(policy, FIRST)
    seen["state"], seen["step"] = policy.read_state()
    if case.extras:
        seen["totals 2"] = step(policy, SECOND)
        seen["state 2"], _ = policy.read_state()
        seen["nan"] = nan_step(policy)
        seen["state after nan"], _ = policy.read_state()
        seen["weights after nan"] = weights(policy)
    return seen


def replay(rank: int, world: int, model_dir: Path, store: Path, cases: list[Case]) -> dict[str, Any]:
    """Log-probs and a step of each case on samples whose routes were drawn at random."""
    seen = {}
    for case in cases:
        policy = make_policy(rank, world, model_dir, store, case)
        samples = sequences(*FIRST)
        shape = policy.replay.shape
        for sample, ids in zip(
            samples, forced_routes(samples, len(shape.layers), shape.num_experts, shape.top_k), strict=True
        ):
            sample.routes, sample.route_layers = ids, shape.layers
        rows = pack(samples, token_weights(samples, "domain"), DOMAINS, ROW_TOKENS, world)[rank]
        logprobs: dict[int, list[float]] = {}
        for batch, values in zip(rows, policy.logprobs(rows), strict=True):
            for sequence, value in zip(batch.sequence_ids.tolist(), values.tolist(), strict=True):
                logprobs.setdefault(sequence, []).append(value)
        totals = policy.train_step(
            [rows], "dppo", LossOptions(), LEARNING_RATE, VERSION, len(DOMAINS), case.load_balance
        )
        seen[case.name] = {"logprobs": logprobs, "totals": totals, "state": policy.read_state()[0]}
    return seen


def packed_start(rank: int, world: int, model_dir: Path, store: Path, cases: list[Case]) -> dict[str, Any]:
    """What each case serves before and after a step, and again after its state was put into a new policy."""
    seen = {}
    for case in cases:
        policy = make_policy(rank, world, model_dir, store, case)
        found: dict[str, Any] = {"start": policy.shard("mxfp4"), "computed": []}
        policy.logprobs(batches(FIRST, rank, world))
        found["computed"] = cached_values(policy)
        step(policy, FIRST)
        found["stepped"] = policy.shard("mxfp4")
        saved = policy.read_state()
        again = make_policy(rank, world, model_dir, store, replace(case, source_scales=""))
        again.write_state(*saved)
        found["resumed"] = again.shard("mxfp4")
        found["names"] = sorted(saved[0])
        for each in (policy, again):
            step(each, SECOND)
        found["second"], found["second resumed"] = policy.shard("mxfp4"), again.shard("mxfp4")
        seen[case.name] = found
    return seen


def biased_router(rank: int, world: int, model_dir: Path, store: Path) -> dict[str, Any]:
    """A model whose routers bring a bias as a buffer, and whose first layer has no experts."""
    policy = make_policy(rank, world, model_dir, store, Case(name="", expert_parallel=1), preset="deepseek_v3")
    saved, count = policy.read_state()
    changed = {name: value + 1 if name.endswith("_bias") else value for name, value in saved.items()}
    policy.write_state(changed, count)
    return {
        "saved": saved,
        "names": policy.parameter_names(),
        "served": policy.shard("bf16"),
        "layers": policy.replay.shape.layers,
    }


def weights(policy: Any) -> dict[str, Tensor]:
    """The working weights of this rank (not the masters)."""
    return {name: parameter.detach().clone() for name, parameter in policy.engine.module.named_parameters()}


def cached_values(policy: Any) -> dict[str, Tensor]:
    """What this rank's experts compute with, by trainer name."""
    return {name: values.clone() for name, values in policy.quantiser._values.items()}


def nan_step(policy: Any) -> str:
    """A step in which the last rank's first advantage is not a number; the error that this rank got."""
    rows = batches(FIRST, policy.rank, policy.world)
    if policy.rank == policy.world - 1:
        rows[0].advantages[0] = float("nan")
    try:
        policy.train_step([rows], "dppo", LossOptions(), LEARNING_RATE, VERSION, len(DOMAINS))
    except FloatingPointError as error:
        return str(error)
    return ""


def resume(rank: int, world: int, model_dir: Path, store: Path, cases: list[Case], saved: Any) -> dict[str, Any]:
    """Put a state into a new policy, read it back, and take the second step."""
    seen: dict[str, Any] = {}
    for case in cases:
        policy = make_policy(rank, world, model_dir, store, case)
        fresh, _ = policy.read_state()
        seen["foreign"] = [_error(partial(policy.write_state, other, 1)) for other in _foreign(saved["state"])]
        still, _ = policy.read_state()
        seen["untouched"] = all(torch.equal(still[name], value) for name, value in fresh.items())
        policy.write_state(saved["state"], saved["step"])
        back, count = policy.read_state()
        seen[case.name] = {"state": back, "step": count, "weights": weights(policy)}
        seen[case.name]["logprobs"] = policy.logprobs(batches(FIRST, rank, world))
        seen[case.name]["totals 2"] = step(policy, SECOND)
        seen[case.name]["state 2"], _ = policy.read_state()
    return seen


def _foreign(state: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """States of other models: a layer less, a tensor more, twice the experts."""
    fewer = {name: value for name, value in state.items() if ".layers.1." not in name}
    doubled = {name: torch.cat([value, value]) if formats.is_expert(name) else value for name, value in state.items()}
    return [fewer, state | {"model.layers.9.extra": torch.zeros(2)}, doubled]


def carry(
    rank: int,
    world: int,
    model_dir: Path,
    store: Path,
    case: Case,
    saved: tuple[dict[str, Tensor], int] | None,
) -> dict[str, Any]:
    """Put a state in, say what it evaluates to, take a step, and hand the state on."""
    policy = make_policy(rank, world, model_dir, store, case)
    if saved is not None:
        policy.write_state(*saved)
    back, _ = policy.read_state()
    own = batches(FIRST, rank, world)
    logprobs: dict[int, list[float]] = {}
    for batch, values in zip(own, policy.logprobs(own), strict=True):
        for sequence, value in zip(batch.sequence_ids.tolist(), values.tolist(), strict=True):
            logprobs.setdefault(sequence, []).append(value)
    shard = policy.shard("mxfp4")
    totals = step(policy, FIRST)
    return {
        "back": back,
        "logprobs": logprobs,
        "shard": shard,
        "totals": totals,
        "saved": policy.read_state(),
    }


def alone(rank: int, world: int, model_dir: Path, store: Path, cases: list[Case]) -> dict[str, Any]:
    """One rank with all experts, and afterwards what it refuses."""
    return train(rank, world, model_dir, store, cases) | {"refused": _refused(rank, world, model_dir, store)}


def _refused(rank: int, world: int, model_dir: Path, store: Path) -> dict[str, str]:
    """What is said of a preset of another architecture, and of a conversion that mixes up two experts."""
    import deepspeed

    case = Case(name="", expert_parallel=1)
    honest = deepspeed.initialize

    def swapped(**arguments: Any) -> Any:
        made = honest(**arguments)
        weight = made[0].module.model.layers[1].mlp.experts.w2
        weight.data[[2, 3]] = weight.data[[3, 2]]
        return made

    seen = {"preset": _error(lambda: make_policy(rank, world, model_dir, store, case, preset="deepseek_v3"))}
    deepspeed.initialize = swapped
    seen["swapped"] = _error(lambda: make_policy(rank, world, model_dir, store, case))
    deepspeed.initialize = honest
    return seen


def _error(build: Callable[[], Any]) -> str:
    try:
        build()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
