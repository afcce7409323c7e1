"""Words that come fast are told together, at one pulse for all answers; none waits long, and none is lost for it."""

import asyncio
import socket
import ssl
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.providers.raw_server import REQUEST, Heard, Loose, Script, asked, hear, raw, request_of, reset, rest_of
from tests.providers.test_wire_tls import OURS, certified

from finclaw.providers.wire.connection import Broken, Connection
from finclaw.providers.wire.gathering import ENOUGH, can_gather
from finclaw.providers.wire.pulse import TOLD_AT_ONCE, TOLD_EVERY, Pulse
from finclaw.testing import FakeClock

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = b"5\r\nhello\r\n"
END = b"0\r\n\r\n"

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system is not asked to gather")


class Marked(Loose):
    """Knows what the system was asked: from how many bytes on it shall tell of them."""

    def __init__(self, *, dead: bool = False) -> None:
        super().__init__()
        self.marks: list[int] = []
        self._dead = dead

    def get_extra_info(self, name: str, default: object = None) -> "Marked | None":
        return self if name == "socket" else None

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.marks.append(value)
        if self._dead:
            raise OSError("it is closed")


class Following:
    """Somebody who reads an answer as it comes, and when each piece was told."""

    def __init__(self, pulse: Pulse, transport: Loose) -> None:
        self.connection = Connection(memoryview(bytearray(65_536)), pulse)
        self.connection.connection_made(transport)
        self.told: list[tuple[float, int]] = []
        self._reading = asyncio.ensure_future(self._read(self.connection.ask(REQUEST)))
        hear(self.connection, HEAD)

    async def _read(self, head: Any) -> None:
        await head
        while data := await self.connection.read():
            self.told.append((_now(), len(data) // 5))

    async def end(self) -> list[tuple[float, int]]:
        hear(self.connection, END)
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
        hear(follower.connection, WORD)


def test_answers_that_come_fast_are_told_at_one_pulse() -> None:
    FakeClock().run(_one_pulse())


async def _one_pulse() -> None:
    pulse = Pulse(asyncio.get_running_loop())
    followers = [Following(pulse, Loose()) for _ in range(3)]
    await asyncio.sleep(0.001)
    start = _now()

    async def follow(place: int, follower: Following) -> list[tuple[float, int]]:
        await _until(start + place * 0.003)
        await _words(follower, 0.01, 20)
        return await follower.end()

    told = await asyncio.gather(*(follow(*each) for each in enumerate(followers)))
    assert [sum(count for _, count in each) for each in told] == [20] * 3
    # The first word at once, the last with the end; in between all hear at the same times.
    assert [each[0] for each in told] == [(pytest.approx(start + place * 0.003), 1) for place in range(3)]
    pulses = {round(time - start, 6) for each in told for time, _ in each[1:-1]}
    assert len(pulses) <= 12
    gaps = [later - sooner for each in told for (sooner, _), (later, _) in pairwise(each)]
    assert max(gaps) < 2 * TOLD_EVERY


def test_nobody_is_told_much_sooner_or_later_because_others_are() -> None:
    FakeClock().run(_each_in_time())


async def _each_in_time() -> None:
    pulse = Pulse(asyncio.get_running_loop())
    first, second = Following(pulse, Loose()), Following(pulse, Loose())
    start = _now()
    for after, follower in ((0.001, first), (0.002, first), (0.018, second), (0.019, second)):
        await _until(start + after)
        hear(follower.connection, WORD)
    await _until(start + 0.1)
    told = [[(round(time - start, 6), count) for time, count in each.told] for each in (first, second)]
    assert told == [[(0.001, 1), (0.021, 1)], [(0.018, 1), (0.038, 1)]]
    await asyncio.gather(first.end(), second.end())


@only_linux
def test_the_system_gathers_what_comes_fast_until_the_next_pulse() -> None:
    FakeClock().run(_gathered())


async def _gathered() -> None:
    transport = Marked()
    follower = Following(Pulse(asyncio.get_running_loop()), transport)
    await asyncio.sleep(0.001)
    hear(follower.connection, WORD)
    for _ in range(2):
        assert transport.marks == []  # two pulses must have had something to tell
        await asyncio.sleep(0.01)
        hear(follower.connection, WORD)
        await asyncio.sleep(TOLD_EVERY - 0.0099)
    assert transport.marks == [ENOUGH]
    for _ in range(3):
        await asyncio.sleep(TOLD_EVERY)
        assert transport.marks[-1] == 1  # now it tells of all that has come
        hear(follower.connection, WORD * 2)
        assert transport.marks[-1] == ENOUGH
    await asyncio.sleep(0)
    assert [count for _, count in await follower.end()] == [1, 1, 1, 2, 2, 2]
    assert transport.marks[-1] == 1  # for the next answer, which may be short


@only_linux
def test_nothing_is_gathered_of_what_comes_slowly() -> None:
    FakeClock().run(_slowly())


async def _slowly() -> None:
    transport = Marked()
    follower = Following(Pulse(asyncio.get_running_loop()), transport)
    await asyncio.sleep(0.001)
    await _words(follower, TOLD_EVERY * 1.2, 10)
    assert transport.marks == []
    await _words(follower, TOLD_EVERY / 2, 8)
    assert transport.marks
    await asyncio.sleep(1)
    told = len(transport.marks)
    await _words(follower, TOLD_EVERY * 1.2, 10)
    await follower.end()
    assert len(transport.marks) == told  # it fell silent, and then it was a slow one again


@only_linux
def test_who_is_closed_meanwhile_keeps_nobody_else_waiting() -> None:
    FakeClock().run(_closed_meanwhile())


async def _closed_meanwhile() -> None:
    pulse = Pulse(asyncio.get_running_loop())
    dead, living = Marked(dead=True), Marked()
    followers = [Following(pulse, dead), Following(pulse, living)]
    await asyncio.sleep(0.001)
    await asyncio.gather(*(_words(each, TOLD_EVERY / 2, 20) for each in followers))
    assert dead.marks
    told = [await each.end() for each in followers]
    assert [sum(count for _, count in each) for each in told] == [20, 20]


def test_a_beat_for_a_crowd_leaves_room_for_others() -> None:
    FakeClock().run(_crowd())


async def _crowd() -> None:
    pulse = Pulse(asyncio.get_running_loop())
    followers = [Following(pulse, Loose()) for _ in range(TOLD_AT_ONCE * 3)]
    for each in followers:
        hear(each.connection, WORD)
    await asyncio.sleep(0.001)
    for each in followers:
        hear(each.connection, WORD)
    told: list[int] = []
    while not told or told[-1] < len(followers):
        await asyncio.sleep(0 if told else TOLD_EVERY - 0.001)
        told.append(sum(len(each.told) == 2 for each in followers))
    assert max(later - sooner for sooner, later in pairwise([0, *told])) <= TOLD_AT_ONCE
    for each in followers:
        await each.end()


# ── over real lines ─────────────────────────────────────────────────────────────────────────────────────────────────


class Fast:
    """Sends word after word until the other side lets the system gather them, and then how it ends."""

    def __init__(self, end: bytes, *, cut: bool = False) -> None:
        self.words = 0
        self.listener: socket.socket | None = None
        self.gathers = asyncio.Event()
        self._end = end
        self._cut = cut

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            self.words = 1
            writer.write(HEAD + WORD)
            while self.mark == 1:
                await asyncio.sleep(TOLD_EVERY / 10)
                writer.write(WORD)
                self.words += 1
            self.gathers.set()
            writer.write(self._end)
            if self._cut:
                return reset(writer)

    @property
    def mark(self) -> int:
        return 0 if self.listener is None else self.listener.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


async def _connect(script: Fast, port: int, secure: ssl.SSLContext | None = None) -> Connection:
    loop = asyncio.get_running_loop()
    pulse = Pulse(loop)
    transport, connection = await loop.create_connection(
        lambda: Connection(memoryview(bytearray(65_536)), pulse), "127.0.0.1", port, ssl=secure
    )
    script.listener = transport.get_extra_info("socket")
    return connection


def _secured(script: Script, place: Path, *, secure: bool) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    if not secure:
        return None, None
    server, certificate = certified(place, OURS)
    return server, ssl.create_default_context(cafile=certificate)


@only_linux
@pytest.mark.parametrize("secure", [False, True])
async def test_nothing_is_lost_of_what_the_system_gathers(tmp_path: Path, secure: bool) -> None:
    script = Fast(WORD + END)
    theirs, ours = _secured(script, tmp_path, secure=secure)
    async with raw(script, secure=theirs) as server:
        connection = await _connect(script, server.port, ours)
        for _ in range(3):
            answer: Heard = await asyncio.wait_for(asked(connection), 5)
            assert answer.body == b"hello" * (script.words + 1)
            assert script.words > 1
            assert script.mark == 1
            assert connection.usable
        connection.close()
        await asyncio.sleep(0)


@only_linux
@pytest.mark.parametrize("secure", [False, True])
async def test_a_line_that_is_cut_while_the_system_gathers(tmp_path: Path, secure: bool) -> None:
    script = Fast(b"", cut=True)
    theirs, ours = _secured(script, tmp_path, secure=secure)
    async with raw(script, secure=theirs) as server:
        connection = await _connect(script, server.port, ours)
        with pytest.raises(Broken):
            await asyncio.wait_for(asked(connection), 5)


@only_linux
@pytest.mark.parametrize("secure", [False, True])
async def test_a_reader_who_goes_while_the_system_gathers(tmp_path: Path, secure: bool) -> None:
    """The line is closed at once, and whatever still waits for the pulse disturbs nobody."""
    script = Fast(WORD)
    theirs, ours = _secured(script, tmp_path, secure=secure)
    async with raw(script, secure=theirs) as server:
        connection = await _connect(script, server.port, ours)
        await connection.ask(REQUEST)
        reading = asyncio.ensure_future(rest_of(connection))
        await asyncio.wait_for(script.gathers.wait(), 5)
        reading.cancel()
        connection.close()
        await asyncio.wait_for(server.gone.acquire(), 5)
        await asyncio.sleep(TOLD_EVERY)
        assert not connection.usable


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gathers")
def test_this_system_gathers_and_tells_at_once_when_less_will_do() -> None:
    assert can_gather()
