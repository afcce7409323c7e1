"""The events of one answer become chunks. What this version does not know is passed over, as the API asks for."""

from typing import Final

import msgspec
from msgspec import Struct

from finclaw.errors import StreamCut
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
)
from finclaw.providers.anthropic.failure import Complaint, failed

_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}

# One struct for all kinds of event: half the work of a tagged union, and a kind nobody knows is no error.


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(Struct):
    usage: _Usage | None = None


class _Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""


class _Delta(Struct):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    stop_reason: str | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Complaint | None = None


_decode: Final = msgspec.json.Decoder(_Event).decode


class AnswerReader:
    """Reads the data of one event after the other. `ended` is True once the answer is whole."""

    def __init__(self) -> None:
        self.ended = False
        self._usage = Usage()
        self._stop: StopReason = "end"
        self._calls: set[int] = set()

    def read(self, data: bytes) -> Chunk | None:
        """The chunk that this event is. Raises ProviderError for an error in the stream, StreamCut for nonsense."""
        if self.ended:
            return None
        try:
            event = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:  # one of its kind: ValidationError
            raise StreamCut(f"anthropic sent an event that cannot be read: {error}") from error
        delta = event.delta
        if event.type == "content_block_delta" and delta is not None:
            return _delta(delta, event.index)
        return self._seldom(event)

    def _seldom(self, event: _Event) -> Chunk | None:
        match event.type:
            case "content_block_start":
                return self._start(event.content_block or _Block(), event.index)
            case "content_block_stop" if event.index in self._calls:
                self._calls.discard(event.index)
                return ToolUseEnd(event.index)
            case "message_start":
                return self._count(event.message.usage if event.message else None)
            case "message_delta":
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._stop = _STOPS.get(event.delta.stop_reason, "end")
                return self._count(event.usage)
            case "message_stop":
                self.ended = True
                return Done(self._stop)
            case "error":
                raise failed("anthropic", event.error or Complaint())
            case _:
                return None

    def _start(self, block: _Block, index: int) -> Chunk | None:
        if block.type == "tool_use":
            self._calls.add(index)
            return ToolUseStart(block.id, block.name, index)
        if block.type == "text" and block.text:
            return TextDelta(block.text, index)
        if block.type == "thinking" and block.thinking:
            return ThinkingDelta(block.thinking, index)
        return None

    def _count(self, usage: _Usage | None) -> Chunk | None:
        """Each report tells totals; what it leaves out stays as it was."""
        if usage is None:
            return None
        known = self._usage
        self._usage = Usage(
            input=_or(usage.input_tokens, known.input),
            output=_or(usage.output_tokens, known.output),
            cache_read=_or(usage.cache_read_input_tokens, known.cache_read),
            cache_write=_or(usage.cache_creation_input_tokens, known.cache_write),
        )
        return UsageReport(self._usage)


def _delta(delta: _Delta, index: int) -> Chunk | None:
    kind = delta.type
    if kind == "text_delta":
        return TextDelta(delta.text, index)
    if kind == "input_json_delta":
        return ToolInputDelta(delta.partial_json, index)
    if kind == "thinking_delta":
        return ThinkingDelta(delta.thinking, index)
    return None


def _or(told: int | None, known: int) -> int:
    return known if told is None else told
