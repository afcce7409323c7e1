"""Waiting for what others decide: one is woken in every case, and takes nothing along when one leaves."""

import asyncio

import pytest

from finclaw.cancellation import until_done
from finclaw.testing import FakeClock


@pytest.mark.parametrize("way", ["result", "error", "cancelled"])
def test_whoever_waits_is_woken_whatever_came_of_it(way: str) -> None:
    async def main() -> bool:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(until_done(work))
        await asyncio.sleep(1)
        assert not waiting.done()
        match way:
            case "result":
                work.set_result(None)
            case "error":
                work.set_exception(OSError("no"))
                work.exception()
            case _:
                work.cancel()
        return await waiting

    assert FakeClock().run(main()) is True


def test_what_is_done_already_is_not_waited_for() -> None:
    async def main() -> bool:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        work.set_result(None)
        return await until_done(work, 0)

    assert FakeClock().run(main()) is True


def test_after_its_time_it_says_that_nothing_came() -> None:
    async def main() -> tuple[bool, float, bool]:
        loop = asyncio.get_running_loop()
        work: asyncio.Future[None] = loop.create_future()
        began = loop.time()
        done = await until_done(work, 30)
        return done, loop.time() - began, work.cancelled()

    assert FakeClock().run(main()) == (False, 30, False)


def test_who_is_cancelled_leaves_the_work_and_the_others_alone() -> None:
    async def main() -> tuple[bool, bool]:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        leaves, stays = asyncio.create_task(until_done(work, 60)), asyncio.create_task(until_done(work))
        await asyncio.sleep(1)
        leaves.cancel()
        await asyncio.wait([leaves])
        assert not work.done()
        work.set_result(None)
        return leaves.cancelled(), await stays

    assert FakeClock().run(main()) == (True, True)
