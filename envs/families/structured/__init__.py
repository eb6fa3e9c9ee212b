"""Structured data: JSON, CSV, XML, YAML, TOML, INI, Markdown, logs and patches, written, read, changed and repaired.

In: an index.  Out: single-turn tasks at three levels for each skill.  Listed in `envs.families`.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.structured import calls, markup, merges, patches, paths, records, schemas, settings, tables, texts
from envs.skills import Skill, skill_domains

SKILLS: list[Skill] = [
    *calls.SKILLS,
    *markup.SKILLS,
    *merges.SKILLS,
    *patches.SKILLS,
    *paths.SKILLS,
    *records.SKILLS,
    *schemas.SKILLS,
    *settings.SKILLS,
    *tables.SKILLS,
    *texts.SKILLS,
]


def domains() -> list[Domain]:
    """Every skill at each of its levels."""
    return skill_domains("structured", SKILLS)


FAMILY = Family(
    name="structured",
    domains=domains,
    about=(
        "Read, write, repair and change structured data: JSON (schemas, patches, pointers, path queries, flat keys), "
        "CSV, XML, YAML, TOML, INI, Markdown tables and lists, function calls, templates, logs, and diffs. Answers "
        "are parsed by strict readers of bounded depth and compared as values, so that white space and the order of "
        "keys never matter where the format says so; patches, diffs and schemas are judged by applying them. It "
        "trains exact formats and careful copying, which every agent with tools needs. All tasks and code are our "
        "own. Traps: the strict readers take no fences or words around the answer; a key that stands twice, NaN, "
        "anchors, document types and `$ref` count as wrong; the documents are made up and small."
    ),
)
