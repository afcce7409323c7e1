"""A server on this machine whose every byte the test decides, and the ways to ask it."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal, NamedTuple

from finclaw.providers.http.connection import HttpConnection
from finclaw.providers.http.pool import HttpPool
from finclaw.testing import FakeClock

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
End = Literal["keep", "fin", "rst"]


class Heard(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head, await reader.readexactly(length)


def says(*pieces: bytes, end: End = "keep") -> Script:
    """The pieces, after each request, each in a write of its own."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            if end == "rst":
                reset(writer)
            if end != "keep":
                return

    return script


def reset(writer: asyncio.StreamWriter) -> None:
    """What was written goes out; then the line is cut, not closed."""
    told = writer.get_extra_info("socket")
    told.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Raw:
    """The running server: where it is, and how many have come."""

    def __init__(self, script: Script) -> None:
        self.port = 0
        self.connections = 0
        self.gone = asyncio.Semaphore(0)
        """One more with each connection that has ended."""
        self._script = script
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.connections += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._script(reader, writer)
        finally:
            self._serving.discard(task)
            writer.close()
            self.gone.release()

    async def close(self) -> None:
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0)  # the transports hear of their end in the next round


@asynccontextmanager
async def raw(script: Script, *, host: str = "127.0.0.1", secure: ssl.SSLContext | None = None) -> AsyncGenerator[Raw]:
    opened = Raw(script)
    server = await asyncio.start_server(opened.serve, host, 0, ssl=secure)
    opened.port = server.sockets[0].getsockname()[1]
    try:
        yield opened
    finally:
        server.close()
        await opened.close()
        await server.wait_closed()


@asynccontextmanager
async def pool_to(
    url: str, headers: dict[str, str] | None = None, clock: FakeClock | None = None
) -> AsyncGenerator[HttpPool]:
    line = HttpPool(url, headers or {}, name="api", kinds={}, clock=clock or FakeClock())
    try:
        yield line
    finally:
        await line.close()


def fresh_connection() -> HttpConnection:
    return HttpConnection(memoryview(bytearray(65_536)), asyncio.get_running_loop())


class Loose(asyncio.Transport):
    """A transport that leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


def hear(connection: HttpConnection, piece: bytes) -> None:
    connection.get_buffer(-1)[: len(piece)] = piece
    connection.buffer_updated(len(piece))


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[HttpConnection]:
    _, connection = await asyncio.get_running_loop().create_connection(fresh_connection, "127.0.0.1", port)
    try:
        yield connection
    finally:
        connection.close()
        await asyncio.sleep(0)


REQUEST = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}"


async def asked(connection: HttpConnection) -> Heard:
    """One question, read to its end."""
    await connection.send(REQUEST)
    return Heard(connection.status, connection.headers, await rest_of(connection))


async def rest_of(connection: HttpConnection) -> bytes:
    pieces: list[bytes] = []
    while data := await connection.read():
        pieces.append(data)
    return b"".join(pieces)


async def heard(*pieces: bytes, end: End = "keep") -> Heard:
    async with raw(says(*pieces, end=end)) as server, connected(server.port) as connection:
        return await asked(connection)
