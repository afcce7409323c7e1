"""One HTTP/1.1 connection to a model server. llhttp parses it; nothing else stands between its bytes and the reader.

Why not the client of aiohttp: an answer comes in hundreds of small pieces, and each of them cost it nine calls in
Python; `docs/decisions/0013-own-line.md` has the figures.
"""

import asyncio
import zlib
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from math import floor
from typing import Any, Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from finclaw.providers.http.prefix_cache import Part

MOST_UNREAD: Final = 1_000_000  # bytes that may wait for the reader
LONGEST_HEAD: Final = 65_536
MOST_INFLATED: Final = 16_000_000  # bytes out of one read; more is no answer


class ConnectionBroken(OSError):
    """The connection broke, or what came over it is no HTTP."""


class HttpConnection(asyncio.BufferedProtocol):
    """A connection that sends one request after the other; each response must be read to its end before the next.

    What comes is read into `buffer` and looked at before anything else is, so all connections of a loop may share it.
    Without it every read would cost as much room as the largest, and getting that costs more than the reading.
    """

    def __init__(self, buffer: memoryview, loop: asyncio.AbstractEventLoop) -> None:
        self._buffer = buffer
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._pieces: list[bytes] = []
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self._coalescer = ReadCoalescer(loop)
        self._broken: Exception | None = None
        self._decompressor: _Decompressor | None = None
        self._head_size = 0
        self._headed = self._until_close = self._keep_alive = False
        self.ended = True
        self.status = 0
        self._fields: dict[bytes, bytes] = {}  # as they came: nearly always two are read
        self.on_body = self._pieces.append

    # ── for the caller ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def usable(self) -> bool:
        """Another question may be asked over it: nothing of the last one is left, neither to read nor to send."""
        transport = self._transport
        return (
            self.fully_read
            and self._keep_alive
            and self._broken is None
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    @property
    def fully_read(self) -> bool:
        return self.ended and not self._pieces

    @property
    def has_unread(self) -> bool:
        return bool(self._pieces)

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode("latin-1"): value.decode("latin-1").strip() for name, value in self._fields.items()}

    def send(self, *request: Part) -> Coroutine[Any, Any, None]:
        """Not a coroutine itself: it would hold the request while it waits. Raises ConnectionBroken."""
        if self._transport is None:
            raise self._broken or ConnectionBroken("the connection is closed")
        self._parser = self._decompressor = None
        self._head_size = self._unread = 0
        self._coalescer.reset()
        self._headed = self._until_close = self._keep_alive = self.ended = False
        self._fields = {}
        for part in request:
            self._transport.write(part)
        return self._wait_for_head()

    async def read(self) -> bytes:
        """What has come of the body, as soon as something has; empty at its end. Raises ConnectionBroken."""
        while True:
            while not self._pieces:
                if self.ended:
                    return b"" if self._decompressor is None else self._decompressor.end()
                await self._next_wake()
            data = b"".join(self._pieces)
            self._pieces.clear()
            if self._unread > MOST_UNREAD and self._transport is not None:
                self._transport.resume_reading()
            self._unread = 0
            data = data if self._decompressor is None else self._decompressor.feed(data)
            if data:
                self._coalescer.mark_read(None if self.ended else self._transport)
                return data

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _wait_for_head(self) -> None:
        while not self._headed:
            await self._next_wake()

    def _next_wake(self) -> "asyncio.Future[None]":
        if self._broken is not None:
            raise self._broken
        self._waiter = self._loop.create_future()
        return self._waiter

    # ── callbacks of the event loop ───────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.ended:  # nobody asked
            return self.close()
        if self._parser is None:  # not sooner: many wait long for an answer to begin
            self._parser = HttpResponseParser(self)
        self._unread += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (HttpParserError, HttpParserUpgrade) as error:
            self._keep_alive = False
            if not self.ended:
                self._break(ConnectionBroken(f"what came is no HTTP: {error}"))
        if not self._headed and self._unread > LONGEST_HEAD:
            self._break(ConnectionBroken("the head of the answer does not end"))
        if self._unread > MOST_UNREAD:
            self._pause()
        if self.ended:
            self._parser = None  # it knows us, and would keep both of us alive
        if self.ended or self._broken is not None:
            self._wake()
        else:
            self._coalescer.bytes_arrived(self._wake)

    def eof_received(self) -> None:
        """The server's own end. A connection that is reset, or that we close, never ends an answer."""
        self.ended = self.ended or (self._headed and self._until_close and self._broken is None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._parser = None
        if not self.ended:
            self._broken = self._broken or ConnectionBroken(str(exc or "the server hung up"))
        self._wake()

    def _pause(self) -> None:
        """Whoever reads will let it go on; but nobody can read what is all wrapping."""
        if not self._pieces:
            self._break(ConnectionBroken("a megabyte came without a word in it"))
        elif self._transport is not None:
            self._transport.pause_reading()

    def _break(self, error: ConnectionBroken) -> ConnectionBroken:
        self._broken = self._broken or error
        self.close()
        return error

    def _wake(self) -> None:
        self._coalescer.cancel()
        waiter = self._waiter
        self._waiter = None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # ── callbacks of the parser ───────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self.ended:
            raise ConnectionBroken("more came than was asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value) + len(": \r\n")
        if self._head_size > LONGEST_HEAD:
            raise self._break(ConnectionBroken("the head of the answer is too long"))
        if not self._headed:  # what follows the body describes nothing any more
            self._fields[name.lower()] = value

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if self.status < 200:
            if self.status == HTTPStatus.SWITCHING_PROTOCOLS:
                raise self._break(ConnectionBroken("the server wants to speak something else than HTTP"))
            return
        self._headed = True
        self._until_close = b"content-length" not in self._fields and b"transfer-encoding" not in self._fields
        wrapped = self._fields.get(b"transfer-encoding", b"chunked").strip().lower()
        packed = self._fields.get(b"content-encoding", b"identity").strip().lower()
        if packed in (b"gzip", b"x-gzip"):
            self._decompressor = _Decompressor()
        elif packed not in (b"", b"identity") or wrapped != b"chunked":
            way = (wrapped if wrapped != b"chunked" else packed).decode("latin-1")
            raise self._break(ConnectionBroken(f"the answer is packed as {way!r}, which nobody asked for"))

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if self.status < 200:  # only that it goes on
            self._fields = {}
        else:
            self.ended = True
            self._keep_alive = self._parser.should_keep_alive()


class _Decompressor:
    """The decompressor of one answer that is compressed although nobody asked for it."""

    def __init__(self) -> None:
        self._gzip = zlib.decompressobj(31)
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        self._begun = True
        try:
            plain = self._gzip.decompress(data, MOST_INFLATED)
        except zlib.error as error:
            raise ConnectionBroken(f"what was said to be compressed is not: {error}") from error
        if self._gzip.unconsumed_tail:
            raise ConnectionBroken("a compressed answer was far larger than any answer is")
        if self._gzip.unused_data:
            raise ConnectionBroken("more follows the end of a compressed answer")
        return plain

    def end(self) -> bytes:
        """Nothing, unless something is missing."""
        if self._begun and not self._gzip.eof:
            raise ConnectionBroken("a compressed answer was cut")
        return b""


INTERVAL: Final = 0.04  # seconds between two ticks: nobody reads faster than that
_FAST: Final = 2  # ticks in a row with data before reading waits for them


class ReadCoalescer:
    """Wakes the reader at once for the first bytes of a response, and at the next tick for those that follow fast."""

    __slots__ = ("_loop", "_next_tick", "_paused", "_ticks", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next_tick = 0.0
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._paused: asyncio.Transport | None = None

    def reset(self) -> None:
        """The next bytes wake the reader at once: they are the first of a response."""
        self.cancel()
        self._next_tick = 0.0
        self._ticks = 0

    def mark_read(self, transport: asyncio.Transport | None) -> None:
        self._next_tick = (floor(self._loop.time() / INTERVAL) + 1) * INTERVAL
        if self._ticks >= _FAST and self._timer is None and transport is not None and not transport.is_closing():
            transport.pause_reading()
            self._paused = transport
            self._timer = self._loop.call_at(self._next_tick, self.cancel)

    def bytes_arrived(self, wake: Callable[[], None]) -> None:
        if self._timer is not None:
            return
        late = self._loop.time() - self._next_tick
        if late < 0:
            self._ticks += 1
            self._timer = self._loop.call_at(self._next_tick, self._fire, wake)
            return
        if late > INTERVAL:
            self._ticks = 0
        wake()

    def cancel(self) -> None:
        """Forget the timer, which knows the reader, and read again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._paused is not None:
            self._paused.resume_reading()
            self._paused = None

    def _fire(self, wake: Callable[[], None]) -> None:
        self._timer = None
        wake()
