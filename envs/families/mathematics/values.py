"""Numbers as people write them, read exactly and never evaluated.

In: a text that a model wrote.  Out: a value that can be compared exactly, or None for anything that is no plain value:
`17*23` is no answer to `17*23`.  Linear in the text, bounded in length, never raises.  Called by all judges of this
family that need no library.

Accepted spellings, everywhere: `7`, `+7`, `-12`, `1,234,567` (alone, not inside a list), `3/4`, `-6/8`, `0.75`, `.75`;
the sign may be a typographic minus; one pair of `$…$` or one `\\boxed{…}` around it all, `\\frac{3}{4}` and
`\\sqrt{5}`.  Equal values are equal: `2/4` is `0.5`.  Refused: mixed numbers (`1 1/2`), `1e3`, `3.`, a percent sign or
a unit where none was asked for, `x = 3`, words before or after, several answers where one was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

MOST_CHARACTERS = 2_000
MOST_PARTS = 200
MOST_RADICAND = 10**6
MOST_POWER = 60
MOST_TERMS = 60

# (power of the symbol, square-free radicand) -> coefficient.  x^2/3 - sqrt(5) is {(2, 1): 1/3, (0, 5): -1}.
Sum = dict[tuple[int, int], Fraction]

_DIGITS = "[0-9]{1,300}"
_NUMBER = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}|[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,99}})(?:\.{_DIGITS})?|\.{_DIGITS}|{_DIGITS} ?/ ?{_DIGITS})"
)
_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "∞": "inf", "∪": "U", "√": "sqrt"})
_ROOT = re.compile(r"\\sqrt\{([0-9]{1,9})\}")
_FRACTION = re.compile(r"(?<![0-9.)}^A-Za-z])\\[dt]?frac\{([^{}]{1,200})\}\{([0-9]{1,300})\}(?![0-9.^({])")
_COMMANDS = (
    ("\\left", ""),
    ("\\right", ""),
    ("\\{", "{"),
    ("\\}", "}"),
    ("\\cdot", "*"),
    ("\\times", "*"),
    ("\\infty", "inf"),
    ("\\cup", "U"),
    ("\\pi", "pi"),
    ("**", "^"),
)


# ---- spelling -------------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """The text without LaTeX around and inside of it, as far as that is plain; "" where it is too long."""
    if len(text) > MOST_CHARACTERS:
        return ""
    text = _unwrapped(text.strip()).translate(_SIGNS)
    if "\\" in text or "**" in text:
        text = _FRACTION.sub(_quotient, _ROOT.sub(r"sqrt(\1)", text))
        for command, sign in _COMMANDS:
            text = text.replace(command, sign)
    return text.strip()


def _unwrapped(text: str) -> str:
    if len(text) > 2 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
        text = text[1:-1].strip()
    if text.startswith("\\boxed{") and text.endswith("}"):
        inside = text[len("\\boxed{") : -1]
        if inside.count("{") == inside.count("}") and "boxed" not in inside:
            return inside.strip()
    return text


def _quotient(match: re.Match[str]) -> str:
    over, under = match.group(1).strip(), match.group(2)
    following = match.string[match.end() : match.end() + 1]
    text = f"{over}/{under}" if re.fullmatch("-?[0-9]+", over) else f"({over})/{under}"
    return f"{text}*" if following.isalpha() else text


# ---- numbers --------------------------------------------------------------------------------------------------------


def number(text: str) -> Fraction | None:
    """An integer, a fraction or a decimal.

    Example: ``number("-6/8") == Fraction(-3, 4)`` and ``number("0.333") != Fraction(1, 3)``
    """
    text = plain(text)
    if not _NUMBER.fullmatch(text):
        return None
    over, slash, under = text.replace(",", "").replace(" ", "").partition("/")
    if slash and not int(under):
        return None
    return Fraction(over) / (int(under) if slash else 1)


def integer(text: str) -> int | None:
    """A number that is whole, however written."""
    value = number(text)
    return int(value) if value is not None and value.denominator == 1 else None


def quantity(text: str, units: Sequence[str]) -> Fraction | None:
    """A number and then one of the units, which must be there; a unit of letters may stand after a space."""
    text = plain(text).replace("\\%", "%")
    match = re.match(r"[-+0-9.,/]{1,400}", text)
    if match is None:
        return None
    unit = " ".join(text[match.end() :].split())
    return number(match.group()) if unit in units else None


# ---- sums: surds, complex numbers, polynomials ----------------------------------------------------------------------

_TOKEN = re.compile(r" *([0-9]{1,100}(?:\.[0-9]{1,100})?|sqrt|pi|[a-zA-Z]|[-+*/^()])")


def sum_of(text: str, symbol: str = "", groups: bool = True, tidy: bool = False) -> Sum | None:
    """A sum of terms such as `3/2*x^2`, `-sqrt(5)`, `2sqrt(3)/3`, `7i`; with `groups`, also `(1 + sqrt(5))/2`.

    Radicands are whole numbers up to a million, brackets do not nest, and there are no products of sums.  With `tidy`,
    terms of one kind must be one term, and radicands square-free: where that is the question.
    """
    text = plain(text)
    tokens: list[str] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or len(tokens) > 20 * MOST_TERMS:
            return None
        tokens.append(match.group(1))
        place = match.end()
    reader = _SumReader(tokens, symbol, groups)
    found = reader.sum(0)
    if reader.place < len(tokens) or (tidy and not reader.is_tidy):
        return None
    return found


class _SumReader:
    """Reads tokens from the left; None wherever the text leaves the grammar of `sum_of`."""

    def __init__(self, tokens: Sequence[str], symbol: str, groups: bool):
        self.tokens, self.symbol, self.groups, self.place = tokens, symbol, groups, 0
        self.is_tidy = True

    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def taken(self, *wanted: str) -> str:
        token = self.next()
        if token and token in wanted:
            self.place += 1
            return token
        return ""

    def sum(self, depth: int) -> Sum | None:
        total: Sum = {}
        sign = self.taken("+", "-")
        for _ in range(MOST_TERMS):
            term = self.term(depth)
            if term is None:
                return None
            for key, value in term.items():
                self.is_tidy = self.is_tidy and key not in total
                total[key] = total.get(key, Fraction(0)) + (-value if sign == "-" else value)
            sign = self.taken("+", "-")
            if not sign:
                return {key: value for key, value in total.items() if value}
        return None

    def term(self, depth: int) -> Sum | None:
        product = self.factor(depth)
        grouped = product is not None and len(product) > 1
        while product is not None:
            sign = self.taken("*", "/")
            if sign == "/":
                product = self.divided(product)
                if self.next() and self.next() not in "+-*/)":
                    return None  # 1/2x means two things
                continue
            if not sign and (
                not self.next() or self.next() in "+-/)" or self.next()[0].isdigit() or self.next() == "^"
            ):
                return product
            factor = self.factor(depth)
            if factor is None or (grouped and len(factor) > 1):
                return None
            grouped = grouped or len(factor) > 1
            product = _product(product, factor)
        return None

    def divided(self, product: Sum) -> Sum | None:
        """By a whole number or a root of one."""
        if self.next() not in ("sqrt",) and not self.next().isdigit():
            return None
        factor = self.factor(1)
        if not factor:
            return None
        ((power, radicand), value) = next(iter(factor.items()))
        return _product(product, {(power, radicand): 1 / (value * radicand)})

    def factor(self, depth: int) -> Sum | None:
        token = self.next()
        self.place += 1
        if not token:
            return None
        if token[0].isdigit():
            return {(0, 1): Fraction(token)} if Fraction(token) else {}
        if token == "sqrt":
            return self.root()
        if token == self.symbol:
            return self.power()
        if token == "(" and depth == 0 and self.groups:
            inner = self.sum(1)
            return inner if inner is not None and self.taken(")") and self.next() != "^" else None
        return None

    def root(self) -> Sum | None:
        bracket = self.taken("(")
        token = self.next()
        self.place += 1
        if not token.isdigit() or int(token) > MOST_RADICAND or (bracket and not self.taken(")")):
            return None
        outside, inside = square_free(int(token))
        self.is_tidy = self.is_tidy and outside == 1 and inside > 1
        return {(0, inside): Fraction(outside)} if outside else {}

    def power(self) -> Sum | None:
        if not self.taken("^"):
            return {(1, 1): Fraction(1)}
        token = self.next()
        self.place += 1
        if self.symbol in ("i", "pi") or not token.isdigit() or int(token) > MOST_POWER:
            return None
        return {(int(token), 1): Fraction(1)}


def square_free(radicand: int) -> tuple[int, int]:
    """(a, b) with a square-free b and sqrt(radicand) = a*sqrt(b); (0, 1) for 0."""
    if radicand == 0:
        return 0, 1
    outside, factor = 1, 2
    while factor * factor <= radicand:
        while radicand % (factor * factor) == 0:
            radicand //= factor * factor
            outside *= factor
        factor += 1
    return outside, radicand


def _product(first: Mapping[tuple[int, int], Fraction], second: Mapping[tuple[int, int], Fraction]) -> Sum | None:
    """One of the two is a single term."""
    if len(first) > 1 and len(second) > 1:
        return None
    found: Sum = {}
    for (power, radicand), value in first.items():
        for (other_power, other_radicand), other_value in second.items():
            if radicand * other_radicand > MOST_RADICAND or power + other_power > MOST_POWER:
                return None
            outside, inside = square_free(radicand * other_radicand)
            key = (power + other_power, inside)
            found[key] = found.get(key, Fraction(0)) + value * other_value * outside
    return found


def polynomial(text: str, symbol: str = "x") -> list[Fraction] | None:
    """Coefficients from the constant upwards, of a sum of terms, each power once; [] for 0."""
    found = sum_of(text, symbol, groups=False, tidy=True)
    if found is None or any(radicand != 1 for _, radicand in found):
        return None
    degree = max((power for power, _ in found), default=-1)
    return [found.get((power, 1), Fraction(0)) for power in range(degree + 1)]


def complex_number(text: str) -> Sum | None:
    """`a + b*i` with rational or surd parts."""
    found = sum_of(text, "i")
    return None if found is None or any(power > 1 for power, _ in found) else found


# ---- several values -------------------------------------------------------------------------------------------------

_CLOSING = {"(": ")", "[": "]", "{": "}"}


def parts(text: str) -> list[str] | None:
    """The elements of a list, tuple or set, whose brackets may be of any kind or missing; [] for empty brackets.

    Example: ``parts("(1, 2), sqrt(3)") == ["(1, 2)", "sqrt(3)"]``
    """
    text = plain(text)
    spans = _split(text)
    if spans is not None and len(spans) == 1 and text and text[0] in _CLOSING and _closes_at_end(text):
        text = text[1:-1].strip()
        if not text:
            return []
        spans = _split(text)
    if spans is None or len(spans) > MOST_PARTS or not all(spans):
        return None
    return spans


def _split(text: str) -> list[str] | None:
    """At commas outside of brackets; None where brackets do not match."""
    open_brackets: list[str] = []
    found, start = [], 0
    for place, sign in enumerate(text):
        if sign in _CLOSING:
            open_brackets.append(_CLOSING[sign])
        elif sign in ")]}":
            if not open_brackets or open_brackets.pop() != sign:
                return None
        elif sign == "," and not open_brackets:
            found.append(text[start:place].strip())
            start = place + 1
    return None if open_brackets else [*found, text[start:].strip()]


def _closes_at_end(text: str) -> bool:
    """Whether the first bracket's partner is the last character; the brackets are known to match."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign in _CLOSING) - (sign in ")]}")
        if depth == 0:
            return place == len(text) - 1
    return False


def numbers(text: str) -> list[Fraction] | None:
    """Rational numbers in a list."""
    found = [number(part) if "," not in part else None for part in parts(text) or []]
    values = [value for value in found if value is not None]
    return values if parts(text) is not None and len(values) == len(found) else None


def integers(text: str) -> list[int] | None:
    """Whole numbers in a list."""
    found = numbers(text)
    return None if found is None or any(each.denominator != 1 for each in found) else [int(each) for each in found]


def rows(text: str) -> list[list[Fraction]] | None:
    """Rows of a matrix, or points: `[[1, 2], [3, 4]]`, `(1, 2), (3, 4)`; `(1, 2)` is one row."""
    outer = parts(text)
    if outer is None:
        return None
    if not any(part[0] in _CLOSING for part in outer):
        outer = [text] if outer else []
    found = [numbers(part) for part in outer]
    values = [row for row in found if row is not None]
    return values if len(values) == len(found) else None
