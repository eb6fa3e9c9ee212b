"""Questions on a database: a query, a change, a table, a result, or rows to write; and the judges of the answers.

In: a random stream and the settings of a level.  Out: a `Question`.  Called by `envs.families.sql`.  A model's SQL runs
in the sandbox only (`envs.families.sql.inside`); the queries of this package run here as well, to find questions whose
answers differ from one hidden database to the other, so that no copied-down result is right.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from typing import Any

from envs import sandbox
from envs.families.code.common import FENCE, source_of
from envs.families.sql import queries as q
from envs.families.sql import queries_more as more
from envs.families.sql.inside import rows_of, same_rows
from envs.families.sql.queries import Line
from envs.families.sql.worlds import WORLDS, Row, World, hidden_databases, shown
from envs.sandbox import Limits
from envs.skills import Question
from envs.types import Task

LIMITS = Limits(wall_seconds=6, cpu_seconds=4)
SQL_ANSWER = (
    "Answer with one SQLite {verb} as a fenced sql code block (the last one counts) and little besides. It is "
    "run on other data "
    "as well: with more "
    "rows, equal values, many NULLs, and empty tables."
)
ROWS_RULE = {
    True: "The rows must come in the order asked for.",
    False: "The order of the rows does not matter; repeated rows do.",
}
Levels = tuple[int, ...]


def fenced(statement: str) -> str:
    return f"{FENCE}sql\n{statement}\n{FENCE}"


def fill_of(rng: random.Random, world: World) -> dict[str, Any]:
    """What stands for the words in braces."""
    k, k2 = rng.sample(world.kinds, 2)
    v, n = rng.randrange(20, 60, 5), rng.randint(2, 4)
    letter = rng.choice("aeinor")
    return {
        **{name: getattr(world, name) for name in World.__slots__},
        **{
            "v": v,
            "w": v + rng.randrange(10, 35, 5),
            "n": n,
            "last": n + 4,
            "p": rng.choice(world.places),
            "k": k,
            "k2": k2,
        },
        **{
            "date": f"{rng.choice((2023, 2024))}-{rng.randint(2, 11):02d}-{rng.randint(1, 28):02d}",
            "a": letter,
            "A": letter.upper(),
        },
    }


def results_of(world: World, seed: int, query: str) -> list[list[Row]]:
    return [rows_of(connection, query) for connection in hidden_databases(world, seed)]


def drawn(
    rng: random.Random, table: Sequence[Line], levels: Levels
) -> tuple[World, int, str, str, bool, list[list[Row]]]:
    """A question of the table whose result is not empty, and not the same, on several of the hidden databases."""
    lines = [line for line in table if line[0] in levels]
    while True:
        world, seed = WORLDS[rng.choice(sorted(WORLDS))], rng.randrange(10**9)
        _, words, query, ordered = rng.choice(lines)
        fill = fill_of(rng, world)
        words, query = words.format(**fill), query.format(**fill)
        results = results_of(world, seed, query)
        if sum(any(any(v is not None for v in row) for row in rows) for rows in results) >= 3 and not any(
            same_rows(results[0], other, ordered) for other in results[1:]
        ):
            return world, seed, words, query, ordered, results


def _query_question(rng: random.Random, table: Sequence[Line], levels: Levels, about: str) -> Question:
    world, seed, words, query, ordered, _ = drawn(rng, table, levels)
    text = f"{about}\n\n{shown(world, seed)}\n\n{words}\n\n{ROWS_RULE[ordered]} {SQL_ANSWER.format(verb='query')}"
    return Question(text, fenced(query), {"world": world.parents, "seed": seed, "query": query, "ordered": ordered})


def judge_query(answer: str, task: Task) -> float:
    """1 where the query gives the right rows on every hidden database."""
    facts, query = task.metadata, source_of(answer)
    return verdict("judge_query", query, facts["world"], facts["seed"], facts["query"], query, facts["ordered"])


def verdict(function: str, text: str, *arguments: Any) -> float:
    """The verdict of `inside.function`; 0 for what SQLite cannot be given."""
    if not text.strip() or "\0" in text:
        return 0.0
    return sandbox.number(f"envs.families.sql.inside:{function}", *arguments, limits=LIMITS)


def ask_filter_sort(rng: random.Random, *, levels: Levels) -> Question:
    """Rows of one table by conditions, in an order."""
    return _query_question(rng, q.FILTER_SORT, levels, "A database:")


def ask_join(rng: random.Random, *, levels: Levels) -> Question:
    """Rows that belong together, from two or three tables."""
    return _query_question(rng, q.JOIN, levels, "These tables belong together:")


def ask_outer_join(rng: random.Random, *, levels: Levels) -> Question:
    """Rows with and without a partner."""
    return _query_question(rng, q.OUTER_JOIN, levels, "Not every row of these tables has a partner:")


def ask_group_having(rng: random.Random, *, levels: Levels) -> Question:
    """Totals by group, and conditions on groups."""
    return _query_question(rng, q.GROUP_HAVING, levels, "A report is wanted from this database:")


def ask_window(rng: random.Random, *, levels: Levels) -> Question:
    """Running totals, ranks and neighbours."""
    return _query_question(rng, q.WINDOW, levels, "Given this database:")


def ask_set_operations(rng: random.Random, *, levels: Levels) -> Question:
    """Unions, differences and intersections of results."""
    return _query_question(rng, q.SET_OPERATIONS, levels, "Consider this database:")


def ask_anti_join(rng: random.Random, *, levels: Levels) -> Question:
    """What has none, or all, of something."""
    return _query_question(rng, q.ANTI_JOIN, levels, "Look for what is missing in this database:")


def ask_subquery(rng: random.Random, *, levels: Levels) -> Question:
    """Comparisons with totals of the whole table or of a row's own group."""
    return _query_question(rng, q.SUBQUERY, levels, "From this database:")


def ask_dates(rng: random.Random, *, levels: Levels) -> Question:
    """Years, weekdays, distances in days."""
    return _query_question(rng, more.DATES, levels, "Dates in this database are texts of the form YYYY-MM-DD:")


def ask_strings(rng: random.Random, *, levels: Levels) -> Question:
    """Texts taken apart and put together."""
    return _query_question(rng, more.STRINGS, levels, "All names in this database consist of ASCII letters:")


def ask_pivot(rng: random.Random, *, levels: Levels) -> Question:
    """Rows into columns, and back."""
    return _query_question(rng, more.PIVOT, levels, "Rearrange the data of this database:")


def ask_recursive(rng: random.Random, *, levels: Levels) -> Question:
    """Hierarchies and series."""
    about = "In this database the references within one table make no cycles (an id refers to smaller ids only):"
    return _query_question(rng, more.RECURSIVE, levels, about)


def ask_top_n(rng: random.Random, *, levels: Levels) -> Question:
    """The first ones of each group, with ties."""
    return _query_question(rng, more.TOP_N, levels, "Mind equal values in this database:")


def ask_runs(rng: random.Random, *, levels: Levels) -> Question:
    """Stretches of neighbouring rows."""
    return _query_question(rng, more.RUNS, levels, "The order of ids matters in this database:")


def ask_nulls(rng: random.Random, *, levels: Levels) -> Question:
    """Unknown values in comparisons, means and lists."""
    return _query_question(rng, more.NULLS, levels, "Unknown values are NULL in this database:")


# ---- changes ---------------------------------------------------------------------------------------------------------


def _change_question(rng: random.Random, table: Sequence[Line], levels: Levels, verb: str, about: str) -> Question:
    lines = [line for line in table if line[0] in levels]
    while True:
        world, seed = WORLDS[rng.choice(sorted(WORLDS))], rng.randrange(10**9)
        _, words, statement, _ = rng.choice(lines)
        fill = fill_of(rng, world)
        words, statement = words.format(**fill), statement.format(**fill)
        if sum(_changes(connection, statement) for connection in hidden_databases(world, seed)) >= 3:
            break
    answer = SQL_ANSWER.format(verb=f"{verb} statement")
    text = f"{about}\n\n{shown(world, seed)}\n\n{words}\n\nChange nothing else. {answer}"
    return Question(
        text, fenced(statement), {"world": world.parents, "seed": seed, "statement": statement, "verb": verb}
    )


def _changes(connection: sqlite3.Connection, statement: str) -> bool:
    return connection.execute(statement).rowcount > 0


def judge_change(answer: str, task: Task) -> float:
    """1 where the statement leaves each hidden database as ours does."""
    facts, statement = task.metadata, source_of(answer)
    return verdict(
        "judge_change", statement, facts["world"], facts["seed"], facts["statement"], statement, facts["verb"]
    )


def ask_update(rng: random.Random, *, levels: Levels) -> Question:
    """Values changed by conditions."""
    return _change_question(rng, more.UPDATES, levels, "UPDATE", "Some values of this database are to change:")


def ask_delete(rng: random.Random, *, levels: Levels) -> Question:
    """Rows removed by conditions."""
    return _change_question(rng, more.DELETES, levels, "DELETE", "Some rows of this database are to go:")


def ask_insert(rng: random.Random, *, levels: Levels) -> Question:
    """Rows added, from values or from other rows."""
    return _change_question(rng, more.INSERTS, levels, "INSERT", "Rows are to be added to this database:")
