"""Functions from a description: reports on lists of dictionaries, and parsers of small made-up formats.

In: a random stream and the settings of a level.  Out: a `Question` answered by Python source.  Called by
`envs.families.code`.
"""

from __future__ import annotations

import random

from envs.families.code.common import NAMES, WORDS, function_question
from envs.skills import Question

# noun, key of a text field, its values, two numeric keys
RECORDS = (
    ("orders", "city", ("Oslo", "Lima", "Cairo", "Kyoto"), ("amount", "items")),
    ("students", "school", ("North", "East", "West"), ("points", "age")),
    ("trips", "vehicle", ("bus", "tram", "bike", "ferry"), ("distance", "minutes")),
    ("books", "genre", ("crime", "poetry", "travel"), ("pages", "copies")),
    ("plants", "bed", ("A1", "A2", "B1", "B2"), ("height", "leaves")),
    ("calls", "agent", ("Mia", "Noor", "Otto", "Pia"), ("seconds", "rating")),
    ("matches", "team", ("Foxes", "Owls", "Bears"), ("goals", "cards")),
    ("shipments", "port", ("Genoa", "Dakar", "Busan", "Santos"), ("weight", "crates")),
)
# the description and the expression of a group `g`, a list of records
AGGREGATES = (
    ("the sum of '{n}'", "sum(r['{n}'] for r in g)"),
    ("the largest '{n}'", "max(r['{n}'] for r in g)"),
    ("the smallest '{n}'", "min(r['{n}'] for r in g)"),
    ("the number of records", "len(g)"),
    ("the number of different values of '{n}'", "len({{r['{n}'] for r in g}})"),
    (
        "the difference between the largest and the smallest '{n}'",
        "max(r['{n}'] for r in g) - min(r['{n}'] for r in g)",
    ),
    ("the '{n}' of its first record in input order", "g[0]['{n}']"),
)


def ask_record_report(rng: random.Random, *, filters: int, aggregates: int, tests: int = 10) -> Question:
    """Filter, group and summarise a list of dictionaries."""
    noun, key, values, fields = rng.choice(RECORDS)
    name, missing = rng.choice(NAMES), rng.random() < 0.5
    conditions, tests_of = [], []
    for field in rng.sample(fields, filters):
        low = rng.randint(5, 30)
        words, sign = rng.choice([("at least", ">="), ("less than", "<"), ("different from", "!=")])
        conditions.append(f"whose '{field}' is {words} {low}")
        tests_of.append(f"r['{field}'] {sign} {low}")
    chosen = [
        (words.format(n=n), code.format(n=n))
        for words, code in rng.sample(AGGREGATES, aggregates)
        for n in [rng.choice(fields)]
    ]
    shape = rng.choice(["dictionary", "list"])
    lines = [f"def {name}(records):", "    groups = {}", "    for r in records:"]
    if missing:
        lines += [f"        if r['{key}'] is None:", "            continue"]
    if tests_of:
        lines += [f"        if not ({' and '.join(tests_of)}):", "            continue"]
    lines += [f"        groups.setdefault(r['{key}'], []).append(r)"]
    summary = f"[{', '.join(code for _, code in chosen)}]"
    if shape == "dictionary":
        lines.append(f"    return {{k: {summary} for k, g in groups.items()}}")
        parts = ", ".join(words for words, _ in chosen)
        result = f"Return a dictionary from each '{key}' that is left to the list [{parts}] of its group."
    else:
        lines.append(f"    rows = [[k, *{summary}] for k, g in groups.items()]")
        lines.append("    return sorted(rows, key=lambda row: (-row[1], row[0]))")
        result = (
            f"Return a list with one list ['{key}', {', '.join(w for w, _ in chosen)}] for each group, sorted "
            "by the second "
            f"element descending, ties by '{key}' ascending."
        )
    rule = f"Skip records whose '{key}' is None. " if missing else ""
    if conditions:
        rule += f"Use only the records {' and '.join(conditions)}. "
    possible: list[str | None] = [*values, None] if missing else [*values]

    def records(most: int) -> list[dict[str, object]]:
        return [
            {key: rng.choice(possible), **{field: rng.randint(0, 40) for field in fields}}
            for _ in range(rng.randint(2, most))
        ]

    none_left: list[object] = []
    return function_question(
        task=(
            f"`records` is a list of {noun}: dictionaries with the keys '{key}' (a "
            f"text{' or None' if missing else ''}), "
            f"'{fields[0]}' and '{fields[1]}' (whole numbers). {rule}Group the records by '{key}'. {result}"
        ),
        name=name,
        signature=f"{name}(records)",
        source="\n".join(lines),
        arguments=[[records(4)], [none_left]] + [[records(14)] for _ in range(tests)],
        shown=1,
    )


def ask_parse_format(rng: random.Random, *, features: int, tests: int = 10) -> Question:
    """A parser of a line-less settings format that nobody has seen before."""
    name = rng.choice(NAMES)
    between, assign = rng.sample(";,|/", 2)[0], rng.choice(":=~>")
    comment, item = rng.choice("#%!"), rng.choice("+&*")
    known = ["numbers", "lists", "flags", "comments", "repeats", "nested"]
    chosen = rng.sample(known, features)
    rules = [
        f"Entries are separated by '{between}'. Spaces around entries, keys and values are ignored, and empty "
        "entries are skipped.",
        f"An entry is a key and a value separated by the first '{assign}' in it.",
    ]
    body = [
        "    result = {}",
        f"    for entry in text.split({between!r}):",
        "        entry = entry.strip()",
        "        if not entry:",
        "            continue",
    ]
    if "comments" in chosen:
        rules.append(f"An entry that begins with '{comment}' is a comment and is skipped.")
        body += [f"        if entry[0] == {comment!r}:", "            continue"]
    if "flags" in chosen:
        rules.append(f"An entry without '{assign}' is a flag: its key is the whole entry, its value is True.")
    else:
        rules.append(f"An entry without '{assign}' is skipped.")
    body += [
        f"        key, mark, value = entry.partition({assign!r})",
        "        key, value = key.strip(), value.strip()",
    ]
    body += ["        if not mark:", "            value = True" if "flags" in chosen else "            continue"]
    if "lists" in chosen:
        rules.append(
            f"A value that contains '{item}' becomes the list of its parts between the '{item}', stripped of spaces."
        )
        body += [
            f"        elif {item!r} in value:",
            f"            value = [part.strip() for part in value.split({item!r})]",
        ]
    if "numbers" in chosen:
        rules.append(
            "A value made of decimal digits only, with an optional '-' in front, becomes a whole number"
            + (" (parts of lists stay texts)." if "lists" in chosen else ".")
        )
        body += [
            "        elif value.removeprefix('-').isdigit():",
            "            value = int(value)",
        ]
    if "nested" in chosen:
        rules.append(
            "A key with a '.' in it is a path 'outer.inner' (split at the first '.'): the value goes to "
            "result['outer']['inner']. No text uses the same name both as an outer name and as a plain key."
        )
        body += [
            "        space = result",
            "        if '.' in key:",
            "            outer, key = key.split('.', 1)",
            "            space = result.setdefault(outer, {})",
        ]
    else:
        body += ["        space = result"]
    if "repeats" in chosen:
        rules.append("Of several entries with the same key, the first one counts.")
        body += ["        space.setdefault(key, value)"]
    else:
        rules.append("Of several entries with the same key, the last one counts.")
        body += ["        space[key] = value"]

    def entry() -> str:
        key = rng.choice(WORDS[:6])
        if "nested" in chosen and rng.random() < 0.4:
            key = f"{rng.choice(WORDS[10:12])}.{rng.choice(WORDS[20:23])}"
        value = rng.choice([str(rng.randint(-50, 99)), rng.choice(WORDS), f"{rng.choice(WORDS)}{assign}x"])
        kind = rng.random()
        if kind < 0.15:
            return rng.choice(WORDS[30:34])
        if kind < 0.25:
            return f"{comment}{key}{assign}1"
        if kind < 0.4:
            value = item.join(
                rng.choice([rng.choice(WORDS), str(rng.randint(0, 9)), ""]) for _ in range(rng.randint(2, 3))
            )
        space = rng.choice(["", "", " "])
        return f"{space}{key}{space}{assign}{space}{value}"

    def text(most: int) -> str:
        return between.join(
            rng.choice(["", " "]) if rng.random() < 0.1 else entry() for _ in range(rng.randint(1, most))
        )

    return function_question(
        task="`text` holds settings in a small format of its own; return them as a dictionary.\n- "
        + "\n- ".join(rules),
        name=name,
        signature=f"{name}(text)",
        source="\n".join([f"def {name}(text):", *body, "    return result"]),
        arguments=[[text(5)], [text(4)], [""]] + [[text(9)] for _ in range(tests)],
    )
