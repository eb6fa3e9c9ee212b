"""What quantising and publishing cost, against a training step and a plain file: `python -m benchmarks.publish`.

In: nothing.  Out, at the toy's size and at 100 M parameters, in one process on this machine's CPUs:
- fake-quantisation of all experts, and quantise + publish (pack, digest, verify, decode for a bf16 engine, write), as
  shares of a training step on as many tokens as a step of the toy trains on (the rollouts of a step come on top);
- the public peer in the same run: safetensors writing and reading the whole model in bf16;
- bytes of the experts against bf16, and bytes of a delta against the learning rate of the step before it.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.memory import sequence
from train.compose import compose_run
from train.policy.losses import LossOptions
from train.policy.packing import pack, token_weights
from train.policy.tiny import write_tiny_model
from train.weights import formats
from train.weights.publish import Base, Receiver, make_shard

STEP_TOKENS = 10_000
LENGTH = 64
LEARNING_RATES = (1e-6, 1e-5, 1e-4, 1e-3)
LIMIT, BYTES_LIMIT = 0.10, 0.28
BIG = {"hidden_size": 512, "expert_size": 512, "num_layers": 8, "num_experts": 16, "experts_per_token": 2}


def make_policy(folder: Path, sizes: dict[str, Any]) -> Any:
    from train.policy.policy import Policy
    from train.policy.setup import PolicySettings

    write_tiny_model(folder / "model", **sizes)
    config = compose_run(["experiment=toy"]).config
    settings = PolicySettings(
        model_dir=str(folder / "model"),
        dtype="float32",
        device="cpu",
        zero_stage=1,
        expert_parallel=1,
        autoep_preset=config.model.autoep_preset,
        quantise=True,
        temperature=1.0,
        activation_checkpointing=False,
        logit_chunk_tokens=config.cluster.trainer.logit_chunk_tokens,
        gradient_clip=1.0,
        betas=(0.9, 0.95),
        weight_decay=0.0,
        init_file=str(folder / "store"),
        num_threads=len(os.sched_getaffinity(0)),
    )
    return Policy(settings, 0, 1)


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def train(policy: Any, learning_rate: float) -> None:
    samples = [dataclasses.replace(sequence(LENGTH), sample=number) for number in range(STEP_TOKENS // LENGTH)]
    (rows,) = pack(samples, token_weights(samples, "token"), {"a/b": 0}, 4096, 1)
    policy.train_step([rows], "dppo", LossOptions(), learning_rate, 0, 1)


def fake_quantise_all(policy: Any) -> None:
    policy.quantiser._values.clear()
    with torch.no_grad():
        for name, parameter in policy._expert_parameters():
            policy.quantiser.forward(name, parameter)


def publish(policy: Any, receiver: Receiver, base: Base | None, version: int) -> tuple[int, int]:
    """All chunks through both ends; bytes that travelled, and that would have without patches."""
    counts = policy.parameter_names()
    plan = formats.plan_chunks(counts, 0)
    receiver.begin(version, len(plan))
    sent = whole = 0
    for chunk, names in enumerate(plan):
        own = {name: counts[name] for name in names}
        shard = make_shard(
            policy.shard("mxfp4", set(names)),
            version=version,
            rank=0,
            num_ranks=1,
            expected=formats.expected_names(own, "mxfp4"),
            chunk=chunk,
            num_chunks=len(plan),
            base=base,
        )
        ready = receiver.take([shard])
        load_file(ready.path)
        Path(ready.path).unlink()
        sent, whole = sent + ready.num_bytes, whole + ready.full_bytes
    receiver.finish()
    return sent, whole


def plain_file(policy: Any, folder: Path) -> None:
    save_file(policy.shard("bf16"), folder / "plain.safetensors")
    load_file(folder / "plain.safetensors")


def expert_share(policy: Any) -> float:
    """Bytes of the experts in MXFP4 over their bytes in bf16."""
    sizes = {
        format: sum(t.numel() * t.element_size() for name, t in policy.shard(format).items() if ".experts." in name)
        for format in ("mxfp4", "bf16")
    }
    return sizes["mxfp4"] / sizes["bf16"]


def measure(folder: Path, label: str, sizes: dict[str, Any]) -> bool:
    folder.mkdir()
    policy = make_policy(folder, sizes)
    train(policy, 1e-5)
    step = min(seconds(lambda: train(policy, 1e-5)) for _ in range(2))
    quantise = min(seconds(lambda: fake_quantise_all(policy)) for _ in range(3))
    receiver = Receiver("bf16", delta=False)
    published = min(seconds(lambda: publish(policy, receiver, None, 1)) for _ in range(3))
    plain = min(seconds(lambda: plain_file(policy, folder)) for _ in range(3))
    count = sum(parameter.numel() for parameter in policy.engine.module.parameters())
    share = expert_share(policy)
    print(f"\n{label}: {count / 1e6:.1f} M parameters, a training step of {STEP_TOKENS} tokens {step:.2f} s")
    print(f"  fake-quantise        {quantise / step:7.1%} of the step ({quantise * 1e3:.0f} ms), limit {LIMIT:.0%}")
    print(f"  quantise + publish   {published / step:7.1%} of the step ({published * 1e3:.0f} ms), limit {LIMIT:.0%}")
    print(f"  quantise + publish   {published / plain:7.2f} x safetensors writing and reading bf16")
    print(f"  expert bytes         {share:7.3f} of bf16, limit {BYTES_LIMIT}")
    base, patched = Base(), Receiver("mxfp4", delta=True)
    publish(policy, patched, base, 1)
    for learning_rate in LEARNING_RATES:
        train(policy, learning_rate)
        sent, whole = publish(policy, patched, base, 1)
        print(f"  delta after a step at learning rate {learning_rate:g}: {sent / whole:.1%} of the whole version")
    return quantise / step <= LIMIT and published / step <= LIMIT and share <= BYTES_LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", choices=("toy", "100M"))
    only = parser.parse_args().only
    model = compose_run(["experiment=toy"]).config.model
    common = {"seed": 0, "context": model.context, "initializer_range": model.initializer_range}
    toy = {name: getattr(model, name) for name in BIG}
    passed = []
    with tempfile.TemporaryDirectory() as folder:
        for label, sizes in (("toy", toy), ("100M", BIG)):
            if only in (None, label):
                # DeepSpeed's process groups do not go away: each size in a process of its own.
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
                    passed.append(executor.submit(measure, Path(folder) / label, label, sizes | common).result())
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
