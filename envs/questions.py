"""Short questions with one exact answer: the shape of every toy domain.

In: a function that writes a question and its answer from a random stream.  Out: a `Domain`.
Called by the toy families; `exact_score` and `final_answer` also by families with longer episodes.

Decision on spelling: an answer has exactly one right spelling, the canonical one.  For numbers that is the shortest
decimal (`7`, `-12`), so `07`, `+7`, `7.0` and `-0` are wrong: a verifier that takes many spellings lets a policy drift
to longer ones at no cost.  White space around the answer is ignored; reasoning is never looked at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from envs.domain import Domain, Draft, rng_for
from envs.identity import code_id
from envs.types import Message, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

PROJECT = "jointrl"
LICENCE = "Apache-2.0"
Ask = Callable[[random.Random], tuple[str, str]]


def question_domain(
    name: str,
    ask: Ask,
    *,
    knobs: Mapping[str, Any],
) -> Domain:
    """A single-turn domain from `ask(rng) -> (question, answer)`.

    Example: ``question_domain("math/double", lambda rng: ("double 4", "8"), knobs={})``
    """

    def generate(index: int) -> Draft:
        question, answer = ask(rng_for(name, index))
        return Draft(prompt=(Message.of("user", question),), reference=answer)

    return Domain(
        name=name,
        family=name.split("/")[0],
        generate=generate,
        score=exact_score,
        gold=reference_gold,
        generator_id=code_id(ask),
        verifier_id=code_id(exact_score),
        source=PROJECT,
        licence=LICENCE,
        knobs=dict(knobs),
    )


def reference_gold(task: Task, messages: tuple[Message, ...]) -> Message:
    """The gold policy of a single-turn task whose reference is the answer's text."""
    return Message.of("assistant", task.reference)


def final_answer(trajectory: Trajectory) -> str | None:
    """The stripped final text, or None where the episode did not come to an answer of its own.

    A text that a token budget or the turn limit cut off is no answer, even where it happens to be the right one.
    """
    return trajectory.final_text.strip() if trajectory.status is Status.DONE else None


def extract_answer(text: str) -> str:
    """The inside of the last `<answer>…</answer>`, or else the whole text; stripped.  Linear in the text's length."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    return (text[start + len("<answer>") : end] if start >= 0 else text).strip()


def exact_score(task: Task, trajectory: Trajectory) -> Score:
    """1.0 where the final text is the reference, else 0.0; unscored where the infrastructure failed."""
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error or "the episode failed")
    return scored(float(final_answer(trajectory) == task.reference))
