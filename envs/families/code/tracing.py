"""What does this program print?  Programs from small grammars, run by this project to know the answer.

In: a random stream and the settings of a level.  Out: a `Question` with one exact answer.  Called by
`envs.families.code`.  Loops of the programs have fixed bounds, so that each of them ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from envs.skills import Question
from envs.types import Task

MOST_LINES = 100
LINES_ANSWER = "What does it print? Give the printed lines in order, one per line, exactly as printed."
VALUES = "total count level score depth gauge limit shift".split()


def printed(source: str) -> str:
    """What one of this package's own programs prints."""
    out: list[str] = []

    def write(*values: Any) -> None:
        out.append(" ".join(map(str, values)))
        if len(out) > MOST_LINES:
            raise TooLong

    exec(compile(source, "<own>", "exec"), {"print": write, "__name__": "own"})
    return "\n".join(out)


class TooLong(BaseException):
    """A drawn program prints for ever; no `except Exception` of its own catches this."""


def same_lines(answer: str, task: Task) -> float:
    """The same lines, up to white space around each and around all, and a code fence around all."""
    lines = [line.strip() for line in answer.strip().split("\n")]
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1] == "```":
        lines = lines[1:-1]
    return float(lines == [line.strip() for line in task.reference.split("\n")])


def _shown(source: str, words: str = "Read this Python program.") -> Question:
    return Question(f"{words}\n\n```python\n{source.strip()}\n```\n\n{LINES_ANSWER}", printed(source))


def _redrawn(rng: random.Random, make: Callable[[random.Random], str], most: int = 12) -> Question:
    """The first program that prints between one and `most` short lines, not all the same."""
    while True:
        source = make(rng)
        try:
            lines = printed(source).split("\n")
        except (TooLong, IndexError, TypeError):
            continue
        if lines[0] and len(lines) <= most and len("".join(lines)) < 300 and (len(lines) == 1 or len(set(lines)) > 1):
            return _shown(source)


# ---- control flow ----------------------------------------------------------------------------------------------------


def ask_predict_output(rng: random.Random, *, statements: int, nesting: int) -> Question:
    """Assignments, conditions and bounded loops over whole numbers and one list."""

    def make(rng: random.Random) -> str:
        names = rng.sample(VALUES, 3)
        lines = [f"{name} = {rng.randint(0, 9)}" for name in names] + [
            f"items = {[rng.randint(0, 9) for _ in range(rng.randint(3, 5))]}"
        ]
        for _ in range(statements):
            lines += _statement(rng, names, nesting, "")
        return "\n".join([*lines, f"print({', '.join(names)})", "print(items)"])

    return _redrawn(rng, make)


def _operand(rng: random.Random, names: list[str]) -> str:
    return rng.choice([*names, rng.choice(names), str(rng.randint(1, 9)), "len(items)"])


def _condition(rng: random.Random, names: list[str]) -> str:
    left = rng.choice(names)
    return rng.choice(
        [
            f"{left} % {rng.randint(2, 4)} == {rng.randint(0, 1)}",
            f"{left} {rng.choice(['<', '>', '>=', '!='])} {_operand(rng, names)}",
            f"{left} in items",
            f"{left} > {rng.randint(2, 9)} {rng.choice(['and', 'or'])} {rng.choice(names)} % 2 == 0",
        ]
    )


def _statement(rng: random.Random, names: list[str], nesting: int, indent: str) -> list[str]:
    a, b = rng.sample(names, 2)
    simple = [
        f"{a} = ({a} {rng.choice(['+', '-', '*'])} {_operand(rng, names)}) % {rng.randint(7, 23)}",
        f"{a} += {_operand(rng, names)}",
        f"{a}, {b} = {b}, {a} + 1",
        f"items.append({a} % 10)",
        f"items[{a} % len(items)] = {_operand(rng, names)}",
        f"items = items[{rng.randint(1, 2)}:] + items[:1]",
        f"{a} = {b} // {rng.randint(2, 4)}",
        f"{a} = max(items) - {b}",
    ]
    kind = rng.random()
    if nesting and kind < 0.35:
        return [
            f"{indent}for step in range({rng.randint(2, 4)}):",
            *_statement(rng, names, nesting - 1, indent + "    "),
            *_statement(rng, [*names, "step"][1:], 0, indent + "    "),
        ]
    if nesting and kind < 0.7:
        return [
            f"{indent}if {_condition(rng, names)}:",
            *_statement(rng, names, nesting - 1, indent + "    "),
            f"{indent}else:",
            *_statement(rng, names, 0, indent + "    "),
        ]
    return [indent + rng.choice(simple)]


# ---- sharing, exceptions, classes, generators ------------------------------------------------------------------------


def ask_aliasing(rng: random.Random, *, steps: int) -> Question:
    """Lists that share elements or are one and the same, under several names."""

    def make(rng: random.Random) -> str:
        lines = [
            f"a = {[[rng.randint(0, 9)] for _ in range(2)]}",
            f"b = {rng.choice(['a', 'a[:]', '[a[0], [7]]', '[a[1]] * 2'])}",
        ]
        lines.append(f"c = {rng.choice(['[list(x) for x in b]', 'b', 'a + b', 'b[::-1]'])}")
        if rng.random() < 0.5:
            lines += [
                "def change(x, y=[]):",
                "    y.append(len(x))",
                f"    x.append({rng.choice(['y', 'list(y)', 'y[:1]'])})",
            ]
            calls = ["change(a)", "change(b)", "change(c)"]
        else:
            calls = [f"{name}.append([{rng.randint(0, 9)}])" for name in "abc"]
        for _ in range(steps):
            name, other = rng.choice("abc"), rng.choice("abc")
            lines.append(
                rng.choice(
                    [
                        f"{name}[0].append({rng.randint(0, 9)})",
                        f"{name}[{rng.randint(0, 1)}] = {other}[{rng.randint(0, 1)}]",
                        f"{name}[1] = [{rng.randint(0, 9)}]",
                        f"{name} = {name} + [[{rng.randint(0, 9)}]]",
                        f"{name} += [{other}[0]]",
                        f"{name} = {other}",
                        rng.choice(calls),
                    ]
                )
            )
        return "\n".join([*lines, "print(a)", "print(b)", "print(c)", "print(a is b, b is c, a[0] is b[0])"])

    return _redrawn(rng, make)


ERRORS = ("ValueError", "KeyError", "IndexError", "TypeError", "ZeroDivisionError")
RAISERS = {
    "ValueError": "int('{w}')", "KeyError": "{{'{w}': 1}}['z']", "IndexError": "[1, 2][{n}]",
    "TypeError": "'{w}' + {n}", "ZeroDivisionError": "{n} // 0",
}  # fmt: skip


def ask_exceptions(rng: random.Random, *, functions: int, calls: int) -> Question:
    """Which of try, except, else and finally runs, through several functions."""

    def make(rng: random.Random) -> str:
        lines = ["def f0(n):"]
        for number in rng.sample(range(1, 6), 3):
            action = RAISERS[rng.choice(ERRORS)].format(w=rng.choice("xyk"), n=rng.randint(3, 9))
            lines += [f"    if n % {rng.randint(3, 5)} == {number % 3}:", f"        {action}"]
        lines += [f"    return n * {rng.randint(2, 5)}"]
        for i in range(1, functions + 1):
            caught = rng.sample([*ERRORS, "LookupError", "ArithmeticError"], 2)
            lines += [
                f"def f{i}(n):",
                "    try:",
                f"        value = f{i - 1}(n {rng.choice(['+', '-'])} {rng.randint(0, 2)})",
            ]
            for error in caught:
                ending = rng.choice(
                    [f"return {rng.randint(-9, 0)}", "raise", f"raise {rng.choice(ERRORS)}('again')", "value = n"]
                )
                lines += [f"    except {error}:", f"        print('f{i} {error}')", f"        {ending}"]
            if rng.random() < 0.6:
                lines += ["    else:", f"        print('f{i} else')"]
            lines += ["    finally:", f"        print('f{i} finally', n)"]
            lines += [f"    return value + {rng.randint(1, 3)}"]
        lines += [f"for n in {rng.sample(range(0, 12), calls)}:", "    try:", f"        print(f{functions}(n))"]
        lines += ["    except Exception as error:", "        print(type(error).__name__)"]
        return "\n".join(lines)

    return _redrawn(rng, make, most=24)


def ask_method_dispatch(rng: random.Random, *, classes: int, calls: int) -> Question:
    """Inherited and overridden methods, super(), class and instance attributes."""

    def make(rng: random.Random) -> str:
        names = rng.sample("Anvil Bolt Crane Drill Easel Forge Gear Hinge".split(), classes)
        lines = [
            f"class {names[0]}:",
            f"    rate = {rng.randint(2, 5)}",
            "    def __init__(self, n):",
            "        self.n = n",
        ]
        lines += [
            "    def first(self):",
            "        return self.n + self.second()",
            "    def second(self):",
            "        return self.rate",
        ]
        for i, name in enumerate(names[1:], 1):
            bases = [names[rng.randrange(i)]]
            lines.append(f"class {name}({bases[0]}):")
            parts = [
                [f"    rate = {rng.randint(6, 9)}"],
                ["    def second(self):", f"        return super().second() * {rng.randint(2, 4)}"],
                ["    def second(self):", f"        return self.n - {rng.randint(1, 5)}"],
                ["    def first(self):", f"        return super().first() - {rng.randint(1, 9)}"],
                [
                    "    def __init__(self, n):",
                    f"        super().__init__(n + {rng.randint(1, 3)})",
                    f"        self.rate = {rng.randint(10, 20)}",
                ],
                ["    def first(self):", "        self.n += 1", f"        return super().first() + {name}.rate"],
            ]
            chosen = rng.sample(parts, 2)
            if chosen[0][0].split("(")[0] == chosen[1][0].split("(")[0]:
                chosen = chosen[:1]
            lines += [line for part in chosen for line in part]
        for i in range(calls):
            kind = rng.choice(names[1:])
            lines.append(f"x{i} = {kind}({rng.randint(1, 9)})")
            if rng.random() < 0.5:
                lines.append(f"{rng.choice([names[0], kind, f'x{i}'])}.rate += {rng.randint(1, 5)}")
            lines.append(f"print(x{i}.first(), x{i}.second(), x{i}.rate)")
        return "\n".join([*lines, f"print({names[0]}.rate)"])

    return _redrawn(rng, make)


def ask_generators(rng: random.Random, *, stages: int, pulls: int) -> Question:
    """The order in which lazy generators and closures do their work."""

    def make(rng: random.Random) -> str:
        low, step = rng.randint(1, 20), rng.randint(1, 3)
        lines = [
            "def source():",
            f"    n = {low}",
            "    while True:",
            f"        {rng.choice(['', chr(112) + 'rint(' + repr('make') + ', n)'])}",
        ]
        lines = [line for line in lines if line.strip()]
        lines += [f"        n += {step}", f"        yield n {rng.choice(['', '- 1', '* 2'])}".rstrip()]
        names = []
        for i in range(stages):
            names.append(f"stage{i}")
            factor = rng.randint(2, 4)
            lines.append(f"def stage{i}(items):")
            lines += rng.choice(
                [
                    [
                        "    for x in items:",
                        f"        if x % {factor} == 0:",
                        "            print('drop', x)",
                        "            continue",
                        "        yield x",
                    ],
                    ["    for x in items:", "        print('see', x)", f"        yield x * {factor}"],
                    [
                        "    last = 0",
                        "    for x in items:",
                        "        yield x + last",
                        "        last = x",
                        "        print('kept', last)",
                    ],
                    ["    for x in items:", "        yield x", "        yield -next(items)"],
                ]
            )
        lines.append("flow = source()")
        lines += [f"flow = {name}(flow)" for name in names]
        lines += ["print('start')", f"for _ in range({pulls}):", "    print(next(flow))"]
        return "\n".join(lines)

    return _redrawn(rng, make, most=25)


# ---- counting --------------------------------------------------------------------------------------------------------

# A loop header by the loops around it: how its variable runs, in terms of n and of the outer variable.
LOOPS = (
    ("for {v} in range({o}):", 1),
    ("for {v} in range({o}, n):", 1),
    ("for {v} in range(0, n, {k}):", 0),
    ("for {v} in range({o} % {k}):", 1),
    ("for {v} in range({k}, n + 1):", 0),
    ("for {v} in range(min({o}, {k})):", 1),
)


def ask_count_steps(rng: random.Random, *, loops: int, low: int, high: int) -> Question:
    """How often the innermost lines of nested loops run, for an n that is too large to go through by hand."""
    n = rng.randint(low, high)
    lines, outer = [f"n = {n}", "count = extra = 0"], "n"
    for depth in range(loops):
        name = "ijk"[depth]
        header = rng.choice([loop for loop, inner in LOOPS if depth or not inner])
        lines.append("    " * depth + header.format(v=name, o=outer, k=rng.randint(2, 7)))
        outer = name
    lines.append("    " * loops + "count += 1")
    lines.append("    " * loops + f"if ({outer} + {rng.randint(1, 9)}) % {rng.randint(2, 5)} == 0:")
    lines.append("    " * (loops + 1) + "extra += 1")
    source = "\n".join([*lines, "print(count)", "print(extra)"])
    return _shown(source)
