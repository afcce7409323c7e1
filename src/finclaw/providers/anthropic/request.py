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
from finclaw.providers.anthropic.schema import narrowed
from finclaw.providers.anthropic.thoughts import ADAPTIVE, Thoughts, thoughts
from finclaw.providers.wire.trunk import NO_TRUNK, Trunk

MARK: Final = b',"cache_control":{"type":"ephemeral"}'

_encode: Final = msgspec.json.Encoder().encode
_FORGETFUL: Final = 2
"""So many generations of kept bytes pass in one request only if they are far too small for it."""


@dataclass(slots=True)
class _Draft:
    """What to send for each message behind the trunk, nothing for some."""

    trunk: Trunk
    messages: Sequence[Message]
    pieces: list[bytes]
    first_passing: int
    """How many of them stand before the first message of this turn only."""
    ends_theirs: bool


class RequestWriter:
    def __init__(self, limit: int, *, caching: bool = True) -> None:
        self._kept = KeptMessages(limit)
        self._caching = caching
        self._head_of: tuple[object, ...] = ()
        self._head = b""

    def write(self, request: ModelRequest) -> bytes:
        self._kept.read_by(request.model.provider)
        generation = self._kept.generation
        seeing = request.model.features.images
        trunks = self._kept.trunks[seeing]
        trunk = NO_TRUNK if self._kept.suspects else trunks.of(request.messages)
        draft = self._draft(request.messages, trunk, seeing=seeing)
        if self._kept.generation - generation >= _FORGETFUL or self._needs_care(draft):
            draft = self._draft(sendable(request.messages), NO_TRUNK, seeing=seeing)
        elif length := trunks.grown(len(trunk.messages) + draft.first_passing, trunk):
            trunks.keep(_grown(draft, request.messages[:length]))
        if self._caching:
            _mark(draft)
        if not draft.trunk.joined and not _open_first(draft.pieces):
            return self._opening(request) + b"]}"
        return b"".join((self._opening(request), draft.trunk.joined, *draft.pieces, b"]}]}"))

    def evict(self) -> None:
        self._kept.forget()

    def _draft(self, messages: Sequence[Message], trunk: Trunk, *, seeing: bool) -> _Draft:
        """Neighbours of one role become one message."""
        messages = messages[len(trunk.messages) :]
        young, blind = self._kept.young, not seeing
        pieces: list[bytes] = []
        first_passing: int | None = None
        last = trunk.last
        for message in messages:
            kept = young.get(message.id)
            if kept is None or kept[0] is not message.blocks or kept[3] is blind:
                kept = self._kept.keep(message, seeing=seeing)
                young = self._kept.young
            _, piece, is_theirs, _ = kept
            if is_theirs is not last:
                last = is_theirs if piece else last
            elif piece:
                piece = b"," + piece[len(THEIRS if is_theirs else OURS) :]
            if message.passing and first_passing is None:
                first_passing = len(pieces)
            pieces.append(piece)
        before_passing = len(pieces) if first_passing is None else first_passing
        return _Draft(trunk, messages, pieces, before_passing, last is True)

    def _needs_care(self, draft: _Draft) -> bool:
        """Seldom: the assistant speaks first or last, or ids could be refused. Only then all messages are walked."""
        first = b"" if draft.trunk.joined else next((piece for piece in draft.pieces if piece), b"")
        return draft.ends_theirs or first.startswith(THEIRS) or self._kept.suspects_any(draft.messages)

    def _opening(self, request: ModelRequest) -> bytes:
        """All that stands before the messages. It seldom changes, so the last one is kept."""
        thinking = thoughts(request)
        key = (
            request.model,
            request.max_tokens,
            request.temperature,
            thinking,
            request.thinking,
            request.answer_schema,
            request.stop_sequences,
            request.system,
            request.tools,
        )
        if key != self._head_of:
            self._head_of, self._head = key, _write_opening(request, thinking, caching=self._caching)
        return self._head


def _write_opening(request: ModelRequest, thinking: Thoughts | None, *, caching: bool) -> bytes:
    fields: dict[str, Any] = {"model": request.model.name, "max_tokens": request.max_tokens, "stream": True}
    if thinking is not None:
        fields["thinking"] = thinking
    elif request.temperature is not None and request.model.features.temperature:  # never both
        fields["temperature"] = request.temperature
    if output := _output_config(request, thinking):
        fields["output_config"] = output
    if request.stop_sequences:
        fields["stop_sequences"] = request.stop_sequences
    opening = _encode(fields)[:-1]
    mark = MARK if caching else b""
    if (
        request.tools and request.model.features.tools
    ):  # sorted, so that the order in which they were registered does not matter to the cache
        tools = b",".join(_encode(tool) for tool in sorted(request.tools, key=lambda tool: tool.name))
        opening += b',"tools":[' + tools[:-1] + mark + b"}]"
    if request.system.strip():
        opening += b',"system":[{"type":"text","text":' + _encode(whole_characters(request.system)) + mark + b"}]"
    return opening + b',"messages":['


def _output_config(request: ModelRequest, thinking: Thoughts | None) -> dict[str, Any]:
    config: dict[str, Any] = {"effort": request.thinking} if thinking == ADAPTIVE else {}
    schema = None if request.answer_schema is None else narrowed(request.answer_schema.schema)
    return config if schema is None else {**config, "format": {"type": "json_schema", "schema": schema}}


def _grown(draft: _Draft, messages: tuple[Message, ...]) -> Trunk:
    """All that was written for these messages, before anything in it is marked."""
    written = draft.pieces[: len(messages) - len(draft.trunk.messages)]
    place = _last_sent(written, len(written))
    last = draft.trunk.last if place < 0 else draft.messages[place].role == "assistant"
    if not draft.trunk.joined:
        _open_first(written)
    return Trunk(messages, b"".join((draft.trunk.joined, *written)), last)


def _open_first(pieces: list[bytes]) -> bool:
    """No message stands before the first, and none has to be ended. False: there is none at all."""
    first = next((place for place, piece in enumerate(pieces) if piece), None)
    if first is not None:
        pieces[first] = pieces[first].removeprefix(b"]},")
    return first is not None


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
