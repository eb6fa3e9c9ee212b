"""What makes a domain another one: the code of its generator and of its verifier.

In: functions, and names of sources outside of this project.  Out: a short hash of what they are made of.
Used for `Domain.generator_id` and `Domain.verifier_id`; domains that differ in levels, seeds or number ranges only
share both, however they are named, and count as one.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import linecache
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

LENGTH = 16


def code_id(*parts: Callable[..., Any] | str) -> str:
    """A hash of the source of functions, of all functions of their own package that they call, and of texts.

    Values that a function closes over count only where they are functions: a range of numbers makes no other code.
    A text names what is not code of this project ("reasoning-gym-0.1.25/chain_sum", a table's name and version).
    """
    digest = hashlib.sha256()
    seen: set[str] = set()
    for part in parts:
        if isinstance(part, str):
            digest.update(f"text {part}\0".encode())
            continue
        for source in _sources(part):
            if source not in seen:
                seen.add(source)
                digest.update(f"code {source}\0".encode())
    return digest.hexdigest()[:LENGTH]


@functools.lru_cache(maxsize=1024)
def _sources(function: Callable[..., Any]) -> tuple[str, ...]:
    """Many domains share a judge: its code is read once."""
    return tuple(_source(reached.__code__) for reached in _reachable(function))


@functools.cache
def _source(code: CodeType) -> str:
    """Its lines, from the first decorator on.  Functions that were made by one line of code (closures) share it.

    `inspect.getsource` says the same, but reads the text token by token to find the end, which takes most of the time
    of listing hundreds of domains; the compiler wrote down where every instruction ends.
    """
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise OSError(f"the source of {code.co_qualname} in {code.co_filename} cannot be read")
    return "".join(lines[code.co_firstlineno - 1 : _last_line(code)])


def _last_line(code: CodeType) -> int:
    ends = [end for _, end, _, _ in code.co_positions() if end is not None]
    return max(ends + [_last_line(inner) for inner in code.co_consts if isinstance(inner, CodeType)])


def _reachable(start: Callable[..., Any]) -> Iterator[FunctionType]:
    """`start` and what it calls within its own top-level package, each once, in the order of the code."""
    todo, done = [_plain(start)], set()
    while todo:
        function = todo.pop(0)
        if function is None or id(function) in done:
            continue
        done.add(id(function))
        yield function
        todo.extend(_called(function))


def _called(function: FunctionType) -> Iterator[FunctionType | None]:
    package = function.__module__.split(".")[0]
    for name in _names(function.__code__):
        target = _plain(function.__globals__.get(name))
        if target is not None and target.__module__.split(".")[0] == package:
            yield target
    for cell in function.__closure__ or ():
        target = _plain(cell.cell_contents)
        if target is not None and target.__module__.split(".")[0] == package:
            yield target


def _names(code: CodeType) -> Iterator[str]:
    """Global names of a function and of the functions, lambdas and comprehensions inside of it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _plain(target: Any) -> FunctionType | None:
    target = inspect.unwrap(target) if callable(target) else target
    target = getattr(target, "func", target)  # functools.partial
    return target if isinstance(target, FunctionType) else None
