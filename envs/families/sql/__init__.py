"""SQL: queries, changes and tables for small databases, judged by running them on other data.

In: an index.  Out: single-turn tasks (see `envs.skills`).  Listed in `envs.families`.  A model's SQL runs on SQLite in
the sandbox only, on hidden databases that the prompt does not show (`envs.families.sql.inside`).
"""

from __future__ import annotations

from typing import Any

from envs.domain import Domain, Family
from envs.families.sql import reading, schemas, tasks
from envs.skills import Ask, Judge, Skill, skill_domains

LEVELS: dict[str, dict[str, Any]] = {"easy": {"levels": (0,)}, "medium": {"levels": (0, 1)}, "hard": {"levels": (1, 2)}}


def _statement(name: str, ask: Ask, judge: Judge = tasks.judge_query) -> Skill:
    """A skill whose answer is a statement in a fenced block."""
    return Skill(name=name, ask=ask, judge=judge, levels=LEVELS, tagged=False, needs_sandbox=True)


SKILLS = (
    _statement("filter_sort", tasks.ask_filter_sort),
    _statement("join", tasks.ask_join),
    _statement("outer_join", tasks.ask_outer_join),
    _statement("group_having", tasks.ask_group_having),
    _statement("window", tasks.ask_window),
    _statement("set_operations", tasks.ask_set_operations),
    _statement("anti_join", tasks.ask_anti_join),
    _statement("subquery", tasks.ask_subquery),
    _statement("dates", tasks.ask_dates),
    _statement("strings", tasks.ask_strings),
    _statement("pivot", tasks.ask_pivot),
    _statement("recursive", tasks.ask_recursive),
    _statement("top_n", tasks.ask_top_n),
    _statement("runs", tasks.ask_runs),
    _statement("nulls", tasks.ask_nulls),
    _statement("repair_query", reading.ask_repair_query),
    _statement("update", tasks.ask_update, tasks.judge_change),
    _statement("delete", tasks.ask_delete, tasks.judge_change),
    _statement("insert", tasks.ask_insert, tasks.judge_change),
    Skill(
        name="schema",
        ask=schemas.ask_schema,
        judge=schemas.judge_schema,
        levels={"easy": {"rules": 2}, "medium": {"rules": 4}, "hard": {"rules": 7}},
        tagged=False,
        needs_sandbox=True,
    ),
    Skill(name="predict_result", ask=reading.ask_predict_result, judge=reading.judge_result, levels=LEVELS),
    Skill(
        name="tell_apart",
        ask=reading.ask_tell_apart,
        judge=reading.judge_tell_apart,
        levels=LEVELS,
        needs_sandbox=True,
    ),
)


def domains() -> list[Domain]:
    return skill_domains("sql", SKILLS)


FAMILY = Family(
    name="sql",
    domains=domains,
    about=(
        "SQL for SQLite on databases of two tables, in ten worlds from shops to museums. The prompt shows the "
        "schema and a few rows; the "
        "model writes one query, change or table, and it is run on hidden databases of the same schema with "
        "ties, with many NULLs, with "
        "an empty table and with more rows, so that a result copied from the shown rows is wrong. Rows are "
        "compared in order where "
        "the question fixes one, else as multisets; 1 equals 1.0, NULL equals NULL, and names of columns do "
        "not matter. Two skills "
        "need no query: to predict a result, and to find rows on which two queries differ. SQL runs in the "
        "sandbox, with one statement "
        "of the kind asked for, and a bound on steps. Everything is generated here. A trap: a LIMIT or a join "
        "that loses rows often "
        "works on the shown data."
    ),
)
