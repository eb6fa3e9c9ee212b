"""Groups to parquet and back: the identity, atomic, and readable by anything that reads parquet."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envs.tools import make_tool_call
from envs.types import FinishReason, ImagePart, Message, Routes, Status, Task, TextPart, ToolCall, Trajectory, Turn
from rewards.score import Score, scored, unscored
from rollouts.group import Group
from rollouts.store import decode_value, encode_value, file_name, read_groups, write_groups

# --- what can be stored ------------------------------------------------------------------------------------------

TEXT = st.text(max_size=6)  # with lone surrogates and NUL: an error text may hold them
FINITE = st.floats(allow_nan=False, allow_infinity=False)
IDS = st.integers(0, 2**31 - 1)
KEYS = TEXT | st.sampled_from(["@tuple", "@dict", "@", "value"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | st.binary(max_size=4)
HASHABLE = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=3)
VALUES = st.recursive(
    SCALARS | st.frozensets(HASHABLE, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=2)
    ),
    max_leaves=6,
)
PARTS = st.builds(TextPart, TEXT) | st.builds(ImagePart, TEXT, st.integers(1, 9), st.integers(1, 9))
CALLS = st.builds(ToolCall, TEXT, st.dictionaries(KEYS, VALUES, max_size=2), TEXT, TEXT)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(PARTS, max_size=2).map(tuple),
    TEXT,
    st.lists(CALLS, max_size=1).map(tuple),
    TEXT,
)
TASKS = st.builds(
    Task,
    id=TEXT,
    domain=TEXT,
    split=st.sampled_from(["train", "held_out"]),
    index=st.integers(0, 10**9),
    prompt=st.lists(MESSAGES, max_size=2).map(tuple),
    reference=VALUES,
    metadata=st.dictionaries(KEYS, VALUES, max_size=2),
)
SCORES = st.builds(
    lambda value, parts, turns: scored(value, parts, tuple(turns)),
    FINITE,
    st.dictionaries(TEXT, FINITE, max_size=2),
    st.lists(FINITE, max_size=2),
) | st.builds(unscored, TEXT)


def each(count: int, elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """A per-token list."""
    return st.lists(elements, min_size=count, max_size=count)


@st.composite
def turns(draw: st.DrawFn, history: list[int]) -> Turn:
    """A turn that extends the history, forks from it or has nothing to do with it."""
    count = draw(st.integers(0, 3))
    kept = draw(st.integers(0, len(history)))
    prompt = history[:kept] + draw(st.lists(IDS, min_size=1, max_size=3))
    width, num_rows = draw(st.sampled_from((1, 2))), draw(st.integers(count, len(prompt) + count - 1))
    size = num_rows * 2 * 3 * width
    routes = st.builds(
        Routes,
        layers=st.just((1, 4)),
        top_k=st.just(3),
        width=st.just(width),
        ids=st.binary(min_size=size, max_size=size),
    )
    return Turn(
        prompt_ids=prompt,
        completion_ids=draw(each(count, IDS)),
        logprobs=draw(each(count, FINITE)),
        versions=draw(each(count, st.integers(-1, 2**40))),
        forced=draw(each(count, st.booleans())),
        message=draw(MESSAGES),
        observation=tuple(draw(st.lists(MESSAGES, max_size=1))),
        finish_reason=draw(st.sampled_from(FinishReason)),
        routes=draw(st.none() | routes),
    )


@st.composite
def groups(draw: st.DrawFn) -> Group:
    task, tier = draw(TASKS), draw(TEXT)
    trajectories = []
    for sample in range(draw(st.integers(1, 2))):
        segments: list[list[Turn]] = []
        history: list[int] = []
        for length in draw(st.lists(st.integers(0, 2), max_size=2)):
            segments.append([])
            for _ in range(length):
                segments[-1].append(draw(turns(history)))
                history = segments[-1][-1].prompt_ids + segments[-1][-1].completion_ids
        status, error, seconds = draw(st.sampled_from(Status)), draw(TEXT), draw(FINITE)
        trajectories.append(Trajectory(task, tier, sample, segments, status, error, seconds))
    return Group(draw(st.integers(0, 2**40)), task, tier, trajectories, [draw(SCORES) for _ in trajectories])


# --- the identity ------------------------------------------------------------------------------------------------


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(st.lists(groups(), max_size=3))
def test_what_is_written_comes_back_equal(tmp_path: Path, written: list[Group]) -> None:
    path = tmp_path / file_name(1)
    write_groups(path, written)
    assert read_groups(path) == written


@settings(deadline=None, max_examples=60)
@given(VALUES)
def test_values_keep_their_types(value: Any) -> None:
    """Equality alone would let a tuple come back as no list, but 1 as True and 1 as 1.0."""
    assert repr(decode_value(encode_value(value, "x"))) == repr(value) or _has_set(value)
    assert decode_value(encode_value(value, "x")) == value


def _has_set(value: Any) -> bool:
    """Equal sets may print in another order."""
    return "frozenset" in repr(value)


def example_group(**changes: Any) -> Group:
    task = Task(
        id="tools/store/train/17",
        domain="tools/store",
        split="train",
        index=17,
        prompt=(Message.of("user", "get kap"),),
        reference=("a", 1, [("b",)]),
        metadata={"contents": {"kap": "1"}, "pair": (1, 2)},
    )
    call = make_tool_call("get", {"k": "kap"})
    first = Turn(
        prompt_ids=[1, 2, 3],
        completion_ids=[4, 5],
        logprobs=[-0.1, -1e-300],
        versions=[3, 4],
        forced=[False, True],
        message=Message.of("assistant", "", tool_calls=(call,)),
        observation=(Message("tool", (TextPart("1"), ImagePart("9f86", 64, 48)), name="get"),),
        finish_reason=FinishReason.STOP,
    )
    second = Turn(
        [1, 2, 3, 4, 5, 6], [7], [-0.3], [4], [False], Message.of("assistant", "ein Wört"), (), FinishReason.STOP
    )
    whole = Trajectory(task, "low", 0, [[first, second]], Status.DONE, seconds=1.5)
    failed = Trajectory(task, "low", 1, [[]], Status.FAILED, error="sandbox lost")
    group = Group(5, task, "low", [whole, failed], [scored(0.1, {"answer": 0.1}, (0.3,)), unscored("sandbox lost")])
    return dataclasses.replace(group, **changes)


def test_the_plain_columns_can_be_queried(tmp_path: Path) -> None:
    path = tmp_path / "trajectories" / file_name(12)
    write_groups(path, [example_group()])
    assert path.name == "step-000012.parquet"
    names = ["task_id", "domain", "tier", "ticket", "sample", "value", "reason", "status", "num_turns"]
    table = pq.read_table(path, columns=[*names, "sampled_tokens", "final_text"])
    assert table.to_pylist() == [
        dict(zip(table.column_names, row, strict=True))
        for row in [
            ("tools/store/train/17", "tools/store", "low", 5, 0, 0.1, "", "done", 2, 2, "ein Wört"),
            ("tools/store/train/17", "tools/store", "low", 5, 1, None, "sandbox lost", "failed", 0, 0, ""),
        ]
    ]
    assert [pq.ParquetFile(path).metadata.row_group(0).column(0).compression] == ["ZSTD"]


def test_tuples_and_images_survive(tmp_path: Path) -> None:
    write_groups(tmp_path / "x.parquet", [example_group(), example_group(ticket=6)])
    first, second = read_groups(tmp_path / "x.parquet")
    assert (first, second) == (example_group(), example_group(ticket=6))
    assert first.task.reference == ("a", 1, [("b",)]) and type(first.task.reference) is tuple
    assert first.trajectories[0].turns[0].logprobs == [-0.1, -1e-300]


def test_a_long_conversation_is_stored_once(tmp_path: Path) -> None:
    """A hundred turns repeat their history a hundred times in memory, not on disk."""
    history: list[int] = []
    long: list[Turn] = []
    for number in range(100):
        history = [*history, *(37 * number + n * n % 1009 for n in range(200))]
        long.append(Turn(history, [number], [-0.5], [0], [False], Message.of("assistant", "x"), (), FinishReason.STOP))
        history = [*history, number]
    base = example_group()
    whole = dataclasses.replace(base.trajectories[0], segments=[long])
    group = dataclasses.replace(base, trajectories=[whole], scores=[scored(1.0)])
    write_groups(tmp_path / "long.parquet", [group])
    assert read_groups(tmp_path / "long.parquet") == [group]
    assert (tmp_path / "long.parquet").stat().st_size < 4 * len(history) * 2 + 50_000


def test_no_groups_is_a_file_too(tmp_path: Path) -> None:
    write_groups(tmp_path / "none.parquet", [])
    assert read_groups(tmp_path / "none.parquet") == []


# --- refusals and atomicity --------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_groups(path, [example_group()])
    task = dataclasses.replace(example_group().task, metadata={"when": object()})
    trajectories = [dataclasses.replace(item, task=task) for item in example_group().trajectories]
    with pytest.raises(ValueError, match="metadata of task tools/store/train/17: a object cannot be stored"):
        write_groups(path, [example_group(task=task, trajectories=trajectories)])
    assert read_groups(path) == [example_group()]
    write_groups(path, [example_group(ticket=9)])
    assert [group.ticket for group in read_groups(path)] == [9]
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


def test_a_kill_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.parquet"
    write_groups(path, [example_group()])

    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        write_groups(path, [example_group(ticket=9)])
    monkeypatch.undo()
    assert [group.ticket for group in read_groups(path)] == [5]
    write_groups(path, [example_group(ticket=9)])
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


def test_groups_that_would_not_come_back_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no trajectories"):
        write_groups(tmp_path / "x.parquet", [example_group(trajectories=[], scores=[])])
    with pytest.raises(ValueError, match="has a trajectory of another"):
        write_groups(tmp_path / "x.parquet", [example_group(tier="high")])
    assert list(tmp_path.iterdir()) == []


def test_another_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet was not written by"):
        read_groups(tmp_path / "x.parquet")


def test_score_type_of_an_unscored_row(tmp_path: Path) -> None:
    write_groups(tmp_path / "x.parquet", [example_group()])
    (group,) = read_groups(tmp_path / "x.parquet")
    assert group.scores[1] == Score(value=None, reason="sandbox lost")
