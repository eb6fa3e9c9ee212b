"""What is asked of a database: questions with the query that answers each, by skill.

A line is (level from 0 to 2, question, query, whether the order of rows is asked for).  Words in braces are those of
the world (`envs.families.sql.worlds`) and of `fill_of` in `envs.families.sql.tasks`: {v} < {w} numbers, {n} and {last}
small ones, {p} a place, {k} and {k2} kinds, {date} a date.  No question asks for rounding, and each that asks for an
order asks for a total one.  Called by `envs.families.sql.tasks`.
"""

from __future__ import annotations

Line = tuple[int, str, str, bool]

FILTER_SORT: tuple[Line, ...] = (
    (0, "List name and {measure} of the {parents} whose {measure} is above {v}, the highest {measure} first, "
        "equal ones by id.",
     "SELECT name, {measure} FROM {parents} WHERE {measure} > {v} ORDER BY {measure} DESC, id", True),
    (0, "List id and {kind} of the {children} with {day} on or after {date}, in order of {day}, equal ones by id.",
     "SELECT id, {kind} FROM {children} WHERE {day} >= '{date}' ORDER BY {day}, id", True),
    (1, "List id, {kind} and {amount} of the {children} whose {kind} is {k} or {k2} and whose {amount} is from "
        "{v} to {w} (both "
     "included): by {kind} in alphabetical order, then the highest {amount} first, then by id.",
     "SELECT id, {kind}, {amount} FROM {children} WHERE {kind} IN ('{k}', '{k2}') AND {amount} BETWEEN {v} AND {w} "
     "ORDER BY {kind}, {amount} DESC, id", True),
    (1, "List id and name of the {parents} that are not in {place} {p} (an unknown {place} counts as not in "
        "{p}), by name.",
     "SELECT id, name FROM {parents} WHERE {place} IS NOT '{p}' ORDER BY name", True),
    (2, "Order all {children} by {amount} ascending with unknown amounts last, equal ones by id descending; "
        "list the ids of those "
     "at the places 3 to {last} of that order.",
     "SELECT id FROM {children} ORDER BY {amount} IS NULL, {amount}, id DESC LIMIT {last} - 2 OFFSET 2", True),
    (2, "List the id of each of the {children} whose {amount} is known and which is either of {kind} {k} with "
        "{amount} below {w}, "
     "or not of {kind} {k} and not dated ({day}) in 2023; the latest {day} first, equal ones by id.",
     "SELECT id FROM {children} WHERE {amount} IS NOT NULL AND (({kind} = '{k}' AND {amount} < {w}) OR ({kind} "
     "<> '{k}' AND "
     "{day} NOT LIKE '2023%')) ORDER BY {day} DESC, id", True),
)  # fmt: skip
JOIN: tuple[Line, ...] = (
    (0, "For each of the {children} that belongs to one of the {parents}, give its id and that {one}'s name.",
     "SELECT c.id, p.name FROM {children} c JOIN {parents} p ON p.id = c.{link}", False),
    (0, "Give name and {day} for all {children} of {kind} {k} that belong to one of the {parents}: that "
        "{one}'s name and the {day}.",
     "SELECT p.name, c.{day} FROM {children} c JOIN {parents} p ON p.id = c.{link} WHERE c.{kind} = '{k}'", False),
    (1, "List the {children} with {amount} of at least {v} that belong to {parents} in {place} {p}: id, "
        "name of the {one}, "
     "{amount}; by name, then id.",
     "SELECT c.id, p.name, c.{amount} FROM {children} c JOIN {parents} p ON p.id = c.{link} WHERE c.{amount} "
     ">= {v} AND "
     "p.{place} = '{p}' ORDER BY p.name, c.id", True),
    (1, "Give the id of each of the {children} whose {day} is before the {since} of the {one} that it belongs "
        "to, with that {one}'s "
     "name.",
     "SELECT c.id, p.name FROM {children} c JOIN {parents} p ON p.id = c.{link} WHERE c.{day} < p.{since}", False),
    (2, "For each of the {children} of a {one} whose {mentor} is known, give the id, the {one}'s name and the name of "
     "{mentor_words} (column {mentor}).",
     "SELECT c.id, p.name, m.name FROM {children} c JOIN {parents} p ON p.id = c.{link} JOIN {parents} m ON "
     "m.id = p.{mentor}",
     False),
    (2, "Give all pairs of different {parents} with the same known {place}, as two names, the alphabetically "
        "smaller first, for "
     "which the {measure} of the two differs by at most {v} (both known).",
     "SELECT a.name, b.name FROM {parents} a JOIN {parents} b ON a.{place} = b.{place} AND a.name < b.name WHERE "
     "ABS(a.{measure} - b.{measure}) <= {v}", False),
)  # fmt: skip
OUTER_JOIN: tuple[Line, ...] = (
    (0, "Give the name of each of the {parents} with the number of its {children} (0 where it has none).",
     "SELECT p.name, COUNT(c.id) FROM {parents} p LEFT JOIN {children} c ON c.{link} = p.id GROUP BY p.id", False),
    (0, "Give the id of each of the {children} with the name of its {one}, or the text 'nobody' where it "
        "belongs to none.",
     "SELECT c.id, COALESCE(p.name, 'nobody') FROM {children} c LEFT JOIN {parents} p ON p.id = c.{link}", False),
    (1, "Give the name of each of the {parents} with the sum of {amount} over its {children} of {kind} {k} (0 "
        "where there is no known "
     "{amount}); the highest sum first, equal ones by name.",
     "SELECT p.name, COALESCE(SUM(c.{amount}), 0) AS s FROM {parents} p LEFT JOIN {children} c ON c.{link} = p.id AND "
     "c.{kind} = '{k}' GROUP BY p.id ORDER BY s DESC, p.name", True),
    (1, "Give the name of each of the {parents} with its latest {day} among its {children} with {amount} "
        "above {v}, NULL where "
     "there is none.",
     "SELECT p.name, MAX(c.{day}) FROM {parents} p LEFT JOIN {children} c ON c.{link} = p.id AND c.{amount} > "
     "{v} GROUP BY p.id",
     False),
    (2, "Give the name of each of the {parents}, the name of {mentor_words} (column {mentor}; NULL if "
        "unknown), and how many "
     "{children} that other one has (0 if unknown or none).",
     "SELECT p.name, m.name, (SELECT COUNT(*) FROM {children} c WHERE c.{link} = m.id) FROM {parents} p LEFT "
     "JOIN {parents} m "
     "ON m.id = p.{mentor}", False),
    (2, "Give one row for each combination of a {one} and a {kind} that occurs in the table {children}: the "
        "name, the {kind}, and "
     "the number of {children} of that {one} and {kind} (0 where there are none).",
     "SELECT p.name, k.{kind}, COUNT(c.id) FROM {parents} p CROSS JOIN (SELECT DISTINCT {kind} FROM "
     "{children}) k LEFT JOIN "
     "{children} c ON c.{link} = p.id AND c.{kind} = k.{kind} GROUP BY p.id, k.{kind}", False),
)  # fmt: skip
GROUP_HAVING: tuple[Line, ...] = (
    (0, "For each {kind}, give the number of its {children} and the sum of their {amount} (NULL where no "
        "{amount} is known).",
     "SELECT {kind}, COUNT(*), SUM({amount}) FROM {children} GROUP BY {kind}", False),
    (0, "Give each known {place} with at least {n} {parents}, and their number.",
     "SELECT {place}, COUNT(*) FROM {parents} WHERE {place} IS NOT NULL GROUP BY {place} HAVING COUNT(*) "
     ">= {n}", False),
    (1, "For each {kind} whose known {amount} values have a mean of at least {v}, give the {kind}, this mean "
        "(not rounded), and the "
     "number of its {children} with an unknown {amount}.",
     "SELECT {kind}, AVG({amount}), SUM({amount} IS NULL) FROM {children} GROUP BY {kind} HAVING AVG({amount}) "
     ">= {v}", False),
    (1, "For each {link} that occurs (a NULL is left out), give it with its number of different {kind} values, "
        "if there are at least "
     "two of them; the largest number first, equal ones by {link}.",
     "SELECT {link}, COUNT(DISTINCT {kind}) AS n FROM {children} WHERE {link} IS NOT NULL GROUP BY {link} "
     "HAVING n >= 2 ORDER BY "
     "n DESC, {link}", True),
    (2, "For each {place} (unknown as a group of its own, NULL) and each {kind} of the {children} of its "
        "{parents}: the {place}, the "
     "{kind}, the number of different {parents} involved and the largest {amount}; only groups with at least "
     "two {children}.",
     "SELECT p.{place}, c.{kind}, COUNT(DISTINCT p.id), MAX(c.{amount}) FROM {children} c JOIN {parents} p ON "
     "p.id = c.{link} "
     "GROUP BY p.{place}, c.{kind} HAVING COUNT(*) >= 2", False),
    (2, "Give the names of the {parents} whose {children} of {kind} {k} have a larger total {amount} than "
        "their {children} of all "
     "other kinds together (an unknown {amount} and a missing total count as 0), with the difference.",
     "SELECT p.name, SUM(CASE WHEN c.{kind} = '{k}' THEN COALESCE(c.{amount}, 0) ELSE -COALESCE(c.{amount}, 0) "
     "END) AS d FROM "
     "{parents} p JOIN {children} c ON c.{link} = p.id GROUP BY p.id HAVING d > 0", False),
)  # fmt: skip
WINDOW: tuple[Line, ...] = (
    (0, "For each of the {children}, give its id and its place in the order of {day}, equal days by id: 1 for "
        "the earliest.",
     "SELECT id, ROW_NUMBER() OVER (ORDER BY {day}, id) FROM {children}", False),
    (0, "For each of the {children}, give its id and the number of {children} of the same {kind} (itself included).",
     "SELECT id, COUNT(*) OVER (PARTITION BY {kind}) FROM {children}", False),
    (1, "For each of the {children} with a known {amount}, give its id and the sum of {amount} over those of "
        "the same {kind} up to and "
     "including it, in order of {day}, equal days by id.",
     "SELECT id, SUM({amount}) OVER (PARTITION BY {kind} ORDER BY {day}, id ROWS UNBOUNDED PRECEDING) FROM "
     "{children} WHERE "
     "{amount} IS NOT NULL", False),
    (1, "For each of the {children}, give its id and the id of the one before it of the same {kind} in order "
        "of {day}, equal days by "
     "id (NULL for the first).",
     "SELECT id, LAG(id) OVER (PARTITION BY {kind} ORDER BY {day}, id) FROM {children}", False),
    (2, "For each of the {children} with a known {amount}, in order of {day}, equal days by id (over all "
        "kinds): id, and the mean (not "
     "rounded) of its {amount} and those of the up to {n} before it among those with a known {amount}; in that order.",
     "SELECT id, AVG({amount}) OVER (ORDER BY {day}, id ROWS {n} PRECEDING) FROM {children} WHERE {amount} IS NOT NULL "
     "ORDER BY {day}, id", True),
    (2, "For each of the {parents} with a known {measure} and {place}: name, its rank by {measure} within its "
        "{place} (the highest has "
     "rank 1; equal ones share a rank, and the next rank is one more), and its difference to the highest "
     "{measure} there.",
     "SELECT name, DENSE_RANK() OVER (PARTITION BY {place} ORDER BY {measure} DESC), MAX({measure}) OVER "
     "(PARTITION BY {place}) - "
     "{measure} FROM {parents} WHERE {measure} IS NOT NULL AND {place} IS NOT NULL", False),
)  # fmt: skip
SET_OPERATIONS: tuple[Line, ...] = (
    (0, "Give every known {place} of the {parents} and every {kind} of the {children} in one column, each text once.",
     "SELECT {place} FROM {parents} WHERE {place} IS NOT NULL UNION SELECT {kind} FROM {children}", False),
    (0, "Give, each once, the ids of {parents} that have {children} of {kind} {k} and also {children} of {kind} {k2}.",
     "SELECT {link} FROM {children} WHERE {kind} = '{k}' AND {link} IS NOT NULL INTERSECT SELECT {link} FROM "
     "{children} WHERE "
     "{kind} = '{k2}'", False),
    (1, "Give, each once, the ids of {parents} that have {children} of {kind} {k} but no {children} with an "
        "{amount} above {v}.",
     "SELECT {link} FROM {children} WHERE {kind} = '{k}' AND {link} IS NOT NULL EXCEPT SELECT {link} FROM "
     "{children} WHERE "
     "{amount} > {v}", False),
    (1, "Put the dates {since} of all {parents} and the dates {day} of all {children} into one list (repeated "
        "dates stay repeated), "
     "each with the text 'start' or 'event'; in order of the date, equal dates with 'event' first.",
     "SELECT {since} AS d, 'start' AS t FROM {parents} UNION ALL SELECT {day}, 'event' FROM {children} ORDER "
     "BY d, t", True),
    (2, "Give, each once, the months (the first 7 characters of the date) in which exactly one of these is "
        "true: some {one} has its "
     "{since} in it; some of the {children} has its {day} in it.",
     "SELECT m FROM (SELECT substr({since}, 1, 7) AS m FROM {parents} UNION SELECT substr({day}, 1, 7) FROM "
     "{children}) EXCEPT "
     "SELECT * FROM (SELECT substr({since}, 1, 7) FROM {parents} INTERSECT SELECT substr({day}, 1, 7) FROM "
     "{children})", False),
)  # fmt: skip
ANTI_JOIN: tuple[Line, ...] = (
    (0, "Give the names of the {parents} without any {children}.",
     "SELECT name FROM {parents} p WHERE NOT EXISTS (SELECT 1 FROM {children} c WHERE c.{link} = p.id)", False),
    (0, "Give the names of the {parents} that have no {children} of {kind} {k}.",
     "SELECT name FROM {parents} p WHERE NOT EXISTS (SELECT 1 FROM {children} c WHERE c.{link} = p.id AND "
     "c.{kind} = '{k}')",
     False),
    (1, "Give the names of the {parents} that are not the {mentor} of any other of the {parents}.",
     "SELECT name FROM {parents} p WHERE NOT EXISTS (SELECT 1 FROM {parents} q WHERE q.{mentor} = p.id)", False),
    (1, "Give the names of the {parents} that have at least one of the {children}, and none with {amount} "
        "below {v} (an unknown "
     "{amount} is not below).",
     "SELECT name FROM {parents} p WHERE EXISTS (SELECT 1 FROM {children} c WHERE c.{link} = p.id) AND NOT "
     "EXISTS (SELECT 1 FROM "
     "{children} c WHERE c.{link} = p.id AND c.{amount} < {v})", False),
    (2, "Give the names of the {parents} that have {children} of every {kind} that occurs in the table "
        "{children} (no names, if "
     "that table is empty).",
     "SELECT p.name FROM {parents} p JOIN {children} c ON c.{link} = p.id GROUP BY p.id HAVING COUNT(DISTINCT "
     "c.{kind}) = "
     "(SELECT COUNT(DISTINCT {kind}) FROM {children})", False),
    (2, "Give the names of the {parents} none of whose {children} has a {kind} that the {children} of the "
        "{one} with id 1 have.",
     "SELECT name FROM {parents} p WHERE NOT EXISTS (SELECT 1 FROM {children} c JOIN {children} d ON d.{kind} "
     "= c.{kind} WHERE "
     "c.{link} = p.id AND d.{link} = 1)", False),
)  # fmt: skip
SUBQUERY: tuple[Line, ...] = (
    (0, "Give the names of all {parents} with the highest {measure}.",
     "SELECT name FROM {parents} WHERE {measure} = (SELECT MAX({measure}) FROM {parents})", False),
    (0, "Give the ids of the {children} whose {amount} is above the me{amount} of all {children} (unknown "
        "ones left out).",
     "SELECT id FROM {children} WHERE {amount} > (SELECT AVG({amount}) FROM {children})", False),
    (1, "Give the ids of the {children} whose {amount} is above the mean known {amount} of the {children} of "
        "the same {kind}.",
     "SELECT id FROM {children} c WHERE {amount} > (SELECT AVG({amount}) FROM {children} d WHERE d.{kind} = "
     "c.{kind})", False),
    (1, "For each of the {parents}, give the name and the number of {parents} with a strictly higher {measure} "
        "(0 where its own is "
     "unknown).",
     "SELECT name, (SELECT COUNT(*) FROM {parents} q WHERE q.{measure} > p.{measure}) FROM {parents} p", False),
    (2, "Give the names of the {parents} whose total known {amount} over their {children} is strictly above "
        "the mean of these totals, "
     "where the mean is over the {parents} with at least one known {amount}.",
     "WITH t AS (SELECT {link} AS i, SUM({amount}) AS s FROM {children} WHERE {link} IS NOT NULL AND {amount} "
     "IS NOT NULL GROUP BY "
     "{link}) SELECT p.name FROM t JOIN {parents} p ON p.id = t.i WHERE t.s > (SELECT AVG(s) FROM t)", False),
    (2, "For each {kind}, give the median of its known {amount} values: the middle one in ascending order, for "
        "an even number of "
     "values the lower of the two in the middle. Leave out kinds without one.",
     "SELECT {kind}, {amount} FROM (SELECT {kind}, {amount}, ROW_NUMBER() OVER (PARTITION BY {kind} ORDER BY "
     "{amount}, id) AS r, "
     "COUNT(*) OVER (PARTITION BY {kind}) AS n FROM {children} WHERE {amount} IS NOT NULL) WHERE r = (n + "
     "1) / 2", False),
)  # fmt: skip

QUERIES: tuple[tuple[Line, ...], ...] = (
    FILTER_SORT, JOIN, OUTER_JOIN, GROUP_HAVING, WINDOW, SET_OPERATIONS, ANTI_JOIN, SUBQUERY,
)  # fmt: skip
