"""A reader of answers: events become chunks. What this version does not know is passed over, as the API asks for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NotFound,
    Overloaded,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    StreamCut,
)
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
    read_token_counts,
)
from finclaw.providers.http.failure import Kinds, complaint_of, stream_error
from finclaw.providers.http.sse import Event, LenientJson, decode_all, join_text_deltas

KINDS: Final[Kinds] = {
    "authentication_error": AuthFailed,
    "billing_error": QuotaExceeded,
    "invalid_request_error": BadRequest,
    "not_found_error": NotFound,
    "overloaded_error": Overloaded,
    "permission_error": AuthFailed,
    "rate_limit_error": RateLimited,
    "request_too_large": ContextTooLong,
    "timeout_error": ProviderTimeout,
}
"""`api_error` is not among them: it says no more than that something failed, and the status says what."""

_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}
_NO_INPUT: Final = (b"", b"{}", b"null")

# One struct for all kinds of event: half the work of a tagged union, and a kind nobody knows is no error.


class _Message(Struct, gc=False):
    usage: Any = None


class _Block(Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: Raw = Raw()


class _Delta(Struct, gc=False):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class _Event(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: Any = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Event).decode
_decode_loosely: Final = msgspec.json.Decoder(_Event, strict=False).decode


class AnthropicAnswerReader:
    """A reader of one answer's events. `ended` is True once it is whole. `on_signature` gets each signature."""

    def __init__(self, name: str = "anthropic", on_signature: Callable[[str], None] | None = None) -> None:
        self.ended = False
        self._name = name
        self._on_signature = on_signature
        self._lenient = LenientJson()
        self._usage = Usage()
        self._stop: StopReason | None = None
        self._calls: dict[int, bytes] = {}  # the input that came with a call's start, if any

    @property
    def finished(self) -> bool:
        """This API always says that its answer is at its end."""
        return self.ended

    def read_all(self, events: Sequence[Event]) -> Iterable[Chunk]:
        """The chunks that these events are, neighbouring words in one. What stands before an error is told before."""
        if len(events) == 1:
            return self.read(*events[0])
        decoded = decode_all(_decode, events)
        if decoded is None:
            return join_text_deltas(chunk for name, data in events for chunk in self.read(name, data))
        return self._read_decoded(events, decoded)

    def _read_decoded(self, events: Sequence[Event], decoded: Sequence[_Event]) -> Iterator[Chunk]:
        words: list[str] = []
        index = 0
        for (name, _), event in zip(events, decoded, strict=True):
            delta = event.delta
            is_text = delta is not None and delta.type == "text_delta" and event.type == "content_block_delta"
            if words and not (is_text and event.index == index):
                yield TextDelta("".join(words), index)
                words = []
            if is_text and delta is not None:
                words.append(delta.text)
                index = event.index
                continue
            yield from self._chunks(name, event)
            if self.ended:
                return
        if words:
            yield TextDelta("".join(words), index)

    def read(self, name: bytes, data: bytes) -> Sequence[Chunk]:
        """The chunks that this event is. Raises ProviderError for an error in the stream, StreamCut for nonsense."""
        if self.ended:
            return ()
        try:
            event = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = self._lenient.decode(_decode_loosely, data, self._name)
        return self._chunks(name, event)

    def _chunks(self, name: bytes, event: _Event) -> Sequence[Chunk]:
        delta = event.delta
        if event.type == "content_block_delta" and delta is not None:
            if delta.type == "text_delta":  # nearly all of them
                return (TextDelta(delta.text, event.index),)
            return self._read_delta(delta, event.index)
        return self._read_other(event.type or name.decode(errors="replace"), event)

    def close(self) -> Sequence[Chunk]:
        """The stream is at its end. An answer that has told why it stopped is whole without the last event."""
        if self.ended:
            return ()
        if self._stop is None or self._calls:
            raise StreamCut(f"{self._name}: the stream ended before the answer did")
        self.ended = True
        return (Done(self._stop),)

    def _read_delta(self, delta: _Delta, index: int) -> Sequence[Chunk]:
        match delta.type:
            case "input_json_delta":
                if delta.partial_json and index in self._calls:
                    self._calls[index] = b""
                return (ToolInputDelta(delta.partial_json, index),)
            case "thinking_delta":
                return (ThinkingDelta(delta.thinking, index),)
            case "signature_delta":
                return self._sign(ThinkingDelta("", index, delta.signature))
            case _:
                return ()

    def _read_other(self, kind: str, event: _Event) -> Sequence[Chunk]:
        match kind:
            case "content_block_start":
                return self._start(event.content_block or _Block(), event.index)
            case "content_block_stop" if event.index in self._calls:
                end = ToolUseEnd(event.index)
                given = self._calls.pop(event.index)
                return (ToolInputDelta(given.decode(), event.index), end) if given else (end,)
            case "message_start":
                return self._count(event.message.usage if event.message else None)
            case "message_delta":
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._stop = _STOPS.get(event.delta.stop_reason, "end")
                return self._count(event.usage)
            case "message_stop":
                self.ended = True
                return (Done(self._stop or "end"),)
            case "error":
                raise stream_error(self._name, complaint_of(event.error), KINDS)
            case _:
                return ()

    def _start(self, block: _Block, index: int) -> Sequence[Chunk]:
        match block.type:
            case "tool_use":
                given = bytes(block.input)
                self._calls[index] = b"" if given in _NO_INPUT else given
                return (ToolUseStart(block.id, block.name, index),)
            case "text" if block.text:
                return (TextDelta(block.text, index),)
            case "thinking" if block.thinking or block.signature:
                return self._sign(ThinkingDelta(block.thinking, index, block.signature))
            case "redacted_thinking":
                return self._sign(ThinkingDelta("", index, block.data, redacted=True))
            case _:
                return ()

    def _sign(self, thought: ThinkingDelta) -> Sequence[Chunk]:
        if self._on_signature is not None and thought.signature:
            self._on_signature(thought.signature)
        return (thought,)

    def _count(self, usage: object) -> Sequence[Chunk]:
        """Each report tells totals; what it leaves out stays as it was."""
        counts = read_token_counts(usage)
        if not counts:
            return ()
        known = self._usage
        self._usage = Usage(
            input=counts.get("input_tokens", known.input),
            output=counts.get("output_tokens", known.output),
            cache_read=counts.get("cache_read_input_tokens", known.cache_read),
            cache_write=counts.get("cache_creation_input_tokens", known.cache_write),
        )
        return (UsageReport(self._usage),)


# ── answers that were not streamed ──────────────────────────────────────────────────────────────────────────

_KIND: Final = "message"
_CUT: Final = ("max_tokens", "model_context_window_exceeded")


class _Kind(Struct):
    type: str = ""


class _Answer(Struct):
    type: str
    content: list[Raw]
    stop_reason: str
    usage: Raw = Raw(b"null")


_decode_answer: Final = msgspec.json.Decoder(_Answer).decode
_kind_of: Final = msgspec.json.Decoder(_Kind).decode
_encode: Final = msgspec.json.Encoder().encode


def events_of_non_streaming(body: bytes) -> list[Event]:
    """Empty for what is no answer, or does not say why it stopped: nobody knows whether that was all of it."""
    try:
        answer = _decode_answer(body)
        if answer.type == _KIND:
            return list(_events(answer))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return []


def _events(answer: _Answer) -> Iterator[Event]:
    yield b"", b'{"type":"message_start","message":{"usage":%b}}' % answer.usage
    last = len(answer.content) - 1
    for index, block in enumerate(answer.content):
        yield b"", b'{"type":"content_block_start","index":%d,"content_block":%b}' % (index, block)
        # What a limit has cut off may look answer in one piece: a call without an end is never run.
        if index < last or answer.stop_reason not in _CUT or _kind_of(block).type != "tool_use":
            yield b"", b'{"type":"content_block_stop","index":%d}' % index
    yield b"", b'{"type":"message_delta","delta":{"stop_reason":%b}}' % _encode(answer.stop_reason)
    yield b"", b'{"type":"message_stop"}'
