"""Made-up things that structured texts are about: people, goods, places, and nested documents of them.

In: a random stream.  Out: plain JSON values and the texts that show them.  Called by the other modules of the package.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from envs.skills import Question

NAMES = (
    "Ada Bruno Chen Dina Emil Fatma Goran Hana Igor Jana Kofi Lena Milo Nadia Omar Petra Quinn Rosa Sami Tara Ugo Vera "
    "Wim Xenia Yusuf Zoe"
).split()
SURNAMES = "Abel Brandt Costa Dahl Eriksen Fuchs Garcia Haas Ito Jansen Klein Lopez Moser Novak Okoro Peters".split()
TOWNS = "Bergen Cairo Delft Essen Fargo Genoa Hanoi Izmir Jena Kyoto Lagos Malmo Nice Osaka Porto Quito Riga".split()
GOODS = (
    "lamp chair desk rope kettle drum mirror ladder basket candle hammer piano quilt saddle teapot vase wagon bucket "
    "carpet jacket"
).split()
COLOURS = "red blue green black white amber grey pink".split()
WORDS = (
    "acorn bay cloud dune ember fern grove harbor inlet jade kelp lake moss north opal pine quartz reef slate tide "
    "union valley willow yard zinc"
).split()
KEYS = (
    "age box city code depth edge flag grade hall item kind level mode name owner part queue rank size tag unit value "
    "width year zone"
).split()
MONTHS = "January February March April May June July August September October November December".split()


def show(value: Any) -> str:
    """JSON in one line."""
    return json.dumps(value)


def pretty(value: Any) -> str:
    """JSON with two spaces of indentation."""
    return json.dumps(value, indent=2)


def leaf(rng: random.Random) -> Any:
    """A small value: mostly numbers and words."""
    kind = rng.randrange(8)
    if kind < 3:
        return rng.randint(-9, 99)
    return rng.choice(WORDS) if kind < 6 else rng.choice([True, False, None])


def nested(rng: random.Random, size: int, depth: int, lists: bool = True) -> dict[str, Any]:
    """An object with `size` leaves, at most `depth` levels deep; keys of one object differ."""
    document: dict[str, Any] = {}
    keys = rng.sample(KEYS, min(size, len(KEYS)))
    while size > 0:
        key = keys.pop()
        part = rng.randint(1, min(3, size))
        if depth > 1 and size > 1 and rng.random() < 0.6:
            if lists and rng.random() < 0.45:
                document[key] = [leaf(rng) for _ in range(part)]
            else:
                document[key] = nested(rng, part, depth - 1, lists)
        else:
            part = 1
            document[key] = leaf(rng)
        size -= part
    return document


Path = tuple[str | int, ...]


def places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every place of a document with its value, in the order of the document, the whole first."""
    yield path, value
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from places(one, (*path, index))


def leaves(value: Any) -> list[tuple[Path, Any]]:
    """The places that hold no object and no list, and empty ones."""
    return [(path, one) for path, one in places(value) if not isinstance(one, dict | list) or not one]


def pointer(path: Sequence[str | int]) -> str:
    """RFC 6901: `("a/b", 0)` -> `/a~1b/0`."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def date(rng: random.Random, year: int = 2024) -> tuple[str, str]:
    """A day as ISO, and as said: `("2024-05-03", "3 May 2024")`."""
    month, day = rng.randint(1, 12), rng.randint(1, 28)
    return f"{year}-{month:02d}-{day:02d}", f"{day} {MONTHS[month - 1]} {year}"


def asked_json(text: str, value: Any, **facts: Any) -> Question:
    """A question whose answer is one JSON value, compared as a value."""
    return Question(text=text, answer=show(value), facts={"value": value, **facts})
