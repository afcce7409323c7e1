"""Group commit: callers hand in pieces of work, and all that wait share one commit.

One that fails takes nobody with it: the group is then done again with a SAVEPOINT around each piece. A failed COMMIT
fails them all, and none happened. Reads are no part of it: they follow the commit of their group in a read transaction,
so that they see what was written before them and a disk that refuses the write does not refuse them.
"""

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

import apsw

from finclaw.errors import SessionError, StoreCorrupt, StoreFailed, Superseded
from finclaw.storage.sqlite import costs
from finclaw.storage.sqlite.codec import PublicIds
from finclaw.storage.sqlite.database import begin_boot, boot_epoch, close_quietly, explain, mark_closed

log = logging.getLogger(__name__)

T = TypeVar("T")

Mode = Literal["write", "read", "alone"]
"""`alone` runs outside of any transaction, as VACUUM must."""

GROUP_LIMIT: Final = 256
LAZY_SECONDS: Final = 0.02
"""How long a receipt waits for somebody else's commit before it gets one of its own."""


@dataclass(slots=True, eq=False)
class WriterTask(Generic[T]):
    """One all-or-nothing piece of work. `then` runs on the loop after the commit, also if its caller is gone. A
    `repeatable` one changes nothing but the database, so it may be undone and done again."""

    run: Callable[[apsw.Connection], T]
    future: "asyncio.Future[T]"
    then: Callable[[T], None] | None = None
    repeatable: bool = False
    mode: Mode = "write"

    def settle(self, answer: T | BaseException) -> None:
        if isinstance(answer, BaseException):
            if not self.future.done():
                self.future.set_exception(answer)
            return
        if self.then is not None:
            try:
                self.then(answer)
            except Exception:  # the commit stands, and those behind in the group have no part in this
                log.exception("what was to follow a commit failed")
        if not self.future.done():
            self.future.set_result(answer)


class Ledger:
    """The connection and the epoch under which this process may write to it."""

    def __init__(self, db: apsw.Connection, path: Path, boot: int) -> None:
        self._db = db
        self._path = path
        self._boot = boot
        self._file = _identity(path)
        self.written = 0
        """Commits that have changed rows; others do not touch the disk."""
        self._left_as: int | None = None
        """The version of the database after our last commit; another one means that somebody else has written."""

    def work(self, group: Sequence[WriterTask[Any]]) -> list[Any]:
        """Commit the writes of a group, then read; gives each work's answer, or the error that kept it out."""
        writes = [work for work in group if work.mode == "write"]
        if len(writes) == len(group):
            return self._commit(group)
        answers = dict(zip(writes, self._commit(writes), strict=True)) if writes else {}
        reads = [work for work in group if work.mode == "read"]
        answers |= zip(reads, self._read(reads), strict=True)
        answers |= {work: self._alone(work) for work in group if work.mode == "alone"}
        return [answers[work] for work in group]

    def _read(self, group: Sequence[WriterTask[Any]]) -> list[Any]:
        """Each fails alone. A read transaction writes nothing, neither to the database nor to its journal."""
        try:
            return [self._read_one(work) for work in group]
        finally:
            self._undo()

    def _read_one(self, work: WriterTask[Any]) -> Any:
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
                self._must_be_ours()
            return work.run(self._db)
        except Exception as error:  # noqa: BLE001  it belongs to whoever asked, and travels to them
            self._undo()
            return self._explain_error(error)

    def _alone(self, work: WriterTask[Any]) -> Any:
        try:
            self._must_be_ours()
            answer = work.run(self._db)
        except Exception as error:  # noqa: BLE001  it belongs to whoever asked, and travels to them
            self._undo()
            return self._explain_error(error)
        self._left_as = self._db.data_version()
        return answer

    def _commit(self, group: Sequence[WriterTask[Any]]) -> list[Any]:
        # Alone there is nobody to be protected from, and the transaction itself is the savepoint.
        changes = self._db.total_changes()
        trusting = len(group) == 1 or all(work.repeatable for work in group)
        try:
            answers = self._run_group(group) if trusting else self._run_with_savepoints(group)
            self._db.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  it belongs to those who wait for this group, and travels to them
            self._undo()
            return [self._explain_error(error)] * len(group)
        self._left_as = self._db.data_version()
        self.written += self._db.total_changes() != changes
        return answers

    def _begin(self) -> None:
        if _identity(self._path) != self._file:  # SQLite would go on writing to a file that has no name any more
            raise StoreFailed(
                f"{str(self._path)!r} was removed or replaced while the gateway runs; "
                "put it back, or stop the gateway and restore a backup"
            )
        self._db.execute("BEGIN IMMEDIATE")
        self._must_be_ours()

    def _must_be_ours(self) -> None:
        if self._db.data_version() != self._left_as and boot_epoch(self._db) != self._boot:
            raise Superseded("another gateway has taken over this state directory; this one must stop")

    def _run_group(self, group: Sequence[WriterTask[Any]]) -> list[Any]:
        """Without savepoints, which are a quarter of all statements; pieces seldom fail."""
        self._begin()
        try:
            return [work.run(self._db) for work in group]
        except Exception:
            if len(group) == 1:
                raise
            self._undo()
            return self._run_with_savepoints(group)

    def _run_with_savepoints(self, group: Sequence[WriterTask[Any]]) -> list[Any]:
        self._begin()
        return [self._run_in_savepoint(work) for work in group]

    def _run_in_savepoint(self, work: WriterTask[Any]) -> Any:
        self._db.execute("SAVEPOINT piece")
        try:
            answer = work.run(self._db)
        except Exception as error:  # it belongs to whoever asked for this piece, and travels to them
            if not self._db.in_transaction:  # SQLite gave the whole transaction up (full disk, failed read)
                raise
            self._db.execute("ROLLBACK TO piece")
            answer = self._explain_error(error)
        self._db.execute("RELEASE piece")
        return answer

    def _explain_error(self, error: Exception) -> Exception:
        return explain(error, self._path) if isinstance(error, apsw.Error | OSError) else error

    def _undo(self) -> None:
        if self._db.in_transaction:
            with suppress(apsw.Error):  # it is rolled back all the same; the first error is the one to tell
                self._db.execute("ROLLBACK")

    def close(self) -> None:
        mark_closed(self._db, self._boot)
        self._db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


FRESH_SECONDS: Final = 1.0
"""For so long the last commit or probe counts, so that a health check is cheap however often it comes."""
_PROBE: Final = bytes(64 * 1_024)


class WriteHealth:
    """Whether the store can write, by its last commit or, without a recent one, by a probe. Lives on the event loop."""

    def __init__(self) -> None:
        self.failure: SessionError | None = None
        self.on_change: Callable[[SessionError | None], None] | None = None
        self._looked_at = float("-inf")
        self._written = 0

    def note(self, answers: Sequence[object], written: int) -> None:
        """Note what became of a group of writes, and how many groups have reached the disk by now."""
        failure = next((each for each in answers if isinstance(each, StoreFailed | StoreCorrupt)), None)
        if failure is not None or written != self._written:
            self.change(failure)
        self._written = written

    def change(self, failure: SessionError | None) -> None:
        self._looked_at = asyncio.get_running_loop().time()
        is_news = (failure is None) != (self.failure is None)
        self.failure = failure
        if is_news and self.on_change is not None:
            self.on_change(failure)

    def begin_look(self) -> bool:
        """Return whether to probe now. Whoever asks meanwhile gets the last known state."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < FRESH_SECONDS:
            return False
        self._looked_at = now
        return True


def write_probe(db: apsw.Connection) -> None:
    """Write to the file system and to the journal, in a commit that changes nothing. Raises OSError, apsw.Error."""
    from tempfile import TemporaryFile  # noqa: PLC0415  start-up: only a health check needs it

    with TemporaryFile(dir=Path(db.filename).parent) as file:
        file.write(_PROBE)
        file.flush()
        os.fsync(file.fileno())
    db.execute(f"PRAGMA user_version = {int(db.pragma('user_version'))}")  # rewrites a page, also with the same value


class Writer:
    def __init__(self, ledger: Ledger, loop: asyncio.AbstractEventLoop) -> None:
        self._ledger = ledger
        self._loop = loop
        self.health = WriteHealth()
        self._waiting: list[WriterTask[Any]] = []
        self._closed = False

    def submit(self, work: WriterTask[Any], *, lazy: bool = False) -> None:
        """Never raises, never waits. A lazy work rides with the next group."""
        if self._closed:
            work.settle(StoreFailed("the store is closed"))
            return
        self._schedule(lazy=lazy)
        self._waiting.append(work)

    def _schedule(self, *, lazy: bool) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class ThreadWriter(Writer):
    """Commits on a thread of its own: while one group is on its way to the disk, the next gathers.

    What one round of the loop asks for is handed over at its end, together: the thread is woken once, and finds the
    interpreter free because the loop then mostly waits.
    """

    def __init__(self, ledger: Ledger, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(ledger, loop)
        self._queue: queue.SimpleQueue[list[WriterTask[Any]]] = queue.SimpleQueue()
        self._is_urgent = False
        self._timer: asyncio.TimerHandle | None = None
        self._lazy_until = 0.0
        self._thread = threading.Thread(target=self._run, name="finclaw-store", daemon=True)
        self._thread.start()

    def _schedule(self, *, lazy: bool) -> None:
        if not lazy and not self._is_urgent:
            self._is_urgent = True
            self._loop.call_soon(self._hand_over)
        elif not self._waiting:
            self._lazy_until = self._loop.time() + LAZY_SECONDS
            if self._timer is None:
                self._timer = self._loop.call_at(self._lazy_until, self._hand_over_late)

    def _hand_over_late(self) -> None:
        """Hand over what nobody took along in time. One timer serves one receipt after the other: a timer for each
        would wake the loop for nothing, once a turn (`cpu_plain_alone`)."""
        self._timer = None
        if self._loop.time() >= self._lazy_until:
            self._hand_over()
        elif self._waiting:
            self._timer = self._loop.call_at(self._lazy_until, self._hand_over_late)

    def _hand_over(self) -> None:
        self._is_urgent = False
        if self._waiting:
            self._queue.put(self._waiting)
            self._waiting = []

    def _run(self) -> None:
        while group := self._next_group():
            answers = self._ledger.work(group)
            self._loop.call_soon_threadsafe(_settle, self.health, group, answers, self._ledger.written)
            del group, answers  # the next may be long in coming, and these hold whole turns
        self._ledger.close()

    def _next_group(self) -> list[WriterTask[Any]]:
        """Everything that was handed over meanwhile; nothing when it is over."""
        group = self._queue.get()
        while group and len(group) < GROUP_LIMIT and not self._queue.empty():
            more = self._queue.get()
            if not more:
                self._queue.put(more)  # the end, and nothing comes behind it
                break
            group += more
        return group

    async def close(self) -> None:
        self._hand_over()
        self._closed = True
        self._queue.put([])
        await self._loop.run_in_executor(None, self._thread.join)


class LoopWriter(Writer):
    """Commits on the event loop itself: slower, and the same every time, for tests on a virtual clock."""

    def _schedule(self, *, lazy: bool) -> None:
        if not self._waiting:
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        group = self._waiting
        self._waiting = []
        if group:  # closing may have taken it along
            answers = self._ledger.work(group)
            _settle(self.health, group, answers, self._ledger.written)

    async def close(self) -> None:
        self._closed = True
        self._run()
        self._ledger.close()


def _settle(health: WriteHealth, group: Sequence[WriterTask[Any]], answers: Sequence[Any], written: int) -> None:
    health.note([answer for work, answer in zip(group, answers, strict=True) if work.mode == "write"], written)
    for work, answer in zip(group, answers, strict=True):
        work.settle(answer)


def open_writer(db: apsw.Connection, path: Path, *, threaded: bool) -> tuple[Writer, PublicIds]:
    """Take the database over from every earlier process."""
    try:
        name, boot = begin_boot(db, costs.interrupt_all)
    except apsw.Error as error:
        close_quietly(db)
        raise explain(error, path) from error
    ledger = Ledger(db, path, boot)
    loop = asyncio.get_running_loop()
    return ThreadWriter(ledger, loop) if threaded else LoopWriter(ledger, loop), PublicIds(name)
