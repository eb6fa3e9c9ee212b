"""Sets of numbers as unions of intervals, read exactly: `(-inf, 2] U (5, inf)`.

In: a text that a model wrote.  Out: intervals in their shortest form, or None.  Called by `judges`; spellings of
numbers and of LaTeX as in `values`.  Round brackets leave an end out, square ones take it in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from envs.families.mathematics.values import MOST_PARTS, number, plain

# Low end, high end (None: unbounded), and whether each belongs to it.
Interval = tuple[Fraction | None, Fraction | None, bool, bool]

_INTERVAL = re.compile(r"([\[(]) ?([^][(),U]{1,320}), ?([^][(),U]{1,320})([\])])")
_POINT = re.compile(r"\{ ?([^{},]{1,320})\}")


def intervals(text: str) -> list[Interval] | None:
    """A union of intervals in its shortest form: `(-inf, 2] U (5, inf)`, `{3}` for one point, `{}` for none.

    A bracket at `inf` must be round; an end is a rational number.
    """
    text = plain(text)
    if re.fullmatch(r"\{ *\}", text):
        return []
    pieces = [_interval(piece.strip()) for piece in text.split("U")]
    known = [piece for piece in pieces if piece is not None]
    return _joined(known) if len(known) == len(pieces) <= MOST_PARTS else None


def _interval(text: str) -> Interval | None:
    point = _POINT.fullmatch(text)
    if point:
        value = number(point.group(1).strip())
        return None if value is None else (value, value, True, True)
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return None
    opening, low_text, high_text, closing = match.groups()
    low_text, high_text = low_text.strip(), high_text.strip()
    low = None if low_text in ("-inf", "-infinity", "-oo") else number(low_text)
    high = None if high_text.removeprefix("+") in ("inf", "infinity", "oo") else number(high_text)
    unbounded = (low_text in ("-inf", "-infinity", "-oo"), high_text.removeprefix("+") in ("inf", "infinity", "oo"))
    has_low, has_high = opening == "[", closing == "]"
    if (low is None) != unbounded[0] or (high is None) != unbounded[1]:
        return None
    if (low is None and has_low) or (high is None and has_high):
        return None
    if low is not None and high is not None and (low > high or (low == high and not (has_low and has_high))):
        return None
    return low, high, has_low, has_high


def _joined(pieces: Sequence[Interval]) -> list[Interval]:
    """Sorted, and joined where they overlap or touch without a gap."""
    ordered = sorted(pieces, key=lambda piece: (piece[0] is not None, piece[0] or Fraction(0), not piece[2]))
    found: list[Interval] = []
    for low, high, has_low, has_high in ordered:
        if found:
            before_low, before_high, before_has_low, before_has_high = found[-1]
            if (
                before_high is None
                or low is None
                or low < before_high
                or (low == before_high and (has_low or before_has_high))
            ):
                end, has_end = _later((before_high, before_has_high), (high, has_high))
                found[-1] = (before_low, end, before_has_low, has_end)
                continue
        found.append((low, high, has_low, has_high))
    return found


def _later(first: tuple[Fraction | None, bool], second: tuple[Fraction | None, bool]) -> tuple[Fraction | None, bool]:
    """The end that lies further right."""
    if first[0] is None or second[0] is None:
        return None, False
    return max((first[0], first[1]), (second[0], second[1]))
