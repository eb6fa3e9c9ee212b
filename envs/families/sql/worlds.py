"""Made-up databases: two tables each, in worlds with their own words, filled from a seed.

In: a world and a seed.  Out: `CREATE TABLE` statements, rows, and `Instance`s: one that the prompt shows, and hidden
ones with ties, with many NULLs, with an empty table, and larger.  Called by the other modules of the package, in the
sandbox as well.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

Row = tuple[int | str | None, ...]

NAMES = (
    "Ada Bruno Chen Dina Emil Fatma Goran Hana Igor Jana Kofi Lena Milo Nadia Omar Petra Quinn Rosa Sami Tara Ugo Vera "
    "Wim Xenia Yusuf Zoe Anton Berta Carlo Doris Elif Farid Greta Hugo Ines Jonas"
).split()
KINDS = ("shown", "usual", "ties", "nulls", "empty", "large")
HIDDEN = KINDS[1:]


@dataclass(frozen=True, slots=True)
class World:
    """The words of a database.

    - `parents`, `one`: a table of people or things, and what one of them is called.
    - `place`, `measure`, `since`, `mentor`: columns of `parents`: a text, a number, a date, the id of another of them.
    - `children`, `link`, `kind`, `amount`, `day`: the other table: the parent's id, a text, a number, a date.
    - `mentor_words`: what the mentor is to a parent.
    """

    parents: str
    one: str
    place: str
    places: tuple[str, ...]
    measure: str
    since: str
    mentor: str
    mentor_words: str
    children: str
    link: str
    kind: str
    kinds: tuple[str, ...]
    amount: str
    day: str

    @property
    def schema(self) -> tuple[str, str]:
        return (
            f"CREATE TABLE {self.parents} (id INTEGER PRIMARY KEY, name TEXT NOT NULL, {self.place} TEXT, "
            f"{self.measure} INTEGER, {self.since} TEXT NOT NULL, {self.mentor} INTEGER REFERENCES "
            f"{self.parents}(id));",
            f"CREATE TABLE {self.children} (id INTEGER PRIMARY KEY, {self.link} INTEGER REFERENCES {self.parents}(id), "
            f"{self.kind} TEXT NOT NULL, {self.amount} INTEGER, {self.day} TEXT NOT NULL);",
        )


def _world(line: str) -> World:
    words = [word.strip() for word in line.split("|")]
    parts = [tuple(word.split()) if i in (3, 11) else word for i, word in enumerate(words)]
    return World(*parts)  # type: ignore[arg-type]


WORLDS: dict[str, World] = {
    world.parents: world
    for world in map(
        _world,
        (
            "customers|customer|city|Oslo Lima Cairo Kyoto|credit|joined_on|referred_by|the customer who referred it"
            "|orders|customer_id|channel|web phone shop|total|ordered_on",
            "students|student|school|North East West Lake|allowance|enrolled_on|tutor_id|the student who tutors it"
            "|exams|student_id|subject|art math music|points|taken_on",
            "patients|patient|ward|Alpha Beta Gamma|pulse|admitted_on|donor_id|the patient who gave it blood"
            "|treatments|patient_id|method|massage xray surgery|minutes|done_on",
            "members|member|branch|Harbour Centre Hill|fine|registered_on|sponsor_id|the member who sponsors it"
            "|loans|member_id|genre|crime poetry travel|days|lent_on",
            "pilots|pilot|base|Genoa Dakar Busan Quito|hours|hired_on|trainer_id|the pilot who trained it"
            "|flights|pilot_id|aircraft|jet glider prop|distance|flown_on",
            "fields|field|soil|clay sand loam|area|sown_on|source_id|the field that its seed came from"
            "|harvests|field_id|crop|barley beets clover|weight|reaped_on",
            "agents|agent|office|Porto Turin Lyon|target|started_on|manager_id|the agent who manages it"
            "|tickets|agent_id|topic|billing login outage|effort|closed_on",
            "players|player|club|Foxes Owls Bears|salary|signed_on|captain_id|the player who captains it"
            "|matches|player_id|league|cup national friendly|goals|played_on",
            "artists|artist|city|Berlin Delhi Accra Bogota|fee|debut_on|teacher_id|the artist who taught it"
            "|shows|artist_id|style|opera jazz mime|guests|held_on",
            "machines|machine|hall|Red Blue Green|power|bought_on|backup_id|the machine that backs it up"
            "|repairs|machine_id|fault|belt motor sensor|cost|fixed_on",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Instance:
    """The rows of both tables, in order of id."""

    parents: tuple[Row, ...]
    children: tuple[Row, ...]


def instance(world: World, seed: int, kind: str) -> Instance:
    """The database of that seed and kind (one of `KINDS`), the same everywhere."""
    rng = random.Random(f"{world.parents} {seed} {kind}")
    num_parents, num_children = {"shown": (5, 9), "large": (26, 90), "empty": (6, 0)}.get(kind, (9, 26))
    nulls = {"nulls": 0.4, "ties": 0.05}.get(kind, 0.15)
    numbers = [20, 30, 40] if kind == "ties" else list(range(5, 100, 5))

    def number() -> int | None:
        return None if rng.random() < nulls else rng.choice(numbers)

    def date() -> str:
        days = 3 if kind == "ties" else 28
        return (
            f"{rng.choice((2023, 2024))}-{rng.randint(1, 3 if kind == 'ties' else 12):02d}-{rng.randint(1, days):02d}"
        )

    parents: list[Row] = []
    for i, name in enumerate(rng.sample(NAMES, num_parents), 1):
        place = None if rng.random() < nulls else rng.choice(world.places)
        mentor = None if i == 1 or rng.random() < 0.25 else rng.randint(1, i - 1)
        parents.append((i, name, place, number(), date(), mentor))
    children: list[Row] = []
    # The last two parents have no children, whatever the rest.
    for i in range(1, num_children + 1):
        link = None if rng.random() < nulls / 2 else rng.randint(1, num_parents - 2)
        children.append((i, link, rng.choice(world.kinds), number(), date()))
    return Instance(tuple(parents), tuple(children))


def database(world: World, rows: Instance) -> sqlite3.Connection:
    """The instance in memory; foreign keys are not enforced."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in world.schema:
        connection.execute(statement)
    connection.executemany(f"INSERT INTO {world.parents} VALUES (?, ?, ?, ?, ?, ?)", rows.parents)
    connection.executemany(f"INSERT INTO {world.children} VALUES (?, ?, ?, ?, ?)", rows.children)
    return connection


def shown(world: World, seed: int) -> str:
    """The schema and the shown rows, as the prompt has them."""
    rows = instance(world, seed, "shown")
    return "\n".join(
        [
            *world.schema,
            "",
            f"Rows of {world.parents}:",
            *map(_literal, rows.parents),
            f"Rows of {world.children}:",
            *map(_literal, rows.children),
        ]
    )


def _literal(row: Row) -> str:
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")"


def hidden_databases(world: World, seed: int) -> Iterator[sqlite3.Connection]:
    """The databases that an answer is judged by."""
    for kind in HIDDEN:
        yield database(world, instance(world, seed, kind))
