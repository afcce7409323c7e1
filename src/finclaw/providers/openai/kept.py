"""The bytes of messages that were sent before and may be sent again."""

from collections.abc import Callable, Sequence
from typing import Final

from finclaw.kernel.message import Block, Image, Message
from finclaw.providers.wire.trunk import Part, Trunk, Trunks
from finclaw.transcript.history import with_more

_Kept = tuple[tuple[Block, ...], bytes, bool | None]
"""The blocks, what was written for them, and whether for a model that sees images: None where there are none to see."""


class KeptMessages:
    """Two generations, so that a hit costs one look and no bookkeeping.

    When the young one is full it becomes the old one, and what nobody asked for meanwhile is gone. A message is
    known by its id and the identity of its blocks: one that was replaced under its id is written anew. So is one with
    images when a model sees them and the last one did not, or the other way round.
    """

    def __init__(
        self,
        limit: int,
        write: Callable[[Message, bool], bytes],
        write_all: Callable[[Sequence[Message], bool, bytearray], None],
    ) -> None:
        self._half: Final = limit // 2
        self._write: Final = write
        self._write_all: Final = write_all
        self._size = 0
        self._young: dict[str, _Kept] = {}
        self._old: dict[str, _Kept] = {}
        self._trunks: Final = {seeing: Trunks(limit // 4) for seeing in (True, False)}

    def written(self, messages: Sequence[Message], *, seeing: bool) -> list[Part]:
        """In pieces; that of a long conversation's beginning is one."""
        trunks = self._trunks[seeing]
        trunk = trunks.of(messages)
        if more := trunks.to_grow(messages, trunk):
            trunk = trunks.keep(self._grown(trunk, more, seeing=seeing))
        return [trunk.joined, *self._behind(trunk, messages, seeing=seeing)]

    def _grown(self, trunk: Trunk, more: Sequence[Message], *, seeing: bool) -> Trunk:
        """The trunk with these messages too, of which nothing is kept one by one."""
        joined = bytearray(trunk.joined)
        self._write_all(more, seeing, joined)
        return Trunk(with_more(trunk.messages, more), joined)

    def _behind(self, trunk: Trunk, messages: Sequence[Message], *, seeing: bool) -> list[bytes]:
        young, blind = self._young, not seeing
        written: list[bytes] = []
        for message in messages[len(trunk.messages) :]:
            kept = young.get(message.id)
            if kept is None or kept[0] is not message.blocks or kept[2] is blind:
                kept = self._keep(message, seeing)
                young = self._young
            written.append(kept[1])
        return written

    def evict(self) -> None:
        self._young, self._old, self._size = {}, {}, 0
        for trunks in self._trunks.values():
            trunks.forget()

    def _keep(self, message: Message, seeing: bool) -> _Kept:
        kept = self._old.get(message.id)
        if kept is None or kept[0] is not message.blocks or kept[2] is (not seeing):
            shows = Image in map(type, message.blocks)
            kept = (message.blocks, self._write(message, seeing), seeing if shows else None)
        self._size += len(kept[1])
        self._young[message.id] = kept
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, 0
        return kept
