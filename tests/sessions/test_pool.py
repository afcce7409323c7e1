"""Pools, in a thousand orders of events: never too many, nobody waits beside a free seat, nobody overtaken or lost."""

import asyncio
import gc
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.machine import examples

from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.envelope import PoolName
from finclaw.sessions.pool import DEFAULT_SIZES, Pools, Seat
from finclaw.testing import FakeClock


def one_seat() -> Pools:
    return Pools({"main": 1})


async def breathe() -> None:
    """Long enough for everybody who can go on to go on."""
    for _ in range(5):
        await asyncio.sleep(0)


# ── what a pool promises ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("LN-01", "LN-04")
async def test_three_pools_each_with_its_own_size():
    assert DEFAULT_SIZES == {"main": 256, "cron": 8, "subagent": 8}
    pools = Pools({"cron": 2})
    sizes: dict[PoolName, int] = {"main": 256, "cron": 2, "subagent": 8}
    for name, size in sizes.items():
        for number in range(size):
            await pools.enter(name, f"s{number}")
        one_more = asyncio.create_task(pools.enter(name, "late"))
        await breathe()
        assert (pools.running(name), pools.waiting(name), one_more.done()) == (size, 1, False)
        one_more.cancel()
        await asyncio.wait([one_more])
        assert pools.waiting(name) == 0


@pytest.mark.spec("LN-04")
@pytest.mark.parametrize(("sizes", "says"), [({"main": 0}, "at least 1"), ({"night": 3}, "main, cron, subagent")])
def test_sizes_that_cannot_work_are_refused_at_the_start(sizes: dict[Any, int], says: str):
    with pytest.raises(ConfigError, match=says):
        Pools(sizes)


@pytest.mark.spec("LN-02")
async def test_a_seat_is_released_once_however_often_it_is_told_so():
    pools = one_seat()
    first = await pools.enter("main", "a")
    first.release()
    second = await pools.enter("main", "b")
    first.release()
    assert (pools.running("main"), pools.sessions("main")) == (1, ("b",))
    second.release()
    assert pools.running("main") == 0


@pytest.mark.spec("LN-02")
async def test_a_seat_is_released_whatever_happens():
    pools = one_seat()

    async def fail() -> None:
        with await pools.enter("main", "a"):
            assert pools.running("main") == 1
            raise ZeroDivisionError

    async def hold() -> None:
        with await pools.enter("main", "b"):
            await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert pools.running("main") == 0
    task = asyncio.create_task(hold())
    await breathe()
    assert pools.running("main") == 1
    task.cancel()
    await asyncio.wait([task])
    assert pools.running("main") == 0


@pytest.mark.spec("LN-02")
async def test_first_come_first_seated():
    pools, seated = one_seat(), list[str]()

    async def turn(session: str) -> None:
        with await pools.enter("main", session):
            seated.append(session)
            await asyncio.sleep(0)

    await asyncio.gather(*(turn(f"s{number}") for number in range(500)))
    assert seated == [f"s{number}" for number in range(500)]


async def test_a_newcomer_cannot_slip_in_between_a_release_and_the_one_who_waits():
    pools = one_seat()
    first = await pools.enter("main", "a")
    waiting = asyncio.create_task(pools.enter("main", "b"))
    await breathe()
    first.release()
    newcomer = asyncio.create_task(pools.enter("main", "c"))
    await breathe()
    assert (waiting.done(), newcomer.done()) == (True, False)
    newcomer.cancel()
    await asyncio.wait([newcomer])


@pytest.mark.spec("DX-44")
async def test_a_turn_may_sit_in_two_pools_and_waits_for_itself_in_neither():
    pools = Pools({"main": 1, "subagent": 1})
    async with asyncio.timeout(60):
        with await pools.enter("main", "a"), await pools.enter("subagent", "a"):
            assert (pools.sessions("main"), pools.sessions("subagent")) == (("a",), ("a",))


# ── cancelling ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("LN-04", "DX-51c")
def test_waiting_can_be_given_up_and_costs_no_seat():
    async def main() -> None:
        pools = one_seat()
        first = await pools.enter("main", "a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await pools.enter("main", "b")
        assert (pools.running("main"), pools.waiting("main")) == (1, 0)
        first.release()
        with await pools.enter("main", "c"):
            assert pools.sessions("main") == ("c",)

    FakeClock().run(main())


@pytest.mark.spec("LN-04", "DX-51c")
@pytest.mark.parametrize("cancel_first", [True, False])
async def test_the_one_woken_and_cancelled_at_once_passes_the_seat_on(cancel_first: bool):
    pools = one_seat()
    first = await pools.enter("main", "a")
    second = asyncio.create_task(pools.enter("main", "b"))
    third = asyncio.create_task(pools.enter("main", "c"))
    await breathe()
    if cancel_first:
        second.cancel()
        assert pools.waiting("main") == 1, "who has given up does not wait, even before they know it"
        first.release()
    else:
        first.release()
        second.cancel()
    seat = await asyncio.wait_for(third, 60)
    assert second.cancelled()
    assert pools.sessions("main") == ("c",)
    seat.release()
    assert pools.running("main") == 0


@pytest.mark.spec("LN-04")
async def test_a_task_cancelled_before_it_began_takes_nothing():
    pools = one_seat()
    task = asyncio.create_task(pools.enter("main", "a"))
    task.cancel()
    await asyncio.wait([task])
    assert (pools.running("main"), pools.waiting("main")) == (0, 0)


class Key(str):
    """A session key that can be watched."""


@pytest.mark.spec("LN-04")
async def test_who_has_given_up_is_forgotten_even_if_no_seat_is_ever_freed():
    pools = one_seat()
    await pools.enter("main", "a")
    key = Key("b")
    gone = weakref.ref(key)
    task = asyncio.create_task(pools.enter("main", key))
    await breathe()
    task.cancel()
    await asyncio.wait([task])
    del key, task
    gc.collect()
    assert gone() is None


# ── generations and closing ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("LN-03")
async def test_a_new_generation_has_all_its_seats_at_once_and_old_ones_do_nothing():
    pools = Pools({"main": 2})
    old = [await pools.enter("main", f"old{number}") for number in range(2)]
    waiting = [asyncio.create_task(pools.enter("main", f"new{number}")) for number in range(3)]
    await breathe()
    pools.reset_generation("main")
    assert pools.sessions("main") == ("new0", "new1")
    await breathe()
    for seat in old:
        seat.release()
    await breathe()
    assert (pools.sessions("main"), pools.waiting("main")) == (("new0", "new1"), 1)
    waiting[0].result().release()
    assert pools.sessions("main") == ("new1", "new2")
    await asyncio.wait(waiting)


@pytest.mark.spec("LN-03")
async def test_a_reset_touches_no_other_pool():
    pools = Pools()
    seat = await pools.enter("cron", "a")
    pools.reset_generation("main")
    assert pools.running("cron") == 1
    seat.release()
    assert pools.running("cron") == 0


@pytest.mark.spec("LN-03")
async def test_who_is_cancelled_and_reset_while_waking_up_frees_nobody_elses_seat():
    pools = one_seat()
    first = await pools.enter("main", "a")
    second = asyncio.create_task(pools.enter("main", "b"))
    await breathe()
    first.release()  # handed to the second, who has not woken up
    pools.reset_generation("main")
    third = await pools.enter("main", "c")
    second.cancel()
    await asyncio.wait([second])
    assert pools.sessions("main") == ("c",)
    third.release()


@pytest.mark.spec("LN-03")
async def test_closing_tells_those_who_wait_refuses_newcomers_and_lets_the_rest_finish():
    pools = one_seat()
    first = await pools.enter("main", "a")
    waiting = [asyncio.create_task(pools.enter("main", name)) for name in ("b", "c")]
    cancelled, told_and_cancelled = (asyncio.create_task(pools.enter("main", name)) for name in ("d", "e"))
    await breathe()
    cancelled.cancel()
    pools.close()
    told_and_cancelled.cancel()
    pools.close()
    await asyncio.wait([*waiting, cancelled, told_and_cancelled])
    for task in waiting:
        with pytest.raises(SessionError, match="stopping"):
            task.result()
    assert cancelled.cancelled()
    assert told_and_cancelled.cancelled()
    with pytest.raises(SessionError, match="stopping"):
        await pools.enter("cron", "f")
    assert (pools.running("main"), pools.waiting("main")) == (1, 0)
    first.release()
    assert pools.running("main") == 0


# ── a thousand interleavings in virtual time ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Plan:
    """What one turn will do. Times are whole seconds, so that many things happen at the same instant."""

    name: str
    arrives: int
    runs: int
    cancelled_at: int | None


def plan(rng: Random) -> list[Plan]:
    plans: list[Plan] = []
    for number in range(rng.randint(2, 14)):
        arrives = rng.randint(0, 6)
        cancelled = arrives + rng.randint(0, 8) if rng.random() < 0.35 else None
        plans.append(Plan(f"s{number}", arrives, rng.randint(0, 3), cancelled))
    return plans


@dataclass
class Crowd:
    """Turns on their way through one pool, and what was seen of them."""

    size: int
    pools: Pools = field(init=False)
    inside: int = 0
    queued: list[str] = field(default_factory=list[str])
    seated_after_waiting: list[str] = field(default_factory=list[str])
    finished: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.pools = Pools({"main": self.size})

    def check(self) -> None:
        running, waiting = self.pools.running("main"), self.pools.waiting("main")
        assert self.inside <= running <= self.size, "too many run"
        assert not waiting or running == self.size, "somebody waits beside a free seat"

    async def turn(self, each: Plan) -> None:
        must_wait = self.pools.running("main") == self.size
        if must_wait:
            self.queued.append(each.name)
        with await self.pools.enter("main", each.name):
            if must_wait:
                self.seated_after_waiting.append(each.name)
            with self.counted():
                await asyncio.sleep(each.runs)
                self.finished.add(each.name)
        self.check()

    @contextmanager
    def counted(self) -> Generator[None]:
        self.inside += 1
        self.check()
        try:
            yield
        finally:
            self.inside -= 1
            self.check()

    async def live(self, plans: list[Plan]) -> None:
        loop, tasks = asyncio.get_running_loop(), list[asyncio.Task[None]]()
        for each in sorted(plans, key=lambda each: each.arrives):
            await asyncio.sleep(each.arrives - loop.time())
            tasks.append(asyncio.create_task(self.turn(each)))
            if each.cancelled_at is not None:
                loop.call_at(each.cancelled_at, tasks[-1].cancel)
            self.check()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()


@pytest.mark.spec("LN-02", "LN-04", "DX-51c")
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_interleavings(block: int):
    for seed in range(block * 100, block * 100 + 100):
        rng = Random(seed)
        plans, crowd = plan(rng), Crowd(rng.randint(1, 3))
        FakeClock().run(crowd.live(plans))
        seated = set(crowd.seated_after_waiting)
        in_turn = [name for name in crowd.queued if name in seated]
        assert crowd.seated_after_waiting == in_turn, f"overtaken: seed {seed}"
        assert {each.name for each in plans if each.cancelled_at is None} <= crowd.finished, f"lost: seed {seed}"
        assert (crowd.pools.running("main"), crowd.pools.waiting("main")) == (0, 0), f"left behind: seed {seed}"


# ── every order of single steps ─────────────────────────────────────────────────────────────────────────────


class PoolSteps(RuleBasedStateMachine):
    """Enter, cancel, release, reset and single breaths of the loop, in any order, so that every gap is tried."""

    @initialize(size=st.integers(1, 3))
    def open(self, size: int) -> None:
        self.loop = FakeClock().new_loop()
        self.size = size
        self.pools = Pools({"main": size})
        self.tasks: list[asyncio.Task[Seat]] = []
        self.seats: list[Seat] = []
        self.cancelled: set[asyncio.Task[Seat]] = set()

    def breathe_once(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    @rule()
    def enter(self) -> None:
        self.tasks.append(self.loop.create_task(self.pools.enter("main", f"s{len(self.tasks)}")))

    @rule()
    def breathe(self) -> None:
        self.breathe_once()

    @precondition(lambda self: any(not task.done() for task in self.tasks))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from([task for task in self.tasks if not task.done()]))
        task.cancel()
        self.cancelled.add(task)

    @precondition(lambda self: any(task.done() and not task.cancelled() for task in self.tasks))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Of anybody who ever had a seat, so some twice and some of an old generation."""
        seated = [task for task in self.tasks if task.done() and not task.cancelled()]
        data.draw(st.sampled_from(seated)).result().release()

    @rule()
    def reset(self) -> None:
        self.pools.reset_generation("main")

    @invariant()
    def no_more_than_its_size_and_no_seat_free_while_one_waits(self) -> None:
        running, waiting = self.pools.running("main"), self.pools.waiting("main")
        assert running <= self.size
        assert not waiting or running == self.size
        order = [int(name[1:]) for name in self.pools.sessions("main")]
        assert order == sorted(order), "overtaken"

    def teardown(self) -> None:
        """Everybody who holds a seat leaves: then all the others get one, in the end, and nothing is left over."""
        for _ in range(len(self.tasks) + 3):
            self.breathe_once()
            for task in self.tasks:
                if task.done() and not task.cancelled():
                    task.result().release()
        self.breathe_once()
        assert all(task.done() for task in self.tasks), "somebody waits for ever"
        assert {task for task in self.tasks if task.cancelled()} == self.cancelled
        assert (self.pools.running("main"), self.pools.waiting("main")) == (0, 0)
        self.loop.close()


TestPoolSteps = pytest.mark.spec("LN-02", "LN-03", "LN-04")(PoolSteps.TestCase)
TestPoolSteps.settings = settings(max_examples=examples(300), stateful_step_count=40, deadline=None)
