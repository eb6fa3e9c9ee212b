"""Regular expressions: writing one from a description, and saying which texts one matches.

In: a random stream and the settings of a level.  Out: a `Question`; a model's expression is compiled and run in the
sandbox only (`envs.families.code.inside`), where one that backtracks for ever is killed.  Called by
`envs.families.code`.
"""

from __future__ import annotations

import random
import re

from envs import sandbox
from envs.sandbox import Limits
from envs.skills import Question
from envs.types import Task

LIMITS = Limits(wall_seconds=4, cpu_seconds=2)
MAX_PATTERN = 500

# A part: its description, an expression for it, texts that fit, and texts that do not.
PARTS = (
    ("{a} to {b} lower-case letters", "[a-z]{{{a},{b}}}", "letters"),
    ("exactly {a} decimal digits", "[0-9]{{{a}}}", "digits"),
    ("a whole number from 0 to {h} without leading zeros", "", "range"),
    ("one of the words {words}", "(?:{alt})", "words"),
    ("one or more upper-case letters, the last of which is not {u}", "[A-Z]*(?!{u})[A-Z]", "upper"),
    ("an optional '-' and at least one decimal digit", "-?[0-9]+", "signed"),
    ("{a} pairs, each of a letter (a to f) and a digit (0 to 9)", "(?:[a-f][0-9]){{{a}}}", "pairs"),
    ("a non-empty text of 0s and 1s without two 1s in a row", "(?:1?(?:0+1)*0*)(?<=[01])", "binary"),
    ("a non-empty text of the letters x and y with an even number of x", "(?=[xy])y*(?:xy*xy*)*", "parity"),
)
WORDS = "red blue green north south alpha beta gamma inch mile".split()


def range_pattern(high: int) -> str:
    """An expression for the whole numbers from 0 to high (at most 999), without leading zeros."""
    digits = str(high)
    options = [f"[1-9][0-9]{{{n - 1}}}" if n > 1 else "[0-9]" for n in range(1, len(digits))]
    for i, digit in enumerate(digits):
        low = 1 if i == 0 and len(digits) > 1 else 0
        if int(digit) > low:
            options.append(
                f"{digits[:i]}[{low}-{int(digit) - 1}]"
                + (f"[0-9]{{{len(digits) - i - 1}}}" if len(digits) - i > 1 else "")
            )
    return f"(?:{'|'.join([*options, digits])})"


def _sample(rng: random.Random, kind: str, fill: dict[str, object], wrong: bool) -> str:
    """A text for one part, or one that is nearly such a text."""
    a, b, high = int(str(fill["a"])), int(str(fill["b"])), int(str(fill["h"]))

    def some(letters: str, count: int) -> str:
        return "".join(rng.choice(letters) for _ in range(count))

    if kind == "letters":
        return some("abcxyz", rng.choice([a - 1, b + 1])) if wrong else some("abcxyz", rng.randint(a, b))
    if kind == "digits":
        return some("0123456789", a + rng.choice([-1, 1])) if wrong else some("0123456789", a)
    if kind == "range":
        if wrong:
            return rng.choice(
                [str(high + 1), str(high + rng.randint(1, 99)), f"0{rng.randint(0, 9)}", "", str(high * 10)]
            )
        return str(rng.choice([0, high, rng.randint(0, high), high // 10, rng.randint(0, 9)]))
    if kind == "words":
        word = rng.choice(list(fill["list"]))  # type: ignore[call-overload]
        return rng.choice([word[:-1], word + "s", word.upper()]) if wrong else word
    if kind == "upper":
        letters = some("ABCXYZ", rng.randint(0, 3))
        return letters + (
            rng.choice([str(fill["u"]), "q"]) if wrong else rng.choice([c for c in "BKRT" if c != fill["u"]])
        )
    if kind == "signed":
        return (
            rng.choice(["-", "--1", "+3", ""])
            if wrong
            else rng.choice(["", "-"]) + some("0123456789", rng.randint(1, 4))
        )
    if kind == "pairs":
        pairs = "".join(rng.choice("abcdef") + rng.choice("0123456789") for _ in range(a))
        return rng.choice([pairs[:-1], pairs + "a1", "g" + pairs[1:], pairs[::-1]]) if wrong else pairs
    alphabet = "01" if kind == "binary" else "xy"
    while True:
        text = some(alphabet, rng.randint(0, 7))
        if bool(re.fullmatch(str(fill["pattern"]), text)) != wrong:
            return text


def _grammar(rng: random.Random, parts: int) -> tuple[str, str, list[tuple[str, dict[str, object]]], list[str]]:
    """The description, an expression, the parts with their settings, and what stands between them."""
    words, pattern, chosen, between = [], "", [], []
    for i, (text, expression, kind) in enumerate(rng.sample(PARTS, parts)):
        a = rng.randint(2, 4)
        some = rng.sample(WORDS, 3)
        high = rng.choice([rng.randint(11, 99), rng.randint(100, 999)])
        fill: dict[str, object] = {"a": a, "b": a + rng.randint(1, 3), "h": high, "u": rng.choice("BKRT"), "list": some}
        fill |= {"words": ", ".join(some), "alt": "|".join(some)}
        fill["pattern"] = range_pattern(high) if kind == "range" else expression.format(**fill)
        if i:
            mark = rng.choice([":", "/", "#", ".", "+", "*", "@", " "])
            between.append(mark)
            words.append(f"a '{mark}'" if mark != " " else "one space")
            pattern += re.escape(mark)
        words.append(text.format(**fill))
        pattern += f"(?:{fill['pattern']})"
        chosen.append((kind, fill))
    return "; then ".join(words), pattern, chosen, between


def _texts(
    rng: random.Random, pattern: str, chosen: list[tuple[str, dict[str, object]]], between: list[str], count: int
) -> tuple[list[str], list[str]]:
    """Texts that match the whole expression, and texts that do not."""
    good: list[str] = []
    bad: list[str] = []
    while len(good) < count or len(bad) < count:
        wrong = rng.choice([None, *range(len(chosen))]) if len(bad) < count else None
        pieces = [_sample(rng, kind, fill, i == wrong) for i, (kind, fill) in enumerate(chosen)]
        marks = list(between)
        if marks and rng.random() < 0.1 and len(bad) < count:
            marks[rng.randrange(len(marks))] = rng.choice(["", "-", "::"])
        text = pieces[0] + "".join(mark + piece for mark, piece in zip(marks, pieces[1:], strict=True))
        if rng.random() < 0.05 and len(bad) < count:
            text = rng.choice([f"{text}\n", f" {text}", f"{text}{text}"])
        (good if re.fullmatch(pattern, text) else bad).append(text)
    return good[: 2 * count], bad[: 2 * count]


def ask_write_regex(rng: random.Random, *, parts: int) -> Question:
    """An expression for a described set of texts."""
    words, pattern, chosen, between = _grammar(rng, parts)
    good, bad = _texts(rng, pattern, chosen, between, 14)
    text = (
        f"Write a regular expression (syntax of Python's re module) that matches exactly the texts made of: {words}.\n"
        "Nothing may stand before, between or after these parts. It is tried with re.fullmatch and without "
        "flags; only ASCII "
        f"characters occur.\n\nMatches: {good[0]!r}, {good[1]!r}\nDoes not match: {bad[0]!r}, {bad[1]!r}\n\n"
        "Answer with the expression alone, without quotes or slashes around it."
    )
    return Question(text, pattern, {"good": good, "bad": bad})


def judge_regex(answer: str, task: Task) -> float:
    """1 where the expression matches all the hidden texts that it should, and none of the others."""
    pattern = answer.strip("\r\n")
    if not pattern or len(pattern) > MAX_PATTERN:
        return 0.0
    good, bad = list(task.metadata["good"]), list(task.metadata["bad"])
    pattern = pattern.encode("utf-8", "replace").decode()
    return sandbox.number("envs.families.code.inside:matches", pattern, good, bad, limits=LIMITS)


def ask_regex_matches(rng: random.Random, *, parts: int, texts: int) -> Question:
    """Which of several texts an expression matches as a whole."""
    pieces = [
        lambda: rng.choice(["a+", "b*", "c?", "[abc]", "[^a]", "."]),
        lambda: f"(?:{rng.choice(['ab', 'ba', 'cab'])}){rng.choice(['+', '*', '?', '{2}'])}",
        lambda: f"(?:{rng.choice('abc')}|{rng.choice(['bc', 'ca', 'bb'])})",
        lambda: f"[{rng.choice(['ab', 'bc', 'ac'])}]{{{rng.randint(1, 2)},{rng.randint(2, 4)}}}",
        lambda: f"(?!{rng.choice(['ab', 'c', 'bb'])})",
        lambda: f"({rng.choice(['a|b', 'b|c', 'ab|c'])})",
    ]
    while True:
        pattern = "".join(rng.choice(pieces)() for _ in range(parts))
        if pattern.count("(") > pattern.count("(?") and rng.random() < 0.7:
            pattern += "\\1"
        pool = ["".join(rng.choice("abc") for _ in range(rng.randint(1, 7))) for _ in range(120)]
        pool = list(dict.fromkeys(pool))
        good = [text for text in pool if re.fullmatch(pattern, text)]
        bad = [text for text in pool if not re.fullmatch(pattern, text)]
        count = rng.randint(2, texts - 2)
        if len(good) >= count and len(bad) >= texts - count:
            break
    chosen = good[:count] + bad[: texts - count]
    rng.shuffle(chosen)
    letters = [chr(ord("A") + i) for i, text in enumerate(chosen) if text in good]
    listed = "\n".join(f"{chr(ord('A') + i)}. {text}" for i, text in enumerate(chosen))
    return Question(
        "Which of these texts does the regular expression (Python's re module) match as a whole, with "
        "re.fullmatch?\n\n"
        f"{pattern}\n\n{listed}\n\nAnswer with the letters of all that match, in alphabetical order, without spaces "
        "between them (for example ACD).",
        "".join(letters),
    )
