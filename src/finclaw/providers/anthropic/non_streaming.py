"""Non-streaming answers, from a server or a proxy that does not stream, as the events that they would have been."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from finclaw.providers.http.sse import Event

_KIND: Final = "message"
_CUT: Final = ("max_tokens", "model_context_window_exceeded")


class _Kind(Struct):
    type: str = ""


class _Answer(Struct):
    type: str
    content: list[Raw]
    stop_reason: str
    usage: Raw = Raw(b"null")


_decode: Final = msgspec.json.Decoder(_Answer).decode
_kind_of: Final = msgspec.json.Decoder(_Kind).decode
_encode: Final = msgspec.json.Encoder().encode


def events_of_non_streaming(body: bytes) -> list[Event]:
    """Empty for what is no answer, or does not say why it stopped: nobody knows whether that was all of it."""
    try:
        answer = _decode(body)
        return list(_events(answer)) if answer.type == _KIND else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
