"""Requests as bytes. A message is written once and kept; a request is the kept bytes, joined.

What the API may cache is marked at up to four places: the last tool, the system prompt, the last message that will
still be there in the next turn, and the end. A mark is put into the joined bytes, so that the kept ones never change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.message import Message
from finclaw.kernel.sendable import sendable
from finclaw.kernel.text import whole_characters
from finclaw.providers.anthropic.kept import OURS, THEIRS, KeptMessages

MARK: Final = b',"cache_control":{"type":"ephemeral"}'

_encode: Final = msgspec.json.Encoder().encode
_FORGETFUL: Final = 2
"""So many generations of kept bytes pass in one request only if they are far too small for it."""


@dataclass(slots=True)
class _Draft:
    """What to send for each message, nothing for some."""

    messages: Sequence[Message]
    pieces: list[bytes]
    first_passing: int
    """How many stand before the first message of this turn only."""
    ends_theirs: bool


class RequestWriter:
    def __init__(self, limit: int, *, caching: bool = True) -> None:
        self._kept = KeptMessages(limit)
        self._caching = caching
        self._head_of: tuple[object, ...] = ()
        self._head = b""

    def write(self, request: ModelRequest) -> bytes:
        generation = self._kept.generation
        draft = self._draft(request.messages)
        if self._kept.generation - generation >= _FORGETFUL or self._needs_care(draft):
            draft = self._draft(sendable(request.messages))
        if self._caching:
            _mark(draft)
        pieces = draft.pieces
        first = next((place for place, piece in enumerate(pieces) if piece), None)
        if first is None:
            return self._opening(request) + b"]}"
        pieces[first] = pieces[first].removeprefix(b"]},")
        return b"".join((self._opening(request), *pieces, b"]}]}"))

    def evict(self) -> None:
        self._kept.forget()

    def _draft(self, messages: Sequence[Message]) -> _Draft:
        """Neighbours of one role become one message."""
        young = self._kept.young
        pieces: list[bytes] = []
        first_passing: int | None = None
        last: bool | None = None
        for message in messages:
            kept = young.get(message.id)
            if kept is None or kept[0] is not message.blocks:
                kept = self._kept.keep(message)
                young = self._kept.young
            _, piece, is_theirs = kept
            if is_theirs is not last:
                last = is_theirs if piece else last
            elif piece:
                piece = b"," + piece[len(THEIRS if is_theirs else OURS) :]
            if message.passing and first_passing is None:
                first_passing = len(pieces)
            pieces.append(piece)
        return _Draft(messages, pieces, len(pieces) if first_passing is None else first_passing, last is True)

    def _needs_care(self, draft: _Draft) -> bool:
        """Seldom: the assistant speaks first or last, or ids could be refused. Only then all messages are walked."""
        first = next((piece for piece in draft.pieces if piece), b"")
        return draft.ends_theirs or first.startswith(THEIRS) or self._kept.suspects_any(draft.messages)

    def _opening(self, request: ModelRequest) -> bytes:
        """All that stands before the messages. It seldom changes, so the last one is kept."""
        key = (
            request.model,
            request.max_tokens,
            request.temperature,
            request.stop_sequences,
            request.system,
            request.tools,
        )
        if key != self._head_of:
            self._head_of, self._head = key, _write_opening(request, caching=self._caching)
        return self._head


def _write_opening(request: ModelRequest, *, caching: bool) -> bytes:
    fields: dict[str, Any] = {"model": request.model.name, "max_tokens": request.max_tokens, "stream": True}
    if request.temperature is not None and request.model.features.temperature:
        fields["temperature"] = request.temperature
    if request.stop_sequences:
        fields["stop_sequences"] = request.stop_sequences
    opening = _encode(fields)[:-1]
    mark = MARK if caching else b""
    if request.tools:  # sorted, so that the order in which they were registered does not matter to the cache
        tools = b",".join(_encode(tool) for tool in sorted(request.tools, key=lambda tool: tool.name))
        opening += b',"tools":[' + tools[:-1] + mark + b"}]"
    if request.system.strip():
        opening += b',"system":[{"type":"text","text":' + _encode(whole_characters(request.system)) + mark + b"}]"
    return opening + b',"messages":['


def _mark(draft: _Draft) -> None:
    """After the last message that the next turn will have too, and at the end, unless a passing message is the end."""
    lasting = _last_sent(draft.pieces, draft.first_passing)
    end = _last_sent(draft.pieces, len(draft.pieces))
    if draft.messages and draft.messages[end].passing:
        end = lasting
    for place in {lasting, end}:
        if place >= 0:
            draft.pieces[place] = draft.pieces[place][:-1] + MARK + b"}"


def _last_sent(pieces: Sequence[bytes], before: int) -> int:
    """-1 when none is."""
    return next((place for place in range(before - 1, -1, -1) if pieces[place]), -1)
