"""Everything an observer may see. An observer can change nothing, and its failure is logged, never raised."""

import logging
from collections.abc import Callable
from typing import ClassVar, Literal

from msgspec import Struct

log = logging.getLogger(__name__)


class Event(Struct, frozen=True, kw_only=True):
    """`session` and the ids say which message, turn and call it belongs to; they are empty where none applies."""

    name: ClassVar[str] = "event"
    session: str = ""
    inbound_id: str = ""
    turn_id: str = ""


class MessageAccepted(Event, frozen=True, kw_only=True):
    """Also told when a start takes up what the last stop left."""

    name: ClassVar[str] = "message:accepted"
    ticket: int
    channel: str
    account: str
    conversation: str


class StageEnded(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "message:stage"
    stage: str
    result: str
    duration_ms: float


class MessageEnded(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "message:outcome"
    outcome: str
    reason: str = ""
    reply: str | None = None


class ExecutionStarted(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "execution:start"
    resumed: bool = False


class StepStarted(Event, frozen=True, kw_only=True):
    """The seeds' `execution:turn`: what they call a turn is a step here."""

    name: ClassVar[str] = "execution:turn"
    step: int


class ExecutionCompleted(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "execution:complete"
    status: str
    steps: int
    duration_ms: float


class TextStreamed(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "stream:text_delta"
    text: str


class PreviewUpdated(Event, frozen=True, kw_only=True):
    """Text that has passed the gate for previews: what a person may see of an answer that is being written.

    It belongs at position `at` of the preview; everything behind that is no longer true. An answer that begins
    anew begins at 0.
    """

    name: ClassVar[str] = "preview_update"
    at: int
    text: str


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


class ShortCircuited(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "ring:short_circuit"
    ring: str
    layer: str


class MessageTargetMissing(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "session:event:missing_target"
    target: str
    action: str


class UnitMoved(Event, frozen=True, kw_only=True):
    name: ClassVar[str] = "delivery:unit"
    unit_id: str
    state: Literal["planned", "sending", "sent", "unknown", "dead", "expired"]
    reason: str = ""


Emit = Callable[[Event], None]
Observer = Callable[[Event], None]


class EventStream:
    """One stream for everybody. `emit` never raises and never waits."""

    def __init__(self) -> None:
        self._observers: tuple[Observer, ...] = ()

    def observe(self, observer: Observer) -> Callable[[], None]:
        self._observers = (*self._observers, observer)

        def stop() -> None:
            self._observers = tuple(each for each in self._observers if each is not observer)

        return stop

    def emit(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer(event)
            except Exception:  # an observer is a stranger; the message must not pay for it
                log.exception("observer failed on %s", event.name)
