"""Markdown: tables written, sorted, joined and turned, and lists that nest.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from envs.families.structured.reading import MAX_DEPTH, Refused, checked, read_table
from envs.families.structured.worlds import COLOURS, GOODS, NAMES, TOWNS, WORDS
from envs.skills import Question, Skill
from envs.types import Task

_DASHES = {"left": ":---", "right": "---:", "center": ":---:", "none": "---"}
_SIDES = {"left": "to the left", "right": "to the right", "center": "in the centre"}


def markdown(rows: Sequence[Sequence[str]], sides: Sequence[str] = ()) -> str:
    """A Markdown table; the first row is the heading."""
    dashes = [_DASHES[side] for side in sides] or ["---"] * len(rows[0])
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], dashes, *rows[1:]))


def asked_table(text: str, rows: list[list[str]], sides: Sequence[str] = ()) -> Question:
    """A question whose answer is a Markdown table."""
    return Question(text=text, answer=markdown(rows, sides), facts={"rows": rows, "sides": list(sides)})


def judge_table(answer: str, task: Task) -> float:
    """The right cells in the right order, and the alignment where one was asked for; blanks do not matter."""
    try:
        rows, sides = read_table(answer)
    except Refused:
        return 0.0
    return float(rows == task.metadata["rows"] and (not task.metadata["sides"] or sides == task.metadata["sides"]))


def ask_markdown_table(rng: random.Random, rows: int, columns: int) -> Question:
    """Facts as a table, its columns aligned and its rows sorted as asked."""
    kinds = ["name", *rng.sample(["town", "item", "count", "age"], columns - 1)]
    table = []
    numbers = rng.sample(range(18, 99), 2 * rows)
    for place, name in enumerate(rng.sample(NAMES, rows)):
        drawn = {
            "name": name,
            "town": rng.choice(TOWNS),
            "item": rng.choice(GOODS),
            "count": str(numbers[2 * place]),
            "age": str(numbers[2 * place + 1]),
        }
        table.append([drawn[kind] for kind in kinds])
    told = "\n".join("; ".join(f"{kind} {cell}" for kind, cell in zip(kinds, row, strict=True)) for row in table)
    sides = [rng.choice(["left", "right", "center"]) for _ in kinds]
    key = rng.choice([kind for kind in kinds if kind in ("name", "count", "age")])
    falling = rng.random() < 0.5
    at = kinds.index(key)
    table.sort(key=lambda row: (int(row[at]) if row[at].isdigit() else 0, row[at]), reverse=falling)
    aligned = ", ".join(f"{kind} {_SIDES[side]}" for kind, side in zip(kinds, sides, strict=True))
    order = f", sorted by {key}, {'falling' if falling else 'rising'}" if rows > 1 else ""
    text = (
        f"{told}\n\nWrite a Markdown table with the columns {', '.join(kinds)}{order}. Every row begins and ends with "
        f"|. The row of dashes aligns with colons, such as :---, ---: or :---:. Alignment: {aligned}."
    )
    return asked_table(text, [kinds, *table], sides)


def ask_join_tables(rng: random.Random, left: int, right: int, outer: bool) -> Question:
    """Two tables joined by a key, with or without the rows that find no partner."""
    names = rng.sample(NAMES, left + 2)
    people = [[name, rng.choice(TOWNS)] for name in names[:left]]
    orders = [[rng.choice(names[: left + outer]), f"{rng.choice(COLOURS)} {rng.choice(GOODS)}"] for _ in range(right)]
    orders[0][0] = names[0]
    rows: list[list[str]] = []
    for name, town in people:
        found = [[name, town, item] for other, item in orders if other == name]
        rows += found or ([[name, town, "-"]] if outer else [])
    lost = " A name without orders gets one row with - as item; orders of unknown names are left out." if outer else ""
    inner = "" if outer else " Names without orders are left out."
    text = (
        f"{markdown([['name', 'town'], *people])}\n\n{markdown([['buyer', 'item'], *orders])}\n\nJoin the tables, name "
        "with buyer: a Markdown table with the columns name, town, item and a row for each order, by the order of "
        f"the first table and then of the second.{inner}{lost}"
    )
    return asked_table(text, [["name", "town", "item"], *rows])


def ask_pivot(rng: random.Random, rows: int, names: int, columns: int, totals: bool) -> Question:
    """Sums by row and column, with totals."""
    people, goods = sorted(rng.sample(NAMES, names)), sorted(rng.sample(GOODS, columns))
    lines = [(rng.choice(people), rng.choice(goods), rng.randint(1, 40)) for _ in range(rows)]
    people = [name for name in people if any(line[0] == name for line in lines)]
    goods = [good for good in goods if any(line[1] == good for line in lines)]

    def total(name: str, good: str) -> str:
        return str(sum(number for who, what, number in lines if name in (who, "") and good in (what, "")))

    table = [["name", *goods], *([name, *(total(name, good) for good in goods)] for name in people)]
    if totals:
        table = [[*row, "total" if place == 0 else total(row[0], "")] for place, row in enumerate(table)]
        table.append(["total", *(total("", good) for good in goods), total("", "")])
    more = " Add a last column total and a last row total." if totals else ""
    shown = markdown([["name", "item", "n"], *([str(cell) for cell in line] for line in lines)])
    text = (
        f"{shown}\n\nMake a Markdown table with the column name and one column for each item, in alphabetical order, "
        "and a row for each name, in alphabetical order. A cell is the sum of n for that name and item, 0 where there "
        f"is none.{more}"
    )
    return asked_table(text, table)


# ---- nested lists ----------------------------------------------------------------------------------------------------

Item = tuple[str, list[Any]]


def _grown(rng: random.Random, words: list[str], depth: int) -> list[Item]:
    """A forest of the words: each under an earlier one, or at the top."""
    roots: list[Item] = []
    flat: list[tuple[Item, int]] = []
    for word in words:
        item: Item = (word, [])
        options = [(parent, level) for parent, level in flat if level < depth]
        if options and rng.random() < 0.75:
            parent, level = rng.choice(options[-4:])
            parent[1].append(item)
            flat.append((item, level + 1))
        else:
            roots.append(item)
            flat.append((item, 1))
    return roots


def _outline(items: list[Any], indent: int = 0) -> list[str]:
    found: list[str] = []
    for word, children in items:
        found += ["  " * indent + f"- {word}", *_outline(children, indent + 1)]
    return found


def _parents(items: list[Any], parent: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for word, children in items:
        found += [(word, parent), *_parents(children, word)]
    return found


def _plain(items: list[Any]) -> list[Any]:
    return [[word, _plain(children)] for word, children in items]


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(((word, _sorted(children)) for word, children in items), key=lambda item: item[0])


def ask_nested_list(rng: random.Random, size: int, depth: int) -> Question:
    """What belongs under what, as a nested list in alphabetical order."""
    items = _sorted(_grown(rng, rng.sample(WORDS, size), depth))
    facts = _parents(items, "")
    rng.shuffle(facts)
    told = "\n".join(
        f"{word} is part of {parent}." if parent else f"{word} stands at the top." for word, parent in facts
    )
    text = (
        f"{told}\n\nWrite all of them as a nested Markdown list: each in a line of its own as - word, indented by two "
        "spaces more than what it is part of, right below that or the other parts of it. Parts of the same thing, and "
        "those at the top, in alphabetical order."
    )
    return Question(text=text, answer="\n".join(_outline(items)), facts={"items": _plain(items)})


def read_list(text: str) -> list[Any]:
    """`[[word, children], …]` of a list with -, * or + and two blanks for each level."""
    roots: list[Any] = []
    levels = [roots]
    for line in checked(text).split("\n"):
        content = line.lstrip(" ")
        indent, odd = divmod(len(line) - len(content), 2)
        if odd or content[:2] not in ("- ", "* ", "+ ") or indent >= len(levels) or indent > MAX_DEPTH:
            raise Refused("no item, or a wrong indentation")
        item: list[Any] = [content[2:].strip(), []]
        del levels[indent + 1 :]
        levels[indent].append(item)
        levels.append(item[1])
    return roots


def judge_nested_list(answer: str, task: Task) -> float:
    try:
        return float(read_list(answer) == task.metadata["items"])
    except Refused:
        return 0.0


SKILLS = [
    Skill(
        name="markdown_table",
        ask=ask_markdown_table,
        judge=judge_table,
        levels={
            "easy": {"rows": 1, "columns": 2},
            "medium": {"rows": 4, "columns": 3},
            "hard": {"rows": 9, "columns": 5},
        },
    ),
    Skill(
        name="join_tables",
        ask=ask_join_tables,
        judge=judge_table,
        levels={
            "easy": {"left": 2, "right": 1, "outer": False},
            "medium": {"left": 4, "right": 5, "outer": True},
            "hard": {"left": 8, "right": 14, "outer": True},
        },
    ),
    Skill(
        name="pivot_table",
        ask=ask_pivot,
        judge=judge_table,
        levels={
            "easy": {"rows": 2, "names": 2, "columns": 1, "totals": False},
            "medium": {"rows": 7, "names": 3, "columns": 3, "totals": False},
            "hard": {"rows": 20, "names": 5, "columns": 4, "totals": True},
        },
    ),
    Skill(
        name="nested_list",
        ask=ask_nested_list,
        judge=judge_nested_list,
        levels={
            "easy": {"size": 3, "depth": 2},
            "medium": {"size": 8, "depth": 3},
            "hard": {"size": 18, "depth": 5},
        },
    ),
]
