"""Toy work on short lists of numbers.

In: an index.  Out: prompts such as `max 37 46 12` with one canonical integer as the answer (see `envs.questions`).
Listed in `envs.families`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from envs.domain import Domain, Family
from envs.questions import question_domain


def make_next(name: str = "sequence/next", *, high: int = 99, step: int = 12, low: int = 3, most: int = 5) -> Domain:
    """`next 3 7 11 15` -> `19`: an arithmetic progression goes on."""

    def ask(rng: random.Random) -> tuple[str, str]:
        start, size = rng.randint(0, high), rng.randint(low, most)
        difference = rng.choice([-1, 1]) * rng.randint(1, step)
        numbers = [start + difference * position for position in range(size + 1)]
        return f"next {' '.join(map(str, numbers[:-1]))}", str(numbers[-1])

    return question_domain(name, ask, knobs={"high": high, "step": step, "low": low, "most": most})


def make_max(name: str = "sequence/max", *, high: int = 99, low: int = 3, most: int = 5) -> Domain:
    """`max 37 46 12` -> `46`."""
    return _make_reduction(name, "max", max, high=high, low=low, most=most)


def make_min(name: str = "sequence/min", *, high: int = 99, low: int = 3, most: int = 5) -> Domain:
    """`min 37 46 12` -> `12`."""
    return _make_reduction(name, "min", min, high=high, low=low, most=most)


def make_sum(name: str = "sequence/sum", *, high: int = 9, low: int = 3, most: int = 5) -> Domain:
    """`sum 3 4 5` -> `12`."""
    return _make_reduction(name, "sum", sum, high=high, low=low, most=most)


def _make_reduction(
    name: str, verb: str, reduce: Callable[[Iterable[int]], int], *, high: int, low: int, most: int
) -> Domain:
    def ask(rng: random.Random) -> tuple[str, str]:
        numbers = [rng.randint(0, high) for _ in range(rng.randint(low, most))]
        return f"{verb} {' '.join(map(str, numbers))}", str(reduce(numbers))

    return question_domain(name, ask, knobs={"high": high, "low": low, "most": most})


def domains() -> list[Domain]:
    return [
        make_next(),
        make_max(),
        make_min(),
        make_sum(),
        make_max("sequence/max-easy", high=19, low=2, most=3),
        make_min("sequence/min-easy", high=19, low=2, most=3),
    ]


FAMILY = Family(
    name="sequence",
    domains=domains,
    about=(
        "Toy work on short rows of numbers for the small policy of `experiment=toy`: the largest, the smallest, the "
        "sum, and how an arithmetic progression goes on. Answers are bare numbers, compared exactly."
    ),
)
