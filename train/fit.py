"""Which domains of a mix a policy can work on at all: its vocabulary, its context, the token budgets of the tiers.

In: a checked config and domains.  Out: for each domain that does not fit, the reason.  Called by `train.compose` where
`mix.fit_tasks` says how many tasks of each domain are looked at; the mix's table shows what it left out and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.demonstrate import demonstrate_sync
from envs.domain import Domain
from envs.types import Message, Task

if TYPE_CHECKING:
    from rollouts.chat import ChatRenderer
    from train.config import Config

_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Tokens of a tier: of one turn, of a trajectory's turns together, and of the context."""

    turn: int
    trajectory: int
    context: int


def misfits(config: Config, domains: Iterable[Domain]) -> dict[str, str]:
    """Domain -> why the policy cannot work on it; those that fit are not in it.

    Looked at are the first `mix.fit_tasks` tasks, in each tier that the mix gives the domain.  A task fits when every
    character of its prompt has a token, and prompt and gold policy's turns stay within the tier's budgets.
    """
    renderer = _renderer(config)
    found = {}
    for domain in domains:
        tiers = [tier for tier in domain.tiers if config.mix.tiers.get(tier, 0) > 0]
        budgets = {
            tier: Budget(
                turn=config.tiers[tier].turn_tokens,
                trajectory=config.tiers[tier].trajectory_tokens,
                context=config.model.context,
            )
            for tier in tiers
        }
        for task in map(domain.task, range(config.mix.fit_tasks)):
            if reason := misfit(domain, task, renderer, budgets):
                found[domain.name] = reason
                break
    return found


def misfit(domain: Domain, task: Task, renderer: ChatRenderer, budgets: dict[str, Budget]) -> str:
    """Why this task is beyond the policy; empty where it is not."""
    if missing := _missing_characters(renderer.tokenizer, [*task.prompt]):
        return f"task {task.index} has characters without a token: {missing}"
    shortest = min(budgets.values(), key=lambda budget: budget.turn)
    tier = next(iter(budgets))
    prompt = len(renderer.prompt_ids(task.prompt, domain.tools, tier))
    if prompt >= shortest.context:
        return f"task {task.index}: the prompt has {prompt:,} tokens, the context {shortest.context:,}"
    messages, _ = demonstrate_sync(domain, task)
    if missing := _missing_characters(renderer.tokenizer, messages):
        return f"task {task.index}: its episode has characters without a token: {missing}"
    turns = [len(renderer.assistant_ids(message)) for message in messages if message.role == "assistant"]
    said = sum(len(renderer.bridge_ids([message])) for message in messages if message.role != "assistant")
    for budget in budgets.values():
        if max(turns) > budget.turn:
            return f"task {task.index}: the gold answer takes {max(turns):,} tokens, a turn may have {budget.turn:,}"
        if sum(turns) > budget.trajectory:
            return (
                f"task {task.index}: the gold policy's turns take {sum(turns):,} tokens, a trajectory may have "
                f"{budget.trajectory:,}"
            )
        if prompt + said + sum(turns) > budget.context:
            return (
                f"task {task.index}: the gold episode has {prompt + said + sum(turns):,} tokens, the context "
                f"{budget.context:,}"
            )
    return ""


def _missing_characters(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The first characters that a tokenizer spells as bytes or as its unknown token."""
    text = "".join(sorted(set("".join(message.text + message.reasoning for message in messages))))
    missing = []
    for character in text:
        tokens = tokenizer.tokenize(character)
        if not tokens or tokenizer.unk_token in tokens or any(_BYTE_TOKEN.fullmatch(token) for token in tokens):
            missing.append(character)
    return " ".join(repr(character) for character in missing[:5])


def _renderer(config: Config) -> ChatRenderer:
    """Of the run's tokenizer; the tiny one is built here."""
    from transformers import AutoTokenizer

    from rollouts.chat import ChatRenderer
    from train.launch import stop_ids_of
    from train.policy.tiny import build_tokenizer

    if config.model.source == "tiny":
        tokenizer = build_tokenizer()
        return ChatRenderer(tokenizer, (tokenizer.eos_token_id,))
    return ChatRenderer(AutoTokenizer.from_pretrained(config.model.path), stop_ids_of(Path(config.model.path)))
