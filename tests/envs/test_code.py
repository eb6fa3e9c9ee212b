"""The code family: every judge on known answers, wrong ones, other right ones, and hostile ones."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pytest

from envs import sandbox
from envs.demonstrate import score_text
from envs.domain import Domain
from envs.families.code import SKILLS, domains
from envs.families.code import lists as pipelines
from envs.families.code.algorithms import CHOICES
from envs.families.code.common import own_function, passes_cases, results, source_of
from envs.families.code.performance import FAST, _fast_sources, judge_stdin, same_output
from envs.families.code.structures import DATE_TASKS, DRIVER, INTERVAL_TASKS, LEAVES, NODES
from envs.types import Task

needs_sandbox = pytest.mark.skipif(bool(sandbox.available()), reason="no sandbox here")
DOMAINS: dict[str, Domain] = {domain.name: domain for domain in domains()}
HOSTILE = (
    "",
    "\0",
    "a" * 5_000,
    "😀",
    "\ud800",
    "9" * 5_000,
    "[" * 3_000,
    "nan",
    "null",
    "```",
    "9**9**9",
    "[[[1,2],true]]",
)


def domain_of(skill: str) -> Domain:
    return DOMAINS[f"code/{skill}"]


def value(skill: str, task: Task, answer: str) -> float | None:
    return score_text(domain_of(skill), task, answer).value


def task_with(skill: str, reference: str, **facts: Any) -> Task:
    """A task with a hand-written answer and facts."""
    made = domain_of(skill).task(0)
    return dataclasses.replace(made, reference=reference, metadata=facts)


def test_each_skill_has_code_of_its_own_and_all_levels() -> None:
    assert len(SKILLS) == 28 and len(DOMAINS) == 84
    assert len({domain.generator_id for domain in DOMAINS.values()}) == 28


# ---- reading answers -------------------------------------------------------------------------------------------------


def test_the_last_block_counts() -> None:
    assert source_of("first\n```python\na = 1\n```\nno:\n```\nb = 2\n```\nbye") == "b = 2"
    assert source_of("a = 1\n") == "a = 1"
    assert source_of("<answer>a = 1</answer>") == "a = 1"
    assert source_of("```sql\nSELECT 1\n```") == "SELECT 1"
    assert source_of("```") == "```"


# ---- written functions -----------------------------------------------------------------------------------------------

ADD = {"name": "add", "cases": [[[1, 2], 3], [[5, 5], 10], [[-1, 1], 0]]}


@needs_sandbox
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("```python\ndef add(a, b):\n    return a + b\n```", 1.0),
        ("def add(a, b):\n    print('noise')\n    return b + a", 1.0),
        ("Sure!\n```python\nadd = lambda a, b: sum((a, b))\n```\nDone.", 1.0),
        ("```python\ndef add(a, b):\n    return 3\n```", 0.0),  # right on one case only
        ("```python\ndef add(a, b):\n    return float(a + b)\n```", 0.0),
        ("```python\nclass Any:\n    def __eq__(self, other): return True\ndef add(a, b): return Any()\n```", 0.0),
        (
            '```python\nimport os\nos.write(3, b\'{"value": 3}\\n{"value": 10}\\n{"value": 0}\\n\')\nos._exit(0)\n```',
            0.0,
        ),
        ("```python\nimport sys\nsys.exit(0)\n```", 0.0),
        ("```python\ndef add(a, b):\n    while True: pass\n```", 0.0),
        ("```python\ndef plus(a, b):\n    return a + b\n```", 0.0),
        ("def add(a, b): return", 0.0),
    ],
)
def test_only_right_values_pass(answer: str, right: float) -> None:
    task = task_with("list_pipeline", "x" * 300, **ADD)
    if "while True" in answer:
        from envs.sandbox import Limits

        assert passes_cases(source_of(answer), "add", ADD["cases"], Limits(wall_seconds=0.5)) == right  # type: ignore[arg-type]
    elif "os.write" not in answer:
        assert value("list_pipeline", task, answer) == right
    else:
        # A forged channel may carry values, but a program that knows only the arguments cannot know the results.
        task = task_with("list_pipeline", "x" * 300, name="add", cases=[[[1, 2], 3], [[5, 5], 11], [[-1, 1], 0]])
        assert value("list_pipeline", task, answer) == right


@pytest.mark.parametrize(
    ("values", "number", "expected"),
    [
        ([6, 7, 9], 0, [6, 9]),
        ([1, 4, 5], 1, [4, 5]),
        ([1, 2, 3, 4], 2, [1, 3]),
        ([4, -5], 3, [6, 5]),
        ([3, 8, 1], 4, [5, -7]),
        ([1, 2], 5, [2, 1]),
        ([5, 4, 3, 1], 6, [3, 1, 4, 5]),
        ([2, 1, 2], 7, [2, 1]),
        ([1, 2, 3], 8, [1, 3, 6]),
        ([1, 2, 3, 4], 9, [4, 1, 2, 3]),
        ([1, 2], 9, [2, 1]),
        ([1, 2, 3, 4], 10, [6, 4]),
        ([2, 1, 3], 11, [0, 0, 2]),
        ([-20, 20, 3], 12, [-10, 10, 3]),
        ([5, 5], 13, [5, 6]),
        ([1, 1, 2, 1], 14, [1, 2, 1]),
        ([1, 2], 15, [1, 2, 2, 1]),
        ([1, 2, 3], 16, [1, 6, 3]),
        ([1, 0, 3], 17, [1, 1, 3]),
    ],
)
def test_each_step_on_numbers_does_what_its_sentence_says(values: list[int], number: int, expected: list[int]) -> None:
    fill: dict[str, object] = {"a": 3, "b": 10, "c": 4}
    _, body = pipelines._written("", [pipelines.NUMBER_STEPS[number]], fill)
    assert own_function(f"def f(values):\n{body}\n    return values", "f")(values) == expected


@pytest.mark.parametrize(
    ("line", "number", "expected"),
    [
        ("abc ab", 0, ["abc"]),
        ("abc", 1, ["cba"]),
        ("eat tip", 2, ["tip"]),
        ("bb a aa", 3, ["a", "aa", "bb"]),
        ("aB", 4, ["AB"]),
        ("grAve e", 5, ["grAv", ""]),
        ("abc a", 6, ["cab", "a"]),
        ("eel", 7, ["rrl"]),
        ("ab", 8, ["ab2"]),
        ("a b a", 9, ["a", "b"]),
        ("aabba", 10, ["aba"]),
        ("cab", 11, ["abc"]),
        ("a b", 12, ["b", "a"]),
        ("aB", 13, ["Ab"]),
        ("abcd", 14, ["abc"]),
        ("xyZ", 15, ["zaZ"]),
    ],
)
def test_each_step_on_words_does_what_its_sentence_says(line: str, number: int, expected: list[str]) -> None:
    fill: dict[str, object] = {"a": 3, "s": 2, "l": "e", "m": "r", "j": "-"}
    _, body = pipelines._written("", [pipelines.TEXT_STEPS[number]], fill)
    assert own_function(f"def f(line):\n    words = line.split()\n{body}\n    return words", "f")(line) == expected


@pytest.mark.parametrize(
    ("number", "values", "expected"),
    [
        (0, [5, 1, 9, 9], 14),
        (0, [-1, -2], 0),
        (1, [1, 2, 4, 3, 6], 3),
        (2, [5, 5, 3, 2], 3),
        (3, [1, 9, 1, 1], 3),
        (4, [5, -9, 3, 1], 4),
        (4, [1], None),
        (5, [1, 5, 9, 20], 3),
        (6, [1, 2, 1, 3, 3], 3),
        (7, [3, 1, 2, 1, 5], [3, 5]),
    ],
)
def test_best_choices_on_small_lists(number: int, values: list[int], expected: Any) -> None:
    # k = 2, t = 5
    source = "def f(values):\n" + CHOICES[number][1].format(k=2, t=5)
    assert own_function(source, "f")(values) == expected


@pytest.mark.parametrize(
    ("kind", "closed", "expected"),
    [
        ("merge", True, [[1, 6], [9, 9]]),
        ("merge", False, [[1, 3], [4, 6]]),
        ("gaps", True, [[0, 0], [7, 8], [10, 12]]),
        ("busiest", True, [2, 2]),
        ("covered", True, 2),
        ("rooms", True, 2),
        ("most_disjoint", True, 3),
    ],
)
def test_intervals(kind: str, closed: bool, expected: Any) -> None:
    spans = [[2, 3], [1, 3], [4, 6], [9, 9]] if closed else [[2, 3], [1, 3], [4, 6]]
    fill = {"plus": " + 1" if closed else "", "minus": "" if closed else " - 1", "low": 0, "high": 12, "k": 2}
    assert own_function("def f(spans):\n" + INTERVAL_TASKS[kind][1].format(**fill), "f")(spans) == expected


@pytest.mark.parametrize(
    ("number", "first", "second", "expected"),
    [
        (0, "2024-03-01", "2024-03-31", 5),  # Fridays
        (1, "2024-03-01", "2024-03-08", 4),  # Fri, Mon, Tue, Wed, Thu without the 5th
        (2, "2024-02-29", "2024-04-29", ["2024-02-29", "2024-03-31"]),
        (3, "2024-01-31", "2024-02-29", [0, 1, 0]),
        (3, "2023-02-28", "2024-03-01", [1, 0, 2]),
        (3, "2020-02-29", "2021-03-01", [1, 0, 1]),
        (4, "2024-03-02", "2024-04-30", "2024-03-15"),  # a Friday, the 15th
        (4, "2024-03-02", "2024-03-14", None),
        (5, "2024-02-28", "2024-03-01", {"2024-02": 2}),  # the first of March is a Friday
        (6, "2024-03-01", "2024-03-21", ["2024-03-01", "2024-03-11", "2024-03-21"]),
        (6, "2024-03-01", "2024-03-31", ["2024-03-01", "2024-03-11", "2024-03-21"]),  # Sunday's moves past the end
    ],
)
def test_dates(number: int, first: str, second: str, expected: Any) -> None:
    fill = {"day": "Friday", "w": 4, "k": 5, "n": 10}
    source = "from datetime import date, timedelta\ndef f(first, second):\n" + DATE_TASKS[number][1].format(**fill)
    assert own_function(source, "f")(first, second) == expected


def test_trees_by_hand() -> None:
    tree = [3, [1, -4, []], [[2, 5]]]  # numbers count themselves; sums at even depth, maxima at odd depth
    leaf, total, largest = LEAVES[0][1], NODES[0][1], NODES[1][1]
    source = (
        f"def f(tree):\n    def go(node, depth):\n        if isinstance(node, int):\n            return {leaf}\n"
        f"        parts = [go(child, depth + 1) for child in node]\n"
        f"        return ({total}) if depth % 2 == 0 else ({largest})\n    return go(tree, 0)"
    )
    assert own_function(source, "f")(tree) == 3 + 1 + 7
    assert [eval(code.format(k=3), {"node": -4, "depth": 2}) for _, code in LEAVES] == [-4, -8, -4, 4, 0, 4]
    assert [eval(code, {"parts": [5, 1, 4]}) for _, code in NODES] == [10, 5, 13, 0, 4, 9]
    assert [eval(code, {"parts": []}) for _, code in NODES] == [0] * 6


COUNTER = """class Shelf:
    def __init__(self): self.n = {}
    def add(self, name, amount):
        self.n[name] = min(9, self.n.get(name, 0) + amount)
        return self.n[name]
    def total(self): return sum(self.n.values())
"""


@needs_sandbox
@pytest.mark.parametrize(
    ("code", "right"),
    [(COUNTER, 1.0), (COUNTER.replace("min(9, ", "min(8, "), 0.0), (COUNTER.replace("Shelf", "Desk"), 0.0)],
)
def test_a_class_is_judged_by_what_its_methods_return(code: str, right: float) -> None:
    calls = [["add", ["a", 5]], ["add", ["a", 5]], ["add", ["b", 1]], ["total", []]]
    cases = [[[calls], [5, 9, 1, 10]]]
    task = task_with("stateful_class", code, name="run_operations", cases=cases, driver=DRIVER.format(name="Shelf"))
    assert value("stateful_class", task, f"```python\n{code}```") == right


def test_examples_in_prompts_hold() -> None:
    """What a prompt says that a call gives is what the reference solution gives."""
    for skill in ("tree_fold", "robot", "record_report", "parse_format", "intervals", "best_choice"):
        for index in range(6):
            task = domain_of(skill).task(index)
            space: dict[str, Any] = {}
            exec(source_of(task.reference), space)
            shown = [line for line in task.prompt[-1].text.split("\n") if line.startswith(f"{task.metadata['name']}(")]
            assert shown and all(eval(line, space) is True for line in shown)


def test_fast_solutions_agree_with_slow_ones() -> None:
    rng = random.Random(1)
    for kind in range(len(FAST)):
        fill = {"m": 7, "w": 3, "t": 4, "d": 2, "c": 2}
        fast, slow = _fast_sources("f", kind, fill)
        for _ in range(60):
            values = [rng.randint(-6, 9) for _ in range(rng.randint(0, 12))]
            assert own_function(fast, "f")(list(values)) == own_function(slow, "f")(values), (kind, values)


@needs_sandbox
def test_a_slow_solution_runs_out_of_time() -> None:
    domain = domain_of("fast_function-easy")
    task = domain.task(0)
    _, slow = _fast_sources(task.metadata["name"], task.metadata["kind"], dict(task.metadata["fill"]))
    assert score_text(domain, task, slow).value == 0.0
    assert score_text(domain, task, task.reference).value == 1.0


# ---- programs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "right", "same"),
    [
        ("0.333333", "0.333333333333", True),
        ("3.0000001 2.9999999", "3 3", True),
        ("1.01", "1", False),
        ("a  \n\n", "a\n", True),
        ("1 2", "12", False),
        ("a\nb", "a \nb", True),
        ("a b", "a\nb", False),
        ("1e9999", "1", False),
        ("nan", "1.0", False),
        ("1000001", "1000000", False),
        ("", "1", False),
        ("1e0", "1", True),
        ("9" * 5_000, "1", False),
    ],
)
def test_output_is_compared_by_tokens_and_within_a_tolerance(found: str, right: str, same: bool) -> None:
    assert same_output(found, right) is same


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "right"),
    [
        ("print(sum(map(int, input().split())))", 1.0),
        ("import sys\nsys.stdout.buffer.write(str(sum(map(int, sys.stdin.read().split()))).encode())", 1.0),
        ("print(3)", 0.0),
        ("print(sum(map(int, input().split())))\nraise SystemExit(1)", 0.0),
        ("print(", 0.0),
    ],
)
def test_programs(program: str, right: float) -> None:
    task = task_with("stdin_program", "", inputs=["1 2\n", "4 5\n"], outputs=["3\n", "9\n"])
    assert judge_stdin(program, task) == right


# ---- all skills ------------------------------------------------------------------------------------------------------


@needs_sandbox
@pytest.mark.parametrize("skill", [skill.name for skill in SKILLS])
def test_gold_wins_and_nonsense_does_not(skill: str) -> None:
    domain = domain_of(skill)
    task = domain.task(7)
    gold = domain.gold(task, ())
    assert score_text(domain, task, gold.text).value == 1.0
    for answer in HOSTILE if not domain.programs else HOSTILE[:6]:
        assert score_text(domain, task, answer).value == 0.0, answer[:20]


@needs_sandbox
def test_no_function_that_ignores_its_argument_is_right() -> None:
    for skill in (
        "list_pipeline-hard",
        "text_pipeline-hard",
        "intervals",
        "dates-easy",
        "robot",
        "best_choice",
        "tree_fold",
    ):
        for index in range(3):
            facts = domain_of(skill).task(index).metadata
            for constant in {json.dumps(case[1]) for case in facts["cases"]}:
                code = f"import json\ndef {facts['name']}(*values): return json.loads({constant!r})"
                if constant in ("null", "0", "[]", '""', "1"):
                    assert passes_cases(code, facts["name"], facts["cases"]) == 0.0
            results_of = [json.dumps(case[1]) for case in facts["cases"]]
            assert len(set(results_of)) >= 3 and results_of[0] != results_of[1]


def test_the_hidden_tests_are_not_in_the_prompt() -> None:
    for skill in ("list_pipeline", "tree_fold", "repair"):
        task = domain_of(skill).task(2)
        hidden = [case for case in task.metadata["cases"] if json.dumps(case[0][0]) not in task.prompt[-1].text]
        assert len(hidden) >= 8


def test_results_are_copies() -> None:
    assert results("def f(v):\n    v.append(1)\n    return v", "f", [[[5]]]) == [([[5]], [5, 1])]
