"""A bound on the values of one JSON message, counted in its bytes before anything parses it.

Parsing takes time by the number of values, not of bytes: four megabytes of `[],[],[]` keep a parser busy for seconds.
"""

from typing import Final

MOST_VALUES: Final = 60_000
"""What is parsed within 100 ms. A comma and a text count as one value, a list or an object as three."""
TOO_MANY: Final = f"it sent a message of more than {MOST_VALUES:,} values"
_CONTAINER: Final = 3
_LONGEST_NUMBER: Final = 400
_DIGITS: Final = bytes(48 if 48 <= each < 58 else 32 for each in range(256))


def has_too_many_values(message: bytes) -> bool:
    """Or a number of hundreds of digits. Only operations on all bytes at once: each takes a few milliseconds."""
    if _count(message) <= MOST_VALUES:
        return _has_long_number(message) and _has_long_number(_outside_texts(message))
    plain = _without_escapes(message)
    if plain.count(b'"') > 2 * MOST_VALUES:
        return True
    outside = _outside_texts(message)
    return _count(outside) > MOST_VALUES or _has_long_number(outside)


def _count(message: bytes) -> int:
    return message.count(b",") + _CONTAINER * (message.count(b"[") + message.count(b"{"))


def _without_escapes(message: bytes) -> bytes:
    return message.replace(b"\\\\", b"").replace(b'\\"', b"")


def _outside_texts(message: bytes) -> bytes:
    return b" ".join(_without_escapes(message).split(b'"')[::2])


def _has_long_number(message: bytes) -> bool:
    return b"0" * _LONGEST_NUMBER in message.translate(_DIGITS)
