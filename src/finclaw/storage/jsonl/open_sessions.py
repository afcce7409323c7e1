"""Open sessions of the file store: one lock holder at a time, settled before use, off the event loop."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import apsw

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.event import Emit, SessionRepaired
from finclaw.kernel.message import TurnEvent
from finclaw.kernel.port import Clock
from finclaw.storage.jsonl import database_state
from finclaw.storage.jsonl.directories import Directories
from finclaw.storage.jsonl.files import FileChanged, Files
from finclaw.storage.jsonl.identity import Identity
from finclaw.storage.jsonl.lock import LockHandle, WriteLocks
from finclaw.storage.jsonl.null_transcript import UNCOUNTED, set_count
from finclaw.storage.jsonl.record import MessageLine
from finclaw.storage.jsonl.transcript import SessionFiles
from finclaw.storage.sqlite.codec import PublicIds

log = logging.getLogger(__name__)

T = TypeVar("T")

OPEN_SESSIONS: Final = 1_000
"""How many sessions' ends of files are remembered, so that a turn need not look for them."""
THREADS: Final = 4
"""The disk takes the syncs of several sessions together; of one session there is never more than one."""
LOCK_SECONDS: Final = 30.0


class Commit(Protocol):
    async def __call__(self, run: Callable[[apsw.Connection], T], /) -> T: ...


class Run(Protocol):
    async def __call__(self, work: Callable[[], T], /) -> T: ...


class LockedSession:
    """A session's files while its write lock is held."""

    def __init__(self, files: SessionFiles, handle: LockHandle, run: Run) -> None:
        self.files = files
        self.logs = files.logs
        self._handle = handle
        self._run = run

    async def do(self, work: Callable[[], T]) -> T:
        self._handle.check()
        try:
            return await self._run(work)
        except FileChanged:
            self.files.settled = False
            raise

    async def afterwards(self, work: Callable[[], Any]) -> None:
        """What follows a commit. It stands whatever happens here, and what is left undone is done at the next look."""
        try:
            await self.do(work)
        except Exception as error:  # the caller must not take a commit that stands for one that failed
            self.files.settled = False
            log.warning("after a commit: %s; it is done when the session is next used", error, exc_info=True)


class OpenSessions:
    def __init__(
        self,
        place: Path,
        clock: Clock,
        emit: Emit,
        ids: PublicIds,
        commit: Commit,
        read: Commit,
        *,
        files: Files,
        threaded: bool,
    ) -> None:
        self.directories = Directories(place)
        self.files = files
        self._emit = emit
        self._ids = ids
        self._commit = commit
        self._read = read
        self._locks = WriteLocks(place, clock, emit)
        self._pool = ThreadPoolExecutor(THREADS, "finclaw-files") if threaded else None
        self._known: OrderedDict[str, SessionFiles] = OrderedDict()

    @asynccontextmanager
    async def hold(self, session: str) -> AsyncGenerator[LockedSession]:
        """The session's files, settled, and nobody else at them."""
        async with self.lock(session) as handle:
            files = self._known.get(session) or SessionFiles(self.files, self.directories.of(session))
            if not files.settled:
                await self._settle(session, files)
            self._remember(session, files)
            try:
                yield LockedSession(files, handle, self.run)
            finally:
                self._tell(session, files)

    @asynccontextmanager
    async def lock(self, session: str) -> AsyncGenerator[LockHandle]:
        handle = await self._locks.acquire(session, LOCK_SECONDS)
        if not handle.acquired:
            raise StoreFailed(f"session {session!r} is being written by somebody else; try again in a moment")
        try:
            yield handle
        finally:
            handle.release()

    async def look(self, session: str, turn: str) -> tuple[Sequence[MessageLine], Sequence[TurnEvent]]:
        """A session's lines and a turn's log where nothing can be written: without the lock, and nothing is mended."""
        files = SessionFiles(self.files, self.directories.of(session))
        turns = await self.run(files.load)
        standing = await self._read(lambda db: database_state.read_state(db, self._ids, session, turns))
        lines = () if standing is None else await self.run(lambda: files.lines_as_of(standing))
        return lines, files.logs.events(turn)

    async def _settle(self, session: str, files: SessionFiles) -> None:
        turns = await self.run(files.load)
        standing = await self._read(lambda db: database_state.read_state(db, self._ids, session, turns))
        if standing is None:
            raise SessionError(f"there is no session {session!r}")
        identity = Identity(session, self._ids.database, standing.began)
        await self.run(lambda: files.settle(standing, identity))
        if files.findings:
            await self._commit(lambda db: set_count(db, session, UNCOUNTED))

    def _remember(self, session: str, files: SessionFiles) -> None:
        self._known[session] = files
        self._known.move_to_end(session)
        if len(self._known) > OPEN_SESSIONS:
            clean = (key for key, each in self._known.items() if not each.logs.dirty)
            self._known.pop(next(clean, session), None)

    def forget(self, session: str) -> None:
        """It is gone, and so are its files. Whoever waits for the lock sees that its file is another one then."""
        self._known.pop(session, None)
        self._locks.path(session).unlink(missing_ok=True)

    def _tell(self, session: str, files: SessionFiles) -> None:
        if files.findings:
            texts = tuple(finding.text for finding in files.findings)
            files.findings.clear()
            self._emit(SessionRepaired(session=session, findings=texts))

    async def run(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def close(self) -> None:
        await self._locks.close()
        if self._pool is not None:
            self._pool.shutdown()
