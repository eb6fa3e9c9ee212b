"""Puzzles: rules by hand (right, wrong, refused, hostile), and every domain's own promises."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from envs.demonstrate import run_policy_sync
from envs.families.puzzles import FAMILY, GAMES, domains
from envs.families.puzzles.assign import Colours, Knapsack, Letters, Scheduler, only_solution
from envs.families.puzzles.fill import (
    Binary,
    Fill,
    Fillomino,
    Futoshiki,
    Hidato,
    KenKen,
    Killer,
    Numberlink,
    Skyscrapers,
    Sudoku,
    cage_holds,
    visible,
)
from envs.families.puzzles.frame import Puzzle, Refused, beside, numbers
from envs.families.puzzles.hidden import Mastermind, Mines, pegs
from envs.families.puzzles.houses import Houses, clue_of
from envs.families.puzzles.marks import Lights, Nonogram, Queens, Shikaku, Tents, runs
from envs.families.puzzles.moves import Bridges, RushHour, Sokoban, drive_out
from envs.types import Message

DOMAINS = {domain.name: domain for domain in domains()}
HOSTILE = (
    "",
    ";;;;" * 400,
    "place " + "9" * 1900,
    "place 1 1 \u0661",
    "place -1 1 1",
    "place 1 1 nan",
    "place 1 1 9**9**9",
    "[" * 1999,
    "place\x00 1 1 1",
    "set A " + "(" * 900,
)


def worth(puzzle: Puzzle, text: str) -> float:
    puzzle.act(text)
    return puzzle.value


def fill(kind: type[Fill], grid: list[list[Any]], solution: list[list[int]], **more: Any) -> Fill:
    return kind({"grid": grid, "solution": solution, "mistakes": 1, **more})


# ---- the frame -------------------------------------------------------------------------------------------------------


def test_budgets_and_refusals() -> None:
    facts: Mapping[str, Any] = {"grid": [[1, None], [None, 1]], "solution": [[1, 2], [2, 1]], "larger": []}
    play = Futoshiki({**facts, "commands": 5, "mistakes": 1})
    reply = play.act("place 1 1 2; place 1 2 2")
    assert "this cell is given" in reply.text and "Commands left: 3. Mistakes left: 0." in reply.text
    assert worth(play, "PLACE 2 1 2") == 1.0 and play.act("place 2 1 2").done and play.value == 1.0
    lost = Futoshiki({**facts, "commands": 5, "mistakes": 0})
    assert lost.act("place 1 2 1").done and worth(lost, "place 1 2 2; place 2 1 2") == 0.0
    short = Futoshiki({**facts, "commands": 2, "mistakes": 5})
    assert short.act("place 1 2 2; clear 1 2; place 1 2 2; place 2 1 2").done and short.value == 0.0
    assert Futoshiki({**facts, "commands": 2}).best() == "place 1 2 2; place 2 1 2"


def test_numbers_and_neighbours() -> None:
    assert numbers(["3", "10"], (1, 3), (0, 99)) == [3, 10]
    for words in (["0"], ["4"], ["x"], [], ["1", "1"], ["1" * 5000], ["\u0661"]):
        with pytest.raises(Refused):
            numbers(words, (1, 3))
    assert sorted(beside(0, 0, 2, 2)) == [(0, 1), (1, 0)] and len(beside(1, 1, 3, 3, diagonal=True)) == 8


# ---- grids -----------------------------------------------------------------------------------------------------------


def test_sudoku_and_killer_take_any_right_solution() -> None:
    base = [[(row * 3 + row // 3 + column) % 9 + 1 for column in range(9)] for row in range(9)]
    grid: list[list[Any]] = [list(row) for row in base]
    grid[0][0] = grid[0][1] = None
    play = fill(Sudoku, grid, base)
    assert "its box has a 3" in play.act("place 1 1 3").text
    assert worth(play, "place 1 1 1; place 1 2 2") == 1.0
    cage = {"cells": [[0, 0], [0, 1]], "sign": "", "target": 3}
    assert worth(fill(Killer, grid, base, cages=[cage]), "place 1 1 1; place 1 2 2") == 1.0
    assert worth(fill(Killer, grid, base, cages=[{**cage, "target": 4}]), "place 1 1 1; place 1 2 2") == 0.0


def test_cages() -> None:
    assert cage_holds([1, 2, 3], "+", 6) and cage_holds([2, 3], "*", 6) and cage_holds([2, 5], "-", 3)
    assert cage_holds([6, 2], "/", 3) and not cage_holds([5, 2], "/", 2) and not cage_holds([1, 2], "", 2)
    cages = [{"cells": [[0, 0], [0, 1]], "sign": "-", "target": 1}, {"cells": [[1, 0]], "sign": "", "target": 2}]
    empty: list[list[Any]] = [[None, None], [None, None]]
    right = "place 1 1 1; place 1 2 2; place 2 1 2; place 2 2 1"
    assert worth(fill(KenKen, empty, [[1, 2], [2, 1]], cages=cages), right) == 1.0
    wrong = "place 1 1 2; place 1 2 1; place 2 1 1; place 2 2 2"
    assert worth(fill(KenKen, empty, [[1, 2], [2, 1]], cages=cages), wrong) == 0.0


def test_futoshiki_and_skyscrapers() -> None:
    empty: list[list[Any]] = [[None, None], [None, None]]
    play = fill(Futoshiki, empty, [[1, 2], [2, 1]], larger=[[[0, 1], [0, 0]]])
    assert ". < ." in play.show()
    assert "a sign does not hold" in play.act("place 1 1 2; place 1 2 1").text
    assert visible([2, 1, 3]) == 2 and visible([3, 1, 2]) == 1
    clues = {"top": [2, 1], "bottom": [1, 2], "left": [2, 1], "right": [1, 2]}
    assert worth(fill(Skyscrapers, [[None, 2], [2, 1]], [[1, 2], [2, 1]], clues=clues), "place 1 1 1") == 1.0
    clues["top"] = [1, 1]
    assert worth(fill(Skyscrapers, [[None, 2], [2, 1]], [[1, 2], [2, 1]], clues=clues), "place 1 1 1") == 0.0


def test_binary_snake_regions_and_links() -> None:
    rows = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]]
    grid: list[list[Any]] = [list(row) for row in rows]
    grid[0][0] = None
    assert "too many" in fill(Binary, grid, rows).act("place 1 1 1").text
    assert worth(fill(Binary, grid, rows), "place 1 1 0") == 1.0
    snake: list[list[Any]] = [[1, 2], [None, None]]
    assert worth(fill(Hidato, snake, [[1, 2], [4, 3]]), "place 2 1 3; place 2 2 4") == 1.0  # diagonal steps count
    assert worth(fill(Hidato, [[1, None], [None, 4]], [[1, 2], [3, 4]]), "place 1 2 3; place 2 1 2") == 1.0
    long: list[list[Any]] = [[1, 2, None], [None, 4, 5], [6, 7, 8]]
    assert worth(fill(Hidato, long, long), "place 1 3 9; place 2 1 3") == 0.0  # 8 and 9 are apart
    assert worth(fill(Fillomino, [[3, None], [None, 1]], [[3, 3], [3, 1]]), "place 1 2 3; place 2 1 3") == 1.0
    assert worth(fill(Fillomino, [[3, None], [None, 1]], [[3, 3], [3, 1]]), "place 1 2 1; place 2 1 3") == 0.0
    links: list[list[Any]] = [[1, None, 1], [2, None, 2]]
    links = [[1, None, 1], [2, None, 2], [3, None, 3]]
    right, wrong = ("place 1 2 1; place 2 2 2; place 3 2 3", "place 1 2 1; place 2 2 1; place 3 2 3")
    assert worth(fill(Numberlink, links, links), right) == 1.0 and worth(fill(Numberlink, links, links), wrong) == 0.0


# ---- boards ----------------------------------------------------------------------------------------------------------


def test_tents() -> None:
    facts = {"size": 3, "given": [], "trees": [[0, 0], [2, 2]], "rows": [1, 0, 1], "columns": [0, 2, 0]}
    facts |= {"solution": [[0, 1], [2, 1]], "mistakes": 3}
    assert worth(Tents(facts), "tent 1 2; tent 3 2") == 1.0
    play = Tents(facts)
    reply = play.act("tent 1 1; tent 1 2; tent 2 3").text
    assert "there is a tree" in reply and "it touches a tent" in reply
    assert worth(Tents({**facts, "rows": [1, 1, 0]}), "tent 1 2; tent 3 2") == 0.0


def test_queens_nonogram_and_lights() -> None:
    facts = {"size": 4, "given": [[0, 1]], "solution": [[0, 1], [1, 3], [2, 0], [3, 2]], "mistakes": 1}
    assert worth(Queens(facts), "queen 2 4; queen 3 1; queen 4 3") == 1.0
    assert "attacks" in Queens(facts).act("queen 2 1").text and "given" in Queens(facts).act("clear 1 2").text
    assert runs([True, True, False, True]) == [2, 1] and runs([False]) == [0]
    picture = {"size": 2, "given": [], "rows": [[1], [1]], "columns": [[1], [1]], "solution": [[0, 0], [1, 1]]}
    assert worth(Nonogram(picture), "fill 1 2; fill 2 1") == 1.0  # another solution than the stored one
    assert worth(Nonogram(picture), "fill 1 1; fill 1 2") == 0.0
    lights = {"size": 2, "given": [[0, 0], [0, 1], [1, 0]], "solution": [[0, 0]]}
    assert worth(Lights(lights), "press 1 1") == 1.0 and worth(Lights(lights), "press 2 2") == 0.0
    play = Lights(lights)
    play.act("press 2 2")
    assert play.plan() == ["press 1 1", "press 2 2"]


def test_shikaku_and_bridges() -> None:
    facts = {"size": 2, "clues": [[0, 0, 2], [1, 1, 2]], "solution": [[0, 0, 0, 1], [1, 0, 1, 1]], "mistakes": 3}
    assert worth(Shikaku(facts), "rect 1 1 1 2; rect 2 1 2 2") == 1.0
    assert worth(Shikaku(facts), "rect 1 1 2 1; rect 1 2 2 2") == 1.0
    reply = Shikaku(facts).act("rect 1 1 2 2; rect 1 1 1 1; rect 2 2 1 1").text
    assert "2 numbers" in reply and "1 cells, not 2" in reply and "0 numbers" in reply
    islands = {"size": 3, "islands": [[0, 0, 1], [0, 2, 2], [2, 2, 1]], "solution": [], "mistakes": 3}
    assert worth(Bridges(islands), "bridge 1 1 1 3 1; bridge 3 3 1 3 1") == 1.0
    apart = {**islands, "islands": [[0, 0, 1], [0, 2, 1], [2, 0, 1], [2, 2, 1]]}
    assert worth(Bridges(apart), "bridge 1 1 1 3 1; bridge 3 1 3 3 1") == 0.0  # two groups
    cross = {**islands, "islands": [[0, 1, 1], [1, 0, 1], [1, 2, 1], [2, 1, 1]]}
    assert "crosses" in Bridges(cross).act("bridge 1 2 3 2 1; bridge 2 1 2 3 1").text


def test_sokoban_and_rush_hour() -> None:
    facts = {"size": 5, "boxes": [[2, 2]], "goals": [[2, 3]], "player": [2, 1], "solution": ["right"], "mistakes": 3}
    assert worth(Sokoban(facts), "right") == 1.0
    assert "#@$o#" in Sokoban(facts).show() and "there is a wall" in Sokoban(facts).act("left").text
    assert "cannot move" in Sokoban({**facts, "goals": [[1, 1]]}).act("right; right").text
    cars = [["X", 0, 0, 2, True], ["A", 0, 2, 2, False]]
    assert drive_out(4, cars) == ["move A down", "move X right", "move X right"]
    assert drive_out(3, [["X", 0, 0, 2, True], ["A", 0, 2, 3, False]]) is None
    jam = {"size": 4, "cars": cars, "solution": [], "mistakes": 3}
    assert worth(RushHour(jam), "move a down; move x right; move X right") == 1.0
    assert RushHour(jam).act("move X right; move X up; move B up").text.count("'") == 6


# ---- hidden ----------------------------------------------------------------------------------------------------------


def test_mastermind() -> None:
    assert pegs([1, 1, 2], [1, 2, 3]) == (1, 1) and pegs([2, 1], [1, 2]) == (0, 2) and pegs([3, 3], [1, 3]) == (1, 0)
    play = Mastermind({"code": [1, 3], "colours": 3, "first": [3, 3], "commands": 9})
    assert "3 3: 1 in place, 0 elsewhere" in play.opening() and play.best() == "guess 1 3"
    assert worth(play, "guess 2 3") == 0.0 and worth(play, "guess 1 3") == 1.0


def test_mines() -> None:
    facts = {"size": 3, "mines": [[0, 0]], "first": [2, 2], "order": [], "mistakes": 1}
    assert Mines(facts).solved()  # the first cell opens all others
    facts = {"size": 3, "mines": [[0, 0], [1, 1]], "first": [2, 0], "order": ["open 3 3"]}
    assert Mines(facts).act("open 1 1").done and worth(Mines({**facts, "first": [1, 2]}), "open 2 2") == 0.0
    rest = "open 1 2; open 1 3; open 2 1; open 2 3; open 3 2; open 3 3"
    assert worth(Mines(facts), rest) == 1.0


# ---- choices ---------------------------------------------------------------------------------------------------------


def test_knapsack_and_timetable() -> None:
    facts = {"items": [[3, 9], [2, 5], [2, 5]], "capacity": 4, "best": 10, "solution": [1, 2], "mistakes": 2}
    assert worth(Knapsack(facts), "take 2; take 3") == 1.0 and worth(Knapsack(facts), "take 1") == 0.0
    assert "too heavy" in Knapsack(facts).act("take 1; take 2").text
    table = {"durations": [2, 3, 1], "after": [[0, 1]], "workers": 2, "limit": 5, "solution": [], "mistakes": 9}
    assert worth(Scheduler(table), "assign 1 1 0; assign 2 2 2; assign 3 1 4") == 1.0
    reply = Scheduler(table).act("assign 2 1 2; assign 1 1 1; assign 2 1 2; assign 2 1 3; assign 3 1 2; drop 3").text
    assert "must be finished" in reply and "after the limit" in reply and "does task 1" in reply
    play = Scheduler(table)
    assert "one that comes after" in play.act("assign 1 1 0; assign 2 2 2; drop 1").text


def test_colours_and_letters() -> None:
    facts = {"colours": 2, "edges": [[1, 2]], "given": [[1, 2]], "solution": [2, 1], "mistakes": 3}
    assert worth(Colours(facts), "color 2 1") == 1.0
    assert "a neighbour" in Colours(facts).act("colour 2 2").text and "given" in Colours(facts).act("clear 1").text
    assert only_solution(["A", "B", "C", "D", "E", "F"], {"A", "C", "E"}, ["AB", "CD"], "EF") is None
    letters = sorted(set("SENDMOREY"))
    found = only_solution(letters, {"S", "M"}, ["SEND", "MORE"], "MONEY")
    assert found == {"D": 7, "E": 5, "M": 1, "N": 6, "O": 0, "R": 8, "S": 9, "Y": 2}
    given = {letter: found[letter] for letter in "DEMNOR"}
    send = {"words": ["SEND", "MORE", "MONEY"], "given": given, "solution": found, "mistakes": 3}
    assert worth(Letters(send), "set S 9; set y 2") == 1.0 and worth(Letters(send), "set S 2; set Y 9") == 0.0
    assert (
        "has this digit" in Letters(send).act("set S 8").text and "no such letter" in Letters(send).act("set D 1").text
    )


def test_five_houses() -> None:
    assert clue_of("1. The Norwegian lives in house 3") == ["at", "nationality", "norwegian", 2]
    assert clue_of("3. The Danish drinks Tea") == ["same", "nationality", "danish", "drink", "tea"]
    assert clue_of("9. The Red house is next to the Blue house") == ["next", "color", "red", "color", "blue"]
    kinds = ("color", "nationality", "drink", "smoke", "pet")
    solution = [{kind: f"{kind}{house}" for kind in kinds} for house in range(2)]
    facts = {
        "clues": [["same", "color", "color0", "pet", "pet0"], ["next", "color", "color0", "color", "color1"]],
        "texts": [],
        "given": [[house, kind] for house in range(2) for kind in kinds if kind != "pet"],
        "solution": solution,
        "values": {kind: [f"{kind}0", f"{kind}1"] for kind in kinds},
    }
    assert worth(Houses(facts), "set 1 pet pet0; set 2 pet pet1") == 1.0
    assert worth(Houses(facts), "set 1 pet pet1; set 2 pet pet0") == 0.0


# ---- all domains -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_gold_nonsense_and_plain_text(name: str) -> None:
    domain = DOMAINS[name]
    task = domain.task(0)
    assert task == domain.task(0)
    trajectory = run_policy_sync(domain, task, domain.gold)
    assert domain.score(task, trajectory).value == 1.0 and len(trajectory.turns) <= 20
    text = "\n".join(message.text for message in (*task.prompt, *trajectory.messages))
    assert text.isascii() and "\t" not in text
    if name.endswith("-easy"):
        limit = 1300 if "five_houses" in name else 950
        assert len(task.prompt[0].text) <= limit
    start = next(
        game for game in GAMES if name in (f"puzzles/{game.name}{end}" for end in ("", "-easy", "-hard"))
    ).start
    for hostile in (*HOSTILE, task.prompt[0].text[:2000]):
        play = start(task.metadata)
        for _ in range(3):
            play.act(hostile)
        assert play.value == 0.0


def test_a_solution_in_reverse_or_in_part_does_not_win() -> None:
    """What the reward hangs on: all of a solution, whatever the order."""
    for name in ("puzzles/sudoku-easy", "puzzles/bridges", "puzzles/map_colours-hard", "puzzles/fillomino"):
        domain = DOMAINS[name]
        task = domain.task(3)
        commands = task.reference.split("; ")
        random.Random(1).shuffle(commands)

        def say(text: str, domain: Any = domain, task: Any = task) -> float | None:
            trajectory = run_policy_sync(domain, task, lambda *_: Message.of("assistant", f"<answer>{text}</answer>"))
            return domain.score(task, trajectory).value

        assert say("; ".join(commands)) == 1.0 and say("; ".join(commands[1:])) == 0.0


def test_ids_and_names() -> None:
    assert len({(domain.generator_id, domain.verifier_id) for domain in DOMAINS.values()}) == len(GAMES)
    assert FAMILY.excluded.keys() >= {"kakuro", "slitherlink"} and len(DOMAINS) == 3 * len(GAMES)
