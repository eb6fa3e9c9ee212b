"""Skills: kinds of question at three levels, and what the answer to one is worth.

In: a function that writes a question from a random stream, a judge, and the settings of each level.  Out: a `Domain`
for each level: `family/name-easy`, `family/name` (medium), `family/name-hard`.  Called by families of single-turn
tasks.

A skill is what makes a domain another one: its `ask` and its `judge` are code of their own (`envs.identity`), and its
levels share both.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.domain import Domain, Draft, rng_for
from envs.identity import code_id
from envs.questions import LICENCE, PROJECT, extract_answer, final_answer
from envs.sandbox import Programs, SandboxDown, SandboxFailed, SandboxTimeout
from envs.types import Message, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

INSTRUCTION = "Put only the final answer between <answer> and </answer>."
ALL_TIERS = ("low", "high", "max")
SHORT_TIERS = ("low",)  # where there is nothing to think about
SPARE_CHARACTERS = 2_000  # an answer may be so much longer than twice the gold one; a judge never sees a longer one


@dataclass(frozen=True, slots=True)
class Question:
    """What `ask` makes.

    - `text`: the question, without the sentence on answer tags.
    - `answer`: an answer that the judge gives the maximum.
    - `facts`: what the judge needs besides, JSON-able; it becomes the task's `metadata`.
    - `system`: text of a system message; empty for none.
    """

    text: str
    answer: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""


Ask = Callable[..., Question]  # (rng, **settings of the level)
Judge = Callable[[str, Task], float]  # (answer, task) -> from 0 to 1; never raises on what a model can write


def exactly(answer: str, task: Task) -> float:
    """One right spelling: the reference, up to white space around it."""
    return float(answer == task.reference)


def same_words(answer: str, task: Task) -> float:
    """The reference up to case and to the amount of white space."""
    return float(answer.casefold().split() == task.reference.casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One kind of question.

    - `ask(rng, **settings)`: the question; it may use nothing random but `rng`.
    - `judge(answer, task)`: what an answer is worth, from 0 to 1.  It may raise `SandboxError`.
    - `levels`: settings of `easy`, `medium`, `hard` (or only some of them).
    - `tagged`: the answer stands between tags, and the prompt says so; False: the whole final text is the answer.
    - `programs`, `needs_sandbox`, `tiers`, `source`, `licence`: as in `Domain`.
    """

    name: str
    ask: Ask
    levels: Mapping[str, Mapping[str, Any]]
    judge: Judge = exactly
    tagged: bool = True
    tiers: tuple[str, ...] = ALL_TIERS
    programs: Programs | None = None
    needs_sandbox: bool = False
    num_distinct: int | None = None
    source: str = PROJECT
    licence: str = LICENCE


def level_name(family: str, skill: str, level: str) -> str:
    """`("math", "add", "easy")` -> `math/add-easy`; the medium level has the skill's own name."""
    return f"{family}/{skill}" + ("" if level == "medium" else f"-{level}")


def skill_domains(family: str, skills: Iterable[Skill]) -> list[Domain]:
    """Every skill at each of its levels."""
    return [_domain(family, skill, level) for skill in skills for level in skill.levels]


def _domain(family: str, skill: Skill, level: str) -> Domain:
    name, settings = level_name(family, skill.name, level), dict(skill.levels[level])

    def generate(index: int) -> Draft:
        question = skill.ask(rng_for(name, index), **settings)
        text = f"{question.text}\n\n{INSTRUCTION}" if skill.tagged else question.text
        system = (Message.of("system", question.system),) if question.system else ()
        return Draft(
            prompt=(*system, Message.of("user", text)), reference=question.answer, metadata=dict(question.facts)
        )

    return Domain(
        name=name,
        family=family,
        generate=generate,
        score=functools.partial(_score, skill),
        gold=functools.partial(_gold, skill.tagged),
        tiers=skill.tiers,
        generator_id=code_id(skill.ask, skill.source),
        verifier_id=code_id(skill.judge),
        source=skill.source,
        licence=skill.licence,
        knobs={"level": level, **settings},
        programs=skill.programs,
        needs_sandbox=skill.needs_sandbox or skill.programs is not None,
        num_distinct=skill.num_distinct,
    )


def _gold(tagged: bool, task: Task, messages: tuple[Message, ...]) -> Message:
    return Message.of("assistant", f"<answer>{task.reference}</answer>" if tagged else task.reference)


def _score(skill: Skill, task: Task, trajectory: Trajectory) -> Score:
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error or "the episode failed")
    text = final_answer(trajectory)
    if text is None:
        return scored(0.0)
    answer = extract_answer(text) if skill.tagged else text
    if len(answer) > 2 * len(task.reference) + SPARE_CHARACTERS:
        return scored(0.0)
    try:
        return scored(skill.judge(answer, task))
    except SandboxDown as problem:
        return unscored(str(problem))
    except (SandboxTimeout, SandboxFailed) as problem:
        # What kills the judge is no answer, except the gold one: then the machine was too slow or too small.
        return unscored(f"no verdict on the gold answer: {problem}") if answer == task.reference else scored(0.0)


def sampled(rng: random.Random, low: int, high: int, count: int) -> list[int]:
    """`count` different numbers from low to high, in random order."""
    return rng.sample(range(low, high + 1), count)
