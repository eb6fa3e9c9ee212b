"""Packed rows give the log-probs and gradients of separate sequences, on a small Qwen3-MoE in fp32."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from train.policy.attention import NAME, packed_attention, packed_attention_arguments, register
from train.policy.model import attach_logprob_forward
from train.policy.packing import Sample, pack, token_weights
from train.policy.setup import leaks, probe_batch

VOCABULARY = 128


def tiny_model(attention: str, **changes: Any) -> Qwen3MoeForCausalLM:
    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=64,
        moe_intermediate_size=32,
        num_experts=4,
        num_experts_per_tok=2,
        attn_implementation=attention,
        **changes,
    )
    model = Qwen3MoeForCausalLM(config).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # With the default initialisation attention is nearly uniform, and a wrong one would hardly show.
            if "q_proj" in name or "v_proj" in name or "o_proj" in name:
                parameter.mul_(5.0)
    return model


def sequences_of(lengths: list[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, VOCABULARY, (length,), generator=generator) for length in lengths]


def packed_forward(model: Any, ids: Tensor, positions: Tensor, boundaries: Tensor) -> Tensor:
    arguments = packed_attention_arguments(boundaries)
    logits: Tensor = model(input_ids=ids, position_ids=positions, use_cache=False, **arguments).logits
    return logits


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("lengths", [[7, 31, 31, 31, 2, 12, 12, 1, 40], [5], [1, 1, 3]])
def test_a_packed_row_equals_separate_sequences(lengths: list[int], checkpointing: bool) -> None:
    sequences = sequences_of(lengths)
    apart = tiny_model("eager")
    logits_apart = [apart(input_ids=ids[None], use_cache=False).logits[0] for ids in sequences]
    target_weights = torch.arange(1.0, 1 + sum(lengths))
    target_weights /= target_weights.sum()
    targets = torch.cat(sequences).roll(3)
    (cross_entropy(torch.cat(logits_apart), targets, reduction="none") * target_weights).sum().backward()

    packed = tiny_model(register())
    if checkpointing:
        packed.gradient_checkpointing_enable({"use_reentrant": False})
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    boundaries = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    logits = packed_forward(packed, torch.cat(sequences)[None], positions, boundaries)[0]
    (cross_entropy(logits, targets, reduction="none") * target_weights).sum().backward()

    wanted = torch.cat(logits_apart).log_softmax(-1)
    assert float((logits.detach().log_softmax(-1) - wanted.detach()).abs().max()) < 2e-6
    for (name, one), two in zip(apart.named_parameters(), packed.parameters(), strict=True):
        assert one.grad is not None and two.grad is not None, name
        assert float((one.grad - two.grad).abs().max()) < 2e-6, name


def test_a_change_in_one_sequence_is_not_seen_by_another() -> None:
    model = tiny_model(register()).eval()
    ids = torch.cat(sequences_of([9, 9, 6]))
    positions = torch.cat([torch.arange(9), torch.arange(9), torch.arange(6)])[None]
    boundaries = torch.tensor([0, 9, 18, 24], dtype=torch.int32)
    with torch.no_grad():
        before = packed_forward(model, ids[None], positions, boundaries)[0]
        ids[9] = (ids[9] + 1) % VOCABULARY
        after = packed_forward(model, ids[None], positions, boundaries)[0]
    gaps = (before - after).abs().amax(dim=1)
    # Not bit-equal: an expert's matrix product over other rows may round otherwise.
    assert float(gaps[:9].max()) < 2e-6 and float(gaps[18:].max()) < 2e-6
    assert float(gaps[10:18].min()) > 1e-4


def test_what_pack_makes_is_what_the_model_reads() -> None:
    """Log-probs at predict_index of packed rows are those of each sample alone, whatever the row."""
    sequences = sequences_of([4, 9, 17, 9, 30])
    samples = [
        Sample(
            ids=ids.tolist(),
            loss_mask=[position >= 2 for position in range(len(ids))],
            behaviour_logprobs=[0.0] * len(ids),
            versions=[0] * len(ids),
            advantages=[1.0] * len(ids),
            domain="a",
            tier="low",
            task_id=f"a/train/{index}",
            sample=0,
            truncated=False,
        )
        for index, ids in enumerate(sequences)
    ]
    model = tiny_model(register()).eval()
    with torch.no_grad():
        for (batch,) in pack(samples, token_weights(samples, "token"), {"a": 0}, row_tokens=40, num_ranks=2):
            assert batch.num_tokens in (34, 35)
            logits = packed_forward(model, batch.input_ids, batch.position_ids, batch.boundaries)[0]
            found = logits.log_softmax(-1)[batch.predict_index, batch.target_ids]
            for index in batch.sequence_ids.unique().tolist():
                ids = sequences[index]
                alone = packed_forward(model, ids[None], torch.arange(len(ids))[None], torch.tensor([0, len(ids)]))[0]
                wanted = alone.log_softmax(-1)[torch.arange(1, len(ids) - 1), ids[2:]]
                assert float((found[batch.sequence_ids == index] - wanted).abs().max()) < 2e-6


def test_neighbours_of_equal_length_share_a_call() -> None:
    assert packed_attention_arguments(torch.tensor([0, 5, 10, 12])) == {"packed_runs": [(5, 2), (2, 1)]}
    assert packed_attention_arguments(torch.tensor([0, 3, 5, 8])) == {"packed_runs": [(3, 1), (2, 1), (3, 1)]}


def test_what_would_leak_or_be_ignored_is_refused() -> None:
    model = tiny_model(register()).eval()
    ids = torch.zeros(1, 8, dtype=torch.int64)
    with pytest.raises(ValueError, match="packed_attention_arguments"):
        model(input_ids=ids, use_cache=False)
    with pytest.raises(ValueError, match="no attention mask"):
        model(input_ids=ids, attention_mask=torch.ones(1, 8), use_cache=False)
    with pytest.raises(ValueError, match="another row"):
        model(input_ids=ids, use_cache=False, **packed_attention_arguments(torch.tensor([0, 7])))
    heads = torch.zeros(1, 2, 8, 16)
    runs = [(8, 1)]
    with pytest.raises(ValueError, match="sliding window"):
        packed_attention(model, heads, heads, heads, None, packed_runs=runs, sliding_window=4)
    with pytest.raises(ValueError, match="s_aux"):
        packed_attention(model, heads, heads, heads, None, packed_runs=runs, s_aux=torch.zeros(2))
    assert register() == NAME


def tiny_moe(kind: str) -> Any:
    """Four experts and four layers; `Qwen3Next` has three of gated delta rule among them."""
    sizes = {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 64,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 256,
    }
    if kind == "Qwen3Next":
        sizes |= {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "shared_expert_intermediate_size": 32}
        sizes |= {"linear_key_head_dim": 16, "linear_value_head_dim": 16}
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    name = f"{kind}ForCausalLM"
    model = getattr(transformers, name)._from_config(config, attn_implementation=register()).eval()
    attach_logprob_forward(model, chunk_tokens=16, temperature=1.0)
    return model


@pytest.mark.parametrize(("kind", "leaking"), [("Qwen3Moe", False), ("Qwen3Next", True)])
def test_layers_that_carry_a_state_into_the_next_sequence_are_noticed(kind: str, leaking: bool) -> None:
    """No attention mask helps there; each sequence then has to have a row of its own."""
    model, probe = tiny_moe(kind), probe_batch(128)
    with torch.no_grad():
        packed, _ = model(**probe)
    assert leaks(model, probe, packed) is leaking
