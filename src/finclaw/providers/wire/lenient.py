"""JSON from servers that write it loosely."""

import json

from finclaw.kernel.text import whole_characters


def strictly(data: bytes) -> bytes:
    """The same JSON as strict readers take it: no number is not one, no character is half. Raises ValueError.

    Deep nesting is a RecursionError here as everywhere.
    """
    read = json.loads(data, parse_constant=_nothing)
    return whole_characters(json.dumps(read, ensure_ascii=False)).encode()


def _nothing(_: str) -> None:
    """For NaN and the infinities."""
