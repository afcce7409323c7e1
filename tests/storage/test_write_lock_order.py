"""The write lock's fences and files, waiters that go away, and tasks in any order."""

import asyncio
import fcntl
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.storage.lock_desk import Desk, limit, refused, settled

from finclaw.errors import StoreFailed, Superseded
from finclaw.kernel.event import Event, LockTakenOver
from finclaw.storage.locks import WriteLocks

pytestmark = pytest.mark.spec("DX-33")


DAY = 86_400.0


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "locks")


# ── fences and files ─────────────────────────────────────────────────────────────────────────────────


def test_fences_rise_over_owners_restarts_and_a_clock_set_back(desk: Desk) -> None:
    async def main() -> None:
        fences: list[int] = []
        for number in range(30):
            desk.clock.jump(timedelta(hours=-1 if number % 3 else 1))
            async with desk.owner().held("s") as handle:
                fences.append(handle.fence)
        assert fences == sorted(set(fences))

    desk.clock.run(main())


def test_a_holder_whose_file_was_deleted_is_superseded(desk: Desk) -> None:
    async def main() -> None:
        mine = await desk.owner().acquire("s")
        mine.lock_path.unlink()
        with pytest.raises(Superseded):
            mine.check()
        desk.clock.advance(0.001)
        theirs = await desk.owner("new").acquire("s", timeout=0)
        assert theirs.fence > mine.fence
        mine.release()
        theirs.check()
        assert (desk.note("s").owner, desk.note("s").held) == ("new", True)

    desk.clock.run(main())


def test_a_file_deleted_before_its_lock_was_got_is_not_the_lock(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[Path] = []

    def slow_flock(descriptor: int, operation: int) -> None:
        if not deleted:
            deleted.append(desk.path("s"))
            deleted[0].unlink()
        flock(descriptor, operation)

    async def main() -> None:
        handle = await desk.owner().acquire("s")
        assert deleted
        handle.check()
        assert not (await desk.owner().acquire("s", timeout=0)).acquired

    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", slow_flock)
    desk.clock.run(main())


def test_a_copy_in_a_process_we_know_nothing_of_does_not_keep_the_lock(desk: Desk) -> None:
    async def main() -> None:
        handle = await desk.owner().acquire("s")
        (file,) = desk.open_files
        copy = os.dup(file)  # what a fork behind Python's back would give its child
        handle.release()
        assert (await desk.owner().acquire("s", timeout=0)).acquired
        os.close(copy)

    desk.clock.run(main())


@pytest.mark.spec("L-07")
def test_ten_thousand_sessions_leave_no_file_open(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        for number in range(10_000):
            (await locks.acquire(str(number))).release()
        assert not desk.open_files
        handles = [await locks.acquire(str(number)) for number in range(100)]
        assert len(desk.open_files) == 100
        for handle in handles:
            handle.release()
        assert not desk.open_files

    desk.clock.run(main())


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_no_ordinary_file_hangs_nobody(desk: Desk, make: Callable[[Path], None]) -> None:
    desk.directory.mkdir()
    make(desk.path("s"))

    async def main() -> None:
        try:
            (await desk.owner().acquire("s", timeout=0)).release()
        except StoreFailed as error:
            assert "ordinary file" in str(error)  # noqa: PT017  a pipe can be locked, a directory cannot
        assert not desk.open_files

    desk.clock.run(main())


def test_a_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("")
    refused(Desk(tmp_path / "locks"), "s")


def test_without_descriptors_nothing_is_left_behind(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        await locks.acquire("before")
        with limit(resource.RLIMIT_NOFILE, 3), pytest.raises(StoreFailed, match="Too many open files"):
            await locks.acquire("s")
        assert (await locks.acquire("s", timeout=0)).acquired

    desk.clock.run(main())


# ── waiters that go, stores that close ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rival", [False, True], ids=["same process", "another"])
def test_a_cancelled_waiter_leaves_nothing_behind(desk: Desk, rival: bool) -> None:
    async def main() -> None:
        locks = desk.owner()
        mine = await locks.acquire("s")
        theirs = desk.owner() if rival else locks
        waiters = [asyncio.create_task(theirs.acquire("s", timeout=DAY)) for _ in range(10)]
        await desk.clock.sleep(1)
        for waiter in waiters[:9]:
            waiter.cancel()
        await asyncio.wait(waiters[:9])
        assert len(desk.open_files) == 1
        mine.release()
        (await waiters[9]).release()
        assert not desk.open_files
        assert (await desk.owner().acquire("s", timeout=0)).acquired

    desk.clock.run(main())


def test_a_waiter_cancelled_in_the_moment_of_its_turn_passes_it_on(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        mine = await locks.acquire("s")
        first, second = (asyncio.create_task(locks.acquire("s", timeout=DAY)) for _ in range(2))
        await settled()
        mine.release()
        first.cancel()
        assert (await second).acquired
        assert first.cancelled()

    desk.clock.run(main())


def test_an_observer_that_fails_does_not_keep_the_lock(desk: Desk) -> None:
    def fail(_event: Event) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await WriteLocks(desk.directory, desk.clock, fail).acquire("s")
        assert (await desk.owner().acquire("s", timeout=0)).acquired

    desk.clock.run(main())


@pytest.mark.spec("L-09")
def test_closing_frees_all_and_sends_the_waiting_away(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        held = [await locks.acquire(str(number)) for number in range(3)]
        waiting = [asyncio.create_task(locks.acquire("0")) for _ in range(3)]
        await settled()
        await locks.close()
        for waiter in waiting:
            with pytest.raises(StoreFailed, match="closed"):
                await waiter
        with pytest.raises(StoreFailed, match="closed"):
            await locks.acquire("new")
        for handle in held:
            handle.release()
            with pytest.raises(Superseded):
                handle.check()
        await locks.close()
        assert not desk.open_files
        assert not desk.note("0").held

    desk.clock.run(main())


# ── any order of events ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Wish:
    owner: int
    session: str
    start: float
    timeout: float
    stay: float
    again: int
    cancel: float | None


moments = st.integers(0, 40).map(lambda hundredths: hundredths / 100)
wishes = st.builds(
    Wish,
    owner=st.integers(0, 2),
    session=st.sampled_from(["a", "b"]),
    start=moments,
    timeout=moments,
    stay=moments,
    again=st.integers(0, 2),
    cancel=st.none() | moments,
)


@pytest.mark.spec("L-10")
@given(plan=st.lists(wishes, min_size=2, max_size=12))
@settings(max_examples=examples(150))
def test_in_any_order_one_writer_at_a_time_and_rising_fences(
    tmp_path_factory: pytest.TempPathFactory, plan: list[Wish]
) -> None:
    desk = Desk(tmp_path_factory.mktemp("locks"))
    inside = {"a": 0, "b": 0}
    fences: dict[str, list[int]] = {"a": [], "b": []}

    async def want(locks: WriteLocks, wish: Wish) -> None:
        session = wish.session
        await desk.clock.sleep(wish.start)
        handle = await locks.acquire(session, wish.timeout)
        if not handle.acquired:
            return
        nested = [await locks.acquire(session, 0) for _ in range(wish.again)]
        inside[session] += 1
        fences[session].append(handle.fence)
        try:
            handle.release() if nested else handle.check()
            await desk.clock.sleep(wish.stay)
            assert inside[session] == 1
        finally:
            inside[session] -= 1
            for each in (*nested, handle):
                each.release()

    async def main() -> None:
        owners = [desk.owner() for _ in range(3)]
        async with asyncio.TaskGroup() as group:
            for wish in plan:
                task = group.create_task(want(owners[wish.owner], wish))
                if wish.cancel is not None:
                    asyncio.get_running_loop().call_later(wish.cancel, task.cancel)
        assert not desk.open_files
        for session, given_out in fences.items():
            assert given_out == sorted(set(given_out))
            assert (await desk.owner().acquire(session, timeout=0)).acquired
        assert not any(isinstance(event, LockTakenOver) for event in desk.events)

    desk.clock.run(main())
