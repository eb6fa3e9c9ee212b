"""The code family: programs that are read, tests and inputs that are found, expressions that are written."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import random
from typing import Any

import pytest

from envs import sandbox
from envs.demonstrate import score_text
from envs.domain import Domain
from envs.families.code import domains
from envs.families.code.bank import BANK, draw_arguments, draw_piece, mutants, outcomes
from envs.families.code.common import own_function, source_of
from envs.families.code.machines import run_registers, run_stack
from envs.families.code.patterns import range_pattern
from envs.families.code.review import SAME
from envs.types import Task

needs_sandbox = pytest.mark.skipif(bool(sandbox.available()), reason="no sandbox here")
DOMAINS: dict[str, Domain] = {domain.name: domain for domain in domains()}


def domain_of(skill: str) -> Domain:
    return DOMAINS[f"code/{skill}"]


def value(skill: str, task: Task, answer: str) -> float | None:
    return score_text(domain_of(skill), task, answer).value


def task_with(skill: str, reference: str, **facts: Any) -> Task:
    """A task with a hand-written answer and facts."""
    made = domain_of(skill).task(0)
    return dataclasses.replace(made, reference=reference, metadata=facts)


@pytest.mark.parametrize(
    "skill", ["predict_output", "aliasing", "exceptions", "method_dispatch", "generators", "count_steps"]
)
def test_what_programs_print_is_what_python_prints(skill: str) -> None:
    domain = domain_of(skill)
    for index in range(12):
        task = domain.task(index)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(source_of(task.prompt[-1].text), {"__name__": "own"})
        assert out.getvalue().strip() == task.reference
        assert value(skill, task, f"<answer>\n{task.reference}\n</answer>") == 1.0
        assert value(skill, task, f"```\n{task.reference}\n```") == 1.0
        assert value(skill, task, task.reference + "\n0") == 0.0
        assert value(skill, task, task.reference[:-1]) == 0.0


def test_machines() -> None:
    program = ["PUSH 7", "PUSH 3", "SUB", "DUP", "PRINT", "PUSH 0", "SKIP 1", "PRINT", "PUSH 5", "OVER", "ROT"]
    assert run_stack(program) == ([4], [5, 4, 4])
    assert run_stack(["PUSH -7", "PUSH 3", "MOD", "PRINT"]) == ([2], [])
    loop = ["MOV A, 3", "ADD B, A", "SUB A, 1", "JPOS A, 1", "XOR B, 3", "HALT"]
    assert run_registers(loop) == ({"A": 0, "B": 5, "C": 0, "D": 0}, 12)
    assert run_registers(["JMP 0"]) is None


@pytest.mark.parametrize("skill", ["stack_machine", "register_machine", "bug_line", "same_functions", "regex_matches"])
def test_short_answers_are_exact(skill: str) -> None:
    task = domain_of(skill).task(1)
    assert value(skill, task, f" {task.reference}\n") == 1.0
    assert value(skill, task, task.reference + " 1") == 0.0
    assert value(skill, task, task.reference[1:]) == 0.0


def test_functions_said_to_be_the_same_are_and_others_differ() -> None:
    rng = random.Random(3)
    inputs = [[rng.randint(-6, 12) for _ in range(rng.randint(0, 9))] for _ in range(400)]
    inputs += [[0], [], [2] * 8, *(sorted(rng.sample(range(-9, 30), size)) for size in range(16)), [1, 2] * 8]
    for same, other in SAME:
        for number in range(3, 8):

            def outputs(body: str, number: int = number) -> list[Any]:
                lines = "\n".join("    " + line for line in body.format(a=number).split("\n"))
                return [own_function(f"def f(values):\n{lines}", "f")(list(each)) for each in inputs]

            right = outputs(same[0])
            assert all(outputs(body) == right for body in same)
            assert all(outputs(body) != right for body in other), number


def test_every_function_of_the_bank_runs_and_has_mutants() -> None:
    rng = random.Random(5)
    for number, (kind, _, _) in enumerate(BANK):
        piece = draw_piece(rng, number, number + 1)
        arguments = draw_arguments(rng, kind, 50)
        right = outcomes(piece.source, piece.name, arguments)
        assert not any(isinstance(each, tuple) for each in right)
        assert sum(outcomes(source, piece.name, arguments) != right for _, source in mutants(piece.source)) >= 4


def test_mutants_change_one_line() -> None:
    source = "def f(values):\n    return [v for v in values if v > 3]"
    assert mutants(source) == (
        (2, "def f(values):\n    return [v for v in values if v >= 3]"),
        (2, "def f(values):\n    return [v for v in values if v < 3]"),
        (2, "def f(values):\n    return [v for v in values if v > 4]"),
        (2, "def f(values):\n    return [v for v in values if v > 2]"),
    )


# ---- inputs, tests, expressions --------------------------------------------------------------------------------------

TOTAL = "def f(values):\n    return sum(v for v in values if v > 3)"
MUTANTS = [TOTAL.replace(">", ">="), TOTAL.replace("> 3", "> 4")]


@needs_sandbox
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("[[4, 5], [7]]", 1.0),
        ("[[9], [1, 7]]", 1.0),
        ("```json\n[[9], [7]]\n```", 1.0),
        ("[[9], [8]]", 0.0),
        ("[[9]]", 0.0),
        ("[[9.0], [7]]", 0.0),
        ("[[true, 9], [7]]", 0.0),
        ("[[9], [7], [1]]", 0.0),
        ('["9", [7]]', 0.0),
        ("[[10000009, -10000000], [7]]", 0.0),
    ],
)
def test_any_argument_with_the_wanted_result_counts(answer: str, right: float) -> None:
    task = task_with("predict_input", "[[9], [7]]", name="f", kind="values", source=TOTAL, wanted=[9, 7])
    assert value("predict_input", task, answer) == right


@needs_sandbox
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("[[[3, 4], 4]]", 1.0),
        ("[[[3], 0], [[4], 4]]", 1.0),
        ("[[[3], 0]]", 0.0),
        ("[[[3, 4], 7]]", 0.0),
        ("[]", 0.0),
        ("[[[3], 0], [[4], 4], [[5], 5]]", 0.0),
        ("[[[3, 4], true]]", 0.0),
        ("[[[3, 4], 4.0]]", 0.0),
        ("[[3, 4]]", 0.0),
    ],
)
def test_tests_must_hold_and_kill_every_mutant(answer: str, right: float) -> None:
    task = task_with("write_tests", "", name="f", kind="values", source=TOTAL, mutants=MUTANTS, most=2)
    assert value("write_tests", task, answer) == right


@needs_sandbox
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("v > 3", 1.0),
        ("`not v <= 3`", 1.0),
        ("v > 2", 0.0),
        ("v > 3) or (True", 0.0),
        ("v > 3 #", 0.0),
        ("v >\n3", 0.0),
        ("", 0.0),
    ],
)
def test_any_expression_that_works_fills_the_gap(answer: str, right: float) -> None:
    before, after = TOTAL.split("v > 3")
    task = task_with("fill_in", "v > 3", name="f", before=before, after=after, cases=[[[[3, 4, 1]], 4], [[[]], 0]])
    assert value("fill_in", task, answer) == right


# ---- regular expressions ---------------------------------------------------------------------------------------------


def test_ranges_of_numbers() -> None:
    import re

    for high in (11, 19, 20, 99, 100, 105, 607, 990, 999):
        pattern = range_pattern(high)
        assert [n for n in range(1200) if re.fullmatch(pattern, str(n))] == list(range(high + 1))
        assert not any(re.fullmatch(pattern, text) for text in ("00", "01", "007", "-1", ""))


@needs_sandbox
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("a+b", 1.0),
        ("a{1,}b", 1.0),
        ("^a+b$", 1.0),
        ("a*b", 0.0),
        ("ab|aab|aaab", 1.0),
        (".*", 0.0),
        ("a+", 0.0),
        ("(", 0.0),
        ("a" * 501, 0.0),
    ],
)
def test_expressions(answer: str, right: float) -> None:
    task = task_with("write_regex", "a+b", good=["ab", "aab", "aaab"], bad=["b", "abb", "a", ""])
    assert value("write_regex", task, answer) == right


@needs_sandbox
def test_an_expression_that_backtracks_for_ever_is_killed() -> None:
    task = task_with("write_regex", "a+", good=["a" * 40 + "b"], bad=[])
    assert value("write_regex", task, "(a+)+c|(a+)+d") == 0.0
