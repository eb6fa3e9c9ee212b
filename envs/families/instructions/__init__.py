"""Instructions that a program can check: texts of a given shape, given words, given letters, alone and together.

In: an index.  Out: single-turn tasks at three levels for each skill.  Listed in `envs.families`.

The kinds of conditions follow the idea of IFEval (Zhou et al. 2023, arXiv:2311.07911) and of IFBench (Pyatkin et al.
2025): instructions whose fulfilment a program can verify.  All conditions, wordings, texts and checks are our own.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.instructions import compose, layout_skills, lengths, marks, spelling, vocabulary
from envs.skills import Skill, skill_domains

SKILLS: list[Skill] = [
    *lengths.SKILLS,
    *vocabulary.SKILLS,
    *spelling.SKILLS,
    *marks.SKILLS,
    *layout_skills.SKILLS,
    *compose.SKILLS,
]


def domains() -> list[Domain]:
    """Every skill at each of its levels."""
    return skill_domains("instructions", SKILLS)


FAMILY = Family(
    name="instructions",
    domains=domains,
    about=(
        "Write a short text about given things that fulfils conditions which a program can check: numbers of words, "
        "sentences, lines and letters, forbidden and required words, lists, headings, tables, JSON, quotation marks, "
        "and many more, one kind to a skill, or several at once in `composed`. The answer is worth 1 where every "
        "condition holds and else 0; the rules of counting stand in the prompt. `conflicts`, `conflicts_or_none` and "
        "`violations` ask which conditions exclude each other or are broken. It trains literal attention to what was "
        "asked. The kinds follow the idea of IFEval (arXiv:2311.07911) and IFBench; the code and the texts are our "
        "own. Trap: each text must also have varied words, bounded length and its topic words, but nothing here judges "
        "sense or style, so mix it with tasks that do."
    ),
)
