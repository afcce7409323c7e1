"""Virtual time: it passes when everybody waits, stands still for threads, and never hangs."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from finclaw.kernel.port import Clock
from finclaw.testing import ClockStuck, FakeClock

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


def test_it_is_a_clock():
    clock: Clock = FakeClock(START)
    assert clock.now() == START
    assert clock.now().tzinfo is UTC


def test_a_naive_start_is_refused():
    with pytest.raises(ValueError, match="aware"):
        FakeClock(datetime(2025, 1, 1))  # noqa: DTZ001


def test_a_week_passes_at_once_and_exactly():
    clock = FakeClock(START)

    async def main() -> None:
        await clock.sleep(7 * 24 * 3600)

    before = time.monotonic()
    clock.run(main())
    assert time.monotonic() - before < 60
    assert clock.now() == START + timedelta(days=7)
    assert clock.monotonic() == pytest.approx(7 * 24 * 3600)


def test_timers_fire_in_order_whoever_set_them():
    clock = FakeClock(START)
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, clock.monotonic()))

    async def main() -> None:
        asyncio.get_running_loop().call_later(2, lambda: seen.append(("timer", clock.monotonic())))
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper("late", 3))
            group.create_task(sleeper("early", 1))

    clock.run(main())
    assert seen == [("early", 1.0), ("timer", 2.0), ("late", 3.0)]


def test_asyncio_timeouts_are_virtual():
    clock = FakeClock(START)

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await asyncio.Event().wait()
        return clock.monotonic()

    assert clock.run(main()) == pytest.approx(300)


def test_work_that_is_ready_is_done_before_time_passes():
    clock = FakeClock(START)

    async def main() -> float:
        asyncio.get_running_loop().call_later(1, lambda: None)
        for _ in range(1000):
            await asyncio.sleep(0)
        return clock.monotonic()

    assert clock.run(main()) == 0


def test_setting_the_wall_clock_moves_no_timer():
    clock = FakeClock(START)

    async def main() -> None:
        sleeping = asyncio.create_task(clock.sleep(60))
        await asyncio.sleep(0)
        clock.jump(timedelta(days=-1))
        await sleeping

    clock.run(main())
    assert clock.monotonic() == pytest.approx(60)
    assert clock.now() == START - timedelta(days=1) + timedelta(seconds=60)


def test_time_can_be_passed_by_hand_but_not_back():
    clock = FakeClock(START)
    clock.advance(90)
    assert clock.now() == START + timedelta(seconds=90)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


def test_a_deadlock_is_an_error_that_says_who_waits():
    clock = FakeClock(START)

    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(ClockStuck, match=r"no timer is set.*forever"):
        clock.run(forever())


def test_to_thread_holds_time_still():
    clock = FakeClock(START)
    go = threading.Event()

    async def main() -> float:
        asyncio.get_running_loop().call_later(10, lambda: None)
        work = asyncio.create_task(asyncio.to_thread(go.wait, 5))
        await asyncio.sleep(0)
        go.set()
        assert await work
        return clock.monotonic()

    assert clock.run(main()) == 0


class Threaded:
    """As a store is: a thread of its own, answering through the loop."""

    async def commit(self, seconds: float) -> str:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()
        threading.Timer(seconds, lambda: loop.call_soon_threadsafe(done.set_result, "on disk")).start()
        return await done

    def plain(self) -> str:
        return "plain"


def test_a_held_port_is_not_overtaken_by_a_timeout():
    clock = FakeClock(START)
    store = clock.hold(Threaded())

    async def main() -> str:
        async with asyncio.timeout(0.001):
            return await store.commit(0.05)

    assert clock.run(main()) == "on disk"
    assert clock.monotonic() == 0
    assert store.plain() == "plain"


def test_busy_can_end_on_another_thread_and_time_goes_on():
    clock = FakeClock(START)
    begun = threading.Event()

    def work() -> None:
        with clock.busy():
            begun.set()
            time.sleep(0.05)

    async def main() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        await asyncio.sleep(5)
        assert not clock.is_busy
        thread.join()

    clock.run(main())
    assert clock.monotonic() == pytest.approx(5)


def test_a_thread_that_never_ends_is_an_error():
    clock = FakeClock(START, patience=0.01)

    async def main() -> None:
        with clock.busy():
            await asyncio.sleep(1)

    with pytest.raises(ClockStuck, match="held still"):
        clock.run(main())


def test_loopback_sockets_are_heard_before_time_passes():
    clock = FakeClock(START)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def main() -> float:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            for _ in range(50):
                async with asyncio.timeout(1):
                    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                    writer.write(b"hello\n")
                    assert await reader.readline() == b"hello\n"
                    writer.close()
        return clock.monotonic()

    assert clock.run(main()) == 0


def test_a_sleep_on_another_loop_is_refused():
    async def main() -> None:
        await FakeClock(START).sleep(1)

    with pytest.raises(RuntimeError, match=r"only inside clock\.run"):
        asyncio.run(main())


def test_one_loop_at_a_time():
    clock = FakeClock(START)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="already drives"):
            clock.new_loop()

    clock.run(main())
    clock.run(main())
