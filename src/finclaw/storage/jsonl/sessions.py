"""Open sessions of the file store: locked, settled before use, read and written off the event loop."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.event import Emit, SessionRepaired
from finclaw.kernel.message import TurnEvent
from finclaw.kernel.port import Clock
from finclaw.storage.files import FileChanged, Files
from finclaw.storage.jsonl.base import MessageLine
from finclaw.storage.jsonl.directory import (
    Identity,
    erase_directory,
    list_directories,
    read_identity,
    remove_tree,
    session_directory,
)
from finclaw.storage.jsonl.transcript import ConversationState, SessionFiles
from finclaw.storage.locks import LockHandle, WriteLocks
from finclaw.storage.sqlite.codec import PublicIds, write
from finclaw.storage.sqlite.store import SqliteStore
from finclaw.storage.upkeep.erasure import Target

log = logging.getLogger(__name__)

T = TypeVar("T")

OPEN_SESSIONS: Final = 1_000
"""How many sessions' files are remembered, so that a turn need not look for their ends."""
THREADS: Final = 4
"""The disk takes the syncs of several sessions together; one session never has more than one."""
LOCK_SECONDS: Final = 30.0
UNCOUNTED: Final = -1
"""The number of messages of a session that must be counted in its files."""


class LockedSession:
    def __init__(self, files: SessionFiles, handle: LockHandle, sessions: "OpenSessions") -> None:
        self.files = files
        self.logs = files.logs
        self._handle = handle
        self._sessions = sessions

    async def do(self, work: Callable[[], T]) -> T:
        self._handle.check()
        try:
            return await self._sessions.run(work)
        except FileChanged:
            self.files.settled = False
            raise

    @asynccontextmanager
    async def logged(
        self, turn: str, seq: int, events: Sequence[TurnEvent], *, ending: bool = False
    ) -> AsyncGenerator[None]:
        """Put the events on disk before the commit inside; take them back if that fails."""
        await self.do(lambda: self.logs.append(turn, seq, events, ending=ending))
        try:
            yield
        except Exception:
            await self.do(lambda: self.logs.undo(turn, events))
            raise

    async def afterwards(self, work: Callable[[], Any]) -> None:
        """Do what follows a commit. An error must not look like a failed commit: the next look makes up for it."""
        try:
            await self.do(work)
        except Exception as error:
            self.files.settled = False
            log.warning("after a commit: %s; it is done when the session is next used", error, exc_info=True)


class OpenSessions:
    """The sessions of one state. `store` is the database, which decides what has happened."""

    def __init__(
        self, place: Path, store: SqliteStore, clock: Clock, emit: Emit, *, files: Files, threaded: bool
    ) -> None:
        self._place = place
        self._store = store
        self._files = files
        self._emit = emit
        self._locks = WriteLocks(place, clock, emit)
        self._pool = ThreadPoolExecutor(THREADS, "finclaw-files") if threaded else None
        self._known: OrderedDict[str, SessionFiles] = OrderedDict()

    def directory(self, session: str) -> Path:
        return session_directory(self._place, session)

    @asynccontextmanager
    async def hold(self, session: str) -> AsyncGenerator[LockedSession]:
        """Lock the session and give its files, settled."""
        async with self._locks.held(session, LOCK_SECONDS) as handle:
            files = self._known.get(session) or SessionFiles(self._files, self.directory(session))
            if not files.settled:
                await self._settle(session, files)
            self._remember(session, files)
            try:
                yield LockedSession(files, handle, self)
            finally:
                if files.findings:
                    texts = tuple(finding.text for finding in files.findings)
                    files.findings.clear()
                    self._emit(SessionRepaired(session=session, findings=texts))

    async def _settle(self, session: str, files: SessionFiles) -> None:
        state = await self._load(session, files)
        if state is None:
            raise SessionError(f"there is no session {session!r}")
        identity = Identity(session, self._store.ids.database, state.began)
        await self.run(lambda: files.settle(state, identity))
        if files.findings:
            await self._store.commit(lambda db: set_count(db, session, UNCOUNTED))

    async def _load(self, session: str, files: SessionFiles) -> ConversationState | None:
        """Read the logs, and how far the session and their turns have come in the database."""
        turns = await self.run(files.load)
        return await self._store.read(lambda db: read_state(db, self._store.ids, session, turns))

    def _remember(self, session: str, files: SessionFiles) -> None:
        self._known[session] = files
        self._known.move_to_end(session)
        if len(self._known) > OPEN_SESSIONS:
            clean = (key for key, known in self._known.items() if not known.logs.dirty)
            self._known.pop(next(clean, session), None)

    async def look(self, session: str, turn: str) -> tuple[Sequence[MessageLine], Sequence[TurnEvent]]:
        """Return a session's lines and a turn's log without lock or repair, from a disk that takes no writes."""
        files = SessionFiles(self._files, self.directory(session))
        state = await self._load(session, files)
        lines = () if state is None else await self.run(lambda: files.lines_as_of(state))
        return lines, files.logs.events(turn)

    async def run(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def close(self) -> None:
        await self._locks.close()
        if self._pool is not None:
            self._pool.shutdown()

    async def present(self) -> Collection[Path]:
        return (await self._directories(missing=False)).keys()

    async def remove_missing(self, earlier: Collection[Path], before: datetime) -> None:
        """Remove directories of pruned sessions: those in `earlier`, and those last written before that time. A
        session may be missing for another reason, such as a restored database; its directory is left."""
        for path, identity in (await self._directories(missing=True)).items():
            written = await self.run(lambda: _last_written(path))  # noqa: B023  awaited at once
            if path in earlier or written < before.timestamp():
                try:
                    await self._remove(path, identity)
                except StoreFailed as error:
                    log.warning("%s; it is tried again with the next prune", error)

    async def _remove(self, path: Path, identity: Identity) -> None:
        async with self._locks.held(identity.key, LOCK_SECONDS):
            existing = await self._store.read(lambda db: start_times(db, [identity.key]))
            if existing.get(identity.key) == identity.began:
                return
            await self.run(lambda: remove_tree(path, self._files.remove))
            if not existing:
                self._forget(identity.key)

    async def erase(self, target: Target, commit: Callable[[Target], Awaitable[int]]) -> int:
        """Erase in the database first: after a crash `erase_missing` or the next look does the rest."""
        if target.person is not None:
            async with self.hold(target.key) as locked:
                messages = await commit(target)
                await locked.do(lambda: locked.files.erase(locked.files.version + 1))
                return messages
        async with self._locks.held(target.key, LOCK_SECONDS):
            messages = await commit(target)
            await self.run(lambda: erase_directory(self._files, self.directory(target.key)))
            self._forget(target.key)
            return messages

    async def erase_missing(self, is_wanted: Callable[[str], bool]) -> None:
        """Erase what an interrupted erasure has left: directories of sessions that the database does not have."""
        for path, identity in (await self._directories(missing=True)).items():
            if is_wanted(identity.key):
                async with self._locks.held(identity.key, LOCK_SECONDS):
                    await self.run(lambda: erase_directory(self._files, path))  # noqa: B023  awaited at once

    def _forget(self, session: str) -> None:
        """Forget a session whose files are gone. A task that waits for its lock notices that the lock file is new."""
        self._known.pop(session, None)
        self._locks.path(session).unlink(missing_ok=True)

    async def _directories(self, *, missing: bool) -> dict[Path, Identity]:
        """Return this database's directories whose sessions exist, or are missing."""

        def read_identities() -> dict[Path, Identity]:
            found = {path: read_identity(self._files, path) for path in list_directories(self._place)}
            return {path: one for path, one in found.items() if one and one.database == self._store.ids.database}

        found = await self.run(read_identities)
        keys = [identity.key for identity in found.values()]
        existing = await self._store.read(lambda db: start_times(db, keys))
        return {path: one for path, one in found.items() if (existing.get(one.key) != one.began) == missing}


def _last_written(path: Path) -> float:
    return max((file.stat().st_mtime for file in path.rglob("*") if file.is_file()), default=0.0)


def read_state(db: apsw.Connection, ids: PublicIds, key: str, turns: Sequence[str]) -> ConversationState | None:
    """Return how far a session has come, and which of these turns it has; None if there is no such session."""
    found = db.execute("SELECT id, version, cleared, created_at FROM session WHERE key = ?", (key,)).fetchone()
    if found is None:
        return None
    session, version, cleared, began = map(int, found)
    sql = "SELECT ended_at, last_event FROM turn WHERE id = ? AND session = ?"
    rows = {turn: db.execute(sql, (ids.row(turn), session)).fetchone() for turn in turns}
    return ConversationState(
        version=version,
        cleared=cleared,
        began=began,
        live=frozenset(turn for turn, row in rows.items() if row is not None and row[0] is None),
        ended={turn: int(row[1]) for turn, row in rows.items() if row is not None and row[1] is not None},
    )


def start_times(db: apsw.Connection, keys: Sequence[str]) -> dict[str, int]:
    sql = "SELECT key, created_at FROM session WHERE key IN (SELECT value FROM json_each(?))"
    rows = db.execute(sql, (write(keys),))
    return {str(key): int(at) for key, at in rows}


def set_count(db: apsw.Connection, key: str, messages: int) -> None:
    db.execute("UPDATE session SET messages = ? WHERE key = ?", (messages, key))
