"""A cache of request prefixes: how a long conversation's last request began, in one piece.

The next request of the same conversation begins so too, and its messages need not be encoded again. Messages behind
the prefix are encoded for every request. Without the cache `us_per_history_message` in docs/performance.md misses its
goal, and without encoding whole pages `us_per_history_message_evicted` does.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from finclaw.kernel.message import Message
from finclaw.transcript.history import behind_pages

SHORT: Final = 32  # messages encoded again each time: short conversations are many
OPEN: Final = 16  # the last ones stay out: some are of this turn only, and some are marked

Part = bytes | bytearray | memoryview  # never changed once it is written


class RequestPrefix(NamedTuple):
    messages: Sequence[Message] = ()
    joined: bytes | bytearray = b""
    ends_with_assistant: bool | None = None  # for an API whose roles alternate
    pieces_hash: int = 0  # for an API whose thinking signatures depend on them
    call_ids: frozenset[str] = frozenset()  # for an API that refuses repeated ones


NO_PREFIX: Final = RequestPrefix()


class RequestPrefixCache:
    """Keyed by a conversation's first message and what else the encoding depends on. `limit` is in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._prefixes: OrderedDict[tuple[str, Hashable], RequestPrefix] = OrderedDict()

    def find(self, messages: Sequence[Message], variant: Hashable = None) -> RequestPrefix:
        """What these messages begin with. That they do is compared message by message, by identity at first."""
        if len(messages) <= SHORT:
            return NO_PREFIX
        key = (messages[0].id, variant)
        prefix = self._prefixes.get(key, NO_PREFIX)
        length = len(prefix.messages)
        if not length or len(messages) < length or messages[length - 1] is not prefix.messages[-1]:
            return NO_PREFIX
        if messages[:length] != prefix.messages:
            return NO_PREFIX
        self._prefixes.move_to_end(key)
        return prefix

    @staticmethod
    def messages_to_add(messages: Sequence[Message], prefix: RequestPrefix) -> Sequence[Message]:
        """Return the messages that a new prefix adds; none while the old one will do.

        The first passing message, what follows it and the last few before it are never added.
        """
        start = len(prefix.messages)
        if len(messages) - start <= SHORT:
            return ()
        more = messages[start:]
        behind = behind_pages(more)  # no page holds any that is for one turn only
        passing = next((place for place, message in enumerate(behind) if message.passing), len(behind))
        length = len(more) - len(behind) + passing
        if length <= SHORT:
            return ()
        return more[: length - OPEN]

    def store(self, prefix: RequestPrefix, variant: Hashable = None) -> RequestPrefix:
        if not prefix.messages:
            return prefix
        key = (prefix.messages[0].id, variant)
        self._drop(key)
        self._prefixes[key] = prefix
        self._size += len(prefix.joined)
        while self._size > self._limit:
            self._drop(next(iter(self._prefixes)))
        return prefix

    def drop(self, messages: Sequence[Message], variant: Hashable = None) -> None:
        """Drop the prefix of these messages, which have to be walked from now on."""
        if messages:
            self._drop((messages[0].id, variant))

    def _drop(self, key: tuple[str, Hashable]) -> None:
        self._size -= len(self._prefixes.pop(key, NO_PREFIX).joined)

    def clear(self) -> None:
        self._prefixes.clear()
        self._size = 0
