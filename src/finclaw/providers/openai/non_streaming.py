"""Non-streaming answers, from a server or a proxy that does not stream, as the events that they would have been.

The answer is one event with all of it: its message has the fields of a delta.
"""

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from finclaw.providers.http.sse import Event


class _Choice(Struct):
    message: Raw
    finish_reason: str
    index: int | None = 0


class _Answer(Struct):
    choices: list[_Choice]
    usage: Raw = Raw(b"null")
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Answer).decode
_encode: Final = msgspec.json.Encoder().encode


def events_of_non_streaming(body: bytes) -> list[Event]:
    """Empty for what is no answer, or does not say why it stopped: nobody knows whether that was all of it."""
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if answer.error or not answer.choices:
        return []
    choices = [
        {"index": each.index, "delta": each.message, "finish_reason": each.finish_reason} for each in answer.choices
    ]
    return [(b"", _encode({"choices": choices, "usage": answer.usage})), (b"", b"[DONE]")]
