"""An adapter's YAML file, read key by key: whatever is wrong is said with file, key and remedy.

In: the name of a family and a file.  Out: typed values.  Called by the adapters.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from envs.questions import LICENCE
from envs.skills import ALL_TIERS

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_REQUIRED = object()


class _UniqueKeys(yaml.SafeLoader):
    """Plain data only, and a key that stands twice is an error instead of a silent choice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is no text", key_node.start_mark)
            if key in found:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is there twice", key_node.start_mark
                )
            found[key] = self.construct_object(value_node, deep=True)
        return found


def read_settings(family: str, path: Path) -> Settings:
    """ValueError where the file is missing, no YAML, or no mapping."""
    if not _NAME.fullmatch(family):
        raise ValueError(f"family {family!r}: a name has small letters, digits, '_', '.' and '-' only")
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except OSError as problem:
        raise ValueError(f"family {family!r}: {path} cannot be read: {problem.strerror or problem}") from problem
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise ValueError(f"family {family!r}: {path} is no YAML that an adapter reads: {problem}") from problem
    if not isinstance(values, dict):
        raise ValueError(f"family {family!r}: {path} must hold keys and values, the first of them `adapter: …`")
    return Settings(family, path, values)


class Settings:
    """The values of one file.  Each reader marks its key as known; `finish` refuses the others."""

    def __init__(self, family: str, path: Path, values: Mapping[str, Any], inside: str = ""):
        self.family, self.path, self._values, self._inside = family, path, values, inside
        self._known: set[str] = set()

    @property
    def folder(self) -> Path:
        """Paths in the file are relative to it."""
        return self.path.absolute().parent

    def wrong(self, key: str, what: str) -> ValueError:
        """The error to raise: file, key, and what is wrong with it and how to put it right."""
        return ValueError(f"{self.path}: {self._inside}{key}: {what}")

    def has(self, key: str) -> bool:
        self._known.add(key)
        return self._values.get(key) is not None

    def _get(self, key: str, default: Any, kind: str) -> Any:
        if self.has(key):
            return self._values[key]
        if default is _REQUIRED:
            raise self.wrong(key, f"it is missing; add `{key}: <{kind}>`")
        return default

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        value = self._get(key, default, "text")
        if not isinstance(value, str):
            raise self.wrong(key, f"it must be a text, got {value!r}; put it in quotes")
        return value

    def texts(self, key: str, default: Any = _REQUIRED) -> list[str]:
        """One text, or a list of them."""
        value = self._get(key, default, "text, or a list of texts")
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise self.wrong(key, f"it must be a text or a list of texts, got {value!r}")
        return list(items)

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        value = self._get(key, default, "true or false")
        if not isinstance(value, bool):
            raise self.wrong(key, f"it must be true or false, got {value!r}")
        return value

    def number(self, key: str, default: Any = _REQUIRED, *, least: float = -math.inf) -> float:
        value = self._get(key, default, "number")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(key, f"it must be a number, got {value!r}")
        if value < least:
            raise self.wrong(key, f"it must be {least:g} or more, got {value:g}")
        return float(value)

    def integer(self, key: str, default: Any = _REQUIRED, *, least: int = 0) -> int:
        value = self._get(key, default, "whole number")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, f"it must be a whole number, {least} or more, got {value!r}")
        return value

    def choice(self, key: str, choices: Sequence[str], default: Any = _REQUIRED) -> str:
        value = self._get(key, default, "|".join(choices))
        if value not in choices:
            raise self.wrong(key, f"{value!r} is none of {', '.join(choices)}{_near(str(value), choices)}")
        return str(value)

    def inner(self, key: str) -> Settings | None:
        """A mapping inside of the file, or None where there is none; its reader calls `finish` on it too."""
        if not self.has(key):
            return None
        value = self._values[key]
        if not isinstance(value, dict):
            raise self.wrong(key, f"it must hold keys and values of its own, got {value!r}")
        return Settings(self.family, self.path, value, f"{self._inside}{key}.")

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping that is passed on as it is."""
        value = self._get(key, {}, "keys and values")
        if not isinstance(value, dict):
            raise self.wrong(key, f"it must hold keys and values, got {value!r}")
        return value

    def tiers(self) -> tuple[str, ...]:
        """The thinking tiers that make sense for it."""
        found = self.texts("tiers", list(ALL_TIERS))
        if not found or not set(found) <= set(ALL_TIERS):
            raise self.wrong("tiers", f"they are some of {', '.join(ALL_TIERS)}, got {', '.join(found) or 'none'}")
        return tuple(found)

    def licence(self) -> str:
        """Of the other project's data; nobody but the user can know it."""
        return self.text("licence", f"not stated (adapter: {LICENCE})")

    def finish(self) -> None:
        """ValueError for the first key that nobody read."""
        for key in self._values:
            if key not in self._known:
                near = _near(key, sorted(self._known))
                raise self.wrong(key, f"there is no such key{near}; keys are {', '.join(sorted(self._known))}")


def _near(word: str, words: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
