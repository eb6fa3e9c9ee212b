"""Records: from prose to nested JSON, broken JSON made whole, and rows in CSV, in escapes and in fixed columns.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import json
import random
from typing import Any

from envs.families.structured.patches import judge_value
from envs.families.structured.reading import Refused, checked, read_csv
from envs.families.structured.worlds import (
    COLOURS,
    GOODS,
    NAMES,
    SURNAMES,
    TOWNS,
    WORDS,
    asked_json,
    date,
    nested,
    show,
)
from envs.skills import Question, Skill
from envs.types import Task

# ---- prose to a nested record ----------------------------------------------------------------------------------------


def ask_nested_record(rng: random.Random, people: int, orders: int, nulls: bool) -> Question:
    """A description in sentences as JSON of a shape that is shown."""
    told, value = [], []
    for name in rng.sample(NAMES, people):
        town, age = rng.choice(TOWNS), rng.randint(18, 80)
        iso, said = date(rng)
        has_age, has_day = (rng.random() < 0.7 for _ in range(2)) if nulls else (True, True)
        goods = rng.sample(GOODS, rng.randint(1, orders)) if orders else []
        counts = [rng.randint(2, 9) for _ in goods]
        record: dict[str, Any] = {"name": name, "home": {"town": town}, "age": age if has_age else None}
        sentences = [f"{name}, who is {age}, lives in {town}." if has_age else f"{name} lives in {town}."]
        if orders:
            record["since"] = iso if has_day else None
            record["orders"] = [{"item": good, "count": count} for good, count in zip(goods, counts, strict=True)]
            bought = [f"{count} {good}s" for good, count in zip(goods, counts, strict=True)]
            sentences.append(f"{name} bought {' and then '.join(bought)}.")
            sentences += [f"{name} has been a customer since {said}."] if has_day else []
        rng.shuffle(sentences)
        told.append(" ".join(sentences))
        value.append(record)
    shape: dict[str, Any] = {"name": "string", "home": {"town": "string"}, "age": "integer"}
    if orders:
        shape |= {"since": "YYYY-MM-DD", "orders": [{"item": "singular noun", "count": "integer"}]}
    missing = " What is not said is null." if nulls else ""
    many = people > 1
    text = (
        "\n".join(told) + f"\n\nWrite {'a JSON array with one such object for each person, in order' if many else 'it'}"
        f"{'' if many else ' as JSON'} of this shape:\n{show(shape)}{missing}"
    )
    return asked_json(text, value if many else value[0])


# ---- broken JSON -----------------------------------------------------------------------------------------------------


def _faults(rng: random.Random, text: str) -> list[str]:
    """Texts that are the given JSON with one fault; what was meant stays clear."""
    found = [text.replace("]", ",]", 1), text.replace("}", ",}", 1), f"{text};", f"{text} // end"]
    found += [text.replace('"', "'")] if "'" not in text else []
    words = text.split('"')
    if len(words) > 4:
        place = rng.randrange(1, len(words) - 1, 2)
        if words[place].isidentifier() and words[place + 1].startswith(":"):
            bare = words[place - 1] + words[place] + words[place + 1]
            found.append('"'.join([*words[: place - 1], bare, *words[place + 2 :]]))
    found += [text.replace(old, new, 1) for old, new in (("true", "True"), ("false", "False"), ("null", "None"))]
    found += [text.replace(", ", " ", 1), text.replace(": ", " = ", 1), text.replace('": ', '" ', 1)]
    found += [text[:-1], text.rstrip("]}"), text.replace(", ", ",, ", 1), text.replace(", ", "; ", 1)]
    return [one for one in dict.fromkeys(found) if one != text]


def ask_repair_json(rng: random.Random, size: int, depth: int, faults: int) -> Question:
    """JSON with faults such as people and programs make; the value that was meant."""
    value = nested(rng, size, depth)
    text = show(value)
    for _ in range(faults):
        text = rng.choice(_faults(rng, text))
    try:
        broken = json.loads(text) != value
    except ValueError:
        broken = True
    if not broken:
        text = text[:-1]
    asked = (
        f"This was meant to be JSON, but has faults:\n{text}\n\nBrackets that are missing at the end are to be added; "
        "no key or value is missing. Write the correct JSON."
    )
    return asked_json(asked, value)


# ---- CSV -------------------------------------------------------------------------------------------------------------


def _csv_cell(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if any(one in text for one in ',"\n') else text


def write_csv(rows: list[list[str]]) -> str:
    """RFC 4180 with quotes only where they are needed."""
    return "\n".join(",".join(_csv_cell(cell) for cell in row) for row in rows)


def _odd(rng: random.Random, share: float) -> str:
    """A text that CSV must quote, with a chance."""
    word, other = rng.sample(WORDS, 2)
    if rng.random() >= share:
        return f"{word} {other}"
    return rng.choice([f"{word}, {other}", f'{word} "{other}"', f'"{word}"', f'{word}, "{other}", {word}'])


def ask_write_csv(rng: random.Random, rows: int, share: float) -> Question:
    """Facts as CSV with quoting where the cells need it."""
    header = ["name", "count", "note"]
    table = [
        [f"{rng.choice(SURNAMES)}, {name}" if rng.random() < share else name, str(rng.randint(1, 99)), _odd(rng, share)]
        for name in rng.sample(NAMES, rows)
    ]
    listed = "\n".join(f"name [{name}], count [{count}], note [{note}]" for name, count, note in table)
    text = (
        f"Records; each value stands between square brackets:\n{listed}\n\nWrite them as CSV (RFC 4180) with the "
        "heading name,count,note and one line for each record, in order. A value with a comma or a double quote in "
        "it stands in double quotes, and a double quote inside of it is doubled."
    )
    return Question(text=text, answer=write_csv([header, *table]), facts={"rows": [header, *table]})


def judge_rows(answer: str, task: Task) -> float:
    """CSV with the right cells; quotes that are not needed do no harm."""
    try:
        return float(read_csv(answer) == task.metadata["rows"])
    except Refused:
        return 0.0


def ask_csv_to_json(rng: random.Random, rows: int, share: float) -> Question:
    """CSV with types told for each column, as an array of objects."""
    header = ["id", "note", "paid", "price"]
    table, value = [], []
    for number in rng.sample(range(1, 99), rows):
        note = "" if rng.random() < share / 3 else _odd(rng, share)
        paid, cents = rng.choice([True, False]), rng.choice([None, rng.randint(100, 9999)]) if share else 250
        table.append([str(number), note, "yes" if paid else "no", "" if cents is None else f"{cents / 100:.2f}"])
        value.append({"id": number, "note": note, "paid": paid, "price": None if cents is None else cents / 100})
    text = (
        f"CSV (RFC 4180):\n{write_csv([header, *table])}\n\nWrite it as a JSON array of objects with the headings as "
        "keys: id and price are numbers, paid is a boolean, note is a string (perhaps empty). An empty price is null."
    )
    return asked_json(text, value)


def ask_json_to_csv(rng: random.Random, records: int, items: int) -> Question:
    """Nested records as rows: one row for each item, columns in a given order, empty where something is missing."""
    value, rows = [], [["name", "town", "item", "count"]]
    for name in rng.sample(NAMES, records):
        town = rng.choice(TOWNS) if rng.random() < 0.7 else None
        lines = [
            {
                "item": f"{rng.choice(COLOURS)}, {good}" if items > 2 and rng.random() < 0.5 else good,
                "count": rng.randint(1, 9),
            }
            for good in rng.sample(GOODS, rng.randint(0 if items > 1 else 1, items))
        ]
        record: dict[str, Any] = {"lines": lines, "name": name, **({"town": town} if town else {})}
        value.append(record)
        rows += [[name, town or "", str(line["item"]), str(line["count"])] for line in lines]
        rows += [[name, town or "", "", ""]] if not lines else []
    text = (
        f"JSON:\n{show(value)}\n\nWrite it as CSV (RFC 4180) with the heading name,town,item,count and one row for "
        "each line of each record, in order. A record without lines gets one row with empty item and count; a town "
        "that is missing stays empty."
    )
    return Question(text=text, answer=write_csv(rows), facts={"rows": rows})


# ---- rows with escapes, and in fixed columns -------------------------------------------------------------------------

_ESCAPES = {"\\": "\\\\", ";": "\\;", "\n": "\\n"}


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def ask_escaped_rows(rng: random.Random, rows: int, columns: int, share: float) -> Question:
    """Rows with semicolons and backslash escapes as JSON arrays of strings."""
    table = []
    for _ in range(rows):
        row = []
        for _ in range(columns):
            word, other = rng.sample(WORDS, 2)
            mark = rng.choice([";", "\\", "\n", "\\;", "\\n"]) if rng.random() < share else ""
            row.append("" if rng.random() < share / 6 else f"{word}{mark}{other}" if mark else word)
        table.append(row)
    table[0][0] = table[0][0] or "x"
    shown = "\n".join(";".join(map(_escaped, row)) for row in table)
    text = (
        f"{shown}\n\nHere a line is a row, and semicolons part its fields. Inside of a field \\; is a semicolon, \\n a "
        "line break and \\\\ a backslash. Write the rows as a JSON array of arrays of strings."
    )
    return asked_json(text, table)


def ask_fixed_width(rng: random.Random, rows: int, columns: int) -> Question:
    """A table in columns of given widths, each aligned to the left or the right."""
    kinds = rng.sample(["name", "town", "item", "count", "price", "year"], columns)
    drawn = {
        "name": lambda: rng.choice(NAMES),
        "town": lambda: rng.choice(TOWNS),
        "item": lambda: rng.choice(GOODS),
        "count": lambda: str(rng.randint(1, 999)),
        "price": lambda: f"{rng.randint(100, 99999) / 100:.2f}",
        "year": lambda: str(rng.randint(1990, 2024)),
    }
    table = [[drawn[kind]() for kind in kinds] for _ in range(rows)]
    widths = [rng.randint(6, 10) for _ in kinds]
    sides = [rng.choice(["left", "right"]) for _ in kinds]
    lines = [
        "|".join(
            cell[:width].ljust(width, ".") if side == "left" else cell[:width].rjust(width, ".")
            for cell, width, side in zip(row, widths, sides, strict=True)
        )
        for row in [kinds, *table]
    ]
    rules = "; ".join(f"{kind}: {width} wide, {side}" for kind, width, side in zip(kinds, widths, sides, strict=True))
    text = (
        f"Rows:\n{show([kinds, *table])}\n\nWrite them as a table of fixed width, one line a row, the headings first. "
        f"Columns: {rules}. Fill a cell with dots to its width on the other side; | stands between cells, nothing at "
        "the ends of a line."
    )
    return Question(text=text, answer="\n".join(lines))


def judge_lines(answer: str, task: Task) -> float:
    """The lines of the reference, character by character; blanks at the end of a line do not matter."""
    try:
        given = [line.rstrip() for line in checked(answer).split("\n")]
    except Refused:
        return 0.0
    return float(given == [line.rstrip() for line in task.reference.split("\n")])


def ask_json_lines(rng: random.Random, rows: int, keys: int) -> Question:
    """Lines of JSON, put together by a key: sums and lists, the largest sum first."""
    names = rng.sample(NAMES, keys)
    lines = [
        {"who": names[index] if index < keys else rng.choice(names), "n": rng.randint(1, 30), "item": rng.choice(GOODS)}
        for index in range(rows)
    ]
    rng.shuffle(lines)
    totals: dict[str, int] = {}
    for line in lines:
        totals[str(line["who"])] = totals.get(str(line["who"]), 0) + int(str(line["n"]))
    order = sorted(totals, key=lambda name: (-totals[name], name))
    value = [
        {
            "who": name,
            "total": totals[name],
            "items": sorted({str(line["item"]) for line in lines if line["who"] == name}),
        }
        for name in order
    ]
    shown = "\n".join(show({key: line[key] for key in rng.sample(list(line), 3)}) for line in lines)
    text = (
        f"Records:\n{shown}\n\nWrite JSON lines: one line for each who, with the keys who, total (the sum of n) and "
        "items (an array of the different items, in alphabetical order). The largest total first, equal ones by name."
    )
    return Question(text=text, answer="\n".join(map(show, value)), facts={"value": value})


def judge_json_lines(answer: str, task: Task) -> float:
    """One value a line, each of which is right; empty lines are refused."""
    lines = answer.split("\n")
    if len(lines) != len(task.metadata["value"]):
        return 0.0
    ahead = ",".join(lines)
    if any(not line.strip().startswith("{") or not line.strip().endswith("}") for line in lines):
        return 0.0
    return judge_value(f"[{ahead}]", task)


SKILLS = [
    Skill(
        name="nested_record",
        ask=ask_nested_record,
        judge=judge_value,
        levels={
            "easy": {"people": 1, "orders": 0, "nulls": False},
            "medium": {"people": 2, "orders": 2, "nulls": True},
            "hard": {"people": 4, "orders": 4, "nulls": True},
        },
    ),
    Skill(
        name="repair_json",
        ask=ask_repair_json,
        judge=judge_value,
        levels={
            "easy": {"size": 3, "depth": 2, "faults": 1},
            "medium": {"size": 8, "depth": 3, "faults": 2},
            "hard": {"size": 20, "depth": 5, "faults": 3},
        },
    ),
    Skill(
        name="write_csv",
        ask=ask_write_csv,
        judge=judge_rows,
        levels={
            "easy": {"rows": 1, "share": 0.3},
            "medium": {"rows": 4, "share": 0.5},
            "hard": {"rows": 9, "share": 0.9},
        },
    ),
    Skill(
        name="csv_to_json",
        ask=ask_csv_to_json,
        judge=judge_value,
        levels={
            "easy": {"rows": 1, "share": 0.0},
            "medium": {"rows": 3, "share": 0.5},
            "hard": {"rows": 8, "share": 0.9},
        },
    ),
    Skill(
        name="json_to_csv",
        ask=ask_json_to_csv,
        judge=judge_rows,
        levels={
            "easy": {"records": 1, "items": 1},
            "medium": {"records": 3, "items": 2},
            "hard": {"records": 6, "items": 4},
        },
    ),
    Skill(
        name="json_lines",
        ask=ask_json_lines,
        judge=judge_json_lines,
        levels={
            "easy": {"rows": 2, "keys": 1},
            "medium": {"rows": 7, "keys": 3},
            "hard": {"rows": 20, "keys": 6},
        },
    ),
    Skill(
        name="escaped_rows",
        ask=ask_escaped_rows,
        judge=judge_value,
        levels={
            "easy": {"rows": 1, "columns": 3, "share": 0.3},
            "medium": {"rows": 3, "columns": 4, "share": 0.5},
            "hard": {"rows": 7, "columns": 6, "share": 0.8},
        },
    ),
    Skill(
        name="fixed_width",
        ask=ask_fixed_width,
        judge=judge_lines,
        levels={
            "easy": {"rows": 1, "columns": 2},
            "medium": {"rows": 3, "columns": 4},
            "hard": {"rows": 8, "columns": 6},
        },
    ),
]
