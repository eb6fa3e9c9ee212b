"""`python -m train.quantise model=<folder> [rule=even] [prompts=<file>] [out=<file.json>]`: what MXFP4 does to a model.

In: a Hugging Face MoE folder, before any training, and prompts (a line each; a few of our own otherwise).  Out: a table
of the layers: error, clipped and zeroed share of the expert weights, and the KL divergence of the next-token
distributions, once with only that layer's experts quantised and once with all.  Exit code 2 for a wrong argument.

Much divergence means that training will first have to repair what quantisation broke: start with supervised steps.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.export import parse
from train.policy import mxfp4
from train.policy.qat import QatOptions, QuantisedWeights
from train.weights.sources import packed_format
from train.weights.state import write_json_atomic

PROMPTS = (
    "The capital of France is Paris, and the capital of Italy is",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "Question: what is 17 + 25? Answer:",
    "Water boils at a lower temperature on a mountain because",
)
ALL = "all layers"
_EXPERTS = re.compile(r"^(?P<layer>.*\.experts)\.(gate_up_proj|down_proj)$")


def report(model: Any, prompts: Sequence[Tensor], rule: str) -> dict[str, dict[str, float]]:
    """By layer, and for `ALL`: `kl` (mean over positions, nats), `error` (relative RMS), `clipped`, `zeroed` (shares).

    model: transformers' causal model in fp32, left as it was.  prompts: token ids [1, T] each.  Raises ValueError for a
    model without routed experts, or with a weight that MXFP4 cannot hold.
    """
    layers = expert_layers(model)
    # gpt-oss keeps its experts as [E, in, out], everybody else as [E, out, in]; blocks run along the input.
    transposed = model.config.model_type == "gpt_oss"
    original = {name: parameter.detach().clone() for own in layers.values() for name, parameter in own.items()}
    reference = [logprobs(model, ids) for ids in prompts]
    out: dict[str, dict[str, float]] = {}
    everything = {name: parameter for own in layers.values() for name, parameter in own.items()}
    with torch.no_grad():
        for layer, own in {**layers, ALL: everything}.items():
            sums = dict.fromkeys(("squared", "squares", "weights", "clipped", "zeroed"), 0.0)
            for name, parameter in own.items():
                _quantise(name, parameter, rule, transposed, sums)
            out[layer] = {
                "kl": divergence(reference, [logprobs(model, ids) for ids in prompts]),
                "error": (sums["squared"] / max(sums["squares"], 1e-300)) ** 0.5,
                "clipped": sums["clipped"] / sums["weights"],
                "zeroed": sums["zeroed"] / sums["weights"],
            }
            for name, parameter in own.items():
                parameter.copy_(original[name])
    return out


def expert_layers(model: Any) -> dict[str, dict[str, Tensor]]:
    """Layer -> name -> parameter of the routed experts.  Raises ValueError where there are none."""
    layers: dict[str, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        match = _EXPERTS.match(name)
        if match:
            layers.setdefault(match["layer"], {})[name] = parameter
    if not layers:
        raise ValueError("the model has no routed experts that transformers holds as gate_up_proj and down_proj")
    return layers


@torch.no_grad()
def logprobs(model: Any, ids: Tensor) -> Tensor:
    """Log-probs [T, V] of the next token at every position of one prompt, fp32."""
    found: Tensor = model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(-1)
    return found


def divergence(reference: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """KL(reference || other), nats, mean over the positions of all prompts."""
    sums = [(p.double().exp() * (p.double() - q.double())).sum() for p, q in zip(reference, other, strict=True)]
    return float(sum(sums)) / sum(len(p) for p in reference)


def _quantise(name: str, parameter: Tensor, rule: str, transposed: bool, sums: dict[str, float]) -> None:
    """Replace a parameter's values by what MXFP4 makes of them, and count."""
    weight = (parameter.transpose(-1, -2) if transposed else parameter).contiguous()
    counts = QuantisedWeights(QatOptions(rule=rule)).counts(name, weight)
    values = mxfp4.fake_quantise(weight, name=name, rule=rule)
    sums["squared"] += float((values - weight).double().square().sum())
    sums["squares"] += float(weight.double().square().sum())
    for key in ("weights", "clipped", "zeroed"):
        sums[key] += counts[key]
    parameter.copy_(values.transpose(-1, -2) if transposed else values)


def _load(folder: Path, prompts: Sequence[str]) -> tuple[Any, list[Tensor]]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return model, [torch.tensor([tokenizer(text)["input_ids"]]) for text in prompts]


def main(arguments: list[str]) -> int:
    from rich.console import Console
    from rich.table import Table

    try:
        given = parse(arguments, {"model": "", "rule": mxfp4.RULE, "prompts": "", "out": ""})
        folder = Path(given["model"])
        if not given["model"] or not (folder / "config.json").exists():
            raise ValueError(f"model={given['model']!r} is no Hugging Face folder (it has no config.json)")
        if given["rule"] not in mxfp4.RULES:
            raise ValueError(f"rule={given['rule']!r} is not one of {', '.join(mxfp4.RULES)}")
        if given["prompts"] and not Path(given["prompts"]).is_file():
            raise ValueError(f"prompts={given['prompts']!r} is no file; give one with a prompt a line")
        layout = packed_format(folder)
        if layout:
            raise ValueError(f"model={folder} is in MXFP4 already ({layout}): train it as it is")
        lines = Path(given["prompts"]).read_text(encoding="utf-8").splitlines() if given["prompts"] else PROMPTS
        prompts = [line for line in lines if line.strip()]
        if not prompts:
            raise ValueError(f"prompts={given['prompts']!r} holds no prompt")
        found = report(*_load(folder, prompts), given["rule"])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table = Table("layer", "KL, nats", "error", "clipped", "zeroed", title=f"{folder} in MXFP4, rule {given['rule']}")
    for layer, row in found.items():
        table.add_row(layer, f"{row['kl']:.5f}", f"{row['error']:.4f}", f"{row['clipped']:.3%}", f"{row['zeroed']:.2%}")
    Console().print(table)
    if given["out"]:
        write_json_atomic(Path(given["out"]), {"model": str(folder), "rule": given["rule"], "layers": found})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
