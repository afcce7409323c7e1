"""The write lock between real processes: kills, exits, forks, and a counter that only exclusion keeps right."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from tests.machine import slowness

from finclaw.clock import SystemClock
from finclaw.kernel.event import Event, LockTakenOver
from finclaw.storage.locks import WriteLocks, read_note

pytestmark = pytest.mark.spec("DX-33")

CHILD = Path(__file__).with_name("lock_child.py")


@asynccontextmanager
async def child(*args: object) -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, CHILD, *map(str, args), stdin=PIPE, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


def tell(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")


@pytest.mark.spec("L-05", "L-10", "E-13")
async def test_a_killed_holders_lock_is_taken_over_within_a_second(tmp_path: Path) -> None:
    events: list[Event] = []
    locks = WriteLocks(tmp_path, SystemClock(), events.append, owner="heir")
    took: list[float] = []
    for _ in range(5):
        async with child("hold", tmp_path, "s") as holder:
            fence = int(await said(holder))
            waiting = asyncio.create_task(locks.acquire("s", timeout=30))
            assert not (await locks.acquire("s", timeout=0.3)).acquired
            began = time.monotonic()
            holder.kill()
            handle = await waiting
            took.append(time.monotonic() - began)
            assert handle.fence > fence
            handle.release()
            assert events[-3] == LockTakenOver(session="s", owner="heir", former=f"child {holder.pid}")
    await locks.close()
    sys.stdout.write(f"taken over after {', '.join(f'{each * 1000:.0f}' for each in took)} ms\n")
    assert max(took) < 1 or max(took) < slowness()


@pytest.mark.spec("L-05")
async def test_a_stopped_holder_lives_and_keeps_its_lock(tmp_path: Path) -> None:
    """No sign of life is no proof of death: a process in a debugger must find its lock when it goes on."""
    locks = WriteLocks(tmp_path, SystemClock(), lambda _: None)
    async with child("hold", tmp_path, "s") as holder:
        await said(holder)
        holder.send_signal(signal.SIGSTOP)
        assert not (await locks.acquire("s", timeout=0.5)).acquired
        holder.send_signal(signal.SIGCONT)
        tell(holder)
        assert await said(holder) == "released"
        assert (await locks.acquire("s", timeout=30)).acquired
    await locks.close()


@pytest.mark.spec("L-01", "L-10")
async def test_b_of_waiting_processes_one_at_a_time_follows_a_killed_one(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        waiting = {await stack.enter_async_context(child("hold", tmp_path, "s")) for _ in range(4)}
        heard = {asyncio.create_task(said(each)): each for each in waiting}
        fences: list[int] = []
        while heard:
            done, _ = await asyncio.wait(heard, return_when=asyncio.FIRST_COMPLETED)
            assert len(done) == 1, "two processes have the lock"
            (first,) = done
            fences.append(int(first.result()))
            holder = heard.pop(first)
            note = read_note(WriteLocks(tmp_path, SystemClock(), lambda _: None).path("s"))
            assert note is not None
            assert (note.pid, note.fence) == (holder.pid, fences[-1])
            if heard:
                too_early, _ = await asyncio.wait(heard, timeout=0.25)  # longer than any pause between two tries
                assert not too_early, "two processes have the lock"
            holder.kill()
    assert len(fences) == 4
    assert fences == sorted(set(fences))


@pytest.mark.spec("L-01", "L-10")
async def test_four_processes_count_to_two_hundred(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    async with AsyncExitStack() as stack:
        arguments = ("count", tmp_path / "locks", "s", counter, 50)
        children = [await stack.enter_async_context(child(*arguments)) for _ in range(4)]
        for each in children:
            assert await said(each) == "ready"
        for each in children:
            tell(each)
        outputs = await asyncio.gather(*(each.communicate() for each in children))
    told = [[tuple(map(int, line.split())) for line in output.decode().splitlines()] for output, _ in outputs]
    steps = sorted((*step, who) for who, mine in enumerate(told) for step in mine)
    assert counter.read_text() == "200"
    assert [value for value, _, _ in steps] == list(range(1, 201))
    fences = [fence for _, fence, _ in steps]
    assert fences == sorted(set(fences))
    changes = sum(before[2] != after[2] for before, after in pairwise(steps))
    sys.stdout.write(f"the lock changed hands {changes} times\n")
    assert changes > 3


@pytest.mark.spec("L-09")
async def test_j_a_process_that_ends_leaves_its_locks_in_good_order(tmp_path: Path) -> None:
    events: list[Event] = []
    async with child("leave", tmp_path, 20) as leaver:
        assert await said(leaver) == "True", "signal handlers belong to the application"
        assert await leaver.wait() == 7
    locks = WriteLocks(tmp_path, SystemClock(), events.append)
    for number in range(20):
        note = read_note(locks.path(str(number)))
        assert note is not None
        assert not note.held
        assert (await locks.acquire(str(number), timeout=0)).acquired
    await locks.close()
    assert not any(isinstance(event, LockTakenOver) for event in events)


async def test_a_forked_child_holds_nothing(tmp_path: Path) -> None:
    """Not by its handle, not by a file; its release does not free the parent's lock, and it may outlive the parent."""
    locks = WriteLocks(tmp_path, SystemClock(), lambda _: None)
    async with child("fork", tmp_path, "s") as parent:
        assert await said(parent) == "superseded, 0 files"
        assert not (await locks.acquire("s", timeout=0.3)).acquired
        began = time.monotonic()
        os.kill(parent.pid, signal.SIGKILL)
        handle = await locks.acquire("s", timeout=30)
        took = time.monotonic() - began
        tell(parent)
    assert handle.acquired
    assert took < 20, "its child still lives, and would have kept it"
    await locks.close()
