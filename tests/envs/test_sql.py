"""The SQL family: judges on known answers, golds against plain Python, and statements that must be refused."""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
from typing import Any

import pytest

from envs import sandbox
from envs.demonstrate import score_text
from envs.domain import Domain
from envs.families.code.common import source_of
from envs.families.sql import SKILLS, domains
from envs.families.sql.inside import READING, guard, judge_change, judge_query, judge_schema, rows_of, same_rows
from envs.families.sql.worlds import HIDDEN, WORLDS, database, instance, shown
from envs.types import Task

needs_sandbox = pytest.mark.skipif(bool(sandbox.available()), reason="no sandbox here")
DOMAINS: dict[str, Domain] = {domain.name: domain for domain in domains()}
WORLD = WORLDS["customers"]
Row = tuple[Any, ...]


def value(skill: str, task: Task, answer: str) -> float | None:
    return score_text(DOMAINS[f"sql/{skill}"], task, answer).value


def task_with(skill: str, reference: str, **facts: Any) -> Task:
    return dataclasses.replace(DOMAINS[f"sql/{skill}"].task(0), reference=reference, metadata=facts)


def test_each_skill_has_a_generator_of_its_own_and_all_levels() -> None:
    assert len(SKILLS) == 22 and len(DOMAINS) == 66
    assert len({domain.generator_id for domain in DOMAINS.values()}) == 22


# ---- comparing rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "right", "ordered", "same"),
    [
        ([(1,), (2,)], [(2,), (1,)], False, True),
        ([(1,), (2,)], [(2,), (1,)], True, False),
        ([(1,), (1,)], [(1,)], False, False),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False, False),
        ([(1.0, None)], [(1, None)], True, True),
        ([(1 + 1e-12,)], [(1,)], True, True),
        ([(1.001,)], [(1,)], True, False),
        ([("1",)], [(1,)], True, False),
        ([(None,)], [("",)], True, False),
        ([(None,)], [(0,)], True, False),
        ([(1, 2)], [(1,)], True, False),
        ([("a", 1), (None, 2), ("b", None)], [(None, 2), ("b", None), ("a", 1)], False, True),
        ([(b"a",)], [("a",)], True, False),
        ([], [], True, True),
    ],
)
def test_rows(found: list[Row], right: list[Row], ordered: bool, same: bool) -> None:
    assert same_rows(found, right, ordered) is same


# ---- databases -------------------------------------------------------------------------------------------------------


def test_databases_are_the_same_everywhere_and_differ_from_each_other() -> None:
    assert instance(WORLD, 5, "usual") == instance(WORLD, 5, "usual")
    made = {kind: instance(WORLD, 5, kind) for kind in HIDDEN}
    assert len(set(map(str, made.values()))) == len(HIDDEN)
    assert not made["empty"].children
    assert len({row[3] for row in made["ties"].children}) <= 4
    assert sum(row[3] is None for row in made["nulls"].children) > 4
    for rows in made.values():
        with_children = {row[1] for row in rows.children}
        assert len(rows.parents) not in with_children  # somebody has none
    assert shown(WORLD, 5).startswith("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT,")


# ---- queries ---------------------------------------------------------------------------------------------------------

SIMPLE = "SELECT name, credit FROM customers WHERE credit > 30 ORDER BY credit DESC, id"


@pytest.mark.parametrize(
    ("query", "ordered", "right"),
    [
        (SIMPLE, True, 1.0),
        (SIMPLE + ";", True, 1.0),
        (SIMPLE + " -- it\u2019s done \u2713", True, 1.0),
        (SIMPLE + " -- \ud800", True, 0.0),
        (
            "-- mine\nSELECT name AS n, 1.0 * credit FROM customers c WHERE NOT credit <= 30 ORDER BY 2 DESC, c.id",
            True,
            1.0,
        ),
        (
            "WITH t AS (SELECT * FROM customers) SELECT name, credit FROM t WHERE credit > 30 ORDER BY credit DESC, id",
            True,
            1.0,
        ),
        ("SELECT name, credit FROM customers WHERE credit > 30 ORDER BY credit, id", True, 0.0),
        ("SELECT name, credit FROM customers WHERE credit > 30 ORDER BY credit, id", False, 1.0),
        ("SELECT name, credit FROM customers WHERE credit > 30 ORDER BY credit DESC, id LIMIT 4", True, 0.0),
        ("SELECT name, credit FROM customers WHERE credit > 30 UNION ALL SELECT 'x', 1 WHERE 0", False, 1.0),
        ("SELECT name, credit FROM customers, (SELECT 1 UNION ALL SELECT 2) WHERE credit > 30", False, 0.0),
        ("SELECT credit, name FROM customers WHERE credit > 30", False, 0.0),
        ("SELECT name FROM customers WHERE credit > 30", False, 0.0),
        ("VALUES ('Ada', 55), ('Goran', 40)", False, 0.0),
        ("SELECT", False, 0.0),
        ("", False, 0.0),
    ],
)
def test_queries_are_judged_by_their_rows_on_every_hidden_database(query: str, ordered: bool, right: float) -> None:
    assert judge_query("customers", 11, SIMPLE, query, ordered) == right


def test_a_copied_result_is_wrong() -> None:
    rows = rows_of(database(WORLD, instance(WORLD, 11, "usual")), SIMPLE)
    copied = "VALUES " + ", ".join(f"('{name}', {credit})" for name, credit in rows)
    assert len(rows) > 1 and judge_query("customers", 11, SIMPLE, copied, False) == 0.0


REFUSED = (
    "ATTACH 'x.db' AS x",
    "PRAGMA table_info(customers)",
    "SELECT * FROM pragma_table_info('customers')",
    "SELECT 1; SELECT 2",
    "DELETE FROM customers",
    "INSERT INTO customers VALUES (99, 'x', 'y', 1, '2024-01-01', NULL)",
    "UPDATE customers SET credit = 1",
    "DROP TABLE customers",
    "CREATE TABLE x (a)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "BEGIN",
    "COMMIT",
    "VACUUM INTO 'copy.db'",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT length(zeroblob(100000000))",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t",
    "SELECT " + "(" * 300 + "1" + ")" * 300 + " + 'x'",
    "SELECT '" + "a" * 30_000 + "'",
)


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_no_short_reading_statement_is_refused(statement: str) -> None:
    connection = database(WORLD, instance(WORLD, 1, "usual"))
    guard(connection, READING)
    if "((((" not in statement:  # that one is only harmless
        with pytest.raises((sqlite3.Error, sqlite3.Warning, ValueError)):
            rows_of(connection, statement)
    assert judge_query("customers", 1, SIMPLE, statement, False) == 0.0


@needs_sandbox
def test_an_endless_query_is_no_answer_and_does_not_hang() -> None:
    task = DOMAINS["sql/join"].task(0)
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t"
    assert value("join", task, f"```sql\n{endless}\n```") == 0.0


# ---- changes ---------------------------------------------------------------------------------------------------------

RAISE = "UPDATE customers SET credit = credit + 3 WHERE city = 'Oslo'"


@pytest.mark.parametrize(
    ("statement", "right"),
    [
        (RAISE, 1.0),
        ("UPDATE customers SET credit = CASE WHEN city = 'Oslo' THEN 3 + credit ELSE credit END;", 1.0),
        ("UPDATE customers SET credit = credit + 3", 0.0),
        ("UPDATE customers SET credit = COALESCE(credit, 0) + 3 WHERE city = 'Oslo'", 0.0),
        (RAISE + "; UPDATE orders SET total = 1", 0.0),
        ("DELETE FROM customers", 0.0),
        ("UPDATE orders SET total = 1", 0.0),
        ("SELECT 1", 0.0),
        ("PRAGMA writable_schema = ON", 0.0),
        ("UPDATE sqlite_master SET sql = ''", 0.0),
    ],
)
def test_changes_are_judged_by_both_tables(statement: str, right: float) -> None:
    assert judge_change("customers", 4, RAISE, statement, "UPDATE") == right


def test_inserts_and_deletes() -> None:
    insert = "INSERT INTO orders VALUES (900, 2, 'web', 5, '2024-01-01')"
    other = "INSERT INTO orders (ordered_on, total, channel, customer_id, id) SELECT '2024-01-01', 5, 'web', 2, 900"
    assert judge_change("customers", 4, insert, other, "INSERT") == 1.0
    assert judge_change("customers", 4, insert, other.replace("900", "901"), "INSERT") == 0.0
    delete = "DELETE FROM orders WHERE total IS NULL"
    assert judge_change("customers", 4, delete, "DELETE FROM orders WHERE COALESCE(total, -1) = -1", "DELETE") == 1.0
    assert judge_change("customers", 4, delete, "DELETE FROM orders WHERE total = NULL", "DELETE") == 0.0
    assert judge_change("customers", 4, delete, "DROP TABLE orders", "DELETE") == 0.0


TRIALS = [
    ("INSERT INTO t (id, a) VALUES (1, 5)", True),
    ("INSERT INTO t (id, a) VALUES (2, 5)", False),
    ("INSERT INTO t (id, a) VALUES (3, NULL)", True),
    ("INSERT INTO t (id, a) VALUES (4, 99)", False),
    ("INSERT INTO t (id) VALUES (5)", True),
    ("SELECT a = 7 FROM t WHERE id = 5", True),
]


@pytest.mark.parametrize(
    ("statement", "right"),
    [
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER DEFAULT 7 UNIQUE CHECK (a < 90))", 1.0),
        (
            "create table T (ID integer primary key, A integer default 7, unique (A), constraint c check (not "
            "A >= 90));",
            1.0,
        ),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL DEFAULT 7 UNIQUE CHECK (a < 90))", 0.0),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER DEFAULT 7 CHECK (a < 90))", 0.0),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE CHECK (a < 90))", 0.0),
        ("CREATE TABLE t (a INTEGER DEFAULT 7 UNIQUE CHECK (a < 90), id INTEGER PRIMARY KEY)", 0.0),
        ("CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER)", 0.0),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER); DROP TABLE t", 0.0),
        ("CREATE VIEW t AS SELECT 1 AS id, 2 AS a", 0.0),
        ("", 0.0),
    ],
)
def test_schemas_are_judged_by_what_they_accept(statement: str, right: float) -> None:
    assert judge_schema("t", ["id", "a"], statement, TRIALS) == right


CLAUSES: tuple[str, ...] = (
    r" NOT NULL(?! CHECK)",
    r"(?<=TEXT) NOT NULL CHECK",
    r" UNIQUE(?! \()",
    r",\s+UNIQUE \([^)]*\)",
    r" DEFAULT \d+",
)
CLAUSES += (r" CHECK \(\w+ BETWEEN \d+ AND \d+\)", r" CHECK \(status IN \([^)]*\)\)", r",\s+CHECK \(closed >= opened\)")
CLAUSES += (r",\s+CHECK \(length\(\w+\) <= \d+\)",)


def test_a_table_that_lacks_one_of_the_rules_is_wrong() -> None:
    dropped = set()
    for index in range(12):
        facts = DOMAINS["sql/schema-hard"].task(index).metadata
        gold = source_of(DOMAINS["sql/schema-hard"].task(index).reference)
        trials = [list(each) for each in facts["trials"]]
        assert judge_schema(facts["table"], facts["columns"], gold, trials) == 1.0
        for clause in CLAUSES:
            weaker = re.sub(clause, " CHECK" if "NULL CHECK" in clause else "", gold, count=1)
            if weaker != gold:
                dropped.add(clause)
                assert judge_schema(facts["table"], facts["columns"], weaker, trials) == 0.0, weaker
    assert len(dropped) == len(CLAUSES)


# ---- results and rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ordered", "right"),
    [
        ('[["a", 1], [null, 2]]', True, 1.0),
        ('```json\n[["a", 1.0], [null, 2]]\n```', True, 1.0),
        ('[[null, 2], ["a", 1]]', False, 1.0),
        ('[[null, 2], ["a", 1]]', True, 0.0),
        ('[["a", "1"], [null, 2]]', True, 0.0),
        ('[["a", true], [null, 2]]', True, 0.0),
        ('[["a", 1], [null, 2], [null, 2]]', False, 0.0),
        ('[["a", NaN], [null, 2]]', True, 0.0),
        ("[" * 2_000, True, 0.0),
        (f"[[{'9' * 3_000}, 1], [null, 2]]", True, 0.0),
        ("a|1", True, 0.0),
    ],
)
def test_predicted_rows(answer: str, ordered: bool, right: float) -> None:
    task = task_with("predict_result", '[["a", 1], [null, 2]]', ordered=ordered)
    assert value("predict_result", task, answer) == right


APART = {
    "world": "customers",
    "first": "SELECT name FROM customers WHERE credit > 30",
    "second": "SELECT name FROM customers WHERE credit >= 30",
    "most": 1,
    "low": 200,
}
ROW = "INSERT INTO customers VALUES ({}, 'Ada', NULL, {}, '2024-01-01', NULL)"


@needs_sandbox
@pytest.mark.parametrize(
    ("statements", "right"),
    [
        ([ROW.format(200, 30)], 1.0),
        ([ROW.format(299, 30.0)], 1.0),
        ([ROW.format(200, 31)], 0.0),
        ([ROW.format(1, 30)], 0.0),
        ([ROW.format(200, 30), ROW.format(201, 3)], 0.0),
        ([ROW.format(200, 30) + ", (201, 'Bo', NULL, 1, '2024-01-01', NULL)"], 0.0),
        (["DROP TABLE customers"], 0.0),
        (["INSERT INTO nowhere VALUES (1)"], 0.0),
        ([5], 0.0),
        ([], 0.0),
    ],
)
def test_rows_that_tell_two_queries_apart(statements: list[Any], right: float) -> None:
    task = task_with("tell_apart", "[]", **APART)
    assert value("tell_apart", task, json.dumps(statements)) == right


# ---- all skills ------------------------------------------------------------------------------------------------------

HOSTILE = (
    "",
    "\0",
    "SELECT 1",
    "a" * 2_500,
    "😀",
    "\ud800",
    "```sql\n```",
    "nan",
    "[" * 1_000,
    "9" * 2_500,
    "ATTACH '/etc/passwd' AS x",
)


@needs_sandbox
@pytest.mark.parametrize("skill", [skill.name for skill in SKILLS])
def test_gold_wins_and_nonsense_does_not(skill: str) -> None:
    for level in ("", "-hard"):
        domain = DOMAINS[f"sql/{skill}{level}"]
        task = domain.task(3)
        assert score_text(domain, task, domain.gold(task, ()).text).value == 1.0
    for answer in HOSTILE:
        assert score_text(domain, task, answer).value == 0.0, answer[:20]


def test_every_question_has_its_words_filled_in() -> None:
    for name, domain in DOMAINS.items():
        for index in range(4):
            text = domain.task(index).prompt[-1].text
            assert not re.search(r"\{[a-z]", text) and text.isascii() and len(text) < 2_500, name


def test_a_broken_query_is_wrong() -> None:
    domain = DOMAINS["sql/repair_query"]
    for index in range(12):
        task = domain.task(index)
        facts = task.metadata
        broken = source_of(task.prompt[-1].text)
        assert broken != facts["query"]
        assert judge_query(facts["world"], facts["seed"], facts["query"], broken, facts["ordered"]) == 0.0
        assert judge_query(facts["world"], facts["seed"], facts["query"], facts["query"], facts["ordered"]) == 1.0
