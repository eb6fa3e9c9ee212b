"""Games of textarena: moves and policies by hand, isolation of chance, opponents by seed, and what is not imported."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

from envs.base import EnvironmentFailure
from envs.check import check_domains
from envs.demonstrate import run_policy_sync
from envs.families.arena import GAMES, boards, deals, domains
from envs.families.arena.table import Spec, Stream, Table, bracketed, library_class, plain
from train.compose import _check_installed

DOMAINS = {domain.name: domain for domain in domains()}
LEVELS = ("easy", "medium", "hard")
here = pytest.mark.skipif(
    bool(next(iter(DOMAINS.values())).not_installed), reason="textarena is not installed (the extra `games`)"
)
HOSTILE = (
    "",
    "[",
    "[]" * 900,
    "[" + "9" * 1900 + "]",
    "[\u0661]",
    "[99999999999999999999]",
    "[-1]",
    "[0 0",
    "\x00[4]\x00",
)


def spec_of(name: str) -> Spec:
    game = next(game for game in GAMES if game.name == name)
    return game.start.args[0]  # type: ignore[attr-defined]


def table_of(name: str, opening: list[str] | None = None, player: int = 0, looks: int = 0, **settings: Any) -> Table:
    facts = {"seed": 5, "settings": settings, "looks": looks, "opening": opening or [], "player": player}
    return Table(spec_of(name), facts)


# ---- without the library ---------------------------------------------------------------------------------------------


def test_listing_imports_nothing() -> None:
    code = (
        "import sys; from envs.families import all_domains; all_domains(); "
        "print([name for name in ('textarena', 'nltk', 'chess') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = DOMAINS["arena/nim"]
    monkeypatch.setattr("envs.domain.importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("envs.families.arena.table.importlib.import_module", _no_module)
    assert domain.not_installed == "arena/nim needs textarena: pip install 'jointrl[games]'"
    with pytest.raises(EnvironmentFailure, match=r"jointrl\[games\]"):
        domain.task(0)
    (check,) = check_domains({domain.name: domain}, 2)
    assert check.is_good and not check.tasks and "left out" in check.warnings[0]
    with pytest.raises(ValueError, match=r"jointrl\[games\]"):
        _check_installed([domain])
    _check_installed([])


def _no_module(name: str) -> Any:
    raise ImportError(name)


def test_brackets_and_plain_text() -> None:
    assert bracketed("I think [1 2] or [3 4]") == "[3 4]" and bracketed("col 3") == "[col 3]"
    assert bracketed("x" * 100) == "" and bracketed("[]") == "[[]]" and bracketed("é") == ""
    assert plain("**●** – x  \n") == "* - x"


def test_stream_leaves_the_global_one_alone() -> None:
    random.seed(1)
    before = random.getstate()
    stream, again = Stream(3), Stream(3)
    drawn = []
    for source in (stream, stream, again, again):
        with source.in_place():
            drawn.append(random.random())
    assert drawn[0] == drawn[2] and drawn[1] == drawn[3] and drawn[0] != drawn[1] and random.getstate() == before


# ---- games by hand ---------------------------------------------------------------------------------------------------


@here
def test_tic_tac_toe_by_hand() -> None:
    opening = ["[0]", "[3]", "[1]", "[4]"]
    assert table_of("tic_tac_toe", opening).best() == "[2]"
    table = table_of("tic_tac_toe", opening)
    assert table.act("I take [2]").done and table.value == 1.0 and table.act("[5]").done and table.value == 1.0
    lost = table_of("tic_tac_toe", opening, looks=0)
    assert lost.act("[8]").done and lost.value == 0.0  # the opponent takes its win
    twice = table_of("tic_tac_toe", opening)
    assert "occupied" in twice.act("[0]").text and twice.act("[0]").done and twice.value == 0.0
    assert boards.wild_moves(table_of("wild_tic_tac_toe", ["[X 0]", "[O 8]"]).env)[:2] == ["[X 1]", "[O 1]"]


@here
def test_nim_and_connect_four_by_hand() -> None:
    table = table_of("nim", piles=[3, 4, 5])
    assert table.best() == "[0 2]"
    assert boards.nim_moves(table_of("nim", piles=[1, 0, 2]).env) == ["[0 1]", "[2 1]", "[2 2]"]
    last = table_of("nim", piles=[0, 2])
    assert last.act("[1 2]").done and last.value == 1.0
    four = table_of("connect_four", ["[0]", "[6]", "[0]", "[6]", "[0]", "[6]"])
    assert four.best() == "[col 0]" and four.act("0").done and four.value == 1.0
    blocked = table_of("connect_four", ["[0]", "[6]", "[0]", "[6]", "[0]", "[5]"], looks=1)
    blocked.act("[col 3]")
    assert boards.board_of(blocked.env)[2][0] == "O"


@here
def test_tak_othello_breakthrough_and_chopsticks_by_hand() -> None:
    tak = table_of("simple_tak", ["[0]", "[3]", "[4]", "[7]", "[8]", "[11]"], board_size=4)
    assert boards.tak_steps(tak.env, "O") == 1 and tak.best() == "[12]"
    assert tak.act("[12]").done and tak.value == 1.0
    assert boards.othello_moves(table_of("othello", board_size=6).env) == ["[1, 2]", "[2, 1]", "[3, 4]", "[4, 3]"]
    run = table_of("breakthrough", board_size=5)
    assert boards.breakthrough_moves(run.env) == [f"[{column}2{column}3]" for column in "abcde"]
    sticks = table_of("chopsticks")
    assert boards.chopsticks_moves(sticks.env) == [
        "[attack 0 0]",
        "[attack 0 1]",
        "[attack 1 0]",
        "[attack 1 1]",
        "[split 0 2]",
        "[split 2 0]",
    ]
    assert boards.completes(["O", "O", " "] + [" "] * 6, 2, "O") and not boards.completes([" "] * 9, 2, "O")


@here
def test_dice_and_bids_by_hand() -> None:
    pig = table_of("pig_dice", winning_score=25, max_turns=200)
    assert pig.best() == "[roll]" and deals.pig_moves(pig.env) == ["[roll]", "[hold]"]
    dice = table_of("liars_dice", num_dice=2)
    assert "[Call]" not in deals.liar_moves(dice.env) and dice.best().startswith("[Bid: ")
    bids = table_of("pure_strategy", player=1)
    prize = deals.state_of(bids.env)["current_prize"]
    assert bids.best() == (f"[{deals.FACES.get(prize + 1, prize + 1)}]" if prize < 13 else "[A]")


@here
def test_games_for_one_by_hand() -> None:
    tower = table_of("tower_of_hanoi", num_disks=3, max_turns=9)
    while not tower.over:
        tower.act(tower.best())
    assert tower.value == 1.0
    lake = table_of("frozen_lake", size=4, num_holes=5)
    for _ in range(6):
        lake.act(lake.best())
    assert lake.over and lake.value == 1.0
    number = table_of("guess_the_number", min_number=1, max_number=20, max_turns=3)
    assert number.best() == "[10]"
    for wrong in ("[20]", "[19]", "[18]"):
        number.act(wrong)
    assert number.over and number.value == float(number.env.game_number in (18, 19, 20))
    peg = table_of("peg_jump", initial_empty=1)
    assert sorted(deals.peg_moves(peg.env)) == ["[4 1]", "[6 1]"]


# ---- all domains -----------------------------------------------------------------------------------------------------


@here
@pytest.mark.parametrize("name", [name for name in sorted(DOMAINS) if name.endswith("-easy")])
def test_gold_and_nonsense(name: str) -> None:
    domain = DOMAINS[name]
    before = random.getstate()
    task = domain.task(1)
    trajectory = run_policy_sync(domain, task, domain.gold)
    assert domain.score(task, trajectory).value == 1.0 and random.getstate() == before
    text = "\n".join(message.text for message in (*task.prompt, *trajectory.messages))
    assert text.isascii() and "\t" not in text
    spec = spec_of(name.removeprefix("arena/").removesuffix("-easy"))
    for hostile in (*HOSTILE, task.prompt[-1].text):
        table = Table(spec, task.metadata)
        for _ in range(3):
            table.act(hostile)
        assert table.value < 1.0
    assert "chess" not in sys.modules


@here
def test_library_classes_and_ids() -> None:
    assert library_class("Nim:NimEnv").__name__ == "NimEnv"
    with pytest.raises(EnvironmentFailure):
        library_class("NoSuchGame:Env")
    assert len({(domain.generator_id, domain.verifier_id) for domain in DOMAINS.values()}) == len(GAMES)
