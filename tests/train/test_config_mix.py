"""The config of the mix: what cannot work, or would be ignored, is named with its key and its remedy."""

from __future__ import annotations

from typing import Any

import pytest

from train.config_mix import AdaptiveConfig, CurriculumConfig, MixConfig

ADAPTIVE: dict[str, Any] = {"signal": "none", "bound": 0.0, "rate": 0.0, "reward_weight": 0.0}
CURRICULUM: dict[str, Any] = {"focus": 0.0, "up": 0.0, "down": 0.0, "groups": 0}
OFF: dict[str, Any] = {
    "tiers": {"low": 1.0},
    "size_temperature": 0.0,
    "size_largest": 0,
    "pass_on": False,
    "refill_share": 0.25,
    "balance": "groups",
    "balance_bound": 0.0,
    "update_every": 0,
    "retire_after": 0,
    "fit_tasks": 0,
    "show": False,
}


def mix(adaptive: dict[str, Any] | None = None, curriculum: dict[str, Any] | None = None, **more: Any) -> MixConfig:
    return MixConfig(
        adaptive=AdaptiveConfig(**{**ADAPTIVE, **(adaptive or {})}),
        curriculum=CurriculumConfig(**{**CURRICULUM, **(curriculum or {})}),
        **{**OFF, **more},
    )


def test_what_works() -> None:
    assert not mix().is_moving
    assert mix({"signal": "learnability", "bound": 3.0}, update_every=4).is_moving
    assert mix({"signal": "improvement", "bound": 3.0, "rate": 1.0}, update_every=4).is_moving
    assert mix(None, {"focus": 0.5, "up": 0.8, "down": 0.2, "groups": 8}, update_every=1).is_moving
    assert mix(balance="tokens", balance_bound=4.0, update_every=1).is_moving
    assert not mix(levels={"easy": 1.0}, size_temperature=2.0, size_largest=1000).is_moving


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"levels": {"easy": -1.0}}, r"mix.levels.easy=-1.0 must be 0 or more"),
        ({"size_temperature": 2.0}, r"mix.size_temperature=2.0 .*mix.levels given"),
        ({"size_temperature": 2.0, "levels": {"easy": 1.0}}, r"mix.size_largest=0 must be greater than zero"),
        ({"size_largest": 9}, r"mix.size_largest=9 is not read with mix.size_temperature=0"),
        ({"refill_share": 0.8}, r"mix.refill_share=0.8 must be between 0 and 0.75"),
        ({"balance": "words"}, r"mix.balance='words' is not one of groups, tokens"),
        ({"balance_bound": 2.0}, r"mix.balance_bound=2.0 is not read with mix.balance=groups"),
        ({"balance": "tokens", "balance_bound": 0.5}, r"mix.balance_bound=0.5 must be 1 or more"),
        ({"balance": "tokens", "balance_bound": 2.0}, r"mix.update_every=0 must be greater than zero"),
        ({"update_every": 4}, r"mix.update_every=4 is not read with fixed weights"),
        ({"retire_after": -1}, r"mix.retire_after=-1 must be 0 or more"),
        ({"fit_tasks": -1}, r"mix.fit_tasks=-1 must be 0 or more"),
        ({"adaptive": {"signal": "reward"}}, r"'reward' is not one of none, learnability, improvement"),
        ({"adaptive": {"bound": 3.0}}, r"mix.adaptive.bound=3.0 is not read with mix.adaptive.signal=none"),
        ({"adaptive": {"signal": "learnability", "bound": 0.5}}, r"mix.adaptive.bound=0.5 must be 1 or more"),
        ({"adaptive": {"signal": "learnability", "bound": 3.0, "rate": 1.0}}, r"rate=1.0 is not read with"),
        ({"adaptive": {"signal": "improvement", "bound": 3.0}}, r"mix.adaptive.rate=0.0 must be greater than zero"),
        ({"adaptive": {"signal": "learnability", "bound": 3.0}}, r"mix.update_every=0 must be greater than zero"),
        ({"curriculum": {"focus": 2.0}}, r"mix.curriculum.focus=2.0 must be between 0 \(off\) and 1"),
        ({"curriculum": {"up": 0.5}}, r"mix.curriculum.up=0.5 is not read with mix.curriculum.focus=0"),
        ({"curriculum": {"focus": 0.5, "up": 0.8}}, r"mix.curriculum.groups=0 must be greater than zero"),
        ({"curriculum": {"focus": 0.5, "groups": 1, "up": 0.2, "down": 0.4}}, r"down=0.4 must be below .*up=0.2"),
    ],
)
def test_mistakes(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        mix(**options)
