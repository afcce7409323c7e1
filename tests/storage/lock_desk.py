"""A directory of write locks and what their tests do around it."""

import asyncio
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from finclaw.errors import StoreFailed
from finclaw.kernel.event import Event
from finclaw.storage.locks import LockNote, WriteLocks, read_note
from finclaw.testing import FakeClock


class Desk:
    """A directory of locks, and as many owners as a test wants: to the kernel each is as good as a process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = FakeClock()
        self.events: list[Event] = []

    def owner(self, name: str = "") -> WriteLocks:
        return WriteLocks(self.directory, self.clock, self.events.append, owner=name)

    def path(self, session: str) -> Path:
        return self.owner().path(session)

    def note(self, session: str) -> LockNote:
        note = read_note(self.path(session))
        assert note is not None
        return note

    @property
    def open_files(self) -> list[int]:
        """The descriptors of this process that lead to a lock file."""
        there = [path.stat() for path in self.directory.glob("*")]
        locks = {(each.st_dev, each.st_ino) for each in there}
        return [number for number in map(int, os.listdir("/dev/fd")) if identity(number) in locks]

    def leave_note(self, session: str, **changes: Any) -> None:
        """What a holder that died would have left, but for these changes."""
        now = self.clock.now()
        note = LockNote(owner="gone", pid=1, host="elsewhere", session=session, since=now, fence=7, held=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.path(session).write_bytes(msgspec.json.encode(msgspec.structs.replace(note, **changes)))


def identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:  # it was the one that listed the others
        return None
    return found.st_dev, found.st_ino


@contextmanager
def limit(what: int, soft: int) -> Generator[None]:
    before, hard = resource.getrlimit(what)
    resource.setrlimit(what, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (before, hard))


async def settled(tasks: int = 20) -> None:
    """Every task that can go on has gone on."""
    for _ in range(tasks):
        await asyncio.sleep(0)


def refused(desk: Desk, session: str) -> None:
    async def main() -> None:
        with pytest.raises(StoreFailed, match="cannot use the lock file"):
            await desk.owner().acquire(session)
        assert not desk.open_files

    desk.clock.run(main())
