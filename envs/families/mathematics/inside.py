"""The half of the mathematics family that runs in the sandbox's fork server: formulas that a model wrote.

In: a model's formula and ours.  Out: 1.0 where both are the same function, else 0.0.  Called by name through
`envs.sandbox.number`; each job is a process of its own with a CPU limit, so `9^(9^(9^9))` is killed.

Plain text is read by `trees`, LaTeX by math-verify (its LaTeX grammar only, which evaluates nothing).  math-verify's
own time limits are off: they are alarms, which work in a main thread only, and the sandbox kills what takes too long.
Two formulas are compared by exact substitution and 30 digits at fixed places, which rounding cannot pass (math-verify
alone takes 0.333333 for 1/3); where there are too few places, math-verify decides.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from math_verify import LatexExtractionConfig, parse, verify

from envs.families.mathematics import trees

logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns of each time limit that is off
LATEX = [LatexExtractionConfig()]
MOST_CHARACTERS = 1_500
MOST_EXPONENT = 500  # of one number on another: 9^9^9 is no formula that anybody asked for
_COMMANDS = set(
    "frac dfrac tfrac sqrt sin cos tan exp ln log arcsin arccos arctan sinh cosh tanh cdot times left right pi "
    "mathrm boxed displaystyle lvert rvert".split()
)
_COMMAND = re.compile(r"\\([A-Za-z]+|.)")
_SPACE = re.compile(r"\\[,;!: ]")
_DERIVATIVE = re.compile(r"\{ *d[^{}]*\} *\{ *d")
_NAMES = {"asin": "asin", "arcsin": "asin", "acos": "acos", "arccos": "acos", "atan": "atan", "arctan": "atan",
          "abs": "Abs", "ln": "log"}  # fmt: skip
POSITIVE = [["7/5", "11/7", "5/9", "17/11"], ["13/6", "3/7", "19/8", "9/4"], ["2/7", "23/9", "8/5", "1/3"],
            ["31/10", "6/5", "12/7", "21/8"]]  # fmt: skip
MIXED = [*POSITIVE, ["-3/4", "10/7", "-13/5", "5/6"], ["-12/5", "-2/9", "4/3", "-7/6"], ["5/8", "-15/7", "-6/11", "3"]]
WHOLE = [[str(n)] for n in range(14)]
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow}
PLACES = {"mixed": MIXED, "positive": POSITIVE, "whole": WHOLE}
LEAST_PLACES = 3


def judge(answer: str, gold: str, names: Sequence[str], places: str, derived_by: str) -> float:
    """Whether `answer`, or its derivative by `derived_by` where that is not empty, is the formula `gold`.

    names: the letters that may occur.  places: where both are compared, a key of `PLACES`.
    """
    found, right = _expression(answer, names), _expression(gold, names)
    assert right is not None, gold
    if found is None:
        return 0.0
    if derived_by:
        found = sympy.diff(found, sympy.Symbol(derived_by, real=True))
    same, known = True, 0
    for values in PLACES[places]:
        where = {sympy.Symbol(n, real=True): sympy.Rational(v) for n, v in zip(names, values, strict=False)}
        expected = _number(right, where)
        if expected is None:
            continue
        value = _number(found, where)
        known += 1
        same = same and value is not None and abs(value - expected) <= 1e-20 * (1 + abs(expected))
    if not same:
        return 0.0
    return 1.0 if known >= LEAST_PLACES or not right.free_symbols else float(verify(right, found, timeout_seconds=None))


def judge_solved(answer: str, equal_to: str, target: str, result: str, points: Sequence[Mapping[str, str]]) -> float:
    """Whether `answer` gives back the value of `target` where `result` is what `equal_to` comes to, at each point."""
    names = [name for name in points[0] if name != target]
    found = _expression(answer, [*names, result])
    right = _expression(equal_to, [*names, target])
    if found is None:
        return 0.0
    for point in points:
        where = {_symbol(name): sympy.Rational(value) for name, value in point.items()}
        expected = where[_symbol(target)]
        value = _number(found.subs({_symbol(result): right.subs(where)}), where)
        if value is None or abs(value - expected) > 1e-20 * (1 + expected):
            return 0.0
    return 1.0


def _number(expression: Any, where: Mapping[Any, Any]) -> Any:
    """To 30 digits; None where it is not finite and real."""
    value = expression.subs(where).evalf(30, maxn=200)
    return value if value.is_Float or value.is_Rational else None


def _expression(text: str, names: Sequence[str]) -> Any:
    """None for what is no closed formula in these letters."""
    text = text.strip()
    if len(text) > MOST_CHARACTERS:
        return None
    found = _latex(text, names) if "\\" in text or "{" in text else _plain(text)
    if not isinstance(found, sympy.Expr):
        return None
    found = found.xreplace({number: sympy.Rational(str(number)) for number in found.atoms(sympy.Float)})
    found = found.xreplace({each: _symbol(each.name) for each in found.free_symbols})
    allowed = {sympy.Symbol(name, real=True) for name in names}
    return found if found.free_symbols <= allowed and not found.has(sympy.nan, sympy.zoo, sympy.oo) else None


def _symbol(name: str) -> Any:
    return sympy.E if name == "e" else sympy.Symbol(name, real=True)


def _plain(text: str) -> Any:
    tree = trees.read(_unwrapped(text))
    return None if tree is None else _built(tree)


def _unwrapped(text: str) -> str:
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == "$" else text


def _built(tree: trees.Tree) -> Any:
    if isinstance(tree, str):
        return sympy.pi if tree == "pi" else _symbol(tree.lower())
    if not isinstance(tree, tuple):
        return sympy.Rational(str(tree))
    if len(tree) == 2:
        return getattr(sympy, _NAMES.get(str(tree[0]), str(tree[0])))(_built(tree[1]))
    sign, a, b = tree[0], _built(tree[1]), _built(tree[2])
    if sign == "^" and a.is_Rational and b.is_Rational and abs(b) > MOST_EXPONENT:
        return sympy.nan
    return _OPERATORS[sign](a, b)


def _latex(text: str, names: Sequence[str]) -> Any:
    """Only closed formulas: math-verify works out d/dx and integrals, and then the question would be an answer.

    `\\log` is the natural logarithm, as in plain text.
    """
    text = _unwrapped(_SPACE.sub(" ", text).replace("\\log", "\\ln"))
    letters = set(re.sub(r"[^A-Za-z]", "", _COMMAND.sub("", text)).lower())
    if not set(_COMMAND.findall(text)) <= _COMMANDS or not letters <= {"e", *names}:
        return None
    if _DERIVATIVE.search(text) or any(sign in text for sign in "$=,_'&;:"):
        return None
    found = parse(f"${text}$", extraction_config=LATEX, fallback_mode="no_fallback", parsing_timeout=None)
    return found[0] if found else None


_latex(
    r"\frac{x^2}{2}\cdot\sin(3x)+\sqrt{e}", "x"
)  # the grammar's tables are built once, in the server, not in each job
