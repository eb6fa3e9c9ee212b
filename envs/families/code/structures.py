"""Functions from a description: nested trees, intervals, dates, and small classes with a state.

In: a random stream and the settings of a level.  Out: a `Question` answered by Python source.  Called by
`envs.families.code`.
"""

from __future__ import annotations

import random
from typing import Any

from envs.families.code.common import NAMES, PYTHON_ANSWER, WORDS, fenced, function_question, results
from envs.skills import Question

# What a leaf v at depth d gives, and how the results of children become that of their node: words and code.
LEAVES = (
    ("its value", "node"),
    ("its value times its depth", "node * depth"),
    ("its value if it is even, else 0", "node if node % 2 == 0 else 0"),
    ("its value if its depth is odd, else minus its value", "node if depth % 2 else -node"),
    ("1 if its value is greater than {k}, else 0", "1 if node > {k} else 0"),
    ("the absolute value of its value", "abs(node)"),
)
NODES = (
    ("the sum of the results of its children (0 without children)", "sum(parts)"),
    ("the largest result of its children (0 without children)", "max(parts, default=0)"),
    ("the sum of the results of its children plus its number of children", "sum(parts) + len(parts)"),
    ("the first child's result minus the sum of the others' (0 without children)", "2 * sum(parts[:1]) - sum(parts)"),
    (
        "the largest minus the smallest result of its children (0 without children)",
        "max(parts) - min(parts) if parts else 0",
    ),
    ("the sum of the two largest results of its children (of all, if fewer)", "sum(sorted(parts)[-2:])"),
)


def _tree(rng: random.Random, depth: int, width: int) -> Any:
    if depth == 0 or rng.random() < 0.25:
        return rng.randint(-9, 20)
    return [_tree(rng, depth - 1, width) for _ in range(rng.randint(0, width))]


def ask_tree_fold(rng: random.Random, *, depth: int, width: int, two_rules: bool, tests: int = 12) -> Question:
    """A recursive function of nested lists."""
    name, limit = rng.choice(NAMES), rng.randint(0, 12)
    leaf, node, other = rng.choice(LEAVES), *rng.sample(NODES, 2)
    words = f"- The result of a number is {leaf[0].format(k=limit)}.\n"
    fold = node[1]
    if two_rules:
        words += (
            f"- The result of a list at even depth is {node[0]}.\n- The result of a list at odd depth is {other[0]}.\n"
        )
        fold = f"({node[1]}) if depth % 2 == 0 else ({other[1]})"
    else:
        words += f"- The result of a list is {node[0]}.\n"
    source = (
        f"def {name}(tree):\n    def result(node, depth):\n        if isinstance(node, int):\n"
        f"            return {leaf[1].format(k=limit)}\n"
        f"        parts = [result(child, depth + 1) for child in node]\n        return {fold}\n    return "
        "result(tree, 0)\n"
    )

    def tree(deep: int) -> Any:
        return [_tree(rng, deep - 1, width) for _ in range(rng.randint(1, width))]

    return function_question(
        task=(
            "`tree` is a list whose elements are whole numbers or again such lists, to any depth. The "
            "outermost list has "
            f"depth 0, its elements depth 1, and so on.\n{words}Return the result of the outermost list."
        ),
        name=name,
        signature=f"{name}(tree)",
        source=source,
        arguments=[[tree(2)], [tree(3)], [[]], [[[]]]] + [[tree(depth)] for _ in range(tests)],
    )


INTERVAL_TASKS = {
    "merge": (
        "Return the union of the intervals as a list of disjoint intervals [start, end], sorted ascending. {touch}",
        "    out = []\n    for s, e in sorted(spans):\n        if out and s <= out[-1][1]{plus}:\n"
        "            out[-1][1] = max(out[-1][1], e)\n        else:\n            out.append([s, e])\n    return out\n",
    ),
    "gaps": (
        "Return the maximal stretches of whole numbers from {low} to {high} (both included) that no interval "
        "covers, as a "
        "sorted list of [first, last].",
        "    out, at = [], {low}\n    for s, e in sorted(spans):\n        last = e{minus}\n        if s > {high}:\n"
        "            break\n        if s > at:\n            out.append([at, s - 1])\n        at = max(at, last + 1)\n"
        "    if at <= {high}:\n        out.append([at, {high}])\n    return out\n",
    ),
    "busiest": (
        "Return [count, number]: the largest count of intervals that cover one whole number, and the smallest "
        "whole number "
        "covered by so many. Return [0, 0] if there is no interval.",
        "    best, where = 0, 0\n    for at in sorted({{s for s, _ in spans}}):\n"
        "        count = sum(s <= at <= e{minus} for s, e in spans)\n        if count > best:\n"
        "            best, where = count, at\n    return [best, where]\n",
    ),
    "covered": (
        "Return how many whole numbers are covered by at least {k} of the intervals.",
        "    low = min((s for s, _ in spans), default=0)\n    high = max((e for _, e in spans), default=0)\n"
        "    return sum(sum(s <= at <= e{minus} for s, e in spans) >= {k} for at in range(low, high + 1))\n",
    ),
    "rooms": (
        "Return the smallest number of rooms that hold all the intervals as bookings: two bookings in one room "
        "must not "
        "cover a common whole number.",
        "    return max((sum(s <= at <= e{minus} for s, e in spans) for at, _ in spans), default=0)\n",
    ),
    "most_disjoint": (
        "Return the largest number of intervals that can be chosen so that no two of them cover a common whole number.",
        "    count, free = 0, None\n    for s, e in sorted(spans, key=lambda span: span[1]):\n"
        "        if free is None or s > free:\n            count, free = count + 1, e{minus}\n    return count\n",
    ),
}


def ask_intervals(rng: random.Random, *, kinds: tuple[str, ...], most: int, tests: int = 14) -> Question:
    """Unions, gaps and overlaps of whole-number intervals, open or closed at the end."""
    name, kind = rng.choice(NAMES), rng.choice(kinds)
    closed = rng.random() < 0.5
    low = rng.randint(-10, 5)
    touch = (
        "Intervals that share a number or lie next to each other (such as [1, 3] and [4, 6]) become one."
        if closed
        else "Intervals that overlap or touch (such as [1, 4] and [4, 6]) become one."
    )
    fill = {
        "touch": touch,
        "plus": " + 1" if closed else "",
        "minus": "" if closed else " - 1",
        "low": low,
        "high": low + rng.randint(15, 40),
        "k": rng.randint(2, 3),
    }
    words, body = (part.format(**fill) for part in INTERVAL_TASKS[kind])

    def spans(count: int) -> list[list[int]]:
        starts = [rng.randint(-12, 30) for _ in range(count)]
        return [[start, start + rng.randint(0 if closed else 1, 9)] for start in starts]

    meaning = (
        "from start to end, both included (start <= end)"
        if closed
        else "from start up to but not including end (start < end)"
    )
    return function_question(
        task="`spans` is a list of intervals [start, end], in any order: each covers the whole numbers "
        f"{meaning}. {words}",
        name=name,
        signature=f"{name}(spans)",
        source=f"def {name}(spans):\n{body}",
        arguments=[[spans(3)], [spans(4)], [[]]] + [[spans(rng.randint(1, most))] for _ in range(tests)],
    )


DATE_TASKS = (
    (
        "Return the number of days from `first` to `second` (both included) that fall on a {day}.",
        "    a, b = date.fromisoformat(first), date.fromisoformat(second)\n"
        "    days = [a + timedelta(i) for i in range((b - a).days + 1)]\n    return sum(d.weekday() == {w} for "
        "d in days)\n",
    ),
    (
        "Return the number of working days (Monday to Friday) from `first` (included) to `second` (not "
        "included), where the "
        "{k}. day of each month is a holiday whatever its weekday.",
        "    a, b = date.fromisoformat(first), date.fromisoformat(second)\n"
        "    days = [a + timedelta(i) for i in range((b - a).days)]\n"
        "    return sum(d.weekday() < 5 and d.day != {k} for d in days)\n",
    ),
    (
        "Return the list of the last days of all months that end between `first` and `second` (both included), "
        "as 'YYYY-MM-DD' "
        "in ascending order.",
        "    a, b = date.fromisoformat(first), date.fromisoformat(second)\n"
        "    days = [a + timedelta(i) for i in range((b - a).days + 1)]\n"
        "    return [d.isoformat() for d in days if (d + timedelta(1)).day == 1]\n",
    ),
    (
        "Return [years, months, days]: the largest number of full years, then of full months, then of days "
        "that lead from "
        "`first` to `second`. Adding months to a date keeps the day, or takes the last day of the month if it "
        "is shorter; years "
        "and months are added to `first` together, in one step.",
        "    a, b = date.fromisoformat(first), date.fromisoformat(second)\n    def plus(n):\n"
        "        y, m = divmod(a.year * 12 + a.month - 1 + n, 12)\n        day = a.day\n        while True:\n"
        "            try:\n                return date(y, m + 1, day)\n            except ValueError:\n"
        "                day -= 1\n    n = 0\n    while plus(n + 1) <= b:\n        n += 1\n"
        "    return [n // 12, n % 12, (b - plus(n)).days]\n",
    ),
    (
        "Return the first {day} on or after `first` whose day of the month is divisible by {k} and which is "
        "not after `second`, as "
        "'YYYY-MM-DD', or None if there is none.",
        "    a, b = date.fromisoformat(first), date.fromisoformat(second)\n    while a <= b:\n"
        "        if a.weekday() == {w} and a.day % {k} == 0:\n            return a.isoformat()\n"
        "        a += timedelta(1)\n    return None\n",
    ),
    (
        "Return a dictionary from 'YYYY-MM' to the number of days of that month from `first` to `second` (both "
        "included) that "
        "are not a {day}; months without such a day are left out.",
        "    a, b = date.fromisoformat(first), date.fromisoformat(second)\n    out = {{}}\n    while a <= b:\n"
        "        if a.weekday() != {w}:\n            key = a.isoformat()[:7]\n            out[key] = "
        "out.get(key, 0) + 1\n"
        "        a += timedelta(1)\n    return out\n",
    ),
    (
        "A payment is due every {n} days, the first on `first`. One that falls on a Saturday or Sunday is made "
        "on the Monday "
        "after (later ones do not shift). Return the list of the days on which payments are made that are not "
        "after `second`, "
        "as 'YYYY-MM-DD' in ascending order.",
        "    a, b = date.fromisoformat(first), date.fromisoformat(second)\n    out = []\n    while a <= b:\n"
        "        paid = a + timedelta((7 - a.weekday()) if a.weekday() > 4 else 0)\n        if paid <= b:\n"
        "            out.append(paid.isoformat())\n        a += timedelta({n})\n    return out\n",
    ),
)
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def ask_dates(rng: random.Random, *, kinds: int, span: int, tests: int = 12) -> Question:
    """Calendar arithmetic between two dates; the first `kinds` of the tasks."""
    from datetime import date, timedelta

    name, weekday = rng.choice(NAMES), rng.randrange(7)
    words, body = DATE_TASKS[rng.randrange(kinds)]
    # At least 8, so that payments moved to a Monday never overtake or meet the next one.
    fill = {"day": DAYS[weekday], "w": weekday, "k": rng.randint(2, 9), "n": rng.randint(8, 45)}

    def pair(most: int) -> list[str]:
        start = date(2019, 1, 1) + timedelta(rng.randrange(2200))
        if rng.random() < 0.3:
            start = start.replace(day=1) - timedelta(1)  # the last day of a month
        return [start.isoformat(), (start + timedelta(rng.randint(1, most))).isoformat()]

    return function_question(
        task="`first` and `second` are dates as texts 'YYYY-MM-DD', `first` not after `second`. "
        f"{words.format(**fill)}",
        name=name,
        signature=f"{name}(first, second)",
        source=f"from datetime import date, timedelta\n\ndef {name}(first, second):\n{body.format(**fill)}",
        arguments=[pair(70), pair(200), ["2024-02-28", "2024-03-01"]] + [pair(span) for _ in range(tests)],
    )


# One operation each: the description, the method, and how a random call of it looks.
STORE_METHODS = {
    "add": (
        "`add(name, amount)`: add amount to the count of name (0 before it is first added), but never beyond {cap}. "
        "Return the new count.",
        "    def add(self, name, amount):\n        self.counts[name] = min({cap}, self.counts.get(name, 0) + amount)\n"
        "        return self.counts[name]\n",
    ),
    "take": (
        "`take(name, amount)`: if the count of name is at least amount, subtract it and return True, else "
        "change nothing "
        "and return False. A name whose count becomes 0 is forgotten.",
        "    def take(self, name, amount):\n        if self.counts.get(name, 0) < amount:\n            return False\n"
        "        self.counts[name] = self.counts.get(name, 0) - amount\n        if not self.counts[name]:\n"
        "            del self.counts[name]\n        return True\n",
    ),
    "total": (
        "`total()`: return the sum of all counts.",
        "    def total(self):\n        return sum(self.counts.values())\n",
    ),
    "low": (
        "`low(amount)`: return the sorted list of the names whose count is below amount.",
        "    def low(self, amount):\n        return sorted(n for n, c in self.counts.items() if c < amount)\n",
    ),
    "top": (
        "`top()`: return the name with the highest count (the alphabetically first of several), or None without names.",
        "    def top(self):\n        return min(self.counts, key=lambda n: (-self.counts[n], n), default=None)\n",
    ),
    "rename": (
        "`rename(old, new)`: if old is known, and new is another name, add the count of old to that of new "
        "(not beyond {cap}), "
        "and forget old. Return the number of known names.",
        "    def rename(self, old, new):\n        if old in self.counts and old != new:\n"
        "            self.counts[new] = min({cap}, self.counts.get(new, 0) + self.counts.pop(old))\n"
        "        return len(self.counts)\n",
    ),
    "undo": (
        "`undo()`: take back the last call of `add` that is not yet taken back, by giving its name the count "
        "that it had just "
        "before that call (no count: the name is forgotten). Return that name, or None if there is no such call.",
        "    def undo(self):\n        if not self.log:\n            return None\n        name, count = self.log.pop()\n"
        "        if count is None:\n            self.counts.pop(name, None)\n        else:\n"
        "            self.counts[name] = count\n        return name\n",
    ),
}
_ARGUMENTS = {"add": "na", "take": "na", "total": "", "low": "a", "top": "", "rename": "nn", "undo": ""}
DRIVER = """

def run_operations(calls):
    instance = {name}()
    return [getattr(instance, method)(*arguments) for method, arguments in calls]
"""


def ask_stateful_class(rng: random.Random, *, methods: int, calls: int, tests: int = 8) -> Question:
    """A class with a state, judged by the results of series of calls."""
    noun = rng.choice(["Store", "Depot", "Pantry", "Ledger", "Stock", "Tally", "Basket", "Cellar"])
    name = rng.choice(WORDS).title() + noun
    others = [method for method in STORE_METHODS if method != "add"]
    chosen = ["add", *rng.sample(others, methods - 1)]
    cap = rng.randint(8, 20)
    add = STORE_METHODS["add"][1]
    if "undo" in chosen:
        add = add.replace("\n", "\n        self.log.append((name, self.counts.get(name)))\n", 1)
    bodies = [(add if method == "add" else STORE_METHODS[method][1]).format(cap=cap) for method in chosen]
    source = (
        f"class {name}:\n    def __init__(self):\n        self.counts = {{}}\n        self.log = []\n\n"
        + "\n".join(bodies)
    )
    words = rng.sample(WORDS, 4)

    def series(count: int) -> list[Any]:
        out = []
        for _ in range(count):
            method = rng.choice([*chosen, "add"])
            values = [rng.choice(words) if kind == "n" else rng.randint(1, 9) for kind in _ARGUMENTS[method]]
            out.append([method, values])
        return out

    cases = results(source + DRIVER.format(name=name), "run_operations", [[series(calls)] for _ in range(tests)])
    shown = "\n".join(
        f"{noun.lower()}.{method}({', '.join(map(repr, values))}) -> {value!r}"
        for (method, values), value in zip(cases[0][0][0][:6], cases[0][1], strict=False)
    )
    text = (
        f"Write a Python class `{name}` (its constructor takes no arguments) that keeps a count for each of a "
        "number of names, "
        "with these methods:\n- "
        + "\n- ".join(STORE_METHODS[method][0].format(cap=cap) for method in chosen)
        + "\nA name is known while it has a count. Amounts are whole numbers of at least 1.\n\n"
        f"Example, where {noun.lower()} = {name}():\n{shown}\n\n{PYTHON_ANSWER}"
    )
    return Question(
        text, fenced(source), {"name": "run_operations", "cases": cases, "driver": DRIVER.format(name=name)}
    )
