"""A consistent copy of a database that others write to: SQLite's backup over a second connection, from one snapshot."""

import os
from collections.abc import Callable
from pathlib import Path

import apsw

from finclaw.errors import StoreCorrupt, StoreFailed
from finclaw.storage.sqlite.database import close_quietly, explain


def copy_database(path: Path, target: Path, at_the_snapshot: Callable[[], None] = lambda: None) -> None:
    """Copy, check the copy, and sync it. `at_the_snapshot` runs when the instant of the copy is fixed.

    Raises StoreFailed or StoreCorrupt. It blocks, and is for a thread; writers are not blocked.
    """
    try:
        source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            source.set_busy_timeout(5_000)
            source.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchall()
            at_the_snapshot()
            _copy(source, target)
        finally:
            close_quietly(source)
    except apsw.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise StoreFailed(f"cannot write {str(target)!r} ({error.strerror}); free some space and try again") from error
    _sync(target)


def _copy(source: apsw.Connection, target: Path) -> None:
    target.touch(mode=0o600)
    copy = apsw.Connection(str(target))
    try:
        with copy.backup("main", source, "main") as backup:
            backup.step(-1)
        if copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            copy.execute("UPDATE meta SET value = 0 WHERE key = 'open'")  # the copy is whole without a journal
        check(copy, target)
    finally:
        copy.close()


def check(db: apsw.Connection, path: Path) -> None:
    """Raises StoreCorrupt."""
    told = str(db.execute("PRAGMA integrity_check(1)").get)
    if told != "ok":
        raise StoreCorrupt(f"{str(path)!r} is damaged ({told})")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
