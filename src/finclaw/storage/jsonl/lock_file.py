"""A lock file. The kernel (flock) decides who holds it; its text is for readers, and never a claim.

The file stays when the lock is free: whoever unlinks a lock file that others have open makes two locks of one.
Release and process exit write that it is free; after a fork the child has closed its copy and holds nothing.
"""

import atexit
import errno
import fcntl
import logging
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Self

import msgspec
from msgspec import Meta, Struct

from finclaw.errors import StoreFailed
from finclaw.private_files import make_private_directory

log = logging.getLogger(__name__)

LONGEST_NOTE: Final = 4096
_open_files: set["LockFile"] = set()
"""All that this process holds, for the one clean-up at its exit and the one after a fork."""

ShortText = Annotated[str, Meta(max_length=256)]
Instant = Annotated[datetime, Meta(tz=True)]


class LockNote(Struct, frozen=True, kw_only=True):
    """What the file tells a reader. `held` without a holder means that the owner did not get to release it."""

    owner: ShortText
    pid: int
    host: ShortText
    session: ShortText
    since: Instant
    beat: Instant
    fence: Annotated[int, Meta(ge=0, lt=2**62)]
    held: bool

    def silent_for(self, now: datetime) -> float:
        """Seconds since the holder's last sign of life. However long, it is no proof of death."""
        return max(0.0, (now - self.beat).total_seconds())

    def __str__(self) -> str:
        return f"{self.owner!r} (process {self.pid} on {self.host!r} since {self.since:%Y-%m-%d %H:%M:%S} UTC)"


def read_note(path: Path) -> LockNote | None:
    """For whoever only looks. None: there is no such file, or it says nothing that can be understood."""
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
        # A longer note may have stood here before this one: only the first line counts.
        line, _, _ = os.pread(descriptor, LONGEST_NOTE, 0).partition(b"\n")
        return msgspec.json.decode(line, type=LockNote)
    except (OSError, ValueError, RecursionError):  # empty, cut off, hostile: a file may say anything
        return None


class LockFile:
    """Held from `try_lock` until `release`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._note: LockNote | None = None
        _open_files.add(self)

    @classmethod
    def try_lock(cls, path: Path) -> Self | None:
        """None while somebody else holds it. Raises StoreFailed when the file cannot be used at all."""
        try:
            descriptor = _open(path)
            try:
                if _lock(descriptor) and _is_at(path, descriptor):
                    return cls(path, descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise StoreFailed(
                f"cannot use the lock file {str(path)!r}: {error.strerror}; "
                "it must be an ordinary file of this user's, in a writable directory"
            ) from error
        os.close(descriptor)
        return None

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    @property
    def stands(self) -> bool:
        """Still held, and still the file that the others see: somebody may have deleted it under us."""
        try:
            return self.is_open and _is_at(self.path, self._descriptor)
        except OSError:
            return False

    def note(self) -> LockNote | None:
        """What the last one wrote."""
        return _note_in(self._descriptor)

    def sign(self, note: LockNote) -> None:
        self._note = note
        try:
            self._write(note)
        except OSError as error:  # a full disk must not cost us the lock, which is held already
            log.warning("cannot write into the lock file %s: %s; the lock holds all the same", self.path, error)

    def beat(self, now: datetime) -> None:
        if self.is_open and self._note is not None:
            self._note = msgspec.structs.replace(self._note, beat=now)
            with suppress(OSError):  # told when it was signed
                self._write(self._note)

    def _write(self, note: LockNote) -> None:
        """In place and in one write, so that no kill can fall between the old note and the new."""
        line = msgspec.json.encode(note) + b"\n"
        written = 0
        try:
            written = os.pwrite(self._descriptor, line, 0)
        finally:
            # The rest of an older note goes; after a failed write all of it, for no note is better than a false one.
            os.ftruncate(self._descriptor, len(line) if written == len(line) else 0)
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def release(self) -> bool:
        """False if it was not held any more."""
        if not self.is_open:
            return False
        _open_files.discard(self)
        with suppress(OSError):
            if self._note is not None:
                self._write(msgspec.structs.replace(self._note, held=False))
        with suppress(OSError):
            # Closing alone would not do: a child that another library forked may have the same open file.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.disown()
        return True

    def disown(self) -> None:
        """Close our copy and nothing more."""
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):  # the descriptor is gone whatever close says
            os.close(descriptor)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private_directory(path.parent)
        return os.open(path, flags, 0o600)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """A lock on a file that was deleted before we had it excludes nobody."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


@atexit.register
def _release_all() -> None:
    for file in tuple(_open_files):
        file.release()


def _disown_all() -> None:
    """In a forked child: the locks are the parent's. Unlocking here would free them under it; closing does not."""
    for file in _open_files:
        file.disown()
    _open_files.clear()


os.register_at_fork(after_in_child=_disown_all)
