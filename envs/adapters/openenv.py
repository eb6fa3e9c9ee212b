"""Running OpenEnv servers as domains of several turns: the server is the world, this process its client.

In: a YAML file with `adapter: openenv`.  Out: a `Family` of one domain.  Listed in `envs.adapters`.

Index n is the server's episode with seed n (modulo `tasks`).  Its first observation is the prompt, so it is asked for
when the task is made, and again when an episode starts: a server whose two answers differ does not honour the seed, and
the trajectory is unscored.

The verdict travels where the model cannot write.  When an episode ends, the environment puts the server's rewards into
its last observation, as a message of role `tool` and name `VERDICT`; the model never sees it, and no text of the model
or of the server comes under that name.  So a score needs no server: it is a function of task and trajectory alone, also
for stored ones.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema

from envs.adapters.sessions import ActionRefused, Address, Session, SessionFailure, get_json, one_reset
from envs.adapters.settings import Settings
from envs.adapters.template import Template
from envs.base import EnvironmentFailure, StepResult
from envs.domain import Domain, Draft, Family, NoGold
from envs.identity import code_id
from envs.talk import action_of
from envs.types import Message, Split, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

VERDICT = "openenv-verdict"
MAX_OBSERVATION = 20_000  # characters of an observation that the model sees
MAX_DEPTH = 50  # of an action's JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the file says, checked."""

    address: Address
    options: Mapping[str, Any]
    observation: Template | None
    prompt: Template
    action_field: str
    schema: Mapping[str, Any]
    reward: str
    low: float
    high: float
    turns: int
    tasks: int
    by_seed: bool
    gold: Template | None


def family(settings: Settings) -> Family:
    """Asks the server for its schema: one that does not run, or speaks otherwise, is refused here."""
    address = Address.checked(
        settings,
        settings.text("url"),
        settings.flag("allow_remote", False),
        settings.number("seconds", 30.0, least=0.1),
        settings.integer("retries", 2),
    )
    try:
        schema, about = get_json(address, "/schema"), get_json(address, "/metadata")
    except SessionFailure as problem:
        raise settings.wrong("url", f"{problem}; start the server, or correct the url") from problem
    if not isinstance(schema.get("action"), dict):
        raise settings.wrong("url", f"GET {address.url}/schema has no schema of actions: {str(schema)[:200]}")
    world = _world(settings, address, schema["action"])
    name, source = settings.text("domain", "all"), settings.text("source", f"OpenEnv {about.get('name', address.url)}")
    tiers, licence = settings.tiers(), settings.licence()
    settings.finish()
    _first_prompt(settings, world)
    identity = (source, str(about.get("version")), json.dumps(schema, sort_keys=True))
    domain = Domain(
        name=f"{settings.family}/{name}",
        family=settings.family,
        generate=functools.partial(_generate, world),
        score=functools.partial(_score, world),
        gold=functools.partial(_gold, world),
        environment=functools.partial(ServerEnvironment, world=world),
        max_turns=world.turns,
        tiers=tiers,
        score_range=(world.low, world.high),
        generator_id=code_id("openenv", *identity),
        verifier_id=code_id("openenv", *identity),
        source=source,
        licence=licence,
        knobs={"tasks": world.tasks, "turns": world.turns},
        num_distinct=world.tasks,
    )
    text = f"{about.get('description') or source}: a running OpenEnv server, by the file {settings.path.name}."
    return Family(name=settings.family, domains=lambda: [domain], about=text)


def _world(settings: Settings, address: Address, schema: Mapping[str, Any]) -> World:
    field = settings.text("action_field", "")
    properties = schema.get("properties", {})
    if field and field not in properties:
        raise settings.wrong("action_field", f"actions have no {field!r}; they have {', '.join(sorted(properties))}")
    low, high = settings.number("low", 0.0), settings.number("high", 1.0)
    if not low < high:
        raise settings.wrong("low", f"the range from low={low:g} to high={high:g} is empty")
    return World(
        address=address,
        options=settings.mapping("reset"),
        observation=_template(settings, "observation") if settings.has("observation") else None,
        prompt=_template(settings, "prompt"),
        action_field=field,
        schema=schema,
        reward=settings.choice("reward", ["last", "sum"]),
        low=low,
        high=high,
        turns=settings.integer("turns", least=1),
        tasks=settings.integer("tasks", least=1),
        by_seed=settings.choice("split_by", ["prompt", "seed"], "prompt") == "seed",
        gold=None if settings.text("gold", "none") == "none" else _template(settings, "gold"),
    )


def _template(settings: Settings, key: str) -> Template:
    text = settings.text(key)
    try:
        return Template(text)
    except ValueError as problem:
        raise settings.wrong(key, str(problem)) from problem


def _first_prompt(settings: Settings, world: World) -> None:
    """One task is made at once, so that a template which does not fit is told with its key."""
    try:
        _generate(world, 0)
    except EnvironmentFailure as problem:
        raise settings.wrong("prompt", str(problem)) from problem


# ---- tasks -----------------------------------------------------------------------------------------------------------


def _reset_data(world: World, index: int) -> dict[str, Any]:
    return {**world.options, "seed": index % world.tasks}


def _generate(world: World, index: int) -> Draft:
    try:
        answer = one_reset(world.address, _reset_data(world, index))
    except SessionFailure as problem:
        raise EnvironmentFailure(f"task {index}: {problem}") from problem
    text = _prompt_text(world, answer)
    side: Split = "held_out" if (index % world.tasks) % 5 == 4 else "train"
    return Draft(
        prompt=(Message.of("user", text),),
        reference=answer["observation"],
        metadata={"seed": index % world.tasks},
        split=side if world.by_seed else None,
    )


def _prompt_text(world: World, answer: Mapping[str, Any]) -> str:
    """The prompt's fields are those of the observation, and `observation` for its text."""
    return _filled(world.prompt, {**answer["observation"], "observation": _observed(world, answer)})


def _observed(world: World, answer: Mapping[str, Any]) -> str:
    if world.observation is None:
        return json.dumps(answer["observation"], ensure_ascii=False, sort_keys=True)[:MAX_OBSERVATION]
    return _filled(world.observation, answer["observation"])


def _filled(template: Template, values: Mapping[str, Any]) -> str:
    try:
        return template.fill(values)[:MAX_OBSERVATION]
    except KeyError as problem:
        known = ", ".join(sorted(values))
        raise EnvironmentFailure(f"the observation has no {problem}; it has {known}") from problem
    except ValueError as problem:
        raise EnvironmentFailure(f"the observation's {problem}") from problem


def _gold(world: World, task: Task, messages: tuple[Message, ...]) -> Message:
    """The same action in every turn, made of the first observation: where that wins, as in a puzzle of one answer."""
    if world.gold is None:
        raise NoGold(f"{task.domain} is an OpenEnv server, and its file says `gold: none`")
    return Message.of("assistant", _filled(world.gold, task.reference))


# ---- episodes --------------------------------------------------------------------------------------------------------


class ServerEnvironment:
    """One session of the server."""

    def __init__(self, task: Task, world: World):
        self._task, self._world = task, world
        self._session: Session | None = None
        self._rewards: list[float] = []
        self._turn = 0

    async def reset(self) -> None:
        self._session = Session(self._world.address)
        try:
            await self._session.open()
            answer = await self._session.reset(_reset_data(self._world, self._task.index))
        except SessionFailure as problem:
            raise EnvironmentFailure(str(problem)) from problem
        if _prompt_text(self._world, answer) != self._task.prompt[-1].text:
            raise EnvironmentFailure(f"{self._task.id}: the server's seed does not give the same first observation")
        if answer["done"]:
            raise EnvironmentFailure(f"{self._task.id}: the server's episode is over before it starts")

    async def step(self, message: Message) -> StepResult:
        assert self._session is not None, f"environment of {self._task.id} was not reset, or is closed"
        self._turn += 1
        try:
            action = read_action(action_of(message), self._world)
            answer = await self._session.step(action)
        except (ValueError, ActionRefused) as problem:
            # The model's own mistake: it is told, and costs a turn.
            return self._told(f"error: {problem}", self._turn >= self._world.turns)
        except SessionFailure as problem:
            raise EnvironmentFailure(str(problem)) from problem
        self._rewards.append(_reward(answer["reward"]))
        done = answer["done"] or self._turn >= self._world.turns
        return self._told("" if done else _observed(self._world, answer), done)

    def _told(self, text: str, done: bool) -> StepResult:
        """The verdict is the last observation of an episode: nothing of it is ever in a prompt."""
        if done:
            verdict = json.dumps({"rewards": self._rewards})
            return StepResult(observation=(Message.of("tool", verdict, name=VERDICT),), done=True)
        return StepResult(observation=(Message.of("user", text or "(empty)"),))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _reward(value: Any) -> float:
    """None is no reward in this step; true and false are 1 and 0."""
    if value is None:
        return 0.0
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise EnvironmentFailure(f"the server gave the reward {value!r}")
    return float(value)


def read_action(text: str, world: World) -> dict[str, Any]:
    """The action that a text means.  ValueError, in words for the model, where it is none."""
    if world.action_field:
        action: Any = {world.action_field: _typed(text, world.schema["properties"][world.action_field])}
    else:
        action = _parsed(text)
    if not isinstance(action, dict):
        raise ValueError("an action is a JSON object")
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(dict(world.schema)).iter_errors(action))
    if error is not None:
        raise ValueError(f"this is no action: {error.message[:300]}")
    return action


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """A text field takes the text as it is; any other is read as JSON."""
    return text if schema.get("type", "string") == "string" else _parsed(text)


def _parsed(text: str) -> Any:
    if text.count("{") + text.count("[") > MAX_DEPTH:
        raise ValueError(f"an action has at most {MAX_DEPTH} brackets")
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as problem:
        raise ValueError(f"this is no JSON: {problem.msg} at character {problem.pos}") from problem
    except ValueError as problem:
        raise ValueError(f"this is no JSON: {str(problem)[:100]}") from problem


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number")


# ---- the verdict -----------------------------------------------------------------------------------------------------


def _score(world: World, task: Task, trajectory: Trajectory) -> Score:
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error or "the episode failed")
    if trajectory.status is not Status.DONE:
        return scored(world.low)
    rewards = _recorded(trajectory.turns[-1].observation)
    if rewards is None:
        return unscored("the episode has no verdict of the server")
    value = sum(rewards) if world.reward == "sum" else (rewards[-1] if rewards else 0.0)
    if not world.low - 1e-6 <= value <= world.high + 1e-6:
        return unscored(f"the server's reward {value} is outside of [{world.low:g}, {world.high:g}]; set low and high")
    return scored(min(max(value, world.low), world.high))


def _recorded(observation: Sequence[Message]) -> list[float] | None:
    """Only what the environment itself put there counts: an observation, never a message of the model."""
    if len(observation) != 1 or (observation[0].role, observation[0].name) != ("tool", VERDICT):
        return None
    return [float(reward) for reward in json.loads(observation[0].text)["rewards"]]
