"""One connection against a server that says anything at all: what is an answer is read, what is none breaks."""

import asyncio
import gzip
import logging
import zlib
from collections.abc import Generator

import pytest
from tests.providers.raw_server import (
    REQUEST,
    End,
    asked,
    connected,
    fresh_connection,
    heard,
    raw,
    request_of,
    rest_of,
    says,
)

from finclaw.providers.http.connection import LONGEST_HEAD, MOST_UNREAD, ConnectionBroken

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def sized(body: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((OK + b"content-length: %d" % len(body), *lines, b"", body))


def packed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


@pytest.fixture(autouse=True)
def silent(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Nothing is left for the event loop to complain of."""
    yield
    assert [each.getMessage() for each in caplog.get_records("call") if each.levelno >= logging.WARNING] == []


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "raw_answer",
    [
        HELLO,
        b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO,
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-encoding: br\r\n\r\nHTTP/1.1 100 Go\r\n\r\n" + HELLO,
        CHUNKED + b"2;a=b;c\r\nhe\r\n3;d\r\nllo\r\n0\r\n\r\n",
        CHUNKED + b"005\r\nhello\r\n0\r\nx-sum: 1\r\nretry-after: 9\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello",
        OK + b"content-length: 5\r\ncontent-encoding: identity\r\n\r\nhello",
        OK + b"Content-Length:    5   \r\nconnection: close\r\n\r\nhello",
        sized(packed(b"hello"), b"content-encoding: gzip"),
        sized(packed(b"hello"), b"content-encoding: X-GZIP"),
        OK + b"x-long: " + b"a" * 60_000 + b"\r\ncontent-length: 5\r\n\r\nhello",
    ],
)
async def test_an_answer_is_read(raw_answer: bytes) -> None:
    told = await heard(raw_answer)
    assert (told.status, told.body) == (200, b"hello")
    assert "link" not in told.headers
    assert "retry-after" not in told.headers  # what stands behind a body describes nothing any more


@pytest.mark.parametrize("head", [OK, b"HTTP/1.0 200 OK\r\n", OK + b"connection: keep-alive\r\n"])
async def test_an_answer_of_no_length_ends_with_the_line(head: bytes) -> None:
    assert (await heard(head + b"\r\nhel", b"lo", end="fin")).body == b"hello"


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body(status: int) -> None:
    async with raw(says(b"HTTP/1.1 %d No\r\n\r\n" % status)) as server, connected(server.port) as connection:
        assert [(await asked(connection))[::2] for _ in range(2)] == [(status, b"")] * 2


async def test_a_folded_header_is_read_or_refused_and_never_two() -> None:
    try:
        told = await heard(OK + b"x-a: 1\r\n content-length: 9\r\ncontent-length: 5\r\n\r\nhello")
    except ConnectionBroken:
        return
    assert (told.headers["content-length"], told.body) == ("5", b"hello")


# ── what is none ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw_answer", "end"),
    [
        (b"", "fin"),
        (b"", "rst"),
        (b"HTTP/1.1 200", "fin"),
        (OK + b"content-length: 50\r\n\r\nhello", "fin"),
        (OK + b"content-length: 50\r\n\r\nhello", "rst"),
        (OK + b"\r\nhello", "rst"),
        (CHUNKED + b"5\r\nhello\r\n", "fin"),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", "fin"),
        (CHUNKED + b"zz\r\nhello\r\n", "keep"),
        (CHUNKED + b"5\r\nhello!!0\r\n\r\n", "keep"),
        (CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", "keep"),
        (CHUNKED + b"f" * 17 + b"\r\nhello\r\n0\r\n\r\n", "keep"),
        (OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!", "keep"),
        (OK + b"content-length: -5\r\n\r\nhello", "keep"),
        (OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "keep"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "keep"),
        (b"HTTP/9.9 200 OK\r\n\r\n", "keep"),
        (b"ICY 200 OK\r\n\r\n", "keep"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "keep"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "keep"),
        (b"\x00" * 100, "keep"),
        (OK + b"x-a: a\x00b\r\ncontent-length: 0\r\n\r\n", "keep"),
        (OK + b"x\x00y: a\r\ncontent-length: 0\r\n\r\n", "keep"),
        (OK + b"no colon\r\n\r\n", "keep"),
        (OK + b"x-long: " + b"a" * LONGEST_HEAD, "keep"),
        (OK + b"x-a: 1234567\r\n" * (LONGEST_HEAD // 10) + b"\r\n", "keep"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000, "keep"),
        (b"HTTP/1.1 101 Up\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n\x81\x00", "keep"),
        (sized(b"hello", b"content-encoding: br"), "keep"),
        (OK + b"transfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "keep"),
        (sized(b"hello", b"content-encoding: gzip"), "keep"),
        (sized(packed(b"hello" * 99)[:-9], b"content-encoding: gzip"), "keep"),
        (OK + b"content-encoding: gzip\r\n\r\n" + packed(b"hello" * 99)[:-9], "fin"),
        (sized(packed(b"hello") + b"junk", b"content-encoding: gzip"), "keep"),
        (sized(packed(bytes(50_000_000)), b"content-encoding: gzip"), "keep"),
        (CHUNKED + b"1;" + b"x" * (2 * MOST_UNREAD), "keep"),
        (CHUNKED + b"0\r\nx: " + b"x" * (2 * MOST_UNREAD), "keep"),
    ],
)
async def test_what_is_no_answer_breaks(raw_answer: bytes, end: End) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(ConnectionBroken) as told:
            await heard(raw_answer, end=end)
    assert str(told.value)


async def test_what_came_before_a_cut_is_read_before_it() -> None:
    cut = says(OK + b"content-length: 50\r\n\r\nhello", end="fin")
    async with raw(cut) as server, connected(server.port) as connection:
        await connection.send(REQUEST)
        assert await connection.read() == b"hello"
        with pytest.raises(ConnectionBroken, match="hung up"):
            await connection.read()
        assert not connection.usable


async def test_the_status_of_an_answer_that_cannot_be_unpacked_is_known() -> None:
    refusal = b"HTTP/1.1 429 Slowly\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\n\x01\x02\x03"
    async with raw(says(refusal)) as server, connected(server.port) as connection:
        await connection.send(REQUEST)
        assert connection.status == 429
        with pytest.raises(ConnectionBroken, match="'br'"):
            await connection.read()


async def test_closed_by_ourselves_is_never_the_end_of_an_answer() -> None:
    """Of one without a length, only the server's own end tells that it is whole."""
    async with raw(says(OK + b"\r\nhel")) as server, connected(server.port) as connection:
        await connection.send(REQUEST)
        assert await connection.read() == b"hel"
        connection.close()
        with pytest.raises(ConnectionBroken):
            await connection.read()


# ── one after the other ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw_answer", "again"),
    [
        (HELLO, True),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello", True),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", False),
        (OK + b"content-length: 5\r\nconnection: close\r\n\r\nhello", False),
        (HELLO + b"more", False),
        (HELLO + HELLO, False),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + OK + b"content-length: 3\r\nx-other: 1\r\n\r\nbad", False),
    ],
)
async def test_whether_a_connection_can_be_used_again(raw_answer: bytes, again: bool) -> None:
    async with raw(says(raw_answer)) as server, connected(server.port) as connection:
        told = await asked(connection)
        assert told.body == b"hello"  # what nobody asked for is no part of it
        assert "x-other" not in told.headers
        assert connection.usable is again
        if again:
            assert (await asked(connection)).body == b"hello"
            assert server.connections == 1


async def test_what_was_not_read_is_never_read_as_the_next_answer() -> None:
    async with raw(says(HELLO)) as server, connected(server.port) as connection:
        await connection.send(REQUEST)
        assert connection.ended
        assert not connection.usable


async def test_words_on_a_line_where_nobody_asked_close_it() -> None:
    more = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(HELLO)
        await more.wait()
        writer.write(HELLO)
        await reader.read()

    async with raw(script) as server, connected(server.port) as connection:
        await asked(connection)
        assert connection.usable
        more.set()
        await server.gone.acquire()
        assert not connection.usable
        with pytest.raises(ConnectionBroken):
            await connection.send(REQUEST)


async def test_a_server_that_closes_an_idle_connection() -> None:
    async with raw(says(HELLO, end="fin")) as server, connected(server.port) as connection:
        await asked(connection)
        async with asyncio.timeout(30):
            while connection.usable:  # noqa: ASYNC110, no event tells of it
                await asyncio.sleep(0)
        with pytest.raises(ConnectionBroken):
            await connection.send(REQUEST)


# ── more than fits ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [0, 1, 4])
async def test_an_answer_that_comes_before_the_question_is_sent(length: int) -> None:
    """It is heard, and the connection not used again: the rest of the question is still under way."""
    early = b"HTTP/1.1 413 Too much\r\ncontent-length: %d\r\n\r\n" % length + b"much"[:length]

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(early)
        await asyncio.Event().wait()

    async with raw(script) as server, connected(server.port) as connection:
        await connection.send(b"POST / HTTP/1.1\r\ncontent-length: 50000000\r\n\r\n", bytes(50_000_000))
        assert (connection.status, await rest_of(connection)) == (413, b"much"[:length])
        assert not connection.usable


async def test_a_long_question_to_a_slow_reader_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000
    arrived: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        left = len(body)
        while left:
            arrived.append(await reader.read(min(left, 30_000)))
            left -= len(arrived[-1])
            await asyncio.sleep(0)
        writer.write(HELLO)
        await reader.read()

    async with raw(script) as server, connected(server.port) as connection:
        await connection.send(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body), body)
        assert await rest_of(connection) == b"hello"
        assert connection.usable
    assert b"".join(arrived) == body


async def test_a_body_that_nobody_reads_waits_at_the_server() -> None:
    piece, sent = b"x" * 100_000, 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request_of(reader)
        writer.write(OK + b"content-length: 40000000\r\n\r\n")
        for _ in range(400):
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
        await reader.read()

    async with raw(script) as server:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(fresh_connection, "127.0.0.1", server.port)
        await connection.send(REQUEST)
        while transport.is_reading():  # noqa: ASYNC110, until we have enough
            await asyncio.sleep(0)
        before = -1
        while before < sent:  # until the server is stuck
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 30_000_000
        first = await connection.read()
        assert MOST_UNREAD <= len(first) < 2 * MOST_UNREAD
        assert len(first) + len(await rest_of(connection)) == 40_000_000
        assert connection.usable
        connection.close()


async def test_a_compressed_stream_is_read_as_it_comes() -> None:
    packer = zlib.compressobj(wbits=31)
    parts = [packer.compress(b"he") + packer.flush(zlib.Z_SYNC_FLUSH), packer.compress(b"llo") + packer.flush()]
    go = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(b"".join(parts)) + parts[0])
        await go.wait()
        writer.write(parts[1])
        await reader.read()

    async with raw(script) as server, connected(server.port) as connection:
        await connection.send(REQUEST)
        assert await connection.read() == b"he"
        go.set()
        assert await rest_of(connection) == b"llo"
