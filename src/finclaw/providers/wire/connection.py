"""One connection to a model server. llhttp reads the protocol; nothing else stands between its bytes and who waits.

Why not the client of aiohttp: an answer comes in hundreds of small pieces, and each of them cost it seven calls in
Python; `docs/decisions/0013-own-line.md` has the figures.
"""

import asyncio
import zlib
from collections.abc import Callable
from typing import Final, cast

from httptools import HttpParserError, HttpResponseParser

MOST_UNREAD: Final = 1_000_000
"""Bytes that may wait for whoever reads; then the server has to."""
LONGEST_HEAD: Final = 65_536
MOST_INFLATED: Final = 16_000_000
"""Bytes out of one read of compressed ones. More is no answer."""


class Broken(OSError):
    """The line broke off, or what came over it cannot be read."""


class Connection(asyncio.Protocol):
    """Asks one question after the other; each must be read to its end before the next."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._pieces: list[bytes] = []
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self._broken: Exception | None = None
        self._unpack: Callable[[bytes], bytes] | None = None
        self._head_size = 0
        self._headed = False
        self._keep_alive = False
        self.ended = True
        self.status = 0
        self.headers: dict[str, str] = {}
        self.on_body = self._pieces.append

    # ── for whoever asks ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def usable(self) -> bool:
        """Another question may be asked over it."""
        transport = self._transport
        return (
            self.ended
            and self._keep_alive
            and self._broken is None
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    async def ask(self, *request: bytes) -> None:
        """Send a request and wait for the head of its answer. Raises Broken."""
        if self._transport is None:
            raise self._broken or Broken("the connection is closed")
        self._parser = HttpResponseParser(self)
        self._unpack = None
        self._head_size = 0
        self._headed = self._keep_alive = self.ended = False
        self.headers = {}
        for part in request:
            self._transport.write(part)
        while self._broken is not None or not self._headed:
            await self._news()

    async def read(self) -> bytes:
        """What has come of the body, as soon as something has; empty at its end. Raises Broken."""
        while True:
            while not self._pieces:
                if self.ended:
                    return b""
                await self._news()
            data = b"".join(self._pieces)
            self._pieces.clear()
            if self._unread > MOST_UNREAD and self._transport is not None:
                self._transport.resume_reading()
            self._unread = 0
            data = data if self._unpack is None else self._unpack(data)
            if data:
                return data

    def close(self) -> None:
        """At once, whatever is still under way."""
        if self._transport is not None:
            self._transport.abort()

    async def _news(self) -> None:
        if self._broken is not None:
            raise self._broken
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # ── what the event loop tells ───────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.ended or self._parser is None:  # nobody asked
            self._keep_alive = False
            return self.close()
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._keep_alive = False
            if not self.ended:
                self._break(Broken(f"what came is no HTTP: {error}"))
        if not self._headed and self._unread > LONGEST_HEAD:
            self._break(Broken("the head of the answer does not end"))
        if self._unread > MOST_UNREAD and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._parser = None  # it knows us, and would keep both of us alive
        if exc is None and self._headed and self._until_close:
            self.ended = True
        elif not self.ended:
            self._broken = self._broken or Broken(str(exc or "the server hung up"))
        self._wake()

    def _break(self, error: Exception) -> None:
        self._broken = self._broken or error
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def _until_close(self) -> bool:
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers

    # ── what the parser tells ───────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self.ended:  # more than was asked for
            self._keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        self._head_size += len(name) + len(value)
        if self._head_size > LONGEST_HEAD:
            self._break(Broken("the head of the answer is too long"))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser is None or self.ended:
            return
        self.status = parser.get_status_code()
        self._headed = self.status >= 200
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip"):
            self._unpack = _inflater()
        elif encoding not in ("", "identity"):
            self._break(Broken(f"the answer is packed as {encoding!r}, which nobody asked for"))

    def on_message_complete(self) -> None:
        if self.status < 200:  # only that it goes on
            self.headers = {}
        elif not self.ended:
            self.ended = True
            self._keep_alive = self._parser is not None and self._parser.should_keep_alive()


def _inflater() -> Callable[[bytes], bytes]:
    gzip = zlib.decompressobj(31)

    def inflate(data: bytes) -> bytes:
        try:
            plain = gzip.decompress(data, MOST_INFLATED)
        except zlib.error as error:
            raise Broken(f"what was said to be compressed is not: {error}") from error
        if gzip.unconsumed_tail:
            raise Broken("a compressed answer was far larger than any answer is")
        return plain

    return inflate
