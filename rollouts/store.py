"""Groups to parquet, and back exactly.

In: the groups of a step.  Out: one file, `step-000012.parquet`, one row a trajectory.  Written by the rollout workers'
owner, read by `train.report` and by whoever wants to look: any parquet reader shows the plain columns.

    group ticket task_id domain split tier sample value reason status error num_turns sampled_tokens seconds final_text
                                                                                         │ for people and queries
    segments: turns a segment     turns: one struct a turn, per-token lists              │ exact numbers
    exact: JSON of task, score parts, messages, and of every string above                │ exact everything else

A turn's prompt repeats all that came before it, so only what it adds is stored: `prompt_kept` counts how many ids of
the previous turn's prompt + completion it begins with, `prompt_new` are the ids after those.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from envs.types import (
    FinishReason,
    ImagePart,
    Message,
    Part,
    Routes,
    Status,
    Task,
    TextPart,
    ToolCall,
    Trajectory,
    Turn,
)
from rewards.score import Score
from rollouts.group import Group

FORMAT = {b"jointrl": b"groups-2"}

_TURN = pa.struct(
    {
        "prompt_kept": pa.int64(),
        "prompt_new": pa.list_(pa.int32()),
        "completion_ids": pa.list_(pa.int32()),
        "logprobs": pa.list_(pa.float64()),
        "versions": pa.list_(pa.int64()),
        "forced": pa.list_(pa.bool_()),
        "routes": pa.struct(
            {"layers": pa.list_(pa.int32()), "top_k": pa.int32(), "width": pa.int32(), "ids": pa.large_binary()}
        ),
        "finish_reason": pa.string(),
    }
)
SCHEMA = pa.schema(
    {
        "group": pa.int64(),
        "ticket": pa.int64(),
        "task_id": pa.string(),
        "domain": pa.string(),
        "split": pa.string(),
        "tier": pa.string(),
        "sample": pa.int64(),
        "value": pa.float64(),
        "reason": pa.string(),
        "status": pa.string(),
        "error": pa.string(),
        "num_turns": pa.int64(),
        "sampled_tokens": pa.int64(),
        "seconds": pa.float64(),
        "final_text": pa.string(),
        "segments": pa.list_(pa.int32()),
        "turns": pa.list_(_TURN),
        "exact": pa.string(),
    },
    metadata=FORMAT,
)


def file_name(step: int) -> str:
    """`12` -> `"step-000012.parquet"`."""
    return f"step-{step:06d}.parquet"


def write_groups(path: Path, groups: Sequence[Group]) -> None:
    """Write `path` so that readers see all of it or nothing; a file of that name is replaced.

    Raises ValueError for what would not come back equal: a group without trajectories, a trajectory of another task
    or tier than its group's, a value in a reference or in metadata that is no plain Python data.
    """
    rows = [row for number, group in enumerate(groups) for row in _group_rows(number, group)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    with scratch.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    _sync_directory(path.parent)


def read_groups(path: Path) -> list[Group]:
    """The groups that `write_groups` was given.  Raises ValueError for another file."""
    table = pq.read_table(path)
    if (table.schema.metadata or {}).get(b"jointrl") != FORMAT[b"jointrl"]:
        raise ValueError(f"{path} was not written by this version of rollouts.store")
    return [_group(list(rows)) for _, rows in groupby(table.to_pylist(), key=lambda row: row["group"])]


def _sync_directory(directory: Path) -> None:
    """Without this the rename itself may be lost with the power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- rows --------------------------------------------------------------------------------------------------------


def _group_rows(number: int, group: Group) -> list[dict[str, Any]]:
    if not group.trajectories:
        raise ValueError(f"the group of task {group.task.id} has no trajectories: there is no row to store it in")
    task = _task_to_json(group.task)
    rows = []
    for trajectory, score in zip(group.trajectories, group.scores, strict=True):
        if trajectory.task != group.task or trajectory.tier != group.tier:
            raise ValueError(
                f"the group of task {group.task.id} ({group.tier}) has a trajectory of another: {trajectory.task.id}"
            )
        rows.append({"group": number, "ticket": group.ticket} | _row(task, trajectory, score))
    return rows


def _row(task: dict[str, Any], trajectory: Trajectory, score: Score) -> dict[str, Any]:
    exact = {
        "task": task,
        "tier": trajectory.tier,
        "error": trajectory.error,
        "score": {"reason": score.reason, "parts": dict(score.parts), "turns": list(score.turns)},
        "messages": [
            [_message_to_json(turn.message), [_message_to_json(message) for message in turn.observation]]
            for turn in trajectory.turns
        ],
    }
    return {
        "task_id": _printable(trajectory.task.id),
        "domain": _printable(trajectory.task.domain),
        "split": trajectory.task.split,
        "tier": _printable(trajectory.tier),
        "sample": trajectory.sample,
        "value": score.value,
        "reason": _printable(score.reason),
        "status": str(trajectory.status),
        "error": _printable(trajectory.error),
        "num_turns": len(trajectory.turns),
        "sampled_tokens": trajectory.num_sampled_tokens,
        "seconds": trajectory.seconds,
        "final_text": _printable(trajectory.final_text),
        "segments": [len(segment) for segment in trajectory.segments],
        "turns": _turn_rows(trajectory.turns),
        "exact": json.dumps(exact),
    }


def _turn_rows(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    rows = []
    history: list[int] = []
    for turn in turns:
        kept = _common_prefix(history, turn.prompt_ids)
        rows.append(
            {
                "prompt_kept": kept,
                "prompt_new": turn.prompt_ids[kept:],
                "completion_ids": turn.completion_ids,
                "logprobs": turn.logprobs,
                "versions": turn.versions,
                "forced": turn.forced,
                "routes": None if turn.routes is None else asdict(turn.routes),
                "finish_reason": str(turn.finish_reason),
            }
        )
        history = turn.prompt_ids + turn.completion_ids
    return rows


def _common_prefix(first: list[int], second: list[int]) -> int:
    shorter = min(len(first), len(second))
    if first[:shorter] == second[:shorter]:
        return shorter
    return next(position for position in range(shorter) if first[position] != second[position])


def _printable(text: str) -> str:
    """Text that UTF-8 can hold: a lone surrogate becomes a question mark (`exact` keeps it)."""
    return text.encode("utf-8", "replace").decode("utf-8")


# --- and back ----------------------------------------------------------------------------------------------------


def _group(rows: list[dict[str, Any]]) -> Group:
    exacts = [json.loads(row["exact"]) for row in rows]
    task = _task_from_json(exacts[0]["task"])
    return Group(
        ticket=rows[0]["ticket"],
        task=task,
        tier=exacts[0]["tier"],
        trajectories=[_trajectory(task, row, exact) for row, exact in zip(rows, exacts, strict=True)],
        scores=[_score(row["value"], exact["score"]) for row, exact in zip(rows, exacts, strict=True)],
    )


def _score(value: float | None, exact: Mapping[str, Any]) -> Score:
    return Score(value=value, reason=exact["reason"], parts=exact["parts"], turns=tuple(exact["turns"]))


def _trajectory(task: Task, row: Mapping[str, Any], exact: Mapping[str, Any]) -> Trajectory:
    turns = iter(_turns(row["turns"], exact["messages"]))
    return Trajectory(
        task=task,
        tier=exact["tier"],
        sample=row["sample"],
        segments=[[next(turns) for _ in range(length)] for length in row["segments"]],
        status=Status(row["status"]),
        error=exact["error"],
        seconds=row["seconds"],
    )


def _turns(rows: Sequence[Mapping[str, Any]], messages: Sequence[Any]) -> list[Turn]:
    turns = []
    history: list[int] = []
    for row, (message, observation) in zip(rows, messages, strict=True):
        turn = Turn(
            prompt_ids=history[: row["prompt_kept"]] + row["prompt_new"],
            completion_ids=row["completion_ids"],
            logprobs=row["logprobs"],
            versions=row["versions"],
            forced=row["forced"],
            message=_message_from_json(message),
            observation=tuple(_message_from_json(answer) for answer in observation),
            finish_reason=FinishReason(row["finish_reason"]),
            routes=_routes(row["routes"]),
        )
        turns.append(turn)
        history = turn.prompt_ids + turn.completion_ids
    return turns


def _routes(stored: Mapping[str, Any] | None) -> Routes | None:
    if stored is None:
        return None
    return Routes(**{**stored, "layers": tuple(stored["layers"])})


# --- JSON of tasks and messages ----------------------------------------------------------------------------------


def _task_to_json(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "domain": task.domain,
        "split": task.split,
        "index": task.index,
        "prompt": [_message_to_json(message) for message in task.prompt],
        "reference": encode_value(task.reference, f"reference of task {task.id}"),
        "metadata": encode_value(task.metadata, f"metadata of task {task.id}"),
    }


def _task_from_json(value: Mapping[str, Any]) -> Task:
    return Task(
        id=value["id"],
        domain=value["domain"],
        split=value["split"],
        index=value["index"],
        prompt=tuple(_message_from_json(message) for message in value["prompt"]),
        reference=decode_value(value["reference"]),
        metadata=decode_value(value["metadata"]),
    )


def _message_to_json(message: Message) -> dict[str, Any]:
    return {
        "role": message.role,
        "parts": [_part_to_json(part) for part in message.parts],
        "reasoning": message.reasoning,
        "tool_calls": [
            {
                "name": call.name,
                "arguments": encode_value(call.arguments, f"arguments of tool {call.name}"),
                "raw": call.raw,
                "error": call.error,
            }
            for call in message.tool_calls
        ],
        "name": message.name,
    }


def _message_from_json(value: Mapping[str, Any]) -> Message:
    return Message(
        role=value["role"],
        parts=tuple(_part_from_json(part) for part in value["parts"]),
        reasoning=value["reasoning"],
        tool_calls=tuple(
            ToolCall(call["name"], decode_value(call["arguments"]), call["raw"], call["error"])
            for call in value["tool_calls"]
        ),
        name=value["name"],
    )


def _part_to_json(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "sha256": part.sha256, "width": part.width, "height": part.height}


def _part_from_json(value: Mapping[str, Any]) -> Part:
    if value["type"] == "text":
        return TextPart(value["text"])
    return ImagePart(sha256=value["sha256"], width=value["width"], height=value["height"])


def encode_value(value: Any, where: str) -> Any:
    """Plain Python data as JSON that `decode_value` turns into equal data; a tuple stays a tuple.

    What JSON has no word for becomes a one-key object: `{"@tuple": […]}`, `{"@set": […]}`, `{"@bytes": "hex"}`, and
    `{"@dict": [[key, value], …]}` for a mapping with other keys than strings or with a key that begins with `@`.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return [encode_value(item, where) for item in value]
    if isinstance(value, tuple):
        return {"@tuple": [encode_value(item, where) for item in value]}
    if isinstance(value, set | frozenset):
        # A set has no order of its own; a fixed one makes equal groups equal files.
        return {"@set": sorted((encode_value(item, where) for item in value), key=json.dumps)}
    if isinstance(value, bytes):
        return {"@bytes": value.hex()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("@") for key in value):
            return {key: encode_value(item, where) for key, item in value.items()}
        return {"@dict": [[encode_value(key, where), encode_value(item, where)] for key, item in value.items()]}
    raise ValueError(f"{where}: a {type(value).__name__} cannot be stored, use plain data (numbers, text, containers)")


def decode_value(value: Any) -> Any:
    """The inverse of `encode_value`."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "@tuple" in value:
        return tuple(decode_value(item) for item in value["@tuple"])
    if "@set" in value:
        return frozenset(decode_value(item) for item in value["@set"])
    if "@bytes" in value:
        return bytes.fromhex(value["@bytes"])
    if "@dict" in value:
        return {decode_value(key): decode_value(item) for key, item in value["@dict"]}
    return {key: decode_value(item) for key, item in value.items()}
