"""Whether this machine's GPU does what CI proves on a CPU: `python -m train.gpucheck [device=auto] [out=<file>]`.

In: nothing.  Out: a table of PASS, FAIL and SKIP with reasons, in under 8 minutes on one GPU; exit code 1 where a check
failed.  Each check is a process of its own with a time limit, so that a CUDA error or a hang is that check's only.
`only=<check>` runs one, here and with its traceback; `device=cpu` runs what needs no GPU.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.export import parse
from train.weights.state import write_json_atomic

RESULT = "gpucheck-result "  # begins the line in which a child says how it went
TOLERANCE = 1e-4  # nats, fp32: another order of summation
# On one GPU: engine and trainer share it, weights go through its memory.
TOY = (
    *("experiment=ci", "steps=3", "stage.cold_start.steps=40", "evaluate.tasks_per_domain=20", "export=[mxfp4]"),
    *("cluster.trainer.ranks=1", "cluster.trainer.expert_parallel=1", "cluster.trainer.device=cuda"),
    *("cluster.trainer.gpus=0.4", "cluster.engine.gpus=0.4", "cluster.engine.gpu_memory_utilization=0.3"),
    *("cluster.engine.dtype=bfloat16", "cluster.engine.publish_through=ipc", "tracking.wandb=disabled"),
)


class Skip(Exception):
    """A check that means nothing here; the text says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`kind`: PASS, FAIL or SKIP."""

    kind: str
    detail: str


def check_device(device: str) -> str:
    if device == "cpu":
        raise Skip("no CUDA device is asked for or seen")
    found = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    return f"{found.name}, capability {found.major}.{found.minor}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


def check_quantiser(device: str) -> str:
    """Bytes and values of every rule, eager and compiled, are the CPU's; so is the straight-through gradient."""
    from train.policy import mxfp4

    weight = hard_blocks()
    modes = (False, True) if importlib.util.find_spec("triton") or device == "cpu" else (False,)
    for rule in mxfp4.RULES:
        expected, values = mxfp4.quantise(weight, rule=rule), mxfp4.fake_quantise(weight, rule=rule)
        for compiled in modes:
            found = mxfp4.quantise(weight.to(device), rule=rule, compiled=compiled)
            same = torch.equal(found.codes.cpu(), expected.codes) and torch.equal(found.scales.cpu(), expected.scales)
            faked = mxfp4.fake_quantise(weight.to(device), rule=rule, compiled=compiled).cpu()
            same = same and torch.equal(faked.view(torch.int32), values.view(torch.int32))
            assert same, f"rule {rule}, compiled={compiled}: bytes or values differ from the CPU's"
    leaf = weight.to(device).requires_grad_()
    mxfp4.straight_through(leaf, mxfp4.fake_quantise(leaf.detach())).sum().backward()
    assert leaf.grad is not None and bool((leaf.grad == 1).all()), "the gradient does not pass straight through"
    how = "eager and compiled" if True in modes else "eager (no triton to compile with)"
    return f"{weight.numel() // mxfp4.BLOCK} blocks, {len(mxfp4.RULES)} rules, {how}"


def hard_blocks() -> Tensor:
    """Zeros, subnormals, ties, every exponent, and normal weights [rows, 64]."""
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(512, 64, generator=generator) * 0.02
    exponents = torch.randn(254, 64, generator=generator).sign() * torch.exp2(torch.arange(-126, 128).float())[:, None]
    exponents = exponents.clamp(-3e38, 3e38)
    ties = (torch.arange(64).float() - 32).repeat(4, 1) * torch.tensor([0.25, 0.5, 1.0, 2.0])[:, None]
    tiny = torch.full((2, 64), 2.0**-133)
    return torch.cat([normal, exponents, ties, tiny, torch.zeros(2, 64), -torch.zeros(2, 64)])


def check_losses(device: str) -> str:
    from train.policy.losses import LOSSES, LossOptions

    largest = 0.0
    for name, spec in LOSSES.items():
        results = []
        for place in ("cpu", device):
            batch, logprobs = loss_batch()
            leaf = logprobs.to(place).requires_grad_()
            loss = spec.function(leaf, batch, LossOptions()).loss
            loss.backward()
            assert leaf.grad is not None
            results.append((float(loss.detach()), leaf.grad.cpu()))
        (one, gradient), (other, own) = results
        gap = max(abs(one - other), float((gradient - own).abs().max()))
        assert gap < 1e-6, f"{name}: loss or gradient is off by {gap:.2g} from the CPU's"
        largest = max(largest, gap)
    return f"{len(LOSSES)} losses, largest difference {largest:.1g}"


def loss_batch() -> tuple[Any, Tensor]:
    """A row of three sequences with log-probs near those of its engine, and a few far away."""
    from train.policy.packing import build_row

    generator = torch.Generator().manual_seed(1)
    samples = [sample(length, number) for number, length in enumerate((12, 30, 21))]
    row = build_row(samples, [0.02] * 3, [0, 1, 2], {"a/b": 0})
    row.proximal_logprobs = row.behaviour_logprobs + 0.1 * torch.randn(len(row.target_ids), generator=generator)
    row.reference_logprobs = row.behaviour_logprobs - 0.2
    return row, row.behaviour_logprobs + 0.5 * torch.randn(len(row.target_ids), generator=generator)


def sample(length: int, number: int) -> Any:
    from train.policy.packing import Sample

    generator = torch.Generator().manual_seed(number)
    trained = [position >= 5 for position in range(length)]
    numbers = (-torch.rand(length, generator=generator) * 3).tolist()
    return Sample(
        ids=torch.randint(14, 109, (length,), generator=generator).tolist(),
        loss_mask=trained,
        behaviour_logprobs=[value if flag else 0.0 for value, flag in zip(numbers, trained, strict=True)],
        versions=[0 if flag else -1 for flag in trained],
        advantages=[(-1.0) ** number if flag else 0.0 for flag in trained],
        domain="a/b",
        tier="low",
        task_id=f"t/{number}",
        sample=number,
        truncated=False,
    )


def check_packing(device: str) -> str:
    """Sequences packed into a row have the log-probs that each has alone, and that the CPU computes."""
    from train.policy import attention
    from train.policy.packing import build_row

    samples = [sample(length, number) for number, length in enumerate((40, 7, 40, 96))]
    results = []
    for place in ("cpu", device):
        model = tiny_model(attention.register()).to(place)
        rows = [build_row(samples, [1.0] * 4, range(4), {"a/b": 0})]
        rows += [build_row([one], [1.0], [0], {"a/b": 0}) for one in samples]
        packed, *alone = (logprobs_of(model, row, place) for row in rows)
        gap = float((packed - torch.cat(alone)).abs().max())
        assert gap < TOLERANCE, f"on {place} packed and single sequences differ by {gap:.2g} nats"
        results.append(packed)
    gap = float((results[0] - results[1]).abs().max())
    assert gap < TOLERANCE, f"log-probs differ by {gap:.2g} nats from the CPU's"
    return f"packed = alone, and {device} = cpu, within {gap:.1g} nats"


def tiny_model(attention: str) -> Any:
    from train.compose import compose_run
    from train.policy.model import attach_logprob_forward
    from train.policy.tiny import build_model

    config = compose_run([]).config.model
    names = ("hidden_size", "expert_size", "num_layers", "num_experts", "experts_per_token", "context")
    sizes = {name: getattr(config, name) for name in (*names, "initializer_range")}
    model = build_model(seed=0, **sizes)
    model.set_attn_implementation(attention)
    attach_logprob_forward(model, chunk_tokens=64, temperature=1.0)
    return model.eval()


@torch.no_grad()
def logprobs_of(model: Any, row: Any, device: str) -> Tensor:
    found: Tensor = model(
        input_ids=row.input_ids.to(device),
        position_ids=row.position_ids.to(device),
        boundaries=row.boundaries,
        predict_index=row.predict_index.to(device),
        target_ids=row.target_ids.to(device),
    )[0]
    return found.cpu()


def check_replay(device: str) -> str:
    """A router told which experts to use gives the CPU's weights and gradient, and uses no other."""
    if not importlib.util.find_spec("deepspeed"):
        raise Skip("DeepSpeed is not installed")
    from train.policy.selfcheck import replay_on

    results = [replay_on(place) for place in ("cpu", device)]
    gap = max(float((one - other).abs().max()) for one, other in zip(*results, strict=True))
    assert gap < TOLERANCE, f"weights or gradient are off by {gap:.2g} from the CPU's"
    return f"64 tokens, weights and gradient within {gap:.1g} of the CPU's"


def check_toy(device: str) -> str:
    """The whole loop on one GPU: vLLM, DeepSpeed, publishing through CUDA IPC, export and its proof."""
    missing = [name for name in ("vllm", "deepspeed") if not importlib.util.find_spec(name)]
    if missing:
        raise Skip(f"{', '.join(missing)} not installed (pip install -e '.[gpu]')")
    if device == "cpu":
        raise Skip("needs a GPU; on a CPU `make toy` runs it")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "train", *TOY, f"runs_dir={folder}", "name=gpucheck"]
        done = subprocess.run(command, capture_output=True, text=True)
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-15:]
        assert done.returncode == 0, "the toy ended with code {}:\n{}".format(done.returncode, "\n".join(last))
        summary = json.loads((Path(folder) / "gpucheck" / "summary.json").read_text())
    return f"proven export; mean |Δ log p| of engine and trainer {summary['fidelity']['mean']:.4f}"


# Name -> (check, seconds that it may take).  The limits together are under 8 minutes.
CHECKS: dict[str, tuple[Callable[[str], str], float]] = {
    "device": (check_device, 30),
    "quantiser": (check_quantiser, 90),
    "losses": (check_losses, 30),
    "packing": (check_packing, 45),
    "replay": (check_replay, 30),
    "toy": (check_toy, 240),
}


def run_check(name: str, device: str, limit: float) -> Outcome:
    """One check in a process of its own."""
    return run_command([sys.executable, "-m", "train.gpucheck", f"only={name}", f"device={device}"], limit)


def run_command(command: Sequence[str], limit: float) -> Outcome:
    """What a child says of its check.  It gets a process group, so that what it leaves behind ends with it."""
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return Outcome("FAIL", f"did not end within {limit:g} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    lines = [line for line in output.splitlines() if line.strip()]
    results = [line for line in lines if line.startswith(RESULT)]
    if results:
        return Outcome(**json.loads(results[-1].removeprefix(RESULT)))
    how = f"signal {signal.Signals(-child.returncode).name}" if child.returncode < 0 else f"code {child.returncode}"
    return Outcome("FAIL", f"ended by {how}: {lines[-1] if lines else 'without a word'}")


def here(name: str, device: str) -> Outcome:
    """One check in this process."""
    try:
        return Outcome("PASS", CHECKS[name][0](device))
    except Skip as reason:
        return Outcome("SKIP", str(reason))
    except Exception as error:
        import traceback

        traceback.print_exc()
        return Outcome("FAIL", f"{type(error).__name__}: {error}")


def show(outcomes: Mapping[str, Outcome], device: str) -> None:
    from rich.console import Console
    from rich.table import Table

    colours = {"PASS": "green", "FAIL": "bold red", "SKIP": "yellow"}
    table = Table("check", "", "detail", title=f"jointrl on {device}")
    for name, outcome in outcomes.items():
        table.add_row(name, f"[{colours[outcome.kind]}]{outcome.kind}[/]", outcome.detail.replace("[", r"\["))
    Console().print(table)


def main(arguments: list[str]) -> int:
    try:
        given = parse(arguments, {"device": "auto", "only": "", "out": ""})
        if given["device"] not in ("auto", "cpu", "cuda"):
            raise ValueError(f"device={given['device']!r} is not one of auto, cpu, cuda")
        if given["only"] and given["only"] not in CHECKS:
            raise ValueError(f"only={given['only']!r} is not one of {', '.join(CHECKS)}")
        if given["device"] == "cuda" and not torch.cuda.is_available():
            raise ValueError("device=cuda, and torch sees no CUDA device; look at nvidia-smi, or take device=cpu")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    device = given["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if given["only"]:
        outcome = here(given["only"], device)
        print(RESULT + json.dumps({"kind": outcome.kind, "detail": outcome.detail}), flush=True)
        return int(outcome.kind == "FAIL")
    outcomes: dict[str, Outcome] = {}
    for name, (_, limit) in CHECKS.items():
        print(f"[gpucheck] {name} (at most {limit:g} s)", flush=True)
        outcomes[name] = run_check(name, device, limit)
    show(outcomes, device)
    kinds = [outcome.kind for outcome in outcomes.values()]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("PASS", "FAIL", "SKIP"))
    print(f"[gpucheck] {counts}" + (f"; in {given['out']}" if given["out"] else ""))
    if given["out"]:
        rows = {name: {"kind": outcome.kind, "detail": outcome.detail} for name, outcome in outcomes.items()}
        write_json_atomic(Path(given["out"]), {"device": device, "checks": rows})
    return int("FAIL" in kinds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
