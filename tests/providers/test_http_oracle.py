"""Generated answers: however their bytes are split they are the same answer, and aiohttp's client reads it so too."""

import asyncio
import gzip
import zlib
from collections.abc import Iterator

import aiohttp
import h11
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.providers.raw_server import REQUEST, Heard, Loose, fresh_connection, hear, heard, raw, rest_of, says

from finclaw.providers.http.connection import ConnectionBroken

Told = Heard | None
"""None: there was no reading it to its end."""


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """A body in pieces of any length, with extensions and trailers."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=5)))
    ends = [*[cut for cut in cuts if cut < len(body)], len(body)]
    out, begin = b"", 0
    for end in ends:
        extension = draw(st.sampled_from([b"", b";a", b";a=b", b';a="b c"']))
        out += (b"%x" % (end - begin)) + extension + b"\r\n" + body[begin:end] + b"\r\n" if end > begin else b""
        begin = end
    return out + b"0\r\n" + draw(st.sampled_from([b"", b"x-sum: 1\r\n"])) + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Whole answers of every kind that a server gives."""
    body = draw(st.binary(max_size=60))
    status = draw(st.sampled_from([200, 201, 204, 302, 304, 400, 413, 429, 500, 529]))
    before = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n"]))
    lines = [draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.0"])) + b" %d Words" % status]
    lines += draw(
        st.lists(st.sampled_from([b"x-a: 1", b"X-B:2 ", b"retry-after: 7", b"connection: close"]), unique=True)
    )
    if draw(st.booleans()):
        body = gzip.compress(body, mtime=0)
        lines.append(b"content-encoding: gzip")
    if status in (204, 304):
        return before + b"\r\n".join((*lines, b"", b""))
    framing = draw(st.sampled_from(["length", "chunks", "close"])) if lines[0].startswith(b"HTTP/1.1") else "length"
    if framing == "length":
        lines.append(b"content-length: %d" % len(body))
    elif framing == "chunks":
        lines.append(b"transfer-encoding: chunked")
        body = draw(chunked(body))
    return before + b"\r\n".join((*lines, b"", body))


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """An answer with a few bytes lost, doubled or changed."""
    answer = bytearray(draw(answers()))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(answer) - 1)))
        length = draw(st.integers(0, 6))
        answer[place : place + length] = draw(st.one_of(st.binary(max_size=3), st.just(bytes(answer[place:][:9]))))
    return bytes(answer)


# ── any split ───────────────────────────────────────────────────────────────────────────────────────────────────


async def read_from(pieces: Iterator[bytes]) -> Told:
    """What these pieces say, with the server's end behind them."""
    connection, transport = fresh_connection(), Loose()
    connection.connection_made(transport)
    asking = asyncio.ensure_future(connection.send(REQUEST))
    await asyncio.sleep(0)
    for piece in pieces:
        if not transport.closed:
            hear(connection, piece)
    if not transport.closed:
        connection.eof_received()
    connection.connection_lost(None)
    try:
        await asking
        return Heard(connection.status, connection.headers, await rest_of(connection))
    except ConnectionBroken:
        return None


def split(raw_answer: bytes, places: list[int]) -> Iterator[bytes]:
    ends = [*sorted({place % (len(raw_answer) + 1) for place in places} - {0}), len(raw_answer)]
    begin = 0
    for end in ends:
        if end > begin:
            yield raw_answer[begin:end]
        begin = end


@given(st.one_of(answers(), spoiled()), st.lists(st.integers(0, 500), max_size=8))
def test_no_split_changes_an_answer(raw_answer: bytes, places: list[int]) -> None:
    async def main() -> None:
        whole = await read_from(iter([raw_answer] if raw_answer else []))
        assert await read_from(split(raw_answer, places)) == whole
        assert await read_from(bytes([byte]) for byte in raw_answer) == whole

    asyncio.run(main())


@given(answers())
def test_every_whole_answer_is_read(raw_answer: bytes) -> None:
    told = asyncio.run(read_from(iter([raw_answer])))
    assert told is not None


# ── another reader ──────────────────────────────────────────────────────────────────────────────────────────────


async def ours(raw_answer: bytes) -> Told:
    try:
        return await heard(raw_answer, end="fin")
    except ConnectionBroken:
        return None


async def theirs(raw_answer: bytes) -> Told:
    async with raw(says(raw_answer, end="fin")) as server, aiohttp.ClientSession() as session:
        try:
            async with session.post(f"http://127.0.0.1:{server.port}/", data=b"{}", allow_redirects=False) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Heard(response.status, headers, await response.read())
        except (aiohttp.ClientError, OSError, ValueError):
            return None


def h11s(raw_answer: bytes) -> Told:
    """By a parser that shares no line with llhttp, on which both of the others stand."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "here"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    head, body = h11.Response(status_code=200, headers=[]), b""
    try:
        connection.receive_data(raw_answer)
        connection.receive_data(b"")
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            head = event if isinstance(event, h11.Response) else head
            body += event.data if isinstance(event, h11.Data) else b""
            if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                return None
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        packed = headers.get("content-encoding") == "gzip" and body
        return Heard(head.status_code, headers, gzip.decompress(body) if packed else body)
    except (h11.RemoteProtocolError, gzip.BadGzipFile, zlib.error, EOFError):
        return None


@settings(max_examples=examples(60))
@given(answers())
def test_aiohttp_reads_the_same(raw_answer: bytes) -> None:
    async def main() -> None:
        assert await ours(raw_answer) == await theirs(raw_answer)

    asyncio.run(main())


@given(answers())
def test_h11_reads_the_same(raw_answer: bytes) -> None:
    told = asyncio.run(read_from(iter([raw_answer])))
    assert told == h11s(raw_answer)


@settings(max_examples=examples(150))
@given(spoiled())
def test_whoever_reads_what_is_broken_reads_the_same(raw_answer: bytes) -> None:
    """How much is forgiven differs; what is read does not."""

    async def main() -> None:
        mine, others = await ours(raw_answer), (await theirs(raw_answer), h11s(raw_answer))
        for other in others:
            if mine is not None and other is not None:
                assert (mine.status, mine.body) == (other.status, other.body)

    asyncio.run(main())
