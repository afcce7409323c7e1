"""The state directory, its lock and its token, looked at from outside."""

import fcntl
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from finclaw.cli.doctor.disk import nearest
from finclaw.cli.doctor.finding import Finding, bad, ok, warn
from finclaw.errors import ConfigError
from finclaw.web.token import FILE_NAME as TOKEN
from finclaw.web.token import read_token


def checks(state: Path) -> Iterator[Finding]:
    yield _directory(state)
    yield from _open_files(state)
    yield _token(state)


def _directory(state: Path) -> Finding:
    try:
        found = state.stat()
    except FileNotFoundError:
        return _check_missing(state)
    except OSError as error:
        return bad("state", f"cannot look into {state}: {error.strerror}", "choose another with --state DIR")
    return judge_directory(state, found.st_uid, stat.S_IMODE(found.st_mode), read_only=_is_read_only(state))


def judge_directory(state: Path, owner: int, mode: int, *, read_only: bool) -> Finding:
    if owner != os.geteuid():
        return bad("state", f"{state} belongs to {_user(owner)}", "run as that user, or use --state DIR")
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


def _is_read_only(state: Path) -> bool:
    try:
        return bool(os.statvfs(state).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _open_files(state: Path) -> Iterator[Finding]:
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


def _check_missing(state: Path) -> Finding:
    place = nearest(state)
    if not os.access(place, os.W_OK | os.X_OK):
        return bad("state", f"{state} is not there and cannot be made in {place}", "choose another with --state DIR")
    return ok("state", f"{state} is not there yet; `finclaw init` or `finclaw serve` makes it")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _token(state: Path) -> Finding:
    try:
        token = read_token(state)
    except ConfigError as error:
        return bad("token", str(error))
    if token is None:
        return ok("token", "not made yet; `finclaw init` or `finclaw serve` makes it")
    return ok("token", f"{state / TOKEN}, readable by you alone")


def holder(state: Path) -> str | None:
    """Who holds the state: a process's number, or "somebody"; None if nobody.

    A shared lock, asked for without waiting and given back at once, is the only question to which the kernel gives
    a true answer, across containers and file systems: the file's text is a courtesy, and a list of locks has gaps.
    """
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
