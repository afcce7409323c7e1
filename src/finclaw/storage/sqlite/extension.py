"""An extension's own SQLite file: opened with the first use, one thread for it, every piece of work all or nothing."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from finclaw.cancellation import wait_shielded
from finclaw.errors import ConfigError, ExtensionError, SessionError, StoreFailed
from finclaw.kernel.extension import EXTENSIONS as EXTENSIONS  # noqa: PLC0414  others look for it beside its files
from finclaw.kernel.extension import Transaction
from finclaw.private_files import make_private_directory
from finclaw.storage.sqlite.database import close_quietly, explain
from finclaw.storage.upkeep.erasure import scrub

T = TypeVar("T")

_FORBIDDEN: Final = (apsw.SQLITE_TRANSACTION, apsw.SQLITE_ATTACH)
_ITS_OWN_FAULT: Final = (
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.BindingsError,
    apsw.RangeError,
    apsw.TooBigError,
    apsw.AuthError,
    apsw.ExecutionCompleteError,
)
"""SQL that does not fit; anything else is the disk's."""


class ExtensionDatabase:
    """`threaded=False` works on the event loop itself, the same way every time."""

    def __init__(self, directory: Path, extension: str, migrations: Sequence[str], *, threaded: bool = True) -> None:
        self._path = directory / f"{extension}.db"
        self._extension = extension
        self._migrations = tuple(migrations)
        self._executor: ThreadPoolExecutor | None = None
        self._threaded = threaded
        self._db: apsw.Connection | None = None
        self._closed = False

    async def execute(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return await self.transaction(lambda rows: rows.execute(sql, values))

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        """A cancelled caller leaves only after the work has been decided: done whole, or undone."""
        if self._closed:
            raise StoreFailed(f"the database of extension {self._extension!r} is closed")
        return await self._hop(lambda: self._do(work))

    async def scrub(self) -> None:
        """Overwrite what removals left in free pages and in the journal. Makes no file that is not there."""
        if not self._closed and (self._db is not None or self._path.exists()):
            await self._hop(self._scrub)

    async def close(self) -> None:
        """May be called twice. What was asked for before is done first."""
        if self._closed:
            return
        self._closed = True
        if self._executor is None:
            self._close()
        else:
            await self._hop(self._close)
            self._executor.shutdown(wait=False)  # its thread has nothing left to do

    async def _hop(self, run: Callable[[], T]) -> T:
        if not self._threaded:
            return run()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, f"finclaw-{self._extension}")
        return await wait_shielded(asyncio.get_running_loop().run_in_executor(self._executor, run))

    def _do(self, work: Callable[[Transaction], T]) -> T:
        try:
            return self._within(self._open(), work)
        except _ITS_OWN_FAULT as error:
            raise SessionError(f"the database of extension {self._extension!r}: {error}") from error
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def _scrub(self) -> None:
        try:
            scrub(self._open())
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def _within(self, db: apsw.Connection, work: Callable[[Transaction], T]) -> T:
        # Our own words are not kept prepared: found there, they would pass the guard as the extension's.
        db.execute("BEGIN IMMEDIATE", can_cache=False)
        try:
            db.authorizer = _guard
            try:
                answer = work(_Rows(db))
            finally:
                db.authorizer = None
            db.execute("COMMIT", can_cache=False)
        except BaseException:
            with suppress(apsw.Error):  # it is rolled back all the same; the first error is the one to tell
                if db.in_transaction:
                    db.execute("ROLLBACK", can_cache=False)
            raise
        return answer

    def _open(self) -> apsw.Connection:
        if self._db is None:
            try:
                make_private_directory(self._path.parent)
                db = apsw.Connection(str(self._path))
                self._path.chmod(0o600)
            except OSError as error:
                raise StoreFailed(f"cannot write {str(self._path)!r} ({error}); check its owner and rights") from error
            try:
                self._prepare(db)
            except BaseException:
                close_quietly(db)
                raise
            self._db = db
        return self._db

    def _prepare(self, db: apsw.Connection) -> None:
        db.set_busy_timeout(5_000)
        if db.pragma("journal_mode", "wal") != "wal":
            advice = "put the state directory on a local disk"
            raise StoreFailed(f"{str(self._path)!r} cannot be used in WAL mode; {advice}")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")  # what is forgotten shall not lie on in a free page of the file
        version = int(db.pragma("user_version"))
        known = len(self._migrations)
        if version > known:
            raise ConfigError(
                f"{str(self._path)!r} was written by a newer version of extension {self._extension!r} "
                f"(schema {version}, this one knows {known}); install that version, or move the file away"
            )
        for number, migration in enumerate(self._migrations[version:], start=version + 1):
            self._migrate(db, number, migration)

    def _migrate(self, db: apsw.Connection, number: int, migration: str) -> None:
        def run(rows: Transaction) -> None:
            rows.execute(migration)
            db.pragma("user_version", number)

        try:
            self._within(db, run)
        except _ITS_OWN_FAULT as error:
            what = f"migration {number} of the database of extension {self._extension!r} failed"
            raise ExtensionError(f"{what}: {error}; nothing of it was kept") from error

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


class _Rows:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
        return self._db.execute(sql, tuple(values)).fetchall()


def _guard(operation: int, *_: str | None) -> int:
    """The transaction is ours to end: an extension that ended it would keep half of its work."""
    return apsw.SQLITE_DENY if operation in _FORBIDDEN else apsw.SQLITE_OK
