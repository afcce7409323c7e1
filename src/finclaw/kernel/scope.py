"""Scopes: what one message, turn, step, tool call or delivery shows to layers and checks.

All layers of one call share its context: what an outer layer changes, the inner layers and the core see.
Metadata looks up through the scopes (call, step, turn) and writes to its own.
"""

from collections import ChainMap
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, Literal, Protocol, TypedDict, TypeVar

from msgspec import Struct

from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import Model, StopReason, ToolSpec, Usage
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import ActionButton, Inbound, Outbound, OutboundFile, ThinkingLevel, Verbosity
from finclaw.kernel.event import Emit
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import LlmMessage, Message, MessageEvent, ToolCall, ToolResult, ToolStatus, TurnEvent
from finclaw.text import Language

DraftKind = Literal["block", "final", "command", "notice", "preview"]
"""`block`: a part of an answer that is still being written, delivered by itself. `final`: the answer, or the rest of
it: whatever is added to an answer once is added here. `command`: the reply to a command. `notice`: the gateway's or an
extension's own words. `preview`: the beginning of an answer, shown while it is being written and replaced by it."""


class Draft(Struct, frozen=True):
    """A text that a person is about to see, and what it can be checked against."""

    text: str
    kind: DraftKind = "final"
    language: Language = "en"
    question: str = ""
    facts: Sequence[Fact] = ()
    """Figures that the tools of this turn gave."""
    context: Sequence[Message] = ()
    """The conversation so far, as the model knows it."""


class DraftFinding(Struct, frozen=True):
    """A place in a draft that must not be seen, and why.

    `replacement` takes its place, and nothing else changes. None: the sentences that it is part of are left out.
    """

    start: int
    end: int
    reason: str
    replacement: str | None = None


VisibilityCheck = Callable[[Draft], Sequence[DraftFinding]]

R = TypeVar("R")

OutcomeKind = Literal["answered", "command", "skipped", "joined", "refused", "stopped", "dropped", "failed", "expired"]
TurnStatus = Literal["completed", "max_steps", "aborted", "failed", "waiting_for_human", "short_circuited"]
StageResult = Literal["continue", "skip", "abort"]


class StageEntry(Struct, frozen=True, omit_defaults=True):
    """The journal's line for one stage: its result (P-05), why, and how long it took."""

    name: str
    result: StageResult
    ms: float
    reason: str = ""


class ToolUse(Struct, frozen=True):
    name: str
    status: ToolStatus


class Outcome(Struct, frozen=True, kw_only=True):
    """How a message ended. Exactly one is recorded for every accepted message."""

    kind: OutcomeKind
    reason: str = ""
    reply: str | None = None
    is_markdown: bool = False
    """Of the reply; else every sign of it is meant."""
    turn_id: str | None = None
    stages: tuple[StageEntry, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    facts: tuple[Fact, ...] = ()
    sources: tuple[str, ...] = ()
    """Of a helper's task: strangers' words that its turn had read, for whoever gave it."""
    usage: Usage = Usage()
    cost: Decimal = Decimal(0)
    duration_ms: float = 0.0
    model: str = ""
    """Which model answered, as `provider/name`: a fallback's where it stepped in. Empty where none did."""

    @property
    def success(self) -> bool:
        return self.aborted_at is None and self.kind not in ("failed", "expired", "dropped")

    @property
    def stages_executed(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.stages)

    @property
    def skipped_at(self) -> str | None:
        return self._stage_with("skip")

    @property
    def skip_reason(self) -> str | None:
        return self.reason if self.skipped_at else None

    @property
    def aborted_at(self) -> str | None:
        return self._stage_with("abort")

    @property
    def abort_reason(self) -> str | None:
        """Why it failed; also for a failure outside the stages, such as a message layer's."""
        return None if self.success else self.reason

    def _stage_with(self, how: StageResult) -> str | None:
        return next((entry.name for entry in self.stages if entry.result == how), None)


class StepResult(Struct, frozen=True, kw_only=True):
    """One model call and what its tool calls gave. `message` is the assistant's, tool calls included."""

    message: Message
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage = Usage()
    stop: StopReason = "end"
    status: Literal["completed", "failed"] = "completed"
    """`failed` ends the turn: a layer that cannot let it go on says so here, and why in `again` or the text."""
    again: str = ""
    """Why another step is needed although the model asked for no tool. A layer asks for it; the core grants it,
    as long as `max_steps` allows."""
    metadata: dict[str, Any] = {}

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.message.tool_calls

    @property
    def has_tool_calls(self) -> bool:
        return bool(self.message.tool_calls)


class TurnResult(Struct, frozen=True, kw_only=True):
    status: TurnStatus
    text: str
    asked: tuple[str, ...] = ()
    """What a person is asked to approve, as they read it; only the core fills this in, and it is then the text."""
    buttons: tuple[ActionButton, ...] = ()
    """Below that: what a press decides. Below an answer: the choices that its last tool gives."""
    tokens: tuple[str, ...] = ()
    """Control tokens that the model wrote, such as `ATTACH_DISCLAIMER`, for delivery layers: no longer in the text."""
    steps: int = 0
    tools: tuple[ToolUse, ...] = ()
    facts: tuple[Fact, ...] = ()
    files: tuple[OutboundFile, ...] = ()
    """Pictures and documents that its tools gave for the person."""
    usage: Usage = Usage()
    cost: Decimal = Decimal(0)
    messages: tuple[Message, ...] = ()
    """What the turn has added to the conversation."""
    duration_ms: float = 0.0
    """Of the turn alone; waiting for it is not counted."""
    model: str = ""
    """Which model gave the last answer, as `provider/name`."""
    metadata: dict[str, Any] = {}


class Ids(TypedDict):
    agent: str
    session: str
    inbound_id: str
    turn_id: str


class ConversationView(Protocol):
    """A conversation as layers see it: `next_messages` is always base plus events."""

    @property
    def base_messages(self) -> Sequence[Message]: ...
    @property
    def events(self) -> Sequence[TurnEvent]: ...
    @property
    def next_messages(self) -> Sequence[Message]: ...
    def to_llm_messages(self) -> Sequence[LlmMessage]:
        """What a model gets of it: roles and blocks, without ids, times, sources and metadata."""
        ...


def _outside() -> Awaitable[Any]:
    raise ExtensionError("ctx.next() was called outside its ring; call it in the layer that was given ctx")


@dataclass(slots=True, kw_only=True)
class Scope(Generic[R]):
    ids: Ids
    emit: Emit
    next: Callable[[], Awaitable[R]] = _outside
    metadata: ChainMap[str, Any] = field(default_factory=ChainMap[str, Any])


@dataclass(slots=True, kw_only=True)
class MessageContext(Scope[Outcome]):
    inbound: Inbound


@dataclass(slots=True, kw_only=True)
class TurnContext(Scope[TurnResult]):
    """How the model is asked (`model`, `thinking`, `verbosity`, `temperature`) a layer may change, also of a step."""

    agent: str
    context: Context
    input: Message
    conversation: ConversationView
    model: Model
    system: str
    tool_catalog: tuple[ToolSpec, ...]
    temperature: float | None = None
    thinking: ThinkingLevel = "off"
    verbosity: Verbosity = "medium"
    on_demand: Callable[[], frozenset[str]] = frozenset[str]
    """The names of tools that are to be found before they are shown: their group wants it so."""
    emit_message_event: Callable[[MessageEvent], None]


@dataclass(slots=True, kw_only=True)
class StepContext(Scope[StepResult]):
    turn: TurnContext
    index: int
    tool_catalog: tuple[ToolSpec, ...]

    @property
    def conversation(self) -> ConversationView:
        return self.turn.conversation

    @property
    def emit_message_event(self) -> Callable[[MessageEvent], None]:
        return self.turn.emit_message_event


@dataclass(slots=True, kw_only=True)
class ToolCallContext(Scope[ToolResult]):
    step: StepContext
    call_id: str
    tool_name: str
    args: dict[str, Any]

    @property
    def turn(self) -> TurnContext:
        return self.step.turn

    def skip(self, why: str = "Skipped") -> ToolResult:
        """The result of a call that a layer does not let through, and that is no error."""
        return ToolResult(self.call_id, self.tool_name, why, status="skipped")


@dataclass(slots=True, kw_only=True)
class DeliveryContext(Scope[Outbound]):
    inbound: Inbound
    outbound: Outbound
    turn: TurnResult | None
    kind: DraftKind = "final"
    """What is delivered. Whatever belongs to an answer once, such as a disclaimer, is added to the `final`."""

    @property
    def is_sent_in_blocks(self) -> bool:
        """All that the answer says was sent in blocks before, so that only what is added to it is left to say."""
        return self.turn is not None and not self.outbound.text.strip() and bool(self.turn.text.strip())
