"""A queue of events for the chat: what the gateway sends, and what the person does while an answer is awaited."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from msgspec import Struct

from finclaw.cli.chat.commands import ShownIds
from finclaw.web.view import MessageView


class Taken(Struct, frozen=True):
    """The message is on the gateway's disk. `duplicate`: it had been before, so its events may have passed."""

    message_id: str
    inbound_id: str
    duplicate: bool = False


class Refused(Struct, frozen=True):
    """The gateway did not take the message. `final`: sending it again will not help, so it is not."""

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
    """A new place in the conversation: everything up to it was delivered; `told` are those after the old place."""

    after: str
    told: frozenset[str] = frozenset()


class NotStopped(Struct, frozen=True):
    """The gateway will not stop the message."""

    inbound_id: str
    reason: str


class Connected(Struct, frozen=True):
    """The gateway answers."""


class Lost(Struct, frozen=True):
    """The gateway does not answer. `reason` says more where there is more to say."""

    reason: str = ""


class Interrupted(Struct, frozen=True):
    """A Ctrl-C or Esc while an answer was awaited."""

    leaves: bool = True
    """Whether it leaves where nothing is to be stopped, as Ctrl-C does and Esc does not."""


class TypedLine(Struct, frozen=True):
    """A message that was typed, and sent with Enter, while an answer was awaited."""

    text: str


class DraftChanged(Struct, frozen=True):
    """The message that is being typed while an answer is awaited."""

    text: str
    waits: bool = False
    """Whether it waits for the prompt, with the keys behind it."""


GatewayItem = Taken | Refused | News | Seen | UnsolicitedMessage | CaughtUp | NotStopped | Connected | Lost
Item = GatewayItem | Interrupted | TypedLine | DraftChanged


class EventQueue:
    """A queue filled from any thread and from signal handlers (`SimpleQueue.put` may interrupt itself); read by one."""

    def __init__(self) -> None:
        self._items: SimpleQueue[Item] = SimpleQueue()
        self.ids = ShownIds()
        """Of approvals, for whoever completes what is typed."""
        self.on_news: Callable[[], None] | None = None
        """Called, in the filling thread, after each item; an editor uses it to show news above its prompt."""

    def put(self, item: Item) -> None:
        self._note_ids(item)
        self._items.put(item)
        if (tell := self.on_news) is not None:
            tell()

    def _note_ids(self, item: Item) -> None:
        match item:
            case UnsolicitedMessage(text=text):
                self.ids.note(text)
            case News(type="outcome", data={"reply": str(reply)}):
                self.ids.note(reply)
            case News(type="approval", data=data):
                self.ids.note_change(data)
            case Seen(view=MessageView(reply=str(reply))):
                self.ids.note(reply)
            case _:
                pass

    @property
    def empty(self) -> bool:
        return self._items.empty()

    def get(self, seconds: float) -> Item | None:
        """The next item; None if there is none within the seconds."""
        try:
            return self._items.get(timeout=seconds) if seconds > 0 else self._items.get_nowait()
        except Empty:
            return None
