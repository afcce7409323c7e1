"""Requests as bytes. A message is written once and kept; a request is the kept bytes, joined.

What the API may cache is marked at up to four places: the last tool, the system prompt, the last message that will
still be there in the next turn, and the end. A mark is put into the joined bytes, so that the kept ones never change.

For models whose thoughts are tied to what stood before them (`bound_thinking`) messages are kept without any. Those of
the turn that is under way are put back where they still hold, so a message changes once, when its turn is over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.message import Message
from finclaw.kernel.text import fix_surrogates
from finclaw.providers.anthropic.bonds import Bonds, chained, turn_begins
from finclaw.providers.anthropic.kept import OURS, THEIRS, kept_with_and_without
from finclaw.providers.anthropic.message import write_blocks
from finclaw.providers.anthropic.schema import narrowed
from finclaw.providers.anthropic.thoughts import ADAPTIVE, OFF, Thoughts, thoughts
from finclaw.providers.wire.trunk import NO_TRUNK, Part, Trunk
from finclaw.transcript.request_sanitizer import sanitize_request

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
    """How many of them stand before the first message that is for this turn only, or will be another in the next."""
    ends_theirs: bool


class RequestWriter:
    """`limit` is in bytes, for models whose thoughts are bound and for the others together."""

    def __init__(self, limit: int, *, caching: bool = True) -> None:
        self._kept_for = kept_with_and_without(limit)
        self._kept = self._kept_for[False]
        self._caching = caching
        self._head_of: tuple[object, ...] = ()
        self._head = b""
        self._ground = 0
        self.bonds = Bonds()
        self.sent = 0
        """What stands for all that the last request said, where an answer's thoughts are tied to it; else 0."""

    def write(self, request: ModelRequest) -> bytes:
        return b"".join(self.parts(request))

    def parts(self, request: ModelRequest) -> Sequence[Part]:
        """The request in a few pieces: what a long conversation begins with is not copied for each of them."""
        bound = request.model.features.bound_thinking
        self._kept = self._kept_for[bound]
        self._kept.read_by(request.model.provider)
        generation = self._kept.generation
        seeing = request.model.features.images
        trunks = self._kept.trunks[seeing]
        trunk = trunks.of(request.messages)
        if not bound and (more := trunks.to_grow(request.messages, trunk)):
            trunk = trunks.keep(self._kept.grown(trunk, more, seeing=seeing) or trunk)
        draft = self._draft(request.messages, trunk, seeing=seeing, bound=bound)
        if self._kept.generation - generation >= _FORGETFUL or self._needs_care(draft):
            trunks.drop(request.messages)  # what is in it would not be looked at again
            draft = self._draft(sanitize_request(request.messages), NO_TRUNK, seeing=seeing, bound=bound)
        elif length := trunks.grown(len(trunk.messages) + draft.first_passing, trunk):
            trunks.keep(_grown(draft, request.messages[:length], bound=bound))
        opening = self._opening(request)
        self.sent = self._recall(draft, request.model) if bound else 0
        if self._caching:
            _mark(draft)
        if not draft.trunk.joined and not _open_first(draft.pieces):
            return opening, b"]}"
        return opening, draft.trunk.joined, b"".join((*draft.pieces, b"]}]}"))

    def evict(self) -> None:
        for kept in self._kept_for.values():
            kept.forget()

    def _recall(self, draft: _Draft, model: Model) -> int:
        """Put this turn's thoughts back in where all before them is as it was. What it gives stands for the whole."""
        begins = turn_begins(draft.messages)
        chain = chained(draft.trunk.chain, draft.pieces[:begins])
        for place in range(begins, len(draft.pieces)):
            message, piece = draft.messages[place], draft.pieces[place]
            if piece and message.role == "assistant" and self.bonds.hold(message, hash((self._ground, chain))):
                opening = THEIRS if piece.startswith(THEIRS) else b","
                piece = opening + write_blocks(message, seeing=model.features.images, provider=model.provider)
                draft.pieces[place] = piece
            chain = chained(chain, (piece,))
        return hash((self._ground, chain))

    def _draft(self, messages: Sequence[Message], trunk: Trunk, *, seeing: bool, bound: bool) -> _Draft:
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
        if bound:  # with this turn's thoughts gone, what stands behind its first message will be another
            before_passing = min(before_passing, turn_begins(messages) + 1)
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
            wishes, ground = _write_wishes(request, thinking), _write_ground(request, caching=self._caching)
            self._head_of, self._head = key, wishes + ground
            self._ground = hash((request.model.name, ground))
        return self._head


def _write_wishes(request: ModelRequest, thinking: Thoughts | None) -> bytes:
    fields: dict[str, Any] = {"model": request.model.name, "max_tokens": request.max_tokens, "stream": True}
    if thinking is not None:
        fields["thinking"] = thinking
    thinks = thinking is not None and thinking not in OFF.values()
    if request.temperature is not None and request.model.features.temperature and not thinks:  # never both
        fields["temperature"] = request.temperature
    if output := _output_config(request, thinking):
        fields["output_config"] = output
    if request.stop_sequences:
        fields["stop_sequences"] = request.stop_sequences
    return _encode(fields)[:-1]


def _write_ground(request: ModelRequest, *, caching: bool) -> bytes:
    """What every message stands on: the tools and the prompt."""
    opening = b""
    mark = MARK if caching else b""
    if (
        request.tools and request.model.features.tools
    ):  # sorted, so that the order in which they were registered does not matter to the cache
        tools = b",".join(_encode(tool) for tool in sorted(request.tools, key=lambda tool: tool.name))
        opening += b',"tools":[' + tools[:-1] + mark + b"}]"
    if request.system.strip():
        opening += b',"system":[{"type":"text","text":' + _encode(fix_surrogates(request.system)) + mark + b"}]"
    return opening + b',"messages":['


def _output_config(request: ModelRequest, thinking: Thoughts | None) -> dict[str, Any]:
    effort = request.model.thinks_at(request.thinking)
    config: dict[str, Any] = {"effort": effort} if thinking == ADAPTIVE else {}
    schema = None if request.answer_schema is None else narrowed(request.answer_schema.schema)
    return config if schema is None else {**config, "format": {"type": "json_schema", "schema": schema}}


def _grown(draft: _Draft, messages: Sequence[Message], *, bound: bool) -> Trunk:
    """All that was written for these messages, before anything in it is marked."""
    written = draft.pieces[: len(messages) - len(draft.trunk.messages)]
    chain = chained(draft.trunk.chain, written) if bound else 0
    place = _last_sent(written, len(written))
    last = draft.trunk.last if place < 0 else draft.messages[place].role == "assistant"
    if not draft.trunk.joined:
        _open_first(written)
    return Trunk(messages, b"".join((draft.trunk.joined, *written)), last, chain)


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
