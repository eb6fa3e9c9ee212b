"""Extraction: what documents say, as JSON: entities, dates, amounts, roles, corrections, relations, tables.

In: an index.  Out: single-turn tasks at three levels for each skill.  Listed in `envs.families`.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.extraction import amounts, facts, threads, times
from envs.skills import Skill, skill_domains

SKILLS: list[Skill] = [
    *amounts.SKILLS,
    *facts.SKILLS,
    *threads.SKILLS,
    *times.SKILLS,
]


def domains() -> list[Domain]:
    """Every skill at each of its levels."""
    return skill_domains("extraction", SKILLS)


FAMILY = Family(
    name="extraction",
    domains=domains,
    about=(
        "Read a made-up document (mail, minutes, receipt, contract, log, report) and write what it says as JSON: "
        "entities, dates, amounts, roles, relations, corrections, timelines, table rows. Every value follows from the "
        "text and the rules of the prompt, so that the answer is exact: relative dates, units and totals are computed, "
        "what is negated, withdrawn or replaced is left out, what is missing is null. An answer is worth 1 where all "
        "of it is right; at hard levels there is a part of at most 0.8 for most of it, by precision and recall, which "
        "listing everything does not earn. All texts are our own. Trap: the sentences come from patterns, so mix it "
        "with tasks on real prose."
    ),
)
