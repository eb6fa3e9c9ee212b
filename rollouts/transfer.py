"""How a running vLLM engine takes new weights on a CPU (or anywhere a file can be read): a weight-transfer backend.

In: safetensors files on the engine's node (tmpfs), already in serving format, whose checksums were verified by
`train.weights.publish`.  Out: a model whose every parameter came from those files, or an error that names what did
not.  It runs in each of vLLM's worker processes (`rollouts.extension`), so it works for any tensor-parallel size.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load_file
from vllm.distributed.weight_transfer.base import WeightTransferEngine, WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

# What `cluster.engine.publish_through` stands for in vLLM's registry.
BACKENDS = {
    "jointrl_objects": (__name__, "FileWeightTransfer"),
    "jointrl_nccl": ("rollouts.direct", "NcclTransfer"),
    "jointrl_ipc": ("rollouts.direct", "IpcTransfer"),
}
_PIECE = 2**26


@dataclass
class FileInit(WeightTransferInitInfo):
    """Nothing has to be agreed on beforehand."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """Where a chunk of this version's weights lies, and how many tensors have to be there."""

    path: str
    num_tensors: int


class Complete:
    """Mixed into a vLLM weight-transfer engine: an update is finished only if every parameter got its weights.

    Also closes an update that is given up, and does what vLLM 0.32 forgets on a reload.
    """

    model: Any
    _is_open = False

    def start_weight_update(self) -> None:
        if self._is_open:
            self.abort()
        _forget_prepacked_experts(self.model)
        self._expected = {name for name, _ in self.model.named_parameters()}
        self._given: set[str] = set()
        self._loaded: set[str] = set()
        super().start_weight_update()  # type: ignore[misc]
        self._is_open = True

    def update_weights(self, update_info: dict) -> None:
        load_weights = self.model.load_weights
        self.model.load_weights = lambda weights: self._note(load_weights, list(weights))
        try:
            super().update_weights(update_info)  # type: ignore[misc]
        except Exception:
            self.abort()
            raise
        finally:
            del self.model.load_weights

    def _note(self, load_weights: Any, weights: list[tuple[str, torch.Tensor]]) -> set[str]:
        again = sorted(self._given & {name for name, _ in weights})
        if again:
            raise RuntimeError(f"{len(again)} tensors came in two chunks, the first are {again[:3]}")
        self._given |= {name for name, _ in weights}
        loaded = set(load_weights(iter(weights)) or ())
        self._loaded |= loaded
        return loaded

    def finish_weight_update(self) -> None:
        parts = missing_parts(self.model, self._given)
        missing = sorted(self._expected - self._loaded)
        self.abort()  # closes the reload, in either case
        _process_tied(self.model)
        if parts:
            raise RuntimeError(f"{len(parts)} parts of fused engine parameters did not come, the first are {parts[:3]}")
        if missing:
            raise RuntimeError(f"{len(missing)} engine parameters got no weights, the first are {missing[:3]}")

    def abort(self) -> None:
        """Close the reload: an open one would go on counting at the next publish where this one stopped.

        Unless all was given, what the model holds now is undefined.
        """
        if self._is_open:
            self._is_open = False
            super().finish_weight_update()  # type: ignore[misc]


class _FileEngine(WeightTransferEngine):
    """Loads a version file by file through vLLM's layer-wise reload."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate
    supports_draft_weight_update = False

    def init_transfer_engine(self, init_info: FileInit) -> None:
        return None

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: FileUpdate) -> None:
        tensors = load_file(update_info.path)
        if len(tensors) != update_info.num_tensors:
            raise RuntimeError(f"{update_info.path}: {len(tensors)} tensors, {update_info.num_tensors} were announced")
        self.model.load_weights(iter(tensors.items()))

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        return None


class FileWeightTransfer(Complete, _FileEngine):
    """The default: files on the engine's node."""


def kernel_checksum(model: torch.nn.Module) -> str:
    """A checksum of every parameter and buffer in the layout that the kernels read, and of their names and shapes.

    Copies that a CPU's library packed out of them are not seen: what these compute is the canary's to say.

    Two sums of the 32-bit words, one weighted by position, wrapping at 64 bit: computed where the weights lie, in
    pieces of `_PIECE` bytes.  For equality of engines and of repeated loads, not against forgery.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted({**dict(model.named_parameters()), **dict(model.named_buffers())}.items()):
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        plain = weighted = 0
        for start in range(0, len(raw), _PIECE):
            piece = raw[start : start + _PIECE]
            words = torch.nn.functional.pad(piece, (0, -len(piece) % 4)).clone().view(torch.int32).long()
            position = torch.arange(start // 4 + 1, start // 4 + 1 + len(words), device=words.device)
            plain += int(words.sum())
            weighted += int((words * position).sum())
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} {plain} {weighted % 2**64}\n".encode())
    return digest.hexdigest()


def missing_parts(model: Any, given: set[str]) -> list[str]:
    """Checkpoint names that are not in `given` although others of the same fused parameter are.

    vLLM fuses q, k and v, gate and up, and all experts of a layer.  It calls such a parameter loaded as soon as one
    part came, and leaves the others as they were allocated.
    """
    packed = getattr(model, "packed_modules_mapping", {})
    fused: list[set[str]] = []
    for name, module in model.named_modules():
        kinds = [kind for kind, _ in module.named_parameters(recurse=False)]
        stem, _, last = name.rpartition(".")
        fused += [{f"{stem}.{part}.{kind}" for part in packed.get(last, ())} for kind in kinds]
        if hasattr(module, "get_expert_mapping"):
            # ("experts.w13_", "experts.0.gate_proj.", …): the rest of both names is the same, weight or weight_scale.
            mapping = [(own.rpartition(".")[2], part) for own, part, *_ in module.get_expert_mapping()]
            layer = name.partition(".experts")[0]
            fused += [
                {f"{layer}.{part}{kind.removeprefix(own)}" for own, part in mapping if kind.startswith(own)}
                for kind in kinds
            ]
    return [part for parts in fused if parts & given for part in sorted(parts - given)]


def _forget_prepacked_experts(model: torch.nn.Module) -> None:
    """vLLM 0.32 skips the CPU prepack of unquantised experts on a reload and then computes garbage without an error.

    With the kernel object gone it takes the path of a first load again (measured: log-probs off by nats without).
    """
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is not None and "Unquantized" in type(method).__name__ and hasattr(method, "moe_kernel"):
            method.moe_kernel = None


def _process_tied(model: torch.nn.Module) -> None:
    """A module whose weight is another's (a tied head) gets no weights of its own, so the reload leaves it alone.

    What vLLM 0.32 packed out of the first ones on a CPU then stays in use without an error (measured: log-probs off by
    nats).  On GPUs nothing is packed and this does nothing.
    """
    holders: dict[int, list[torch.nn.Module]] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            holders.setdefault(id(parameter), []).append(module)
    for module in (module for modules in holders.values() if len(modules) > 1 for module in modules):
        method: Any = getattr(module, "quant_method", None)
        if "Unquantized" in type(method).__name__:
            method.process_weights_after_loading(module)


def register() -> None:
    """Make the backends known to vLLM in this process; a second call changes nothing."""
    known = WeightTransferEngineFactory._registry
    for name, (module, engine) in BACKENDS.items():
        if name not in known:
            WeightTransferEngineFactory.register_engine(name, module, engine)
