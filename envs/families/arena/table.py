"""Games of textarena 0.7.4 as plays: the model against the rules, or against an opponent that moves by a seed.

In: a `Spec` of a game (its class in the library, its legal moves, a reference policy).  Out: a `Game` (`envs.talk`).
Used by the modules of this family.

The library draws from the process's global random stream: each table has a stream of its own, which is put in its
place while the library runs and taken away again.  A task is kept only where the reference policy wins it against its
opponent, whose moves follow from the seed and what was played; so the gold policy is sure of the maximum.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import random
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.base import EnvironmentFailure
from envs.talk import Game, Opening, Reply

LIBRARY = "textarena 0.7.4"
LICENCE = "MIT"
MOST_TRIES = 300
RANDOM_GAMES = 4
MOST_MOVE_CHARACTERS = 24
CACHED_MOVES = 4096
HOW = "Write one move between <answer> and </answer>, such as: <answer>{}</answer>"
WIN_OR_DRAW = " A win is worth 1, a draw one half. A second wrong move in a row loses."
_ASCII = str.maketrans({"●": "*", "○": "o", "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "•": "-", "➜": "->"})
_ONE_AT_A_TIME = threading.RLock()
_MOVES: OrderedDict[tuple[Any, ...], str] = OrderedDict()

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One game of the library.

    - `path`: its module and class.  `players`: one or two.
    - `moves(env)`: the legal moves of whoever is to move, as text in the library's notation, in a fixed order.
    - `policy(env, player)`: the reference policy's move; None: looks two moves ahead (`look_ahead`).
    - `looks`: how far the opponent looks: -1 is random half of the time and else 0; 0 takes a win; 1 also
      prevents one.  Games whose positions cannot be looked through (hidden cards, dice) have an `opponent`.
    - `prepare(env, rng)`: changes the first position of a game that always begins in the same one.
    """

    name: str
    path: str
    moves: Callable[[Any], list[str]]
    example: str
    players: int = 2
    policy: Callable[[Any, int], str] | None = None
    opponent: Callable[[Any, int, random.Random, int], str] | None = None
    prepare: Callable[[Any, random.Random], None] | None = None
    won: Callable[[Any], bool] | None = None


class Stream:
    """A random stream that stands in for the global one while the library runs."""

    def __init__(self, seed: int):
        self._state = random.Random(seed).getstate()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        with _ONE_AT_A_TIME:
            before = random.getstate()
            random.setstate(self._state)
            try:
                yield
            finally:
                self._state = random.getstate()
                random.setstate(before)


def library_class(path: str) -> Any:
    """A game's class; the library is imported at first use."""
    module, _, name = path.partition(":")
    try:
        with _ONE_AT_A_TIME, _kept():
            return getattr(importlib.import_module(f"textarena.envs.{module}.env"), name)
    except ImportError as problem:
        raise EnvironmentFailure(f"the family arena needs {LIBRARY}: pip install 'jointrl[games]'") from problem


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    before = random.getstate()
    try:
        yield
    finally:
        random.setstate(before)


class Table:
    """A `Play` of one game."""

    def __init__(self, spec: Spec, facts: Facts, alone: bool = False):
        """`alone`: without the opponent, to make the moves of the opening."""
        self.spec = spec
        self.facts = facts
        self.value = 0.0
        self.over = False
        self.history: list[str] = []
        self.stream = Stream(facts["seed"])
        with self.stream.in_place():
            self.env = library_class(spec.path)(**facts["settings"])
            self.env.reset(num_players=spec.players, seed=facts["seed"])
        if spec.prepare is not None:
            spec.prepare(self.env, random.Random(facts["seed"]))
        self.rules = self._said("PROMPT")
        for move in facts["opening"]:
            self._step(move)
        self.player: int = facts["player"]
        if not alone:
            self._others()
        self.first = self._news()

    # ---- what the model does and reads

    def act(self, text: str) -> Reply:
        if self.over:
            return Reply("The game is over.", done=True)
        self._step(bracketed(text))
        self._others()
        if self.over:
            words = {1.0: "You win.", 0.5: "It is a draw."}
            return Reply(words.get(self.value, "You lose."), done=True)
        return Reply(self._news())

    def best(self) -> str:
        return self._decided("best", self._best)

    def _best(self) -> str:
        if self.spec.policy is not None:
            return self.spec.policy(self.env, self.player)
        return look_ahead(self.spec, self.env, 1, random.Random(f"{self.facts['seed']} {len(self.history)}"))

    # ---- the machinery

    def _step(self, move: str) -> None:
        self.history.append(move)
        try:
            with self.stream.in_place():
                self.env.step(move)
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
            self.over, self.value = True, 0.0  # the library broke on what was written
            return
        self._settle()

    def _settle(self) -> None:
        state = self.env.state
        if state.done or not self.spec.moves(self.env):
            self.over = True
            player = self.facts["player"]
            if self.spec.won is not None:
                self.value = float(self.spec.won(self.env))
            else:
                reward = (state.rewards or {}).get(player, 0)
                drawn = self.spec.players == 2 and reward == 0
                self.value = 0.5 if drawn else float(reward >= 1)

    def _others(self) -> None:
        """The opponent moves until the model is to move."""
        while not self.over and self.env.state.current_player_id != self.player:
            self._step(self._decided("other", self._other))

    def _other(self) -> str:
        rng = random.Random(f"{self.facts['seed']}/{len(self.history)}")
        if self.spec.opponent is not None:
            return self.spec.opponent(self.env, 1 - self.player, rng, self.facts["looks"])
        looks = self.facts["looks"]
        if looks < 0 and rng.random() < 0.5:
            return rng.choice(self.spec.moves(self.env))
        return look_ahead(self.spec, self.env, max(looks, 0), rng)

    def _decided(self, who: str, decide: Callable[[], str]) -> str:
        """A move follows from the task and what was played: it is worked out once, however often it is replayed."""
        key = (who, self.spec.name, repr(sorted(self.facts.items())), tuple(self.history))
        with _ONE_AT_A_TIME:
            if key not in _MOVES:
                _MOVES[key] = decide()
                if len(_MOVES) > CACHED_MOVES:
                    _MOVES.popitem(last=False)
            return _MOVES[key]

    def _said(self, *kinds: str) -> str:
        seen = self.env.state.observations[self.facts["player"]]
        return "\n".join(plain(text) for _, text, kind in seen if kind.name in kinds)

    def _news(self) -> str:
        """What happened since the last move: events in full, the board once."""
        seen = self.env.state.observations[self.facts["player"]]
        lines: list[str] = []
        board = ""
        for _, text, kind in seen:
            if kind.name == "GAME_BOARD":
                board = plain(text)
            elif kind.name in ("GAME_ACTION_DESCRIPTION", "GAME_MESSAGE", "GAME_ADMIN"):
                lines.append(plain(text))
        for kept in self.env.state.observations.values():
            kept.clear()
        return "\n".join([*lines, board] if board else lines)


def plain(text: str) -> str:
    """ASCII only, without bold signs and white space at the ends of lines."""
    text = text.translate(_ASCII).replace("**", "").replace("\t", "").encode("ascii", "replace").decode()
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def bracketed(text: str) -> str:
    """The last short token in square brackets, or else the whole text in brackets; nothing where it is too long."""
    found = re.findall(rf"\[[^\[\]]{{1,{MOST_MOVE_CHARACTERS}}}\]", text)
    if found:
        return str(found[-1])
    text = text.strip()
    return f"[{text}]" if len(text) <= MOST_MOVE_CHARACTERS and text.isascii() else ""


# ---- looking ahead ---------------------------------------------------------------------------------------------------


def after(env: Any, move: str) -> Any:
    """A copy of a game after a move.  Only of games without chance."""
    logs, seen = env.state.logs, env.state.observations
    env.state.logs, env.state.observations = [], {player: [] for player in seen}
    try:
        copied = copy.deepcopy(env)
    finally:
        env.state.logs, env.state.observations = logs, seen
    with _ONE_AT_A_TIME, _kept():
        copied.step(move)
    return copied


def look_ahead(spec: Spec, env: Any, looks: int, rng: random.Random) -> str:
    """A winning move, or else (`looks` 1) one after which the other cannot win at once, or else any."""
    player = env.state.current_player_id
    moves = spec.moves(env)
    rng.shuffle(moves)
    graded: list[tuple[float, str]] = []
    for move in moves:
        then = after(env, move)
        if then.state.done:
            reward = then.state.rewards[player]
            if reward > 0:
                return move
            graded.append((reward - 0.5, move))
        elif looks and then.state.current_player_id != player:
            graded.append((_worst(spec, then, player), move))
        else:
            graded.append((0.0, move))
    return max(graded, key=lambda pair: pair[0])[1]


def _worst(spec: Spec, env: Any, player: int) -> float:
    """-2 where the other can win at once, else a little for each reply that is left."""
    replies = spec.moves(env)
    for reply in replies:
        state = after(env, reply).state
        if state.done and state.rewards[player] < 0:
            return -2.0
    return 0.0


# ---- drawing ---------------------------------------------------------------------------------------------------------


def arena_game(
    spec: Spec, levels: Mapping[str, Mapping[str, Any]], turns: int | Mapping[str, int], *parts: Callable[..., Any]
) -> Game:
    """`levels`: what `draw_table` takes.  `parts` are functions that make the game another one."""
    own = [part for part in (spec.moves, spec.policy, spec.opponent, spec.prepare, spec.won, *parts) if part]
    return Game(
        name=spec.name,
        draw=functools.partial(draw_table, spec=spec),
        start=functools.partial(Table, spec),
        levels=levels,
        turns=turns,
        source=LIBRARY,
        licence=LICENCE,
        needs_module="textarena",
        identity=(*own, f"{LIBRARY}/{spec.path}"),
    )


def draw_table(
    rng: random.Random,
    spec: Spec,
    looks: int = 0,
    opening: Sequence[int] = (0,),
    settings: Mapping[str, Any] | None = None,
    drawn: Mapping[str, Sequence[Any]] | None = None,
    turns: int = 60,
) -> Opening:
    """Deals until the reference policy wins one.

    `opening`: how many random moves are made before, one of these; `settings` of the library's class; `drawn`: of
    each of these settings one of the values, or (`piles`) a list of as many numbers.
    """
    for _ in range(MOST_TRIES):
        facts: dict[str, Any] = {
            "seed": rng.getrandbits(32),
            "settings": dict(settings or {}) | {key: _drawn(rng, ways) for key, ways in (drawn or {}).items()},
            "looks": looks,
            "opening": [],
            "player": 0,
        }
        length = rng.choice(opening)
        table = _opened(spec, facts, rng, length)
        if table is None or table.over:
            continue
        text = "\n".join(
            [table.rules, HOW.format(spec.example) + (WIN_OR_DRAW if spec.players == 2 else ""), table.first]
        )
        if spec.players == 2 and (_won_by_one_move(spec, facts, table) or _won_by_luck(spec, facts, rng)):
            continue
        moves = _won_by_reference(table, turns)
        if moves:
            return Opening(text=text, facts=facts, reference=" ".join(moves))
    raise EnvironmentFailure(f"{spec.name}: the reference policy won no game of {MOST_TRIES}")


def _drawn(rng: random.Random, ways: Sequence[Any]) -> Any:
    """One of the ways; `("piles", count, low, high)` is a list of numbers."""
    if ways and ways[0] == "piles":
        return [rng.randint(ways[2], ways[3]) for _ in range(ways[1])]
    return rng.choice(list(ways))


def _opened(spec: Spec, facts: dict[str, Any], rng: random.Random, length: int) -> Table | None:
    """Random moves of both sides; then it is the model's turn, whichever side that is."""
    table = Table(spec, facts, alone=True)
    for _ in range(length):
        moves = spec.moves(table.env)
        if table.over or not moves:
            return None
        facts["opening"].append(rng.choice(moves))
        table = Table(spec, facts, alone=True)
    facts["player"] = table.env.state.current_player_id
    return Table(spec, facts)


def _won_by_one_move(spec: Spec, facts: Facts, table: Table) -> bool:
    """Whether saying one and the same move over and over wins: such a task would teach nothing."""
    for move in spec.moves(table.env):
        again = Table(spec, facts)
        while not again.over and len(again.history) < 60:
            again.act(move)
        if again.value:
            return True
    return False


def _won_by_luck(spec: Spec, facts: Facts, rng: random.Random) -> bool:
    """Whether random moves are worth more than one win in four games."""
    total = 0.0
    for _ in range(RANDOM_GAMES):
        table = Table(spec, facts)
        while not table.over and len(table.history) < 120:
            table.act(rng.choice(spec.moves(table.env)))
        total += table.value
    return total > 1


def _won_by_reference(table: Table, turns: int) -> list[str]:
    moves: list[str] = []
    while not table.over and len(moves) < turns:
        moves.append(table.best())
        table.act(moves[-1])
    return moves if table.over and table.value == 1.0 else []
