"""Whatever a tool gave back, as text."""

import json
import re
from contextlib import suppress
from functools import cache
from typing import Any, Final

from msgspec.json import encode

from finclaw.tools.guard.storable import NO_RESULT

_WRITTEN_AS_UNITS: Final = r"(?:\\u[0-9a-fA-F]{4})++"
_UNITS: Final = re.compile(f"({_WRITTEN_AS_UNITS})")
_ESCAPED: Final = re.compile(rf"({_WRITTEN_AS_UNITS}|\\.)", re.DOTALL)
_STAYS_ESCAPED: Final = re.compile(r"[\"\\\x00-\x1f\x7f]")
"""A quote, a backslash and a line end, or the JSON would end there."""


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
    if "\\u" not in text:
        return text
    # Only where a backslash is itself escaped may a `\u` be none.
    pieces = (_ESCAPED if "\\\\" in text else _UNITS).split(text)
    pieces[1::2] = map(cache(_written_out), pieces[1::2])
    return "".join(pieces)


def _written_out(escaped: str) -> str:
    if len(escaped) < 6:
        return escaped
    units = bytes.fromhex(escaped.replace("\\u", ""))
    characters = units.decode("utf-16-be", "surrogatepass")
    return _STAYS_ESCAPED.sub(lambda character: f"\\u{ord(character[0]):04x}", characters)
