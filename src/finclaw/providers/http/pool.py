"""A connection pool: HTTP/1.1 connections to one API, as many as there are requests at once, and used again."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]  an address may be any tuple

from finclaw.errors import AuthFailed
from finclaw.kernel.port import Clock
from finclaw.providers.http.address import parse_address
from finclaw.providers.http.connection import HttpConnection
from finclaw.providers.http.failure import (
    Kinds,
    connection_lost_error,
    retry_after_seconds,
    status_error,
    unreachable_error,
)
from finclaw.providers.http.prefix_cache import Part
from finclaw.providers.http.response import HttpResponse, IdleTimeouts

Body = bytes | Sequence[Part]

CONNECT_SECONDS: Final = 10.0
NEXT_ADDRESS_SECONDS: Final = 0.25  # then the next address is tried beside it
IDLE_CONNECTION_SECONDS: Final = 15.0  # many servers hang up soon after
LONG: Final = 65_536  # bytes of a body for which a second write costs less than a copy
VERY_LONG: Final = 524_288  # bytes of a body for which a write for each of its parts does
READ_AT_ONCE: Final = 65_536

_ALWAYS: Final = {
    "accept": "text/event-stream",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "finclaw",
}


class HttpPool:
    """A connection pool for one address and one set of headers. It belongs to the event loop in which it was made."""

    def __init__(self, url: str, headers: Mapping[str, str], *, name: str, kinds: Kinds, clock: Clock) -> None:
        self._address = address = parse_address(url, name)
        self._name = name
        self._kinds = kinds
        self._clock = clock
        given = {key.lower(): value for key, value in headers.items()}
        self._head = _encode_head(name, address.path, {"host": address.authority, **_ALWAYS, **address.login, **given})
        self._idle: list[tuple[float, HttpConnection]] = []
        self._buffer = memoryview(bytearray(READ_AT_ONCE))
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._timeouts = IdleTimeouts(self._loop)

    async def post(self, write: Callable[[], Body], *, first_byte: float, idle: float) -> HttpResponse:
        """The response to read from; the caller releases it. Raises ProviderError.

        `write` gives the body, in one piece or in parts. It is asked once a connection is there, so that nobody who
        waits holds one: a thousand waiting turns would else hold the same prompt a thousand times.
        `first_byte` bounds, in seconds, the wait until the answer begins, `idle` each later silence.
        """
        begin_by = self._loop.time() + first_byte
        connection = self._take_idle() or await self._open_connection(begin_by)
        response = HttpResponse(connection, self._name, begin_by, idle, self._release, self._timeouts)
        try:
            # Once: whether to send it again, and pay again, is not the pool's to decide.
            await response.begin(connection.send(*self._request(write())))
        except OSError as error:
            response.abort()
            raise response.error_for(error) from error
        except BaseException:
            response.abort()
            raise
        if connection.status == 200:
            return response
        said = await response.read_error_body()
        wait = retry_after_seconds(connection.headers, self._clock.now())
        raise status_error(self._name, connection.status, wait, said, self._kinds)

    async def close(self) -> None:
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop tells them that they are closed

    def _request(self, body: Body) -> Sequence[Part]:
        parts = (body,) if isinstance(body, bytes) else body
        length = sum(map(len, parts))
        head = b"%b%d\r\n\r\n" % (self._head, length)
        if length < LONG:
            return (b"".join((head, *parts)),)
        return (head, b"".join(parts)) if length < VERY_LONG else (head + parts[0], *parts[1:])

    async def _open_connection(self, begin_by: float) -> HttpConnection:
        try:
            async with asyncio.timeout_at(begin_by):
                return await self._connect()
        except TimeoutError as error:
            raise connection_lost_error(self._name, error) from error
        except OSError as error:
            raise unreachable_error(self._name, f"{self._address.host}:{self._address.port}", error) from error

    async def _connect(self) -> HttpConnection:
        address = self._address
        loop = self._loop
        secure = default_tls_context() if address.secure else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
                # Not left to the loop: uvloop would try one address after the other, and a dead one first for long.
                # And asyncio's own race, in Python 3.11, leaves a socket open when its caller is cancelled.
                sock = await start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, loop=loop)
                name = address.host if secure else None
                _, connection = await loop.create_connection(
                    lambda: HttpConnection(self._buffer, loop), sock=sock, ssl=secure, server_hostname=name
                )
        except TimeoutError as error:
            raise ConnectionError(f"no connection within {CONNECT_SECONDS:g} s") from error
        return connection

    # ── idle connections ──────────────────────────────────────────────────────────────────────────────────

    def _release(self, connection: HttpConnection) -> None:
        if self._closed or not connection.usable:
            connection.close()
            return
        self._idle.append((self._loop.time() + IDLE_CONNECTION_SECONDS, connection))
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(IDLE_CONNECTION_SECONDS, self._sweep)

    def _take_idle(self) -> HttpConnection | None:
        """The one used last: so those that are too many grow old."""
        while self._idle:
            _, connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    def _sweep(self) -> None:
        now = self._loop.time()
        old = [connection for until, connection in self._idle if until <= now]
        self._idle = self._idle[len(old) :]  # the oldest stand first
        for connection in old:
            connection.close()
        self._sweeper = self._loop.call_at(self._idle[0][0], self._sweep) if self._idle else None


def _encode_head(name: str, path: str, headers: Mapping[str, str]) -> bytes:
    """All but the length, which stands last."""
    lines = (f"POST {path} HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items()))
    if any(not line.isascii() or not line.isprintable() for line in lines):
        raise AuthFailed(f"{name}: the key holds a character that cannot be sent; look for a line break in it")
    return ("\r\n".join(lines) + "\r\ncontent-length: ").encode()


@cache
def default_tls_context() -> ssl.SSLContext:
    """The context that trusts the machine's certificates. It costs some 20 ms to make."""
    return ssl.create_default_context()
