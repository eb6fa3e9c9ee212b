"""Two domains are distinct where their code differs, not where their numbers do."""

import functools
import inspect
from collections.abc import Callable

import pytest

from envs import demonstrate, questions, skills
from envs.identity import _source, code_id


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


def test_the_source_of_a_function_is_all_of_its_lines() -> None:
    """Against the standard library's own reading, which is slow."""
    for function in (_helper, _asker, code_id, demonstrate.run_policy, questions.extract_answer, skills.skill_domains):
        assert _source(function.__code__) == inspect.getsource(function)


def test_what_has_no_source_is_an_error() -> None:
    made: dict[str, Callable[[], int]] = {}
    exec("def nameless() -> int:\n    return 1", made)
    with pytest.raises(OSError, match="source of nameless in <string> cannot be read"):
        code_id(made["nameless"])
