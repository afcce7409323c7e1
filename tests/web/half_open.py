"""Connections that never finish a request, and what becomes of them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

HANG = 60.0
HALVES = [b"", b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"\r\n"]


@asynccontextmanager
async def half_open(port: int, count: int) -> AsyncGenerator[list[asyncio.StreamReader]]:
    opened: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    try:
        for number in range(count):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            opened[-1][1].write(HALVES[number % len(HALVES)])
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


async def ended(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(HANG):
        with suppress(ConnectionError):
            await reader.read()
