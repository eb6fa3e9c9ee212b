"""The verifiers that a config file can name: one visible table of ways to compare an answer with the right one.

In: what a model wrote, the reference, and facts of the task.  Out: whether it counts.  Called by `envs.adapters.rows`.
All take time linear in the answer's length, none evaluates it, and none raises on what a model can write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from envs.skills import Judge
from envs.types import Task

MAX_NUMBER_CHARACTERS = 100
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
_RATIO = re.compile(r"([+-]?[0-9]+)/([0-9]+)")


def as_number(text: str) -> Fraction | None:
    """`"1,234"`, `"-0.50"`, `".5"` or `"3/4"`, exactly; None for anything else."""
    text = text.strip()
    if len(text) > MAX_NUMBER_CHARACTERS:
        return None
    if _GROUPED.fullmatch(text):
        return Fraction(text.replace(",", ""))
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    ratio = _RATIO.fullmatch(text)
    if ratio and int(ratio[2]):
        return Fraction(int(ratio[1]), int(ratio[2]))
    return None


def exact(answer: str, task: Task) -> float:
    """The reference, up to white space around it."""
    return float(answer.strip() == task.reference.strip())


def words(answer: str, task: Task) -> float:
    """The reference, up to case and to the amount of white space."""
    return float(answer.casefold().split() == task.reference.casefold().split())


def integer(answer: str, task: Task) -> float:
    """The same whole number; `1,234` is 1234, `7.0` is none."""
    return float("." not in answer and "/" not in answer and _same_number(answer, task))


def number(answer: str, task: Task) -> float:
    """The same number, as a decimal or a ratio; within `tolerance` times the reference, where the file gives one."""
    return float(_same_number(answer, task))


def _same_number(answer: str, task: Task) -> bool:
    found, wanted = as_number(answer), as_number(task.reference)
    if found is None or wanted is None:
        return False
    return abs(found - wanted) <= Fraction(task.metadata.get("tolerance", 0)) * abs(wanted)


def choice(answer: str, task: Task) -> float:
    """The letter of the right choice: `B`, also as `(b)`, `B.` or `B)`."""
    return float(_letter(answer) == _letter(task.reference) != "")


def _letter(text: str) -> str:
    bare = text.strip().removeprefix("(").rstrip(".):").strip()
    return bare.upper() if len(bare) == 1 and bare.isascii() and bare.isalpha() else ""


def json_value(answer: str, task: Task) -> float:
    """The same JSON value: order of keys and white space do not count, 1.0 is 1, true is not 1."""
    found = canonical_json(answer)
    return float(found is not None and found == canonical_json(task.reference))


def canonical_json(text: str) -> str | None:
    """One spelling a value; None where the text is no strict JSON."""
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique, parse_float=_plain_float)
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (ValueError, RecursionError):  # also integers beyond Python's limit of digits
        return None


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _plain_float(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def members(answer: str, task: Task) -> float:
    """The same items between commas, in any order and in any case, each as often."""
    return float(_items(answer) == _items(task.reference) != [])


def _items(text: str) -> list[str]:
    return sorted(" ".join(item.casefold().split()) for item in text.split(",")) if text.strip() else []


# Spellings of LaTeX that mean nothing, and what remains of them.
_SPELLINGS = (
    (re.compile(r"\\(?:left|right|displaystyle|,|;|!|:| )"), ""),
    (re.compile(r"\\[dt]frac"), r"\\frac"),
    (re.compile(r"\\(?:text|mathrm|mbox) ?\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\frac ?([0-9]) ?([0-9])(?![0-9])"), r"\\frac{\1}{\2}"),
    (re.compile(r"(-?)\\frac ?\{(-?[0-9]+)\} ?\{([0-9]+)\}"), r"\1\2/\3"),
    (re.compile(r"\\(?:cdot|times)"), "*"),
    (re.compile(r"\^\{([^{}])\}"), r"^\1"),
)


def math(answer: str, task: Task) -> float:
    """The same number, or the same formula up to the spelling of its LaTeX; this is no algebra: `x+1` is not `1+x`."""
    left, right = plain_formula(answer), plain_formula(task.reference)
    found, wanted = as_number(left), as_number(right)
    if found is not None and wanted is not None:
        return float(found == wanted)
    return float(left == right != "")


def plain_formula(text: str) -> str:
    text = text.strip().removesuffix(".").strip()
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("\\boxed{", "}")):
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing):
            text = text[len(opening) : -len(closing)].strip()
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    return "".join(text.split()).removesuffix("\\%").removesuffix("%").removeprefix("\\$")


JUDGES: Mapping[str, Judge] = {
    "choice": choice,
    "exact": exact,
    "integer": integer,
    "json": json_value,
    "math": math,
    "number": number,
    "set": members,
    "words": words,
}


# ---- the right answer in a column of longer text ---------------------------------------------------------------------

Extract = Callable[[str], str]


def after(mark: str) -> Extract:
    """What follows the last `mark`, as in `… #### 42`; ValueError where there is none."""

    def extract(text: str) -> str:
        _, found, rest = text.rpartition(mark)
        if not found:
            raise ValueError(f"it has no {mark!r} to extract an answer after")
        return rest.strip()

    return extract


def boxed(text: str) -> str:
    """The inside of the last `\\boxed{…}`, braces inside of it included; ValueError where there is none."""
    start = text.rfind("\\boxed{")
    depth = 0
    for place in range(start + len("\\boxed"), len(text) if start >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : place].strip()
    raise ValueError("it has no \\boxed{…} to extract an answer from")


def whole(text: str) -> str:
    """The column itself, without white space around it."""
    return text.strip()
