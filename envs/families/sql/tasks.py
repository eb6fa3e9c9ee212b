"""Questions on a database: a query, a change, a table, a result, or rows to write; and the judges of the answers.

In: a random stream and the settings of a level.  Out: a `Question`.  Called by `envs.families.sql`.  A model's SQL runs
in the sandbox only (`envs.families.sql.inside`); the queries of this package run here as well, to find questions whose
answers differ from one hidden database to the other, so that no copied-down result is right.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from envs import sandbox
from envs.families.code.common import FENCE, read_json, source_of
from envs.families.sql import queries as q
from envs.families.sql import queries_more as more
from envs.families.sql.inside import rows_of, same_rows
from envs.families.sql.queries import Line
from envs.families.sql.worlds import WORLDS, Instance, Row, World, database, hidden_databases, instance, shown
from envs.sandbox import Limits
from envs.skills import Question
from envs.types import Task

LIMITS = Limits(wall_seconds=6, cpu_seconds=4)
SQL_ANSWER = (
    "Answer with one SQLite {verb} as a fenced sql code block (the last one counts). It is run on other data "
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
    v = rng.randrange(20, 60, 5)
    letter = rng.choice("aeinor")
    return {
        **{name: getattr(world, name) for name in World.__slots__},
        **{
            "v": v,
            "w": v + rng.randrange(10, 35, 5),
            "n": rng.randint(2, 4),
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


def _results(world: World, seed: int, query: str) -> list[list[Row]]:
    return [rows_of(connection, query) for connection in hidden_databases(world, seed)]


def _differ(first: list[list[Row]], second: list[list[Row]], ordered: bool) -> bool:
    return any(not same_rows(a, b, ordered) for a, b in zip(first, second, strict=True))


def _drawn(
    rng: random.Random, table: Sequence[Line], levels: Levels
) -> tuple[World, int, str, str, bool, list[list[Row]]]:
    """A question of the table whose result is not empty, and not the same, on several of the hidden databases."""
    lines = [line for line in table if line[0] in levels]
    while True:
        world, seed = WORLDS[rng.choice(sorted(WORLDS))], rng.randrange(10**9)
        _, words, query, ordered = rng.choice(lines)
        fill = fill_of(rng, world)
        words, query = words.format(**fill), query.format(**fill)
        results = _results(world, seed, query)
        if sum(any(any(v is not None for v in row) for row in rows) for rows in results) >= 3 and not any(
            same_rows(results[0], other, ordered) for other in results[1:]
        ):
            return world, seed, words, query, ordered, results


def _query_question(rng: random.Random, table: Sequence[Line], levels: Levels, about: str) -> Question:
    world, seed, words, query, ordered, _ = _drawn(rng, table, levels)
    text = f"{about}\n\n{shown(world, seed)}\n\n{words}\n\n{ROWS_RULE[ordered]} {SQL_ANSWER.format(verb='query')}"
    return Question(text, fenced(query), {"world": world.parents, "seed": seed, "query": query, "ordered": ordered})


def judge_query(answer: str, task: Task) -> float:
    """1 where the query gives the right rows on every hidden database."""
    facts, query = task.metadata, source_of(answer)
    return _number("judge_query", query, facts["world"], facts["seed"], facts["query"], query, facts["ordered"])


def _number(function: str, text: str, *arguments: Any) -> float:
    """The verdict of `inside.function`; 0 for what SQLite cannot be given."""
    if not text.strip() or "\0" in text or not text.isascii():
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


# ---- reading, repairing and telling apart ----------------------------------------------------------------------------

ALL_QUERIES: tuple[Line, ...] = tuple(line for table in (*q.QUERIES, *more.QUERIES) for line in table)


def ask_predict_result(rng: random.Random, *, levels: Levels) -> Question:
    """The rows that a query gives on the shown data."""
    lines = [line for line in ALL_QUERIES if line[0] in levels]
    while True:
        world, seed = WORLDS[rng.choice(sorted(WORLDS))], rng.randrange(10**9)
        _, _, query, ordered = rng.choice(lines)
        query = query.format(**fill_of(rng, world))
        rows = rows_of(database(world, instance(world, seed, "shown")), query)
        whole = all(float(v).is_integer() for row in rows for v in row if not isinstance(v, str | None))
        if 2 <= len(rows) <= 9 and whole and any(v is not None for row in rows for v in row):
            break
    result = json.dumps([[v if isinstance(v, str | None) else int(v) for v in row] for row in rows])
    order = "in the order that the query gives" if ordered else "in any order"
    text = (
        f"{shown(world, seed)}\n\nWhat does this SQLite query return?\n\n{query}\n\nAnswer with a JSON list of "
        f"the rows, {order}, each "
        'a list of its values: numbers, texts in double quotes, or null (for example [[1, "a"], [2, null]]).'
    )
    return Question(text, result, {"ordered": ordered})


def judge_result(answer: str, task: Task) -> float:
    """1 for the rows of the reference, as JSON."""
    found = read_json(answer)
    if not isinstance(found, list) or not all(isinstance(row, list) for row in found):
        return 0.0
    if not all(
        v is None or type(v) in (int, str) or (type(v) is float and abs(v) < 1e15) for row in found for v in row
    ):
        return 0.0
    if any(isinstance(v, int) and abs(v) > 10**15 for row in found for v in row):
        return 0.0
    right = json.loads(task.reference)
    return float(same_rows([tuple(row) for row in found], [tuple(row) for row in right], task.metadata["ordered"]))


# Mistakes that people make: what stands in a right query, and what stands in the wrong one.
MISTAKES = (
    (r"LEFT JOIN", "JOIN"),
    (r" >= ", " > "),
    (r" > (?=[0-9])", " >= "),
    (r" < ", " <= "),
    (r" <= ", " < "),
    (r" DESC", ""),
    (r"COUNT\(DISTINCT ", "COUNT("),
    (r"COUNT\([a-z]\.id\)", "COUNT(*)"),
    (r"UNION ALL", "UNION"),
    (r"UNION(?! ALL)", "UNION ALL"),
    (r" AND (?=[a-z(])", " OR "),
    (r" OR ", " AND "),
    (r"PARTITION BY \S+ ", ""),
    (r"MAX\(", "MIN("),
    (r"MIN\(", "MAX("),
    (r"AVG\(", "SUM("),
    (r"COALESCE\((\S+), 0\)", r"\1"),
    (r"NOT EXISTS", "EXISTS"),
    (r"RANK\(\)", "ROW_NUMBER()"),
    (r" IS NOT '", " <> '"),
    (r" IS NOT (?=[0-9])", " <> "),
    (r" AND \w+ IS NOT NULL\)", ")"),
    (r"SELECT DISTINCT ", "SELECT "),
    (r" INTERSECT ", " UNION "),
    (r" EXCEPT ", " UNION "),
)


def _wrong_versions(query: str) -> Iterator[str]:
    for pattern, wrong in MISTAKES:
        for match in re.finditer(pattern, query):
            yield query[: match.start()] + match.expand(wrong) + query[match.end() :]


def _broken(
    rng: random.Random, world: World, seed: int, query: str, ordered: bool, right: list[list[Row]]
) -> str | None:
    """A wrong version that SQLite runs and whose rows differ on a hidden database; None where there is none."""
    versions = list(_wrong_versions(query))
    rng.shuffle(versions)
    for version in versions:
        try:
            if _differ(_results(world, seed, version), right, ordered):
                return version
        except (sqlite3.Error, ValueError):
            continue
    return None


def ask_repair_query(rng: random.Random, *, levels: Levels) -> Question:
    """A query with one mistake in it."""
    while True:
        world, seed, words, query, ordered, right = _drawn(rng, ALL_QUERIES, levels)
        if broken := _broken(rng, world, seed, query, ordered, right):
            break
    text = (
        f"This query does not do what it should; there is one mistake in it.\n\n{shown(world, seed)}\n\nIt "
        f"should do this: {words}\n\n"
        f"{fenced(broken)}\n\nCorrect it. {ROWS_RULE[ordered]} {SQL_ANSWER.format(verb='query')}"
    )
    return Question(text, fenced(query), {"world": world.parents, "seed": seed, "query": query, "ordered": ordered})


IDS = 100  # that the rows of a task may have


def _moved(rows: Instance, by: int) -> Instance:
    """The same rows with larger ids."""
    parents = tuple(
        (int(row[0] or 0) + by, *row[1:5], None if row[5] is None else int(row[5]) + by) for row in rows.parents
    )
    children = tuple(
        (int(row[0] or 0) + by, None if row[1] is None else int(row[1]) + by, *row[2:]) for row in rows.children
    )
    return Instance(parents, children)


def _inserts(rows: Sequence[tuple[str, Row]]) -> list[str]:
    def literal(value: int | str | None) -> str:
        return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)

    return [f"INSERT INTO {table} VALUES ({', '.join(map(literal, row))})" for table, row in rows]


def _are_apart(world: World, rows: Sequence[tuple[str, Row]], first: str, second: str) -> bool:
    connection = database(world, Instance((), ()))
    for statement in _inserts(rows):
        connection.execute(statement)
    try:
        return not same_rows(rows_of(connection, first), rows_of(connection, second), False)
    except (sqlite3.Error, ValueError):
        return False


def ask_tell_apart(rng: random.Random, *, levels: Levels) -> Question:
    """Rows on which two queries that look alike differ."""
    while True:
        world, seed, _, query, _, right = _drawn(rng, ALL_QUERIES, levels)
        other = _broken(rng, world, seed, query, False, right)
        if other is None:
            continue
        low = rng.randrange(100, 900)
        rows = _moved(instance(world, rng.randrange(10**9), "usual"), low)
        picked = [(world.parents, row) for row in rows.parents[:5]]
        picked += [(world.children, row) for row in rows.children[:7]]
        if _are_apart(world, picked, query, other):
            break
    # As few rows as can be: a model has to see where the two differ, not to fill in many rows.
    for row in rng.sample(picked, len(picked)):
        fewer = [each for each in picked if each != row]
        if fewer and _are_apart(world, fewer, query, other):
            picked = fewer
    most = len(picked) + 1
    create = "\n".join(world.schema)
    text = (
        f"The tables of this database are empty:\n\n{create}\n\nTwo queries:\n\n1. {query}\n\n2. {other}\n\n"
        "Fill the tables so that the two "
        "return different rows (as multisets: a different order alone is no difference). Answer with a JSON "
        "list of SQLite INSERT statements, each for one of the tables; "
        f"the tables may hold at most {most} rows in all, with ids from {low} to "
        f"{low + IDS - 1} only."
    )
    facts = {"world": world.parents, "first": query, "second": other, "most": most, "low": low}
    return Question(text, json.dumps(_inserts(picked)), facts)


def judge_tell_apart(answer: str, task: Task) -> float:
    """1 where the two queries differ on the model's rows."""
    statements, facts = read_json(answer), task.metadata
    if not isinstance(statements, list) or not 0 < len(statements) <= facts["most"]:
        return 0.0
    if not all(isinstance(statement, str) for statement in statements):
        return 0.0
    joined = " ".join(statements)
    queries = (facts["world"], facts["first"], facts["second"])
    return _number("judge_difference", joined, *queries, statements, facts["most"], facts["low"], IDS)


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
    return _number(
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
