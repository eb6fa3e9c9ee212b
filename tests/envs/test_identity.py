"""Two domains are distinct where their code differs, not where their numbers do."""

import functools
from collections.abc import Callable

from envs.identity import code_id


def _helper(value: int) -> int:
    return value + 1


def _other_helper(value: int) -> int:
    return value + 2


def _asker(high: int) -> Callable[[], int]:
    def ask() -> int:
        return _helper(high)

    return ask


def _rule(inner: Callable[[int], int]) -> Callable[[], int]:
    def ask() -> int:
        return inner(1)

    return ask


def test_ranges_make_no_other_code() -> None:
    assert code_id(_asker(9)) == code_id(_asker(99))
    assert code_id(functools.partial(_helper, 1)) == code_id(functools.partial(_helper, 2)) == code_id(_helper)


def test_a_function_that_is_called_or_closed_over_belongs_to_it() -> None:
    assert code_id(_rule(_helper)) != code_id(_rule(_other_helper))
    assert code_id(_asker(9)) != code_id(_helper)

    assert code_id(len, "x") == code_id("x")  # builtins have no code of ours


def test_texts_and_order_count() -> None:
    assert code_id("a", "b") != code_id("b", "a")
    assert code_id(_helper, "table one") != code_id(_helper, "table two")
