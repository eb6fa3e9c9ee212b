"""Programming: writing, reading, repairing and testing small programs.

In: an index.  Out: single-turn tasks (see `envs.skills`).  Listed in `envs.families`.  Whatever a model writes runs
in the sandbox only, and its verdict is made outside of it (`envs.grading`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.domain import Domain, Family
from envs.families.code import algorithms, lists, machines, patterns, performance, records, review, structures, tracing
from envs.families.code.common import PROGRAMS, passes, three, varied
from envs.sandbox import Programs
from envs.skills import Ask, Judge, Skill, skill_domains


def _written(
    name: str, ask: Ask, levels: Mapping[str, Mapping[str, Any]], judge: Judge = passes, programs: Programs = PROGRAMS
) -> Skill:
    """A skill whose answer is a program in a fenced block."""
    return Skill(name=name, ask=varied(ask), levels=levels, judge=judge, tagged=False, programs=programs)


SKILLS = (
    # functions from a description
    _written("list_pipeline", lists.ask_list_pipeline, three({"steps": 2}, {"steps": 4}, {"steps": 7})),
    _written("text_pipeline", lists.ask_text_pipeline, three({"steps": 2}, {"steps": 4}, {"steps": 7})),
    _written(
        "record_report",
        records.ask_record_report,
        three({"filters": 0, "aggregates": 1}, {"filters": 1, "aggregates": 2}, {"filters": 2, "aggregates": 3}),
    ),
    _written("parse_format", records.ask_parse_format, three({"features": 1}, {"features": 3}, {"features": 6})),
    _written(
        "tree_fold",
        structures.ask_tree_fold,
        three(
            {"depth": 3, "width": 3, "two_rules": False},
            {"depth": 4, "width": 4, "two_rules": True},
            {"depth": 7, "width": 4, "two_rules": True},
        ),
    ),
    _written(
        "intervals",
        structures.ask_intervals,
        three(
            {"kinds": ("busiest", "covered"), "most": 5},
            {"kinds": ("merge", "gaps", "covered", "busiest", "rooms"), "most": 9},
            {"kinds": ("merge", "gaps", "rooms", "most_disjoint"), "most": 18},
        ),
    ),
    _written(
        "dates",
        structures.ask_dates,
        three({"kinds": 3, "span": 100}, {"kinds": 7, "span": 500}, {"kinds": 7, "span": 3000}),
    ),
    _written(
        "stateful_class",
        structures.ask_stateful_class,
        three({"methods": 2, "calls": 10}, {"methods": 4, "calls": 20}, {"methods": 7, "calls": 40}),
        review.judge_class,
    ),
    _written("robot", algorithms.ask_robot, three({"commands": 2}, {"commands": 4}, {"commands": 5})),
    _written(
        "best_choice",
        algorithms.ask_best_choice,
        three(
            {"kinds": (4, 6), "most": 9}, {"kinds": tuple(range(8)), "most": 14}, {"kinds": (0, 1, 2, 3, 7), "most": 30}
        ),
    ),
    _written(
        "fast_function",
        performance.ask_fast,
        three(
            {"size": 40_000, "kinds": (0, 2)},
            {"size": 60_000, "kinds": (0, 1, 2, 5)},
            {"size": 100_000, "kinds": (1, 3, 4)},
        ),
        performance.judge_fast,
        performance.FAST_PROGRAMS,
    ),
    _written(
        "stdin_program",
        performance.ask_stdin_program,
        three(
            {"kinds": (0, 1, 5), "size": 6},
            {"kinds": (0, 1, 2, 4, 5, 6, 7), "size": 12},
            {"kinds": (2, 3, 4, 6, 7), "size": 20},
        ),
        performance.judge_stdin,
    ),
    # changing and testing
    _written(
        "repair",
        review.ask_repair,
        three({"last": 8, "failing": 3}, {"last": 14, "failing": 1}, {"last": 14, "failing": 0}),
    ),
    Skill(
        name="fill_in",
        ask=review.ask_fill_in,
        judge=review.judge_fill_in,
        levels=three({"last": 8, "size": 5}, {"last": 14, "size": 9}, {"last": 14, "size": 15}),
        programs=PROGRAMS,
    ),
    Skill(
        name="write_tests",
        ask=review.ask_write_tests,
        judge=review.judge_tests,
        levels=three(
            {"last": 9, "num_mutants": 3, "most": 5},
            {"last": 14, "num_mutants": 5, "most": 6},
            {"last": 14, "num_mutants": 9, "most": 6},
        ),
        needs_sandbox=True,
    ),
    Skill(
        name="predict_input",
        ask=review.ask_predict_input,
        judge=review.judge_input,
        levels=three(
            {"last": 9, "results_asked": 1}, {"last": 14, "results_asked": 2}, {"last": 14, "results_asked": 4}
        ),
        needs_sandbox=True,
    ),
    Skill(
        name="write_regex",
        ask=patterns.ask_write_regex,
        judge=patterns.judge_regex,
        levels=three({"parts": 1}, {"parts": 2}, {"parts": 4}),
        needs_sandbox=True,
    ),
    # reading
    Skill(name="bug_line", ask=review.ask_bug_line, levels=three({"last": 4}, {"last": 10}, {"last": 14})),
    Skill(
        name="same_functions",
        ask=review.ask_same_functions,
        levels=three({"options": 3}, {"options": 5}, {"options": 7}),
    ),
    Skill(
        name="regex_matches",
        ask=patterns.ask_regex_matches,
        levels=three({"parts": 2, "texts": 4}, {"parts": 4, "texts": 7}, {"parts": 6, "texts": 12}),
    ),
    Skill(
        name="predict_output",
        ask=tracing.ask_predict_output,
        judge=tracing.same_lines,
        levels=three({"statements": 2, "nesting": 1}, {"statements": 4, "nesting": 2}, {"statements": 8, "nesting": 3}),
    ),
    Skill(
        name="aliasing",
        ask=tracing.ask_aliasing,
        judge=tracing.same_lines,
        levels=three({"steps": 2}, {"steps": 5}, {"steps": 9}),
    ),
    Skill(
        name="exceptions",
        ask=tracing.ask_exceptions,
        judge=tracing.same_lines,
        levels=three({"functions": 1, "calls": 2}, {"functions": 2, "calls": 2}, {"functions": 3, "calls": 4}),
    ),
    Skill(
        name="method_dispatch",
        ask=tracing.ask_method_dispatch,
        judge=tracing.same_lines,
        levels=three({"classes": 2, "calls": 1}, {"classes": 3, "calls": 3}, {"classes": 6, "calls": 5}),
    ),
    Skill(
        name="generators",
        ask=tracing.ask_generators,
        judge=tracing.same_lines,
        levels=three({"stages": 1, "pulls": 2}, {"stages": 2, "pulls": 3}, {"stages": 4, "pulls": 4}),
    ),
    Skill(
        name="stack_machine",
        ask=machines.ask_stack_machine,
        judge=tracing.same_lines,
        levels=three({"length": 6}, {"length": 14}, {"length": 30}),
    ),
    Skill(
        name="register_machine",
        ask=machines.ask_register_machine,
        levels=three({"length": 2, "most": 25}, {"length": 5, "most": 60}, {"length": 10, "most": 150}),
    ),
    Skill(
        name="count_steps",
        ask=tracing.ask_count_steps,
        judge=tracing.same_lines,
        levels=three(
            {"loops": 1, "low": 50, "high": 400},
            {"loops": 2, "low": 50, "high": 300},
            {"loops": 3, "low": 30, "high": 90},
        ),
    ),
)


def domains() -> list[Domain]:
    return skill_domains("code", SKILLS)


FAMILY = Family(
    name="code",
    domains=domains,
    about=(
        "Writing, reading, repairing and testing small Python programs. Functions, classes and whole programs "
        "are written from a "
        "generated specification and judged by hidden tests, all or nothing; each specification has a verified "
        "reference "
        "solution. Other skills ask what a program prints, for which input a function gives a result, which "
        "line is wrong, or for "
        "tests that tell a right implementation from mutants. What a model writes runs in the sandbox, which "
        "sees arguments but no "
        "expected results, so a program cannot forge its verdict. Everything is generated here, from no data "
        "set. A trap: results "
        "are compared by type as well, so 1.0 or True is no 1."
    ),
    excluded={
        "human_eval": (
            "the 164 problems are a public test set, and the split of this project is decided by a hash of the "
            "prompt: four fifths of "
            "them would be trained on"
        ),
    },
)
