"""Mathematics from arithmetic to calculus: generated problems with exact answers, or with any witness of a property.

In: an index.  Out: single-turn tasks at three levels for each skill.  Listed in `envs.families`.

Answers are read as exact values (`values`, `intervals`) and never evaluated in this process.  What only a computer
algebra system can compare (derivatives, formulas) is read and compared in the sandbox (`inside`).
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.mathematics import (
    algebra,
    arithmetic,
    calculus,
    chance,
    counting,
    formulas,
    matrices,
    number_theory,
    roots_and_powers,
    witnesses,
    words,
)
from envs.skills import Skill, skill_domains

SKILLS: list[Skill] = [
    *arithmetic.SKILLS,
    *number_theory.SKILLS,
    *algebra.SKILLS,
    *roots_and_powers.SKILLS,
    *counting.SKILLS,
    *chance.SKILLS,
    *matrices.SKILLS,
    *calculus.SKILLS,
    *words.SKILLS,
    *formulas.SKILLS,
    *witnesses.SKILLS,
]


def domains() -> list[Domain]:
    """Every skill at each of its levels."""
    return skill_domains("mathematics", SKILLS)


FAMILY = Family(
    name="mathematics",
    domains=domains,
    about="",
)
