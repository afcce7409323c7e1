"""Messages on the road together, and one that must be alone there: nobody beside it, nobody waits for ever."""

import asyncio
import random
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.pipeline.crash_recovery.isolation import CrashIsolation
from finclaw.sessions.lane import Lanes

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(session: str, ticket: int) -> Accepted:
    return Accepted(id=f"{session}{ticket}", session=session, ticket=ticket, inbound=Inbound(text=""), accepted_at=NOW)


class Road:
    """Walks messages through a isolation and their lanes, and notes who was there with whom."""

    def __init__(self) -> None:
        self.isolation = CrashIsolation()
        self.lanes = Lanes()
        self.running: set[str] = set()
        self.beside: dict[str, set[str]] = {}
        self.done: list[str] = []

    def walk(self, accepted: Accepted, steps: int = 1, *, alone: bool = False) -> "asyncio.Task[None]":
        self.lanes.expect(accepted.session, accepted.ticket)
        room = self.isolation.exclusive(accepted) if alone else self.isolation.shared(accepted)
        return asyncio.create_task(self._walk(accepted, room, steps))

    async def _walk(self, accepted: Accepted, room: AbstractAsyncContextManager[None], steps: int) -> None:
        try:
            async with room:
                await self.lanes.turn_of(accepted.session, accepted.ticket)
                await self._run(accepted.id, steps)
        finally:
            self.lanes.leave(accepted.session, accepted.ticket)

    async def _run(self, name: str, steps: int) -> None:
        self.running.add(name)
        try:
            for _ in range(steps):
                for each in self.running:
                    self.beside.setdefault(each, set()).update(self.running - {each})
                await asyncio.sleep(0)
            self.done.append(name)
        finally:
            self.running.remove(name)


async def test_who_wants_to_be_alone_waits_and_is_waited_for() -> None:
    road = Road()
    walks = [road.walk(message("a", 1), 5), road.walk(message("b", 1), 3, alone=True), road.walk(message("c", 1), 1)]
    await asyncio.gather(*walks)
    assert road.done == ["a1", "b1", "c1"]
    assert not road.beside["b1"]


async def test_others_go_side_by_side_as_ever() -> None:
    road = Road()
    await asyncio.gather(*(road.walk(message(session, 1), 3) for session in "abc"))
    assert road.beside["b1"] == {"a1", "c1"}


async def test_whoever_stands_before_it_in_its_session_passes() -> None:
    """Else it would wait for its turn, and its turn for it."""
    road = Road()
    for ticket in (3, 7):  # as a start makes all of them known before anything moves
        road.lanes.expect("a", ticket)
    later = road.walk(message("a", 7), 2, alone=True)
    await asyncio.sleep(0)
    walks = [road.walk(message("b", 1)), road.walk(message("a", 8)), road.walk(message("a", 3), 4), later]
    async with asyncio.timeout(60):
        await asyncio.gather(*walks)
    assert road.done[:2] == ["a3", "a7"]
    assert not road.beside["a7"]


@pytest.mark.parametrize("who", ["the one inside", "the one alone", "the next to be alone", "one who waits"])
async def test_whoever_is_cancelled_holds_nobody_up(who: str) -> None:
    road = Road()
    walks = {
        "the one inside": road.walk(message("a", 1), 1_000_000_000),
        "the one alone": road.walk(message("b", 1), 3, alone=True),
        "the next to be alone": road.walk(message("c", 1), 3, alone=True),
        "one who waits": road.walk(message("d", 1)),
    }
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    walks[who].cancel()
    await asyncio.sleep(0)
    walks["the one inside"].cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(*walks.values(), return_exceptions=True)
    left = [name for name in walks if name not in (who, "the one inside")]
    assert [walks[name].cancelled() for name in left] == [False] * len(left)
    await road.walk(message("e", 1))
    assert road.done[-1] == "e1"


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4), st.booleans()), min_size=1, max_size=14),
    st.randoms(use_true_random=False),
)
def test_nobody_is_ever_beside_one_that_is_alone_and_all_get_through(
    wishes: list[tuple[str, int, bool]], dice: random.Random
) -> None:
    """In order of session and ticket, as a start takes them up; whoever comes later comes at any time."""

    async def walk() -> Road:
        road = Road()
        ordered = sorted(wishes, key=lambda each: each[0])
        walks: list[asyncio.Task[None]] = []
        for ticket, (session, steps, alone) in enumerate(ordered, start=1):
            walks.append(road.walk(message(session, ticket), steps + 1, alone=alone))
        for ticket in range(100, 104):
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
            walks.append(road.walk(message(dice.choice("abcd"), ticket), dice.randrange(1, 4)))
        async with asyncio.timeout(60):
            await asyncio.gather(*walks)
        for ticket, (session, _, alone) in enumerate(ordered, start=1):
            assert not (alone and road.beside[f"{session}{ticket}"])
        return road

    road = asyncio.run(walk())
    assert len(road.done) == len(wishes) + 4
