"""Connections of our HTTP servers, with limits for clients that have not shown the token: how many, and for how long.

Whoever can open a connection could otherwise keep it open with half a request until the process has no file
descriptor left, and then nobody is served. So there is a cap; a new connection beyond it closes the oldest one of
the address that has the most. A client with the right token is not counted from its first request on.
"""

import asyncio
import logging
import resource
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

REQUEST_WITHIN: Final = 10.0
"""Seconds in which the head of a request must be complete, and between two requests of a client without a token."""
ACCEPT_AT_ONCE: Final = 16
"""Connections taken from the kernel before the cap is looked at again. Few, because each holds a file descriptor."""
RESERVED_FILES: Final = 96
"""File descriptors for everything but connections: databases, log files, models, programs."""
MOST: Final = 256
FEWEST: Final = 16
BACKLOG: Final = 128


def listen(host: str, port: int) -> socket.socket:
    """Take the port. Raises OSError; to be called before anything else is opened, since it may well be taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


@asynccontextmanager
async def serve(
    application: web.Application, connections: "Connections", sock: socket.socket, *, shutdown_timeout: float
) -> AsyncGenerator[None]:
    """Serve until the block ends; then take nothing new, and finish within the timeout what is being answered."""
    runner = web.AppRunner(application, access_log=None, logger=log, shutdown_timeout=shutdown_timeout)
    closing_slow = asyncio.create_task(connections.run(), name="close slow connections")
    try:
        await runner.setup()
        http = runner.server
        assert http is not None
        listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(http(), connections), sock=sock, backlog=ACCEPT_AT_ONCE
        )
        sock.listen(BACKLOG)  # the kernel may keep more of them waiting than we take at once
        with closing(listener):
            yield
    finally:
        await runner.cleanup()
        sock.close()
        closing_slow.cancel()


def cap_for_open_files(soft_limit: int | None = None) -> int:
    """Return how many connections without a token fit under this process's limit of open files."""
    limit = soft_limit or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST
    return max(FEWEST, min(MOST, (limit - RESERVED_FILES) // 2))


class Connection(asyncio.Protocol):
    """A connection: it hands everything on to the HTTP protocol, and reports its begin and end."""

    def __init__(self, http: web.RequestHandler, connections: "Connections") -> None:
        self.http = http
        self.address = ""
        self.is_busy = False
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername") or [""]
        self.address = str(peer[0])
        self.http.connection_made(transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.http.data_received(data)

    def eof_received(self) -> None:
        self.http.eof_received()

    def pause_writing(self) -> None:
        self.http.pause_writing()

    def resume_writing(self) -> None:
        self.http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self.http.connection_lost(exc)

    def abort(self) -> None:
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()


class Connections:
    def __init__(self, now: Callable[[], float], most: int | None = None) -> None:
        self._now = now
        self._most = most or cap_for_open_files()
        self._by_http: dict[web.RequestHandler, Connection] = {}
        self._without_token: dict[Connection, float] = {}
        """The longest idle first, with the time since when."""

    def add(self, connection: Connection) -> None:
        self._by_http[connection.http] = connection
        self._without_token[connection] = self._now()
        while len(self._without_token) > self._most:
            # The longest idle one of the address that has the most.
            ((address, _),) = Counter(each.address for each in self._without_token).most_common(1)
            self._close(next(each for each in self._without_token if each.address == address))

    def remove(self, connection: Connection) -> None:
        self._by_http.pop(connection.http, None)
        self._without_token.pop(connection, None)

    @web.middleware
    async def count_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A request that is being answered is complete: its connection is not closed for being slow."""
        connection = self._by_http.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.is_busy = True
        try:
            return await handler(request)
        finally:
            connection.is_busy = False
            if self._without_token.pop(connection, None) is not None:
                self._without_token[connection] = self._now()

    def trust(self, request: web.Request, *, trusted: bool) -> None:
        """Note whether the request had the right token: its connection is counted only if it had not."""
        connection = self._by_http.get(request.protocol)
        if trusted and connection is not None:
            self._without_token.pop(connection, None)
        elif connection is not None:
            self._without_token.setdefault(connection, self._now())

    async def run(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.close_slow()

    def close_slow(self) -> None:
        late = self._now() - REQUEST_WITHIN
        for connection, since in list(self._without_token.items()):
            if since <= late and not connection.is_busy:
                self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._without_token.pop(connection, None)
        connection.abort()


class _HideContent(logging.Filter):
    """Log only the error's type: its message quotes the request, and a header in it may hold the token."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info and record.exc_info[1]
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            record.msg = "a request that is not proper HTTP was refused: %s"
            record.args = (type(error).__name__,)
            record.exc_info = record.exc_text = None
            record.levelno = logging.WARNING
            record.levelname = "WARNING"
        return True


log = logging.getLogger("finclaw.web.http")
log.addFilter(_HideContent())
