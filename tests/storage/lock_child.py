"""Another process that wants a session's lock: it says what it has on stdout and goes on when stdin says so."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from finclaw.clock import SystemClock
from finclaw.errors import Superseded
from finclaw.kernel.event import Event
from finclaw.storage.locks import LockHandle, WriteLocks

PATIENCE = 60.0


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def ignore(_event: Event) -> None:
    pass


async def told() -> None:
    await asyncio.to_thread(sys.stdin.readline)


def read(path: Path) -> str:
    return path.read_text()


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def hold(locks: WriteLocks, session: str) -> None:
    """Hold until told, then give it back in good order."""
    handle = await locks.acquire(session, PATIENCE)
    say(handle.fence)
    await told()
    handle.release()
    say("released")


async def count(locks: WriteLocks, session: str, counter: Path, times: int) -> None:
    """Read, modify, write: without exclusion between processes, some of it is lost."""
    say("ready")
    await told()
    for _ in range(times):
        async with locks.held(session, PATIENCE) as handle:
            value = int(read(counter)) + 1
            await asyncio.sleep(0.001)
            write(counter, str(value))
        say(f"{value} {handle.fence}")
        await asyncio.sleep(0.01)  # so that the others get their turn and the lock changes hands


async def leave(locks: WriteLocks, sessions: int) -> None:
    """End the process with all of them held, and nothing said."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for number in range(sessions):
        assert (await locks.acquire(str(number), 0)).acquired
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    say(before == after)
    sys.exit(7)


async def fork(locks: WriteLocks, session: str) -> None:
    """Hold, and have a child that outlives us."""
    handle = await locks.acquire(session, PATIENCE)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, inherited(handle).encode())
        handle.release()
        sys.stdin.readline()
        os._exit(0)
    handle.check()
    say(os.read(reading, 100).decode())
    await asyncio.sleep(PATIENCE)


def inherited(handle: LockHandle) -> str:
    """What the child finds that it has."""
    files = sum(leads_to(handle.lock_path, int(number)) for number in os.listdir("/dev/fd"))
    try:
        handle.check()
    except Superseded:
        return f"superseded, {files} files"
    return f"holds, {files} files"


def leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:  # it was the one that listed the others
        return False


def main() -> None:
    what, directory, *rest = sys.argv[1:]
    locks = WriteLocks(Path(directory), SystemClock(), ignore, owner=f"child {os.getpid()}")
    if what == "hold":
        asyncio.run(hold(locks, rest[0]))
    elif what == "count":
        asyncio.run(count(locks, rest[0], Path(rest[1]), int(rest[2])))
    elif what == "leave":
        asyncio.run(leave(locks, int(rest[0])))
    elif what == "fork":
        asyncio.run(fork(locks, rest[0]))


if __name__ == "__main__":
    main()
