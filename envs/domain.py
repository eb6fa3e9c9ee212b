"""A domain is a promise: the same tasks everywhere, a verifier, and a gold policy that scores the maximum.

In: a name and an index.  Out: a `Task`, its environment, and a `Score` for what happened.
Used by `rollouts.worker`, `train.evaluate` and `python -m envs`.
"""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.util
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.base import Environment, SingleTurn
from envs.sandbox import Programs
from envs.sandbox.limits import Permissions
from envs.types import Message, Split, Task, Trajectory
from rewards.parts import Part
from rewards.score import Score

HELD_OUT_PERCENT = 20
DECLARED_SPLIT = "declared_split"  # key in a task's metadata: its split is no hash of its prompt
BARREN, BARREN_ROUNDS = 1_000, 10  # a domain of few tasks that made so many, none of them of the split, has none


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON schema (type: object).

    Example: ``ToolSpec(name="calc", description="Evaluate + - *.", parameters={"type": "object",
    "properties": {"e": {"type": "string"}}, "required": ["e"]})``
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a generator makes: a task before it has a split and an id.

    `split`: None, so that a hash of the prompt decides; else the side that a source outside of this project gave it.
    Who says so must see to it that no prompt is on both.
    """

    prompt: tuple[Message, ...]
    reference: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    split: Split | None = None


def single_turn(task: Task) -> Environment:
    return SingleTurn(task)


class NoGold(ValueError):
    """Nobody knows how to score the maximum in this domain: there are no demonstrations, and no proof that one can."""


# (task, the messages after the prompt so far) -> the next assistant message
Policy = Callable[[Task, tuple[Message, ...]], Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """What a reference policy is held to where nobody is sure to win: its mean score is `points` above `random`'s.

    `random` must be a function of its arguments alone (see `rng_for`), so that the promise is the same everywhere.
    """

    random: Policy
    points: float

    def __post_init__(self) -> None:
        if not self.points > 0:
            raise ValueError(f"a margin must be above zero, got {self.points}")


NO_PERMISSIONS = Permissions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One kind of task.  Pure data and functions; nothing here is evaluated from a string.

    - `generate(index)`: the draft with that index, the same in every process (see `rng_for`).
    - `score(task, trajectory)`: a `Score` in `score_range`; never raises on what a model can write.
    - `gold(task, messages)`: the next assistant message of a policy that scores the maximum, given the messages
      after the prompt so far.  It is also the source of demonstrations.  A world of somebody else may not tell: there
      it raises `NoGold`, and `envs.check` says so.
    - `margin`: None, except in an adversarial game, where no policy is sure of the maximum.  There `gold` is the
      reference policy, and `margin` what it must beat, and by how much.
    - `knobs`: what makes it easier or harder, at this domain's values.
    - `programs`: None, except where the model's own programs run: what those may read, write, start and use up.
      `task` tells the model in the system message; the domain runs them by `programs.run`, which enforces it.
    - `tiers`: thinking tiers that make sense for it.
    - `needs_sandbox`: tasks, tools or verdicts use the sandbox; refused in a mix where none works.  Its verdicts are
      given in a thread of their own.
    - `slow_verdict`: verdicts wait for another process, so they too are given in a thread of their own.
    - `parts`: empty, or the rewards that every score of this domain has in its `parts`: each is then normalised by
      itself before they are weighed and added for training (`rewards.parts`).  `score_range` is that of the value.
    - `needs_module`: empty, or a library of the extra `games` (pyproject.toml), without which no task can be made; such
      a domain is listed, but refused in a mix and left out of checks where the library is not installed.
    - `num_distinct`: None when unbounded, else an upper bound of distinct prompts.
    """

    name: str
    family: str
    generate: Callable[[int], Draft]
    score: Callable[[Task, Trajectory], Score]
    gold: Policy
    margin: Margin | None = None
    environment: Callable[[Task], Environment] = single_turn
    tools: tuple[ToolSpec, ...] = ()
    max_turns: int = 1
    tiers: tuple[str, ...] = ("low", "high", "max")
    score_range: tuple[float, float] = (0.0, 1.0)
    generator_id: str
    verifier_id: str
    source: str
    licence: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    programs: Programs | None = None
    needs_sandbox: bool = False
    slow_verdict: bool = False
    needs_module: str = ""
    num_distinct: int | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)

    def __post_init__(self) -> None:
        low, high = self.score_range
        if not low < high:
            raise ValueError(f"domain {self.name}: score_range {self.score_range} is empty")
        if self.name.split("/")[0] != self.family or self.name.count("/") != 1:
            raise ValueError(f"domain {self.name!r} must be named '<family>/<name>' with family {self.family!r}")
        if self.max_turns < 1 or not self.tiers:
            raise ValueError(f"domain {self.name}: it needs at least one turn and one tier")
        if not (self.source and self.licence and self.generator_id and self.verifier_id):
            raise ValueError(f"domain {self.name}: source, licence, generator_id and verifier_id may not be empty")
        if self.num_distinct is not None and self.num_distinct < 1:
            raise ValueError(f"domain {self.name}: num_distinct={self.num_distinct} must be 1 or more, or None")
        if self.programs is not None and not self.needs_sandbox:
            raise ValueError(f"domain {self.name}: it runs programs, so it must say needs_sandbox=True")

    @property
    def permissions(self) -> Permissions:
        """What the model's programs may touch; where it runs none, nothing."""
        return self.programs.permissions if self.programs else NO_PERMISSIONS

    @property
    def not_installed(self) -> str:
        """What to install before a task can be made; empty where nothing is missing."""
        if not self.needs_module or importlib.util.find_spec(self.needs_module):
            return ""
        return f"{self.name} needs {self.needs_module}: pip install 'jointrl[games]'"

    def task(self, index: int) -> Task:
        """The task with that index; its split follows from its prompt as drafted, the same on every machine."""
        draft = self.generate(index)
        split = draft.split or split_of(draft.prompt)
        declared = {DECLARED_SPLIT: draft.split} if draft.split else {}
        return Task(
            id=f"{self.name}/{split}/{index}",
            domain=self.name,
            split=split,
            index=index,
            prompt=_told(draft.prompt, self.programs),
            reference=draft.reference,
            metadata={**draft.metadata, **declared},
        )

    def tasks(self, split: Split, start: int = 0) -> Iterator[Task]:
        """All tasks of one split with index >= start, in index order (endless).

        Raises ValueError where a domain of few tasks turns out to have none on that side.
        """
        last = start - 1
        for index in itertools.count(start):
            task = self.task(index)
            if task.split == split:
                yield task
                last = index
            elif self.num_distinct is not None and index - last > BARREN + BARREN_ROUNDS * self.num_distinct:
                raise ValueError(f"domain {self.name}: none of its tasks is on the {split} side")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Domains that share a module.  `domains()` is cheap: it may not generate a task.

    `excluded` maps a name that one would expect here to the reason why it is not offered.  `about` is what its page in
    docs/domains.md begins with: a few sentences for somebody who chooses domains.
    """

    name: str
    domains: Callable[[], Iterable[Domain]]
    about: str = ""
    excluded: Mapping[str, str] = field(default_factory=dict)


def _told(prompt: tuple[Message, ...], programs: Programs | None) -> tuple[Message, ...]:
    """The prompt, its system message ending with what programs may do."""
    if programs is None:
        return prompt
    rules = f"Programs that you write run in a sandbox:\n{programs.describe()}"
    if prompt[0].role == "system":
        return (Message.of("system", f"{prompt[0].text}\n\n{rules}"), *prompt[1:])
    return (Message.of("system", rules), *prompt)


def rng_for(name: str, index: int) -> random.Random:
    """The random stream of one task: a function of domain name and index only (no global state, no hash seed)."""
    digest = hashlib.sha256(f"{name}#{index}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


def render_key(prompt: tuple[Message, ...]) -> str:
    """A canonical text of a prompt: what the split hash and the duplicate test see."""
    return json.dumps([[message.role, message.name, message.text] for message in prompt], ensure_ascii=False)


def split_of(prompt: tuple[Message, ...]) -> Split:
    """Held-out or train, by a hash of the rendered prompt: a duplicate prompt cannot cross."""
    digest = hashlib.sha256(render_key(prompt).encode("utf-8", "surrogatepass")).digest()
    return "held_out" if int.from_bytes(digest[:4], "big") % 100 < HELD_OUT_PERCENT else "train"


def side_of(task: Task) -> Split:
    """The split that a task must have, found again from what it is: where it was declared, or from its prompt."""
    declared: Split | None = task.metadata.get(DECLARED_SPLIT)
    return declared or split_of(task.prompt)


def select(names: Iterable[str], pattern: str) -> list[str]:
    """Names that match a glob (`math/*`, `*/sort`, `math`: a family name alone means all of it)."""
    pattern = pattern if "/" in pattern or "*" in pattern else f"{pattern}/*"
    return [name for name in names if fnmatch.fnmatchcase(name, pattern)]
