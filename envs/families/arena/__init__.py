"""Games of textarena."""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.arena import boards, deals
from envs.talk import Game, game_domains

GAMES: list[Game] = [*boards.GAMES, *deals.GAMES]


def domains() -> list[Domain]:
    """Every game at each of its levels."""
    return game_domains("arena", GAMES)


FAMILY = Family(name="arena", domains=domains)
