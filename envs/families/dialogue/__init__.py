"""Conversations with a scripted partner, where the right thing to say follows from stated rules and facts.

In: an index.  Out: multi-turn tasks without tools, at three levels for each game.  Listed in `envs.families`.
"""

from __future__ import annotations

from envs.domain import Domain, Family
from envs.families.dialogue import knowledge, planning, protocols, service
from envs.talk import Game, game_domains

GAMES: list[Game] = [*service.GAMES, *knowledge.GAMES, *planning.GAMES, *protocols.GAMES]


def domains() -> list[Domain]:
    """Every game at each of its levels."""
    return game_domains("dialogue", GAMES)


FAMILY = Family(
    name="dialogue",
    domains=domains,
    about=(
        "The model holds one side of a conversation by stated rules and facts, and says in each message one command of "
        "a compact format. The other side is scripted and speaks in plain sentences, from which the facts must be "
        "read: it leaves things out, corrects itself, changes its mind, insists, and asks for what it may not get. An "
        "episode is worth 1 where every command was right, and ends at the first wrong, needless or missing one. It "
        "trains asking for exactly what is missing, refusing and complying by rule, confirming, keeping secrets, "
        "tracking a state over turns, and stopping in time. All rules, people and sentences are our own. Trap: the "
        "reward is for the whole conversation, so long ones at the hard level are seldom won by a weak model."
    ),
)
