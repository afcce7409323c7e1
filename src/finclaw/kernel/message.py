"""One entry of a conversation, made of blocks, and the events that change a conversation.

Messages are structs and not dataclasses because each is decoded from the store and encoded for a model many
times in its life; `docs/decisions/0003-structs.md` has the figures. Those of which there are thousands are unknown to
the garbage collector (`gc=False`): frozen, they cannot become part of a cycle, and it need not walk them all the time.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from finclaw.kernel.envelope import ActionButton, OutboundFile
from finclaw.kernel.fact import Fact

Role = Literal["system", "user", "assistant", "tool"]
SourceKind = Literal["user", "assistant", "tool", "system", "extension"]
ToolStatus = Literal[
    "ok", "error", "invalid", "denied", "awaiting", "timeout", "stopped", "unavailable", "skipped", "unknown"
]
"""How one tool use ended.

    ok           it gave a result
    error        it ran and failed, or there is no such tool
    invalid      its arguments do not fit; it did not run
    denied       it may not run
    awaiting     a person has yet to say whether it may
    timeout      it ran longer than it may
    stopped      it ran when the turn was stopped
    unavailable  what it needs does not answer; it says when to try again
    skipped      it was left out on purpose
    unknown      it had started when the process died, and it must not be run again to find out
"""


class Text(Struct, frozen=True, gc=False, tag="text"):
    text: str


class Image(Struct, frozen=True, gc=False, tag="image", omit_defaults=True):
    """A picture for the model to look at: `blob` is the SHA-256 of its content. Older messages have it in `data`."""

    media_type: str
    data: bytes = b""
    blob: str = ""


class Thinking(Struct, frozen=True, tag="thinking"):
    """What a model thought before it spoke. `signature` goes back to the API that gave it, and means nothing to us.

    Of `redacted` thinking the API tells no word: the signature is all there is.
    """

    text: str
    signature: str = ""
    redacted: bool = False


class ToolCall(Struct, frozen=True, tag="tool_call"):
    """The model asks for a tool. `bad_args` holds what could not be read as an object; such a call is never run."""

    id: str
    name: str
    args: dict[str, Any] = {}
    bad_args: str | None = None

    @property
    def given_args(self) -> dict[str, Any]:
        """What the model gave: its arguments, or under an empty name the text that could not be read."""
        return self.args if self.bad_args is None else {"": self.bad_args}


class ToolFailure(Struct, frozen=True, omit_defaults=True):
    """Why a tool failed, in the words the model needs to do better."""

    name: str
    message: str
    suggestion: str | None = None
    help_url: str | None = None
    code: str | None = None


class ToolResult(Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """What a tool gave back: the result of the tool_call ring and a block of the conversation."""

    call_id: str
    name: str
    content: str
    status: ToolStatus = "ok"
    facts: tuple[Fact, ...] = ()
    error: ToolFailure | None = None
    ms: float = 0.0
    origin: str = ""
    """Which strangers' words it holds; empty where it holds none."""
    files: tuple[OutboundFile, ...] = ()
    """Pictures and documents that go out with the answer."""
    actions: tuple[ActionButton, ...] = ()
    """Choices below the answer, if it is the turn's last result."""

    @property
    def is_error(self) -> bool:
        """A call that was skipped on purpose did not fail, and one that waits for a person has not yet."""
        return self.status not in ("ok", "skipped", "awaiting")


Block = Text | Image | Thinking | ToolCall | ToolResult


class Source(Struct, frozen=True, gc=False, omit_defaults=True):
    """Who put a message there: `id` is the step or call, `name` the tool or extension."""

    kind: SourceKind
    id: str = ""
    name: str = ""


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    """`passing` is the key of a message for this turn only: the model sees it, the fold leaves it out, and
    appending another with the same key takes its place.
    """

    id: str
    role: Role
    blocks: tuple[Block, ...]
    source: Source
    created_at: datetime
    metadata: dict[str, Any] = {}
    passing: str = ""

    @property
    def text(self) -> str:
        return "".join([block.text for block in self.blocks if isinstance(block, Text)])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.blocks if isinstance(block, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple([block for block in self.blocks if isinstance(block, ToolResult)])


NOTES: Final = "notes"
"""Metadata of an answer: what the gateway has added at its end. The person has seen it; no model reads it again."""


def as_seen(message: Message) -> Message:
    """The message with the notes of the gateway, as the person saw it."""
    notes = message.metadata.get(NOTES)
    return _with_text(message, message.text + notes) if notes else message


def without_notes(message: Message) -> Message:
    """The message as it is stored: the opposite of `as_seen`."""
    notes = message.metadata.get(NOTES)
    return _with_text(message, message.text.removesuffix(notes)) if notes else message


def _with_text(message: Message, text: str) -> Message:
    others = [block for block in message.blocks if not isinstance(block, Text)]
    return replace(message, blocks=(*others, Text(text)))


SUMMARY: Final = "summary"
"""Metadata of a message that stands for others, which a compaction took away."""


class LlmMessage(Struct, frozen=True, gc=False):
    """A message without its bookkeeping."""

    role: Role
    blocks: tuple[Block, ...]


class Append(Struct, frozen=True, tag="append"):
    message: Message


class Replace(Struct, frozen=True, tag="replace"):
    target: str
    message: Message


class Remove(Struct, frozen=True, tag="remove"):
    target: str


class Truncate(Struct, frozen=True, tag="truncate"):
    keep_last: int


class Patch(Struct, frozen=True, tag="patch"):
    """Metadata changes only through the log, so that a replay sees them too."""

    target: str
    metadata: Mapping[str, Any]


class ToolStarted(Struct, frozen=True, tag="tool_started"):
    """Written before a tool runs. With no result behind it, it tells a resumed turn what may have happened."""

    call_id: str
    name: str
    transactional: bool = False


class ToolEnded(Struct, frozen=True, tag="tool_ended"):
    """The word of something that moves money, kept at once: the results of its step come later, or never."""

    result: ToolResult


MessageEvent = Append | Replace | Remove | Truncate | Patch
TurnEvent = MessageEvent | ToolStarted | ToolEnded
"""Everything the log of a turn may hold, in order."""
