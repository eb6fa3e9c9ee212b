"""Readers of what a model wrote, for judges: strict, bounded, and never more than a value or a `Refused`.

In: a text of anything.  Out: plain values (or trees, rows, sections).  Called by the judges of this family and of
`extraction`.  No reader runs what it reads, follows a reference, or takes more than about linear time: texts are cut
off at `MAX_CHARACTERS`, nesting at `MAX_DEPTH`, numbers at `MAX_DIGITS` digits.
"""

from __future__ import annotations

import functools
import json
import math
import tomllib
from typing import Any, NoReturn
from xml.parsers import expat

MAX_CHARACTERS = 12_000
MAX_DEPTH = 24
MAX_DIGITS = 30
_SLACK = 1e-9


class Refused(ValueError):
    """The text is not what was asked for; the words say why."""


def checked(text: str) -> str:
    """The text itself; refused where it is too long, or has characters that no document has."""
    if len(text) > MAX_CHARACTERS:
        raise Refused("too long")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Refused("NUL or half a character")
    return text


def same(given: Any, wanted: Any, strict: bool = False) -> bool:
    """Equal values of equal types.  A number is a number: 3 and 3.0 are the same, unless `strict`; true is not 1.

    It goes only as deep as `wanted`, and it never trusts `given`.
    """
    if isinstance(wanted, dict):
        return (
            isinstance(given, dict)
            and given.keys() == wanted.keys()
            and all(same(given[key], value, strict) for key, value in wanted.items())
        )
    if isinstance(wanted, list):
        return (
            isinstance(given, list)
            and len(given) == len(wanted)
            and all(same(one, other, strict) for one, other in zip(given, wanted, strict=True))
        )
    if is_number(wanted) and is_number(given):
        if strict and type(given) is not type(wanted):
            return False
        return bool(given == wanted or (isinstance(wanted, float) and abs(given - wanted) < _SLACK))
    return type(given) is type(wanted) and bool(given == wanted)


def is_number(value: Any) -> bool:
    """An int or a float, and no bool; nothing so large that arithmetic on it could fail."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 10**MAX_DIGITS


# ---- JSON ------------------------------------------------------------------------------------------------------------


def read_json(text: str) -> Any:
    """Strict JSON: one value, no key twice, no NaN or Infinity (nor 1e999), no lone surrogates, bounded depth."""
    _check_depth(checked(text))
    try:
        value = json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_int=_short_int,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as problem:
        raise Refused(str(problem)) from problem
    _check_strings(value)
    return value


def _check_depth(text: str) -> None:
    """Brackets outside of strings; a text that is no JSON may be refused for it as well."""
    depth, inside, escaped = 0, False, False
    for character in text:
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Refused("nested too deep")
        elif character in "]}":
            depth -= 1


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("a key stands twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise Refused(f"{text} is no JSON")


def _short_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Refused("a number is too long")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Refused("a number is too large")
    return value


def _check_strings(value: Any) -> None:
    if isinstance(value, str):
        checked(value.replace("\0", ""))
    elif isinstance(value, list):
        for one in value:
            _check_strings(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            _check_strings(key)
            _check_strings(one)


# ---- rows ------------------------------------------------------------------------------------------------------------


def read_csv(text: str, comma: str = ",") -> list[list[str]]:
    """RFC 4180: fields may stand in double quotes, a quote inside of them is doubled; a bare quote is refused."""
    text = checked(text).replace("\r\n", "\n")
    rows: list[list[str]] = [[]]
    place = 0
    while True:
        field, place = _csv_field(text, place, comma)
        rows[-1].append(field)
        if place >= len(text):
            return rows
        if text[place] == "\n":
            if place == len(text) - 1:
                return rows
            rows.append([])
        place += 1


def _csv_field(text: str, place: int, comma: str) -> tuple[str, int]:
    """The field that begins at `place`, and where it ends: at a comma, at a line's end, or at the text's end."""
    if text[place : place + 1] != '"':
        end = place
        while end < len(text) and text[end] not in (comma, "\n"):
            if text[end] == '"':
                raise Refused("a quote in a field without quotes")
            end += 1
        return text[place:end], end
    pieces: list[str] = []
    place += 1
    while True:
        end = text.find('"', place)
        if end < 0:
            raise Refused("a quote is not closed")
        pieces.append(text[place:end])
        place = end + 1
        if text[place : place + 1] != '"':
            break
        pieces.append('"')
        place += 1
    if place < len(text) and text[place] not in (comma, "\n"):
        raise Refused("something follows a closing quote")
    return "".join(pieces), place


def read_table(text: str) -> tuple[list[list[str]], list[str]]:
    """A Markdown table: rows of cells (the heading first), and for each column `left`, `right`, `center` or `none`."""
    rows = [_cells(line) for line in checked(text).strip().split("\n")]
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise Refused("no table, or rows of different lengths")
    return [rows[0], *rows[2:]], [_alignment(cell) for cell in rows[1]]


def _cells(line: str) -> list[str]:
    line = line.strip()
    if len(line) < 2 or not (line.startswith("|") and line.endswith("|")):
        raise Refused("a row of a table stands between | and |")
    return [cell.strip() for cell in line[1:-1].split("|")]


def _alignment(cell: str) -> str:
    dashes = cell.removeprefix(":").removesuffix(":")
    if not dashes or dashes.strip("-"):
        raise Refused("the second row has dashes and colons only")
    left, right = cell.startswith(":"), cell.endswith(":")
    return ("center" if right else "left") if left else ("right" if right else "none")


# ---- XML, YAML, TOML, INI --------------------------------------------------------------------------------------------


def read_xml(text: str) -> list[Any]:
    """`[tag, attributes, text, children]`, children of the same form.

    A document type, entities, processing instructions, and text beside child elements are refused.
    """
    root: list[Any] = ["", {}, "", []]
    stack = [root]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            raise Refused("nested too deep")
        node = [tag, dict(attributes), "", []]
        stack[-1][3].append(node)
        stack.append(node)

    def end(tag: str) -> None:
        node = stack.pop()
        node[2] = node[2].strip()
        if node[2] and node[3]:
            raise Refused("text beside elements")

    def characters(data: str) -> None:
        stack[-1][2] += data

    def refuse(*_: Any) -> NoReturn:
        raise Refused("a document type, an entity or an instruction")

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ProcessingInstructionHandler = refuse
    try:
        parser.Parse(checked(text).encode("utf-8"), True)
    except expat.ExpatError as problem:
        raise Refused(str(problem)) from problem
    tree: list[Any] = root[3][0]
    return tree


def read_yaml(text: str) -> Any:
    """One document of plain YAML: no anchors, aliases, tags or merge keys, no key twice, bounded depth."""
    yaml, loader = _yaml()
    try:
        return yaml.load(checked(text), Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, KeyError, IndexError) as problem:
        raise Refused(str(problem)) from problem  # a few malformed scalars make the library itself stumble


@functools.cache
def _yaml() -> tuple[Any, Any]:
    """The library, and the safe loader made narrower; imported late, since listing domains may not need it."""
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0

        def fetch_flow_collection_start(self, token_class: Any) -> None:
            # Tokens cost time for each open bracket, so that brackets are bounded before anything else.
            if self.flow_level >= MAX_DEPTH:
                raise Refused("nested too deep")
            super().fetch_flow_collection_start(token_class)

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
                raise Refused("an anchor, an alias or a tag")
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise Refused("nested too deep")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            if any(not isinstance(key, str) or key == "<<" for key in keys) or len(set(keys)) < len(keys):
                raise Refused("a key stands twice, or is no text")
            return super().construct_mapping(node, deep=deep)

    return yaml, Loader


def read_toml(text: str) -> dict[str, Any]:
    """TOML 1.0, of bounded depth."""
    _check_depth(checked(text))
    if any(line.count(".") > 4 * MAX_DEPTH for line in text.split("\n")):
        raise Refused("nested too deep")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Refused(str(problem)) from problem


def read_ini(text: str) -> dict[str, dict[str, str]]:
    """Sections of `key = value` lines; blank lines and lines that begin with ; or # are skipped.

    Spaces around keys and values do not count.  A key or a section that stands twice is refused.
    """
    sections: dict[str, dict[str, str]] = {}
    section: dict[str, str] | None = None
    for line in (raw.strip() for raw in checked(text).split("\n")):
        if not line or line[0] in ";#":
            continue
        if line.startswith("["):
            name = line[1:-1].strip()
            if not line.endswith("]") or not name or name in sections:
                raise Refused("a wrong section")
            section = sections[name] = {}
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not (equals and key) or section is None or key in section:
            raise Refused("a wrong line")
        section[key] = value
    return sections
