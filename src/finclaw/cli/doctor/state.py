"""The checks of the state directory: its owner, its lock, its token, its database, and the disk under it."""

import errno
import fcntl
import os
import pwd
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from finclaw.cli.doctor import DoctorFinding, bad, ok, warn
from finclaw.clock import SystemClock
from finclaw.errors import ConfigError
from finclaw.storage.sqlite.database import DATABASE, JOURNAL_MISSING, explain, has_journal, is_marked_open, journal_of
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.web.token import FILE_NAME as TOKEN
from finclaw.web.token import read_token

# ── the disk: space, kind, and how many commits a second it makes durable ───────────────────────────────────────

MEGABYTE = 1_048_576
LITTLE = 1_024 * MEGABYTE
TOO_LITTLE = 64 * MEGABYTE
SLOW = 50.0  # commits a second: a lone turn makes four
_NETWORK = ("nfs", "cifs", "smb", "9p", "ceph", "gluster", "lustre", "afs", "fuse.sshfs", "fuse.rclone", "beegfs")
_MEMORY = ("tmpfs", "ramfs")
_MEASURE_S = 0.25


def check_disk(state: Path) -> Iterator[DoctorFinding]:
    place = nearest(state)
    yield judge_space(place)
    yield judge_kind(place, _file_system(place))
    yield _measure_speed(place)


def nearest(path: Path) -> Path:
    return next((each for each in (path, *path.parents) if each.is_dir()), Path("/"))


def judge_space(place: Path) -> DoctorFinding:
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    shown = f"{free / MEGABYTE:,.0f} MB free under {place}"
    if free < TOO_LITTLE:
        return bad("disk space", shown, "free some space: nothing can be accepted on a full disk")
    if disk.f_files and not disk.f_favail:
        return bad("disk space", f"{place} takes no more files, though {shown}", "remove some files there")
    if free < LITTLE:
        return warn("disk space", shown, "free some before it is full")
    return ok("disk space", shown)


def judge_kind(place: Path, kind: str) -> DoctorFinding:
    if kind.startswith(_NETWORK):
        advice = "locks and the database need a local disk: choose one with --state DIR"
        return warn("disk kind", f"{place} is on a network file system ({kind})", advice)
    if kind in _MEMORY:
        advice = "a power cut takes it all: choose a disk with --state DIR"
        return warn("disk kind", f"{place} is in memory ({kind})", advice)
    return ok("disk kind", f"{kind}, on this machine" if kind else "this system does not tell")


def _file_system(place: Path) -> str:
    """The file system's type, from the longest mount point above; empty where the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    kinds: dict[str, str] = {}  # a later mount hides an earlier one
    real = f"{place.resolve()}/"
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split()[4].replace("\\040", " ").rstrip("/")
        if real.startswith(f"{mount}/"):
            kinds[mount] = after.split()[0]
    return kinds[max(kinds, key=len)] if kinds else ""


def _measure_speed(place: Path) -> DoctorFinding:
    try:
        rate = _commits_per_second(place)
    except OSError as error:
        mend = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable for you"
        return bad("disk speed", f"cannot write in {place}: {error.strerror}", f"{mend}, or use --state DIR")
    shown = f"{rate:,.0f} fsyncs/s"
    if rate < SLOW:
        return warn("disk speed", shown, "every message waits for four: a faster disk answers sooner")
    return ok("disk speed", shown)


def _commits_per_second(place: Path) -> float:
    """Measured on a file without a name: nobody sees it, and nothing is left of it."""
    count = 0
    with tempfile.TemporaryFile(dir=place) as file:
        began = SystemClock.monotonic()
        while (spent := SystemClock.monotonic() - began) < _MEASURE_S or not count:
            os.write(file.fileno(), b"\0" * 4_096)
            os.fsync(file.fileno())
            count += 1
    return count / spent


def checks(state: Path) -> Iterator[DoctorFinding]:
    yield _directory(state)
    yield from _open_files(state)
    try:
        token = read_token(state)
    except ConfigError as error:
        yield bad("token", str(error))
        return
    says = f"{state / TOKEN}, readable by you alone"
    yield ok("token", says if token else "not made yet; `finclaw init` or `finclaw serve` makes it")


def _directory(state: Path) -> DoctorFinding:
    try:
        found = state.stat()
    except FileNotFoundError:
        place = nearest(state)
        if not os.access(place, os.W_OK | os.X_OK):
            says = f"{state} is not there and cannot be made in {place}"
            return bad("state", says, "choose another with --state DIR")
        return ok("state", f"{state} is not there yet; `finclaw init` or `finclaw serve` makes it")
    except OSError as error:
        return bad("state", f"cannot look into {state}: {error.strerror}", "choose another with --state DIR")
    read_only = False
    with suppress(OSError):
        read_only = bool(os.statvfs(state).f_flag & os.ST_RDONLY)
    return judge_directory(state, found.st_uid, stat.S_IMODE(found.st_mode), read_only=read_only)


def judge_directory(state: Path, owner: int, mode: int, *, read_only: bool) -> DoctorFinding:
    if owner != os.geteuid():
        user = f"user {owner}"
        with suppress(KeyError):
            user = pwd.getpwuid(owner).pw_name
        return bad("state", f"{state} belongs to {user}", "run as that user, or use --state DIR")
    if read_only:
        says = f"{state} is on a file system that is read-only"
        return bad("state", says, "mount it for writing, or choose another place with --state DIR")
    if not os.access(state, os.W_OK | os.X_OK):
        return bad("state", f"{state} is not writable", f"run: chmod 700 {state}")
    if mode & 0o022:
        return bad("state", f"other users can write in {state} ({mode:04o})", f"run: chmod 700 {state}")
    if mode & 0o077:
        return warn("state", f"other users can look into {state} ({mode:04o})", f"run: chmod 700 {state}")
    return ok("state", f"{state}, yours alone")


def _open_files(state: Path) -> Iterator[DoctorFinding]:
    """Files that others can read where the directory does not keep them out."""
    try:
        if not stat.S_IMODE(state.stat().st_mode) & 0o011:
            return
        found = [each for each in sorted(state.iterdir()) if each.name.startswith("finclaw.db")]
        readable = [each for each in found if each.stat().st_mode & 0o044]
    except OSError:  # not there, or told above
        return
    if readable:
        names = " ".join(map(str, readable))
        yield warn("state", f"other users can read what people wrote, in {readable[0]}", f"run: chmod 600 {names}")


def holder(state: Path) -> str | None:
    """Who holds the state: a process's number, or "somebody"; None if nobody. A shared lock, asked for without waiting
    and given back at once, is the only question to which the kernel gives a true answer, across containers and file
    systems: the file's text is a courtesy, and a list of locks has gaps."""
    try:
        opened = os.open(state / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        signed = os.pread(opened, 64, 0).decode(errors="replace").strip()
        return signed if signed.isdigit() else "somebody"
    except OSError:
        return None
    finally:
        os.close(opened)  # and with it the lock
    return None


# ── the database, read without a lock and without leaving a trace: no journal is played back, no file is made ───


PATIENCE = 2.0  # seconds for reading it through; a large one is read in part
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
    vfs: str | None = None
    if not held and wal.exists() and wal.stat().st_size:
        # After a crash the journal belongs to the content. Alone and without locks, SQLite reads it in memory.
        vfs = "unix-none"
    elif not held:
        where += "&immutable=1"
    with closing(apsw.Connection(where, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, vfs=vfs)) as db:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if vfs is not None:
            db.pragma("locking_mode", "exclusive")
        yield db


def _problem(db: apsw.Connection) -> str | None:
    """What is damaged, an empty text if nothing is, None if there was no time to read it all."""
    give_up = SystemClock.monotonic() + PATIENCE
    db.set_progress_handler(lambda: SystemClock.monotonic() > give_up, 10_000)
    try:
        told = str(db.execute("PRAGMA quick_check(1)").get)
    except apsw.InterruptError:
        return None
    finally:
        db.set_progress_handler(None)
    return "" if told == "ok" else told


def _judge(path: Path, version: int, problem: str | None) -> DoctorFinding:
    if problem:
        return bad("database", f"{path} is damaged ({problem})", "stop the gateway, and run: finclaw restore FILE")
    if version > len(MIGRATIONS):
        says = f"{path} was written by a newer FinClaw (schema {version}, this one knows {len(MIGRATIONS)})"
        return bad("database", says, "install that version")
    with path.open("rb") as file:  # the pragma of a read-only connection tells of itself, not of the file
        header = file.read(20)
    if header[18:] not in (b"\2\2", b""):
        return warn("database", f"{path} is not in WAL mode", "the next start of FinClaw changes that")
    wal = journal_of(path)
    journal = wal.stat().st_size if wal.exists() else 0
    if journal > LONG_WAL:
        return warn("database", f"its journal has grown to {journal >> 20} MB", "restart the gateway to fold it in")
    part = f" as far as {PATIENCE:.0f} s of reading went" if problem is None else ""
    sizes = f"{path.stat().st_size >> 10:,} kB and {journal >> 10:,} kB of journal"
    return ok("database", f"sound{part}: schema {version}, {sizes}")
