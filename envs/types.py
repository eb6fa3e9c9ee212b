"""The data that flows through a run: messages, tasks, turns, trajectories.

Standard library only, so that every layer can read them.  Made by domains (`Task`, `Message`) and by the
episode loop (`Turn`, `Trajectory`); read by scorers, packing, the store and the report.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text.  Example: ``TextPart("What is 2+2?")``."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image by content, not by path: ``ImagePart(sha256="9f86…", width=64, height=48)``.

    Nothing produces images today; parsers, store and viewer carry them through unchanged.
    """

    sha256: str
    width: int
    height: int


Part = TextPart | ImagePart


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model wrote.  `raw` is its text exactly as sampled.

    `error` is empty when `raw` parsed; otherwise `name` may be empty and the environment answers with a
    tool-role message that says what was wrong.

    Example::

        ToolCall(name="calc", arguments={"expression": "2+2"}, raw='{"name":"calc","arguments":{"expression":"2+2"}}')
        ToolCall(name="", arguments={}, raw="{calc", error="not valid JSON: …")
    """

    name: str
    arguments: Mapping[str, Any]
    raw: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a role and typed parts; reasoning and tool calls are fields, not text conventions.

    Example::

        Message.of("user", "What is 2+2?")
        Message.of("assistant", "4", reasoning="two plus two")
        Message.of("tool", "4", name="calc")
    """

    role: Role
    parts: tuple[Part, ...]
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    name: str = ""

    @staticmethod
    def of(
        role: Role, text: str, *, reasoning: str = "", tool_calls: tuple[ToolCall, ...] = (), name: str = ""
    ) -> Message:
        parts: tuple[Part, ...] = (TextPart(text),) if text else ()
        return Message(role, parts, reasoning, tool_calls, name)

    @property
    def text(self) -> str:
        """The text parts joined; images are skipped."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


Split = Literal["train", "held_out"]


@dataclass(frozen=True, slots=True)
class Task:
    """One problem of one domain.  The id alone is enough to make it again.

    The split is decided by a hash of the rendered prompt (`envs.domain.split_of`), so that two indices with the
    same prompt are always on the same side.

    Example::

        Task(id="math/add/train/17", domain="math/add", split="train", index=17,
             prompt=(Message.of("user", "2+2="),), reference="4")
    """

    id: str
    domain: str
    split: Split
    index: int
    prompt: tuple[Message, ...]
    reference: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class FinishReason(enum.StrEnum):
    """Why the engine stopped a turn, judged by the sampled tokens, not by the text."""

    STOP = "stop"  # a stop token was sampled; it is the last completion id, and it is trained
    LENGTH = "length"  # a token budget (turn, trajectory or context) ran out


class Status(enum.StrEnum):
    """How a trajectory ended."""

    DONE = "done"  # the environment said so
    TRUNCATED = "truncated"  # some turn was cut by a token budget
    MAX_TURNS = "max_turns"  # the domain's turn limit was reached
    FAILED = "failed"  # the infrastructure failed; `error` says how, and the score is `unscored`


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The experts that the engine chose, for a run of consecutive positions: what the trainer replays.

    - `layers`: numbers of the routed layers, in the order of the model.
    - `top_k`: experts a token.
    - `width`: bytes of one id, 1 or 2.
    - `ids`: expert ids, little-endian, row after row: position, then layer, then expert.

    Example: two positions, one layer, two experts each: ``Routes(layers=(0,), top_k=2, width=1,
    ids=bytes([3, 1, 0, 2]))``
    """

    layers: tuple[int, ...]
    top_k: int
    width: int
    ids: bytes

    def __post_init__(self) -> None:
        row = len(self.layers) * self.top_k * self.width
        if self.width not in (1, 2) or row <= 0 or len(self.ids) % row:
            raise ValueError(
                f"Routes: {len(self.ids)} bytes are no rows of {len(self.layers)} layers x {self.top_k} x {self.width}"
            )

    @property
    def num_rows(self) -> int:
        return len(self.ids) // (len(self.layers) * self.top_k * self.width)


@dataclass(slots=True)
class Turn:
    """One completion of the model, token by token, and what the world answered.

    All per-token lists are parallel to `completion_ids` and have equal length.

    - `prompt_ids`: every token that the engine saw before this completion (the whole history).
    - `logprobs`: of the distribution that was sampled (after temperature), in nats.
    - `versions`: policy version that sampled each token.
    - `forced`: True where the token was put there by us; it carries no loss.
    - `routes`: of the positions that the engine computed for this turn, up to the one before the last completion
      token, which nothing was sampled after.  They begin at any position of the prompt; None where not recorded.

    Example::

        Turn(prompt_ids=[2, 7, 31, 9], completion_ids=[40, 5], logprobs=[-0.1, -0.01], versions=[3, 3],
             forced=[False, False], message=Message.of("assistant", "4"), observation=(), finish_reason="stop")
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    versions: list[int]
    forced: list[bool]
    message: Message
    observation: tuple[Message, ...]
    finish_reason: FinishReason
    routes: Routes | None = None

    def __post_init__(self) -> None:
        length = len(self.completion_ids)
        for name in ("logprobs", "versions", "forced"):
            if len(getattr(self, name)) != length:
                raise ValueError(f"Turn.{name} has {len(getattr(self, name))} entries for {length} completion ids")
        if self.routes is not None and not length <= self.routes.num_rows < len(self.prompt_ids) + length:
            raise ValueError(
                f"Turn.routes has {self.routes.num_rows} rows for {len(self.prompt_ids)} + {length} ids: it must reach "
                "from the last prompt token, or an earlier one, to the last but one of the completion"
            )


@dataclass(slots=True)
class Trajectory:
    """What happened on one task: segments of turns.  It never says what it is worth.

    Within a segment each turn's `prompt_ids` extend the previous turn's prompt and completion; a new segment starts
    where the history was rewritten (a summary, or a chat template that drops old reasoning).

    Example: ``Trajectory(task=task, tier="low", sample=0, segments=[[turn]], status=Status.DONE)``
    """

    task: Task
    tier: str
    sample: int
    segments: list[list[Turn]]
    status: Status
    error: str = ""
    seconds: float = 0.0

    @property
    def turns(self) -> list[Turn]:
        return [turn for segment in self.segments for turn in segment]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation after the prompt: assistant messages and what the world answered."""
        out: list[Message] = []
        for turn in self.turns:
            out.append(turn.message)
            out.extend(turn.observation)
        return tuple(out)

    @property
    def final_text(self) -> str:
        """The text of the last assistant message (reasoning excluded); empty where there is none."""
        turns = self.turns
        return turns[-1].message.text if turns else ""

    @property
    def num_sampled_tokens(self) -> int:
        """Tokens that the model sampled; forced ones are not counted."""
        return sum(len(turn.completion_ids) - sum(turn.forced) for turn in self.turns)
