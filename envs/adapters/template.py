"""`"{question}"`: texts with the names of columns in braces, and nothing else that `str.format` can do.

In: a template from a config file and a row.  Out: text.  Called by the adapters.  A template can read columns by name;
`{a.b}`, `{a[0]}`, `{a!r}` and `{a:>10}` are refused when it is read, so that no template reaches into an object.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from typing import Any

_FORBIDDEN = {".": "an attribute", "[": "an index", "]": "an index"}


class Template:
    """A checked template.  `fields` are the names in it, each once, in order."""

    def __init__(self, text: str):
        self.text = text
        self._parts: list[tuple[str, str | None]] = []
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as problem:
            raise ValueError(
                f"{text!r} is no template: {problem}; write a brace itself as '{{{{' or '}}}}'"
            ) from problem
        for literal, name, spec, conversion in parts:
            if name is not None:
                _check_field(text, name, bool(spec), bool(conversion))
            self._parts.append((literal, name))
        self.fields = tuple(dict.fromkeys(name for _, name in self._parts if name is not None))

    def fill(self, values: Mapping[str, Any]) -> str:
        """The text with each name replaced.  ValueError for a value that is no text, KeyError for a missing one."""
        return "".join(literal + ("" if name is None else as_text(values[name], name)) for literal, name in self._parts)


def _check_field(text: str, name: str, spec: bool, conversion: bool) -> None:
    if not name.strip() or name.isdigit():
        raise ValueError(f"{text!r}: braces hold the name of a column, got {{{name}}}")
    for mark, what in _FORBIDDEN.items():
        if mark in name:
            raise ValueError(f"{text!r}: {{{name}}} asks for {what}; braces hold the name of a column only")
    if spec or conversion:
        raise ValueError(f"{text!r}: {{{name}…}} has a format; braces hold the name of a column only")


def as_text(value: Any, name: str) -> str:
    """A text itself, true and false in small letters, numbers in their shortest spelling; else ValueError."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    raise ValueError(f"{name!r} is {_kind(value)}, not a text or a number")


def _kind(value: Any) -> str:
    return "empty (null)" if value is None else f"a {type(value).__name__}"
