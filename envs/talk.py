"""Episodes in text, turn by turn: the model acts, the world answers, until it ends.  Games, puzzles, dialogues.

In: a function that draws an opening, and one that starts a `Play` from a task.  Out: a `Domain` for each level.
Called by families of multi-turn tasks without tools.

A `Play` is a deterministic state machine of its task alone.  So the verdict needs no state: `score` plays the model's
messages again, and a gold policy is whatever the play itself would do next.  An action is the inside of the last
`<answer>…</answer>` of a message, or else its last line.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from envs.base import StepResult
from envs.domain import Domain, Draft, Margin, Policy, rng_for
from envs.identity import code_id
from envs.questions import LICENCE, PROJECT, extract_answer
from envs.skills import ALL_TIERS, level_name
from envs.types import Message, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

MAX_ACTION_CHARACTERS = 2_000  # of a longer one the play sees so much


@dataclass(frozen=True, slots=True)
class Reply:
    """What the world answers to an action: text for the model, and whether the episode is over."""

    text: str
    done: bool = False


class Play(Protocol):
    """One episode as a state machine: the same actions lead to the same state, in every process.

    - `value`: what the episode is worth as it stands, from 0 to 1; final once a reply was `done`.
    - `act(text)`: never raises on what a model can write; a move that is not allowed is told, and counted or not as
      the rules say.
    - `best()`: the next action of a policy that scores the maximum (a reference policy, where `Game.margin` is given).
    """

    value: float

    def act(self, text: str) -> Reply: ...

    def best(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Opening:
    """What `draw` makes: the rules and the first position as the model reads them, and what the play is built from.

    `facts` are JSON-able, and hold all that is random; `reference` is for people (a solution, if there is one).
    """

    text: str
    facts: Mapping[str, Any]
    reference: str = ""
    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """One kind of multi-turn task.

    - `draw(rng, **settings)`: the opening; it may use nothing random but `rng`.
    - `start(facts)`: the play.  Its class is part of the verifier's identity.
    - `turns`: at most so many messages of the model, the same at all levels, or by level.
    - `margin`: of adversarial games: by how much `best` beats `random_policy`.
    - `needs_module`: as in `Domain`.
    - `unfinished`: an episode that the turn limit or a token budget ended is worth its `value` then; False: nothing.
    """

    name: str
    draw: Callable[..., Opening]
    start: Callable[[Mapping[str, Any]], Play]
    levels: Mapping[str, Mapping[str, Any]]
    turns: int | Mapping[str, int]
    margin: float = 0.0
    random_policy: Policy | None = None
    unfinished: bool = False
    tiers: tuple[str, ...] = ALL_TIERS
    source: str = PROJECT
    licence: str = LICENCE
    needs_module: str = ""
    identity: tuple[Callable[..., Any] | str, ...] = field(default=())

    def __post_init__(self) -> None:
        if (self.margin > 0) != (self.random_policy is not None):
            raise ValueError(f"game {self.name}: a margin and a random policy belong together")


def game_domains(family: str, games: Iterable[Game]) -> list[Domain]:
    """Every game at each of its levels."""
    return [_domain(family, game, level) for game in games for level in game.levels]


def _domain(family: str, game: Game, level: str) -> Domain:
    name, settings = level_name(family, game.name, level), dict(game.levels[level])

    def generate(index: int) -> Draft:
        opening = game.draw(rng_for(name, index), **settings)
        system = (Message.of("system", opening.system),) if opening.system else ()
        return Draft(
            prompt=(*system, Message.of("user", opening.text)),
            reference=opening.reference,
            metadata=dict(opening.facts),
        )

    return Domain(
        name=name,
        family=family,
        generate=generate,
        score=functools.partial(_score, game),
        gold=functools.partial(_gold, game.start),
        margin=Margin(random=game.random_policy, points=game.margin) if game.random_policy else None,
        environment=functools.partial(TalkEnvironment, start=game.start),
        max_turns=game.turns if isinstance(game.turns, int) else game.turns[level],
        tiers=game.tiers,
        generator_id=code_id(game.draw, game.source, *game.identity),
        verifier_id=code_id(*_methods(game.start), game.source, *game.identity),
        source=game.source,
        licence=game.licence,
        needs_module=game.needs_module,
        knobs={"level": level, **settings},
    )


def _methods(start: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A class is its methods; a function is itself."""
    if not isinstance(start, type):
        return [start]
    return [method for _, method in sorted(vars(start).items()) if callable(method)]


class TalkEnvironment:
    """One episode of a `Play`; a message that calls tools is an action like any other, and there are none."""

    def __init__(self, task: Task, start: Callable[[Mapping[str, Any]], Play]):
        self._task, self._start = task, start
        self._play: Play | None = None

    async def reset(self) -> None:
        self._play = self._start(self._task.metadata)

    async def step(self, message: Message) -> StepResult:
        assert self._play is not None, f"environment of {self._task.id} was not reset, or is closed"
        reply = self._play.act(action_of(message))
        return StepResult(observation=() if reply.done else (Message.of("user", reply.text),), done=reply.done)

    async def close(self) -> None:
        self._play = None


def action_of(message: Message) -> str:
    """What a message does: the inside of its last answer tags, or else its last line that is not empty."""
    text = message.text[-4 * MAX_ACTION_CHARACTERS :]
    tagged = extract_answer(text)
    if tagged == text.strip():
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        tagged = lines[-1] if lines else ""
    return tagged[:MAX_ACTION_CHARACTERS]


def replay(start: Callable[[Mapping[str, Any]], Play], task: Task, messages: Iterable[Message]) -> Play:
    """The play after all assistant messages."""
    play = start(task.metadata)
    for message in messages:
        if message.role == "assistant" and play.act(action_of(message)).done:
            break
    return play


def _gold(start: Callable[[Mapping[str, Any]], Play], task: Task, messages: tuple[Message, ...]) -> Message:
    return Message.of("assistant", f"<answer>{replay(start, task, messages).best()}</answer>")


def _score(game: Game, task: Task, trajectory: Trajectory) -> Score:
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error or "the episode failed")
    if trajectory.status is not Status.DONE and not game.unfinished:
        return scored(0.0)
    value = replay(game.start, task, trajectory.messages).value
    return scored(value if trajectory.status is Status.DONE else min(value, 0.99))
