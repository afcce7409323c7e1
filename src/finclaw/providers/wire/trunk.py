"""How a long conversation's last request began, in one piece: the next one begins so too, and need not be walked."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from finclaw.kernel.message import Message
from finclaw.transcript.history import behind_pages, pages_of, with_pages

SHORT: Final = 64
"""Messages that are joined anew each time: short conversations are many, and keep nothing twice."""
OPEN: Final = 16
"""The last ones stay out: some are of this turn only, and some are marked."""


Part = bytes | bytearray | memoryview
"""Of a request. Nobody changes one that has been written."""


class Trunk(NamedTuple):
    messages: Sequence[Message] = ()
    joined: bytes | bytearray = b""
    last: bool | None = None
    """Whether the assistant spoke last in it, for who has to know."""
    chain: int = 0
    """What stands for the pieces it was joined from, for who has to know."""


NO_TRUNK: Final = Trunk()


class Trunks:
    """By a conversation's first message, the longest unused gone first. `limit` is in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[str, Trunk] = OrderedDict()

    def of(self, messages: Sequence[Message]) -> Trunk:
        """What these messages begin with. That they do is compared message by message, by identity at first."""
        trunk = self._kept.get(messages[0].id) if len(messages) > SHORT else None
        if trunk is None:
            return NO_TRUNK
        length = len(trunk.messages)
        if len(messages) < length or messages[length - 1] is not trunk.messages[-1]:
            return NO_TRUNK
        if messages[:length] != trunk.messages:
            return NO_TRUNK
        self._kept.move_to_end(messages[0].id)
        return trunk

    @staticmethod
    def grown(length: int, trunk: Trunk) -> int:
        """How many messages a new trunk should hold, of so many; 0 while the old one does."""
        return length - OPEN if length - len(trunk.messages) > SHORT else 0

    @classmethod
    def to_grow(cls, messages: Sequence[Message], trunk: Trunk) -> Sequence[Message]:
        """The messages behind the trunk that a new one should hold too: up to the first that is for one turn only."""
        more = messages[len(trunk.messages) : cls.grown(len(messages), trunk)]
        behind = behind_pages(more)  # no page holds any
        passing = next((place for place, message in enumerate(behind) if message.passing), None)
        return more if passing is None else with_pages(pages_of(more), behind[:passing])

    def keep(self, trunk: Trunk) -> Trunk:
        if trunk is NO_TRUNK:
            return trunk
        name = trunk.messages[0].id
        former = self._kept.pop(name, NO_TRUNK)
        self._kept[name] = trunk
        self._size += len(trunk.joined) - len(former.joined)
        while self._size > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest.joined)
        return trunk

    def drop(self, messages: Sequence[Message]) -> None:
        """That of these messages, which have to be walked from now on."""
        gone = self._kept.pop(messages[0].id, NO_TRUNK) if messages else NO_TRUNK
        self._size -= len(gone.joined)

    def forget(self) -> None:
        self._kept.clear()
        self._size = 0
