"""Toy logic.  Several small questions in one prompt, so that no constant answer pays.

In: an index.  Out: prompts such as `eval T&!F F|F` with one letter per part as the answer (see `envs.questions`).
Listed in `envs.families`.
"""

from __future__ import annotations

import random

from envs.domain import Domain, Family
from envs.questions import question_domain


def make_and_or(name: str = "logic/and_or", *, parts: int = 3) -> Domain:
    """`eval T&!F F|F !F&T` -> `TFT`: the value of each expression."""

    def ask(rng: random.Random) -> tuple[str, str]:
        expressions = [_expression(rng) for _ in range(parts)]
        return f"eval {' '.join(text for text, _ in expressions)}", "".join("FT"[value] for _, value in expressions)

    return question_domain(name, ask, knobs={"parts": parts})


def make_parity(name: str = "logic/parity", *, parts: int = 4, high: int = 99) -> Domain:
    """`parity 12 7 34 5` -> `eoeo`: even or odd, number by number."""

    def ask(rng: random.Random) -> tuple[str, str]:
        numbers = [rng.randint(0, high) for _ in range(parts)]
        return f"parity {' '.join(map(str, numbers))}", "".join("eo"[number % 2] for number in numbers)

    return question_domain(name, ask, knobs={"parts": parts, "high": high})


def _expression(rng: random.Random) -> tuple[str, bool]:
    left, right = _literal(rng), _literal(rng)
    if rng.random() < 0.5:
        return f"{left[0]}&{right[0]}", left[1] and right[1]
    return f"{left[0]}|{right[0]}", left[1] or right[1]


def _literal(rng: random.Random) -> tuple[str, bool]:
    value, negated = rng.random() < 0.5, rng.random() < 0.3
    return ("!" if negated else "") + "FT"[value], value != negated


def domains() -> list[Domain]:
    return [
        make_and_or(),
        make_parity(),
        make_and_or("logic/and_or-easy", parts=2),
        make_parity("logic/parity-easy", parts=3, high=99),
    ]


FAMILY = Family(
    name="logic",
    domains=domains,
    about=(
        "Toy logic for the small policy of `experiment=toy`: truth values of short expressions, even or odd, number "
        "by number. Several small questions stand in one prompt, so that no constant answer pays; the answer is one "
        "letter each, compared exactly. For logic that a grown model can learn from, see `reasoning_gym`."
    ),
)
