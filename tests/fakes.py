"""Stand-ins for what is slow or far away, on the project's own protocols.

- `ScriptedEngine`: an `Engine` for one episode at a time, answering from a function.
- `FakeDriver`: what an `EngineServer` steps, with made-up completions and a record of who ran beside whom.
- `LocalEngineHandle`: an `EngineServer` in this process as an episode worker sees it.
- `toy_domain`, `toy_renderer`: a domain whose world is a list of replies, and the tiny model's chat.
"""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from envs.base import Environment, StepResult
from envs.domain import Domain, Draft
from envs.types import FinishReason, Message, Routes, Task, Trajectory
from rewards.score import Score, scored
from rollouts.chat import ChatRenderer
from rollouts.engine import Completion, TurnRequest
from rollouts.engine_server import EngineServer
from train.policy.tiny import build_tokenizer

# --- engines -----------------------------------------------------------------------------------------------------

Answer = tuple[list[int], list[float], FinishReason]


class ScriptedEngine:
    """Answers each request with what `script(request)` gives; keeps every request and every release.

    Where routes are asked for, the experts of position p are p and p + 1 modulo 8, in one layer; `lost_rows` of them
    are missing at the end.
    """

    def __init__(self, script: Callable[[TurnRequest], Answer], version: int = 3, lost_rows: int = 0):
        self._script, self._version, self._lost_rows = script, version, lost_rows
        self.requests: list[TurnRequest] = []
        self.released: list[int] = []

    async def generate(self, request: TurnRequest) -> Completion:
        self.requests.append(request)
        await asyncio.sleep(0)
        ids, logprobs, reason = self._script(request)
        return Completion(
            episode=request.episode,
            turn=request.turn,
            token_ids=ids,
            logprobs=logprobs,
            versions=[self._version] * len(ids),
            finish_reason=reason,
            routes=self._routes(request, len(ids)),
        )

    def _routes(self, request: TurnRequest, num_sampled: int) -> Routes | None:
        if request.routes_from is None:
            return None
        positions = range(request.routes_from, len(request.prompt_ids) + num_sampled - 1 - self._lost_rows)
        ids = bytes(expert % 8 for position in positions for expert in (position, position + 1))
        return Routes(layers=(0,), top_k=2, width=1, ids=ids)

    def release(self, episode: int) -> None:
        self.released.append(episode)


def says(ids: Sequence[int], request: TurnRequest) -> Answer:
    """`ids` as a model would sample them under the request's budget: cut there, stopped by the first stop id."""
    stops = [position for position, token in enumerate(ids) if token in request.sampling.stop_ids]
    whole = list(ids[: stops[0] + 1]) if stops else list(ids)
    out = whole[: request.sampling.max_tokens]
    reason = FinishReason.STOP if stops and len(out) == len(whole) else FinishReason.LENGTH
    return out, [-0.01 * token for token in out], reason


@dataclass(slots=True)
class _Running:
    request: TurnRequest
    ids: list[int] = field(default_factory=list)


class FakeDriver:
    """One made-up token a step for every running turn, `length(request)` of them, from the turn's own seed.

    `admitted` is the order of admission, `company` the turns of every step: in deterministic mode both must be the
    same on every run.  `fail_at_step` (counted from 0) raises there.
    """

    def __init__(self, length: Callable[[TurnRequest], int], fail_at_step: int | None = None):
        self._length, self._fail_at_step = length, fail_at_step
        self._running: dict[tuple[int, int], _Running] = {}
        self.admitted: list[tuple[int, int]] = []
        self.company: list[tuple[tuple[int, int], ...]] = []
        self.threads: set[int] = set()

    def add(self, request: TurnRequest) -> None:
        self.threads.add(threading.get_ident())
        self.admitted.append(request.key)
        self._running[request.key] = _Running(request)

    def step(self) -> list[Completion]:
        self.threads.add(threading.get_ident())
        if len(self.company) == self._fail_at_step:
            raise RuntimeError("the fake engine broke on purpose")
        self.company.append(tuple(self._running))
        finished = []
        for key, running in list(self._running.items()):
            rng = random.Random(f"{running.request.sampling.seed}.{len(running.ids)}")
            running.ids.append(rng.randrange(14, 100))
            if len(running.ids) >= self._length(running.request):
                finished.append(self._finish(key))
        return finished

    @property
    def num_running(self) -> int:
        return len(self._running)

    def _finish(self, key: tuple[int, int]) -> Completion:
        running = self._running.pop(key)
        ids = [*running.ids[:-1], running.request.sampling.stop_ids[0]]
        return Completion(
            episode=key[0],
            turn=key[1],
            token_ids=ids,
            logprobs=[-0.5] * len(ids),
            versions=[0] * len(ids),
            finish_reason=FinishReason.STOP,
        )


class LocalEngineHandle:
    """A server in this process; `collect` waits in a thread, as it would in the actor.  Records every submit."""

    def __init__(self, server: EngineServer, longest_wait: float = 1.0):
        self._server, self._longest_wait = server, longest_wait
        self.submitted: list[tuple[list[tuple[int, int]], list[int]]] = []

    async def submit(self, client: str, requests: Sequence[TurnRequest], released: Sequence[int]) -> None:
        self.submitted.append(([request.key for request in requests], list(released)))
        self._server.submit(client, requests, released)

    async def collect(self, client: str, timeout: float) -> list[Completion]:
        return await asyncio.to_thread(self._server.collect, client, min(timeout, self._longest_wait))


# --- a world -----------------------------------------------------------------------------------------------------


class ScriptedEnvironment:
    """Gives one reply after another, then is done; closed must be called once."""

    def __init__(self, replies: Sequence[tuple[Message, ...]]):
        self._replies = list(replies)
        self.seen: list[Message] = []
        self.closed = 0

    async def reset(self) -> None:
        return None

    async def step(self, message: Message) -> StepResult:
        self.seen.append(message)
        position = len(self.seen) - 1
        if position >= len(self._replies):
            return StepResult(done=True)
        return StepResult(observation=self._replies[position])

    async def close(self) -> None:
        self.closed += 1


def toy_domain(
    *,
    environment: Callable[[Task], Environment] | None = None,
    num_replies: int = 0,
    max_turns: int = 8,
    score: Callable[[Task, Trajectory], Score] = lambda task, trajectory: scored(1.0),
) -> Domain:
    """`toy/echo`: asks `say <index>`, replies `more` that many times, gives everybody 1."""
    replies = [(Message.of("user", "more"),)] * num_replies
    return Domain(
        name="toy/echo",
        family="toy",
        generate=lambda index: Draft(prompt=(Message.of("user", f"say {index}"),), reference=str(index)),
        score=score,
        gold=lambda task, messages: Message.of("assistant", task.reference),
        environment=environment or (lambda task: ScriptedEnvironment(replies)),
        max_turns=max_turns,
        generator_id="toy/echo@1",
        verifier_id="toy@1",
        source="jointrl",
        licence="Apache-2.0",
    )


@functools.cache
def toy_renderer() -> ChatRenderer:
    """The tiny model's chat, with `<|end|>` as its only stop token."""
    tokenizer = build_tokenizer()
    return ChatRenderer(tokenizer, (tokenizer.convert_tokens_to_ids("<|end|>"),))
