"""Tables to be created from a description, judged by the rows that they take and refuse.

In: a random stream and the number of rules.  Out: a `Question` and its judge.  Called by `envs.families.sql`.
"""

from __future__ import annotations

import random

from envs.families.code.common import source_of
from envs.families.sql.tasks import LIMITS, fenced
from envs.sandbox import number
from envs.skills import Question
from envs.types import Task

TABLES = (
    ("rooms", "hotel", "code", "floor"),
    ("parcels", "depot", "label", "weight"),
    ("seats", "coach", "mark", "row_number"),
    ("badges", "guild", "motto", "grade"),
    ("crates", "cellar", "tag", "bottles"),
    ("plots", "village", "sign", "acres"),
    ("cables", "rack", "port", "metres"),
    ("vases", "gallery", "title", "price"),
)
RULES = ("not_null", "unique", "range", "options", "default", "pair", "order", "length")


def ask_schema(rng: random.Random, *, rules: int) -> Question:
    """A table with constraints."""
    table, group, label, amount = rng.choice(TABLES)
    low, high, size = rng.randint(0, 20), rng.randint(30, 99), rng.randint(3, 8)
    options = rng.sample("new used lost sold open shut".split(), 3)
    default = rng.randint(low, high)
    chosen = rng.sample(RULES, rules)
    clauses = {group: "TEXT", label: "TEXT", amount: "INTEGER", "status": "TEXT", "opened": "TEXT", "closed": "TEXT"}
    columns = ["id", *clauses]
    words, extra = [], []
    good = {
        "id": "1",
        group: "'g1'",
        label: "'ab'",
        amount: str(low),
        "status": f"'{options[0]}'",
        "opened": "'2024-01-01'",
    }
    good |= {"closed": "'2024-01-02'"}
    trials: list[tuple[str, bool]] = []

    def trial(accepted: bool, leave_out: str = "", **changes: str) -> None:
        row = {key: value for key, value in (good | changes).items() if key != leave_out}
        row["id"] = str(len(trials) + 1)
        trials.append((f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(row.values())})", accepted))

    def other(**changes: str) -> dict[str, str]:
        """Changes, and a label and group of its own, so that nothing else is equal."""
        return {label: f"'n{len(trials)}'", group: f"'h{len(trials)}'"} | changes

    trial(True)
    for rule in chosen:
        if rule == "not_null":
            words.append(f"{group} must be known (not NULL).")
            clauses[group] += " NOT NULL"
            trial(False, **other(**{group: "NULL"}))
        elif rule == "unique":
            words.append(f"No two rows have the same {label}; any number of rows may have none (NULL).")
            clauses[label] += " UNIQUE"
            trial(False, **other(**{label: "'ab'"}))
            trial(True, **other(**{label: "NULL"}))
            trial(True, **other(**{label: "NULL"}))
        elif rule == "range":
            words.append(f"{amount} is from {low} to {high}, both included, or NULL.")
            clauses[amount] += f" CHECK ({amount} BETWEEN {low} AND {high})"
            trial(False, **other(**{amount: str(low - 1)}))
            trial(False, **other(**{amount: str(high + 1)}))
            trial(True, **other(**{amount: str(high)}))
            trial(True, **other(**{amount: "NULL"}))
        elif rule == "options":
            words.append(f"status is one of '{options[0]}', '{options[1]}', '{options[2]}', and never NULL.")
            clauses["status"] += f" NOT NULL CHECK (status IN ('{options[0]}', '{options[1]}', '{options[2]}'))"
            trial(False, **other(status="'broken'"))
            trial(False, **other(status="NULL"))
            trial(True, **other(status=f"'{options[2]}'"))
        elif rule == "default":
            words.append(f"An insert that does not mention {amount} gives it the value {default}.")
            clauses[amount] += f" DEFAULT {default}"
            trial(True, leave_out=amount, **other())
            trials.append((f"SELECT {amount} = {default} FROM {table} WHERE id = {len(trials)}", True))
        elif rule == "pair":
            words.append(
                f"No two rows have the same combination of {group} and opened (rows with a NULL in either do "
                "not count)."
            )
            extra.append(f"UNIQUE ({group}, opened)")
            trial(False, **{label: "'zz'"})
            trial(True, **{label: "'zy'", "opened": "'2024-01-02'"})
            trial(True, **{label: "'zx'", group: "'g7'"})
        elif rule == "order":
            words.append("closed is not before opened (both are texts YYYY-MM-DD); either may be NULL.")
            extra.append("CHECK (closed >= opened)")
            trial(False, **other(closed="'2023-12-31'"))
            trial(True, **other(closed="'2024-01-01'"))
            trial(True, **other(closed="NULL"))
        else:
            words.append(f"A known {label} has at most {size} characters.")
            extra.append(f"CHECK (length({label}) <= {size})")
            trial(False, **other(**{label: f"'{'q' * (size + 1)}'"}))
            trial(True, **other(**{label: f"'{'q' * size}'"}))
    parts = ["id INTEGER PRIMARY KEY", *(f"{name} {clause}" for name, clause in clauses.items()), *extra]
    statement = f"CREATE TABLE {table} (\n  " + ",\n  ".join(parts) + "\n)"
    text = (
        f"Write one SQLite CREATE TABLE statement for a table {table} with the columns {', '.join(columns)}, "
        "in this order: id is an "
        f"INTEGER PRIMARY KEY, {amount} an INTEGER, the others TEXT. The table itself must enforce these "
        "rules, and no others:\n- "
        + "\n- ".join(words)
        + "\n\nIt is judged by inserts that it must accept, and inserts that it must refuse. Answer with the "
        "statement in a fenced sql "
        "code block."
    )
    return Question(text, fenced(statement), {"table": table, "columns": columns, "trials": trials})


def judge_schema(answer: str, task: Task) -> float:
    """1 where the table takes and refuses each row as it should."""
    facts, statement = task.metadata, source_of(answer)
    if not statement.strip() or "\0" in statement:
        return 0.0
    arguments = (facts["table"], list(facts["columns"]), statement, [list(each) for each in facts["trials"]])
    return number("envs.families.sql.inside:judge_schema", *arguments, limits=LIMITS)
