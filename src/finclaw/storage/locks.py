"""File locks (flock): one gateway per state directory, and in the file store one writer per session.

A lock belongs to the kernel and dies with its holder, so a dead holder blocks nobody and a live one is never robbed.
The text of a lock file is a note for readers and never a claim.
"""

import asyncio
import atexit
import errno
import fcntl
import logging
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Meta, Struct

from finclaw.errors import ConfigError, StateBusy, StoreFailed, Superseded
from finclaw.kernel.event import Emit, LockAcquired, LockReleased, LockTakenOver
from finclaw.kernel.port import Clock
from finclaw.private_files import close_to_others, make_private_directory

log = logging.getLogger(__name__)


class StateLock:
    """The lock of a state directory, held from construction until `release`."""

    def __init__(self, state: Path) -> None:
        path = state / "lock"
        try:
            make_private_directory(state)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            advice = "make it a writable directory or choose another with --state"
            raise ConfigError(f"cannot use the state directory {str(state)!r}: {error.strerror}; {advice}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 64, 0).decode(errors="replace").strip()
            os.close(self._file)
            who = f" (process {holder})" if holder.isdigit() else ""
            advice = "stop it, or use another state directory"
            raise StateBusy(f"another gateway or chat{who} already uses {str(state)!r}; {advice}") from None
        try:
            close_to_others(state)
        except ConfigError:
            self.release()
            raise
        with suppress(OSError):  # a full disk must not cost us the lock, which is held already
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "StateLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 0.1
LONGEST_NOTE: Final = 4096


class LockNote(Struct, frozen=True, kw_only=True):
    """The text of a lock file. `held` without a holder means that the owner died before it could release the lock."""

    owner: str
    pid: int
    host: str
    session: str
    since: Annotated[datetime, Meta(tz=True)]
    fence: Annotated[int, Meta(ge=0, lt=2**62)]
    held: bool

    def __str__(self) -> str:
        return f"{self.owner!r} (process {self.pid} on {self.host!r} since {self.since:%Y-%m-%d %H:%M:%S} UTC)"


def hash_key(session: str) -> str:
    return blake2b(session.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def read_note(path: Path) -> LockNote | None:
    """Return the note in a lock file, or None if there is no such file or no note in it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _note_in(descriptor)
    finally:
        os.close(descriptor)


def _note_in(descriptor: int) -> LockNote | None:
    try:
        # The rest of an earlier, longer note may follow: only the first line counts.
        line, _, _ = os.pread(descriptor, LONGEST_NOTE, 0).partition(b"\n")
        return msgspec.json.decode(line, type=LockNote)
    except (OSError, ValueError, RecursionError):  # empty, cut off, hostile: a file may hold anything
        return None


class WriteLocks:
    """All write locks of one store in this process, across its tasks. The store closes it.

    A task waits in its own process first, in order; only the first in line asks the kernel. A file is open only while
    its lock is held. It stays when the lock is free: unlinking a lock file that others have open would make two locks
    of one. Process exit releases the locks; a forked child closes its copies and holds nothing.
    """

    def __init__(self, directory: Path, clock: Clock, emit: Emit, *, owner: str = "") -> None:
        self.owner = owner or token_hex(8)
        self._directory = directory
        self._clock = clock
        self._emit = emit
        self._held: dict[str, _HeldLock] = {}
        # A queue lives as long as a task waits in it: an idle session costs nothing.
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._fence = 0
        self._closed = False

    def path(self, session: str) -> Path:
        return self._directory / f"{hash_key(session)}.lock"

    @asynccontextmanager
    async def held(self, session: str, timeout: float = 5.0) -> AsyncGenerator["LockHandle"]:  # noqa: ASYNC109
        """Hold the lock. Raises StoreFailed when it cannot be had in time."""
        handle = await self.acquire(session, timeout)
        if not handle.acquired:
            note = read_note(handle.lock_path)
            who = f"; the last to take it was {note}" if note is not None and note.held else ""
            raise StoreFailed(f"session {session!r} is being written by somebody else{who}; try again in a moment")
        try:
            yield handle
        finally:
            handle.release()

    async def acquire(
        self,
        session: str,
        timeout: float = 5.0,  # noqa: ASYNC109  not getting it is an answer here, not an error
        max_hold: float | None = None,
        *,
        reentrant: bool = True,
    ) -> "LockHandle":
        """Wait up to `timeout` seconds; 0 tries once. The handle tells whether the lock was acquired.

        The task that holds the lock gets it again at once, or is refused at once unless `reentrant`. A task that it
        started is another task. Raises StoreFailed when the lock file cannot be used.
        """
        lock = self._held.get(session)
        if lock is None or lock.task is not asyncio.current_task():
            lock = await self._wait(session, timeout)
        elif not reentrant:
            lock = None
        return LockHandle(self, self.path(session), lock, max_hold)

    async def _wait(self, session: str, seconds: float) -> "_HeldLock | None":
        queue = self._queues.setdefault(session, asyncio.Lock())
        try:
            async with asyncio.timeout(seconds):
                await queue.acquire()
                try:
                    descriptor = await self._lock_file(self.path(session))
                except BaseException:
                    queue.release()
                    raise
        except TimeoutError:
            return None
        return self._begin(session, queue, descriptor)

    async def _lock_file(self, path: Path) -> int:
        """Ask the kernel repeatedly: a thread that blocks in flock could not be cancelled."""
        pause = FIRST_PAUSE
        while not self._closed:
            descriptor = _try_lock(path)
            if descriptor is not None:
                return descriptor
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        raise StoreFailed("the store is closed")

    def _begin(self, session: str, queue: asyncio.Lock, descriptor: int) -> "_HeldLock":
        former = _note_in(descriptor)
        now = self._clock.now()
        # Time is the floor of the fence, for a note can be lost or unwritable.
        before = 0 if former is None else former.fence
        self._fence = max(self._fence + 1, int(now.timestamp() * 1_000_000), before + 1)
        note = LockNote(
            owner=self.owner,
            pid=os.getpid(),
            host=socket.gethostname(),
            session=session[:200].encode(errors="replace").decode(),
            since=now,
            fence=self._fence,
            held=True,
        )
        lock = _HeldLock(session, self.path(session), descriptor, queue, note)
        self._held[session] = lock
        lock.write_note(note)
        try:
            if former is not None and former.held:
                self._emit(LockTakenOver(session=session, owner=self.owner, former=former.owner))
            self._emit(LockAcquired(session=session, owner=self.owner, fence=note.fence))
        except BaseException:
            self.free(lock)
            raise
        return lock

    def free(self, lock: "_HeldLock") -> None:
        lock.handles.clear()
        del self._held[lock.session]
        was_ours = lock.is_open
        lock.unlock()
        lock.queue.release()
        if was_ours:
            self._emit(LockReleased(session=lock.session, owner=self.owner))

    async def close(self) -> None:
        """Free all locks. Tasks that still wait get StoreFailed."""
        self._closed = True
        for lock in tuple(self._held.values()):
            self.free(lock)


class LockHandle:
    """The answer to asking for a lock. A task may have several for one session; only the last release frees it."""

    def __init__(self, locks: WriteLocks, lock_path: Path, lock: "_HeldLock | None", max_hold: float | None) -> None:
        self.lock_path = lock_path
        self.acquired = lock is not None
        self.fence = 0 if lock is None else lock.note.fence
        self._locks = locks
        self._lock = lock
        self._timer: asyncio.TimerHandle | None = None
        self._is_late = False
        if lock is not None:
            lock.handles.add(self)
            if max_hold is not None:
                self._timer = asyncio.get_running_loop().call_later(max_hold, self._warn, lock.session)

    @property
    def held(self) -> bool:
        return self._lock is not None and self in self._lock.handles and self._lock.is_open

    @property
    def overdue(self) -> bool:
        """Whether it is held for longer than `max_hold`. Only the holder knows what is half done, so it keeps it."""
        return self._is_late and self.held

    def _warn(self, session: str) -> None:
        self._is_late = True
        if self.held:
            log.warning("the lock of session %r is held for longer than it should be", session)

    def check(self) -> None:
        """Raises Superseded when this handle does not hold the lock any more: the protected work must not go on."""
        if self._lock is None or not self.held or not self._lock.is_in_place:
            raise Superseded("this writer does not hold the session's lock any more; read the session again")

    def release(self) -> None:
        """Does nothing the second time, and nothing if the lock was not acquired."""
        if self._lock is None or self not in self._lock.handles:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._lock.handles.discard(self)
        if not self._lock.handles:
            self._locks.free(self._lock)


class _HeldLock:
    def __init__(self, session: str, path: Path, descriptor: int, queue: asyncio.Lock, note: LockNote) -> None:
        self.session = session
        self.task = asyncio.current_task()
        self.queue = queue
        self.note = note
        self.handles: set[LockHandle] = set()
        self._path = path
        self._descriptor = descriptor
        _open_locks.add(self)

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    @property
    def is_in_place(self) -> bool:
        """Whether the file is still held, and still the one that others see: it may have been deleted."""
        try:
            return self.is_open and _is_at(self._path, self._descriptor)
        except OSError:
            return False

    def write_note(self, note: LockNote) -> None:
        """Write in place and at once, so that no kill can fall between the old note and the new."""
        line = msgspec.json.encode(note) + b"\n"
        written = 0
        try:
            try:
                written = os.pwrite(self._descriptor, line, 0)
            finally:
                # Cut off the rest of an older note; no note is better than half of one.
                os.ftruncate(self._descriptor, written if written == len(line) else 0)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:  # a full disk must not cost us the lock, which is held already
            log.warning("cannot write into the lock file %s: %s; the lock holds all the same", self._path, error)

    def unlock(self) -> None:
        if self.is_open:
            _open_locks.discard(self)
            self.write_note(msgspec.structs.replace(self.note, held=False))
            with suppress(OSError):
                # Closing alone would not do: a child that another library forked may have the same open file.
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.disown()

    def disown(self) -> None:
        """Close this process's copy of the file and nothing more."""
        descriptor = self._descriptor
        self._descriptor = -1
        with suppress(OSError):  # the descriptor is gone whatever close says
            os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    """Return the locked file, or None while another process holds it. Raises StoreFailed for an unusable file."""
    try:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        advice = "it must be an ordinary file of this user's, in a writable directory"
        raise StoreFailed(f"cannot use the lock file {str(path)!r}: {error.strerror}; {advice}") from error
    os.close(descriptor)
    return None


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private_directory(path.parent)
        return os.open(path, flags, 0o600)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the path leads to this file: a lock on a deleted file excludes nobody."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


_open_locks: set[_HeldLock] = set()
"""The locks of this process, released at its exit and given up in a forked child."""


@atexit.register
def _release_all() -> None:
    for lock in tuple(_open_locks):
        lock.unlock()


def _disown_all() -> None:
    """In a forked child the locks are the parent's: unlocking would free them under it, closing does not."""
    for lock in _open_locks:
        lock.disown()
    _open_locks.clear()


os.register_at_fork(after_in_child=_disown_all)
