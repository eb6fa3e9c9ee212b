"""How a text is counted, by the rules that every prompt of this family states.

In: text.  Out: words, sentences, paragraphs, lines.  `real` says whether a text is one about its topics at all: it is
part of every judge here, so that an empty text, one word repeated, or a text written for another task is worth 0.
Everything is linear in the length of the text, and raises on none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_WORD = 24
LEAST_DISTINCT = 55  # percent: a text that is written down twice has at most 50
_END = re.compile(r"[.!?]+")
_EDGES = re.compile(r"^[^\w]+|[^\w]+$")


def tokens(text: str) -> list[str]:
    """Words as written, with their marks: `tokens("- Hi, you!")` -> `["Hi,", "you!"]`."""
    return [token for token in text.split() if any(character.isalnum() for character in token)]


def bare(token: str) -> str:
    """A word without the marks around it, in lower case: `bare('"Hi,')` -> `"hi"`."""
    return _EDGES.sub("", token).replace("_", "").casefold() if len(token) < 1000 else token[:1000]


def words(text: str) -> list[str]:
    """`words("- Hi, you!")` -> `["hi", "you"]`."""
    return [bare(token) for token in tokens(text)]


def sentences(text: str) -> list[str]:
    """Without their ends; the last one is empty where the text stops properly: `sentences("A b. C")` -> `["A b"]`.

    What follows the last . ! or ? is no sentence; `ends_well` says whether there is anything.
    """
    return [piece.strip() for piece in _END.split(text)[:-1] if tokens(piece)]


def ends_well(text: str) -> bool:
    """The text ends with . ! or ?, up to quotation marks and brackets behind it."""
    return text.rstrip().rstrip("\"')]>").endswith((".", "!", "?"))


def paragraphs(text: str) -> list[str]:
    """Blocks that one or more empty lines part."""
    return [block.strip() for block in re.split(r"\n[ \t]*(?:\n[ \t]*)+", text.strip()) if block.strip()]


def lines(text: str) -> list[str]:
    """Lines that are not empty, without white space at their ends."""
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def letters(word: str) -> str:
    """The letters of a word: `letters("it's,")` -> `"its"`."""
    return "".join(character for character in word if character.isalpha())


def real(text: str, facts: Mapping[str, Any]) -> bool:
    """The text has the number of words that the prompt asks for, varied ones, and all topic words.

    `real("The lamp saw my hat.", {"topics": ["lamp"], "least": 4, "most": 9})` -> True.
    """
    found = words(text)
    distinct = set(found)
    return (
        facts["least"] <= len(found) <= facts["most"]
        and 100 * len(distinct) >= LEAST_DISTINCT * len(found)
        and 2 * sum(len(word) >= 3 for word in found) >= len(found)
        and max(map(len, found), default=0) <= LONGEST_WORD
        and all(topic in distinct for topic in facts["topics"])
    )


def listed(items: Sequence[str], last: str = "and") -> str:
    """`listed(["a", "b", "c"])` -> `"a, b and c"`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def counted(number: int, noun: str) -> str:
    """`counted(1, "word")` -> `"1 word"`, `counted(2, "word")` -> `"2 words"`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
