"""The half of the SQL family that runs in the sandbox's fork server: a model's statements on hidden databases.

In: a world, a seed, our statement and the model's.  Out: 1.0 where both come to the same, else 0.0.  Called by name
through `envs.sandbox.number`; `rows_of` and `same_rows` also by this package with its own statements.

SQLite itself is told what a statement may do (an authorizer, limits of sizes and of steps); the process around it,
which has no network and no files, is killed after a limit of CPU time.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from envs.families.sql.worlds import WORLDS, Row, World, hidden_databases

MOST_ROWS, MOST_STEPS = 5_000, 3_000_000
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
CHANGES = {
    "UPDATE": READING | {sqlite3.SQLITE_UPDATE},
    "DELETE": READING | {sqlite3.SQLITE_DELETE},
    "INSERT": READING | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE},
    "CREATE": READING
    | {
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_REINDEX,
    },
}
NOT_ALLOWED = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
FAILURES = (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError)


def guard(connection: sqlite3.Connection, allowed: set[int], tables: Sequence[str] = ()) -> None:
    """From here on the connection does what is allowed and nothing else, and not for long.

    Where `tables` are named, only those are changed.
    """

    def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action not in allowed or (action == sqlite3.SQLITE_FUNCTION and second in NOT_ALLOWED):
            return sqlite3.SQLITE_DENY
        changes = action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)
        return sqlite3.SQLITE_DENY if changes and tables and first not in tables else sqlite3.SQLITE_OK

    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 200_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 20_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100)
    connection.set_authorizer(authorize)
    steps = [0]

    def count() -> int:
        steps[0] += 1_000
        return int(steps[0] > MOST_STEPS)

    connection.set_progress_handler(count, 1_000)


def rows_of(connection: sqlite3.Connection, query: str) -> list[Row]:
    """All rows; ValueError where there are too many, sqlite3.Error for what SQLite refuses."""
    rows = connection.execute(query).fetchmany(MOST_ROWS + 1)
    if len(rows) > MOST_ROWS:
        raise ValueError("too many rows")
    return rows


def same_rows(found: Sequence[Row], right: Sequence[Row], ordered: bool) -> bool:
    """Equal rows, in this order or in any; 1 equals 1.0, NULL equals NULL, a text is no number."""
    if len(found) != len(right) or any(len(row) != len(right[0]) for row in found):
        return False
    if not ordered:
        found, right = sorted(found, key=_order), sorted(right, key=_order)
    return all(_same(a, b) for one, other in zip(found, right, strict=True) for a, b in zip(one, other, strict=True))


def _order(row: Row) -> list[tuple[int, float, str]]:
    """NULLs, then numbers up to rounding, then texts."""
    return [
        (0, 0.0, "") if v is None else (1, round(float(v), 6), "") if isinstance(v, int | float) else (2, 0.0, str(v))
        for v in row
    ]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return type(a) is type(b) and bool(a == b)


def judge_query(world_name: str, seed: int, gold: str, query: str, ordered: bool) -> float:
    """Whether one read-only statement gives the same rows as ours on every hidden database."""
    world = WORLDS[world_name]
    for connection in hidden_databases(world, seed):
        right = rows_of(connection, gold)
        guard(connection, READING)
        try:
            if not same_rows(rows_of(connection, query), right, ordered):
                return 0.0
        except FAILURES:
            return 0.0
    return 1.0


def judge_change(world_name: str, seed: int, gold: str, statement: str, verb: str) -> float:
    """Whether one UPDATE, DELETE or INSERT leaves every hidden database as ours does."""
    world = WORLDS[world_name]
    for right, found in zip(hidden_databases(world, seed), hidden_databases(world, seed), strict=True):
        right.execute(gold)
        guard(found, CHANGES[verb], (world.parents, world.children))
        try:
            rows_of(found, statement)
        except FAILURES:
            return 0.0
        found.set_authorizer(None)
        found.set_progress_handler(None, 0)
        if any(
            not same_rows(_table(found, table), _table(right, table), False)
            for table in (world.parents, world.children)
        ):
            return 0.0
    return 1.0


def _table(connection: sqlite3.Connection, table: str) -> list[Row]:
    return rows_of(connection, f"SELECT * FROM {table}")


def judge_schema(table: str, columns: Sequence[str], statement: str, trials: Sequence[Sequence[Any]]) -> float:
    """Whether a CREATE TABLE makes a table that takes and refuses each of the inserts as it should.

    A trial is (statement, is accepted); all are tried one after the other.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    guard(connection, CHANGES["CREATE"])
    try:
        rows_of(connection, statement)
        connection.set_authorizer(None)
        connection.execute("PRAGMA foreign_keys = ON")
        found = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if [str(name).casefold() for name in found] != [name.casefold() for name in columns]:
            return 0.0
        for trial, accepted in trials:
            try:
                answer = connection.execute(trial).fetchall()
                if not accepted or (trial.startswith("SELECT") and answer != [(1,)]):
                    return 0.0
            except sqlite3.IntegrityError:
                if accepted:
                    return 0.0
    except FAILURES:
        return 0.0
    return 1.0


_INSERT = re.compile(r"\s*INSERT\s", re.IGNORECASE)


def judge_difference(
    world_name: str, first: str, second: str, statements: Sequence[str], most: int, low: int, num_ids: int
) -> float:
    """Whether rows that a model inserts into empty tables make two of our queries differ."""
    world: World = WORLDS[world_name]
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for create in world.schema:
        connection.execute(create)
    guard(connection, CHANGES["INSERT"], (world.parents, world.children))
    try:
        for statement in statements:
            if not _INSERT.match(statement):
                return 0.0
            rows_of(connection, statement)
        connection.set_authorizer(None)
        ids = [row[0] for table in (world.parents, world.children) for row in _table(connection, table)]
        if len(ids) > most or any(not isinstance(each, int) or not low <= each < low + num_ids for each in ids):
            return 0.0
        return float(not same_rows(rows_of(connection, first), rows_of(connection, second), False))
    except FAILURES:
        return 0.0
