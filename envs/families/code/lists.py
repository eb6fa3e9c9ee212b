"""Functions from a description: pipelines over a list of numbers, and pipelines over a line of text.

In: a random stream and a number of steps.  Out: a `Question` answered by Python source.  Called by
`envs.families.code`.  Each step is one English sentence and the lines that do it, so the reference is made of the same
parts as the description; `tests/envs/test_code.py` holds each part to a hand-written example.
"""

from __future__ import annotations

import random

from envs.families.code.common import NAMES, WORDS, function_question, numbers
from envs.skills import Question

# {a}: a small number; {b}: a larger one.  Each step turns the list `values` into another one.
NUMBER_STEPS: tuple[tuple[str, str], ...] = (
    ("Keep only the values that are divisible by {a}.", "values = [v for v in values if v % {a} == 0]"),
    ("Remove every value that is less than {c}.", "values = [v for v in values if v >= {c}]"),
    ("Keep only the values at even positions (0, 2, 4, ...).", "values = values[::2]"),
    (
        "Replace each value v by v * v modulo {b} (a result from 0 to {b} - 1).",
        "values = [v * v % {b} for v in values]",
    ),
    (
        "Replace the list by the differences between each value and the one before it (one element fewer; an "
        "empty list "
        "stays empty).",
        "values = [y - x for x, y in zip(values, values[1:])]",
    ),
    ("Reverse the list.", "values = values[::-1]"),
    (
        "Sort the list by the remainder modulo {a} (from 0 to {a} - 1), equal remainders by the value itself, "
        "ascending.",
        "values = sorted(values, key=lambda v: (v % {a}, v))",
    ),
    ("Remove duplicates, keeping the first occurrence of each value.", "values = list(dict.fromkeys(values))"),
    (
        "Replace each value by the sum of all values up to and including it.",
        "values = [sum(values[:i + 1]) for i in range(len(values))]",
    ),
    (
        "Rotate the list to the left by {a} positions (by {a} modulo its length if it is shorter).",
        "shift = {a} % len(values) if values else 0\nvalues = values[shift:] + values[:shift]",
    ),
    (
        "Cut the list into consecutive groups of {a} (the last group may be shorter) and replace each group by "
        "its sum.",
        "values = [sum(values[i:i + {a}]) for i in range(0, len(values), {a})]",
    ),
    (
        "Replace each value by the number of values before it that are strictly smaller.",
        "values = [sum(x < v for x in values[:i]) for i, v in enumerate(values)]",
    ),
    (
        "Replace values below -{b} by -{b} and values above {b} by {b}.",
        "values = [max(-{b}, min({b}, v)) for v in values]",
    ),
    ("Add its position (counted from 0) to each value.", "values = [v + i for i, v in enumerate(values)]"),
    (
        "Collapse each run of equal neighbours into a single value.",
        "values = [v for i, v in enumerate(values) if i == 0 or v != values[i - 1]]",
    ),
    (
        "Append the reverse of the list to the list itself.",
        "values = values + values[::-1]",
    ),
    (
        "Multiply by {a} every value at an odd position.",
        "values = [v * {a} if i % 2 else v for i, v in enumerate(values)]",
    ),
    (
        "Replace each value by the maximum of all values up to and including it.",
        "values = [max(values[:i + 1]) for i in range(len(values))]",
    ),
)
NUMBER_ENDS: tuple[tuple[str, str], ...] = (
    ("Return the list.", "return values"),
    ("Return the sum of the list (0 if it is empty).", "return sum(values)"),
    ("Return the largest value, or None if the list is empty.", "return max(values, default=None)"),
    ("Return the number of different values.", "return len(set(values))"),
    (
        "Return the list of the smallest and the largest value, or [] if it is empty.",
        "return [min(values), max(values)] if values else []",
    ),
    (
        "Return the value that occurs most often (the smallest of them if several do), or None if the list is empty.",
        "return min(values, key=lambda v: (-values.count(v), v), default=None)",
    ),
    (
        "Return the position of the first largest value, or -1 if the list is empty.",
        "return values.index(max(values)) if values else -1",
    ),
)

# Each step turns the list of texts `words` into another one.
TEXT_STEPS: tuple[tuple[str, str], ...] = (
    ("Keep only the words of at least {a} characters.", "words = [w for w in words if len(w) >= {a}]"),
    ("Reverse the characters of each word.", "words = [w[::-1] for w in words]"),
    ("Remove every word that contains the letter '{l}'.", "words = [w for w in words if '{l}' not in w]"),
    (
        "Sort the words by length, equal lengths alphabetically (by code point).",
        "words = sorted(words, key=lambda w: (len(w), w))",
    ),
    (
        "Make the first character of each word upper case and leave the others as they are.",
        "words = [w[:1].upper() + w[1:] for w in words]",
    ),
    (
        "Delete the letters a, e, i, o and u (lower case only) from each word; words may become empty.",
        "words = [''.join(c for c in w if c not in 'aeiou') for w in words]",
    ),
    (
        "Move the first {s} characters of each word to its end (a shorter word stays as it is).",
        "words = [w[{s}:] + w[:{s}] if len(w) >= {s} else w for w in words]",
    ),
    ("Replace every '{l}' by '{m}'.", "words = [w.replace('{l}', '{m}') for w in words]"),
    (
        "Append to each word the number of its characters, in decimal digits.",
        "words = [w + str(len(w)) for w in words]",
    ),
    ("Remove duplicate words, keeping the first occurrence.", "words = list(dict.fromkeys(words))"),
    (
        "Collapse each run of the same character inside a word into one character.",
        "words = [''.join(c for i, c in enumerate(w) if i == 0 or c != w[i - 1]) for w in words]",
    ),
    ("Sort the characters of each word (by code point).", "words = [''.join(sorted(w)) for w in words]"),
    ("Reverse the order of the words.", "words = words[::-1]"),
    ("Turn the case of each letter around.", "words = [w.swapcase() for w in words]"),
    ("Keep only the first {a} characters of each word.", "words = [w[:{a}] for w in words]"),
    (
        "Move every lower-case letter {s} places on in the alphabet (after z comes a); other characters stay.",
        "words = [''.join(chr((ord(c) - 97 + {s}) % 26 + 97) if 'a' <= c <= 'z' else c for c in w) for w in words]",
    ),
)
TEXT_ENDS: tuple[tuple[str, str], ...] = (
    ("Return the words joined by '{j}'.", "return '{j}'.join(words)"),
    ("Return the list of words.", "return words"),
    (
        "Return the longest word (the first of several), or '' if there is none.",
        "return max(words, key=len, default='')",
    ),
    ("Return a dictionary from each word to how often it occurs.", "return {{w: words.count(w) for w in words}}"),
    ("Return the list of the lengths of the words.", "return [len(w) for w in words]"),
)
OPENINGS = ("Do these steps in order:", "Apply the following steps, one after the other:", "It works in these steps:")


def _steps(rng: random.Random, table: tuple[tuple[str, str], ...], steps: int) -> list[tuple[str, str]]:
    """Different steps; the same one twice in a row would say nothing new."""
    return [table[i] for i in rng.sample(range(len(table)), steps)]


def _written(opening: str, parts: list[tuple[str, str]], fill: dict[str, object]) -> tuple[str, str]:
    """The description, and the body of the function."""
    sentences = [f"{i}. {sentence.format(**fill)}" for i, (sentence, _) in enumerate(parts, 1)]
    lines = [line for _, code in parts for line in code.format(**fill).split("\n")]
    return "\n".join([opening, *sentences]), "\n".join(f"    {line}" for line in lines)


def ask_list_pipeline(rng: random.Random, *, steps: int, tests: int = 14) -> Question:
    """A function of a list of whole numbers, as numbered steps."""
    name = rng.choice(NAMES)
    parts = [*_steps(rng, NUMBER_STEPS, steps), rng.choice(NUMBER_ENDS)]
    fill: dict[str, object] = {"a": rng.randint(2, 5), "b": rng.randint(7, 30), "c": rng.randint(-8, 12)}
    task, body = _written(rng.choice(OPENINGS), parts, fill)
    arguments = [[numbers(rng, least=6)], [numbers(rng, least=4)], [[]], [[rng.randint(-9, 9)]]]
    arguments += [[numbers(rng, *rng.choice([(-20, 40), (0, 5), (-100, 100)]), 15)] for _ in range(tests)]
    return function_question(
        task=f"`values` is a list of whole numbers. {task}",
        name=name,
        signature=f"{name}(values)",
        source=f"def {name}(values):\n{body}\n",
        arguments=arguments,
    )


def ask_text_pipeline(rng: random.Random, *, steps: int, tests: int = 14) -> Question:
    """A function of a line of words, as numbered steps."""
    name = rng.choice(NAMES)
    parts = [*_steps(rng, TEXT_STEPS, steps), rng.choice(TEXT_ENDS)]
    letter, other = rng.sample("aeiorslnt", 2)
    fill: dict[str, object] = {
        "a": rng.randint(3, 5),
        "s": rng.randint(1, 3),
        "l": letter,
        "m": other,
        "j": rng.choice("-_/+"),
    }
    task, body = _written(rng.choice(OPENINGS), parts, fill)

    def line(most: int) -> str:
        return " ".join(rng.choice([*WORDS, "Aa", "BooK", "ss", "x"]) for _ in range(rng.randint(2, most)))

    arguments = [[line(5)], [line(4)], [""], ["a"], ["  Hello   hello  "]] + [[line(8)] for _ in range(tests)]
    return function_question(
        task=f"`line` is a text; its words are separated by one or more spaces. {task}",
        name=name,
        signature=f"{name}(line)",
        source=f"def {name}(line):\n    words = line.split()\n{body}\n",
        arguments=arguments,
    )
