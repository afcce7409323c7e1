"""Which connections are used again, for how long they are kept, and that nobody leaves one behind."""

import asyncio
import gc
import logging
import os
from collections.abc import Awaitable, Callable, Generator

import pytest
from tests.providers.raw_server import pool_to, raw, request_of, says

from finclaw.errors import ContextTooLong, NotFound, ProviderTimeout, RateLimited, StreamCut
from finclaw.providers.http.pool import IDLE_CONNECTION_SECONDS, HttpPool
from finclaw.testing import FakeClock

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"


async def hello(line: HttpPool) -> None:
    """One question, answered and read."""
    reply = await line.post(lambda: b"{}", first_byte=100, idle=50)
    try:
        assert await reply.read() == b"hello"
        await reply.drain()
    finally:
        reply.release()


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.fixture(autouse=True)
def nothing_left(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """No file, no unheard exception, no complaint of the loop's; a ResourceWarning is an error in every test."""
    gc.collect()
    before = open_files()
    yield
    gc.collect()
    assert open_files() <= before
    assert [each.getMessage() for each in caplog.get_records("call") if each.levelno >= logging.WARNING] == []


# ── used again ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_after_the_other_over_one_connection() -> None:
    async with raw(says(HELLO)) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        for _ in range(5):
            await hello(line)
        assert server.connections == 1


async def test_as_many_connections_as_questions_at_once() -> None:
    async with raw(says(HELLO)) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        await asyncio.gather(*(hello(line) for _ in range(20)))
        await asyncio.gather(*(hello(line) for _ in range(20)))
        assert server.connections == 20


async def test_a_refusal_keeps_its_connection_too() -> None:
    refusal = b"HTTP/1.1 429 Slowly\r\nretry-after: 3\r\ncontent-length: 2\r\n\r\n{}"
    async with raw(says(refusal)) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        for _ in range(3):
            with pytest.raises(RateLimited) as told:
                await line.post(lambda: b"{}", first_byte=5, idle=5)
            assert told.value.retry_after == 3
        assert server.connections == 1


async def test_an_answer_given_up_is_never_the_next_ones() -> None:
    """It had all come, and nobody read it."""
    async with raw(says(HELLO)) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
        reply.release()
        await hello(line)
        assert server.connections == 2


async def test_what_follows_the_last_event_is_read_out() -> None:
    """The end came while somebody was busy with the last event; the connection is clean, and used again."""
    go, gone_on = asyncio.Event(), asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            writer.write(OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
            await go.wait()
            writer.write(b"1\r\n\n\r\n0\r\n\r\n")
            await writer.drain()
            gone_on.set()

    async with raw(script) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
        assert await reply.read() == b"hello"
        go.set()
        await gone_on.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        await reply.drain()
        reply.release()
        reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
        assert (await reply.read()).startswith(b"hello")  # and not with what was left
        reply.release()
        assert server.connections == 1


async def test_given_back_twice_is_given_back_once() -> None:
    async with raw(says(HELLO)) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
        assert await reply.read() == b"hello"
        reply.release()
        reply.release()
        await asyncio.gather(hello(line), hello(line))
        assert server.connections == 2


async def test_a_connection_that_the_server_closed_is_not_used() -> None:
    async with raw(says(HELLO, end="fin")) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        for number in range(3):
            await hello(line)
            await server.gone.acquire()
            for _ in range(20):  # until the end has come to us
                await asyncio.sleep(0.001)
            assert server.connections == number + 1


def test_what_nobody_uses_is_closed() -> None:
    clock = FakeClock()

    async def main() -> float:
        async with raw(says(HELLO)) as server, pool_to(f"http://127.0.0.1:{server.port}", clock=clock) as line:
            await asyncio.gather(hello(line), hello(line), hello(line))
            await clock.sleep(IDLE_CONNECTION_SECONDS - 5)
            await hello(line)
            used = clock.monotonic()
            await server.gone.acquire()
            await server.gone.acquire()
            two = clock.monotonic()
            await hello(line)
            assert server.connections == 3
            kept = clock.monotonic()
            await server.gone.acquire()
            assert two - used <= 6
            return clock.monotonic() - kept

    assert clock.run(main()) == pytest.approx(IDLE_CONNECTION_SECONDS, abs=1)


# ── refused, late, too large ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_nobody_is_sent_elsewhere_with_our_key(status: int) -> None:
    async with raw(says(HELLO)) as elsewhere:
        to = b"HTTP/1.1 %d There\r\nlocation: http://127.0.0.1:%d/\r\ncontent-length: 0\r\n\r\n" % (
            status,
            elsewhere.port,
        )
        async with raw(says(to)) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
            with pytest.raises(NotFound, match=str(status)):
                await line.post(lambda: b"{}", first_byte=5, idle=5)
        assert elsewhere.connections == 0


def test_silence_in_an_answer_of_no_length_is_no_end_of_it() -> None:
    clock = FakeClock()

    async def main() -> None:
        async with (
            raw(says(OK + b"\r\nhel")) as server,
            pool_to(f"http://127.0.0.1:{server.port}", clock=clock) as line,
        ):
            reply = await line.post(lambda: b"{}", first_byte=100, idle=50)
            assert await reply.read() == b"hel"
            with pytest.raises(ProviderTimeout):
                await reply.read()
            reply.release()

    clock.run(main())


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_too_much_is_refused_before_it_is_sent(end: str) -> None:
    """A server that does not read on resets the line; what it said before is still heard."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too much\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        await writer.drain()
        if end == "close":
            await reader.read()

    async with raw(script) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        with pytest.raises((ContextTooLong, StreamCut) if end == "abort" else ContextTooLong):
            await line.post(lambda: bytes(20_000_000), first_byte=5, idle=5)


async def test_a_line_closed_while_somebody_reads() -> None:
    go = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(HELLO[:-3])
        await go.wait()
        writer.write(HELLO[-3:])
        await reader.read()

    async with raw(script) as server, pool_to(f"http://127.0.0.1:{server.port}") as line:
        reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
        assert await reply.read() == b"he"
        await line.close()
        go.set()
        assert await reply.read() == b"llo"
        reply.release()
        await server.gone.acquire()  # closed, not kept


# ── cancelled anywhere ──────────────────────────────────────────────────────────────────────────────────────────


async def whole(line: HttpPool) -> None:
    reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
    try:
        while b"!" not in await reply.read():
            pass
        await reply.drain()
    finally:
        reply.release()


def stuck_behind(*said: bytes) -> tuple[Callable[..., Awaitable[None]], asyncio.Event]:
    reached = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        for piece in said:
            writer.write(piece)
            await writer.drain()
        reached.set()
        await reader.read()

    return script, reached


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("https", b""),  # connecting: nobody answers the handshake
        ("http", b""),  # asking
        ("http", OK + b"content-length: 50\r\n\r\nhello"),  # reading
        ("http", OK + b"content-length: 50\r\n\r\nhello!"),  # reading out
        ("http", b"HTTP/1.1 500 No\r\ncontent-length: 50\r\n\r\nwhy"),  # reading a refusal
    ],
)
async def test_cancelled_where_nothing_comes(scheme: str, said: bytes) -> None:
    script, reached = stuck_behind(said)
    async with raw(script) as server, pool_to(f"{scheme}://127.0.0.1:{server.port}") as line:
        asking = asyncio.create_task(whole(line))
        await reached.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with asyncio.timeout(30):
            await server.gone.acquire()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_cancelled_after_any_round_of_the_loop(host: str) -> None:
    answers = (OK + b"content-length: 50\r\n", b"\r\nhello", b"!" * 45, b"")
    async with raw(says(*answers)) as server:
        rounds = finished = 0
        while rounds < 60 or not finished:  # a name is looked up by a thread, and nobody knows in how many rounds
            async with pool_to(f"http://{host}:{server.port}") as line:
                asking = asyncio.create_task(whole(line))
                for _ in range(rounds):
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                finished += not asking.cancelled()
            rounds += 1
        assert finished < rounds
