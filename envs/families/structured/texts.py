"""Exact texts: templates filled, invoices in columns, log lines written and read, and diffs applied and written.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import difflib
import random
from typing import Any

from envs.families.structured.patches import judge_value
from envs.families.structured.reading import Refused, checked
from envs.families.structured.records import judge_lines
from envs.families.structured.worlds import GOODS, SURNAMES, TOWNS, WORDS, asked_json, date, show
from envs.skills import Question, Skill
from envs.types import Task

# ---- templates -------------------------------------------------------------------------------------------------------

_LETTERS = (
    "Dear {{title}} {{name}},\nyour {{item}} left {{town}} today.",
    "{{name}}: {{count}} x {{item}} to {{town}}.",
    "To {{name|upper}} in {{town}}\nYou owe {{price}} for {{count}} {{item}}s.",
)
_PARTS = (
    "{{#if paid}}Thank you for paying.{{else}}Please pay {{price}} soon.{{/if}}",
    "{{#each items}}* {{n}} x {{what}}\n{{/each}}In all: {{count}}",
    "{{#if note}}Note: {{note|upper}}\n{{/if}}Yours, {{name|lower}}",
    "{{#if paid}}{{#each items}}{{what}} ({{n}}); {{/each}}done{{else}}nothing sent{{/if}}",
)


def fill(template: str, data: dict[str, Any]) -> str:
    """A template of ours with placeholders, filters, conditions and loops (blocks of the same kind do not nest)."""
    for kind, block in (("if", _condition), ("each", _loop)):
        while (start := template.find(f"{{{{#{kind} ")) >= 0:
            end = template.index(f"{{{{/{kind}}}}}", start)
            head, _, body = template[start + len(kind) + 4 : end].partition("}}")
            template = template[:start] + block(head, body, data) + template[end + len(kind) + 5 :]
    pieces = template.split("{{")
    return pieces[0] + "".join(_placed(piece, data) for piece in pieces[1:])


def _condition(head: str, body: str, data: dict[str, Any]) -> str:
    kept, _, other = body.partition("{{else}}")
    return kept if data[head] else other


def _loop(head: str, body: str, data: dict[str, Any]) -> str:
    return "".join(fill(body, {**data, **item}) for item in data[head])


def _placed(piece: str, data: dict[str, Any]) -> str:
    name, _, rest = piece.partition("}}")
    key, _, change = name.partition("|")
    value = str(data[key])
    return (value.upper() if change == "upper" else value.lower() if change == "lower" else value) + rest


_FILTERS = "{{x|upper}} is x in capital letters, {{x|lower}} in small ones."
_BLOCKS = (
    "{{#if x}}A{{else}}B{{/if}} is A if x is true or a string that is not empty, else B (nothing without {{else}}). "
    "{{#each x}}A{{/each}} repeats A for each element of x, with the keys of the element. Tags leave no trace, line "
    "breaks around them stay."
)


def ask_template(rng: random.Random, parts: int, orders: int) -> Question:
    """A form letter filled in by stated rules."""
    data: dict[str, Any] = {
        "title": rng.choice(["Dr", "Ms", "Mr"]),
        "name": rng.choice(SURNAMES),
        "item": rng.choice(GOODS),
        "town": rng.choice(TOWNS),
        "count": rng.randint(2, 99),
        "price": f"{rng.randint(100, 9999) / 100:.2f}",
    }
    template = rng.choice(_LETTERS)
    if parts:
        template = "\n".join([template, *rng.sample(_PARTS, parts)])
        data["paid"] = rng.choice([True, False])
        data["note"] = rng.choice(["", rng.choice(WORDS)])
        data["items"] = [{"n": rng.randint(1, 9), "what": rng.choice(GOODS)} for _ in range(rng.randint(1, orders))]
    data = {key: value for key, value in data.items() if key in template}
    shown = {key: data[key] for key in rng.sample(list(data), len(data))}
    rules = " ".join(rule for mark, rule in (("|", _FILTERS), ("{{#", _BLOCKS)) if mark in template)
    text = (
        f"Template:\n---\n{template}\n---\nData:\n{show(shown)}\n\nFill in the template: {{{{x}}}} is the value of x. "
        f"{rules}".rstrip()
        + " Write the text between the lines of dashes, and nothing else."
    )
    return Question(text=text, answer=fill(template, data).strip())


# ---- invoices --------------------------------------------------------------------------------------------------------


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def ask_invoice(rng: random.Random, lines: int, discount: bool, tax: bool) -> Question:
    """An invoice of fixed width with sums, a discount and tax in whole cents."""
    width = rng.randint(22, 26) if lines == 1 else rng.randint(30, 36)
    rows, total = [], 0
    told = []
    for good in rng.sample(GOODS, lines):
        # Multiples of twenty cents: the discount comes out even.
        count, cents = rng.randint(1, 9), rng.randint(6, 300) * 20
        total += count * cents
        told.append(f"{count} {good}{'s' if count > 1 else ''} at {_money(cents)} each")
        rows.append((f"{count} x {good}", count * cents))
    rules = []
    if discount:
        percent = rng.choice([5, 10, 20])
        rows += [("Sum", total), (f"Less {percent}%", -total * percent // 100)]
        total -= total * percent // 100
        rules.append(f'a line "Sum", and a line "Less {percent}%" with that part of the sum as a negative amount')
    if tax:
        percent = rng.choice([10, 20, 25])
        part = (total * percent + 50) // 100
        rows.append((f"Tax {percent}%", part))
        total += part
        rules.append(f'a line "Tax {percent}%" with that part of what is due so far, rounded to cents, half up')
    rows.append(("Total", total))
    rules.append('a line "Total"')
    body = [label + _amount(cents).rjust(width - len(label), ".") for label, cents in rows]
    text = (
        f"Bought: {'; '.join(told)}.\n\nWrite an invoice. Each line is {width} characters wide: on the left the label, "
        f"on the right the amount with two decimals, between them dots. First a line for each good, such as "
        f'"2 x lamp" (singular) with its amount; then {"; then ".join(rules)}.'
    )
    return Question(text=text, answer="\n".join(body))


def _amount(cents: int) -> str:
    return f"-{_money(-cents)}" if cents < 0 else _money(cents)


# ---- logs ------------------------------------------------------------------------------------------------------------

_LEVELS = ("INFO", "WARN", "ERROR")


def _event(rng: random.Random) -> dict[str, Any]:
    iso, said = date(rng)
    hour, minute, second = rng.randrange(24), rng.randrange(60), rng.randrange(60)
    return {
        "day": iso,
        "said": f"{said}, {(hour + 11) % 12 + 1}:{minute:02d}:{second:02d} {'am' if hour < 12 else 'pm'}",
        "time": f"{hour:02d}:{minute:02d}:{second:02d}",
        "level": rng.choice(_LEVELS),
        "where": rng.choice(WORDS),
        "text": f"{rng.choice(WORDS)} {rng.choice(['full', 'ready', 'lost', 'slow'])}",
        "ms": rng.randint(1, 9999),
    }


def ask_write_log(rng: random.Random, events: int) -> Question:
    """Events as log lines in a stated format, in the order of time."""
    found = [_event(rng) for _ in range(events)]
    kind = rng.randrange(3)
    formats = [
        "{day}T{time}Z {level:<5} {where}: {text} ({ms} ms)",
        "[{day} {time}] {where}/{level} {text} took={ms:05d}",
        'time="{day} {time}" level={level} where={where} text="{text}" ms={ms}',
    ]
    words = [
        "2024-01-31T17:05:09Z WARN  tide: reef slow (85 ms), the level filled up with blanks to five characters",
        "[2024-01-31 17:05:09] tide/WARN reef slow took=00085, the milliseconds with five digits",
        'time="2024-01-31 17:05:09" level=WARN where=tide text="reef slow" ms=85',
    ]
    told = "\n".join(
        f"- {one['said']}: {one['level'].lower()} from {one['where']}, {one['text']}, {one['ms']} ms" for one in found
    )
    lines = [formats[kind].format(**one) for one in sorted(found, key=lambda one: (one["day"], one["time"]))]
    order = ", in the order of time" if events > 1 else ""
    text = (
        f"{told}\n\nWrite a log line for each{order}, in the format of this example: {words[kind]}. Hours go from 00 "
        "to 23; 12 am is hour 00."
    )
    return Question(text=text, answer="\n".join(lines))


def ask_read_log(rng: random.Random, events: int, levels: int) -> Question:
    """Log lines counted: how many of each level, the slowest, and those between two times."""
    found = [_event(rng) for _ in range(events)]
    for one, slow in zip(found, rng.sample(range(1, 9999), events), strict=True):
        one["ms"] = slow
    lines = [
        f"{one['day']}T{one['time']}Z {one['level']} [{one['where']}] {one['text']} {one['ms']}ms" for one in found
    ]
    value: dict[str, Any] = {"slowest": max(found, key=lambda one: one["ms"])["where"]}
    rules = ['"slowest": the name in brackets of the line with the most ms']
    if levels:
        value["counts"] = {name: sum(one["level"] == name for one in found) for name in _LEVELS}
        value["total"] = sum(one["ms"] for one in found if one["level"] != "INFO")
        rules += ['"counts": an object with the number of lines for INFO, WARN and ERROR']
        rules += ['"total": the sum of ms of all lines that are not INFO']
    if levels > 1:
        ordered = sorted(found, key=lambda one: (one["day"], one["time"]))
        value["first_error"] = next((one["text"] for one in ordered if one["level"] == "ERROR"), None)
        value["night"] = [one["where"] for one in ordered if one["time"] < "06:00:00"]
        rules += ['"first_error": the text (without ms) of the earliest ERROR, or null']
        rules += ['"night": the names in brackets of the lines before 06:00:00 of any day, in the order of time']
    text = "\n".join(lines) + "\n\nWrite a JSON object with these keys:\n" + "\n".join(f"- {rule}" for rule in rules)
    return asked_json(text, value)


# ---- diffs -----------------------------------------------------------------------------------------------------------


def _changed(rng: random.Random, lines: list[str], changes: int) -> list[str]:
    result = list(lines)
    while result == lines:
        for _ in range(changes):
            at = rng.randrange(len(result))
            kind = rng.randrange(3)
            if kind == 0:
                result.insert(at, rng.choice(WORDS))
            elif kind == 1 and len(result) > 2:
                del result[at]
            else:
                result[at] = rng.choice(WORDS)
    return result


def unified(before: list[str], after: list[str]) -> str:
    """The hunks of a unified diff with one line of context, without the names of files."""
    return "\n".join(list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:])


def _texts(rng: random.Random, lines: int, changes: int) -> tuple[list[str], list[str]]:
    before = [rng.choice(WORDS) for _ in range(lines)]
    return before, _changed(rng, before, changes)


def ask_apply_diff(rng: random.Random, lines: int, changes: int) -> Question:
    """The text after a unified diff."""
    before, after = _texts(rng, lines, changes)
    text = (
        "Text:\n" + "\n".join(before) + f"\n\nUnified diff:\n{unified(before, after)}\n\nApply the diff, and write the "
        "whole new text, line by line."
    )
    return Question(text=text, answer="\n".join(after))


def apply_diff(before: list[str], diff: str) -> tuple[list[str], int]:
    """The text after a diff, and how many lines it takes out or puts in; refused where a line does not fit."""
    result: list[str] = []
    done = changed = 0
    left = [0, 0]
    for line in checked(diff).split("\n"):
        if left == [0, 0]:
            start, left = _hunk(line)
            if start < done or start > len(before):
                raise Refused("hunks out of order")
            result += before[done:start]
            if len(result) != _hunk_target(line):
                raise Refused("a wrong line number")
            done = start
            continue
        mark, content = line[:1], line[1:]
        if mark not in (" ", "-", "+") or not mark:
            raise Refused("a line without a mark")
        if mark != "+":
            if done >= len(before) or before[done] != content:
                raise Refused("a line does not fit")
            done += 1
            left[0] -= 1
        if mark != "-":
            result.append(content)
            left[1] -= 1
        changed += mark != " "
    if left != [0, 0]:
        raise Refused("a hunk is too short or too long")
    return result + before[done:], changed


def _ranges(line: str) -> list[list[int]]:
    """`@@ -3,2 +3,4 @@` -> `[[3, 2], [3, 4]]`."""
    parts = line.split()
    if len(parts) != 4 or parts[0] != "@@" or parts[3] != "@@" or parts[1][0] != "-" or parts[2][0] != "+":
        raise Refused("no head of a hunk")
    found = []
    for part in parts[1:3]:
        numbers = part[1:].split(",")
        if len(numbers) > 2 or any(not (one.isascii() and one.isdigit() and len(one) < 6) for one in numbers):
            raise Refused("no head of a hunk")
        found.append([int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 1])
    return found


def _hunk(line: str) -> tuple[int, list[int]]:
    """Where a hunk begins, from 0, and its numbers of lines before and after."""
    (start, before), (_, after) = _ranges(line)
    if before + after == 0:
        raise Refused("an empty hunk")
    return (start - 1 if before else start), [before, after]


def _hunk_target(line: str) -> int:
    start, after = _ranges(line)[1]
    return start - 1 if after else start


def ask_write_diff(rng: random.Random, lines: int, changes: int) -> Question:
    """A unified diff between two texts with as few changed lines as possible."""
    before, after = _texts(rng, lines, changes)
    diff = unified(before, after)
    most = sum(line[0] in "+-" for line in diff.split("\n"))
    text = (
        "Before:\n" + "\n".join(before) + "\n\nAfter:\n" + "\n".join(after) + "\n\nWrite a unified diff from the first "
        f"text to the second: hunks with heads such as @@ -1,3 +1,4 @@, no lines with names of files. At most {most} "
        f"line{'s' * (most > 1)} may begin with + or -; any number of lines of context."
    )
    return Question(text=text, answer=diff, facts={"before": before, "after": after, "most": most})


def judge_write_diff(answer: str, task: Task) -> float:
    """It applies, gives the second text, and changes no more lines than it may."""
    facts = task.metadata
    try:
        result, changed = apply_diff(facts["before"], answer)
    except Refused:
        return 0.0
    return float(result == facts["after"] and changed <= facts["most"])


def _levels(easy: dict[str, Any], medium: dict[str, Any], hard: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"easy": easy, "medium": medium, "hard": hard}


_DIFFS = _levels({"lines": 4, "changes": 1}, {"lines": 9, "changes": 3}, {"lines": 24, "changes": 8})
SKILLS = [
    Skill(
        name="template",
        ask=ask_template,
        judge=judge_lines,
        levels=_levels({"parts": 0, "orders": 0}, {"parts": 1, "orders": 3}, {"parts": 3, "orders": 5}),
    ),
    Skill(
        name="invoice",
        ask=ask_invoice,
        judge=judge_lines,
        levels=_levels(
            {"lines": 1, "discount": False, "tax": False},
            {"lines": 3, "discount": True, "tax": False},
            {"lines": 6, "discount": True, "tax": True},
        ),
    ),
    Skill(
        name="write_log",
        ask=ask_write_log,
        judge=judge_lines,
        levels=_levels({"events": 1}, {"events": 3}, {"events": 8}),
    ),
    Skill(
        name="read_log",
        ask=ask_read_log,
        judge=judge_value,
        levels=_levels({"events": 3, "levels": 0}, {"events": 6, "levels": 1}, {"events": 16, "levels": 2}),
    ),
    Skill(name="apply_diff", ask=ask_apply_diff, judge=judge_lines, levels=_DIFFS),
    Skill(name="write_diff", ask=ask_write_diff, judge=judge_write_diff, levels=_DIFFS),
]
