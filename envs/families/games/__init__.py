"""Games turn by turn: puzzles, searches for something hidden, and duels with an opponent.

In: an index.  Out: multi-turn tasks without tools, at three levels for each game.  Listed in `envs.families`.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.games import (
    boards,
    borders,
    deducing,
    duelling,
    gathering,
    moving,
    planning,
    probing,
    searching,
    stacking,
    tiles,
    timing,
    walking,
    weighing,
)
from envs.talk import Game, game_domains

_SEEN = (moving, walking, stacking, tiles, planning, gathering, timing)
_HIDDEN = (searching, deducing, weighing, probing)
_DUELS = (duelling, boards, borders)
GAMES: list[Game] = [one for module in (*_SEEN, *_HIDDEN, *_DUELS) for one in module.GAMES]


def domains() -> list[Domain]:
    """Every game at each of its levels."""
    return game_domains("games", GAMES)


FAMILY = Family(
    name="games",
    domains=domains,
    about=(
        "Games in plain text, one command a message; each reply shows the new position. There are puzzles in which "
        "everything is seen, searches for something hidden, and duels with a scripted opponent from positions that "
        "can be won by force. An episode is worth 1 where the goal is reached in time, else 0: the rules state how "
        "many messages there are (few more than the best play needs), and the third command that is not allowed "
        "loses. It trains planning ahead, keeping track of a state, choosing questions that tell most, and not giving "
        "a won position away. All rules and texts are our own. Traps: at the easy level the opponent of a duel "
        "overlooks moves, and a player at random wins up to half of them; prompts of searches differ by a number only, "
        "since nothing that is hidden may show in them."
    ),
)
