"""Interactive logic puzzles: the sound ones of chuk-puzzles-gym 0.10.3.

In: an index.  Out: multi-turn tasks without tools.  Listed in `envs.families`; the library is imported when the first
task is made.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.puzzles import assign, fill, hidden, houses, marks, moves
from envs.talk import Game, game_domains

GAMES: list[Game] = [*fill.GAMES, *marks.GAMES, *moves.GAMES, *hidden.GAMES, *assign.GAMES, *houses.GAMES]


def domains() -> list[Domain]:
    """Every puzzle at each of its levels."""
    return game_domains("puzzles", GAMES)


FAMILY = Family(
    name="puzzles",
    domains=domains,
    about=(
        "Logic puzzles that are played: the model writes a few commands a message, sees the position, and may take "
        "back what was wrong. A command that breaks a rule at once is refused and counts as a mistake; commands and "
        "mistakes are limited, and an episode is worth 1 where the puzzle is solved, else 0. It trains deduction with "
        "constraints, search with a position to keep, and reading refusals. Puzzles and their solutions come from the "
        "generators of chuk-puzzles-gym 0.10.3 (MIT); the rules are judged by our own code, so that every right "
        "solution counts, where the library often takes only the one that it has stored. Trap: the 9x9 grids of the "
        "hard level take dozens of commands, and so a long context."
    ),
    excluded={
        "hitori": "the library's generator falls back on one fixed board, always but for some at the easy level",
        "kakuro": "the library's sums across do not belong to its solution, and many boards have none",
        "logic": "its clues do not decide, are worded wrongly (drinks Red), and are puzzles/five_houses in small",
        "nurikabe": "the library's islands do not depend on the seed: one board a level",
        "slitherlink": "the library's loop is always the border of the board",
        "star_battle": "the library's boards have no clues and fixed regions: one task a level",
    },
)
