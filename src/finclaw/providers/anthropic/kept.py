"""The bytes of messages that were sent before and may be sent again."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from finclaw.kernel.message import Block, Image, Message
from finclaw.providers.anthropic.message import write_blocks
from finclaw.providers.wire.trunk import Trunk, Trunks
from finclaw.transcript.history import said_in, with_more

OURS: Final = b']},{"role":"user","content":['
THEIRS: Final = b']},{"role":"assistant","content":['
"""What ends the message before and opens this one: results and words of the system reach this API as the user's."""
NONE_BEFORE: Final = b"]},"
"""The part that the first message does without: none has to be ended."""

_THEY: Final = b"assistant"
_TEXT: Final = b'{"type":"text","text":'
_OUR_TEXT: Final = OURS + _TEXT
_THEIR_TEXT: Final = THEIRS + _TEXT
_GO_ON: Final = b"," + _TEXT

Kept = tuple[tuple[Block, ...], bytes, bool, bool | None]
"""The blocks, what was written for them, whether they are the assistant's, and whether it was written for a model that
sees images: None where there are none to see."""

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


class _Trunks(Trunks):
    @property
    def size(self) -> int:
        return self._size


class KeptMessages:
    """Two generations, so that a hit in `young` costs one look and no bookkeeping.

    When the young one is full it becomes the old one, and what nobody asked for meanwhile is gone. A message is
    known by its id and the identity of its blocks: one that was replaced under its id is written anew. So is one with
    images when a model sees them and the last one did not, or the other way round. Without `thoughts` none are written.
    The one `beside` gives way, so that both together take no more memory than one alone: its old generation first.

    Suspected are messages with a call whose id is illegal or that another message has as well, of this conversation
    or of another. No request with one of them goes out unseen, and no request without has to be looked through.
    """

    def __init__(self, limit: int, *, thoughts: bool = True) -> None:
        self._half = limit // 2
        self._most = limit + limit // 2
        self._thoughts = thoughts
        self._reader = ""
        self._trunks = {seeing: _Trunks(limit // 4) for seeing in (True, False)}
        self.trunks: Mapping[bool, Trunks] = self._trunks
        """Of long conversations, for models that see images and for those that do not."""
        self.beside: KeptMessages | None = None
        self.forget()

    def forget(self) -> None:
        self.young: dict[str, Kept] = {}
        self._old: dict[str, Kept] = {}
        self._size = self._old_size = 0
        self._owners: dict[str, str] = {}
        self._old_owners: dict[str, str] = {}
        self._suspects: set[str] = set()
        self._old_suspects: set[str] = set()
        self.generation = 0
        self.forget_trunks()

    def read_by(self, provider: str) -> None:
        """Who reads what is written from now on; what was written for another is of no use."""
        if provider != self._reader:
            self._reader = provider
            self.forget()
        if self.beside is not None:
            self._share(self.beside)

    @property
    def held(self) -> int:
        """Bytes, as far as they are counted."""
        return self._size + self._old_size + sum(trunks.size for trunks in self._trunks.values())

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

    def grown(self, trunk: Trunk, more: Sequence[Message], *, seeing: bool) -> Trunk | None:
        """The trunk with these messages too, of which nothing is kept one by one; None if one needs a closer look."""
        joined, last = bytearray(trunk.joined), trunk.last
        for speakers, words, whole in said_in(more):
            for place, (speaker, text) in enumerate(zip(speakers, words, strict=True)):
                # Nearly all of them are nothing but words, and there may be thousands: no call for each.
                if text:
                    is_theirs = speaker == _THEY
                    joined += _GO_ON if is_theirs is last else _THEIR_TEXT if is_theirs else _OUR_TEXT
                    joined += text
                    joined += b"}"
                    last = is_theirs
                elif self._suspect(message := whole(place)):
                    return None
                elif written := self._write_blocks(message, seeing=seeing):
                    is_theirs = message.role == "assistant"
                    joined += b"," if is_theirs is last else THEIRS if is_theirs else OURS
                    joined += written
                    last = is_theirs
        if joined.startswith(THEIRS):
            return None
        if not trunk.joined:
            del joined[: len(NONE_BEFORE)]
        return Trunk(with_more(trunk.messages, more), joined, last)

    @property
    def suspects(self) -> bool:
        return bool(self._suspects or self._old_suspects)

    def suspects_any(self, messages: Sequence[Message]) -> bool:
        if not self.suspects:
            return False
        return any(each.id in self._suspects or each.id in self._old_suspects for each in messages)

    def _turn(self) -> None:
        self._old, self.young = self.young, {}
        self._old_size, self._size = self._size, 0
        self._old_owners, self._owners = self._owners, {}
        self._old_suspects, self._suspects = self._suspects, set()
        self.generation += 1
        if self.beside is not None:
            self._share(self.beside)

    def _share(self, beside: "KeptMessages") -> None:
        for give_way in (beside.forget_old, beside.forget_trunks, beside.forget):
            if self.held + beside.held <= self._most:
                return
            give_way()

    def forget_old(self) -> None:
        self._old, self._old_size = {}, 0

    def forget_trunks(self) -> None:
        for trunks in self._trunks.values():
            trunks.forget()

    def _suspect(self, message: Message) -> bool:
        calls = message.tool_calls
        if not calls:
            return False
        for call in calls:
            owner = self._owners.get(call.id) or self._old_owners.get(call.id) or message.id
            if owner != message.id or not _LEGAL_ID.fullmatch(call.id):
                self._suspects.add(message.id)
            self._owners[call.id] = owner
        if len({call.id for call in calls}) < len(calls):
            self._suspects.add(message.id)
        return message.id in self._suspects or message.id in self._old_suspects

    def _write(self, message: Message, *, seeing: bool) -> Kept:
        is_theirs = message.role == "assistant"
        blocks = self._write_blocks(message, seeing=seeing)
        opening = THEIRS if is_theirs else OURS
        shows = Image in map(type, message.blocks)
        return message.blocks, opening + blocks if blocks else b"", is_theirs, seeing if shows else None

    def _write_blocks(self, message: Message, *, seeing: bool) -> bytes:
        return write_blocks(message, seeing=seeing, provider=self._reader, thoughts=self._thoughts)


def kept_with_and_without(limit: int) -> dict[bool, KeptMessages]:
    """By whether thoughts are bound, and so left out of what is kept. `limit` is in bytes, for the two together."""
    free, bound = KeptMessages(limit), KeptMessages(limit, thoughts=False)
    free.beside, bound.beside = bound, free
    return {False: free, True: bound}
