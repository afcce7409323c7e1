"""The line: how long silence may last, in virtual time, and what becomes of a connection."""

import asyncio

import pytest
from aiohttp import web
from tests.providers.anthropic_streams import HELLO, event
from tests.providers.model_server import ASKED, Answer, chunks, provider, serving, streams

from finclaw.errors import ProviderTimeout, RateLimited, StreamCut
from finclaw.kernel.chunk import Chunk, Done
from finclaw.providers.http.pool import HttpPool
from finclaw.testing import FakeClock

LONG = 100_000.0


def silent(before_headers: bool) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if before_headers:
            await asyncio.sleep(LONG)
        await response.prepare(request)
        await asyncio.sleep(LONG)
        return response

    return answer


def timed(clock: FakeClock, answer: Answer, **options: float) -> tuple[type[BaseException] | list[Chunk], float]:
    """What came of it, and after how many virtual seconds."""

    async def main() -> tuple[type[BaseException] | list[Chunk], float]:
        async with provider(answer, clock=clock, **options) as client:
            begun = clock.monotonic()
            try:
                result = [chunk async for chunk in client.stream(ASKED)]
            except ProviderTimeout as error:
                return type(error), clock.monotonic() - begun
            return result, clock.monotonic() - begun

    return clock.run(main())


@pytest.mark.parametrize("before_headers", [True, False])
def test_an_answer_must_begin_in_time(before_headers: bool) -> None:
    outcome, seconds = timed(FakeClock(), silent(before_headers))
    assert outcome is ProviderTimeout
    assert seconds == pytest.approx(120, abs=1)


def test_silence_inside_an_answer_is_bounded_too() -> None:
    outcome, seconds = timed(FakeClock(), streams(HELLO[:3], pause=LONG))
    assert outcome is ProviderTimeout
    assert seconds == pytest.approx(60, abs=1)


def test_both_limits_are_the_callers() -> None:
    assert timed(FakeClock(), silent(True), first_byte=7)[1] == pytest.approx(7, abs=1)
    assert timed(FakeClock(), streams(HELLO[:3], pause=LONG), idle=9)[1] == pytest.approx(9, abs=1)
    assert timed(FakeClock(), streams(HELLO[:3], pause=LONG), first_byte=5, idle=300)[1] == pytest.approx(300, abs=1)


def begins_late(after: float) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(after)
        await response.write(HELLO[0])
        await asyncio.sleep(LONG)
        return response

    return answer


def test_silence_behind_a_late_beginning_is_bounded_like_any() -> None:
    outcome, seconds = timed(FakeClock(), begins_late(70.0), first_byte=300)
    assert outcome is ProviderTimeout
    assert seconds == pytest.approx(130, abs=1)


def test_each_of_several_answers_has_its_own_time() -> None:
    clock = FakeClock()

    async def main() -> list[float]:
        async with provider(begins_late(30.0), clock=clock) as client:

            async def ends_at(wait: float) -> float:
                await clock.sleep(wait)
                with pytest.raises(ProviderTimeout):
                    _ = [chunk async for chunk in client.stream(ASKED)]
                return clock.monotonic()

            begun = clock.monotonic()
            return [each - begun for each in await asyncio.gather(*map(ends_at, (0.0, 25.0, 80.0)))]

    assert clock.run(main()) == pytest.approx([90, 115, 170], abs=1)


def test_the_less_patient_of_two_does_not_wait_for_the_other_nor_does_one_whose_line_was_closed() -> None:
    clock = FakeClock()

    async def main() -> list[float]:
        async with serving(silent(True)) as url:
            line = HttpPool(url, {}, name="api", kinds={}, clock=clock)
            begun = clock.monotonic()

            async def gives_up(first_byte: float) -> float:
                with pytest.raises(ProviderTimeout):
                    await line.post(lambda: b"{}", first_byte=first_byte, idle=1_000)
                return clock.monotonic() - begun

            asked = [asyncio.create_task(gives_up(seconds)) for seconds in (500.0, 20.0, 300.0)]
            await clock.sleep(10)
            await line.close()
            return await asyncio.gather(*asked)

    assert clock.run(main()) == pytest.approx([500, 20, 300], abs=1)


def test_a_byte_now_and_then_is_no_silence() -> None:
    stream = b"".join(HELLO)
    pieces = [stream[at : at + 50] for at in range(0, len(stream), 50)]
    outcome, seconds = timed(FakeClock(), streams(pieces, pause=20.0))
    assert isinstance(outcome, list)
    assert outcome[-1] == Done("end")
    assert seconds > 200


def test_pings_keep_an_answer_alive() -> None:
    outcome, _ = timed(FakeClock(), streams([HELLO[0], *[event("ping")] * 10, *HELLO[1:]], pause=55.0))
    assert isinstance(outcome, list)


def test_time_in_which_nobody_reads_does_not_count() -> None:
    clock = FakeClock()

    async def main() -> list[Chunk]:
        got: list[Chunk] = []
        async with provider(streams(HELLO, pause=30.0), clock=clock) as client:
            async for chunk in client.stream(ASKED):
                got.append(chunk)
                await clock.sleep(1_000)
        return got

    assert clock.run(main())[-1] == Done("end")


def test_no_timer_outlives_its_reply() -> None:
    clock = FakeClock()

    async def main() -> float:
        async with provider(streams(HELLO), clock=clock) as client:
            assert [chunk async for chunk in client.stream(ASKED)][-1] == Done("end")
        return clock.monotonic()

    assert clock.run(main()) < 30


async def test_a_refusal_in_pieces_is_read_whole() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=400)
        await response.prepare(request)
        for piece in (b'{"error": {"type": "rate_', b'limit_error", "message": "slowly"}}'):
            await response.write(piece)
            await asyncio.sleep(0.02)
        return response

    with pytest.raises(RateLimited, match="slowly"):
        await chunks(answer)


def test_a_refusal_that_never_ends_is_told_by_its_status() -> None:
    clock = FakeClock()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=429, headers={"retry-after": "Mon, 06 Jan 2025 09:00:40 GMT"})
        await response.prepare(request)
        await response.write(b'{"error": {')
        await asyncio.sleep(LONG)
        return response

    with pytest.raises(RateLimited) as refused:
        clock.run(chunks(answer, clock=clock))
    assert refused.value.retry_after is not None
    assert 30 < refused.value.retry_after <= 40  # the clock's own nine o'clock, less what has passed


async def test_a_line_cut_before_the_first_byte() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(StreamCut):
        await chunks(answer)


async def test_a_caller_who_is_cancelled_leaves_no_connection_behind() -> None:
    arrived: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert isinstance(request.transport, asyncio.Transport)
        arrived.set_result(request.transport)
        await asyncio.sleep(30)
        return web.Response()

    async with serving(answer) as url:
        line = HttpPool(url, {}, name="api", kinds={}, clock=FakeClock())
        asked = asyncio.create_task(line.post(lambda: b"{}", first_byte=20, idle=20))
        server_side = await arrived
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        async with asyncio.timeout(30):
            while not server_side.is_closing():  # noqa: ASYNC110, no event tells of it
                await asyncio.sleep(0.001)
        await line.close()
        await line.close()
