"""Games of textarena 0.7.4: for one, and against an opponent of ours.  In the extra `games`.

In: an index.  Out: multi-turn tasks without tools.  Listed in `envs.families`, installed or not; the library is
imported when the first task is made.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.arena import boards, deals
from envs.talk import Game, game_domains

GAMES: list[Game] = [*boards.GAMES, *deals.GAMES]


def domains() -> list[Domain]:
    """Every game at each of its levels."""
    return game_domains("arena", GAMES)


FAMILY = Family(
    name="arena",
    domains=domains,
    about=(
        "Board games, dice and bids against an opponent, and a few games for one: a move a message, in the notation "
        "of textarena 0.7.4 (MIT), whose rules are the environment. It needs the extra `games` (pip install "
        "'jointrl[games]'). The opponents are ours, the stronger the harder the level: random moves in part, such as "
        "take a win at once, or such as also prevent one. They follow from the task's seed, and only deals are kept "
        "that a reference policy wins and that neither one move said over and over nor random moves win often; so "
        "the gold policy always wins. A win is worth 1, a draw one half. It trains planning against somebody else's "
        "plans, and reading boards. Trap: the library installs chess (GPL), which is never imported here."
    ),
    excluded={
        "chess": "it needs the GPL package chess, and Python 3.12",
        "fifteen_puzzle": "half of the library's boards have no solution, and its code fails when one is solved",
        "kuhn_poker": "luck decides: random moves win about as often as careful ones",
        "crosswords": "it needs word lists that nltk downloads, as do hangman, wordle, word_ladder and others",
        "mastermind": "see puzzles/mastermind; so are lights_out, minesweeper, rush_hour, slitherlink, sokoban, sudoku",
        "negotiation": "its value lies in what another language model says, as in taboo, debate and the other talks",
        "textworld": "not built yet: another library, of 242 MB, and 3 to 7 seconds to make a game",
        "reverse_tic_tac_toe": "the library's code needs Python 3.12, as do checkers and klondike",
    },
)
