"""The check of the database, read without a lock and without leaving a trace.

No journal is played back, no file is made.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import apsw

from finclaw.cli.doctor import DoctorFinding, bad, ok, warn
from finclaw.cli.doctor.state import holder
from finclaw.kernel.clock import SystemClock
from finclaw.storage.sqlite.database import DATABASE, JOURNAL_MISSING, explain, has_journal, is_marked_open, journal_of
from finclaw.storage.sqlite.schema import MIGRATIONS

PATIENCE = 2.0
"""Seconds for reading it through; a large one is read in part."""
_COPIES = "take copies with `finclaw backup FILE`, also of a running gateway, and put one back with `finclaw restore`"
LONG_WAL = 64 * 1_048_576


def check_database(state: Path) -> DoctorFinding:
    path = state / DATABASE
    if not path.exists():
        return ok("database", "not there yet; the first message makes it")
    held = holder(state) is not None
    finding = _read(path, held)
    if finding.level == "bad" and holder(state) is not None and not held:
        return _read(path, held=True)  # somebody began to write meanwhile; what we saw may have been half of it
    return finding


def _read(path: Path, held: bool) -> DoctorFinding:
    try:
        with _open_read_only(path, held) as db:
            if not held and not has_journal(path) and is_marked_open(db):
                return bad("database", f"{path}: {JOURNAL_MISSING}", _COPIES)
            return _judge(path, int(db.pragma("user_version")), _problem(db))
    except apsw.BusyError:
        return ok("database", f"{path} is in use and was left alone")
    except apsw.Error as error:
        return bad("database", str(explain(error, path)))


@contextmanager
def _open_read_only(path: Path, held: bool) -> Generator[apsw.Connection]:
    wal = journal_of(path)
    where = f"file:{quote(str(path))}?mode=ro"
    if held:
        vfs = None  # beside a writer, as any reader
    elif wal.exists() and wal.stat().st_size:
        # After a crash the journal belongs to the content. Alone and without locks, SQLite reads it in memory.
        vfs = "unix-none"
    else:
        where, vfs = where + "&immutable=1", None
    db = apsw.Connection(where, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, vfs=vfs)
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if vfs is not None:
            db.pragma("locking_mode", "exclusive")
        yield db
    finally:
        db.close()


def _problem(db: apsw.Connection) -> str | None:
    """What is damaged, an empty text if nothing is, None if there was no time to read it all."""
    clock = SystemClock()
    give_up = clock.monotonic() + PATIENCE
    db.set_progress_handler(lambda: clock.monotonic() > give_up, 10_000)
    try:
        told = str(db.execute("PRAGMA quick_check(1)").get)
    except apsw.InterruptError:
        return None
    finally:
        db.set_progress_handler(None)
    return "" if told == "ok" else told


def _in_wal_mode(path: Path) -> bool:
    with path.open("rb") as file:  # as the file says it: the pragma of a read-only connection tells of itself
        return file.read(20)[18:] in (b"\2\2", b"")


def _judge(path: Path, version: int, problem: str | None) -> DoctorFinding:
    if problem:
        return bad("database", f"{path} is damaged ({problem})", "stop the gateway, and run: finclaw restore FILE")
    if version > len(MIGRATIONS):
        says = f"{path} was written by a newer FinClaw (schema {version}, this one knows {len(MIGRATIONS)})"
        return bad("database", says, "install that version")
    if not _in_wal_mode(path):
        return warn("database", f"{path} is not in WAL mode", "the next start of FinClaw changes that")
    wal = journal_of(path)
    journal = wal.stat().st_size if wal.exists() else 0
    if journal > LONG_WAL:
        return warn("database", f"its journal has grown to {journal >> 20} MB", "restart the gateway to fold it in")
    sound = "sound" if problem == "" else f"sound as far as {PATIENCE:.0f} s of reading went"
    return ok(
        "database", f"{sound}: schema {version}, {path.stat().st_size >> 10:,} kB and {journal >> 10:,} kB of journal"
    )
