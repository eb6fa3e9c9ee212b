"""The checks that the config tree is made of: each raises ValueError naming the key, its value and what would be right.

In: values of one dataclass of `train.config`.  Called from its `__post_init__` only.
"""

from __future__ import annotations


def one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{key}={value!r} is not one of {', '.join(allowed)}")


def positive(prefix: str, config: object, *names: str) -> None:
    for name in names:
        if not getattr(config, name) > 0:
            raise ValueError(f"{prefix}.{name}={getattr(config, name)} must be greater than zero")


def not_negative(prefix: str, config: object, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= 0:
            raise ValueError(f"{prefix}{name}={getattr(config, name)} must be 0 or more")


def unread(because: str, prefix: str, config: object, *names: str) -> None:
    """What would be ignored has to be 0 or empty: nobody may believe that it had an effect."""
    for name in names:
        value = getattr(config, name)
        if value:
            raise ValueError(f"{prefix}.{name}={value} is not read with {because}; set it to {type(value)()!r}")
