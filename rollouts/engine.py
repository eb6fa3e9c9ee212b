"""The engine protocol: token ids in, token ids and log-probs out.

`rollouts.episode` talks to an `Engine`; in a run that is a client of a vLLM actor (`rollouts.vllm_engine`), in unit
tests a fake.  No text crosses this border.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from envs.types import FinishReason, Routes


class EngineFailure(Exception):
    """The engine (not the model, not the environment) failed; the trajectory is retried or becomes unscored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to sample one turn.

    There is no top-p, top-k, min-p or penalty here: the loss needs the log-probs of the distribution that was
    sampled, and those options would change it behind its back.

    - `temperature`: 0 is greedy.
    - `max_tokens`: budget of this turn.
    - `seed`: of this turn's own random stream.
    - `stop_ids`: sampling any of them ends the turn; it is part of the completion.
    """

    temperature: float
    max_tokens: int
    seed: int
    stop_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """One turn to sample.  `episode` orders requests in deterministic mode; `turn` counts within it.

    `routes_from`: the first position whose experts are wanted with the completion (None: no routes).
    """

    episode: int
    turn: int
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams
    routes_from: int | None = None

    @property
    def key(self) -> tuple[int, int]:
        return (self.episode, self.turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What was sampled.  Lists are parallel; `versions` says which policy version sampled each token.

    `routes`: one row a position, from the request's `routes_from` to the last but one token.
    """

    episode: int
    turn: int
    token_ids: list[int]
    logprobs: list[float]
    versions: list[int]
    finish_reason: FinishReason
    routes: Routes | None = None

    def __post_init__(self) -> None:
        if not len(self.token_ids) == len(self.logprobs) == len(self.versions):
            raise ValueError(
                f"completion of episode {self.episode}: {len(self.token_ids)} ids, {len(self.logprobs)} log-probs, "
                f"{len(self.versions)} versions"
            )


class Engine(Protocol):
    """What an episode needs of an engine."""

    async def generate(self, request: TurnRequest) -> Completion:
        """Sample one turn.  Raises `EngineFailure`."""

    def release(self, episode: int) -> None:
        """Say that this episode asks for no further turn (deterministic engines wait for this)."""
