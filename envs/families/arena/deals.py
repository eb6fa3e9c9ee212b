"""Games with dice, hidden cards and secret bids, and games for one.

In: a game of the library.  Out: its legal moves and a reference policy; `GAMES` is listed by the family.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from envs.families.arena.table import Spec, arena_game

LEVELS = ("easy", "medium", "hard")
FACES = {1: "A", 11: "J", 12: "Q", 13: "K"}


def state_of(env: Any) -> Any:
    return env.state.game_state


# ---- pig -------------------------------------------------------------------------------------------------------------


def pig_moves(env: Any) -> list[str]:
    return ["[roll]", "[hold]"]


def pig_best(env: Any, player: int) -> str:
    """Hold when that wins, or at ten points; the game is too short to hold at twenty."""
    total = state_of(env)["turn_total"]
    score = state_of(env)["scores"][player]
    return "[hold]" if total >= 10 or (total and score + total >= env.winning_score) else "[roll]"


def pig_other(env: Any, player: int, rng: random.Random, looks: int) -> str:
    """Holds after a point or two, at eight, or plays like the reference."""
    total = state_of(env)["turn_total"]
    if looks > 0:
        return pig_best(env, player)
    return "[hold]" if total >= (4 if looks < 0 else 8) else "[roll]"


# ---- dice under a cup ------------------------------------------------------------------------------------------------


def liar_moves(env: Any) -> list[str]:
    """Call, or one of the next higher bids."""
    bid = state_of(env)["current_bid"]
    count, face = bid["quantity"], bid["face_value"]
    most = sum(state_of(env)["remaining_dice"].values())
    bids = [(count, higher) for higher in range(face + 1, 7) if count]
    bids += [(count + 1, same) for same in range(max(face, 1), 7)]
    found = [f"[Bid: {count}, {face}]" for count, face in bids if count <= most]
    return found + (["[Call]"] if count else [])


def liar_best(env: Any, player: int) -> str:
    """Call a bid above what is to be expected, else the bid that own dice bear out best."""
    game = state_of(env)
    own = game["dice_rolls"][player]
    others = sum(game["remaining_dice"].values()) - len(own)
    bid = game["current_bid"]
    if bid["quantity"] > own.count(bid["face_value"]) + others / 3:
        return "[Call]"
    bids = [move for move in liar_moves(env) if move != "[Call]"]
    if not bids:
        return "[Call]"

    def spare(move: str) -> float:
        count, face = (int(word) for word in move[6:-1].split(","))
        return own.count(face) + others / 6 - count

    return max(bids, key=spare)


def liar_other(env: Any, player: int, rng: random.Random, looks: int) -> str:
    return liar_best(env, player) if rng.random() < (0.2, 0.6, 1.0)[looks + 1] else rng.choice(liar_moves(env))


# ---- secret bids -----------------------------------------------------------------------------------------------------


def bid_moves(env: Any) -> list[str]:
    hand = state_of(env)["player_hands"][env.state.current_player_id]
    return [f"[{FACES.get(card, card)}]" for card in hand]


def bid_best(env: Any, player: int) -> str:
    """A card just above the prize, while there is one; for the dearest prizes, the lowest card."""
    hand, prize = sorted(state_of(env)["player_hands"][player]), state_of(env)["current_prize"]
    above = [card for card in hand if card > prize]
    card = hand[0] if prize >= 13 or not above else above[0]
    return f"[{FACES.get(card, card)}]"


def bid_other(env: Any, player: int, rng: random.Random, looks: int) -> str:
    """Any card, one near the prize, or the prize itself."""
    hand, prize = state_of(env)["player_hands"][player], state_of(env)["current_prize"]
    wide = (13, 3, 0)[looks + 1]
    near = [card for card in hand if abs(card - prize) <= wide] or [min(hand, key=lambda card: abs(card - prize))]
    card = rng.choice(near)
    return f"[{FACES.get(card, card)}]"


# ---- games for one ---------------------------------------------------------------------------------------------------

WAYS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def lake_moves(env: Any) -> list[str]:
    return [f"[{way}]" for way in WAYS]


def lake_best(env: Any, player: int) -> str:
    """The first step of a shortest way around the holes."""
    game = state_of(env)
    start = tuple(game["player_pos"])
    todo: deque[tuple[tuple[int, ...], str]] = deque([(start, "")])
    seen = {start}
    while todo:
        (row, column), first = todo.popleft()
        if (row, column) == tuple(game["goal_pos"]):
            return f"[{first}]"
        for way, (down, right) in WAYS.items():
            near = (row + down, column + right)
            inside = 0 <= near[0] < env.size and 0 <= near[1] < env.size
            if inside and near not in seen and game["grid"][near[0]][near[1]] != "H":
                seen.add(near)
                todo.append((near, first or way))
    return "[up]"


def lake_won(env: Any) -> bool:
    return tuple(state_of(env)["player_pos"]) == tuple(state_of(env)["goal_pos"])


def tower_moves(env: Any) -> list[str]:
    return [f"[{one} {two}]" for one in "ABC" for two in "ABC" if one != two]


def tower_prepare(env: Any, rng: random.Random) -> None:
    """Discs on any towers, in order of size; not all on the last."""
    towers: dict[str, list[int]] = {"A": [], "B": [], "C": []}
    while not (towers["A"] or towers["B"]):
        towers = {"A": [], "B": [], "C": []}
        for disc in range(env.num_disks, 0, -1):
            towers[rng.choice("ABC")].append(disc)
    state_of(env)["towers"] = towers
    board = f"Current Board: \n{env._render_board()}."
    seen = env.state.observations[0]
    seen[:] = [(who, board if kind.name == "GAME_BOARD" else text, kind) for who, text, kind in seen]


def tower_best(env: Any, player: int) -> str:
    """The largest disc that is not in its place goes next; what lies above it makes way first."""
    towers = state_of(env)["towers"]
    goal = "C"
    move = ""
    for disc in range(env.num_disks, 0, -1):
        at = next(name for name, discs in towers.items() if disc in discs)
        if at != goal:
            move = f"[{at} {goal}]"
            goal = next(name for name in "ABC" if name not in (at, goal))
    return move


def tower_won(env: Any) -> bool:
    return len(state_of(env)["towers"]["C"]) == env.num_disks


def peg_moves(env: Any) -> list[str]:
    board = state_of(env)["board"]
    return [f"[{a} {c}]" for a, b, c in env.ALLOWED_MOVES if board[a] and board[b] and not board[c]]


def peg_best(env: Any, player: int) -> str:
    """The first jump of a way to one peg, by search; any jump where there is none."""
    board = state_of(env)["board"]
    jumps = env.ALLOWED_MOVES
    dead: set[int] = set()

    def first(pegs: int) -> tuple[int, int] | None:
        if pegs & (pegs - 1) == 0:
            return (0, 0)
        for a, b, c in jumps:
            if pegs >> a & 1 and pegs >> b & 1 and not pegs >> c & 1:
                then = pegs ^ (1 << a) ^ (1 << b) ^ (1 << c)
                if then not in dead and first(then) is not None:
                    return (a, c)
        dead.add(pegs)
        return None

    found = first(sum(1 << hole for hole in range(1, 16) if board[hole]))
    return f"[{found[0]} {found[1]}]" if found else peg_moves(env)[0]


def peg_won(env: Any) -> bool:
    return sum(state_of(env)["board"]) == 1


def number_moves(env: Any) -> list[str]:
    return ["[1]"]


def number_best(env: Any, player: int) -> str:
    """The middle of what is left."""
    bounds = state_of(env)["guess_history"]
    low = max([env.min_number, *(guess + 1 for guess, hint in bounds if hint == "higher")])
    high = min([env.max_number, *(guess - 1 for guess, hint in bounds if hint == "lower")])
    return f"[{(low + high) // 2}]"


def number_won(env: Any) -> bool:
    return bool(env.state.done) and env.game_number in env.guessed_numbers


def by_level(*settings: dict[str, Any], **shared: Any) -> dict[str, dict[str, Any]]:
    return {level: {**shared, **own} for level, own in zip(LEVELS, settings, strict=True)}


def against(**shared: Any) -> dict[str, dict[str, Any]]:
    """Levels by the opponent's strength."""
    return {level: {"looks": looks, **shared} for level, looks in zip(LEVELS, (-1, 0, 1), strict=True)}


GAMES = [
    arena_game(
        Spec(
            name="pig_dice",
            path="PigDice:PigDiceEnv",
            moves=pig_moves,
            policy=pig_best,
            opponent=pig_other,
            example="[roll]",
        ),
        against(settings={"winning_score": 25, "max_turns": 200}, opening=[0, 1, 2, 3]),
        40,
    ),
    arena_game(
        Spec(
            name="liars_dice",
            path="LiarsDice:LiarsDiceEnv",
            moves=liar_moves,
            policy=liar_best,
            opponent=liar_other,
            example="[Bid: 2, 5]",
        ),
        by_level(
            {"looks": -1, "settings": {"num_dice": 2}},
            {"looks": 0, "settings": {"num_dice": 3}},
            {"looks": 1, "settings": {"num_dice": 5}},
        ),
        40,
    ),
    arena_game(
        Spec(
            name="pure_strategy",
            path="GameOfPureStrategy:GameOfPureStrategyEnv",
            moves=bid_moves,
            policy=bid_best,
            opponent=bid_other,
            example="[10]",
        ),
        against(opening=[2, 4]),
        14,
    ),
    arena_game(
        Spec(
            name="frozen_lake",
            path="FrozenLake:FrozenLakeEnv",
            moves=lake_moves,
            policy=lake_best,
            won=lake_won,
            players=1,
            example="[down]",
        ),
        by_level(
            {"settings": {"size": 4, "num_holes": 5}},
            {"settings": {"size": 6, "num_holes": 13}},
            {"settings": {"size": 8, "num_holes": 24}},
        ),
        32,
    ),
    arena_game(
        Spec(
            name="tower_of_hanoi",
            path="TowerOfHanoi:TowerOfHanoiEnv",
            moves=tower_moves,
            policy=tower_best,
            prepare=tower_prepare,
            won=tower_won,
            players=1,
            example="[A C]",
        ),
        by_level(
            {"settings": {"num_disks": 3, "max_turns": 12}},
            {"settings": {"num_disks": 4, "max_turns": 24}},
            {"settings": {"num_disks": 5, "max_turns": 44}},
        ),
        {"easy": 14, "medium": 26, "hard": 46},
    ),
    arena_game(
        Spec(
            name="peg_jump",
            path="PegJump:PegJumpEnv",
            moves=peg_moves,
            policy=peg_best,
            won=peg_won,
            players=1,
            example="[4 1]",
        ),
        by_level(
            {"opening": [7, 8, 9]},
            {"opening": [4, 5]},
            {"opening": [1, 2]},
            drawn={"initial_empty": list(range(1, 16))},
        ),
        15,
    ),
    arena_game(
        Spec(
            name="guess_the_number",
            path="GuessTheNumber:GuessTheNumberEnv",
            moves=number_moves,
            policy=number_best,
            won=number_won,
            players=1,
            example="[5]",
        ),
        by_level(
            {"drawn": {"min_number": [*range(1, 30)], "max_number": [*range(40, 60)]}, "settings": {"max_turns": 6}},
            {"drawn": {"min_number": [*range(1, 99)], "max_number": [*range(300, 400)]}, "settings": {"max_turns": 9}},
            {
                "drawn": {"min_number": [*range(1, 999)], "max_number": [*range(5000, 9999)]},
                "settings": {"max_turns": 13},
            },
        ),
        {"easy": 8, "medium": 11, "hard": 15},
    ),
]
