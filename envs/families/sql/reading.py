"""Questions on given queries: what one returns, what is wrong with one, on which rows two differ; and their judges.

In: a random stream and the settings of a level.  Out: a `Question`.  Called by `envs.families.sql`.  Rows that a model
inserts get into a database in the sandbox only (`envs.families.sql.inside`).
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Iterator, Sequence

from envs.families.code.common import read_json
from envs.families.sql import queries as q
from envs.families.sql import queries_more as more
from envs.families.sql.inside import rows_of, same_rows
from envs.families.sql.queries import Line
from envs.families.sql.tasks import ROWS_RULE, SQL_ANSWER, Levels, drawn, fenced, fill_of, results_of, verdict
from envs.families.sql.worlds import WORLDS, Instance, Row, World, database, instance, shown
from envs.skills import Question
from envs.types import Task


def _differ(first: list[list[Row]], second: list[list[Row]], ordered: bool) -> bool:
    return any(not same_rows(a, b, ordered) for a, b in zip(first, second, strict=True))


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
            if _differ(results_of(world, seed, version), right, ordered):
                return version
        except (sqlite3.Error, ValueError):
            continue
    return None


def ask_repair_query(rng: random.Random, *, levels: Levels) -> Question:
    """A query with one mistake in it."""
    while True:
        world, seed, words, query, ordered, right = drawn(rng, ALL_QUERIES, levels)
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
        world, seed, _, query, _, right = drawn(rng, ALL_QUERIES, levels)
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
    return verdict("judge_difference", joined, *queries, statements, facts["most"], facts["low"], IDS)
