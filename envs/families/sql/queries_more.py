"""More questions with the query that answers each: dates, texts, pivots, hierarchies, groups, runs, NULLs, and changes.

The form of a line is that of `envs.families.sql.queries`.  Called by `envs.families.sql.tasks`.
"""

from __future__ import annotations

from envs.families.sql.queries import Line

DATES: tuple[Line, ...] = (
    (0, "Give each year that occurs in {day} of the {children} (a text of four digits) with the number of its "
        "{children}.",
     "SELECT substr({day}, 1, 4), COUNT(*) FROM {children} GROUP BY 1", False),
    (0, "Give the ids of the {children} whose {day} is from {n} months before {date} to {date}, both days included.",
     "SELECT id FROM {children} WHERE {day} >= date('{date}', '-{n} months') AND {day} <= '{date}'", False),
    (1, "For each of the {parents}, give the name and the number of days from its {since} to {date} (negative "
        "if {date} is earlier), "
     "as a whole number.",
     "SELECT name, CAST(julianday('{date}') - julianday({since}) AS INTEGER) FROM {parents}", False),
    (1, "Give the number of {children} by weekday of {day}: the weekday as a text '0' (Sunday) to '6' "
        "(Saturday) and the number, "
     "only weekdays that occur.",
     "SELECT strftime('%w', {day}), COUNT(*) FROM {children} GROUP BY 1", False),
    (1, "For each {kind}, give the first {day} of its {children}, and the last day of the month that this "
        "{day} lies in, all as "
     "texts YYYY-MM-DD.",
     "SELECT {kind}, MIN({day}), date(MIN({day}), 'start of month', '+1 month', '-1 day') FROM {children} "
     "GROUP BY {kind}", False),
    (2, "For each {one} with at least two {children}, give its name and the largest number of days between two "
        "of its {children} "
     "that follow each other in order of {day}.",
     "SELECT p.name, MAX(g) FROM (SELECT {link} AS i, CAST(julianday({day}) - julianday(LAG({day}) OVER "
     "(PARTITION BY {link} ORDER "
     "BY {day}, id)) AS INTEGER) AS g FROM {children}) t JOIN {parents} p ON p.id = t.i GROUP BY p.id HAVING "
     "COUNT(*) >= 2", False),
    (2, "Give each quarter of {day} in the form '2024-Q1' with the number of {children} and their total known "
        "{amount} (0 without "
     "any), in order of time; only quarters that occur.",
     "SELECT substr({day}, 1, 4) || '-Q' || ((CAST(substr({day}, 6, 2) AS INTEGER) + 2) / 3), COUNT(*), "
     "COALESCE(SUM({amount}), 0) "
     "FROM {children} GROUP BY 1 ORDER BY 1", True),
)  # fmt: skip
STRINGS: tuple[Line, ...] = (
    (0, "For each of the {parents}, give the name in upper case and its number of characters.",
     "SELECT UPPER(name), LENGTH(name) FROM {parents}", False),
    (0, "Give the names of the {parents} that contain the letter '{a}' or '{A}'.",
     "SELECT name FROM {parents} WHERE LOWER(name) LIKE '%{a}%'", False),
    (1, "For each of the {parents}, give a code: the first two characters of the name in lower case, a '-', "
        "and the {place} (the text "
     "'none' if unknown).",
     "SELECT LOWER(substr(name, 1, 2)) || '-' || COALESCE({place}, 'none') FROM {parents}", False),
    (1, "For each of the {parents}, give the name with every lower-case '{a}' replaced by '*', and how many "
        "there were.",
     "SELECT REPLACE(name, '{a}', '*'), LENGTH(name) - LENGTH(REPLACE(name, '{a}', '')) FROM {parents}", False),
    (2, "For each known {place}, give it with the names of its {parents} in alphabetical order, joined by ', '.",
     "SELECT {place}, (SELECT group_concat(name, ', ') FROM (SELECT name FROM {parents} q WHERE q.{place} = "
     "p.{place} ORDER BY "
     "name)) FROM {parents} p WHERE {place} IS NOT NULL GROUP BY {place}", False),
    (2, "For each of the {parents}, give its id as a text of four digits with leading zeros, followed by ':' "
        "and the last two "
     "characters of the name, in order of those two characters, then of the id.",
     "SELECT printf('%04d', id) || ':' || substr(name, -2) FROM {parents} ORDER BY substr(name, -2), id", True),
)  # fmt: skip
PIVOT: tuple[Line, ...] = (
    (0, "In one row: the number of {children} with {amount} below {v}, with one of at least {v}, and with "
        "an unknown one.",
     "SELECT COUNT(CASE WHEN {amount} < {v} THEN 1 END), COUNT(CASE WHEN {amount} >= {v} THEN 1 END), "
     "COUNT(CASE WHEN {amount} IS "
     "NULL THEN 1 END) FROM {children}", False),
    (1, "For each {link} that occurs in {children} (NULL left out): it, and in two further columns the number "
        "of its {children} of "
     "{kind} {k} and of {kind} {k2}.",
     "SELECT {link}, COUNT(CASE WHEN {kind} = '{k}' THEN 1 END), COUNT(CASE WHEN {kind} = '{k2}' THEN 1 END) "
     "FROM {children} WHERE "
     "{link} IS NOT NULL GROUP BY {link}", False),
    (1, "For each {kind}: it, the total known {amount} of its {children} in 2023 (year of {day}), and that in "
        "2024; 0 where there is "
     "none.",
     "SELECT {kind}, SUM(CASE WHEN {day} LIKE '2023%' THEN COALESCE({amount}, 0) ELSE 0 END), SUM(CASE WHEN "
     "{day} LIKE '2024%' THEN "
     "COALESCE({amount}, 0) ELSE 0 END) FROM {children} GROUP BY {kind}", False),
    (2, "For each known {place}: it, then for {kind} {k} and for {kind} {k2} the largest {amount} among the "
        "{children} of its "
     "{parents} (NULL where there is none), then the number of its {parents}; by {place}.",
     "SELECT p.{place}, MAX(CASE WHEN c.{kind} = '{k}' THEN c.{amount} END), MAX(CASE WHEN c.{kind} = '{k2}' "
     "THEN c.{amount} END), "
     "COUNT(DISTINCT p.id) FROM {parents} p LEFT JOIN {children} c ON c.{link} = p.id WHERE p.{place} IS NOT "
     "NULL GROUP BY "
     "p.{place} ORDER BY p.{place}", True),
    (2, "Unpivot the {parents}: for each, a row (id, 'place', {place}) and a row (id, 'measure', {measure} as "
        "a text), but no row for "
     "an unknown value; by id, 'measure' before 'place'.",
     "SELECT id, 'measure' AS k, CAST({measure} AS TEXT) FROM {parents} WHERE {measure} IS NOT NULL UNION ALL "
     "SELECT id, 'place', "
     "{place} FROM {parents} WHERE {place} IS NOT NULL ORDER BY 1, 2", True),
)  # fmt: skip
RECURSIVE: tuple[Line, ...] = (
    (0, "Give the names of all {parents} that come directly or through others from the {one} with id 1: those "
        "whose {mentor} is 1, "
     "those whose {mentor} is one of them, and so on (without id 1 itself).",
     "WITH RECURSIVE t(id) AS (SELECT id FROM {parents} WHERE {mentor} = 1 UNION SELECT p.id FROM {parents} p "
     "JOIN t ON p.{mentor} = "
     "t.id) SELECT name FROM {parents} WHERE id IN (SELECT id FROM t)", False),
    (1, "For each of the {parents}, give the name and its depth: 0 without a {mentor}, else one more than that "
        "of its {mentor}.",
     "WITH RECURSIVE t(id, d) AS (SELECT id, 0 FROM {parents} WHERE {mentor} IS NULL UNION ALL SELECT p.id, "
     "t.d + 1 FROM {parents} p "
     "JOIN t ON p.{mentor} = t.id) SELECT p.name, t.d FROM t JOIN {parents} p ON p.id = t.id", False),
    (1, "Give one row for each day from {date} to {n} days later (both included): the day, and the number of "
        "{parents} with {since} "
     "on or before it; in order of the day.",
     "WITH RECURSIVE t(d) AS (SELECT '{date}' UNION ALL SELECT date(d, '+1 day') FROM t WHERE d < "
     "date('{date}', '+{n} days')) SELECT "
     "d, (SELECT COUNT(*) FROM {parents} WHERE {since} <= d) FROM t ORDER BY d", True),
    (2, "For each of the {parents}, give the path of names from the one without a {mentor} at its top down to "
        "it, joined by ' > '.",
     "WITH RECURSIVE t(id, path) AS (SELECT id, name FROM {parents} WHERE {mentor} IS NULL UNION ALL SELECT "
     "p.id, t.path || ' > ' || "
     "p.name FROM {parents} p JOIN t ON p.{mentor} = t.id) SELECT path FROM t", False),
    (2, "For each of the {parents}, give the name and the total known {amount} over its own {children} and "
        "those of all {parents} that "
     "come from it directly or through others by {mentor} (0 without any).",
     "WITH RECURSIVE t(top, id) AS (SELECT id, id FROM {parents} UNION ALL SELECT t.top, p.id FROM {parents} p "
     "JOIN t ON p.{mentor} = "
     "t.id) SELECT p.name, COALESCE(SUM(c.{amount}), 0) FROM t JOIN {parents} p ON p.id = t.top LEFT JOIN "
     "{children} c ON c.{link} = "
     "t.id GROUP BY p.id", False),
)  # fmt: skip
TOP_N: tuple[Line, ...] = (
    (0, "For each {kind}, give it with the id of its earliest of the {children} by {day}, equal days by the "
        "smaller id.",
     "SELECT {kind}, id FROM (SELECT {kind}, id, ROW_NUMBER() OVER (PARTITION BY {kind} ORDER BY {day}, id) AS "
     "r FROM {children}) "
     "WHERE r = 1", False),
    (1, "For each {kind}, give it with the ids and amounts of all its {children} that have the highest known "
        "{amount} of that {kind} "
     "(all of them if several do).",
     "SELECT {kind}, id, {amount} FROM {children} c WHERE {amount} = (SELECT MAX({amount}) FROM {children} d "
     "WHERE d.{kind} = "
     "c.{kind})", False),
    (1, "For each known {place}, give it with the names of its {n} {parents} of the highest known {measure} "
        "(or as many as there are), "
     "equal ones by the smaller id.",
     "SELECT {place}, name FROM (SELECT {place}, name, ROW_NUMBER() OVER (PARTITION BY {place} ORDER BY "
     "{measure} DESC, id) AS r FROM "
     "{parents} WHERE {place} IS NOT NULL AND {measure} IS NOT NULL) WHERE r <= {n}", False),
    (2, "For each {kind}, give it with id and {amount} of those of its {children} with a known {amount} for "
        "which fewer than {n} "
     "of the {children} of this {kind} have a strictly higher {amount}; by {kind}, then the highest {amount} "
     "first, then id.",
     "SELECT {kind}, id, {amount} FROM (SELECT *, RANK() OVER (PARTITION BY {kind} ORDER BY {amount} DESC) AS "
     "r FROM {children} WHERE "
     "{amount} IS NOT NULL) WHERE r <= {n} ORDER BY {kind}, {amount} DESC, id", True),
    (2, "For each {one} with {children}, give its name and the {kind} that most of its {children} have; if "
        "several do, each of them "
     "in a row of its own.",
     "SELECT p.name, t.k FROM (SELECT {link} AS i, {kind} AS k, RANK() OVER (PARTITION BY {link} ORDER BY "
     "COUNT(*) DESC) AS r FROM "
     "{children} GROUP BY {link}, {kind}) t JOIN {parents} p ON p.id = t.i WHERE t.r = 1", False),
)  # fmt: skip
RUNS: tuple[Line, ...] = (
    (0, "Take the {children} in order of id. Give the ids of those whose {kind} differs from that of the one "
        "before (the first one "
     "is given as well).",
     "SELECT id FROM (SELECT id, {kind} AS k, LAG({kind}) OVER (ORDER BY id) AS b FROM {children}) WHERE b IS "
     "NULL OR b <> k", False),
    (1, "Take the {children} in order of id. A run is a longest stretch of neighbours with the same {kind}. "
        "Give for each run the first "
     "id, the last id, and the {kind}.",
     "SELECT MIN(id), MAX(id), k FROM (SELECT id, {kind} AS k, ROW_NUMBER() OVER (ORDER BY id) - ROW_NUMBER() "
     "OVER (PARTITION BY "
     "{kind} ORDER BY id) AS g FROM {children}) GROUP BY k, g", False),
    (1, "Take the {children} of {kind} {k} in order of id. Give each pair of ids that follow each other in it "
        "and are not neighbouring "
     "numbers: the two ids, and how many numbers lie between them.",
     "SELECT b, id, id - b - 1 FROM (SELECT id, LAG(id) OVER (ORDER BY id) AS b FROM {children} WHERE {kind} = "
     "'{k}') WHERE id > b + 1",
     False),
    (2, "For each {kind}, take its {children} in order of id. Give the {kind} with the length of the longest "
        "run of them, in this "
     "order, with {amount} of at least {v} (an unknown one ends a run; 0 where there is none).",
     "SELECT {kind}, COALESCE(MAX(CASE WHEN g > 0 THEN n END), 0) FROM (SELECT {kind}, g, COUNT(*) AS n FROM "
     "(SELECT {kind}, CASE WHEN "
     "{amount} >= {v} THEN 1 + r - ROW_NUMBER() OVER (PARTITION BY {kind}, {amount} >= {v} ORDER BY id) END AS "
     "g FROM (SELECT *, "
     "ROW_NUMBER() OVER (PARTITION BY {kind} ORDER BY id) AS r FROM {children})) GROUP BY {kind}, g) GROUP BY "
     "{kind}", False),
)  # fmt: skip
NULLS: tuple[Line, ...] = (
    (0, "For each of the {parents}, give the name and the {measure}, with -1 for an unknown one.",
     "SELECT name, COALESCE({measure}, -1) FROM {parents}", False),
    (0, "Give the ids of the {children} whose {amount} is not {v}; an unknown {amount} is not {v}.",
     "SELECT id FROM {children} WHERE {amount} IS NOT {v}", False),
    (1, "Give the names of the {parents} whose id is not the {link} of any of the {children} with {amount} "
        "above {v} (some {children} "
     "have no {link}).",
     "SELECT name FROM {parents} WHERE id NOT IN (SELECT {link} FROM {children} WHERE {amount} > {v} AND "
     "{link} IS NOT NULL)", False),
    (1, "In one row: the number of {parents}, of those with a known {measure}, the mean of the known {measure} "
        "values, and the mean if "
     "an unknown {measure} counts as 0 (means not rounded; NULL where there is nothing to take the mean of).",
     "SELECT COUNT(*), COUNT({measure}), AVG({measure}), AVG(COALESCE({measure}, 0)) FROM {parents}", False),
    (2, "Give all pairs of ids of two different {parents} (the smaller id first) whose {place} is the same, "
        "where two unknown ones are "
     "the same too.",
     "SELECT a.id, b.id FROM {parents} a JOIN {parents} b ON a.id < b.id AND a.{place} IS b.{place}", False),
    (2, "For each of the {children}: id, and as 'label' its {amount} as a text if known, else the {measure} of "
        "its {one} as a text "
     "if known, else the text '?'.",
     "SELECT c.id, COALESCE(CAST(c.{amount} AS TEXT), CAST(p.{measure} AS TEXT), '?') AS label FROM {children} "
     "c LEFT JOIN {parents} p "
     "ON p.id = c.{link}", False),
)  # fmt: skip

QUERIES: tuple[tuple[Line, ...], ...] = (DATES, STRINGS, PIVOT, RECURSIVE, TOP_N, RUNS, NULLS)

UPDATES: tuple[Line, ...] = (
    (0, "Raise the {measure} of all {parents} in {place} {p} by {n} (an unknown one stays unknown).",
     "UPDATE {parents} SET {measure} = {measure} + {n} WHERE {place} = '{p}'", False),
    (0, "Set the {amount} to 0 for all {children} of {kind} {k} where it is unknown.",
     "UPDATE {children} SET {amount} = 0 WHERE {kind} = '{k}' AND {amount} IS NULL", False),
    (1, "Set the {measure} of each of the {parents} that has at least one of the {children} with a known "
        "{amount} to the largest "
     "{amount} of its {children}; leave the others as they are.",
     "UPDATE {parents} SET {measure} = (SELECT MAX({amount}) FROM {children} c WHERE c.{link} = {parents}.id) "
     "WHERE EXISTS (SELECT 1 "
     "FROM {children} c WHERE c.{link} = {parents}.id AND c.{amount} IS NOT NULL)", False),
    (1, "Exchange the two kinds: {children} of {kind} {k} become {k2}, and those of {kind} {k2} become {k}.",
     "UPDATE {children} SET {kind} = CASE {kind} WHEN '{k}' THEN '{k2}' ELSE '{k}' END WHERE {kind} IN ('{k}', "
     "'{k2}')", False),
    (2, "Set the {measure} to 0 for all {parents} whose {measure} is strictly below the mean known {measure} "
        "of all {parents} (as it "
     "is before the statement), unless they have {children} of {kind} {k}.",
     "UPDATE {parents} SET {measure} = 0 WHERE {measure} < (SELECT AVG({measure}) FROM {parents}) AND NOT "
     "EXISTS (SELECT 1 FROM "
     "{children} c WHERE c.{link} = {parents}.id AND c.{kind} = '{k}')", False),
    (2, "Set the {amount} of the latest of the {children} of each {kind} (by {day}, equal days the larger id) to {w}.",
     "UPDATE {children} SET {amount} = {w} WHERE id IN (SELECT id FROM (SELECT id, ROW_NUMBER() OVER "
     "(PARTITION BY {kind} ORDER BY "
     "{day} DESC, id DESC) AS r FROM {children}) WHERE r = 1)", False),
)  # fmt: skip
DELETES: tuple[Line, ...] = (
    (0, "Delete all {children} with {day} before {date} and {amount} below {w}.",
     "DELETE FROM {children} WHERE {day} < '{date}' AND {amount} < {w}", False),
    (0, "Delete all {children} that belong to no {one} ({link} unknown) or have an unknown {amount}.",
     "DELETE FROM {children} WHERE {link} IS NULL OR {amount} IS NULL", False),
    (1, "Delete all {children} of {parents} in {place} {p}.",
     "DELETE FROM {children} WHERE {link} IN (SELECT id FROM {parents} WHERE {place} = '{p}')", False),
    (1, "Delete all {parents} that have no {children} and are the {mentor} of nobody.",
     "DELETE FROM {parents} WHERE id NOT IN (SELECT {link} FROM {children} WHERE {link} IS NOT NULL) AND id "
     "NOT IN (SELECT {mentor} "
     "FROM {parents} WHERE {mentor} IS NOT NULL)", False),
    (2, "Keep, of the {children} with the same {link} and {kind} (two unknown {link} values are the same), "
        "only the one with the "
     "smallest id; delete the others.",
     "DELETE FROM {children} WHERE id NOT IN (SELECT MIN(id) FROM {children} GROUP BY {link}, {kind})", False),
    (2, "Delete the {children} whose {amount} is strictly below the mean known {amount} of their {kind} (means "
        "as they are before the "
     "statement).",
     "DELETE FROM {children} WHERE id IN (SELECT c.id FROM {children} c WHERE c.{amount} < (SELECT "
     "AVG(d.{amount}) FROM {children} d "
     "WHERE d.{kind} = c.{kind}))", False),
)  # fmt: skip
INSERTS: tuple[Line, ...] = (
    (0, "Insert one of the {children} with id 900, {link} 2, {kind} {k}, {amount} {v} and {day} {date}.",
     "INSERT INTO {children} VALUES (900, 2, '{k}', {v}, '{date}')", False),
    (1, "For each of the {parents} without {children}, insert one of the {children}: id = 900 + the id of the "
        "{one}, {link} = that "
     "id, {kind} {k}, an unknown {amount}, and {day} = the {since} of the {one}.",
     "INSERT INTO {children} SELECT 900 + id, id, '{k}', NULL, {since} FROM {parents} WHERE id NOT IN (SELECT "
     "{link} FROM {children} "
     "WHERE {link} IS NOT NULL)", False),
    (1, "Copy all {children} of {kind} {k}: the copies have an id larger by 500, {kind} {k2}, and the same "
        "other values.",
     "INSERT INTO {children} SELECT id + 500, {link}, '{k2}', {amount}, {day} FROM {children} WHERE {kind} = "
     "'{k}'", False),
    (2, "For each known {place}, insert one of the {parents}: its id is 800 plus the smallest id of the "
        "{parents} there, its name the "
     "{place}, its {place} also the {place}, its {measure} the total known {measure} there (NULL without any), "
     "its {since} "
     "{date}, and its {mentor} that smallest id.",
     "INSERT INTO {parents} SELECT 800 + MIN(id), {place}, {place}, SUM({measure}), '{date}', MIN(id) FROM "
     "{parents} WHERE {place} IS "
     "NOT NULL GROUP BY {place}", False),
    (2, "Insert the {parents} with the ids 1, 2 and 700, all named 'Neo', with {place} {p}, {measure} {v}, "
        "{since} {date} and no "
     "{mentor}; where the id is taken, change nothing but the {measure} of the row that has it, to {v}.",
     "INSERT INTO {parents} VALUES (1, 'Neo', '{p}', {v}, '{date}', NULL), (2, 'Neo', '{p}', {v}, '{date}', "
     "NULL), (700, 'Neo', "
     "'{p}', {v}, '{date}', NULL) ON CONFLICT(id) DO UPDATE SET {measure} = excluded.{measure}", False),
)  # fmt: skip
