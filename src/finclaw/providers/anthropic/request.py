"""Requests of Anthropic's API in bytes. A message is encoded once and cached; a request is the cached bytes, joined.

What the API may cache is marked at up to four places: the last tool, the system prompt, the last message that will
still be there in the next turn, and the end. A mark is put into the joined bytes, so that the cached ones never change.

For models whose thoughts are bound to what stood before them (`bound_thinking`) messages are cached without any. Those
of the turn that is under way are put back where they still hold, so a message changes once, when its turn is over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.message import Message
from finclaw.providers.anthropic.message import write_blocks
from finclaw.providers.anthropic.message_cache import ASSISTANT, USER, paired_caches
from finclaw.providers.anthropic.schema import narrow_schema
from finclaw.providers.anthropic.thinking import ADAPTIVE, OFF, ThinkingField, thinking_field
from finclaw.providers.anthropic.thinking_signatures import ThinkingSignatures, extend_hash, turn_start
from finclaw.providers.http.prefix_cache import NO_PREFIX, Part, RequestPrefix
from finclaw.text import fix_surrogates
from finclaw.transcript.request_sanitizer import sanitize_request

MARK: Final = b',"cache_control":{"type":"ephemeral"}'

_encode: Final = msgspec.json.Encoder().encode
_TOO_SMALL: Final = 2
"""So many generations of a cache pass in one request only if it is far too small for it."""


@dataclass(slots=True)
class _Draft:
    """The pieces to send for the messages behind the prefix, empty for some."""

    prefix: RequestPrefix
    messages: Sequence[Message]
    pieces: list[bytes]
    lasting: int
    """How many of them stand before the first message that is for this turn only, or will be another in the next."""
    ends_with_assistant: bool


class AnthropicRequestWriter:
    """An encoder of requests. `limit` is in bytes, for models whose thinking is bound and for the others together."""

    def __init__(self, limit: int, *, caching: bool = True) -> None:
        self._caches = paired_caches(limit)
        self._cache = self._caches[False]
        self._caching = caching
        self._opening_key: tuple[object, ...] = ()
        self._last_opening = b""
        self._base_hash = 0
        self.signatures = ThinkingSignatures()
        self.sent = 0
        """A hash of all that the last request said, where an answer's thoughts are bound to it; else 0."""

    def write(self, request: ModelRequest) -> bytes:
        return b"".join(self.parts(request))

    def parts(self, request: ModelRequest) -> Sequence[Part]:
        """The request in a few pieces: what a long conversation begins with is not copied for each of them."""
        bound = request.model.features.bound_thinking
        self._cache = self._caches[bound]
        self._cache.set_reader(request.model.provider)
        generation = self._cache.generation
        seeing = request.model.features.images
        prefixes = self._cache.prefixes[seeing]
        prefix = prefixes.find(request.messages)
        if not bound and (more := prefixes.messages_to_add(request.messages, prefix)):
            prefix = prefixes.store(self._cache.extend_prefix(prefix, more, seeing=seeing) or prefix)
        draft = self._draft(request.messages, prefix, seeing=seeing, bound=bound)
        if self._cache.generation - generation >= _TOO_SMALL or self._needs_care(draft):
            prefixes.drop(request.messages)  # what is in it would not be looked at again
            draft = self._draft(sanitize_request(request.messages), NO_PREFIX, seeing=seeing, bound=bound)
        elif length := prefixes.length_to_store(len(prefix.messages) + draft.lasting, prefix):
            prefixes.store(_prefix_of(draft, request.messages[:length], bound=bound))
        opening = self._opening(request)
        self.sent = self._restore_thinking(draft, request.model) if bound else 0
        if self._caching:
            _mark_for_caching(draft)
        if not draft.prefix.joined and not _open_first(draft.pieces):
            return opening, b"]}"
        return opening, draft.prefix.joined, b"".join((*draft.pieces, b"]}]}"))

    def evict(self) -> None:
        for cache in self._caches.values():
            cache.clear()

    def _restore_thinking(self, draft: _Draft, model: Model) -> int:
        """Put this turn's thoughts back in where all before them is as it was, and return the hash of the whole."""
        start = turn_start(draft.messages)
        so_far = extend_hash(draft.prefix.pieces_hash, draft.pieces[:start])
        for place in range(start, len(draft.pieces)):
            message, piece = draft.messages[place], draft.pieces[place]
            before = hash((self._base_hash, so_far))
            if piece and message.role == "assistant" and self.signatures.matches(message, before):
                opening = ASSISTANT if piece.startswith(ASSISTANT) else b","
                piece = opening + write_blocks(message, seeing=model.features.images, provider=model.provider)
                draft.pieces[place] = piece
            so_far = extend_hash(so_far, (piece,))
        return hash((self._base_hash, so_far))

    def _draft(self, messages: Sequence[Message], prefix: RequestPrefix, *, seeing: bool, bound: bool) -> _Draft:
        """Neighbours of one role become one message."""
        messages = messages[len(prefix.messages) :]
        pieces = self._cache.encode_all(messages, seeing=seeing)
        first_passing: int | None = None
        last = prefix.ends_with_assistant
        for place, message in enumerate(messages):
            if piece := pieces[place]:
                is_assistant = message.role == "assistant"
                if is_assistant is last:
                    pieces[place] = b"," + piece[len(ASSISTANT if is_assistant else USER) :]
                last = is_assistant
            if message.passing and first_passing is None:
                first_passing = place
        lasting = len(pieces) if first_passing is None else first_passing
        if bound:  # with this turn's thoughts gone, what stands behind its first message will be another
            lasting = min(lasting, turn_start(messages) + 1)
        return _Draft(prefix, messages, pieces, lasting, last is True)

    def _needs_care(self, draft: _Draft) -> bool:
        """Seldom: the assistant speaks first or last, or ids could be refused. Only then all messages are walked."""
        first = b"" if draft.prefix.joined else next((piece for piece in draft.pieces if piece), b"")
        return draft.ends_with_assistant or first.startswith(ASSISTANT) or self._cache.suspects_any(draft.messages)

    def _opening(self, request: ModelRequest) -> bytes:
        """All that stands before the messages. It seldom changes, so the last one is kept."""
        thinking = thinking_field(request)
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
        if key != self._opening_key:
            options, base = _write_options(request, thinking), _write_base(request, caching=self._caching)
            self._opening_key, self._last_opening = key, options + base
            self._base_hash = hash((request.model.name, base))
        return self._last_opening


def _write_options(request: ModelRequest, thinking: ThinkingField | None) -> bytes:
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


def _write_base(request: ModelRequest, *, caching: bool) -> bytes:
    """The tools and the system prompt, which stand before all messages."""
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


def _output_config(request: ModelRequest, thinking: ThinkingField | None) -> dict[str, Any]:
    effort = request.model.thinks_at(request.thinking)
    config: dict[str, Any] = {"effort": effort} if thinking == ADAPTIVE else {}
    schema = None if request.answer_schema is None else narrow_schema(request.answer_schema.schema)
    return config if schema is None else {**config, "format": {"type": "json_schema", "schema": schema}}


def _prefix_of(draft: _Draft, messages: Sequence[Message], *, bound: bool) -> RequestPrefix:
    """All that was written for these messages, before anything in it is marked."""
    written = draft.pieces[: len(messages) - len(draft.prefix.messages)]
    pieces_hash = extend_hash(draft.prefix.pieces_hash, written) if bound else 0
    place = _last_sent(written, len(written))
    last = draft.prefix.ends_with_assistant if place < 0 else draft.messages[place].role == "assistant"
    if not draft.prefix.joined:
        _open_first(written)
    return RequestPrefix(messages, b"".join((draft.prefix.joined, *written)), last, pieces_hash)


def _open_first(pieces: list[bytes]) -> bool:
    """No message stands before the first, and none has to be ended. False: there is none at all."""
    first = next((place for place, piece in enumerate(pieces) if piece), None)
    if first is not None:
        pieces[first] = pieces[first].removeprefix(b"]},")
    return first is not None


def _mark_for_caching(draft: _Draft) -> None:
    """After the last message that the next turn will have too, and at the end, unless a passing message is the end."""
    lasting = _last_sent(draft.pieces, draft.lasting)
    end = _last_sent(draft.pieces, len(draft.pieces))
    if draft.messages and draft.messages[end].passing:
        end = lasting
    for place in {lasting, end}:
        if place >= 0:
            draft.pieces[place] = draft.pieces[place][:-1] + MARK + b"}"


def _last_sent(pieces: Sequence[bytes], before: int) -> int:
    """-1 when none is."""
    return next((place for place in range(before - 1, -1, -1) if pieces[place]), -1)
