"""The SQL family: reference queries against plain Python, and orders that are total."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import date
from itertools import groupby, pairwise
from typing import Any

import pytest

from envs.families.sql import queries as q
from envs.families.sql import queries_more as more
from envs.families.sql.inside import rows_of, same_rows
from envs.families.sql.tasks import drawn
from envs.families.sql.worlds import HIDDEN, WORLDS, hidden_databases, instance

Row = tuple[Any, ...]
Parents = list[Row]
Children = list[Row]


def _runs(parents: Parents, children: Children) -> list[Row]:
    groups = [(kind, list(rows)) for kind, rows in groupby(children, key=lambda row: row[2])]
    return [(rows[0][0], rows[-1][0], kind) for kind, rows in groups]


def _longest(parents: Parents, children: Children, low: int) -> list[Row]:
    found = []
    for kind in {row[2] for row in children}:
        flags = [row[3] is not None and row[3] >= low for row in children if row[2] == kind]
        found.append((kind, max((len(list(run)) for good, run in groupby(flags) if good), default=0)))
    return found


def _depths(parents: Parents, children: Children) -> list[Row]:
    mentor = {row[0]: row[5] for row in parents}

    def depth(number: int) -> int:
        return 0 if mentor[number] is None else 1 + depth(mentor[number])

    return [(row[1], depth(row[0])) for row in parents]


def _all_below(parents: Parents, children: Children) -> list[Row]:
    def total(number: int) -> int:
        own = sum(row[3] or 0 for row in children if row[1] == number)
        return own + sum(total(row[0]) for row in parents if row[5] == number)

    return [(row[1], total(row[0])) for row in parents]


def _medians(parents: Parents, children: Children) -> list[Row]:
    amounts: dict[str, list[int]] = defaultdict(list)
    for row in children:
        if row[3] is not None:
            amounts[row[2]].append(row[3])
    return [(kind, sorted(values)[(len(values) - 1) // 2]) for kind, values in amounts.items()]


def _modes(parents: Parents, children: Children) -> list[Row]:
    found = []
    for parent in parents:
        counts = Counter(row[2] for row in children if row[1] == parent[0])
        found += [(parent[1], kind) for kind, count in counts.items() if count == max(counts.values())]
    return found


def _every_kind(parents: Parents, children: Children) -> list[Row]:
    kinds = {row[2] for row in children}
    return [(p[1],) for p in parents if kinds and {row[2] for row in children if row[1] == p[0]} == kinds]


def _one_of_two_months(parents: Parents, children: Children) -> list[Row]:
    return [(month,) for month in {row[4][:7] for row in parents} ^ {row[4][:7] for row in children}]


def _label(parents: Parents, children: Children) -> list[Row]:
    measures = {row[0]: row[3] for row in parents}
    found = []
    for row in children:
        known = row[3] if row[3] is not None else measures.get(row[1])
        found.append((row[0], "?" if known is None else str(known)))
    return found


def _same_place(parents: Parents, children: Children) -> list[Row]:
    return [(a[0], b[0]) for a in parents for b in parents if a[0] < b[0] and a[2] == b[2]]


def _in_order(parents: Parents, children: Children, n: int) -> list[Row]:
    order = sorted(children, key=lambda row: (row[3] is None, row[3] or 0, -row[0]))
    return [(row[0],) for row in order[2 : n + 4]]


def _running(parents: Parents, children: Children) -> list[Row]:
    known = sorted((row for row in children if row[3] is not None), key=lambda row: (row[4], row[0]))
    return [(row[0], sum(x[3] for x in known[: i + 1] if x[2] == row[2])) for i, row in enumerate(known)]


def _before(parents: Parents, children: Children) -> list[Row]:
    found, last = [], dict[str, int]()
    for row in sorted(children, key=lambda row: (row[4], row[0])):
        found.append((row[0], last.get(row[2])))
        last[row[2]] = row[0]
    return found


def _moving(parents: Parents, children: Children) -> list[Row]:
    known = sorted((row for row in children if row[3] is not None), key=lambda row: (row[4], row[0]))
    parts = [[x[3] for x in known[max(0, i - 3) : i + 1]] for i in range(len(known))]
    return [(row[0], sum(part) / len(part)) for row, part in zip(known, parts, strict=True)]


def _ranks(parents: Parents, children: Children) -> list[Row]:
    known = [row for row in parents if row[2] is not None and row[3] is not None]
    found = []
    for row in known:
        here = {x[3] for x in known if x[2] == row[2]}
        found.append((row[1], 1 + sum(x > row[3] for x in here), max(here) - row[3]))
    return found


def _gaps(parents: Parents, children: Children) -> list[Row]:
    found = []
    for parent in parents:
        days = sorted(date.fromisoformat(row[4]) for row in children if row[1] == parent[0])
        if len(days) >= 2:
            found.append((parent[1], max((b - a).days for a, b in pairwise(days))))
    return found


def _top(parents: Parents, children: Children) -> list[Row]:
    known = [row for row in children if row[3] is not None]
    best = [row for row in known if sum(x[2] == row[2] and x[3] > row[3] for x in known) < 3]
    return [(row[2], row[0], row[3]) for row in sorted(best, key=lambda row: (row[2], -row[3], row[0]))]


def _quarters(parents: Parents, children: Children) -> list[Row]:
    totals: dict[str, list[int]] = defaultdict(list)
    for row in children:
        totals[f"{row[4][:4]}-Q{(int(row[4][5:7]) - 1) // 3 + 1}"].append(row[3] or 0)
    return [(quarter, len(values), sum(values)) for quarter, values in sorted(totals.items())]


def _no_shared_kind(parents: Parents, children: Children) -> list[Row]:
    first = {row[2] for row in children if row[1] == 1}
    return [(p[1],) for p in parents if not first & {row[2] for row in children if row[1] == p[0]}]


def _above_mean_total(parents: Parents, children: Children) -> list[Row]:
    totals = {
        p[1]: sum(row[3] for row in children if row[1] == p[0] and row[3] is not None)
        for p in parents
        if any(row[1] == p[0] and row[3] is not None for row in children)
    }
    return [(name,) for name, total in totals.items() if total * len(totals) > sum(totals.values())]


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (q.WINDOW[2], _running),
        (q.WINDOW[3], _before),
        (q.WINDOW[4], _moving),
        (q.WINDOW[5], _ranks),
        (more.DATES[5], _gaps),
        (more.DATES[6], _quarters),
        (more.TOP_N[3], _top),
        (q.ANTI_JOIN[5], _no_shared_kind),
        (q.SUBQUERY[4], _above_mean_total),
        (more.RUNS[1], _runs),
        (more.RUNS[3], lambda p, c: _longest(p, c, 40)),
        (more.RECURSIVE[1], _depths),
        (more.RECURSIVE[4], _all_below),
        (q.SUBQUERY[5], _medians),
        (more.TOP_N[4], _modes),
        (q.ANTI_JOIN[4], _every_kind),
        (q.SET_OPERATIONS[4], _one_of_two_months),
        (more.NULLS[4], _same_place),
        (more.NULLS[5], _label),
        (q.FILTER_SORT[4], lambda p, c: _in_order(p, c, 3)),
        (q.OUTER_JOIN[0], lambda p, c: [(r[1], sum(x[1] == r[0] for x in c)) for r in p]),
        (q.ANTI_JOIN[0], lambda p, c: [(r[1],) for r in p if all(x[1] != r[0] for x in c)]),
        (q.WINDOW[1], lambda p, c: [(r[0], sum(x[2] == r[2] for x in c)) for r in c]),
    ],
)
def test_golds_agree_with_plain_python(line: q.Line, right: Callable[[Parents, Children], list[Row]]) -> None:
    for name, world in WORLDS.items():
        fill = {key: getattr(world, key) for key in world.__slots__} | {"v": 40, "n": 3, "last": 7}
        query = line[2].format(**fill)
        for seed in range(3):
            for kind, connection in zip(HIDDEN, hidden_databases(world, seed), strict=True):
                rows = instance(world, seed, kind)
                expected = right(list(rows.parents), list(rows.children))
                assert same_rows(rows_of(connection, query), expected, line[3]), (name, seed, kind)


def test_orders_that_are_asked_for_are_total() -> None:
    """Reading the tables backwards must not change an ordered result."""
    import random

    rng = random.Random(2)
    for table in (*q.QUERIES, *more.QUERIES):
        for line in table:
            if line[3]:
                world, seed, _, query, _, results = drawn(rng, [line], (0, 1, 2))
                for connection, rows in zip(hidden_databases(world, seed), results, strict=True):
                    connection.execute("PRAGMA reverse_unordered_selects = ON")
                    assert same_rows(rows_of(connection, query), rows, True), query
