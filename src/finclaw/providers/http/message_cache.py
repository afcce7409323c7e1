"""A cache of encoded messages: the bytes of those that were sent before and may be sent again."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from finclaw.kernel.message import Block, Image, Message
from finclaw.providers.http.prefix_cache import RequestPrefixCache

Entry = tuple[tuple[Block, ...], bytes, bool | None]
"""The blocks, their encoding, and whether it is for a model that sees images: None where there are none to see."""


class EncodedMessageCache:
    """A cache of two generations, so that a hit in the young one costs one look and no bookkeeping.

    When the young generation is full it becomes the old one, and what nobody asked for meanwhile is gone. A message is
    known by its id and the identity of its blocks: one that was replaced under its id is encoded anew. So is one with
    images when a model sees them and the last one did not, or the other way round.

    `limit` is in bytes. `encode` takes a message and whether the model sees images.
    """

    def __init__(self, limit: int, encode: Callable[[Message, bool], bytes]) -> None:
        self._half: Final = limit // 2
        self._encode: Final = encode
        self.prefixes: Final[Mapping[bool, RequestPrefixCache]] = {
            seeing: RequestPrefixCache(limit // 4) for seeing in (True, False)
        }
        """The beginnings of long conversations, for models that see images and for those that do not."""
        self.young: dict[str, Entry] = {}
        self._old: dict[str, Entry] = {}
        self._young_size = self._old_size = 0
        self.generation = 0

    @property
    def size(self) -> int:
        """In bytes, as far as they are counted."""
        return self._young_size + self._old_size + sum(each.size for each in self.prefixes.values())

    def encode_all(self, messages: Sequence[Message], *, seeing: bool) -> list[bytes]:
        """One encoding for each message, empty for what cannot be sent."""
        young, blind = self.young, not seeing
        encoded: list[bytes] = []
        for message in messages:
            entry = young.get(message.id)
            if entry is None or entry[0] is not message.blocks or entry[2] is blind:
                entry = self._add(message, seeing=seeing)
                young = self.young
            encoded.append(entry[1])
        return encoded

    def clear(self) -> None:
        self.young, self._young_size = {}, 0
        self.generation = 0
        self.clear_old()
        self.clear_prefixes()

    def clear_old(self) -> None:
        self._old, self._old_size = {}, 0

    def clear_prefixes(self) -> None:
        for prefixes in self.prefixes.values():
            prefixes.clear()

    def _add(self, message: Message, *, seeing: bool) -> Entry:
        """Add what is not in the young generation, which may be another dictionary afterwards."""
        entry = self._old.get(message.id)
        if entry is None or entry[0] is not message.blocks or entry[2] is (not seeing):
            has_images = Image in map(type, message.blocks)
            entry = (message.blocks, self._encode(message, seeing), seeing if has_images else None)
        self.young[message.id] = entry
        self._young_size += len(entry[1])
        if self._young_size > self._half:
            self._rotate()
        return entry

    def _rotate(self) -> None:
        self._old, self.young = self.young, {}
        self._old_size, self._young_size = self._young_size, 0
        self.generation += 1
