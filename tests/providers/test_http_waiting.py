"""Whoever waits for a model's first word holds nothing of the question: a thousand would hold one prompt each."""

import asyncio
import socket
import tracemalloc
from collections.abc import Generator

import pytest
from tests.providers.raw_server import REQUEST, Loose, Raw, fresh_connection, hear, pool_to, raw, request_of

from finclaw.errors import Unreachable
from finclaw.providers.http.pool import LONG, HttpPool
from finclaw.testing import FakeClock

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


class Silent:
    """Hears each question, and answers all of them when it is told to."""

    def __init__(self) -> None:
        self.heard = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            self.heard.release()
            await self.go.wait()
            writer.write(HELLO)


@pytest.fixture
def traced() -> Generator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def blocks_of_at_least(size: int) -> list[str]:
    """Where each was allocated."""
    found = tracemalloc.take_snapshot().traces
    return [str(each.traceback) for each in found if each.size >= size]


def line_of(server: Raw) -> str:
    return f"http://127.0.0.1:{server.port}/"


async def hello(line: HttpPool, size: int) -> bytes:
    reply = await line.post(lambda: bytes(size), first_byte=20, idle=20)
    try:
        said = await reply.read()
        await reply.drain()
    finally:
        reply.release()
    return said


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("size", [LONG - 1, LONG])
async def test_no_question_is_held_while_its_answer_is_waited_for(size: int) -> None:
    script = Silent()
    async with raw(script) as server, pool_to(line_of(server)) as line:
        before = blocks_of_at_least(size)
        for _ in range(2):  # over new connections, and over used ones
            script.go.clear()
            asked = [asyncio.create_task(hello(line, size)) for _ in range(5)]
            for _ in asked:
                await script.heard.acquire()
            assert blocks_of_at_least(size) == before
            script.go.set()
            assert await asyncio.gather(*asked) == [b"hello"] * 5
        assert server.connections == 5


async def test_no_question_is_written_for_a_server_that_is_not_there() -> None:
    written: list[bytes] = []

    def write() -> bytes:
        written.append(b"{}")
        return b"{}"

    with socket.socket() as taken:  # and not listened to: nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with pool_to(f"http://127.0.0.1:{port}/") as line:
            with pytest.raises(Unreachable):
                await line.post(write, first_byte=30, idle=30)
    assert written == []


async def test_a_question_that_cannot_be_written_leaves_no_connection_behind() -> None:
    script = Silent()

    def write() -> bytes:
        raise TypeError("no bytes for that")

    async with raw(script) as server, pool_to(line_of(server)) as line:
        with pytest.raises(TypeError):
            await line.post(write, first_byte=5, idle=5)
        await asyncio.wait_for(server.gone.acquire(), 30)
        script.go.set()
        assert await hello(line, 2) == b"hello"
        assert server.connections == 2


def test_words_that_follow_closely_are_told_together_and_the_end_at_once() -> None:
    """First words at once, then no more often than anybody reads; nobody waits for the end."""
    FakeClock().run(_told_in_time())


async def _told_in_time() -> None:
    connection, transport = fresh_connection(), Loose()
    connection.connection_made(transport)
    asking = asyncio.ensure_future(connection.send(REQUEST))
    hear(connection, b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n")
    await asking
    first = asyncio.ensure_future(connection.read())
    await asyncio.sleep(0)
    hear(connection, b"Hi")
    assert await first == b"Hi"
    more = asyncio.ensure_future(connection.read())
    await asyncio.sleep(0)
    for piece in (b", ", b"yo"):
        hear(connection, piece)
        await asyncio.sleep(0)
        assert not more.done()
    assert await more == b", yo"
    last = asyncio.ensure_future(connection.read())
    await asyncio.sleep(0)
    hear(connection, b"u")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert last.done()
    assert await last == b"u"
