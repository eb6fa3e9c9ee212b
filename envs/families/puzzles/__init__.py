"""Interactive logic puzzles: the sound ones of chuk-puzzles-gym 0.10.3.

In: an index.  Out: multi-turn tasks without tools.  Listed in `envs.families`; the library is imported when the first
task is made.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.puzzles import fill, hidden, marks, moves
from envs.talk import Game, game_domains

GAMES: list[Game] = [*fill.GAMES, *marks.GAMES, *moves.GAMES, *hidden.GAMES]


def domains() -> list[Domain]:
    """Every puzzle at each of its levels."""
    return game_domains("puzzles", GAMES)


FAMILY = Family(name="puzzles", domains=domains)
