"""DeepSpeed with expert parallelism: every split over ranks and every ZeRO stage trains the same model.

The ranks are processes of their own (`policy_ranks.py`): one alone, two together, and two new ones that resume.
"""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from tests.integration.policy_ranks import (
    FIRST,
    Case,
    alone,
    batches,
    biased_router,
    forced_routes,
    launch,
    packed_start,
    replay,
    resume,
    sequences,
    train,
)
from tests.integration.tiny import (
    continuation_logprobs,
    forced_experts,
    masters,
    trained,
    transformers_model,
    write_folder,
)
from train.policy import mxfp4
from train.policy.qat import STATE, QatOptions, QuantisedWeights
from train.weights import formats
from train.weights.publish import assemble, make_shard
from train.weights.sources import SOURCE_SCALES, decode_checkpoint

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

SEED = 1
CASES = (
    Case(name="two ranks", extras=True),
    Case(name="stage 2", zero_stage=2),
    Case(name="stage 3", zero_stage=3),
    Case(name="checkpointing", activation_checkpointing=True),
)
RESUMED = (Case(name="two ranks"), Case(name="stage 3", zero_stage=3))
Seen = dict[str, Any]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("policy") / "model", SEED)


@pytest.fixture(scope="module")
def seen(model_dir: Path) -> list[Seen]:
    """What each of two ranks saw, by case; the first also has `one rank` and `refused` of a rank alone."""
    with ThreadPoolExecutor(2) as executor:
        pair = executor.submit(launch, train, 2, model_dir, model_dir.parent / "pair", list(CASES))
        one = [Case(name="one rank", expert_parallel=1)]
        single = executor.submit(launch, alone, 1, model_dir, model_dir.parent / "single", one)
        found = pair.result()
        return [found[0] | single.result()[0], found[1]]


@pytest.fixture(scope="module")
def resumed(model_dir: Path, seen: list[Seen]) -> list[Seen]:
    """Two new ranks, put where the two ranks were after their first step."""
    saved = {name: seen[0]["two ranks"][name] for name in ("state", "step")}
    return launch(resume, 2, model_dir, model_dir.parent / "resumed", list(RESUMED), saved)


def distance(left: Tensor, right: Tensor) -> float:
    """Of two tensors, relative."""
    return float((left - right).norm() / right.norm().clamp_min(1e-30))


def assert_same(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_every_split_takes_the_same_step(seen: list[Seen], name: str) -> None:
    """By value, F69 and DeepSpeed's issue 5618: loss, norm, the gradient of every parameter, and its update."""
    one, other = seen[0]["one rank"], seen[0][name]
    assert other["totals"]["loss"] == pytest.approx(one["totals"]["loss"], rel=1e-5)
    assert other["totals"]["gradient_norm"] == pytest.approx(one["totals"]["gradient_norm"], rel=1e-5)
    assert one["totals"]["gradient_norm"] > 1  # the clip at 1.0 is at work, over dense and expert parameters together
    assert (
        other["totals"]["tokens"] == one["totals"]["tokens"] == sum(item.num_loss_tokens for item in sequences(*FIRST))
    )
    assert other["state"].keys() == one["state"].keys() and other["step"] == one["step"] == 1
    before = masters(SEED)
    for parameter, old in before.items():
        # After one step Adam's first moment is the clipped gradient times 1 - beta1.
        gradient = f"{parameter}.exp_avg"
        assert one["state"][gradient].norm() > 0
        assert distance(other["state"][gradient], one["state"][gradient]) < 1e-5, parameter
        update, expected = other["state"][parameter] - old, one["state"][parameter] - old
        assert distance(update, expected) < 1e-3, parameter  # Adam divides tiny gradients by their own size
        assert distance(other["state"][parameter], one["state"][parameter]) < 1e-5, parameter
    clipped = sum(one["state"][f"{parameter}.exp_avg"].square().sum() for parameter in before).sqrt() / 0.1
    assert float(clipped) == pytest.approx(1.0, rel=1e-4)


def test_both_ranks_see_the_same(seen: list[Seen]) -> None:
    for case in CASES:
        assert seen[0][case.name]["totals"] == seen[1][case.name]["totals"]
        assert_same(seen[0][case.name]["state"], seen[1][case.name]["state"])


def by_sequence(seen: list[Seen], name: str, world: int) -> dict[int, list[float]]:
    out: dict[int, list[float]] = {}
    for rank in range(world):
        for batch, values in zip(batches(FIRST, rank, world), seen[rank][name]["logprobs"], strict=True):
            for sequence, value in zip(batch.sequence_ids.tolist(), values.tolist(), strict=True):
                out.setdefault(sequence, []).append(value)
    return out


def test_the_forward_pass_is_that_of_transformers_on_dequantised_experts(seen: list[Seen]) -> None:
    """Packed rows, AutoEP and fake quantisation at once, against one sequence at a time in transformers."""
    model = transformers_model(trained(masters(SEED)))
    unquantised = transformers_model(
        {name: tensor.float() for name, tensor in formats.serve_all(masters(SEED), "bf16").items()}
    )
    pair, one = by_sequence(seen, "two ranks", 2), by_sequence(seen, "one rank", 1)
    gaps, other_gaps = [], []
    for number, sample in enumerate(sequences(*FIRST)):
        first = sample.loss_mask.index(True)
        parts = (sample.ids[:first], sample.ids[first:])
        expected = continuation_logprobs(model, *parts)
        for found in (pair[number], one[number]):
            gaps += [abs(a - b) for a, b in zip(found, expected, strict=True)]
        other = continuation_logprobs(unquantised, *parts)
        other_gaps += [abs(a - b) for a, b in zip(pair[number], other, strict=True)]
    assert max(gaps) < 1e-5
    assert sum(other_gaps) / len(other_gaps) > 1e-2  # without quantisation it is another policy


def test_shards_are_the_whole_policy_and_hold_what_the_trainer_computes_with(seen: list[Seen]) -> None:
    ranks = [rank["two ranks"] for rank in seen]
    names = ranks[0]["names"]
    assert names == ranks[1]["names"]
    expected = formats.expected_names(names, "mxfp4")
    shards = [
        make_shard(rank["tensors"], version=1, rank=number, num_ranks=2, expected=expected)
        for number, rank in enumerate(ranks)
    ]
    tensors, _, _ = assemble(shards)
    assert tensors.keys() == expected
    served = formats.serve_all(masters(SEED), "mxfp4")
    assert_same(tensors, served)
    for first, rank in zip((0, 4), ranks, strict=True):
        assert rank["cached"].keys() == {name for name, experts in names.items() if experts}
        for name, values in rank["cached"].items():
            for offset, value in enumerate(values):
                own = formats.expert_name(name, first + offset)
                packed = mxfp4.Packed(tensors[own], tensors[own + formats.SCALE_SUFFIX])
                assert torch.equal(mxfp4.dequantise(packed), value), own


def test_a_batch_with_nan_raises_on_every_rank_and_changes_no_weight(seen: list[Seen]) -> None:
    for number, rank in enumerate(seen):
        found = rank["two ranks"]
        assert "loss is nan" in found["nan"] and "no weight was changed" in found["nan"]
        assert_same(found["state after nan"], found["state 2"])
        for name, weight in found["weights after nan"].items():
            own = found["state 2"][name]
            share = own.chunk(2)[number] if formats.is_expert(name) else own
            assert torch.equal(weight, share), name


def test_a_resumed_pair_goes_on_to_the_bit(seen: list[Seen], resumed: list[Seen]) -> None:
    """F67, F89: what was written comes back, in masters, moments and working weights, and so does the next step."""
    before = seen[0]["two ranks"]
    for number, rank in enumerate(resumed):
        found = rank["two ranks"]
        assert found["step"] == before["step"] == 1
        assert_same(found["state"], before["state"])
        for name, weight in found["weights"].items():
            own = before["state"][name]
            assert torch.equal(weight, own.chunk(2)[number] if formats.is_expert(name) else own), name
        assert found["totals 2"] == before["totals 2"]
        assert_same(found["state 2"], before["state 2"])


def test_the_state_of_another_model_is_refused_and_changes_nothing(resumed: list[Seen]) -> None:
    for rank in resumed:
        fewer, more, doubled = rank["foreign"]
        assert "tensors are missing" in fewer and "model.layers.1." in fewer
        assert "1 are unknown ['model.layers.9.extra']" in more
        assert "experts" in doubled and "[16, " in doubled and "here [8, " in doubled
        assert rank["untouched"]


def test_a_state_of_stage_1_goes_on_in_stage_3(seen: list[Seen], resumed: list[Seen]) -> None:
    before = seen[0]["two ranks"]
    for rank, same_stage in zip(resumed, (rank["two ranks"] for rank in resumed), strict=True):
        found = rank["stage 3"]
        assert_same(found["state"], before["state"])
        for left, right in zip(found["logprobs"], same_stage["logprobs"], strict=True):
            assert torch.equal(left, right)
        assert found["totals 2"]["gradient_norm"] == pytest.approx(before["totals 2"]["gradient_norm"], rel=1e-5)
        for name, value in before["state 2"].items():
            assert distance(found["state 2"][name], value) < 1e-5, name


def test_a_rank_without_a_sequence_takes_part(seen: list[Seen]) -> None:
    """F70: the second batch is one sequence; the other rank had a dummy, which counts for nothing."""
    (sample,) = sequences(12, 1)
    totals = seen[1]["two ranks"]["totals 2"]
    assert totals["tokens"] == sample.num_loss_tokens and totals["sequences"] == 1
    assert totals["gradient_norm"] > 0


def test_what_computes_something_else_is_refused(seen: list[Seen]) -> None:
    refused = seen[0]["refused"]
    assert "conversion changes the model" in refused["swapped"] and "model.autoep_preset" in refused["swapped"]
    assert "conversion changes the model" in refused["preset"] and "'deepseek_v3'" in refused["preset"]


@pytest.mark.parametrize("format", ["mxfp4", "bf16"])
def test_whole_tensors_are_the_ranks_shards_put_together(seen: list[Seen], format: str) -> None:
    """What goes through NCCL or IPC, by name, type and byte, is what goes through the object store."""
    parts = seen[0]["two ranks"]["own"][format] | seen[1]["two ranks"]["own"][format]
    for rank in seen:
        whole = rank["two ranks"]["whole"][format]
        assert_same(whole, parts)
        assert all(whole[name].dtype is tensor.dtype for name, tensor in parts.items())


def test_a_routers_bias_is_published_and_saved_in_full(tmp_path: Path) -> None:
    """A buffer of the checkpoint: fp32 under its serving name, in the state, and put back; layers by their numbers."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 384, "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16}
    heads |= {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
    experts = {"n_shared_experts": 1, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1}
    layers = {"num_hidden_layers": 3, "first_k_dense_replace": 1, "max_position_embeddings": 256}
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**sizes, **heads, **experts, **layers))
    biases = {}
    for number, layer in enumerate(model.model.layers[1:], start=1):
        biases[number] = 0.1 * torch.randn(8)
        layer.mlp.gate.e_score_correction_bias.copy_(biases[number])
    model.save_pretrained(tmp_path / "model")
    (found,) = launch(biased_router, 1, tmp_path / "model", tmp_path / "out")
    assert found["layers"] == (1, 2)
    for number, bias in biases.items():
        name = f"model.layers.{number}.mlp.router.e_score_correction_bias"
        assert torch.equal(found["saved"][name], bias) and found["names"][name] == 0
        served = found["served"][f"model.layers.{number}.mlp.gate.e_score_correction_bias"]
        assert served.dtype is torch.float32 and torch.equal(served, bias + 1)
        assert not torch.equal(served.bfloat16().float(), served)  # bf16 would not have done
        assert f"{name}.exp_avg" not in found["saved"]


# --- routes ------------------------------------------------------------------------------------------------------

REPLAYED = (
    Case(name="replay", routes="replay", load_balance=0.1),
    Case(name="checkpointing", routes="replay", load_balance=0.1, activation_checkpointing=True),
    Case(name="stage 3", routes="replay", load_balance=0.1, zero_stage=3),
    Case(name="unbalanced", routes="replay"),
    Case(name="observe", routes="observe"),
)


@pytest.fixture(scope="module")
def replayed(model_dir: Path) -> tuple[Seen, Seen]:
    """Steps on routes that were drawn at random: of a rank alone, and of two together."""
    alone_case = [Case(name="one rank", routes="replay", load_balance=0.1, expert_parallel=1)]
    with ThreadPoolExecutor(2) as executor:
        pair = executor.submit(launch, replay, 2, model_dir, model_dir.parent / "replay-pair", list(REPLAYED))
        single = executor.submit(launch, replay, 1, model_dir, model_dir.parent / "replay-one", alone_case)
        one: Seen = single.result()[0]["one rank"]
        first, second = pair.result()
    for name, own in first.items():
        own["logprobs"] |= second[name]["logprobs"]  # each rank has its own rows
    return one, first


def test_replay_goes_through_the_experts_that_were_given(replayed: tuple[Seen, Seen]) -> None:
    """Against transformers' own model, whose routers are told the same experts."""
    one, pair = replayed
    model = transformers_model(trained(masters(SEED)))
    samples = sequences(*FIRST)
    config = model.config
    routes = forced_routes(samples, config.num_hidden_layers, config.num_experts, config.num_experts_per_tok)
    for number, (sample, ids) in enumerate(zip(samples, routes, strict=True)):
        split = sample.loss_mask.index(True)
        whole = torch.from_numpy(ids).long()
        with forced_experts(model, torch.cat([whole, whole[-1:]])):  # the last token predicts nothing
            expected = continuation_logprobs(model, sample.ids[:split], sample.ids[split:])
        own = continuation_logprobs(model, sample.ids[:split], sample.ids[split:])
        for found in (one, pair["replay"], pair["checkpointing"], pair["stage 3"]):
            assert found["logprobs"][number] == pytest.approx(expected, abs=2e-4)
        assert pair["observe"]["logprobs"][number] == pytest.approx(own, abs=2e-4)
        assert max(abs(a - b) for a, b in zip(own, expected, strict=True)) > 5e-3


def test_every_split_takes_the_same_step_on_replayed_routes(replayed: tuple[Seen, Seen]) -> None:
    """Loss, balance loss and every master, whatever is recomputed or gathered; routers still learn."""
    one, pair = replayed
    gates = [name for name in one["state"] if name.endswith(".router.gate.weight")]
    for name in ("replay", "checkpointing", "stage 3"):
        found = pair[name]
        for total in ("loss", "balance_loss", "gradient_norm", "routes_own_differ", "routes_given"):
            assert found["totals"][total] == pytest.approx(one["totals"][total], rel=1e-5)
        assert max(distance(found["state"][key], value) for key, value in one["state"].items()) < 1e-4
        assert found["totals"]["routes_differ"] == 0.0
        assert {key: value for key, value in found["totals"].items() if key.startswith("routes/")} == {
            key: value for key, value in one["totals"].items() if key.startswith("routes/")
        }
    before = masters(SEED)
    assert gates and all(not torch.equal(one["state"][name], before[name]) for name in gates)
    # Experts drawn evenly, whatever the scores: near 1.  It enters the loss by its factor, and the gradient.
    assert one["totals"]["balance_loss"] == pytest.approx(1.0, abs=0.05)
    assert one["totals"]["loss"] - pair["unbalanced"]["totals"]["loss"] == pytest.approx(
        0.1 * one["totals"]["balance_loss"], rel=1e-4
    )
    assert not torch.equal(pair["replay"]["state"][gates[0]], pair["unbalanced"]["state"][gates[0]])


def test_observing_counts_and_changes_nothing(replayed: tuple[Seen, Seen], seen: list[Seen]) -> None:
    observed = replayed[1]["observe"]["totals"]
    assert observed["loss"] == pytest.approx(seen[0]["two ranks"]["totals"]["loss"], rel=1e-6)
    assert observed["routes_differ"] == observed["routes_own_differ"] > 0.9 * observed["routes_given"] > 0
    assert seen[0]["two ranks"]["totals"]["routes_given"] == 0.0


# --- quantisation options, and a run that starts from an MXFP4 checkpoint ----------------------------------------

OPTIONS = {
    "plain": QatOptions(rule="floor"),
    "frozen": QatOptions(rule="floor", freeze_scales=True),
    "average": QatOptions(rule="floor", average=0.5),
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Tensor], list[Seen]]:
    """The tensors of an MXFP4 checkpoint whose scales another rule chose, and what two ranks served from it."""
    root = tmp_path_factory.mktemp("packed")
    write_folder(root / "plain", SEED)
    tensors = formats.serve_all(masters(SEED), "mxfp4", QuantisedWeights(QatOptions(rule="rceil")))
    (root / "source").mkdir()
    for path in (root / "plain").iterdir():
        if path.suffix != ".safetensors" and path.name != "config.json":
            shutil.copy(path, root / "source" / path.name)
    config = json.loads((root / "plain" / "config.json").read_text())
    (root / "source" / "config.json").write_text(
        json.dumps(config | {"quantization_config": {"quant_method": "mxfp4"}})
    )
    save_file(tensors, root / "source" / "model.safetensors", metadata={"format": "pt"})
    decode_checkpoint(root / "source", root / "decoded")
    scales = str(root / "decoded" / SOURCE_SCALES)
    cases = [Case(name=name, qat=options, source_scales=scales) for name, options in OPTIONS.items()]
    cases.append(Case(name="stage 3", qat=OPTIONS["frozen"], source_scales=scales, zero_stage=3))
    return tensors, launch(packed_start, 2, root / "decoded", root / "out", cases)


def together(seen: list[Seen], case: str, what: str) -> dict[str, Tensor]:
    return seen[0][case][what] | seen[1][case][what]


@pytest.mark.parametrize("case", [*OPTIONS, "stage 3"])
def test_version_0_is_the_checkpoint_to_the_byte(packed: tuple[dict[str, Tensor], list[Seen]], case: str) -> None:
    tensors, seen = packed
    assert_same(together(seen, case, "start"), tensors)
    for rank in seen:
        for name, values in rank[case]["computed"].items():
            for offset, value in enumerate(values):
                expert = formats.expert_name(name, offset + (len(values) if rank is seen[1] else 0))
                codes = mxfp4.Packed(tensors[expert], tensors[expert + formats.SCALE_SUFFIX])
                assert torch.equal(value, mxfp4.dequantise(codes))


@pytest.mark.parametrize("case", [*OPTIONS, "stage 3"])
def test_what_options_remember_survives_a_resume(packed: tuple[dict[str, Tensor], list[Seen]], case: str) -> None:
    tensors, seen = packed
    for before, after in (("stepped", "resumed"), ("second", "second resumed")):
        assert_same(together(seen, case, before), together(seen, case, after))
    stepped = together(seen, case, "stepped")
    experts = [name for name in tensors if ".experts." in name]
    scales = [name for name in experts if name.endswith(formats.SCALE_SUFFIX)]
    assert any(not torch.equal(stepped[name], tensors[name]) for name in experts)
    kept = [torch.equal(stepped[name], tensors[name]) for name in scales]
    if case != "average":  # a running mean may hold every block where it was
        assert all(kept) if case in ("frozen", "stage 3") else not all(kept)
    kinds = {name.rpartition(".")[2] for name in seen[0][case]["names"]} & set(STATE)
    assert (
        kinds
        == {
            "plain": {"source_scales"},
            "frozen": {"source_scales", "scales"},
            "average": {"source_scales", "average"},
            "stage 3": {"source_scales", "scales"},
        }[case]
    )
