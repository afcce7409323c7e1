"""Opening the database: pragmas, migrations, and errors in words that tell the operator what to do."""

import errno
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import apsw

from finclaw.errors import ConfigError, SessionError, StoreCorrupt, StoreFailed
from finclaw.storage.sqlite.costs import exactly
from finclaw.storage.sqlite.schema import MIGRATIONS

log = logging.getLogger(__name__)

Synchronous = Literal["FULL", "OFF"]

DATABASE = "finclaw.db"
"""In the state directory."""
PAGE_SIZE = 2_048
"""A turn changes a few hundred bytes on some twenty pages, and every commit writes whole pages."""
CACHE_KB: Final = 1_000
"""Pages that SQLite keeps beside the system's own cache of the file. Twice as much, its default, misses the goal of
`kb_idle_session`, and is no faster."""
CHECKPOINT_PAGES = 2_000
"""The more, the less often a page that changes often is copied back. But a journal that still grows costs more CPU to
sync than one that is written over, and after each start it grows until it is this long (`cpu_plain_alone`)."""
STATEMENTS = 512
"""Kept prepared. The cache drops what came back so many statements ago, and a group of turns runs hundreds."""


def open_database(
    path: Path, *, vfs: str | None = None, synchronous: Synchronous = "FULL", exclusive: bool = False
) -> apsw.Connection:
    """A connection in WAL mode with every commit on disk before it returns, migrated to this version. `vfs` and
    `synchronous` exist for the power-loss tests, which prove that FULL is needed."""
    is_alone = path.exists() and not has_journal(path)
    try:
        db = apsw.Connection(str(path), vfs=vfs, statementcachesize=STATEMENTS)
        try:
            _prepare(db, path, synchronous, exclusive)
            if is_alone and is_marked_open(db):
                log.warning("%s: %s", path, JOURNAL_MISSING)
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
    # Folding the journal in at the end is for who also takes the mark away; see `mark_closed`.
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if exclusive:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.set_busy_timeout(5_000)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else some statements are planned anew for every value
    db.create_scalar_function("exactly", exactly, 2, deterministic=True)
    db.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # heard by a new database only
    if db.pragma("journal_mode", "wal") != "wal":  # SQLite may refuse quietly, and without it FULL is not enough
        raise StoreFailed(f"{str(path)!r} cannot be used in WAL mode; put the state directory on a local disk")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
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
    `take_over` does in the same commit what earlier processes have left undone."""
    with db:
        db.execute("UPDATE meta SET value = value + 1 WHERE key = 'boot'")
        take_over(db)
        db.execute("INSERT INTO meta VALUES ('open', 1) ON CONFLICT (key) DO UPDATE SET value = 1")
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    return str(db.execute("SELECT value FROM meta WHERE key = 'name'").get), boot_epoch(db)


def boot_epoch(db: apsw.Connection) -> int:
    return int(db.execute("SELECT value FROM meta WHERE key = 'boot'").get)


# ── the mark of a database in use ───────────────────────────────────────────────────────────────────────────
# The database file itself says whether it is in use. In use its journal holds what was written last, and stands beside
# it until the end, after a crash too. A file that says it is in use and has no journal is a copy without its last part.

JOURNAL_MISSING: Final = (
    "it was in use when it was copied, and its journal (finclaw.db-wal) is not beside it: "
    "what was written last is missing"
)


def journal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def has_journal(path: Path) -> bool:
    """An empty one is none: whoever only looks at a database makes such a file."""
    journal = journal_of(path)
    return journal.exists() and journal.stat().st_size > 0


def is_marked_open(db: apsw.Connection) -> bool:
    """False for a database of an earlier release, which has no mark."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return False
    return bool(db.execute("SELECT value FROM meta WHERE key = 'open'").get)


def mark_closed(db: apsw.Connection, boot: int) -> None:
    """Say that the file is whole, and fold the journal in when it is closed. Where that fails, the journal stays."""
    with suppress(apsw.Error):
        with db:
            sql = "UPDATE meta SET value = 0 WHERE key = 'open' AND ? = (SELECT value FROM meta WHERE key = 'boot')"
            db.execute(sql, (boot,))
        if not is_marked_open(db):
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def explain(error: apsw.Error | OSError, path: Path) -> SessionError:
    where = repr(str(path))
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        error = apsw.FullError()
    match error:
        case apsw.FullError():
            message = f"the disk of {where} is full; free some space, nothing that was accepted is lost"
            return StoreFailed(message, why="full")
        case apsw.CorruptError() | apsw.NotADBError():
            advice = "put a backup in its place with `finclaw restore FILE`, or move it away, then start again"
            return StoreCorrupt(f"{where} is damaged ({error}); {advice}")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | PermissionError():
            return _unwritable(path, error)
        case _ if _is_mounted_read_only(path):
            return _unwritable(path, error)
        case _:
            reason = f"{type(error).__name__}: {error}"
            return StoreFailed(f"the disk under {where} refused ({reason}); check its health and free space")


def _is_mounted_read_only(path: Path) -> bool:
    with suppress(OSError):
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    return False


def _unwritable(path: Path, error: Exception) -> StoreFailed:
    message = f"cannot write {str(path)!r} ({error}); check the owner and permissions of the directory"
    return StoreFailed(message, why="read_only")


def copy_database(path: Path, target: Path, at_the_snapshot: Callable[[], None] = lambda: None) -> None:
    """Copy a database that others write to, from one snapshot; check the copy, and sync it.

    `at_the_snapshot` runs when the instant of the copy is fixed. Raises StoreFailed or StoreCorrupt. It blocks, and is
    for a thread; writers are not blocked.
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
    with target.open("rb") as copy:
        os.fsync(copy.fileno())


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
    told = str(db.execute("PRAGMA integrity_check(1)").get)
    if told != "ok":
        raise StoreCorrupt(f"{str(path)!r} is damaged ({told})")
