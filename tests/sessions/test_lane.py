"""The lane, in a thousand orders of events: nobody dropped, nobody overtaken, each alone."""

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest

from finclaw.sessions.lane import Lane, Lanes
from finclaw.testing import FakeClock


@dataclass(frozen=True, slots=True)
class Plan:
    """What one message will do. Times are whole seconds, so that many things happen at the same instant."""

    ticket: int
    arrives: int
    context: int
    runs: int
    halts: bool
    cancelled_after: int | None


def plan(rng: Random) -> list[Plan]:
    """Messages in ticket order; contexts of any length, so that they finish in any order."""
    arrives, plans = 0, list[Plan]()
    for ticket in range(1, rng.randint(2, 9) + 1):
        arrives += rng.choice((0, 0, 1, 1, 2, 5))
        cancelled = rng.randint(0, 8) if rng.random() < 0.2 else None
        plans.append(Plan(ticket, arrives, rng.randint(0, 4), rng.randint(0, 3), rng.random() < 0.2, cancelled))
    return plans


@dataclass
class Session:
    """Messages on their way through one lane, and what was seen of them."""

    lanes: Lanes
    began: list[int] = field(default_factory=list[int])
    ended: list[int] = field(default_factory=list[int])
    left: set[int] = field(default_factory=set[int])
    running: int | None = None

    async def walk(self, message: Plan) -> None:
        try:
            await asyncio.sleep(message.context)
            if message.halts:
                return
            await self.lanes.turn_of("s", message.ticket)
            await self._run(message)
        finally:
            self.left.add(message.ticket)
            self.lanes.leave("s", message.ticket)
            self.lanes.leave("s", message.ticket)  # whoever gives up twice harms nobody

    async def _run(self, message: Plan) -> None:
        assert self.running is None, f"{message.ticket} began while {self.running} ran"
        self.running = message.ticket
        self.began.append(message.ticket)
        try:
            await asyncio.sleep(message.runs)
            self.ended.append(message.ticket)
        finally:
            self.running = None

    async def live(self, plans: list[Plan]) -> None:
        tasks: list[asyncio.Task[None]] = []
        now = 0
        for message in plans:
            await asyncio.sleep(message.arrives - now)
            now = message.arrives
            self.lanes.expect("s", message.ticket)
            task = asyncio.create_task(self.walk(message))
            if message.cancelled_after is not None:
                asyncio.get_running_loop().call_later(message.cancelled_after, task.cancel)
            tasks.append(task)
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_interleavings(block: int):
    for seed in range(block * 100, block * 100 + 100):
        plans = plan(Random(seed))
        session = Session(Lanes())
        FakeClock().run(session.live(plans))
        wanted = {each.ticket for each in plans if not each.halts and each.cancelled_after is None}
        assert session.began == sorted(session.began), f"overtaken: seed {seed}"
        assert wanted <= set(session.ended), f"dropped: seed {seed}"
        assert session.began == sorted(set(session.began)), f"twice: seed {seed}"
        assert len(session.lanes) == 0, f"a lane was left behind: seed {seed}"


def test_a_message_that_arrives_in_the_last_moment_of_a_turn_runs_next():
    """The first leaves and the second is expected at the same instant, in both orders."""

    async def main(second_first: bool) -> list[str]:
        lane, seen = Lane(), list[str]()
        lane.expect(1)
        await lane.turn_of(1)
        if second_first:
            lane.expect(2)
            lane.leave(1)
        else:
            lane.leave(1)
            lane.expect(2)
        await lane.turn_of(2)
        seen.append("second runs")
        lane.leave(2)
        assert not len(lane)
        return seen

    for second_first in (True, False):
        assert FakeClock().run(main(second_first)) == ["second runs"]


def test_the_one_woken_and_cancelled_at_once_wakes_the_next():
    async def main() -> None:
        lanes = Lanes()
        for ticket in (1, 2, 3):
            lanes.expect("s", ticket)
        await lanes.turn_of("s", 1)
        second = asyncio.create_task(leaving(lanes, 2))
        third = asyncio.create_task(leaving(lanes, 3))
        await asyncio.sleep(0)
        lanes.leave("s", 1)
        second.cancel()
        await third
        with pytest.raises(asyncio.CancelledError):
            await second
        assert len(lanes) == 0

    async def leaving(lanes: Lanes, ticket: int) -> None:
        try:
            await lanes.turn_of("s", ticket)
        finally:
            lanes.leave("s", ticket)

    FakeClock().run(main())


def test_lanes_do_not_know_each_other():
    async def main() -> None:
        lanes = Lanes()
        for session in ("a", "b"):
            lanes.expect(session, 1)
            lanes.expect(session, 2)
        lanes.leave("a", 1)
        await lanes.turn_of("a", 2)
        assert lanes.find("a").position(2) == 0
        assert lanes.find("b").position(2) == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await lanes.turn_of("b", 2)

    FakeClock().run(main())


def test_nobody_waits_in_a_session_without_a_lane():
    async def main() -> None:
        lanes = Lanes()
        await lanes.turn_of("never seen", 5)
        lanes.leave("never seen", 5)
        assert lanes.find("never seen").position(5) == 0
        assert len(lanes) == 0

    FakeClock().run(main())


def test_a_flood_in_one_lane_stays_in_order():
    async def main() -> list[int]:
        lanes, began = Lanes(), list[int]()

        async def one(ticket: int) -> None:
            await lanes.turn_of("s", ticket)
            began.append(ticket)
            await asyncio.sleep(0)
            lanes.leave("s", ticket)

        for ticket in range(1, 2001):
            lanes.expect("s", ticket)
        await asyncio.gather(*(one(ticket) for ticket in range(2000, 0, -1)))
        return began

    assert FakeClock().run(main()) == list(range(1, 2001))
