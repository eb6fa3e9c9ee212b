"""Toy string work on short made-up words.

In: an index.  Out: prompts such as `rev tabix` with a short text as the answer (see `envs.questions`).
Listed in `envs.families`.  `low` and `high` bound the number of letters.
"""

from __future__ import annotations

import random
import string

from envs.domain import Domain, Family
from envs.questions import question_domain

LETTERS = string.ascii_lowercase


def make_reverse(name: str = "text/reverse", *, low: int = 3, high: int = 5) -> Domain:
    """`rev tabx` -> `xbat`."""

    def ask(rng: random.Random) -> tuple[str, str]:
        word = _word(rng, low, high)
        return f"rev {word}", word[::-1]

    return question_domain(name, ask, knobs={"low": low, "high": high})


def make_sort(name: str = "text/sort", *, low: int = 3, high: int = 5) -> Domain:
    """`sort tabx` -> `abtx`."""

    def ask(rng: random.Random) -> tuple[str, str]:
        word = _word(rng, low, high)
        return f"sort {word}", "".join(sorted(word))

    return question_domain(name, ask, knobs={"low": low, "high": high})


def make_count(name: str = "text/count", *, size: int = 7, most: int = 5) -> Domain:
    """`count a in banaxca` -> `3`; every count from 1 to `most` is equally likely."""

    def ask(rng: random.Random) -> tuple[str, str]:
        letter = rng.choice(LETTERS)
        count = rng.randint(1, most)
        others = [rng.choice(LETTERS.replace(letter, "")) for _ in range(size - count)]
        letters = [letter] * count + others
        rng.shuffle(letters)
        return f"count {letter} in {''.join(letters)}", str(count)

    return question_domain(name, ask, knobs={"size": size, "most": most})


def make_last(name: str = "text/last", *, low: int = 4, high: int = 7, most: int = 3) -> Domain:
    """`last 2 of plomk` -> `mk`."""

    def ask(rng: random.Random) -> tuple[str, str]:
        word, count = _word(rng, low, high), rng.randint(1, most)
        return f"last {count} of {word}", word[-count:]

    return question_domain(name, ask, knobs={"low": low, "high": high, "most": most})


def make_upper(name: str = "text/upper", *, low: int = 3, high: int = 6) -> Domain:
    """`upper tabx` -> `TABX`."""

    def ask(rng: random.Random) -> tuple[str, str]:
        word = _word(rng, low, high)
        return f"upper {word}", word.upper()

    return question_domain(name, ask, knobs={"low": low, "high": high})


def make_dedupe(name: str = "text/dedupe", *, distinct: int = 4, most: int = 7) -> Domain:
    """`dedupe aabccd` -> `abcd`: runs of one letter become one letter."""

    def ask(rng: random.Random) -> tuple[str, str]:
        letters = rng.sample(LETTERS, distinct)
        extra = rng.choices(letters, k=rng.randint(1, most - distinct))
        word = "".join(letter * (1 + extra.count(letter)) for letter in letters)
        return f"dedupe {word}", "".join(letters)

    return question_domain(name, ask, knobs={"distinct": distinct, "most": most})


def _word(rng: random.Random, low: int, high: int) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randint(low, high)))


def domains() -> list[Domain]:
    return [
        make_reverse(),
        make_sort(),
        make_count(),
        make_last(),
        make_upper(),
        make_dedupe(),
        make_reverse("text/reverse-easy", low=2, high=3),
        make_sort("text/sort-easy", low=2, high=3),
        make_last("text/last-easy", low=3, high=4, most=2),
        make_upper("text/upper-easy", low=3, high=4),
        make_dedupe("text/dedupe-easy", distinct=3, most=4),
    ]


FAMILY = Family(
    name="text",
    domains=domains,
    about=(
        "Toy work on short words for the small policy of `experiment=toy`: sort, reverse, upper case, count, drop "
        "repeated letters. Answers are compared exactly."
    ),
)
