"""A response's body: so many bytes of it and no more, counted after they were unpacked."""

import zlib
from collections.abc import AsyncIterator
from typing import Final

from finclaw.errors import ToolError

ENCODINGS: Final = "gzip, deflate"
"""What we ask for. Each can be unpacked by the spoonful, so that a bomb never unfolds."""
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_ANY_HEADER: Final = zlib.MAX_WBITS | 32


async def read_body(chunks: AsyncIterator[bytes], encoding: str, most: int) -> tuple[bytes, bool]:
    """The first `most` bytes, and whether there were more."""
    unpack = _unpacker(encoding.strip().lower())
    body = bytearray()
    try:
        async for chunk in chunks:
            body += unpack.feed(chunk, most + 1 - len(body))
            if len(body) > most:
                return bytes(body[:most]), True
    except zlib.error as error:
        raise ToolError("the page is packed in a way that cannot be unpacked; look for another source") from error
    if not unpack.is_whole:
        raise ToolError("the page broke off before its end; try again, or look for another source")
    return bytes(body), False


class _Plain:
    is_whole = True

    def feed(self, chunk: bytes, room: int) -> bytes:
        return chunk[:room]


class _Zipped:
    def __init__(self, *, may_be_bare: bool) -> None:
        self._may_be_bare = may_be_bare
        self._stream = zlib.decompressobj(_ANY_HEADER)
        self._has_begun = False

    @property
    def is_whole(self) -> bool:
        return self._stream.eof or not self._has_begun

    def feed(self, chunk: bytes, room: int) -> bytes:
        if not self._has_begun and chunk:
            self._has_begun = True
            if self._may_be_bare and chunk[0] & 0x0F != zlib.DEFLATED:  # many servers leave the header out
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        # What does not fit into the room stays packed, and nobody asks for it: the room is then full.
        return b"" if self._stream.eof else self._stream.decompress(chunk, room)


def _unpacker(encoding: str) -> _Plain | _Zipped:
    if encoding in ("", "identity"):
        return _Plain()
    if encoding in _GZIP or encoding == "deflate":
        return _Zipped(may_be_bare=encoding == "deflate")
    raise ToolError("the page is packed in a way that was not asked for; look for another source")
