"""Requests of Anthropic's API in bytes: a long conversation's cached beginning, and the messages behind it.

What the API may cache is marked at up to four places: the last tool, the system prompt, the last message that will
still be there in the next turn, and the end. A mark is put into the joined bytes, so that the cached ones never change.

For models whose thoughts are bound to what stood before them (`bound_thinking`) messages are written without any. Those
of the turn that is under way are put back where they still hold, so a message changes once, when its turn is over.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.message import Message
from finclaw.providers.anthropic.message import (
    ADAPTIVE,
    OFF,
    ThinkingField,
    ThinkingSignatures,
    extend_hash,
    thinking_field,
    turn_start,
    write_blocks,
)
from finclaw.providers.http.prefix_cache import NO_PREFIX, Part, RequestPrefix, RequestPrefixCache
from finclaw.text import fix_surrogates
from finclaw.transcript.history import plain_texts, with_more
from finclaw.transcript.request_sanitizer import sanitize_request

MARK: Final = b',"cache_control":{"type":"ephemeral"}'

_USER: Final = b']},{"role":"user","content":['
_ASSISTANT: Final = b']},{"role":"assistant","content":['
"""What ends the message before and opens this one: results and words of the system reach this API as the user's."""
_NONE_BEFORE: Final = b"]},"  # the first message has none before it to end
_ASSISTANT_ROLE: Final = b"assistant"
_TEXT: Final = b'{"type":"text","text":'
_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")

_encode: Final = msgspec.json.Encoder().encode


class _Variant(NamedTuple):
    """What the encoding of a message depends on beside the message: the model's eyes, who reads it, its thoughts."""

    seeing: bool
    provider: str
    thinking: bool

    def write(self, message: Message) -> bytes:
        return write_blocks(message, seeing=self.seeing, provider=self.provider, thinking=self.thinking)


@dataclass(slots=True)
class _Draft:
    """The pieces to send for the messages behind the prefix, empty for some."""

    prefix: RequestPrefix
    messages: Sequence[Message]
    pieces: list[bytes]
    lasting: int  # how many stand before the first that the next turn changes
    needs_care: bool  # the assistant speaks first or last, or an id is refused


class AnthropicRequestWriter:
    """An encoder of requests. `limit` bounds the kept beginnings of conversations, in bytes."""

    def __init__(self, limit: int, *, caching: bool = True) -> None:
        self._prefixes = RequestPrefixCache(limit)
        self._caching = caching
        self._last_head: tuple[ModelRequest, ThinkingField | None] | None = None
        self._last_opening = b""
        self._base_hash = 0
        self.signatures = ThinkingSignatures()
        self.sent = 0  # a hash of the last request, if thoughts are bound to it; else 0

    def write(self, request: ModelRequest) -> bytes:
        return b"".join(self.parts(request))

    def parts(self, request: ModelRequest) -> Sequence[Part]:
        """The request in a few pieces: what a long conversation begins with is not copied for each of them."""
        messages = request.messages
        features = request.model.features
        bound = features.bound_thinking
        variant = _Variant(features.images, request.model.provider, not bound)
        prefix = self._prefixes.find(messages, variant)
        lasting = messages[: turn_start(messages) + 1] if bound else messages
        if more := self._prefixes.messages_to_add(lasting, prefix):
            prefix = self._prefixes.store(_extend_prefix(prefix, more, variant) or prefix, variant)
        draft = _draft(messages, prefix, variant)
        if draft.needs_care:
            self._prefixes.drop(messages, variant)  # what is in it would not be looked at again
            draft = _draft(sanitize_request(messages), NO_PREFIX, variant)
        opening = self._opening(request)
        self.sent = 0
        if bound:
            self.sent = self._restore_thinking(draft, request.model)
        if self._caching:
            _mark_for_caching(draft)
        if not draft.prefix.joined and not _open_first(draft.pieces):
            return opening, b"]}"
        return opening, draft.prefix.joined, b"".join((*draft.pieces, b"]}]}"))

    def evict(self) -> None:
        self._prefixes.clear()

    def _restore_thinking(self, draft: _Draft, model: Model) -> int:
        """Put this turn's thoughts back in where all before them is as it was, and return the hash of the whole."""
        start = turn_start(draft.messages)
        so_far = extend_hash(draft.prefix.pieces_hash, draft.pieces[:start])
        for place in range(start, len(draft.pieces)):
            message = draft.messages[place]
            piece = draft.pieces[place]
            before = hash((self._base_hash, so_far))
            if piece and message.role == "assistant" and self.signatures.matches(message, before):
                opening = _ASSISTANT if piece.startswith(_ASSISTANT) else b","
                piece = opening + write_blocks(message, seeing=model.features.images, provider=model.provider)
                draft.pieces[place] = piece
            so_far = extend_hash(so_far, (piece,))
        return hash((self._base_hash, so_far))

    def _opening(self, request: ModelRequest) -> bytes:
        """All that stands before the messages. It seldom changes, so the last one is kept."""
        thinking = thinking_field(request)
        head = (replace(request, messages=()), thinking)
        if head != self._last_head:
            options = _write_options(request, thinking)
            base = _write_base(request, caching=self._caching)
            self._last_head = head
            self._last_opening = options + base
            self._base_hash = hash((request.model.name, base))
        return self._last_opening


def _extend_prefix(prefix: RequestPrefix, more: Sequence[Message], variant: _Variant) -> RequestPrefix | None:
    """The prefix with these messages too; None if one of them needs care."""
    joined = bytearray(prefix.joined)
    last = prefix.ends_with_assistant
    pieces_hash = prefix.pieces_hash
    call_ids: list[str] = []
    for speakers, words, whole in plain_texts(more):
        for place, (speaker, text) in enumerate(zip(speakers, words, strict=True)):
            # Nearly all of them are nothing but words, and there may be thousands: no call for each.
            if text:
                is_assistant = speaker == _ASSISTANT_ROLE
                opening = b","
                if is_assistant is not last:
                    opening = _ASSISTANT if is_assistant else _USER
                piece = b"%b%b%b}" % (opening, _TEXT, text)
            else:
                message = whole(place)
                call_ids += [call.id for call in message.tool_calls]
                is_assistant = message.role == "assistant"
                piece = _open_message(variant.write(message), is_assistant, last)
                if not piece:
                    continue
            joined += piece
            last = is_assistant
            if not variant.thinking:
                pieces_hash = hash((pieces_hash, piece))
    if joined.startswith(_ASSISTANT) or _are_refused(call_ids, prefix.call_ids):
        return None
    if not prefix.joined:
        del joined[: len(_NONE_BEFORE)]
    return RequestPrefix(with_more(prefix.messages, more), joined, last, pieces_hash, prefix.call_ids.union(call_ids))


def _draft(messages: Sequence[Message], prefix: RequestPrefix, variant: _Variant) -> _Draft:
    """Neighbours of one role become one message."""
    messages = messages[len(prefix.messages) :]
    pieces: list[bytes] = []
    call_ids: list[str] = []
    last = prefix.ends_with_assistant
    lasting = len(messages)
    for place, message in enumerate(messages):
        is_assistant = message.role == "assistant"
        piece = _open_message(variant.write(message), is_assistant, last)
        pieces.append(piece)
        call_ids += [call.id for call in message.tool_calls]
        if piece:
            last = is_assistant
        if message.passing:
            lasting = min(lasting, place)
    if not variant.thinking:  # with this turn's thoughts gone, what stands behind its first message will be another
        lasting = min(lasting, turn_start(messages) + 1)
    first = prefix.joined or next(filter(None, pieces), b"")
    needs_care = last is True or first.startswith(_ASSISTANT) or _are_refused(call_ids, prefix.call_ids)
    return _Draft(prefix, messages, pieces, lasting, needs_care)


def _open_message(blocks: bytes, is_assistant: bool, last: bool | None) -> bytes:
    """The blocks behind what comes before them; empty if there are none. `last`: the assistant spoke last."""
    if not blocks:
        return b""
    if is_assistant is last:
        return b"," + blocks
    return (_ASSISTANT if is_assistant else _USER) + blocks


def _are_refused(call_ids: Sequence[str], known: frozenset[str]) -> bool:
    """Whether one of these ids is illegal, or is an earlier call's too."""
    if not call_ids:
        return False
    is_repeated = len(set(call_ids)) < len(call_ids) or not known.isdisjoint(call_ids)
    return is_repeated or not all(map(_LEGAL_ID.fullmatch, call_ids))


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
    opening = b""
    mark = MARK if caching else b""
    if request.tools and request.model.features.tools:
        # Sorted, so that the order in which they were registered does not matter to the cache.
        tools = b",".join(_encode(tool) for tool in sorted(request.tools, key=lambda tool: tool.name))
        opening += b',"tools":[' + tools[:-1] + mark + b"}]"
    if request.system.strip():
        opening += b',"system":[{"type":"text","text":' + _encode(fix_surrogates(request.system)) + mark + b"}]"
    return opening + b',"messages":['


def _output_config(request: ModelRequest, thinking: ThinkingField | None) -> dict[str, Any]:
    effort = request.model.thinks_at(request.thinking)
    config: dict[str, Any] = {}
    if thinking == ADAPTIVE:
        config["effort"] = effort
    if request.answer_schema is not None and (schema := narrow_schema(request.answer_schema.schema)) is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    return config


def _open_first(pieces: list[bytes]) -> bool:
    """No message stands before the first, and none has to be ended. False: there is none at all."""
    first = next((place for place, piece in enumerate(pieces) if piece), None)
    if first is not None:
        pieces[first] = pieces[first].removeprefix(_NONE_BEFORE)
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


# ── the schema of an answer ─────────────────────────────────────────────────────────────────────────────────
# It is narrowed to the part that the API holds an answer to. The rest is left to the check of the answer.

Schema = dict[str, Any]

_AS_IT_IS: Final = frozenset(("title", "description", "enum", "const", "required"))
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)

_COMBINED: Final = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}


class _Inexpressible(Exception):
    """The API has no way to say this."""


def narrow_schema(schema: Mapping[str, Any]) -> Schema | None:
    """None where the API cannot express the schema: a map of anything, a recursion, no type at all."""
    definitions = {f"#/$defs/{name}": each for name, each in schema.get("$defs", {}).items()}
    try:
        return _Narrowing(definitions).of(schema)
    except _Inexpressible:
        return None


class _Narrowing:
    """`within` are the references that led here: one that comes again would never end."""

    def __init__(self, definitions: Mapping[str, Any], within: frozenset[str] = frozenset()) -> None:
        self._definitions = definitions
        self._within = within

    def of(self, schema: object) -> Schema:
        if not isinstance(schema, Mapping):  # `true` lets everything pass
            raise _Inexpressible
        given = cast("Mapping[str, Any]", schema)
        if "$ref" in given:
            return self._resolve(given["$ref"])
        kept = {key: value for key, value in given.items() if key in _AS_IT_IS}
        for either in _COMBINED:
            if either in given:
                kept[_COMBINED[either]] = [self.of(part) for part in given[either]]
        kept |= self._narrow_type(given)
        if not kept.keys() & {"type", "enum", "const", "anyOf", "allOf"}:
            raise _Inexpressible
        return kept

    def _resolve(self, reference: str) -> Schema:
        if reference in self._within:
            raise _Inexpressible
        return _Narrowing(self._definitions, self._within | {reference}).of(self._definitions.get(reference))

    def _narrow_type(self, given: Mapping[str, Any]) -> Schema:
        match given.get("type"):
            case "object":
                return self._object(given)
            case "array":
                return {"type": "array", "items": self.of(given.get("items"))}
            case "string" if given.get("format") in _FORMATS:
                return {"type": "string", "format": given["format"]}
            case str() as plain:
                return {"type": plain}
            case None:
                return {}
            case several:
                return {"anyOf": [self._narrow_type({**given, "type": each}) for each in several]}

    def _object(self, given: Mapping[str, Any]) -> Schema:
        if not given.get("properties"):  # it could only be an empty one then
            raise _Inexpressible
        properties = {name: self.of(part) for name, part in given["properties"].items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}
