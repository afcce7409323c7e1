"""Whatever a tool gave back, as text."""

import json
import re
from contextlib import suppress
from typing import Any, Final

from msgspec.json import encode

from finclaw.tools.guard.storable import NO_RESULT

_ESCAPED: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4})++|\\.", re.DOTALL)


def as_text(value: Any) -> str:
    """Text as it is, nothing as words for nothing, anything else as JSON."""
    if value is None:
        return NO_RESULT
    if isinstance(value, bytes | bytearray):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _readable(value) if value.lstrip()[:1] in ("{", "[", '"') else value
    return _as_json(value)


def _as_json(value: Any) -> str:
    with suppress(Exception):  # a stranger's object: too large a number, a circle, a __str__ that raises
        return encode(value, enc_hook=str).decode()
    with suppress(Exception):  # and the slower writer, which takes numbers of any length
        return json.dumps(value, ensure_ascii=False, default=str)
    return f"[A result of type {type(value).__name__} that cannot be written as JSON]"


def _readable(text: str) -> str:
    r"""JSON with its `\uac00` written out: masks and models read characters. It means the same as before."""
    return _ESCAPED.sub(_written_out, text) if "\\u" in text else text


def _written_out(escaped: re.Match[str]) -> str:
    if escaped[0][1] != "u" or len(escaped[0]) < 6:
        return escaped[0]
    units = bytes.fromhex(escaped[0].replace("\\u", ""))
    return "".join(_safely(character) for character in units.decode("utf-16-be", "surrogatepass"))


def _safely(character: str) -> str:
    """A quote, a backslash and a line end stay escaped, or the JSON would end there."""
    return f"\\u{ord(character):04x}" if character in '"\\\x7f' or character < " " else character
