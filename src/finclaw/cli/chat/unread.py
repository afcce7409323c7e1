"""The unsolicited messages of a conversation, each shown once, also across chats and restarts."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from finclaw.cli.chat.event_queue import CaughtUp, Item, News, UnsolicitedMessage
from finclaw.cli.write_file import write_file
from finclaw.errors import ConfigError

FILE_NAME: Final = "chat_seen"


class _Mark(msgspec.Struct):
    after: str | None = None
    told: list[str] = []
    """What was shown behind that place."""


_read = msgspec.json.Decoder(dict[str, _Mark]).decode


class ReadMarker:
    """A marker of how far a conversation was read, in the state or, without one, in memory only. It never fails."""

    def __init__(self, conversation: str, state: Path | None = None) -> None:
        self._conversation = conversation
        self._path = None if state is None else state / FILE_NAME
        self._mark = self._all().get(conversation, _Mark())

    @property
    def after(self) -> str | None:
        """The place up to which everything was shown; None before the first chat."""
        return self._mark.after

    def tell(self, inbound_id: str) -> bool:
        """Mark a message as shown; return whether it had not been."""
        if inbound_id in self._mark.told:
            return False
        self._mark.told.append(inbound_id)
        self._keep()
        return True

    def move(self, after: str, behind_the_old: Collection[str]) -> None:
        """Note that everything up to this place was shown, and of what followed the old place the rest."""
        told = [inbound_id for inbound_id in self._mark.told if inbound_id in behind_the_old]
        if (after, told) != (self._mark.after, self._mark.told):
            self._mark = _Mark(after, told)
            self._keep()

    def _all(self) -> dict[str, _Mark]:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):  # not there yet, cut short or edited
            return {} if self._path is None else _read(self._path.read_bytes())
        return {}

    def _keep(self) -> None:
        if self._path is not None:
            with suppress(ConfigError):
                marks = self._all() | {self._conversation: self._mark}
                write_file(self._path, msgspec.json.encode(marks), force=True)


class Unread:
    """A filter of unsolicited messages to this very session, in the order of their coming.

    Others may share the conversation's name, and what they ask themselves is answered to them.
    """

    def __init__(self, session: str, marker: ReadMarker) -> None:
        self._session = session
        self._marker = marker

    def take(self, item: Item) -> UnsolicitedMessage | None:
        """Return the message that is to be shown because of this item, if there is one."""
        match item:
            case UnsolicitedMessage():
                message = item
            case News(type="outcome", data={"unasked": True, "session": self._session} as data):
                is_markdown = bool(data.get("is_markdown"))
                message = UnsolicitedMessage(str(data["inbound_id"]), str(data["reply"] or ""), is_markdown)
            case CaughtUp(after=after, told=told):
                self._marker.move(after, told)
                return None
            case _:
                return None
        return message if message.text and self._marker.tell(message.inbound_id) else None
