"""Rush Hour: what a move may do, and solutions that are as short as can be."""

import pytest

from envs.families.rush_hour import is_free, read_board, solution, solves

# Row by row; the red car A in the third row, B in its way, C below B.
BLOCKED = "ooooooooooooAAoBoooooBoooooCCooooooo"
FREE = "ooooooooooooAAoooooooooooooooooooooo"
WALLED = "oooxoooooBooAAoBoooooxoooooooooooooo"


def test_the_shortest_solution() -> None:
    assert solution(FREE) == "A+4"
    assert solution(BLOCKED) == "B-2 A+4"
    assert not is_free(read_board(BLOCKED), read_board(BLOCKED).start)


def test_a_board_without_solution_says_so() -> None:
    with pytest.raises(ValueError, match="cannot be freed"):
        solution(WALLED)
    with pytest.raises(ValueError, match="36 cells, not 3"):
        read_board("AAo")


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("B-2 A+4", True),
        ("B-1 B-1 A+4", True),
        (" B-2\nA+1 A+3 ", True),
        ("A+4", False),  # through B
        ("A+4 B-2 A+4", False),  # an illegal move is not skipped
        ("B-2 A+5", False),  # off the board
        ("B-2 A+4 A-1", False),  # free, and back again
        ("B+1 A+4", False),  # C is in the way
        ("B-2, A+4", False),
        ("B-2 A+4 now", False),
        ("Z+1 B-2 A+4", False),
        ("B-2", False),
        ("", False),
        ("C+1 C-1 " * 100 + "B-2 A+4", False),  # too many moves
    ],
)
def test_only_legal_moves_that_free_the_car_count(answer: str, right: bool) -> None:
    assert solves(BLOCKED, answer) is right
