"""A queue of events for the chat: what the gateway sends and what the person does."""

from queue import Empty, SimpleQueue
from typing import Any

from msgspec import Struct

from finclaw.web.view import MessageView


class Taken(Struct, frozen=True):
    """The message is on the gateway's disk. `duplicate`: it had been before, so its events may have passed."""

    message_id: str
    inbound_id: str
    duplicate: bool = False


class Refused(Struct, frozen=True):
    """The gateway did not take the message. `final`: it is not sent again."""

    message_id: str
    reason: str
    final: bool


class News(Struct, frozen=True):
    """An event of the live stream."""

    type: str
    data: dict[str, Any]


class Seen(Struct, frozen=True):
    """A message looked up by its id, or the conversation's latest; None if there is none."""

    view: MessageView | None


class UnsolicitedMessage(Struct, frozen=True):
    """A message that the gateway sends unsolicited."""

    inbound_id: str
    text: str
    is_markdown: bool = False


class CaughtUp(Struct, frozen=True):
    """A new position in the conversation: everything up to it was delivered; `told` are those after the old one."""

    after: str
    told: frozenset[str] = frozenset()


class NotStopped(Struct, frozen=True):
    """The gateway will not stop the message."""

    inbound_id: str
    reason: str


class Connected(Struct, frozen=True):
    """The gateway answers."""


class Lost(Struct, frozen=True):
    """The gateway does not answer; the reason may be empty."""

    reason: str = ""


class Interrupted(Struct, frozen=True):
    """A Ctrl-C on an empty line or during an answer, or Esc. `leaves`: where nothing can be stopped, as Ctrl-C does."""

    leaves: bool = True


class TypedLine(Struct, frozen=True):
    """A message that was sent with Enter."""

    text: str


GatewayItem = Taken | Refused | News | Seen | UnsolicitedMessage | CaughtUp | NotStopped | Connected | Lost
Item = GatewayItem | Interrupted | TypedLine


class EventQueue:
    """A queue filled from any thread and from signal handlers (`SimpleQueue.put` may interrupt itself)."""

    def __init__(self) -> None:
        self._items: SimpleQueue[Item] = SimpleQueue()
        self.put = self._items.put
        self.is_empty = self._items.empty

    def get(self, seconds: float) -> Item | None:
        """Return the next item; None if there is none within the seconds."""
        try:
            return self._items.get(timeout=seconds) if seconds > 0 else self._items.get_nowait()
        except Empty:
            return None
