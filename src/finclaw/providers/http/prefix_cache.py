"""A cache of request prefixes: how a long conversation's last request began, in one piece.

The next request of the same conversation begins so too, and its messages need not be walked again.
"""

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
"""A piece of a request's body. Nobody changes one that has been written."""


class RequestPrefix(NamedTuple):
    """The first messages of a conversation and their joined encoding."""

    messages: Sequence[Message] = ()
    joined: bytes | bytearray = b""
    ends_with_assistant: bool | None = None
    """Whether the assistant spoke last in it, for an API whose roles alternate."""
    pieces_hash: int = 0
    """A hash of the pieces that were joined, for an API whose thinking signatures depend on them."""


NO_PREFIX: Final = RequestPrefix()


class RequestPrefixCache:
    """A cache by a conversation's first message, the least recently used dropped first. `limit` is in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._prefixes: OrderedDict[str, RequestPrefix] = OrderedDict()

    @property
    def size(self) -> int:
        """In bytes."""
        return self._size

    def find(self, messages: Sequence[Message]) -> RequestPrefix:
        """What these messages begin with. That they do is compared message by message, by identity at first."""
        prefix = self._prefixes.get(messages[0].id) if len(messages) > SHORT else None
        if prefix is None:
            return NO_PREFIX
        length = len(prefix.messages)
        if len(messages) < length or messages[length - 1] is not prefix.messages[-1]:
            return NO_PREFIX
        if messages[:length] != prefix.messages:
            return NO_PREFIX
        self._prefixes.move_to_end(messages[0].id)
        return prefix

    @staticmethod
    def length_to_store(length: int, prefix: RequestPrefix) -> int:
        """How many messages a new prefix should hold, of so many; 0 while the old one will do."""
        return length - OPEN if length - len(prefix.messages) > SHORT else 0

    @classmethod
    def messages_to_add(cls, messages: Sequence[Message], prefix: RequestPrefix) -> Sequence[Message]:
        """The messages behind the prefix that a new one should hold too: up to the first that is for one turn only."""
        more = messages[len(prefix.messages) : cls.length_to_store(len(messages), prefix)]
        behind = behind_pages(more)  # no page holds any
        passing = next((place for place, message in enumerate(behind) if message.passing), None)
        return more if passing is None else with_pages(pages_of(more), behind[:passing])

    def store(self, prefix: RequestPrefix) -> RequestPrefix:
        if prefix is NO_PREFIX:
            return prefix
        name = prefix.messages[0].id
        former = self._prefixes.pop(name, NO_PREFIX)
        self._prefixes[name] = prefix
        self._size += len(prefix.joined) - len(former.joined)
        while self._size > self._limit:
            _, oldest = self._prefixes.popitem(last=False)
            self._size -= len(oldest.joined)
        return prefix

    def drop(self, messages: Sequence[Message]) -> None:
        """Drop the prefix of these messages, which have to be walked from now on."""
        gone = self._prefixes.pop(messages[0].id, NO_PREFIX) if messages else NO_PREFIX
        self._size -= len(gone.joined)

    def clear(self) -> None:
        self._prefixes.clear()
        self._size = 0
