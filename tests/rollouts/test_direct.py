"""vLLM's own transfers between GPUs, as far as a CPU can see them: control, ranks, completeness, order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rollouts import direct
from rollouts.direct import Engines, Sender, Tensorwise
from rollouts.transfer import BACKENDS, Complete, register


def test_every_engine_is_called_and_ranks_follow_each_other() -> None:
    """Rank 0 sends; the workers of an engine of two are 1 and 2, those of the next begin at 3."""
    calls: list[tuple[int, str, Any]] = []
    waited: list[int] = []

    def call(number: int, method: str, payload: Any) -> int:
        calls.append((number, method, payload))
        return number

    engines = Engines(call, waited.extend, (2, 1, 4))
    engines.init_weight_transfer_engine({"rank_offset": 1, "world_size": 8})
    assert [payload["rank_offset"] for _, _, payload in calls] == [1, 3, 4]
    engines.init_weight_transfer_engine({"packed": True})
    assert calls[3:] == [(number, "connect", {"packed": True}) for number in range(3)]
    engines.start_weight_update()
    engines.update_weights({"names": ["a"]})
    engines.finish_weight_update()
    assert [(number, method) for number, method, _ in calls[6:]] == [
        (number, method) for method in ("start", "update") for number in range(3)
    ]
    assert waited == [0, 1, 2] * 4


@pytest.mark.parametrize("backend", ["nccl", "ipc"])
def test_a_sender_gives_vllm_its_rank_source_and_engines(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    seen: dict[str, Any] = {}

    class Trainer:
        @classmethod
        def trainer_init(cls, info: Any, *, client: Any, source: Any) -> Any:
            seen.update(info=info, client=client, source=source)
            return cls()

        def send_weights(self) -> None:
            seen["sent"] = [(name, tensor.tolist()) for name, tensor in seen["source"]]

    for name in ("NCCLTrainerWeightTransferEngine", "IPCTrainerWeightTransferEngine"):
        monkeypatch.setattr(direct, name, Trainer)
    engines = Engines(lambda *arguments: None, lambda references: None, (2, 2))
    rounds = iter([[("w", torch.tensor([1]))], [("w", torch.tensor([2]))]])
    source = Tensorwise([("w", torch.int64, (1,))], lambda: next(rounds))
    assert source.metadata()[0].name == "w" and source.metadata()[0].shape == (1,)
    sender = Sender(backend, 0, source, engines, "127.0.0.1", 4711)
    assert seen["info"].is_sender and seen["info"].backend == backend and seen["info"].packed
    if backend == "nccl":
        assert (seen["info"].world_size, seen["info"].master_port) == (5, 4711)
    for value in (1, 2):  # every version is read anew
        sender.send()
        assert seen["sent"] == [("w", [value])]


class Plain:
    """A vLLM engine without our checks: loads what it is told."""

    def __init__(self, model: nn.Module):
        self.model, self.calls = model, list[str]()

    def start_weight_update(self) -> None:
        self.calls.append("start")

    def update_weights(self, update: dict[str, Tensor]) -> None:
        self.calls.append("update")
        self.model.load_weights(iter(update.items()))  # type: ignore[operator]

    def finish_weight_update(self) -> None:
        self.calls.append("finish")


class Checked(Complete, Plain):
    pass


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        own = dict(self.named_parameters())
        found = set()
        for name, tensor in weights:
            own[name].data.copy_(tensor)
            found.add(name)
        return found


@pytest.fixture
def checked() -> Iterator[Checked]:
    yield Checked(Model())


def test_all_parameters_have_to_come(checked: Checked) -> None:
    checked.start_weight_update()
    checked.update_weights({"a.weight": torch.ones(2, 2)})
    with pytest.raises(RuntimeError, match=r"1 engine parameters got no weights, the first are \['b.weight'\]"):
        checked.finish_weight_update()
    checked.start_weight_update()
    for name in ("a.weight", "b.weight"):
        checked.update_weights({name: torch.full((2, 2), 3.0)})
    checked.finish_weight_update()
    assert checked.calls == ["start", "update", "finish", "start", "update", "update", "finish"]
    assert all(bool((parameter == 3).all()) for parameter in checked.model.parameters())
    assert "load_weights" not in vars(checked.model)


def test_a_tensor_that_came_twice_or_an_unknown_one_ends_the_update(checked: Checked) -> None:
    for update, says in (({"a.weight": torch.ones(2, 2)}, "came in two chunks"), ({"c": torch.ones(1)}, "c")):
        checked.calls.clear()
        checked.start_weight_update()
        checked.update_weights({"a.weight": torch.ones(2, 2)})
        with pytest.raises((RuntimeError, KeyError), match=says):
            checked.update_weights(update)
        assert checked.calls[-1] == "finish"  # closed, and a new one may begin
        checked.abort()
        assert checked.calls.count("finish") == 1


def test_an_open_update_is_closed_by_the_next(checked: Checked) -> None:
    checked.start_weight_update()
    checked.start_weight_update()
    assert checked.calls == ["start", "finish", "start"]


def test_vllm_knows_all_backends() -> None:
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    register()
    register()
    for name in BACKENDS:
        made = WeightTransferEngineFactory._registry[name]()
        assert issubclass(made, Complete)
    assert {name.removeprefix("jointrl_") for name in BACKENDS} == {"objects", "nccl", "ipc"}
