"""Formulas as trees: text in, tree; tree out, text; and derivatives, for questions whose answer is a formula.

In: a text that a model wrote (`read`), or a tree of ours.  Out: a tree, or None.  Nothing is evaluated here.  Called by
`formulas` (in our process) and by `inside` (in the sandbox).

A tree is a whole number or fraction, a name (`"x"`, `"pi"`, `"e"`), `(sign, left, right)` with + - * / ^, or
`(function, argument)`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

Tree = Any
FUNCTIONS = {
    "sin", "cos", "tan", "exp", "ln", "log", "sqrt", "abs", "asin", "acos", "atan", "arcsin", "arccos", "arctan",
    "sinh", "cosh", "tanh",
}  # fmt: skip
MOST_CHARACTERS, MOST_TOKENS, MOST_DEPTH = 1_500, 500, 40
_TOKEN = re.compile(r" *([0-9]{1,60}(?:\.[0-9]{1,60})?|[a-zA-Z]+|[-+*/^()|])")
_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "π": "pi", "√": "sqrt", "[": "(", "]": ")"})


class Unreadable(Exception):
    """The text is no formula."""


def read(text: str) -> Tree | None:
    """A formula in plain text: `2*x*cos(x^2)`, `3x^2 e^(-x)`, `ln|x| + C`; None for anything else.

    A letter is a name; a product needs no `*`; `-x^2` is `-(x^2)`, `a^b^c` is `a^(b^c)`, and `1/2x` is refused.
    """
    text = text.translate(_SIGNS).replace("**", "^")
    if len(text) > MOST_CHARACTERS:
        return None
    tokens: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None or len(tokens) > MOST_TOKENS:
            return None
        tokens += _words(match.group(1))
        place = match.end()
    reader = _Reader(tokens)
    try:
        tree = reader.sum(0)
    except Unreadable:
        return None
    return tree if reader.place == len(tokens) else None


def _words(token: str) -> list[str]:
    """Letters run together are a product, unless they are a function's name or pi: `xe` is x*e."""
    if not token.isalpha() or token.lower() in FUNCTIONS or token == "pi":
        return [token.lower() if token.lower() in FUNCTIONS else token]
    for length in (6, 5, 4, 3, 2):  # `xsin(x)`
        if token[-length:] in FUNCTIONS and len(token) > length:
            return [*token[:-length], token[-length:]]
    return list(token)


class _Reader:
    """Recursive descent with a bounded depth; raises Unreadable."""

    def __init__(self, tokens: list[str]):
        self.tokens, self.place = tokens, 0

    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        token = self.next()
        self.place += 1
        return token

    def sum(self, depth: int) -> Tree:
        if depth > MOST_DEPTH:
            raise Unreadable
        sign = self.take() if self.next() in ("+", "-") else ""
        total = self.product(depth)
        if sign == "-":
            total = ("*", -1, total)
        while self.next() in ("+", "-"):
            sign = self.take()
            total = (sign, total, self.product(depth))
        return total

    def product(self, depth: int) -> Tree:
        total = self.power(depth)
        divided = False
        while self.next():
            token = self.next()
            if token in ("*", "/"):
                self.take()
                total, divided = (token, total, self.power(depth)), token == "/"
            elif token not in ("+", "-", ")", "|", "^") and not token[0].isdigit():
                if divided:  # 1/2x means two things
                    raise Unreadable
                total = ("*", total, self.power(depth))
            else:
                break
        return total

    def power(self, depth: int) -> Tree:
        if depth > MOST_DEPTH:
            raise Unreadable
        base = self.atom(depth)
        if self.next() != "^":
            return base
        self.take()
        sign = self.take() if self.next() in ("+", "-") else ""
        exponent = self.power(depth + 1)
        return ("^", base, ("*", -1, exponent) if sign == "-" else exponent)

    def atom(self, depth: int) -> Tree:
        token = self.take()
        if token in ("(", "|"):
            inner = self.sum(depth + 1)
            if self.take() != (")" if token == "(" else "|"):
                raise Unreadable
            return inner if token == "(" else ("abs", inner)
        if token in FUNCTIONS:
            if self.next() not in ("(", "|"):
                raise Unreadable
            return (token, self.atom(depth + 1))
        if token[:1].isdigit():
            return Fraction(token)
        if token == "pi" or (len(token) == 1 and token.isalpha()):
            return token
        raise Unreadable


# ---- trees of ours --------------------------------------------------------------------------------------------------


def add(a: Tree, b: Tree) -> Tree:
    if a == 0 or b == 0:
        return b if a == 0 else a
    if _negative(b):
        return ("-", a, times(-1, b))
    return ("+", a, b)


def times(a: Tree, b: Tree) -> Tree:
    """A product with the number, if any, in front."""
    if a == 0 or b == 0:
        return 0
    if a == 1 or b == 1:
        return b if a == 1 else a
    if _is_number(a) and _is_number(b):
        return a * b
    if _is_number(b):
        return times(b, a)
    if isinstance(b, tuple) and b[0] == "*" and _is_number(b[1]):
        return times(times(a, b[1]) if _is_number(a) else b[1], b[2] if _is_number(a) else times(a, b[2]))
    if isinstance(a, tuple) and a[0] == "*" and _is_number(a[1]):
        return times(a[1], times(a[2], b))
    if isinstance(b, tuple) and b[0] == "/":
        return ("/", times(a, b[1]), b[2])
    if isinstance(a, tuple) and a[0] == "/":
        return ("/", times(a[1], b), a[2])
    return ("*", a, b)


def power(base: Tree, exponent: int) -> Tree:
    return 1 if exponent == 0 else base if exponent == 1 else ("^", base, exponent)


def _is_number(tree: Tree) -> bool:
    return isinstance(tree, int | Fraction)


def _negative(tree: Tree) -> bool:
    value = tree[1] if isinstance(tree, tuple) and tree[0] == "*" else tree
    return _is_number(value) and value < 0


def derivative(tree: Tree, name: str) -> Tree:
    """Of a tree of ours: whole exponents, and the functions below."""
    if not isinstance(tree, tuple):
        return int(tree == name)
    if len(tree) == 2:
        return times(_outer(*tree), derivative(tree[1], name))
    sign, a, b = tree
    if sign == "^":
        return times(b, times(power(a, b - 1), derivative(a, name)))
    da, db = derivative(a, name), derivative(b, name)
    if sign in ("+", "-"):
        return add(da, times(-1, db) if sign == "-" else db)
    if sign == "*":
        return add(times(da, b), times(a, db))
    return ("/", add(times(da, b), times(-1, times(a, db))), power(b, 2))


def _outer(function: str, inner: Tree) -> Tree:
    return {
        "sin": ("cos", inner),
        "cos": times(-1, ("sin", inner)),
        "exp": ("exp", inner),
        "ln": ("/", 1, inner),
        "sqrt": ("/", 1, times(2, ("sqrt", inner))),
        "atan": ("/", 1, ("+", ("^", inner, 2), 1)),
    }[function]


_RANK = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 4}


def text_of(tree: Tree) -> str:
    """The formula in plain text, with as few brackets as are safe."""
    if not isinstance(tree, tuple):
        return str(tree)
    if len(tree) == 2:
        return f"{tree[0]}({text_of(tree[1])})"
    sign, a, b = tree
    if sign == "*" and a == -1:
        return f"-{_wrapped(b, 2)}"
    if sign == "^":
        return f"{_wrapped(a, 5)}^{_wrapped(b, 5)}"
    gap = " " if sign in "+-" else ""
    left = text_of(a) if _is_number(a) else _wrapped(a, _RANK[sign], may_be_negative=True)
    return f"{left}{gap}{sign}{gap}{_wrapped(b, 3 if sign == '/' else 2)}"


def _wrapped(tree: Tree, least: int, may_be_negative: bool = False) -> str:
    """In brackets where it binds less strongly than asked for."""
    text = text_of(tree)
    if isinstance(tree, tuple):
        rank = 9 if len(tree) == 2 else _RANK[tree[0]]
    else:
        rank = 2 if "/" in text else 9
    if text.startswith("-") and least > 1 and not may_be_negative:
        rank = 1
    return f"({text})" if rank < least else text
