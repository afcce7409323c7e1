"""What the gateway tells this very session without having been asked: each message once, in the order of its coming."""

from finclaw.cli.chat.bookmark import Bookmark
from finclaw.cli.chat.feed import CaughtUp, Item, News, Told


class Letterbox:
    """Others may share the conversation's name, and what they ask themselves is answered to them."""

    def __init__(self, session: str, bookmark: Bookmark) -> None:
        self._session = session
        self._bookmark = bookmark

    def take(self, item: Item) -> Told | None:
        """What is to be shown, if this brought anything."""
        match item:
            case Told(inbound_id=inbound_id, text=text):
                return self._told(inbound_id, text)
            case News(type="outcome", data={"unasked": True, "session": self._session} as data):
                return self._told(str(data["inbound_id"]), str(data["reply"] or ""))
            case CaughtUp(after=after, told=told):
                self._bookmark.move(after, told)
            case _:
                pass
        return None

    def _told(self, inbound_id: str, text: str) -> Told | None:
        return Told(inbound_id, text) if text and self._bookmark.tell(inbound_id) else None
