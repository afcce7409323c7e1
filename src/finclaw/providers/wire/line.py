"""The connections to one API: as many as there are questions at once, and used again."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]  an address may be any tuple

from finclaw.errors import AuthFailed
from finclaw.kernel.port import Clock
from finclaw.providers.wire.address import address_of
from finclaw.providers.wire.connection import Connection
from finclaw.providers.wire.failure import Kinds, lost, not_reached, refused, seconds_to_wait
from finclaw.providers.wire.pulse import Pulse
from finclaw.providers.wire.reply import Reply
from finclaw.providers.wire.silence import SilenceWatch
from finclaw.providers.wire.trunk import Part

Body = bytes | Sequence[Part]

CONNECT_SECONDS: Final = 10.0
NEXT_ADDRESS_SECONDS: Final = 0.25
"""When an address does not answer, the next one is tried beside it."""
SPARE_SECONDS: Final = 15.0
"""How long a connection that nobody uses is kept; many servers hang up soon after."""
LONG: Final = 65_536
"""Bytes of a body for which a second write costs less than a copy."""
VERY_LONG: Final = 524_288
"""Bytes of a body for which a write for each of its parts does."""
READ_AT_ONCE: Final = 65_536

_ALWAYS: Final = {
    "accept": "text/event-stream",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "finclaw",
}


class Line:
    """Asks one address with one set of headers."""

    def __init__(self, url: str, headers: Mapping[str, str], *, name: str, kinds: Kinds, clock: Clock) -> None:
        self._address = address = address_of(url, name)
        self._name = name
        self._kinds = kinds
        self._clock = clock
        given = {key.lower(): value for key, value in headers.items()}
        self._head = _head(name, address.path, {"host": address.authority, **_ALWAYS, **address.login, **given})
        self._spare: list[tuple[float, Connection]] = []
        self._buffer = memoryview(bytearray(READ_AT_ONCE))
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._silence = SilenceWatch(self._loop)
        self._pulse = Pulse(self._loop)

    async def post(self, write: Callable[[], Body], *, first_byte: float, idle: float) -> Reply:
        """The reply to read from; the caller releases it. Raises ProviderError.

        `write` gives the body, in one piece or in parts. It is asked once a connection is there, so that nobody who
        waits holds one: a thousand waiting turns would else hold the same prompt a thousand times.
        `first_byte` bounds, in seconds, the wait until the answer begins, `idle` each later silence.
        """
        begin_by = self._loop.time() + first_byte
        connection = self._take_spare() or await self._connected(begin_by)
        reply = Reply(connection, self._name, begin_by, idle, self._keep, self._silence)
        try:
            # Once: whether to ask again, and pay again, is not the line's to decide.
            await reply.begin(connection.ask(*self._request(write())))
        except OSError as error:
            reply.give_up()
            raise reply.lost(error) from error
        except BaseException:
            reply.give_up()
            raise
        if connection.status == 200:
            return reply
        said = await reply.refusal()
        wait = seconds_to_wait(connection.headers, self._clock.now())
        raise refused(self._name, connection.status, wait, said, self._kinds)

    async def close(self) -> None:
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for _, connection in self._spare:
            connection.close()
        self._spare.clear()
        await asyncio.sleep(0)  # the loop tells them that they are closed

    def _request(self, body: Body) -> Sequence[Part]:
        parts = (body,) if isinstance(body, bytes) else body
        length = sum(map(len, parts))
        head = b"%b%d\r\n\r\n" % (self._head, length)
        if length < LONG:
            return (b"".join((head, *parts)),)
        return (head, b"".join(parts)) if length < VERY_LONG else (head + parts[0], *parts[1:])

    async def _connected(self, begin_by: float) -> Connection:
        try:
            async with asyncio.timeout_at(begin_by):
                return await self._connect()
        except TimeoutError as error:
            raise lost(self._name, error) from error
        except OSError as error:
            raise not_reached(self._name, f"{self._address.host}:{self._address.port}", error) from error

    async def _connect(self) -> Connection:
        address, loop = self._address, self._loop
        secure = trusted() if address.secure else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
                # Not left to the loop: uvloop would try one address after the other, and a dead one first for long.
                # And asyncio's own race, in Python 3.11, leaves a socket open when its caller is cancelled.
                sock = await start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, loop=loop)
                name = address.host if secure else None
                _, connection = await loop.create_connection(
                    lambda: Connection(self._buffer, self._pulse), sock=sock, ssl=secure, server_hostname=name
                )
        except TimeoutError as error:
            raise ConnectionError(f"no connection within {CONNECT_SECONDS:g} s") from error
        return connection

    # ── those that nobody uses ──────────────────────────────────────────────────────────────────────────────────

    def _keep(self, connection: Connection) -> None:
        if self._closed or not connection.usable:
            connection.close()
            return
        self._spare.append((self._loop.time() + SPARE_SECONDS, connection))
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SPARE_SECONDS, self._sweep)

    def _take_spare(self) -> Connection | None:
        """The one used last: so those that are too many grow old."""
        while self._spare:
            _, connection = self._spare.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    def _sweep(self) -> None:
        now = self._loop.time()
        old = [connection for until, connection in self._spare if until <= now]
        self._spare = self._spare[len(old) :]  # the oldest stand first
        for connection in old:
            connection.close()
        self._sweeper = self._loop.call_at(self._spare[0][0], self._sweep) if self._spare else None


# ── the head of every request ───────────────────────────────────────────────────────────────────────────────────────


def _head(name: str, path: str, headers: Mapping[str, str]) -> bytes:
    """All but the length, which stands last."""
    lines = (f"POST {path} HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items()))
    if any(not line.isascii() or not line.isprintable() for line in lines):
        raise AuthFailed(f"{name}: the key holds a character that cannot be sent; look for a line break in it")
    return ("\r\n".join(lines) + "\r\ncontent-length: ").encode()


@cache
def trusted() -> ssl.SSLContext:
    """Costs some 20 ms to make."""
    return ssl.create_default_context()
