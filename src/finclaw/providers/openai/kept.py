"""The bytes of messages that were sent before and may be sent again."""

from collections.abc import Callable, Iterable
from typing import Final

from finclaw.kernel.message import Block, Message

_Kept = tuple[tuple[Block, ...], bytes]


class KeptMessages:
    """Two generations, so that a hit costs one look and no bookkeeping.

    When the young one is full it becomes the old one, and what nobody asked for meanwhile is gone. A message is
    known by its id and the identity of its blocks: one that was replaced under its id is written anew.
    """

    def __init__(self, limit: int, write: Callable[[Message], bytes]) -> None:
        self._half: Final = limit // 2
        self._write: Final = write
        self._size = 0
        self._young: dict[str, _Kept] = {}
        self._old: dict[str, _Kept] = {}

    def written(self, messages: Iterable[Message]) -> list[bytes]:
        young = self._young
        written: list[bytes] = []
        for message in messages:
            kept = young.get(message.id)
            if kept is None or kept[0] is not message.blocks:
                kept = self._keep(message)
                young = self._young
            written.append(kept[1])
        return written

    def evict(self) -> None:
        self._young, self._old, self._size = {}, {}, 0

    def _keep(self, message: Message) -> _Kept:
        kept = self._old.get(message.id)
        if kept is None or kept[0] is not message.blocks:
            kept = (message.blocks, self._write(message))
        self._size += len(kept[1])
        self._young[message.id] = kept
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, 0
        return kept
