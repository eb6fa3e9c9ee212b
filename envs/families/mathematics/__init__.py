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
    about=(
        "Problems from arithmetic to calculus, generated here, one kind to a skill: numbers in all spellings, number "
        "theory, algebra, counting, probability, matrices, coordinates, calculus, units, dates. Answers are compared "
        "exactly, and every prompt names its format: equal values are equal (2/4 is 0.5, sqrt(12)/2 is sqrt(3)), but "
        "0.333 is no third, a missing unit is wrong, and an expression that would still have to be computed is no "
        "answer. Some skills take any witness (numbers with a given sum and product, a triangle of a given area): "
        "those verifiers check the property. Formulas (derivatives, antiderivatives, closed forms, and a few more) "
        "are read and compared in the sandbox, in plain text or in LaTeX (math-verify, Apache-2.0). Trap: only the "
        "result counts, so short answers by guessing pay where few values are possible, as in some easy levels."
    ),
)
