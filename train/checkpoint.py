"""What a checkpoint of a run holds, and how a run is put back.

In: the live parts of a run.  Out: one directory under `checkpoints/`, complete or absent (`train.weights.state`), with
masters and moments by name, every document of state, and the canary that the proof of an export needs.  Called by
`train.loop`; read by `train.export` and `train.evaluate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from train.policy.mxfp4 import RULE
from train.policy.qat import STATE, QatOptions, QuantisedWeights
from train.weights import formats
from train.weights.state import find_resume, prune, read_state, step_name, write_state

FOLDER = "checkpoints"


@dataclass(slots=True)
class Checkpoint:
    """A read checkpoint.  `masters` and `moments` by trainer name; `run` is the document of the run's state.

    `quantiser_state`: `<expert>.<kind>` (`train.policy.qat.STATE`), empty unless an option of `quant` needs it.
    """

    path: Path
    masters: dict[str, Tensor]
    moments: dict[str, Tensor]
    run: dict[str, Any]
    canary: dict[str, Any]
    config: dict[str, Any]
    quantiser_state: dict[str, Tensor] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, Tensor]:
        return self.masters | self.moments | self.quantiser_state

    def quantiser(self) -> QuantisedWeights:
        """The quantiser as it was in the trainer, for all experts.  Checkpoints that name no rule are of "even"."""
        quant = self.config.get("quant", {})
        options = QatOptions(
            rule=quant.get("rule") or RULE,
            start_step=quant.get("start_step", 0),
            freeze_scales=quant.get("freeze_scales", False),
            average=quant.get("average", 0.0),
        )
        found = QuantisedWeights(options)
        found.restore(self.run["adam_step"], formats.split_quantiser_state(self.quantiser_state, STATE)[0])
        return found


def save(
    run_dir: Path,
    step: int,
    tensors: dict[str, Tensor],
    *,
    run: dict[str, Any],
    canary: dict[str, Any],
    config: dict[str, Any],
    keep: int,
) -> Path:
    """Write `checkpoints/step-…` and remove all but the newest `keep`."""
    path = run_dir / FOLDER / step_name(step)
    write_state(path, tensors, {"run": run, "canary": canary, "config": config})
    prune(run_dir / FOLDER, keep)
    return path


def load(path: Path) -> Checkpoint:
    """Read and verify one checkpoint.  Raises StorageFailure naming the file that is wrong."""
    tensors, documents = read_state(path)
    moments = {name: tensor for name, tensor in tensors.items() if name.endswith((".exp_avg", ".exp_avg_sq"))}
    _, rest = formats.split_quantiser_state(tensors, STATE)
    masters = {name: tensor for name, tensor in rest.items() if name not in moments}
    return Checkpoint(
        path=path,
        masters=masters,
        moments=moments,
        run=documents["run"],
        canary=documents["canary"],
        config=documents["config"],
        quantiser_state={name: tensor for name, tensor in tensors.items() if name not in rest},
    )


def newest(path: Path) -> Checkpoint:
    """The newest complete checkpoint of a run folder, or the checkpoint that `path` itself is.

    Raises StorageFailure where there is none; damaged ones that were passed over are named.
    """
    folder = path / FOLDER
    latest = find_resume(folder if folder.is_dir() else path)
    assert latest.path is not None
    return load(latest.path)
