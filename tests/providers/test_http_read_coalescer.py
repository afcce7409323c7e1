"""Words that arrive fast are handed over together; none waits long, and none is lost for it."""

import asyncio
import ssl
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from tests.providers.raw_server import REQUEST, Heard, Loose, asked, hear, raw, request_of, reset, rest_of
from tests.providers.tls_server import OURS, certified

from finclaw.providers.http.connection import INTERVAL, ConnectionBroken, HttpConnection
from finclaw.testing import FakeClock

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = b"5\r\nhello\r\n"
END = b"0\r\n\r\n"


class System(Loose):
    """A transport that gathers what comes while reading is paused, as the system does."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.reads = 0
        self._connection = connection
        self._gathered = b""

    def hear(self, piece: bytes) -> None:
        self._gathered += piece
        self._read()

    def resume_reading(self) -> None:
        super().resume_reading()
        asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        if self._gathered and not self.paused:
            piece, self._gathered = self._gathered, b""
            self.reads += 1
            hear(self._connection, piece)


class Following:
    """Somebody who reads an answer as it comes, and when each piece was handed over."""

    def __init__(self) -> None:
        self.connection = HttpConnection(memoryview(bytearray(65_536)), asyncio.get_running_loop())
        self.system = System(self.connection)
        self.connection.connection_made(self.system)
        self.told: list[tuple[float, int]] = []
        self._reading = asyncio.ensure_future(self._read(self.connection.send(REQUEST)))
        self.system.hear(HEAD)

    async def _read(self, head: Any) -> None:
        await head
        while data := await self.connection.read():
            self.told.append((_now(), len(data) // 5))

    async def end(self) -> list[tuple[float, int]]:
        self.system.hear(END)
        await self._reading
        return self.told


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _until(time: float) -> None:
    await asyncio.sleep(time - _now())


async def _words(follower: Following, every: float, count: int) -> None:
    start = _now()
    for number in range(count):
        await _until(start + number * every)
        follower.system.hear(WORD)


def test_an_answer_that_comes_fast_is_told_every_twenty_milliseconds() -> None:
    FakeClock().run(_fast())


async def _fast() -> None:
    followers = [Following() for _ in range(3)]
    await asyncio.sleep(0.001)
    start = _now()

    async def follow(place: int, follower: Following) -> list[tuple[float, int]]:
        await _until(start + place * 0.003)
        await _words(follower, 0.01, 20)
        return await follower.end()

    told = await asyncio.gather(*(follow(*each) for each in enumerate(followers)))
    assert [sum(count for _, count in each) for each in told] == [20] * 3
    # The first word at once, the last with the end.
    assert [each[0] for each in told] == [(pytest.approx(start + place * 0.003), 1) for place in range(3)]
    assert max(len(each) for each in told) <= 8
    assert max(follower.system.reads for follower in followers) <= 16, "four words at a time, once it is fast"
    gaps = [later - sooner for each in told for (sooner, _), (later, _) in pairwise(each)]
    assert max(gaps) < 2 * INTERVAL
    ticks = [{round(time / INTERVAL, 3) for time, _ in each[4:-1]} for each in told]
    assert ticks[0] == ticks[1] == ticks[2], "all at the same ticks: a wake-up that comes alone costs more"


def test_nobody_waits_longer_than_for_the_next_tick() -> None:
    FakeClock().run(_each_in_time())


async def _each_in_time() -> None:
    first, second = Following(), Following()
    start = ceil(_now() / INTERVAL) * INTERVAL
    for after, follower in ((0.001, first), (0.002, first), (0.038, second), (0.039, second)):
        await _until(start + after)
        follower.system.hear(WORD)
    await _until(start + 0.1)
    told = [[(round(time - start, 6), count) for time, count in each.told] for each in (first, second)]
    assert told == [[(0.001, 1), (0.04, 1)], [(0.038, 1), (0.04, 1)]]
    await asyncio.gather(first.end(), second.end())


def test_what_comes_slowly_is_told_at_once() -> None:
    FakeClock().run(_slowly())


async def _slowly() -> None:
    follower = Following()
    await asyncio.sleep(0.001)
    start = _now()
    await _words(follower, INTERVAL * 1.2, 10)
    await follower.end()
    assert follower.told == [(pytest.approx(start + number * INTERVAL * 1.2), 1) for number in range(10)]


def test_who_is_closed_meanwhile_keeps_nobody_else_waiting() -> None:
    FakeClock().run(_closed_meanwhile())


async def _closed_meanwhile() -> None:
    dead, living = Following(), Following()
    await asyncio.sleep(0.001)
    await _words(dead, INTERVAL / 4, 2)  # the second waits for its timer
    dead.connection.connection_lost(None)
    await _words(living, INTERVAL / 2, 20)
    assert sum(count for _, count in await living.end()) == 20
    with pytest.raises(ConnectionBroken):
        await dead.end()
    assert dead.told[-1][1] == 1


# ── over real lines ─────────────────────────────────────────────────────────────────────────────────────────────────


class Fast:
    """Sends some words, faster than they are handed over, and then how it ends."""

    words = 10

    def __init__(self, end: bytes, *, cut: bool = False) -> None:
        self.sent = asyncio.Event()
        self._end = end
        self._cut = cut

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            writer.write(HEAD + WORD)
            for _ in range(self.words - 1):
                await asyncio.sleep(INTERVAL / 10)
                writer.write(WORD)
            self.sent.set()
            writer.write(self._end)
            if self._cut:
                return reset(writer)


async def _connect(port: int, secure: ssl.SSLContext | None = None) -> HttpConnection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: HttpConnection(memoryview(bytearray(65_536)), loop), "127.0.0.1", port, ssl=secure
    )
    return connection


def _secured(place: Path, *, secure: bool) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    if not secure:
        return None, None
    server, certificate = certified(place, OURS)
    return server, ssl.create_default_context(cafile=certificate)


@pytest.mark.parametrize("secure", [False, True])
async def test_nothing_is_lost_of_what_comes_fast(tmp_path: Path, secure: bool) -> None:
    script = Fast(WORD + END)
    theirs, ours = _secured(tmp_path, secure=secure)
    async with raw(script, secure=theirs) as server:
        connection = await _connect(server.port, ours)
        for _ in range(3):
            answer: Heard = await asyncio.wait_for(asked(connection), 5)
            assert answer.body == b"hello" * (script.words + 1)
            assert connection.usable
        connection.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize("secure", [False, True])
async def test_a_line_that_is_cut_while_words_wait(tmp_path: Path, secure: bool) -> None:
    script = Fast(b"", cut=True)
    theirs, ours = _secured(tmp_path, secure=secure)
    async with raw(script, secure=theirs) as server:
        connection = await _connect(server.port, ours)
        with pytest.raises(ConnectionBroken):
            await asyncio.wait_for(asked(connection), 5)


@pytest.mark.parametrize("secure", [False, True])
async def test_a_reader_who_goes_while_words_wait(tmp_path: Path, secure: bool) -> None:
    """The line is closed at once, and whatever still waits for the timer disturbs nobody."""
    script = Fast(WORD)
    theirs, ours = _secured(tmp_path, secure=secure)
    async with raw(script, secure=theirs) as server:
        connection = await _connect(server.port, ours)
        await connection.send(REQUEST)
        reading = asyncio.ensure_future(rest_of(connection))
        await asyncio.wait_for(script.sent.wait(), 5)
        reading.cancel()
        connection.close()
        await asyncio.wait_for(server.gone.acquire(), 5)
        await asyncio.sleep(INTERVAL)
        assert not connection.usable
