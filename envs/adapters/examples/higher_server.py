"""An OpenEnv server of one small game, as its users write them; needs `openenv-core`, which is not ours.

Run by hand: `openenv-venv/bin/python envs/adapters/examples/higher_server.py 8000`; then `higher.yaml` describes it.
"""

import random
import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class Guess(Action):
    number: int = Field(ge=0, le=99)


class Hint(Observation):
    hint: str
    sum_of_digits: int


class Higher(Environment[Guess, Hint, State]):
    """Find a number from 0 to 99; each answer says higher or lower."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._wanted = 0
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Hint:
        self._wanted = random.Random(seed).randint(0, 99)
        self._state = State(episode_id=episode_id)
        return self._hint(f"Game {seed}.", False, None)

    def step(self, action: Guess, timeout_s: float | None = None, **kwargs: Any) -> Hint:
        self._state.step_count += 1
        if action.number == self._wanted:
            return self._hint("right", True, 1.0)
        return self._hint("higher" if action.number < self._wanted else "lower", False, 0.0)

    def _hint(self, text: str, done: bool, reward: float | None) -> Hint:
        digits = self._wanted // 10 + self._wanted % 10
        return Hint(hint=text, sum_of_digits=digits, done=done, reward=reward)

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Higher, Guess, Hint, max_concurrent_envs=64)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
