"""Games turn by turn: plays by hand, what counts as a fault, and players who must not win."""

from __future__ import annotations

import random

import pytest

from envs.demonstrate import run_policy_sync
from envs.domain import Domain
from envs.families.games import GAMES, domains
from envs.families.games.planning import Jugs
from envs.families.games.searching import Number
from envs.families.games.stacking import Hanoi
from envs.talk import Game

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in domains()}
RANDOM_GAMES, MOST_RANDOM_WINS = 30, 0.35


def test_a_number_is_found_by_halves_and_not_by_counting() -> None:
    facts = {"most": 7, "secret": 6, "limit": 3}
    play = Number(facts)
    assert [play.act(guess).text.splitlines()[0] for guess in ("4", "6")] == ["The number is higher than 4.", "Right."]
    assert play.value == 1.0
    counting = Number(facts)
    assert [counting.act(guess).done for guess in ("1", "2", "3")] == [False, False, True]
    assert counting.value == 0.0


def test_jugs_of_three_and_five_measure_four() -> None:
    facts = {"sizes": [3, 5], "held": [0, 0], "wanted": 4, "limit": 8, "plan": []}
    play = Jugs(facts)
    replies = [play.act(c) for c in ("fill b", "POUR B A", "empty a.", "pour b a", "fill B", "Pour B A")]
    assert [reply.done for reply in replies] == [False] * 5 + [True] and play.value == 1.0
    assert replies[1].text.startswith("A: 3 of 3 litres\nB: 2 of 5 litres")


def test_a_disk_never_lies_on_a_smaller_one() -> None:
    facts = {"pegs": [[2, 1], [], []], "wanted": [[], [], [2, 1]], "limit": 9, "plan": ["A B", "A C", "B C"]}
    play = Hanoi(facts)
    assert not play.act("A B").done
    assert play.act("A B").text.startswith("Not allowed")  # 2 onto 1
    assert not play.act("A C").done
    assert play.act("B C").done and play.value == 1.0


@pytest.mark.parametrize("words", ["", "FLY", "A", "9" * 5000, "\x00", "A B C D", "(" * 3000])
def test_words_that_are_no_move_are_told_counted_and_end_the_game(words: str) -> None:
    play = Hanoi({"pegs": [[1], [], []], "wanted": [[], [1], []], "limit": 20, "plan": ["A B"]})
    replies = []
    while not play.over:
        replies.append(play.act(words))
    assert play.value == 0.0 and len(replies) < 20
    assert all(reply.text.startswith("Not allowed") for reply in replies)


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_a_random_legal_player_seldom_wins(game: Game) -> None:
    """At the medium level, over 30 tasks; the gold wins each of them."""
    domain = DOMAINS[f"games/{game.name}"]
    wins = 0.0
    for index in range(RANDOM_GAMES):
        play = game.start(domain.task(index).metadata)
        rng = random.Random(index)
        for _ in range(domain.max_turns):
            if play.act(rng.choice(play.legal() or ["NONE"])).done:  # type: ignore[attr-defined]
                break
        wins += play.value
    assert wins / RANDOM_GAMES <= MOST_RANDOM_WINS
    task = domain.task(0)
    assert domain.score(task, run_policy_sync(domain, task, domain.gold)).value == 1.0
