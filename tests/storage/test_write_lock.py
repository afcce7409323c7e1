"""The file store's write lock, point by point: who gets it, who waits, who is never robbed."""

import asyncio
import logging
import os
import resource
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.storage.lock_desk import Desk, limit, refused, settled

from finclaw.errors import StoreFailed, Superseded
from finclaw.kernel.event import LockAcquired, LockReleased, LockTakenOver
from finclaw.storage.locks import WriteLocks, read_note
from finclaw.testing import FakeClock

pytestmark = pytest.mark.spec("DX-33")


DAY = 86_400.0


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "locks")


# ── asking and giving back ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("L-01", "L-03", "L-04", "E-11", "E-12")
def test_the_lock_is_got_told_and_given_back(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner("me")
        handle = await locks.acquire("s")
        assert handle.acquired
        assert handle.held
        assert handle.lock_path == locks.path("s")
        handle.check()
        note = desk.note("s")
        assert (note.owner, note.pid, note.session, note.held) == ("me", os.getpid(), "s", True)
        assert (note.since, note.fence) == (desk.clock.now(), handle.fence)
        handle.release()
        assert not handle.held
        assert not desk.note("s").held
        assert desk.events == [
            LockAcquired(session="s", owner="me", fence=handle.fence),
            LockReleased(session="s", owner="me"),
        ]

    desk.clock.run(main())


@pytest.mark.spec("L-06", "L-10")
def test_who_waits_in_vain_learns_it_and_releases_nothing(desk: Desk) -> None:
    async def main() -> None:
        mine = await desk.owner().acquire("s")
        began = desk.clock.monotonic()
        refused = await desk.owner().acquire("s", timeout=3)
        assert desk.clock.monotonic() - began == pytest.approx(3)
        assert not refused.acquired
        assert refused.lock_path == mine.lock_path
        refused.release()
        mine.check()
        with pytest.raises(Superseded):
            refused.check()
        assert not (await desk.owner().acquire("s", timeout=0)).acquired

    desk.clock.run(main())


@pytest.mark.spec("L-07")
def test_releasing_twice_does_not_free_the_next_one(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        first = await locks.acquire("s")
        first.release()
        second = await locks.acquire("s")
        first.release()
        second.check()
        assert not (await desk.owner().acquire("s", timeout=0)).acquired
        with pytest.raises(Superseded):
            first.check()

    desk.clock.run(main())


def test_ordinary_use_frees_whatever_happens_and_says_who_is_in_the_way(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner("first")
        with pytest.raises(ZeroDivisionError):
            async with locks.held("s"):
                raise ZeroDivisionError
        async with locks.held("s") as handle:
            assert handle.fence == desk.note("s").fence
            with pytest.raises(StoreFailed, match=r"'s' is being written .* 'first' \(process \d+ on .*; try again"):
                async with desk.owner().held("s", timeout=1):
                    pytest.fail("two writers")

    desk.clock.run(main())


# ── the lettered points ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("L-02", "L-05")
def test_a_a_live_holder_is_never_robbed_and_its_release_harms_nobody(desk: Desk) -> None:
    async def main() -> None:
        mine = await desk.owner().acquire("s")
        await desk.clock.sleep(DAY)
        assert not (await desk.owner().acquire("s", timeout=1)).acquired
        before = mine.lock_path.stat().st_ino
        waiting = asyncio.create_task(desk.owner().acquire("s"))
        await settled()
        mine.release()
        theirs = await waiting
        mine.release()
        theirs.check()
        assert theirs.lock_path.stat().st_ino == before
        assert not any(isinstance(event, LockTakenOver) for event in desk.events)

    desk.clock.run(main())


def test_a_note_of_yesterday_does_not_rob_a_live_holder(desk: Desk) -> None:
    async def main() -> None:
        mine = await desk.owner().acquire("s")
        desk.leave_note("s", since=desk.clock.now() - timedelta(days=1))
        assert not (await desk.owner().acquire("s", timeout=0)).acquired
        mine.check()

    desk.clock.run(main())


@pytest.mark.spec("L-10", "E-13")
def test_b_of_many_waiters_for_a_dead_holders_lock_one_takes_it_over(desk: Desk) -> None:
    desk.leave_note("s")

    async def main() -> None:
        inside = 0

        async def want(locks: WriteLocks) -> int:
            nonlocal inside
            async with locks.held("s", timeout=DAY) as handle:
                inside += 1
                await desk.clock.sleep(0.01)
                assert inside == 1
                inside -= 1
                return handle.fence

        fences = await asyncio.gather(*(want(locks) for locks in [desk.owner() for _ in range(5)] for _ in range(10)))
        assert len(set(fences)) == 50

    desk.clock.run(main())
    taken = [event for event in desk.events if isinstance(event, LockTakenOver)]
    assert [event.former for event in taken] == ["gone"]
    given = [event.fence for event in desk.events if isinstance(event, LockAcquired)]
    assert given == sorted(set(given))


@pytest.mark.parametrize("pid", [1, os.getpid(), 2**22 + 1], ids=["not ours to signal", "ours", "nobody's"])
def test_c_d_the_process_in_the_note_proves_nothing(desk: Desk, pid: int) -> None:
    """Neither that its holder lives, on this host or another, nor that it is dead."""
    desk.leave_note("s", pid=pid)

    async def main() -> None:
        mine = await desk.owner().acquire("s", timeout=0)
        assert mine.acquired
        desk.leave_note("s", pid=pid)
        assert not (await desk.owner().acquire("s", timeout=0)).acquired

    desk.clock.run(main())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"{",
        b'{"owner": "x", "pid": 1, "ho',
        b"null",
        b"\x00" * 5000,
        b"\xff\xfe{}",
        b"[" * 5000,
        b'{"deep":' + b"[" * 4000,
        b'{"fence": -1}',
        b'{"owner":"x","pid":1,"host":"h","session":"s","since":"2025-01-06T09:00:00","beat":"","fence":1,"held":true}',
        b'{"owner":"x","pid":1,"host":"h","session":"s","since":"2025-01-06T09:00:00Z",'
        b'"beat":"2025-01-06T09:00:00Z","fence":' + b"9" * 400 + b',"held":true}',
        b" " * 1_000_000,
    ],
)
def test_e_a_bad_note_harms_nobody(desk: Desk, body: bytes) -> None:
    async def main() -> None:
        before = await desk.owner().acquire("s")
        before.release()
        before.lock_path.write_bytes(body)
        assert read_note(before.lock_path) is None
        desk.clock.advance(0.001)
        locks = desk.owner("me")
        after = await locks.acquire("s", timeout=0)
        after.check()
        assert after.fence > before.fence
        assert desk.note("s").owner == "me"
        assert after.lock_path.stat().st_size < 1000
        after.lock_path.write_bytes(body)
        assert not (await desk.owner().acquire("s", timeout=0)).acquired
        after.release()
        assert not desk.open_files

    desk.clock.run(main())
    assert not any(isinstance(event, LockTakenOver) for event in desk.events)


def test_e_what_is_left_of_a_longer_note_is_not_read(desk: Desk) -> None:
    desk.leave_note("s", owner="short")
    with desk.path("s").open("ab") as file:
        file.write(b'\n"fence":99,"held":true}')
    assert desk.note("s").owner == "short"


@given(body=st.binary(max_size=300))
@settings(max_examples=examples(100))
def test_e_no_bytes_at_all_break_a_reader(tmp_path_factory: pytest.TempPathFactory, body: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.lock"
    path.write_bytes(body)
    read_note(path)


def test_f_waiting_does_not_spin(desk: Desk) -> None:
    pauses: list[float] = []

    class Watched(FakeClock):
        async def sleep(self, seconds: float) -> None:
            pauses.append(seconds)
            await desk.clock.sleep(seconds)

    async def main() -> None:
        async with desk.owner().held("s"):
            waiting = WriteLocks(desk.directory, Watched(), desk.events.append)
            assert not (await waiting.acquire("s", timeout=5)).acquired

    desk.clock.run(main())
    assert pauses[:4] == [0.02, 0.04, 0.08, 0.1]
    assert set(pauses[4:]) == {0.1}
    assert len(pauses) <= 53


@pytest.mark.parametrize("room", [0, 10], ids=["no byte", "half a note"])
@pytest.mark.parametrize("former", [False, True], ids=["new file", "dead holder's file"])
def test_g_a_full_disk_costs_neither_lock_nor_file(
    desk: Desk, room: int, former: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if former:
        desk.leave_note("s")

    async def main() -> None:
        locks = desk.owner("me")
        with limit(resource.RLIMIT_FSIZE, room):
            handle = await locks.acquire("s")
            handle.check()
            assert not (await desk.owner().acquire("s", timeout=0)).acquired
            assert read_note(handle.lock_path) is None
            handle.release()
            again = await locks.acquire("s", timeout=0)
            assert again.fence > handle.fence
            again.release()
            assert not desk.open_files
            third = await locks.acquire("s", timeout=0)
            assert third.fence > again.fence
        assert read_note(third.lock_path) is None
        third.release()
        await desk.owner("me").acquire("s", timeout=0)
        assert desk.note("s").owner == "me"

    desk.clock.run(main())
    assert "the lock holds all the same" in caplog.text
    assert sum(isinstance(event, LockTakenOver) for event in desk.events) == former


@pytest.mark.spec("L-08")
def test_h_the_tasks_of_one_process_exclude_each_other(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        order: list[int] = []

        async def want(number: int) -> None:
            async with locks.held("s", timeout=DAY):
                order.append(number)
                await settled(3)
                assert order[-1] == number

        async with locks.held("s"):
            tasks = [asyncio.create_task(want(number)) for number in range(200)]
            await settled(300)
            assert not order
        await asyncio.gather(*tasks)
        assert order == list(range(200))
        assert desk.clock.monotonic() == 0, "inside one process the lock is handed on, not polled for"

    desk.clock.run(main())


@pytest.mark.spec("L-08")
def test_h_a_child_task_is_another_task(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        async with locks.held("s"):
            async with locks.held("s", timeout=0):
                pass
            assert not (await asyncio.create_task(locks.acquire("s", timeout=1))).acquired
            assert (await asyncio.create_task(locks.acquire("another", timeout=0))).acquired

    desk.clock.run(main())


@pytest.mark.spec("L-02", "L-08")
def test_h_without_reentry_the_holder_itself_is_refused_at_once(desk: Desk) -> None:
    async def main() -> None:
        locks = desk.owner()
        mine = await locks.acquire("s", reentrant=False)
        assert not (await locks.acquire("s", reentrant=False)).acquired
        assert desk.clock.monotonic() == 0
        mine.check()

    desk.clock.run(main())


@pytest.mark.spec("L-08")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_i_only_the_last_release_frees(desk: Desk, order: tuple[int, ...]) -> None:
    async def main() -> None:
        locks = desk.owner()
        handles = [await locks.acquire("s", timeout=0) for _ in range(3)]
        assert len({handle.fence for handle in handles}) == 1
        for number in order:
            assert not (await desk.owner().acquire("s", timeout=0)).acquired
            handles[number].check()
            handles[number].release()
            handles[number].release()
        assert (await desk.owner().acquire("s", timeout=0)).acquired

    desk.clock.run(main())
    assert sum(isinstance(event, LockReleased) for event in desk.events) == 1


@pytest.mark.spec("L-02")
def test_k_an_overdue_holder_is_warned_once_and_keeps_its_lock(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        locks = desk.owner()
        handle = await locks.acquire("s", max_hold=3)
        unlimited = await locks.acquire("s")
        await desk.clock.sleep(2)
        assert not handle.overdue
        await desk.clock.sleep(60)
        assert handle.overdue
        assert not unlimited.overdue
        handle.check()
        assert not (await desk.owner().acquire("s", timeout=1)).acquired
        handle.release()
        assert not handle.overdue

    with caplog.at_level(logging.WARNING):
        desk.clock.run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "the lock of session 's' is held for longer than it should be"
    ]


def test_k_no_timeout_still_tries_and_a_missing_directory_is_made(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "not" / "there" / "yet")

    async def main() -> None:
        handle = await desk.owner().acquire("s", timeout=0)
        assert handle.acquired
        assert handle.lock_path.stat().st_mode & 0o777 == 0o600
        assert desk.directory.stat().st_mode & 0o777 == 0o700

    desk.clock.run(main())


@pytest.mark.parametrize(
    "session",
    ["../../etc/passwd", "/etc/passwd", "", ".", "a\0b", "x" * 100_000, "\ud800", "한국어", "a\nb", "con:1|?*"],
)
def test_k_a_session_key_is_no_path(desk: Desk, session: str) -> None:
    async def main() -> None:
        async with desk.owner().held(session, timeout=0):
            assert not (await desk.owner().acquire(session, timeout=0)).acquired
            assert read_note(desk.path(session)) is not None
        (only,) = desk.directory.iterdir()
        assert only.name.removesuffix(".lock").isalnum()

    desk.clock.run(main())


def test_k_keys_that_look_alike_have_locks_of_their_own(desk: Desk) -> None:
    keys = ["?", "\ud800", "\udc00", "é", "e\u0301", "a", "A", "a ", "a\0"]
    assert len({desk.path(key) for key in keys}) == len(keys)


def test_k_a_link_in_the_place_of_the_file_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    desk.directory.mkdir()
    desk.path("s").symlink_to(victim)
    refused(desk, "s")
    assert victim.read_text() == "precious"
