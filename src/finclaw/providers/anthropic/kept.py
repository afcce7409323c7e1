"""The bytes of messages that were sent before and may be sent again."""

import re
from collections.abc import Sequence
from typing import Final

from finclaw.kernel.message import Block, Image, Message
from finclaw.providers.anthropic.message import write_blocks
from finclaw.providers.wire.trunk import Trunks

OURS: Final = b']},{"role":"user","content":['
THEIRS: Final = b']},{"role":"assistant","content":['
"""What ends the message before and opens this one: results and words of the system reach this API as the user's."""

Kept = tuple[tuple[Block, ...], bytes, bool, bool | None]
"""The blocks, what was written for them, whether they are the assistant's, and whether it was written for a model that
sees images: None where there are none to see."""

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


class KeptMessages:
    """Two generations, so that a hit in `young` costs one look and no bookkeeping.

    When the young one is full it becomes the old one, and what nobody asked for meanwhile is gone. A message is
    known by its id and the identity of its blocks: one that was replaced under its id is written anew. So is one with
    images when a model sees them and the last one did not, or the other way round. Without `thoughts` none are written.

    Suspected are messages with a call whose id is illegal or that another message has as well, of this conversation
    or of another. No request with one of them goes out unseen, and no request without has to be looked through.
    """

    def __init__(self, limit: int, *, thoughts: bool = True) -> None:
        self._half = limit // 2
        self._thoughts = thoughts
        self._reader = ""
        self.trunks: dict[bool, Trunks] = {seeing: Trunks(limit // 4) for seeing in (True, False)}
        """Of long conversations, for models that see images and for those that do not."""
        self.forget()

    def forget(self) -> None:
        self.young: dict[str, Kept] = {}
        self._old: dict[str, Kept] = {}
        self._size = 0
        self._owners: dict[str, str] = {}
        self._old_owners: dict[str, str] = {}
        self._suspects: set[str] = set()
        self._old_suspects: set[str] = set()
        self.generation = 0
        for trunks in self.trunks.values():
            trunks.forget()

    def read_by(self, provider: str) -> None:
        """Who reads what is written from now on; what was written for another is of no use."""
        if provider != self._reader:
            self._reader = provider
            self.forget()

    def keep(self, message: Message, *, seeing: bool) -> Kept:
        """For a message that is not in `young`, which may be another dictionary afterwards."""
        kept = self._old.get(message.id)
        if kept is None or kept[0] is not message.blocks or kept[3] is (not seeing):
            kept = self._write(message, seeing=seeing)
        self._suspect(message)
        self.young[message.id] = kept
        self._size += len(kept[1])
        if self._size > self._half:
            self._turn()
        return kept

    @property
    def suspects(self) -> bool:
        return bool(self._suspects or self._old_suspects)

    def suspects_any(self, messages: Sequence[Message]) -> bool:
        if not self.suspects:
            return False
        return any(each.id in self._suspects or each.id in self._old_suspects for each in messages)

    def _turn(self) -> None:
        self._old, self.young, self._size = self.young, {}, 0
        self._old_owners, self._owners = self._owners, {}
        self._old_suspects, self._suspects = self._suspects, set()
        self.generation += 1

    def _suspect(self, message: Message) -> None:
        calls = message.tool_calls
        if not calls:
            return
        for call in calls:
            owner = self._owners.get(call.id) or self._old_owners.get(call.id) or message.id
            if owner != message.id or not _LEGAL_ID.fullmatch(call.id):
                self._suspects.add(message.id)
            self._owners[call.id] = owner
        if len({call.id for call in calls}) < len(calls):
            self._suspects.add(message.id)

    def _write(self, message: Message, *, seeing: bool) -> Kept:
        is_theirs = message.role == "assistant"
        blocks = write_blocks(message, seeing=seeing, provider=self._reader, thoughts=self._thoughts)
        opening = THEIRS if is_theirs else OURS
        shows = Image in map(type, message.blocks)
        return message.blocks, opening + blocks if blocks else b"", is_theirs, seeing if shows else None
