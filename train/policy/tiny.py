"""A tiny Qwen3-MoE with a character tokenizer: the policy of the toy run and of the tests.

In: sizes from `conf/model/tiny.yaml`.  Out: a Hugging Face folder that transformers, DeepSpeed AutoEP and vLLM load
like any other.  Called by `train.launch` when the config says `model.source=tiny`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

SPECIAL_TOKENS = (
    "<|pad|>",
    "<|bos|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|low|>",
    "<|high|>",
    "<|max|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
)

# What all tool calls have in common: spelt out, it would be nine tenths of a call, and of the loss on it.  These are
# text like any other, so that a call may as well be sampled letter by letter.
TOOL_CALL_TEXT = ('{"name":"', '","arguments":{"', '":"', '","', '"}}')

# Every message ends with <|end|>, nothing is ever rewritten, so turn n+1 extends turn n token for token.  The
# thinking tier is the second token of the conversation.
CHAT_TEMPLATE = (
    "<|bos|>{{ '<|' + (thinking_tier or 'low') + '|>' }}"
    "{%- if tools %}<|system|>"
    "{%- for tool in tools %}{{ tool.function.name }}("
    "{{- tool.function.parameters.properties.keys() | join(',') }}) {{ tool.function.description }}{{ '\\n' }}"
    "{%- endfor %}<|end|>"
    "{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'assistant' %}<|assistant|>"
    "{%- if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}"
    "{{- message.content }}"
    "{%- for call in message.tool_calls or [] %}<tool_call>{{ call.raw }}</tool_call>{% endfor %}<|end|>"
    "{%- else %}{{ '<|' + message.role + '|>' }}{{ message.content }}<|end|>"
    "{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a printable ASCII character, bytes for everything else, single tokens for structure and for
    `TOOL_CALL_TEXT`.

    Decoding is exact: characters are fused without spaces and byte tokens are put together again.
    """
    characters = [chr(code) for code in range(32, 127)] + ["\n"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *characters, *byte_tokens])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        bos_token="<|bos|>",
        eos_token="<|end|>",
        additional_special_tokens=list(SPECIAL_TOKENS[3:]),
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    wrapped.add_tokens([AddedToken(text, special=False, normalized=False) for text in TOOL_CALL_TEXT])
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def build_model(
    *,
    seed: int,
    hidden_size: int,
    expert_size: int,
    num_layers: int,
    num_experts: int,
    experts_per_token: int,
    context: int,
    initializer_range: float,
) -> Qwen3MoeForCausalLM:
    """A randomly initialised policy in fp32; global RNG is left as it was."""
    tokenizer = build_tokenizer()
    config = Qwen3MoeConfig(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        moe_intermediate_size=expert_size,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden_size // 4,
        num_experts=num_experts,
        num_experts_per_tok=experts_per_token,
        norm_topk_prob=True,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        rope_theta=10_000.0,
        initializer_range=initializer_range,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen3MoeForCausalLM(config)


def write_tiny_model(directory: Path, **sizes: float) -> None:
    """Write model and tokenizer as a Hugging Face folder (fp32: it becomes the master copy)."""
    model = build_model(**sizes)  # type: ignore[arg-type]
    transformers.logging.disable_progress_bar()
    model.generation_config.eos_token_id = [model.config.eos_token_id]
    model.save_pretrained(directory)
    build_tokenizer().save_pretrained(directory)
