"""Games turn by turn: puzzles, searches for something hidden, and duels with an opponent.

In: an index.  Out: multi-turn tasks without tools, at three levels for each game.  Listed in `envs.families`.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.games import (
    boards,
    deducing,
    duelling,
    gathering,
    moving,
    planning,
    searching,
    stacking,
    tiles,
    timing,
    walking,
    weighing,
)
from envs.talk import Game, game_domains

_MODULES = (
    moving,
    walking,
    stacking,
    tiles,
    planning,
    gathering,
    timing,
    searching,
    deducing,
    weighing,
    duelling,
    boards,
)
GAMES: list[Game] = [one for module in (*_SEEN, *_HIDDEN, *_DUELS) for one in module.GAMES]


def domains() -> list[Domain]:
    """Every game at each of its levels."""
    return game_domains("games", GAMES)


FAMILY = Family(
    name="games",
    domains=domains,
    about="TODO",
)
