"""The reasoning-gym domains: gold wins, tasks are the same everywhere, and known holes of its scorers are closed."""

import ast
import dataclasses
import inspect
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from envs import sandbox
from envs.check import HOSTILE_ANSWERS
from envs.demonstrate import demonstrate_sync, score_text
from envs.domain import Domain
from envs.elsewhere import digest, digests_elsewhere
from envs.families import all_domains
from envs.families.reasoning_gym import INSIDE, SCORER_FAILURES, Source, levels, make
from envs.families.reasoning_gym_levels import LEVELS, ONE_LEVEL
from envs.families.reasoning_gym_rules import COMPARISONS, is_survo
from envs.families.reasoning_gym_tables import ALLOWED, DATASETS, EXCLUDED, MADE_INSIDE, RESCORED, SCORER_LIMITS
from envs.questions import extract_answer
from envs.sandbox import SandboxDown, SandboxFailed, SandboxTimeout
from envs.types import Status, Trajectory

DOMAINS = {name: domain for name, domain in all_domains().items() if domain.family == "reasoning_gym"}
SLOW = {
    "knight_swap",
    "codeio",
    "futoshiki",
    "zebra_puzzles",
    "quantum_lock",
    "polynomial_equations",
    "sudoku",
    "arc_agi",
    "rearc",
}


def _domain(dataset: str) -> Domain:
    return DOMAINS[f"reasoning_gym/{dataset}"]


def test_the_tables_cover_the_library_exactly() -> None:
    pytest.importorskip("reasoning_gym")
    from reasoning_gym.factory import DATASETS as SHIPPED

    assert not DATASETS.keys() & EXCLUDED.keys()
    assert DATASETS.keys() | EXCLUDED.keys() == SHIPPED.keys()
    assert len(DATASETS) == 103
    assert LEVELS.keys() | ONE_LEVEL.keys() == DATASETS.keys() and not LEVELS.keys() & ONE_LEVEL.keys()
    assert len(DOMAINS) == 3 * len(LEVELS) + len(ONE_LEVEL) == 303
    assert {name.partition("/")[2] for name in DOMAINS} == {
        dataset + {"medium": ""}.get(level, f"-{level}") for dataset in DATASETS for level in levels(dataset)
    }


def test_listing_does_not_import_the_library_and_is_quick() -> None:
    code = (
        "import sys, time; start = time.process_time()\n"
        "from envs.families import all_domains\n"
        "names = list(all_domains()); seconds = time.process_time() - start\n"
        "assert not {'reasoning_gym', 'numpy', 'sympy', 'torch'} & sys.modules.keys()\n"
        "print(len(names), seconds)"
    )
    found = [subprocess.check_output([sys.executable, "-c", code], text=True).split() for _ in range(3)]
    best = min(float(seconds) / int(number) for number, seconds in found)
    assert best < 0.3 / 679  # seconds a domain


@pytest.mark.parametrize("dataset", sorted(DATASETS.keys() - SLOW))
def test_gold_scores_the_maximum(dataset: str) -> None:
    for index in range(3):
        task = _domain(dataset).task(index)
        _, score = demonstrate_sync(_domain(dataset), task)
        assert score.value == 1.0, (task.id, task.reference)
        assert score_text(_domain(dataset), task, task.reference).value == 1.0  # also without the tags


@pytest.mark.long
@pytest.mark.parametrize("dataset", sorted(SLOW))
def test_gold_scores_the_maximum_on_slow_ones(dataset: str) -> None:
    test_gold_scores_the_maximum(dataset)


@pytest.mark.parametrize("dataset", sorted(DATASETS.keys() - SLOW))
def test_hostile_and_padded_answers_do_not_win(dataset: str) -> None:
    task = _domain(dataset).task(0)
    hostile = [*HOSTILE_ANSWERS.values(), "[NaN]", "(" * 3_000, "<answer>" * 12_000, "9**9**9**9", "1e9999999", "inf"]
    padded = [f"{task.reference} x", f"x {task.reference}", f"{task.reference}!"]
    # In the sandbox `9**9**9**9`, which is tried twice, takes all the time that it is given; elsewhere none.
    allowed = 2.0 + (2 * SCORER_LIMITS.wall_seconds if DATASETS[dataset] == "sandbox" else 0.0)
    score_text(_domain(dataset), task, task.reference)
    start = time.perf_counter()
    for answer in hostile + padded:
        score = score_text(_domain(dataset), task, answer)
        assert score.value is not None and 0.0 <= score.value < 1.0, answer[:50]
    for answer in hostile:
        assert score_text(_domain(dataset), task, answer).value == 0.0, answer[:50]
    assert time.perf_counter() - start < allowed


def test_what_is_not_offered_says_why() -> None:
    with pytest.raises(ValueError, match="ships no solution"):
        make("boxnet")
    with pytest.raises(ValueError, match="no such dataset"):
        make("countdwn")


HOSTILE = sorted(dataset for dataset, rule in DATASETS.items() if rule == "sandbox")


def test_the_scorers_that_execute_answers_are_marked() -> None:
    """Those whose source evaluates or parses expressions with sympy; the library's own text is looked at."""
    pytest.importorskip("reasoning_gym")
    import reasoning_gym.factory

    evaluates = re.compile(r"\beval\(|\bparse_expr\(|\bexec\(|\bsympify\(")
    found = set()
    for dataset in DATASETS:
        scorer = reasoning_gym.factory.DATASETS[dataset][0].score_answer
        if evaluates.search(inspect.getsource(scorer)):
            found.add(dataset)
    called = {dataset for dataset in found if DATASETS[dataset] in ("own", "partial", "sandbox")}
    assert called == set(HOSTILE)
    assert sorted(ALLOWED) == HOSTILE and len(HOSTILE) == 7
    assert all(_domain(dataset).needs_sandbox for dataset in [*HOSTILE, *MADE_INSIDE])


def test_the_rescored_ones_never_meet_their_own_scorer() -> None:
    assert {DATASETS[dataset] for dataset in RESCORED} & {"own", "partial", "sandbox"} == set()


def test_the_library_scores_in_two_places_only() -> None:
    """`Source.judged`, which is called in this process for scorers that execute nothing, and in the sandbox for all;
    and where a sokoban task is made, on an empty text."""
    root = Path(__file__).resolve().parents[2]
    callers: dict[str, list[str]] = {"score_answer": [], "judged": []}
    for path in sorted(file for package in ("envs", "rollouts", "train") for file in (root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
                for name in callers.keys() & names:
                    callers[name].append(f"{path.stem}.{node.name}")
    assert callers == {
        "score_answer": ["reasoning_gym._made", "reasoning_gym.judged"],
        "judged": ["reasoning_gym._own_score", "reasoning_gym_inside.judge"],
    }


@pytest.mark.parametrize("dataset", HOSTILE)
def test_a_hostile_scorer_is_called_in_the_sandbox_only(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def call(function: str, *arguments: Any, limits: Any) -> float:
        called.append(function)
        return 1.0

    def judged(self: Source, answer: str, entry: Any) -> float:
        raise AssertionError("scored outside of the sandbox")

    domain = _domain(dataset)
    task = domain.task(0)
    monkeypatch.setattr("envs.sandbox.call", call)
    monkeypatch.setattr(Source, "judged", judged)
    assert score_text(domain, task, task.reference).value == 1.0
    assert called == [f"{INSIDE}:judge"]


@pytest.mark.parametrize("dataset", HOSTILE)
def test_code_never_reaches_a_hostile_scorer(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = _domain(dataset)
    task = domain.task(0)
    monkeypatch.setattr("envs.sandbox.call", lambda *arguments, **options: 1.0)
    for answer in (
        "__import__('os').system('id')",
        "().__class__",
        "exec('1')",
        "x.is_real",
        "1; 2",
        "lambda: 1",
    ):
        assert score_text(domain, task, answer).value == 0.0, answer


@pytest.mark.skipif(bool(sandbox.available()), reason=sandbox.available() or "works")
def test_a_hopeless_power_costs_the_point_and_its_time() -> None:
    domain = _domain("simple_integration")
    task = domain.task(0)
    start = time.perf_counter()
    assert score_text(domain, task, "9**9**9**9").value == 0.0
    assert time.perf_counter() - start < 20
    assert SCORER_FAILURES["simple_integration", "SandboxTimeout"] >= 1
    assert score_text(domain, task, task.reference).value == 1.0


@pytest.mark.parametrize("error", [SandboxTimeout, SandboxFailed])
def test_a_right_answer_that_gets_no_verdict_is_unscored_and_a_wrong_one_is_wrong(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = _domain("n_queens")
    task = domain.task(0)

    def call(*arguments: Any, **options: Any) -> float:
        raise error("too slow")

    monkeypatch.setattr("envs.sandbox.call", call)
    assert "no verdict on the gold answer" in score_text(domain, task, task.reference).reason
    assert score_text(domain, task, "Q _ _").value == 0.0


@pytest.mark.parametrize("verdict", [7.0, -1.0, True, "1.0"])
def test_a_verdict_out_of_range_is_no_verdict(verdict: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = _domain("n_queens")
    task = domain.task(0)
    monkeypatch.setattr("envs.sandbox.call", lambda *arguments, **options: verdict)
    assert score_text(domain, task, "Q _ _").value == 0.0


@pytest.mark.parametrize("error", [SandboxTimeout, SandboxFailed])
def test_a_task_that_cannot_be_made_is_the_sandbox_s_doing(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*arguments: Any, **options: Any) -> float:
        raise error("too slow")

    monkeypatch.setattr("envs.sandbox.call", call)
    with pytest.raises(SandboxDown, match="task 987654 could not be made: too slow"):
        _domain("ransom_note").task(987_654)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("10*(8 - 5) - 6", True),
        ("-6 + 10 * (8-5)", True),
        ("8*(10 - 5) - 6 - 10", False),  # 24, with a number twice and in all five
        ("1*2*3*4", False),  # 24 of other numbers
        ("6*8/(10/5)", True),
        ("10*8 - 5 - 6", False),
        ("8**5 - 10 - 6", False),
        ("(8, 5, 10, 6)", False),
        ("10*(8 - 5) - 6 == 24", False),
        ("6*(8 - 5) + 10/0", False),
        ("8 5 10 6", False),
    ],
)
def test_make_24_counts_the_numbers_and_the_exact_value(answer: str, right: bool) -> None:
    domain = _domain("puzzle24")
    task = domain.task(0)
    assert "8, 5, 10, 6" in task.prompt[0].text
    assert score_text(domain, task, answer).value == float(right)


def test_a_sandbox_that_is_down_leaves_the_answer_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = _domain("n_queens")
    task = domain.task(0)
    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap is not installed")
    assert score_text(domain, task, task.reference).reason == "bubblewrap is not installed"


def test_not_a_number_is_not_right() -> None:
    """The library's own scorers give NaN full marks in these two."""
    task = _domain("complex_arithmetic").task(0)
    assert score_text(_domain("complex_arithmetic"), task, "nan").value == 0.0
    task = _domain("number_sorting").task(0)
    nans = "[" + ", ".join(["NaN"] * task.reference.count(",")) + ", NaN]"
    assert score_text(_domain("number_sorting"), task, nans).value == 0.0


def test_near_misses_are_misses() -> None:
    """Both would pass at 0.99 of the library's own score."""
    task = next(task for task in map(_domain("time_intervals").task, range(50)) if task.reference.count(":") == 1)
    hours, minutes = task.reference.split(":")
    late = f"{hours}:{(int(minutes) + 1) % 60:02d}"
    assert score_text(_domain("time_intervals"), task, late).value == 0.0
    task = _domain("coin_flip").task(0)
    assert float(task.reference) > 0.001 and score_text(_domain("coin_flip"), task, "0").value == 0.0


def test_a_scorer_that_raises_costs_the_point_and_is_counted() -> None:
    before = SCORER_FAILURES["prime_factorization", "ValueError"]
    task = _domain("prime_factorization").task(0)
    assert score_text(_domain("prime_factorization"), task, "two x three").value == 0.0
    assert SCORER_FAILURES["prime_factorization", "ValueError"] == before + 1


def test_a_scorer_that_raises_on_the_gold_is_not_hidden() -> None:
    domain = _domain("prime_factorization")
    broken = dataclasses.replace(domain.task(0), reference="two x three")
    with pytest.raises(ValueError, match="invalid literal"):
        score_text(domain, broken, "two x three")


def test_partial_credit_is_for_content_never_for_length() -> None:
    domain = _domain("mini_sudoku")
    task = domain.task(0)
    digits = [digit for digit in task.reference if digit.isdigit()]
    wrong = digits[0].translate(str.maketrans("1234", "2341"))
    almost = wrong + task.reference[1:]
    value = score_text(domain, task, almost).value
    assert value == pytest.approx(0.9 * 15 / 16)
    assert score_text(domain, task, almost + "\nI am sure.").value == 0.0


def test_halting_is_scored_by_its_value() -> None:
    domain = _domain("game_of_life_halting")
    task = domain.task(0)
    other = {"True": "False", "False": "True"}[task.reference]
    assert [score_text(domain, task, text).value for text in (task.reference, other, "x")] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>7</answer>", "7"),
        ("I think <answer>6</answer> no, <answer> 7\n</answer> done", "7"),
        ("  7 \n", "7"),
        ("<answer></answer>", ""),
        ("<answer>7", "<answer>7"),
        ("7</answer>", "7</answer>"),
        ("</answer><answer>", "</answer><answer>"),
        ("<answer><answer>7</answer>", "7"),
        ("", ""),
    ],
)
def test_the_last_complete_tag_is_the_answer(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("rule", "answer", "reference", "same"),
    [
        ("text", " a  b\n c ", "a b\nc", True),
        ("text", "a b c", "a b\nc", False),
        ("text", "A", "a", False),
        ("word", "YES", "Yes", True),
        ("number", "1,000.0", "1000", True),
        ("number", "+5", "5", True),
        ("number", "007", "7", False),
        ("number", "7 apples", "7", False),
        ("number", "1e3", "1000", False),
        ("number", "\u0667", "7", False),
        ("numbers", "[1.50, '2']", "['1.5', '2.0']", True),
        ("numbers", "[2, 1]", "[1, 2]", False),
        ("numbers", "[1, 2, 3]", "[1, 2]", False),
        ("roots", "2, -1.0001", "-1.0, 2.0", True),
        ("roots", "2, 2", "-1.0, 2.0", False),
        ("roots", "2, x", "2.0", False),
        ("roots", "junk", "", False),
        ("ratio", "3/8", "0.375", True),
        ("ratio", "1/0", "0.375", False),
        ("ratio", "0", "3.05e-05", False),
        ("roles", "Bo is a knave and Al is a knight", "Al is a knight, and Bo is a knave.", True),
        ("roles", "Al is a knight, Al is a knave, Bo is a knave", "Al is a knight, and Bo is a knave.", False),
        ("roles", "well Al is a knight, Bo is a knave", "Al is a knight, and Bo is a knave.", False),
        ("json", "[[1,0],\n[0,1]]", "[[1, 0], [0, 1]]", True),
        ("json", "[[1,0],[0,1],[5]]", "[[1, 0], [0, 1]]", False),
        ("json", "[" * 10_000, "[]", False),
    ],
)
def test_comparison_rules(rule: str, answer: str, reference: str, same: bool) -> None:
    assert COMPARISONS[rule](answer, reference) is same


def test_a_cut_off_answer_scores_zero_and_a_failed_episode_is_unscored() -> None:
    domain = _domain("gcd")
    task = domain.task(0)
    assert domain.score(task, Trajectory(task, "low", 0, [[]], Status.TRUNCATED)).value == 0.0
    assert domain.score(task, Trajectory(task, "low", 0, [[]], Status.FAILED, error="down")).reason == "down"


@pytest.mark.long
def test_tasks_are_the_same_in_another_process_and_order() -> None:
    names = sorted(DOMAINS)
    elsewhere = digests_elsewhere(dict.fromkeys(names, 3), {})
    here = {name: digest([DOMAINS[name].task(index) for index in range(3)]) for name in names}
    assert [name for name in names if here[name] != elsewhere[name]] == []


def test_global_randomness_and_output_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy

    def states() -> tuple[object, str]:
        return random.getstate(), repr(numpy.random.get_state())

    random.seed(5)
    numpy.random.seed(5)
    before = states()
    for dataset in ("list_functions", "pool_matrix", "tower_of_hanoi"):
        task = _domain(dataset).task(977)
        score_text(_domain(dataset), task, "Move disk 9 from Peg 9 to Peg 9")
    assert before == states()
    assert capsys.readouterr().out == ""


def test_a_level_of_ones_own() -> None:
    domain = make("chain_sum", name="reasoning_gym/chain_sum-long", min_terms=9, max_terms=9)
    question = domain.task(0).prompt[0].text
    assert question.count(" + ") + question.count(" - ") == 8
    assert domain.knobs == {"level": "medium", "seed": 1, "min_terms": 9, "max_terms": 9}


def test_levels_are_three_settings_of_one_dataset() -> None:
    for dataset, table in LEVELS.items():
        settings = [dict(table.of(level)) for level in ("easy", "medium", "hard")]
        assert settings[0] != settings[1] != settings[2] != settings[0], dataset
        seeds = {_domain(f"{dataset}{suffix}").knobs["seed"] for suffix in ("", "-easy", "-hard")}
        assert len(seeds) == 3, dataset  # else levels share boards, and with them answers
    with pytest.raises(ValueError, match="'deadly' is none of easy, medium, hard"):
        make("chain_sum", "deadly")


def test_harder_is_longer() -> None:
    """Of the datasets whose questions grow with their settings, a few."""
    for dataset in ("chain_sum", "number_sorting", "maze", "path_star", "letter_counting", "circuit_logic"):
        easy, medium, hard = (
            sum(len(_domain(f"{dataset}{suffix}").task(index).prompt[0].text) for index in range(20))
            for suffix in ("-easy", "", "-hard")
        )
        assert easy < medium < hard, dataset


@pytest.mark.long
@pytest.mark.parametrize("dataset", sorted(LEVELS))
@pytest.mark.parametrize("level", ["easy", "hard"])
def test_gold_scores_the_maximum_at_every_level(dataset: str, level: str) -> None:
    test_gold_scores_the_maximum(f"{dataset}-{level}")


SURVO = [[0, 5, 2, 9], [0, 8, 0, 24], [0, 0, 2, 13], [17, 17, 12, 46]]


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("2 5 2 9\n8 8 8 24\n7 4 2 13\n17 17 12 46", True),
        ("2 5 2 9\n8 8 8 24\n4 7 2 13\n17 17 12 46", False),  # sums of columns
        ("2 5 2 9\n8 8 8 24\n7 4 2 13", False),
        ("2 5 2 9\n8 8 8 24\n7 4 2 13\n17 17 12 46\nx", False),
        ("2 5 2 9\n8 8 8 24\n6 5 2 13\n17 17 12 46", False),  # a number that was not given
        ("", False),
    ],
)
def test_a_survo_square_is_checked_by_its_sums(answer: str, right: bool) -> None:
    assert is_survo(answer, SURVO, [4, 2, 7, 8, 8]) is right


def test_any_square_with_the_right_sums_is_a_survo_solution() -> None:
    """The library would take one of these two only."""
    puzzle = [[0, 0, 5], [0, 0, 5], [5, 5, 10]]
    for answer in ("1 4 5\n4 1 5\n5 5 10", "4 1 5\n1 4 5\n5 5 10"):
        assert is_survo(answer, puzzle, [1, 1, 4, 4])


@pytest.mark.skipif(bool(sandbox.available()), reason=sandbox.available() or "works")
def test_programs_whose_output_is_asked_for_run_in_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    task = _domain("codeio-easy").task(3)
    assert "def main_solution" in task.prompt[0].text and len(task.reference) <= 300
    monkeypatch.setattr("envs.sandbox.available", lambda: "no sandbox")
    with pytest.raises(sandbox.SandboxDown, match="no sandbox"):
        make("codeio", seed=77).task(0)


def test_no_sokoban_is_solved_before_it_starts() -> None:
    for level in ("-easy", ""):
        for index in range(12):
            task = _domain(f"sokoban{level}").task(index)
            assert task.reference and score_text(_domain(f"sokoban{level}"), task, "").value == 0.0


@pytest.mark.parametrize("dataset", ["list_functions", "pool_matrix", "chain_sum"])
def test_threads_make_the_same_tasks_as_one_after_the_other(dataset: str) -> None:
    """Also where the library draws from the process's global random streams, which come out undisturbed."""
    alone, shared = Source(dataset, 77, {}), Source(dataset, 77, {})
    expected = [repr(alone.entry(index)) for index in range(30)]
    random.seed(5)
    before = random.getstate()
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda index: repr(shared.entry(index)), range(30)))
    assert made == expected and random.getstate() == before
