"""Toy arithmetic: terse prompts that a character-level model learns in minutes.

In: an index.  Out: prompts such as `37+46=` with canonical integers as answers (see `envs.questions`).
Listed in `envs.families`.  Each `make_*` takes the difficulty as keyword arguments and records it in `knobs`.
"""

from __future__ import annotations

import random

from envs.domain import Domain, Family
from envs.questions import question_domain


def make_add(name: str = "math/add", *, low: int = 0, high: int = 99) -> Domain:
    """`add 37+46` -> `83`."""

    def ask(rng: random.Random) -> tuple[str, str]:
        a, b = rng.randint(low, high), rng.randint(low, high)
        return f"add {a}+{b}", str(a + b)

    return question_domain(name, ask, knobs={"low": low, "high": high})


def make_subtract(name: str = "math/subtract", *, low: int = 0, high: int = 109, negative: bool = False) -> Domain:
    """`sub 83-46` -> `37`; with `negative` also differences below zero."""

    def ask(rng: random.Random) -> tuple[str, str]:
        a, b = rng.randint(low, high), rng.randint(low, high)
        if not negative:
            a, b = max(a, b), min(a, b)
        return f"sub {a}-{b}", str(a - b)

    return question_domain(name, ask, knobs={"low": low, "high": high, "negative": negative})


def make_multiply(name: str = "math/multiply", *, small: int = 9, large: int = 99) -> Domain:
    """`mul 7*34` or `mul 34*7` -> `238`.  About 1,700 distinct prompts at the default level."""

    def ask(rng: random.Random) -> tuple[str, str]:
        a, b = rng.randint(1, small), rng.randint(1, large)
        if rng.random() < 0.5:
            a, b = b, a
        return f"mul {a}*{b}", str(a * b)

    return question_domain(name, ask, knobs={"small": small, "large": large})


def make_compare(name: str = "math/compare", *, high: int = 299, close: int = 9) -> Domain:
    """`cmp 37 46` -> `<9`: the relation and the distance, so that no guess of the sign alone scores."""

    def ask(rng: random.Random) -> tuple[str, str]:
        a = rng.randint(0, high)
        b = max(0, min(high, a + rng.randint(-close, close)))
        sign = "<" if a < b else ">" if a > b else "="
        return f"cmp {a} {b}", f"{sign}{abs(a - b)}"

    return question_domain(name, ask, knobs={"high": high, "close": close})


def make_digits(name: str = "math/digits", *, low: int = 3, high: int = 4) -> Domain:
    """`digits 4821` -> `15`, the sum of the digits."""

    def ask(rng: random.Random) -> tuple[str, str]:
        size = rng.randint(low, high)
        number = rng.randint(10 ** (size - 1), 10**size - 1)
        return f"digits {number}", str(sum(map(int, str(number))))

    return question_domain(name, ask, knobs={"low": low, "high": high})


def domains() -> list[Domain]:
    return [
        make_add(),
        make_subtract(),
        make_multiply(),
        make_compare(),
        make_digits(),
        make_add("math/add-easy", high=9),
    ]


FAMILY = Family(
    name="math",
    domains=domains,
    about=(
        "Toy arithmetic for the small policy of `experiment=toy`: sums, comparisons and the like over small numbers, "
        "answered by bare numbers that are compared exactly. For problems that a grown model can learn from, see "
        "`mathematics`."
    ),
)
