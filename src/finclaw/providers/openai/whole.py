"""An answer in one piece, from a server or a proxy that does not stream, as the events that it would have been."""

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from finclaw.providers.wire.sse import Event


class _Choice(Struct):
    message: Raw
    finish_reason: str
    index: int | None = 0


class _Whole(Struct):
    choices: list[_Choice]
    usage: Raw = Raw(b"null")
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Whole).decode
_encode: Final = msgspec.json.Encoder().encode


def events_of_whole(body: bytes) -> list[Event]:
    """Empty for what is no answer, or does not say why it stopped: nobody knows whether that was all of it."""
    try:
        whole = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if whole.error or not whole.choices:
        return []
    choices = [
        {"index": each.index, "delta": each.message, "finish_reason": each.finish_reason} for each in whole.choices
    ]
    return [(b"", _encode({"choices": choices, "usage": whole.usage})), (b"", b"[DONE]")]
