"""Does this export serve the distribution that was trained?

In: an export folder, the checkpoint's canary (requests, the live engine's tokens and log-probs, the trainer's
log-probs), and what a fresh engine makes of the same requests.  Out: a report whose `passed` is the conjunction of its
checks.  Pure; called by `train.export`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from rollouts.engine import Completion, SamplingParams, TurnRequest
from train.weights import formats
from train.weights.publish import tensor_digest

OTHER_FORMAT_BOUND = 0.003  # nats, mean |Δ log p| between two kernels of the same values
MIN_TOKENS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of the proof: whether it held, and the figure or the first thing that was wrong."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReport:
    """All checks; `proof.json` is this."""

    version: int
    format: str
    engine_format: str
    num_tokens: int
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"checks": [asdict(check) for check in self.checks], "passed": self.passed}


def canary_document(
    requests: Sequence[TurnRequest], completions: Sequence[Completion], trainer_logprobs: Sequence[Sequence[float]]
) -> dict[str, Any]:
    """What a checkpoint stores of a canary; floats survive JSON to the bit."""
    first = requests[0].sampling
    return {
        "temperature": first.temperature,
        "max_tokens": first.max_tokens,
        "stop_ids": list(first.stop_ids),
        "requests": [{"prompt_ids": list(item.prompt_ids), "seed": item.sampling.seed} for item in requests],
        "tokens": [item.token_ids for item in completions],
        "engine_logprobs": [item.logprobs for item in completions],
        "trainer_logprobs": [list(values) for values in trainer_logprobs],
    }


def canary_requests(canary: Mapping[str, Any]) -> list[TurnRequest]:
    """The stored requests, in their order."""
    return [
        TurnRequest(
            episode=number,
            turn=0,
            prompt_ids=tuple(item["prompt_ids"]),
            sampling=SamplingParams(
                temperature=canary["temperature"],
                max_tokens=canary["max_tokens"],
                seed=item["seed"],
                stop_ids=tuple(canary["stop_ids"]),
            ),
        )
        for number, item in enumerate(canary["requests"])
    ]


def check_bytes(exported: Mapping[str, Tensor], published: Mapping[str, str], format: str) -> Check:
    """(a) The export's tensors are the bytes that were published for this version (bf16: their decoded values).

    `published`: name -> digest of every tensor as it went to the engines; for a bf16 export of MXFP4 weights the
    digests are those of the decoded values, which the caller takes from the same bytes.
    """
    missing = sorted(set(published) - set(exported))
    unknown = sorted(set(exported) - set(published))
    differing = [
        name for name in sorted(set(published) & set(exported)) if tensor_digest(exported[name]) != published[name]
    ]
    wrong = [*(f"{name} is missing" for name in missing), *(f"{name} is unknown" for name in unknown)]
    wrong += [f"{name} differs from what was published" for name in differing]
    experts = sum(".experts." in name for name in exported)
    detail = f"{len(exported)} tensors ({experts} of experts) equal the published {format} bytes"
    return Check(name="bytes", passed=not wrong, detail=f"{len(wrong)} wrong, first: {wrong[0]}" if wrong else detail)


def check_engine(canary: Mapping[str, Any], completions: Sequence[Completion], *, same_kernel: bool) -> Check:
    """(b) A fresh engine gives the canary's tokens and log-probs: to the bit in the same format and kernel.

    Another format is another kernel: tokens may part, so log-probs are compared on the common beginning of each
    completion, and the mean absolute difference has to be below `OTHER_FORMAT_BOUND`.
    """
    differences: list[float] = []
    unequal = 0
    for tokens, logprobs, completion in zip(canary["tokens"], canary["engine_logprobs"], completions, strict=True):
        common = _common_length(tokens, completion.token_ids)
        if same_kernel and (completion.token_ids != tokens or completion.logprobs != logprobs):
            unequal += 1
        differences += [abs(a - b) for a, b in zip(logprobs[:common], completion.logprobs[:common], strict=True)]
    mean = sum(differences) / max(len(differences), 1)
    total = len(canary["tokens"])
    if same_kernel:
        detail = f"{total - unequal} of {total} completions equal to the bit (mean |Δ log p| {mean:.2e})"
        return Check(name="engine", passed=unequal == 0, detail=detail)
    detail = f"mean |Δ log p| {mean:.5f} over {len(differences)} tokens, bound {OTHER_FORMAT_BOUND} (another kernel)"
    return Check(name="engine", passed=bool(differences) and mean < OTHER_FORMAT_BOUND, detail=detail)


def check_trainer(canary: Mapping[str, Any], completions: Sequence[Completion], alarm: float, minimum: int) -> Check:
    """(c) Mean |log p_fresh engine − log p_trainer| over at least `minimum` canary tokens is below the run's alarm."""
    differences: list[float] = []
    for tokens, logprobs, completion in zip(canary["tokens"], canary["trainer_logprobs"], completions, strict=True):
        common = _common_length(tokens, completion.token_ids)
        differences += [abs(a - b) for a, b in zip(logprobs[:common], completion.logprobs[:common], strict=True)]
    mean = sum(differences) / max(len(differences), 1)
    enough = len(differences) >= minimum
    detail = f"mean |Δ log p| {mean:.5f} over {len(differences)} tokens, alarm {alarm}"
    if not enough:
        detail += f"; at least {minimum} tokens are needed"
    return Check(name="trainer", passed=enough and mean < alarm, detail=detail)


def decoded_digests(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Digests of the bf16 form of published MXFP4 tensors."""
    return {name: tensor_digest(tensor) for name, tensor in formats.decode(tensors).items()}


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    for position, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return position
    return min(len(left), len(right))
