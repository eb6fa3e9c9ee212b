"""Any data set as a family: a row is a task, a template makes its prompt, a judge of the table its verifier.

In: a YAML file with `adapter: datasets`.  Out: a `Family` of single-turn domains.  Listed in `envs.adapters`.

Rows are data, never code: no loading script is run.  Prompts that are there twice become one task, the first; what was
left out is counted in `knobs`.  Index n and index n + `num_distinct` are the same row.
"""

from __future__ import annotations

import functools
import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.adapters.judges import JUDGES, Extract, after, boxed, whole
from envs.adapters.settings import Settings
from envs.adapters.sources import Table, open_tables
from envs.adapters.template import Template, as_text
from envs.domain import Domain, Draft, Family, render_key, split_of
from envs.identity import code_id
from envs.questions import extract_answer, final_answer
from envs.skills import INSTRUCTION, SPARE_CHARACTERS, Judge
from envs.types import Message, Split, Status, Task, Trajectory
from rewards.score import Score, scored, unscored

MAX_DOMAINS = 500
SHOWN_ERRORS = 3
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a row becomes a task; the readable half of the file."""

    prompt: Template
    answer: Template
    system: Template | None
    extract: Extract
    choices: str
    tagged: bool
    facts: Mapping[str, Any]
    judge: Judge

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, `choices` among them."""
        templates = (self.prompt, self.answer, *([self.system] if self.system else []))
        names = [name for template in templates for name in template.fields]
        named = [self.choices if name == "choices" and self.choices else name for name in names]
        return tuple(dict.fromkeys([*named, *([self.choices] if self.choices else [])]))

    def draft(self, row: Mapping[str, Any], split: Split | None) -> Draft:
        """ValueError says what is wrong with the row."""
        values = dict(row)
        if self.choices:
            values["choices"] = _lettered(row[self.choices], self.choices)
            values |= {name: _letter(row[name], row[self.choices]) for name in self.answer.fields if name in row}
        text = self.prompt.fill(values)
        reference = self.extract(self.answer.fill(values))
        if not text.strip() or not reference:
            raise ValueError("its prompt or its answer is empty")
        user = Message.of("user", f"{text}\n\n{INSTRUCTION}" if self.tagged else text)
        system = (Message.of("system", self.system.fill(values)),) if self.system else ()
        return Draft(prompt=(*system, user), reference=reference, metadata=dict(self.facts), split=split)


def _lettered(items: Any, column: str) -> str:
    """`["4", "5"]` -> `A. 4` and `B. 5`, a line each."""
    if not isinstance(items, list) or not 2 <= len(items) <= len(LETTERS):
        raise ValueError(f"{column!r} is no list of 2 to {len(LETTERS)} choices")
    return "\n".join(f"{letter}. {as_text(item, column)}" for letter, item in zip(LETTERS, items, strict=False))


def _letter(value: Any, items: list[Any]) -> Any:
    """The place of the right choice, counted from 0, as its letter; letters stay."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < len(items):
            raise ValueError(f"the right choice is number {value} of {len(items)}, counted from 0")
        return LETTERS[value]
    return value


@dataclass(slots=True)
class Kept:
    """The rows of one domain: (table, row) each, and what was left out."""

    places: list[tuple[int, int]] = field(default_factory=list)
    sides: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0


def family(settings: Settings) -> Family:
    """Reads the file and, at once, every row: errors come now and not in the middle of a run."""
    recipe = _recipe(settings)
    tables = open_tables(settings)
    shuffle_seed = settings.integer("shuffle_seed") if settings.has("shuffle_seed") else None
    limit = settings.integer("limit", least=1) if settings.has("limit") else None
    by = settings.text("domain_by", "")
    parts = _Parts(settings, tables, recipe, by, settings.tiers(), settings.licence(), settings.text("source", ""))
    settings.finish()
    for key, columns in (("prompt, answer or system", recipe.columns), ("domain_by", (by,) if by else ())):
        for table in tables:
            _check_columns(settings, key, columns, table)
    kept = _scan(parts, shuffle_seed, limit)
    domains = [_domain(parts, name, kept[name]) for name in sorted(kept)]
    about = f"Rows of a data set, by the file {settings.path.name}."
    return Family(name=settings.family, domains=lambda: domains, about=about)


@dataclass(frozen=True, slots=True)
class _Parts:
    settings: Settings
    tables: list[Table]
    recipe: Recipe
    by: str
    tiers: tuple[str, ...]
    licence: str
    source: str


def _recipe(settings: Settings) -> Recipe:
    verifier = settings.choice("verifier", sorted(JUDGES))
    facts: dict[str, Any] = {}
    if settings.has("tolerance"):
        if verifier != "number":
            raise settings.wrong("tolerance", "only `verifier: number` reads it; remove it")
        facts["tolerance"] = settings.number("tolerance", least=0)
    return Recipe(
        prompt=_template(settings, "prompt"),
        answer=_template(settings, "answer"),
        system=_template(settings, "system") if settings.has("system") else None,
        extract=_extract(settings),
        choices=settings.text("choices", ""),
        tagged=settings.flag("tagged", True),
        facts=facts,
        judge=JUDGES[verifier],
    )


def _template(settings: Settings, key: str) -> Template:
    try:
        return Template(settings.text(key))
    except ValueError as problem:
        raise problem if str(settings.path) in str(problem) else settings.wrong(key, str(problem)) from problem


def _extract(settings: Settings) -> Extract:
    """`extract: {after: "####"}`, `extract: boxed`, or nothing."""
    if not settings.has("extract"):
        return whole
    try:
        inner = settings.inner("extract")
    except ValueError:
        settings.choice("extract", ["boxed"])
        return boxed
    assert inner is not None
    mark = inner.text("after")
    inner.finish()
    return after(mark)


def _check_columns(settings: Settings, key: str, names: Iterable[str], table: Table) -> None:
    for name in names:
        if name not in table.columns:
            raise settings.wrong(
                key, f"there is no column {name!r} in {table.label}; its columns are {', '.join(table.columns)}"
            )


# ---- one pass over all rows ------------------------------------------------------------------------------------------


def _scan(parts: _Parts, shuffle_seed: int | None, limit: int | None) -> dict[str, Kept]:
    """Which rows make which domain.  Held-out tables come first: a prompt on both sides is held out."""
    settings, recipe = parts.settings, parts.recipe
    kept: dict[str, Kept] = {}
    slugs: dict[str, Any] = {}
    seen: set[bytes] = set()
    faults: list[str] = []
    for place, row in _in_order(parts, shuffle_seed, limit):
        table = parts.tables[place[0]]
        try:
            draft = recipe.draft(row, table.split_of(row))
            _check_reference(recipe, draft)
            name = _slug(row[parts.by], parts.by) if parts.by else "all"
        except ValueError as problem:
            faults.append(f"row {place[1]} of {table.label}: {problem}")
            if len(faults) == SHOWN_ERRORS:
                break
            continue
        if parts.by and slugs.setdefault(name, row[parts.by]) != row[parts.by]:
            raise settings.wrong("domain_by", f"{slugs[name]!r} and {row[parts.by]!r} would both be called {name!r}")
        own = kept.setdefault(name, Kept())
        key = hashlib.blake2b(render_key(draft.prompt).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key in seen:
            own.duplicates += 1
            continue
        seen.add(key)
        own.places.append(place)
        own.sides[draft.split or split_of(draft.prompt)] += 1
    if faults:
        raise settings.wrong("path", "; ".join(faults) + "; mend or leave out these rows, or choose other columns")
    _check_kept(settings, kept)
    return kept


def _in_order(
    parts: _Parts, shuffle_seed: int | None, limit: int | None
) -> Iterable[tuple[tuple[int, int], Mapping[str, Any]]]:
    """Places and rows: held-out tables first, each shuffled; of the others together at most `limit` rows."""
    names = [*parts.recipe.columns, *([parts.by] if parts.by else [])]
    order = sorted(range(len(parts.tables)), key=lambda number: parts.tables[number].split != "held_out")
    left = limit
    for number in order:
        table = parts.tables[number]
        indices = list(range(len(table)))
        if shuffle_seed is not None:
            random.Random(shuffle_seed).shuffle(indices)
        if left is not None and table.split != "held_out":
            indices = indices[:left]
            left -= len(indices)
        for index, row in table.rows(indices, names):
            yield (number, index), row


def _check_reference(recipe: Recipe, draft: Draft) -> None:
    task = Task(id="", domain="", split="train", index=0, prompt=draft.prompt, reference=draft.reference)
    if recipe.judge(draft.reference, task) != 1.0:
        name = next(name for name, judge in JUDGES.items() if judge is recipe.judge)
        raise ValueError(
            f"its answer {draft.reference[:60]!r} is none that `verifier: {name}` takes; choose another verifier, or "
            "`extract: {after: …}`"
        )


def _slug(value: Any, column: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", as_text(value, column).lower()).strip("_")
    if not name:
        raise ValueError(f"{column!r} is {value!r}, which gives no name of a domain")
    return name


def _check_kept(settings: Settings, kept: Mapping[str, Kept]) -> None:
    if not kept:
        raise settings.wrong("path", "there are no rows; check the path, the split and the limit")
    if len(kept) > MAX_DOMAINS:
        raise settings.wrong("domain_by", f"it has {len(kept)} values, at most {MAX_DOMAINS} domains are made; drop it")
    for name, own in kept.items():
        for side in ("train", "held_out"):
            if not own.sides[side]:
                raise settings.wrong(
                    "held_out",
                    f"all {len(own.places)} tasks of {settings.family}/{name} are on one side, none is {side}; add "
                    "rows, or say which are held out: `held_out: {split: test}`, or `{column: …, values: […]}`",
                )


# ---- domains ---------------------------------------------------------------------------------------------------------


def _domain(parts: _Parts, name: str, kept: Kept) -> Domain:
    recipe, tables = parts.recipe, parts.tables
    names = recipe.columns

    def generate(index: int) -> Draft:
        number, row = kept.places[index % len(kept.places)]
        table = tables[number]
        _, values = next(iter(table.rows([row], [*names])))
        return recipe.draft(values, table.split_of(values))

    sources = [table.fingerprint for table in tables]
    texts = [recipe.prompt.text, recipe.answer.text, recipe.system.text if recipe.system else ""]
    return Domain(
        name=f"{parts.settings.family}/{name}",
        family=parts.settings.family,
        generate=generate,
        score=functools.partial(_score, recipe),
        gold=functools.partial(_gold, recipe.tagged),
        tiers=parts.tiers,
        generator_id=code_id("data set", *sources, *texts),
        verifier_id=code_id(recipe.judge),
        source=parts.source or "; ".join(table.label for table in tables),
        licence=parts.licence,
        knobs={
            "rows": len(kept.places),
            "held_out": kept.sides["held_out"],
            "duplicates left out": kept.duplicates,
            "data": sources,
        },
        num_distinct=len(kept.places),
    )


def _gold(tagged: bool, task: Task, messages: tuple[Message, ...]) -> Message:
    return Message.of("assistant", f"<answer>{task.reference}</answer>" if tagged else task.reference)


def _score(recipe: Recipe, task: Task, trajectory: Trajectory) -> Score:
    if trajectory.status is Status.FAILED:
        return unscored(trajectory.error or "the episode failed")
    text = final_answer(trajectory)
    if text is None:
        return scored(0.0)
    answer = extract_answer(text) if recipe.tagged else text
    if len(answer) > 2 * len(task.reference) + SPARE_CHARACTERS:
        return scored(0.0)
    return scored(recipe.judge(answer, task))
