"""Reading, repairing and testing small functions.

In: a random stream and the settings of a level.  Out: `Question`s, and the judges of inputs and of tests that a model
chose.  Called by `envs.families.code`.  Where no code of the model is needed, none runs: our own functions run on the
model's inputs, in the sandbox.
"""

from __future__ import annotations

import ast
import json
import random
from typing import Any

from envs import sandbox
from envs.families.code.bank import Piece, draw_arguments, draw_piece, mutants, outcomes
from envs.families.code.common import (
    PYTHON_ANSWER,
    fenced,
    is_numbers,
    passes_cases,
    plain,
    read_json,
    results,
    source_of,
)
from envs.sandbox import Limits
from envs.skills import Question
from envs.types import Task

LIMITS = Limits(wall_seconds=4, cpu_seconds=2)
LONGEST_LIST, LARGEST_NUMBER, LONGEST_TEXT = 30, 10**6, 60
BLANK = "____"


def _numbered(source: str) -> str:
    return "\n".join(f"{i:2} {line}" for i, line in enumerate(source.split("\n"), 1))


def _real_mutants(rng: random.Random, piece: Piece, arguments: list[Any]) -> list[tuple[int, str]]:
    """Mutants that differ from the piece on some of the arguments but not on all, in random order."""
    right = outcomes(piece.source, piece.name, arguments)
    found = []
    for line, source in mutants(piece.source):
        wrong = sum(a != b for a, b in zip(outcomes(source, piece.name, arguments), right, strict=True))
        if 0 < wrong < len(arguments):
            found.append((line, source))
    rng.shuffle(found)
    return found


def ask_repair(rng: random.Random, *, last: int, failing: int) -> Question:
    """A function with one seeded mistake, to be written again without it."""
    while True:
        piece = draw_piece(rng, 0, last)
        arguments = draw_arguments(rng, piece.kind, 40)
        if found := _real_mutants(rng, piece, arguments):
            break
    broken = found[0][1]
    cases = results(piece.source, piece.name, [[argument] for argument in arguments])
    got = outcomes(broken, piece.name, arguments)
    bad = [f"{piece.name}({a[0]!r}) should be {e!r}" for (a, e), g in zip(cases, got, strict=True) if g != e][:failing]
    hint = "\n".join(["", "It fails, for example, here:", *bad]) if bad else ""
    text = (
        f"This function does not do what its description says; one place in it is wrong.\n\n{piece.takes} "
        f"{piece.words}\n\n"
        f"```python\n{broken}\n```\n{hint}\n\nWrite the whole corrected function under the same name. {PYTHON_ANSWER}"
    )
    return Question(text, fenced(piece.source), {"name": piece.name, "cases": cases})


def ask_bug_line(rng: random.Random, *, last: int) -> Question:
    """The number of the one line that must be changed, and how many of a few inputs go wrong."""
    while True:
        piece = draw_piece(rng, 0, last)
        arguments = draw_arguments(rng, piece.kind, 40)
        right = outcomes(piece.source, piece.name, arguments)
        for line, broken in _real_mutants(rng, piece, arguments)[:4]:
            # No other line may be a place for the repair.
            others = [source for at, source in mutants(broken) if at != line]
            if all(outcomes(source, piece.name, arguments) != right for source in others):
                got = outcomes(broken, piece.name, arguments)
                wrong = [i for i, (a, b) in enumerate(zip(got, right, strict=True)) if a != b]
                fine = [i for i, (a, b) in enumerate(zip(got, right, strict=True)) if a == b]
                shown = rng.sample(wrong, min(len(wrong), rng.randint(1, 3)))
                shown += rng.sample(fine, min(len(fine), 5 - len(shown)))
                rng.shuffle(shown)
                return _bug_line(
                    piece, broken, line, [arguments[i] for i in shown], [i for i in shown if i in wrong], shown
                )


def _bug_line(piece: Piece, broken: str, line: int, inputs: list[Any], wrong: list[int], shown: list[int]) -> Question:
    letters = "".join("ABCDE"[i] for i, at in enumerate(shown) if at in wrong)
    calls = "\n".join(f"{'ABCDE'[i]}. {piece.name}({argument!r})" for i, argument in enumerate(inputs))
    text = (
        f"Review this function. {piece.takes} {piece.words}\n\n{_numbered(broken)}\n\nExactly one line was "
        "changed by mistake. "
        f"Which one, and which of these calls give a wrong result (or raise an error) because of it?\n{calls}\n\n"
        "Answer with the number of the line, a space, and the letters of those calls in alphabetical order, "
        "without spaces "
        "between them (for example: 7 BD)."
    )
    return Question(text, f"{line} {letters}")


def ask_fill_in(rng: random.Random, *, last: int, size: int) -> Question:
    """One expression of a described function is missing."""
    while True:
        piece = draw_piece(rng, 0, last)
        tree = ast.parse(piece.source)
        places = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare | ast.BinOp | ast.Call | ast.BoolOp | ast.Subscript)
            and len(ast.unparse(node)) >= size
            and piece.source.count(ast.unparse(node)) == 1
        ]
        if places:
            break
    missing = ast.unparse(rng.choice(places))
    cases = results(piece.source, piece.name, [[argument] for argument in draw_arguments(rng, piece.kind, 40)])
    shown = [(a, e) for a, e in cases if a[0]][:2]
    examples = "\n".join(f"{piece.name}({a[0]!r}) == {e!r}" for a, e in shown)
    text = (
        f"One expression is missing in this function, at {BLANK}.\n\n{piece.takes} {piece.words}\n\n"
        f"```python\n{piece.source.replace(missing, BLANK)}\n```\n\nExamples:\n{examples}\n\n"
        "Give the missing expression alone, on one line of at most 120 characters; it is put in parentheses "
        f"in place of {BLANK}."
    )
    facts = {"name": piece.name, "cases": cases, "before": piece.source.split(missing)[0]}
    return Question(text, missing, facts | {"after": piece.source.split(missing)[1]})


def judge_fill_in(answer: str, task: Task) -> float:
    """1 where the function with this expression gives what each hidden test expects."""
    expression = answer.strip().strip("`").strip()
    if not expression or len(expression) > 120 or len(expression.splitlines()) > 1 or "#" in expression:
        return 0.0
    facts = task.metadata
    return passes_cases(f"{facts['before']}({expression}){facts['after']}", facts["name"], facts["cases"])


def ask_predict_input(rng: random.Random, *, last: int, results_asked: int) -> Question:
    """Arguments for which a given function returns given values, none of them the argument of an example."""
    while True:
        piece = draw_piece(rng, 0, last)
        arguments = draw_arguments(rng, piece.kind, 30)
        found = outcomes(piece.source, piece.name, arguments)
        # Nothing that an empty list or text gives: that would be too easy, and one answer for many questions.
        empty = outcomes(piece.source, piece.name, [[] if piece.kind == "values" else ""])[0]
        pairs = {
            json.dumps(value): argument for argument, value in zip(arguments, found, strict=True) if value != empty
        }
        if len(pairs) >= results_asked:
            break
    wanted = rng.sample(sorted(pairs), results_asked)
    kind = (
        f"lists of at most {LONGEST_LIST} whole numbers of at most {LARGEST_NUMBER:,} in size"
        if piece.kind == "values"
        else f"texts of at most {LONGEST_TEXT} characters"
    )
    targets = "\n".join(f"{i}. {value}" for i, value in enumerate(wanted, 1))
    text = (
        f"```python\n{piece.source}\n```\n\nFind an argument of `{piece.name}` for each of these results:\n"
        f"{targets}\n\n"
        f"Arguments are {kind}. Answer with a JSON list of the {results_asked} arguments, in the order of the results."
    )
    facts = {"name": piece.name, "kind": piece.kind, "source": piece.source, "wanted": [json.loads(v) for v in wanted]}
    return Question(text, json.dumps([pairs[value] for value in wanted]), facts)


def _is_argument(value: Any, kind: str) -> bool:
    if kind == "values":
        return is_numbers(value, LONGEST_LIST, LARGEST_NUMBER)
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _outcomes_elsewhere(sources: list[str], name: str, arguments: list[Any]) -> list[list[Any]]:
    """`outcomes` of our own sources on a model's arguments, in the sandbox."""
    found: list[list[Any]] = sandbox.call(
        "envs.families.code.inside:outcomes_of", sources, name, arguments, limits=LIMITS
    )
    return found


def judge_input(answer: str, task: Task) -> float:
    """1 where our function gives each of the wanted values for the argument at its place."""
    arguments, facts = read_json(answer), task.metadata
    wanted = plain(list(facts["wanted"]))
    if not isinstance(arguments, list) or len(arguments) != len(wanted):
        return 0.0
    if not all(_is_argument(argument, facts["kind"]) for argument in arguments):
        return 0.0
    return float(_outcomes_elsewhere([facts["source"]], facts["name"], arguments) == [wanted])


def ask_write_tests(rng: random.Random, *, last: int, num_mutants: int, most: int) -> Question:
    """A few tests which the described function passes, and each of several wrong ones fails."""
    while True:
        piece = draw_piece(rng, 0, last)
        arguments = draw_arguments(rng, piece.kind, 60)
        wrong = [source for _, source in _real_mutants(rng, piece, arguments)]
        if len(wrong) < num_mutants:
            continue
        wrong = wrong[:num_mutants]
        right = outcomes(piece.source, piece.name, arguments)
        kills = [
            {j for j, source in enumerate(wrong) if outcomes(source, piece.name, [argument]) != [right[i]]}
            for i, argument in enumerate(arguments)
        ]
        chosen = _cover(kills, num_mutants)
        if 2 <= len(chosen) <= most:  # one test alone would say little
            break
    limit = min(most, len(chosen) + 1)
    text = (
        f"You test implementations of this function `{piece.name}({piece.kind})` without seeing them.\n\n{piece.takes} "
        f"{piece.words}\n\nWrite at most {limit} tests as a JSON list of pairs [argument, expected result]. The right "
        f"implementation must pass all of them, and each of {num_mutants} hidden wrong implementations (each "
        "with one small "
        "mistake: another comparison, operator or constant) must fail at least one. "
        + (
            f"Arguments are lists of at most {LONGEST_LIST} whole numbers of at most {LARGEST_NUMBER:,} in size."
            if piece.kind == "values"
            else f"Arguments are texts of at most {LONGEST_TEXT} characters."
        )
    )
    facts = {"name": piece.name, "kind": piece.kind, "source": piece.source, "mutants": wrong, "most": limit}
    return Question(text, json.dumps([[arguments[i], right[i]] for i in chosen]), facts)


def _cover(kills: list[set[int]], count: int) -> list[int]:
    """Positions that together kill all, chosen greedily."""
    left, chosen = set(range(count)), []
    while left:
        best = max(range(len(kills)), key=lambda i: (len(kills[i] & left), -i))
        chosen.append(best)
        left -= kills[best]
    return chosen


def judge_tests(answer: str, task: Task) -> float:
    """1 where our implementation passes all tests, and each mutant fails one."""
    tests, facts = read_json(answer), task.metadata
    if not isinstance(tests, list) or not 0 < len(tests) <= facts["most"]:
        return 0.0
    if not all(isinstance(test, list) and len(test) == 2 and _is_argument(test[0], facts["kind"]) for test in tests):
        return 0.0
    sources = [facts["source"], *facts["mutants"]]
    right, *wrong = _outcomes_elsewhere(sources, facts["name"], [test[0] for test in tests])
    # As JSON text, where 1 is not true.
    passed = json.dumps(right, sort_keys=True) == json.dumps([test[1] for test in tests], sort_keys=True)
    return float(passed and all(each != right for each in wrong))


# ---- equivalence -----------------------------------------------------------------------------------------------------

# Bodies of functions of `values` that do the same, and others that look like them.
SAME: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "return sum(v for v in values if v > {a})",
            "total = 0\nfor v in values:\n    if not v <= {a}:\n        total += v\nreturn total",
            "return sum(values) - sum(v for v in values if v <= {a})",
            "return sum(v * (v > {a}) for v in values)",
        ),
        (
            "return sum(v for v in values if v >= {a})",
            "total = 0\nfor v in values:\n    if v <= {a}:\n        break\n    total += v\nreturn total",
            "return sum(set(v for v in values if v > {a}))",
            "return sum(max(v, {a}) for v in values)",
        ),
    ),
    (
        (
            "return [v for i, v in enumerate(values) if v not in values[:i]]",
            "return list(dict.fromkeys(values))",
            "out = []\nfor v in values:\n    if v not in out:\n        out.append(v)\nreturn out",
            "return sorted(set(values), key=values.index)",
        ),
        (
            "return sorted(set(values))",
            "out = []\nfor v in values:\n    if not out or out[-1] != v:\n        out.append(v)\nreturn out",
            "return [v for i, v in enumerate(values) if v not in values[i + 1:]]",
            "return [v for v in values if values.count(v) == 1]",
        ),
    ),
    (
        (
            "return values[{a}:] + values[:{a}]",
            "return [values[i] for i in range({a}, len(values))] + [v for i, v in enumerate(values) if i < {a}]",
            "return (values + values[:{a}])[{a}:] if len(values) >= {a} else values[:]",
            "return (values[:{a}][::-1] + values[{a}:][::-1])[::-1]",
        ),
        (
            "return values[-{a}:] + values[:-{a}]",
            "out = values[:]\nfor _ in range({a}):\n    if out:\n        out.append(out.pop(0))\nreturn out",
            "return values[{a}:] + values[:{a}][::-1]",
            "return values[{a} - 1:] + values[:{a} - 1]",
        ),
    ),
    (
        (
            "return any(v % {a} == 0 for v in values)",
            "return not all(v % {a} for v in values)",
            "for v in values:\n    if not v % {a}:\n        return True\nreturn False",
            "return len([v for v in values if v % {a} == 0]) > 0",
        ),
        (
            "return not any(v % {a} for v in values)",
            "for v in values:\n    return v % {a} == 0\nreturn False",
            "return sum(values) % {a} == 0",
            "return any(v and v % {a} == 0 for v in values)",
        ),
    ),
    (
        (
            "return max(values, default=0) - min(values, default=0)",
            "return max((x - y for x in values for y in values), default=0)",
            "s = sorted(values)\nreturn s[-1] - s[0] if s else 0",
            "return max((abs(x - y) for i, x in enumerate(values) for y in values[i:]), default=0)",
        ),
        (
            "return abs(values[0] - values[-1]) if values else 0",
            "return max(map(abs, values), default=0) - min(map(abs, values), default=0)",
            "return max((y - x for i, x in enumerate(values) for y in values[i:]), default=0)",
            "return max(values + [0]) - min(values + [0])",
        ),
    ),
    (
        (
            "return sum(x < y for x, y in zip(values, values[1:])) >= {a}",
            "n = 0\nfor i in range(1, len(values)):\n    n += values[i] > values[i - 1]\nreturn n >= {a}",
            "return len([1 for i in range(len(values) - 1) if values[i + 1] - values[i] > 0]) > {a} - 1",
            "n = {a}\nfor x, y in zip(values, values[1:]):\n    if y > x:\n        n -= 1\nreturn n <= 0",
        ),
        (
            "return sum(x <= y for x, y in zip(values, values[1:])) >= {a}",
            "n = 0\nfor i in range(1, len(values)):\n    n = n + 1 if values[i] > values[i - 1] else 0\n"
            "    if n >= {a}:\n        return True\nreturn False",
            "return sum(x < y for x, y in zip(values[::2], values[1::2])) >= {a}",
            "return sum(x < y for x, y in zip(values, values[1:])) > {a}",
        ),
    ),
)


def ask_same_functions(rng: random.Random, *, options: int) -> Question:
    """Which of several functions give the same result as the first one for every list."""
    same, other = SAME[rng.randrange(len(SAME))]
    first, *rest = rng.sample(same, len(same))
    pool = [(body, True) for body in rest[: rng.randint(1, min(3, options - 1))]]
    pool += [(body, False) for body in rng.sample(other, min(len(other), options - len(pool)))]
    rng.shuffle(pool)
    number, name = rng.randint(3, 7), rng.choice("f g h check measure".split())

    def written(body: str, label: str) -> str:
        lines = "\n".join("    " + line for line in body.format(a=number).split("\n"))
        return f"def {label}(values):\n{lines}"

    letters = "".join("ABCDEFG"[i] for i, (_, is_same) in enumerate(pool) if is_same)
    shown = "\n\n".join(written(body, "ABCDEFG"[i]) for i, (body, _) in enumerate(pool))
    text = (
        f"```python\n{written(first, name)}\n\n{shown}\n```\n\nWhich of the functions "
        f"{', '.join('ABCDEFG'[: len(pool)])} return the "
        f"same as `{name}` for every list of whole numbers, however long (the empty list included)? Answer "
        "with their letters in "
        "alphabetical order, without spaces between them (for example AC)."
    )
    return Question(text, letters)


def judge_class(answer: str, task: Task) -> float:
    """1 where a driver of ours, which calls the model's class, gets what each hidden series of calls must give."""
    facts = task.metadata
    source = source_of(answer)
    return passes_cases(source + facts["driver"], facts["name"], facts["cases"]) if source.strip() else 0.0
