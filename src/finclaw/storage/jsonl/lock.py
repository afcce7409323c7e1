"""Write locks of the file store: one writer per session, across tasks and processes.

A task waits in its own process first, in order; only the first in line asks the kernel. So a dead holder blocks
nobody, a live one is never robbed, and a file is open only while its lock is held.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Final
from weakref import WeakValueDictionary

from finclaw.errors import StoreFailed, Superseded
from finclaw.kernel.event import Emit, LockAcquired, LockReleased, LockTakenOver
from finclaw.kernel.port import Clock
from finclaw.storage.jsonl.lock_file import LockFile, LockNote, read_note

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 0.1
BEAT_SECONDS: Final = 2.0


class LockHandle:
    """What asking for a lock gave. A task may have several for one session; only the last release frees it."""

    __slots__ = ("_began", "_hold", "_max_hold", "acquired", "fence", "lock_path", "warned")

    def __init__(self, lock_path: Path, hold: "_Hold | None" = None, max_hold: float | None = None) -> None:
        self.lock_path = lock_path
        self.acquired = hold is not None
        self.fence = 0 if hold is None else hold.fence
        self.warned = False
        self._hold = hold
        self._max_hold = max_hold
        self._began = 0.0 if hold is None else hold.clock.monotonic()

    @property
    def held(self) -> bool:
        return self._hold is not None and self in self._hold.handles and self._hold.file.is_open

    @property
    def overdue(self) -> bool:
        """Held for longer than `max_hold`: it is logged, and left to the holder, who alone knows what is half done."""
        if self._hold is None or self._max_hold is None or not self.held:
            return False
        return self._hold.clock.monotonic() - self._began > self._max_hold

    def check(self) -> None:
        """Raises Superseded when this handle holds nothing (any more): whatever it was to protect must not go on."""
        if self._hold is None or not self.held or not self._hold.file.stands:
            raise Superseded("this writer does not hold the session's lock any more; read the session again")

    def release(self) -> None:
        """Does nothing the second time, and nothing if the lock was not got."""
        if self._hold is not None and self in self._hold.handles:
            self._hold.leave(self)


class _Hold:
    """One session's lock in this process's hands."""

    __slots__ = ("_free", "clock", "fence", "file", "handles", "queue", "session", "task")

    def __init__(
        self,
        session: str,
        file: LockFile,
        fence: int,
        queue: asyncio.Lock,
        clock: Clock,
        free: "Callable[[_Hold], None]",
    ) -> None:
        self.session = session
        self.task = asyncio.current_task()
        self.file = file
        self.fence = fence
        self.queue = queue
        self.clock = clock
        self.handles: set[LockHandle] = set()
        self._free = free

    def enter(self, max_hold: float | None) -> LockHandle:
        handle = LockHandle(self.file.path, self, max_hold)
        self.handles.add(handle)
        return handle

    def leave(self, handle: LockHandle) -> None:
        self.handles.discard(handle)
        if not self.handles:
            self._free(self)

    def beat(self) -> None:
        self.file.beat(self.clock.now())
        for handle in self.handles:
            if handle.overdue and not handle.warned:
                handle.warned = True
                log.warning("the lock of session %r is held for longer than it should be", self.session)


class WriteLocks:
    """All write locks of one store in this process; a forked child makes its own. The store closes it."""

    def __init__(self, directory: Path, clock: Clock, emit: Emit, *, owner: str = "") -> None:
        self.owner = owner or token_hex(8)
        self._directory = directory
        self._clock = clock
        self._emit = emit
        self._holds: dict[str, _Hold] = {}
        # A queue lives as long as somebody stands in it: an idle session costs nothing.
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._heart: asyncio.Task[None] | None = None
        self._fence = 0
        self._closed = False

    def path(self, session: str) -> Path:
        """A session key is anybody's text and no file name. A lone surrogate in it is no reason to fail."""
        return self._directory / f"{blake2b(session.encode(errors='surrogatepass'), digest_size=16).hexdigest()}.lock"

    @asynccontextmanager
    async def held(
        self,
        session: str,
        timeout: float = 5.0,  # noqa: ASYNC109  as in `acquire`
        max_hold: float | None = None,
    ) -> AsyncGenerator[int]:
        """Hold the lock, with its fence. Raises StoreFailed when it cannot be had in time."""
        handle = await self.acquire(session, timeout, max_hold)
        if not handle.acquired:
            note = read_note(handle.lock_path)
            who = f"; the last to take it was {note}" if note is not None and note.held else ""
            raise StoreFailed(f"session {session!r} is being written by somebody else{who}; try again in a moment")
        try:
            yield handle.fence
        finally:
            handle.release()

    async def acquire(
        self,
        session: str,
        timeout: float = 5.0,  # noqa: ASYNC109  not getting it is an answer here, not an error
        max_hold: float | None = None,
        *,
        reentrant: bool = True,
    ) -> LockHandle:
        """Wait up to `timeout` seconds; 0 tries once. The handle tells whether it was got.

        The task that holds the lock gets it again at once, or is refused at once unless `reentrant`. A task that it
        started is another task. Raises StoreFailed when the lock file cannot be used.
        """
        hold = self._holds.get(session)
        if hold is None or hold.task is not asyncio.current_task():
            hold = await self._wait(session, timeout)
        elif not reentrant:
            hold = None
        return LockHandle(self.path(session)) if hold is None else hold.enter(max_hold)

    async def _wait(self, session: str, seconds: float) -> _Hold | None:
        queue = self._queues.setdefault(session, asyncio.Lock())
        try:
            async with asyncio.timeout(seconds):
                await queue.acquire()
                try:
                    file = await self._acquire_file(session)
                except BaseException:
                    queue.release()
                    raise
        except TimeoutError:
            return None
        return self._begin(session, queue, file)

    async def _acquire_file(self, session: str) -> LockFile:
        """The kernel is asked again and again, for a thread that blocks in flock could not be cancelled."""
        path = self.path(session)
        pause = FIRST_PAUSE
        while not self._closed:
            file = LockFile.try_lock(path)
            if file is not None:
                return file
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        raise StoreFailed("the store is closed")

    def _begin(self, session: str, queue: asyncio.Lock, file: LockFile) -> _Hold:
        former = file.note()
        hold = _Hold(session, file, self._next_fence(former), queue, self._clock, self._free)
        self._holds[session] = hold
        try:
            file.sign(self._note(hold))
            self._keep_beating()
            if former is not None and former.held:
                self._emit(LockTakenOver(session=session, owner=self.owner, former=former.owner))
            self._emit(LockAcquired(session=session, owner=self.owner, fence=hold.fence))
        except BaseException:
            self._free(hold)
            raise
        return hold

    def _note(self, hold: _Hold) -> LockNote:
        now = self._clock.now()
        return LockNote(
            owner=self.owner,
            pid=os.getpid(),
            host=socket.gethostname(),
            session=hold.session[:200].encode(errors="replace").decode(),
            since=now,
            beat=now,
            fence=hold.fence,
            held=True,
        )

    def _next_fence(self, former: LockNote | None) -> int:
        """Above every fence given before. The time is its floor, for a note can be lost, or a disk too full for it."""
        floor = int(self._clock.now().timestamp() * 1_000_000)
        self._fence = max(self._fence + 1, floor, 0 if former is None else former.fence + 1)
        return self._fence

    def _free(self, hold: _Hold) -> None:
        hold.handles.clear()
        del self._holds[hold.session]
        was_ours = hold.file.release()
        hold.queue.release()
        if was_ours:
            self._emit(LockReleased(session=hold.session, owner=self.owner))

    def _keep_beating(self) -> None:
        if self._heart is None or self._heart.done():
            self._heart = asyncio.create_task(self._beat(), name="write locks", context=Context())

    async def _beat(self) -> None:
        """One task for all locks: it lives while there are any."""
        while self._holds:
            await self._clock.sleep(BEAT_SECONDS)
            for hold in tuple(self._holds.values()):
                hold.beat()
                await self._clock.sleep(0)  # ten thousand of them must not hold up everybody else

    async def close(self) -> None:
        """Free everything. Whoever still waits is told that the store is closed."""
        self._closed = True
        for hold in tuple(self._holds.values()):
            self._free(hold)
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.wait([self._heart])
