"""What one trajectory is worth, or why nobody can say.

In: the verdict of a domain's scorer.  Out: a `Score` beside each trajectory of a group.
Called by the scorers in `envs/`; read by `rewards.normalise` and `rewards.advantages`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Score:
    """A verdict.  Exactly one of `value` and `reason` is set.

    `unscored` means that the *infrastructure* failed (sandbox down, verifier crashed): such a
    trajectory is retried, then left out of baseline and loss.  A failure that the model can cause is
    a real score, usually the lowest of the domain's declared range.

    Example::

        scored(1.0, parts={"correct": 1.0, "format": 1.0})
        unscored("sandbox: no free slot after 30 s")
    """

    value: float | None
    reason: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    turns: tuple[float, ...] = ()

    @property
    def is_scored(self) -> bool:
        return self.value is not None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason == ""):
            raise ValueError("a Score has either a value or a reason for having none")
        numbers = [*self.parts.values(), *self.turns]
        if self.value is not None:
            numbers.append(self.value)
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(f"a score must be finite, got {self.value} with parts {dict(self.parts)}")


def scored(value: float, parts: Mapping[str, float] | None = None, turns: tuple[float, ...] = ()) -> Score:
    """A verdict of `value` (in the domain's declared range), with its parts and per-turn scores."""
    return Score(value=float(value), parts=dict(parts or {}), turns=tuple(turns))


def unscored(reason: str) -> Score:
    """No verdict, because something other than the model failed; `reason` is counted and logged."""
    return Score(value=None, reason=reason or "unknown")
