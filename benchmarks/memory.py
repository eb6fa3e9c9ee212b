"""Peak memory of one training step against the length of a sequence: `python -m benchmarks.memory [LENGTH …]`.

In: nothing.  Out: for each length a new process that trains the toy policy on one sequence of so many tokens, its peak
resident memory, what of it came with the step, and that a token.  Memory that grew faster than the length would show
as a growing last column.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from train.compose import compose_run
from train.policy.losses import LossOptions
from train.policy.packing import Sample, pack, token_weights
from train.policy.tiny import write_tiny_model

LENGTHS = (4_096, 8_192, 16_384, 32_768)
PROMPT_SHARE = 8  # one token in eight is prompt
LIMIT_GIB = 8.0


def sequence(length: int) -> Sample:
    rng = random.Random(0)
    prompt = length // PROMPT_SHARE
    trained = [False] * prompt + [True] * (length - prompt)
    return Sample(
        ids=[1, *(rng.randrange(14, 109) for _ in range(length - 1))],
        loss_mask=trained,
        behaviour_logprobs=[-4.0 if flag else 0.0 for flag in trained],
        versions=[0 if flag else -1 for flag in trained],
        advantages=[1.0 if flag else 0.0 for flag in trained],
        domain="a/b",
        tier="low",
        task_id="t",
        sample=0,
        truncated=False,
    )


def train_once(_: int, model_dir: str, length: int, out: str) -> None:
    """In a process of its own: build the policy, take a short step, then the long one."""
    from train.policy.policy import Policy
    from train.policy.setup import PolicySettings

    config = compose_run(["experiment=toy"]).config
    settings = PolicySettings(
        model_dir=model_dir,
        dtype=config.cluster.trainer.dtype,
        device="cpu",
        zero_stage=1,
        expert_parallel=1,
        autoep_preset=config.model.autoep_preset,
        quantise=True,
        temperature=1.0,
        activation_checkpointing=True,
        logit_chunk_tokens=config.cluster.trainer.logit_chunk_tokens,
        gradient_clip=1.0,
        betas=(0.9, 0.95),
        weight_decay=0.0,
        init_file=f"{out}.store",
        num_threads=2,
    )
    policy = Policy(settings, 0, 1)
    step(policy, 256)
    before = peak_bytes()
    began = time.perf_counter()
    step(policy, length)
    torch.save((before, peak_bytes(), time.perf_counter() - began), out)


def step(policy: Any, length: int) -> None:
    samples = [sequence(length)]
    (rows,) = pack(samples, token_weights(samples, "token"), {"a/b": 0}, length, 1)
    policy.train_step([rows], "dppo", LossOptions(), 1e-4, 0, 1)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("lengths", nargs="*", type=int, default=list(LENGTHS))
    lengths = parser.parse_args().lengths
    model = compose_run(["experiment=toy"]).config.model
    names = ("hidden_size", "expert_size", "num_layers", "num_experts", "experts_per_token", "initializer_range")
    print(f"{'tokens':>8}  {'seconds':>8}  {'peak GiB':>9}  {'of the step GiB':>16}  {'KiB a token':>12}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model_dir = Path(folder) / "model"
        sizes = {name: getattr(model, name) for name in names}
        write_tiny_model(model_dir, seed=0, context=max(lengths), **sizes)
        for length in lengths:
            out = f"{folder}/{length}.pt"
            torch.multiprocessing.spawn(train_once, (str(model_dir), length, out), nprocs=1)
            before, peak, seconds = torch.load(out)
            own = peak - before
            line = f"{length:8,}  {seconds:8.1f}  {peak / 2**30:9.2f}  {own / 2**30:16.2f}  {own / length / 1024:12.1f}"
            print(line + ("" if peak < LIMIT_GIB * 2**30 else f"  over {LIMIT_GIB:g} GiB"), flush=True)


if __name__ == "__main__":
    main()
