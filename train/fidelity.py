"""The fidelity alarm: do engine and trainer still compute the same policy?

In: each step's sum and count of |log p_engine − log p_trainer| over own-version tokens.  Out: a rolling mean, and
`FidelityAlarm` where it exceeds the bound.  Pure; called by `train.loop`, its state is in the checkpoint.
"""

from __future__ import annotations

from collections import deque
from typing import Any

GROSS = 4.0  # a single step beyond so many times the bound needs no second look


class FidelityAlarm(Exception):
    """Engine and trainer have drifted apart; the text lists what usually causes it."""


class Fidelity:
    """A rolling mean over `window` steps of the mean absolute log-prob difference, in nats.

    One matched step can be noisy, so the bound holds for a full window; what is far beyond it is refused at once.
    """

    def __init__(self, *, alarm: float, window: int):
        self.alarm, self.window = alarm, window
        self._steps: deque[tuple[float, float]] = deque(maxlen=window)

    @property
    def mean(self) -> float:
        """Mean over the window's tokens (0 before the first step)."""
        count = sum(count for _, count in self._steps)
        return sum(total for total, _ in self._steps) / count if count else 0.0

    def observe(self, absolute_sum: float, count: float) -> float:
        """Take in one step; returns the rolling mean.  Raises FidelityAlarm."""
        self._steps.append((absolute_sum, count))
        latest = absolute_sum / count if count else 0.0
        if latest > GROSS * self.alarm:
            raise FidelityAlarm(_explain(latest, self.alarm, "in this step"))
        if len(self._steps) == self.window and self.mean > self.alarm:
            raise FidelityAlarm(_explain(self.mean, self.alarm, f"over the last {self.window} steps"))
        return self.mean

    def state_dict(self) -> dict[str, Any]:
        return {"steps": [list(step) for step in self._steps]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = deque(((total, count) for total, count in state["steps"]), maxlen=self.window)


def _explain(mean: float, alarm: float, when: str) -> str:
    return (
        f"mean |log p_engine - log p_trainer| is {mean:.4f} nats {when}, the alarm is at {alarm:.4f} "
        "(fidelity.alarm).\nLikely causes: the trainer computes on unquantised experts while the engine serves MXFP4 "
        "(quant.trainer); engine and loss use different temperatures or log-prob modes;\n"
        "a weight update that was lost or loaded wrongly; another model, tokenizer or dtype on one of the two sides."
    )
