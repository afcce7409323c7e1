"""Opening the database: pragmas, migrations, and errors in words that tell the operator what to do."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import apsw

from finclaw.errors import ConfigError, SessionError, StoreCorrupt, StoreFailed
from finclaw.storage.sqlite.books import exactly
from finclaw.storage.sqlite.schema import MIGRATIONS

Synchronous = Literal["FULL", "OFF"]

DATABASE = "finclaw.db"
"""In the state directory."""
PAGE_SIZE = 2_048
"""A turn changes a few hundred bytes on some twenty pages, and every commit writes whole pages."""
CHECKPOINT_PAGES = 4_000
"""A page that changes often is copied back less often."""
STATEMENTS = 512
"""Kept prepared. The cache drops what came back so many statements ago, and a group of turns runs hundreds."""


def open_database(
    path: Path, *, vfs: str | None = None, synchronous: Synchronous = "FULL", exclusive: bool = False
) -> apsw.Connection:
    """A connection in WAL mode with every commit on disk before it returns, migrated to this version.

    `vfs` and `synchronous` exist for the power-loss tests, which prove that FULL is needed.
    """
    try:
        db = apsw.Connection(str(path), vfs=vfs, statementcachesize=STATEMENTS)
        try:
            _prepare(db, path, synchronous, exclusive)
        except BaseException:
            close_quietly(db)
            raise
    except apsw.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise _unwritable(path, error) from error
    return db


def _prepare(db: apsw.Connection, path: Path, synchronous: Synchronous, exclusive: bool) -> None:
    path.chmod(0o600)
    if exclusive:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.set_busy_timeout(5_000)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else some statements are planned anew for every value
    db.create_scalar_function("exactly", exactly, 2, deterministic=True)
    db.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # heard by a new database only
    if db.pragma("journal_mode", "wal") != "wal":  # SQLite may refuse quietly, and without it FULL is not enough
        raise StoreFailed(f"{str(path)!r} cannot be used in WAL mode; put the state directory on a local disk")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    _migrate(db, path)


def close_quietly(db: apsw.Connection) -> None:
    """For a connection that has failed already: the first error is the one to tell."""
    with suppress(apsw.Error):
        db.close()


def _migrate(db: apsw.Connection, path: Path) -> None:
    version = int(db.pragma("user_version"))
    if version > len(MIGRATIONS):
        raise ConfigError(
            f"{str(path)!r} was written by a newer FinClaw (schema {version}, this one knows {len(MIGRATIONS)}); "
            "install that version or choose another directory with --state"
        )
    for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
        with db:
            db.execute(migration)
            db.execute(f"PRAGMA user_version = {number}")
            if number == 1:
                db.execute("INSERT INTO meta VALUES ('name', ?), ('boot', 0)", (secrets.token_hex(4),))


def begin_boot(db: apsw.Connection, take_over: Callable[[apsw.Connection], None]) -> tuple[str, int]:
    """Raise the boot epoch: from now on no earlier process can commit. Returns the database's name and the epoch.

    `take_over` does in the same commit what earlier processes have left undone.
    """
    with db:
        db.execute("UPDATE meta SET value = value + 1 WHERE key = 'boot'")
        take_over(db)
    name = str(db.execute("SELECT value FROM meta WHERE key = 'name'").get)
    return name, boot_epoch(db)


def boot_epoch(db: apsw.Connection) -> int:
    return int(db.execute("SELECT value FROM meta WHERE key = 'boot'").get)


def explain(error: apsw.Error, path: Path) -> SessionError:
    where = repr(str(path))
    match error:
        case apsw.FullError():
            return StoreFailed(f"the disk of {where} is full; free some space, nothing that was accepted is lost")
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(f"{where} is damaged ({error}); move it away or restore a copy, then start again")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return _unwritable(path, error)
        case _:
            return StoreFailed(
                f"the disk under {where} refused ({type(error).__name__}: {error}); check its health and free space"
            )


def _unwritable(path: Path, error: Exception) -> StoreFailed:
    return StoreFailed(f"cannot write {str(path)!r} ({error}); check the owner and permissions of the directory")
