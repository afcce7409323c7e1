"""Events: everything an observer may see. An observer can change nothing, and its failure is logged, never raised."""

from collections.abc import Callable
from decimal import Decimal
from typing import ClassVar, Literal

from msgspec import Struct

from finclaw.kernel.chunk import Usage


class Event(Struct, frozen=True, kw_only=True):
    """Agent, session and the ids say which message, turn and call it belongs to; empty where none applies."""

    name: ClassVar[str] = "event"
    agent: str = ""
    session: str = ""
    inbound_id: str = ""
    turn_id: str = ""


class StageEnded(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "message:stage"
    stage: str
    result: str
    duration_ms: float


class MessageAccepted(Event, frozen=True, kw_only=True):
    """Also told when a start takes up what the last stop left."""

    name: ClassVar[str] = "message:accepted"
    ticket: int
    channel: str
    account: str
    conversation: str
    unasked: bool = False
    """Nobody wrote it (see `Inbound.unasked`)."""


class MessageEnded(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "message:outcome"
    outcome: str
    reason: str = ""
    reply: str | None = None
    is_markdown: bool = False
    """The reply is formatted; else it is shown to the letter."""


class QueueChanged(Event, frozen=True, kw_only=True):
    """A message waits for its turn, joined another's turn, or was left out of a line that was full."""

    name: ClassVar[str] = "queue:change"
    change: Literal["waiting", "joined", "dropped"]
    mode: str = ""
    origin: str = ""
    position: int = 0  # how many are before it
    other: str = ""  # the message whose turn it joined
    waits_for: str = ""  # `turn` in its session, a `seat` in the pool, or less of its sender's `share` of the seats


class MessageStalled(Event, frozen=True, kw_only=True):
    """A turn has shown no sign of life for a while. `aborted`: it was stopped, and its sender told."""

    name: ClassVar[str] = "message:stalled"
    silent_s: float
    aborted: bool


# ── one turn ────────────────────────────────────────────────────────────────────────────────────────────────


class ExecutionStarted(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "execution:start"
    resumed: bool = False


class StepStarted(Event, frozen=True, kw_only=True):
    """The seeds' `execution:turn`: what they call a turn is a step here."""

    name: ClassVar[str] = "execution:turn"
    step: int


class ToolUsed(Event, frozen=True, kw_only=True):
    """One tool use is over and its result is the model's."""

    name: ClassVar[str] = "execution:tool_use"
    call_id: str
    tool: str
    status: str
    duration_ms: float


class ExecutionCompleted(Event, frozen=True, kw_only=True):
    """Pairs with every start, whatever happened. The duration does not include waiting for the turn."""

    name: ClassVar[str] = "execution:complete"
    status: str
    steps: int
    duration_ms: float
    usage: Usage = Usage()


class StateChanged(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "stream:state_change"
    before: str
    after: str


class TextStreamed(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "stream:text_delta"
    text: str


class ToolUseStarted(Event, frozen=True, kw_only=True):
    """The model asked for a tool; whether it runs is decided later."""

    name: ClassVar[str] = "stream:tool_use_start"
    call_id: str
    tool: str


class ToolUseEnded(Event, frozen=True, kw_only=True):
    """The result that the model will get."""

    name: ClassVar[str] = "stream:tool_use_end"
    call_id: str
    tool: str
    status: str


class MessageCompleted(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "stream:message_complete"
    message_id: str
    step: int


class ModelRetried(Event, frozen=True, kw_only=True):
    """The model did not answer and is asked once more: after a pause, with the key of the name `credential`,
    or in a plainer way.
    """

    name: ClassVar[str] = "model:retry"
    model: str
    error: str
    attempt: int
    wait_s: float
    credential: str = ""
    """Empty where the key stays the same."""
    plain: bool = False
    """Asked without what the model thought before, which may have been what was refused."""


class ModelFellBack(Event, frozen=True, kw_only=True):
    """The chosen model does not answer, and another is asked instead, for this call only."""

    name: ClassVar[str] = "model:fallback"
    model: str
    instead: str
    error: str


class BudgetWarned(Event, frozen=True, kw_only=True):
    """Most of what may be spent has been: told once for each day, month and person."""

    name: ClassVar[str] = "budget:warning"
    limit: str
    limit_usd: Decimal
    spent_usd: Decimal


class BudgetRefused(Event, frozen=True, kw_only=True):
    """A model was not asked because that might have cost more than `limit`, a setting, leaves."""

    name: ClassVar[str] = "budget:exceeded"
    model: str
    limit: str
    limit_usd: Decimal
    spent_usd: Decimal
    needed_usd: Decimal


class UsageUpdated(Event, frozen=True, kw_only=True):
    """Of the whole turn so far; `context` is the size of the last request alone."""

    name: ClassVar[str] = "stream:usage_update"
    usage: Usage
    context: int


class StreamFailed(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "stream:error"
    error: str


class StreamDone(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "stream:done"
    status: str


class PreviewUpdated(Event, frozen=True, kw_only=True):
    """Text that has passed the gate for previews: what a person may see of an answer that is being written.

    It belongs at position `at` of the preview; everything behind that is no longer true. An answer that begins
    anew begins at 0.
    """

    name: ClassVar[str] = "preview_update"
    at: int
    text: str


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────


class ToolRegistered(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "tool:register"
    tool: str
    group: str
    source: str


class ToolUnregistered(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "tool:unregister"
    tool: str


class ToolStartedEvent(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "tool:execute:start"
    call_id: str
    tool: str


class ToolEndedEvent(Event, frozen=True, kw_only=True):
    """Pairs with every start, whatever happened."""

    name: ClassVar[str] = "tool:execute:end"
    call_id: str
    tool: str
    status: str
    duration_ms: float


class ToolFailedEvent(Event, frozen=True, kw_only=True):
    """Told before the end of a call that gave an error."""

    name: ClassVar[str] = "tool:execute:error"
    call_id: str
    tool: str
    error: str


class ToolLooped(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "tool:loop"
    call_id: str
    tool: str
    repeats: int
    action: Literal["warn", "refuse", "end"]


class PolicyJudged(Event, frozen=True, kw_only=True):
    """Whether a call may run; `stage` is the one that decided. `sensitive`: what is not denied reads sensitive data."""

    name: ClassVar[str] = "tool:policy:verdict"
    call_id: str
    tool: str
    verdict: str
    stage: str
    reason: str
    sensitive: bool = False


class PolicyDenied(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "tool:policy:deny"
    call_id: str
    tool: str
    reason: str


Circuit = Literal["closed", "open", "half_open"]
"""Open: nobody is let through. Half open: one is, to see whether the others may follow."""


class ToolTimedOut(Event, frozen=True, kw_only=True):
    """Told before the end of a call that took longer than its tool may; `timeout` is in seconds."""

    name: ClassVar[str] = "tool:execute:timeout"
    call_id: str
    tool: str
    timeout: float


class CircuitChanged(Event, frozen=True, kw_only=True):
    """`tool` is the one whose call showed it; all tools with this upstream share the change."""

    name: ClassVar[str] = "tool:circuit:change"
    upstream: str
    tool: str
    before: Circuit
    after: Circuit


ApprovalChange = Literal[
    "asked", "notified", "reminded", "approved", "denied", "expired", "run", "failed", "drifted", "revoked", "lapsed"
]
"""Notified: an approver in another chat has the card. Drifted: prices moved since the card, and it is asked for anew.
Revoked: a standing yes was taken back. Lapsed: whoever gave one (`by`) may no longer do so; it is asked for anew."""


class ApprovalChanged(Event, frozen=True, kw_only=True):
    """The ids are those of the question, whenever and wherever the change came; so is the place.

    `by` is who brought it about: a person's identity, or the turn in which the action ran or failed.
    """

    name: ClassVar[str] = "approval:change"
    approval_id: str
    call_id: str
    tool: str
    change: ApprovalChange
    by: str = ""
    channel: str
    account: str
    conversation: str


# ── rings, sessions, delivery ───────────────────────────────────────────────────────────────────────────────


class ShortCircuited(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "ring:short_circuit"
    ring: str
    layer: str


class MessageTargetMissing(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "session:event:missing_target"
    target: str
    action: str


class LockAcquired(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "session:lock:acquire"
    owner: str
    fence: int


class LockReleased(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "session:lock:release"
    owner: str


class LockTakenOver(Event, frozen=True, kw_only=True):
    """The former owner died holding it."""

    name: ClassVar[str] = "session:lock:stale"
    owner: str
    former: str


class SessionRepaired(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "session:repair"
    findings: tuple[str, ...]


class SessionsErased(Event, frozen=True, kw_only=True):
    """Whoever holds copies of what was said there drops them."""

    name: ClassVar[str] = "session:erased"
    sessions: tuple[str, ...]


class StoreHealthChanged(Event, frozen=True, kw_only=True):
    """The store fails to write, or (an empty `why`) writes again. What was accepted waits, and is not lost."""

    name: ClassVar[str] = "store:health"
    why: str  # see `StoreFailed.why`


class ContextStatusChanged(Event, frozen=True, kw_only=True):
    """Told when the status changes, in either direction. A `ratio` of 1 is a full window."""

    name: ClassVar[str] = "context:window:status"
    status: Literal["safe", "warning", "critical", "exceeded"]
    ratio: float


class ContextThresholdCrossed(Event, frozen=True, kw_only=True):
    """Told once when the ratio reaches a threshold, and again only after it has been below it."""

    name: ClassVar[str] = "execution:context_threshold"
    ratio: float
    threshold: float


class ContextCompacted(Event, frozen=True, kw_only=True):
    """Tokens of the messages, before and after. Not `fits`: what may not be touched is too large by itself."""

    name: ClassVar[str] = "context:compact"
    strategy: str
    before: int
    after: int
    fits: bool = True


class CompactionFellBack(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "context:compact:fallback"
    from_strategy: str
    to_strategy: str


class OutboxItemMoved(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "delivery:unit"
    unit_id: str
    state: Literal["planned", "sending", "sent", "unknown", "dead", "expired", "superseded"]
    reason: str = ""


Emit = Callable[[Event], None]
Observer = Callable[[Event], None]


def all_events() -> tuple[type[Event], ...]:
    """Every kind of event there is. Each has one name, and no two share one."""
    return tuple(Event.__subclasses__())
