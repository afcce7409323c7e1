"""Removal of directories whose sessions are gone. Those of another database stay."""

import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from pathlib import Path

from finclaw.errors import StoreFailed
from finclaw.storage.jsonl import database_state
from finclaw.storage.jsonl.identity import Identity, erase, read_identity, remove
from finclaw.storage.jsonl.open_sessions import Commit, OpenSessions
from finclaw.storage.upkeep.erasure import Target

log = logging.getLogger(__name__)


class Removal:
    def __init__(self, sessions: OpenSessions, read: Commit, database: str) -> None:
        self._sessions = sessions
        self._read = read
        self._database = database

    async def present(self) -> dict[Path, Identity]:
        """Directories whose sessions are there."""
        return await self._directories(missing=False)

    async def remove(self, just_now: Collection[Path], before: datetime) -> None:
        """Those that were there just now, and those that an earlier walk has left and nobody wrote to since `before`.

        One that is missing for another reason, such as a database put back from a copy, is left for a person to see.
        """
        for path, identity in (await self._directories(missing=True)).items():
            written = await self._sessions.run(lambda: _last_written(path))  # noqa: B023  awaited at once
            if path in just_now or written < before.timestamp():
                try:
                    await self._remove(path, identity)
                except StoreFailed as error:
                    log.warning("%s; it is tried again with the next prune", error)

    async def erase(self, target: Target, commit: Callable[[Target], Awaitable[int]]) -> int:
        """The database first: what a crash leaves of the files `erase_left` finds, or the next look settles."""
        if target.person is None:
            async with self._sessions.lock(target.key):
                messages = await commit(target)
                directory = self._sessions.directories.of(target.key)
                await self._sessions.run(lambda: erase(self._sessions.files, directory))
                self._sessions.forget(target.key)
                return messages
        async with self._sessions.hold(target.key) as hands:
            messages = await commit(target)
            await hands.do(lambda: hands.files.erase(hands.files.version + 1))
            return messages

    async def erase_left(self, wanted: Callable[[str], bool]) -> None:
        """What an erasure that was cut off has left: directories of sessions that the database does not have."""
        for path, identity in (await self._directories(missing=True)).items():
            if wanted(identity.key):
                async with self._sessions.lock(identity.key):
                    await self._sessions.run(lambda: erase(self._sessions.files, path))  # noqa: B023  awaited at once

    async def _remove(self, path: Path, identity: Identity) -> None:
        async with self._sessions.lock(identity.key):
            there = await self._read(lambda db: database_state.start_times(db, [identity.key]))
            if there.get(identity.key) == identity.began:
                return
            await self._sessions.run(lambda: remove(self._sessions.files, path))
            if not there:
                self._sessions.forget(identity.key)

    async def _directories(self, *, missing: bool) -> dict[Path, Identity]:
        found = await self._sessions.run(self._look)
        keys = [identity.key for identity in found.values()]
        there = await self._read(lambda db: database_state.start_times(db, keys))
        return {path: each for path, each in found.items() if (there.get(each.key) != each.began) == missing}

    def _look(self) -> dict[Path, Identity]:
        found = {path: read_identity(self._sessions.files, path) for path in self._sessions.directories}
        return {path: each for path, each in found.items() if each and each.database == self._database}


def _last_written(path: Path) -> float:
    return max((each.stat().st_mtime for each in path.rglob("*") if each.is_file()), default=0.0)
