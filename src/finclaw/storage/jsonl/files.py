"""File operations of the JSON Lines store: whole on disk or undone, with errors in words for the operator."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from finclaw.errors import StoreFailed

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class FileChanged(StoreFailed):
    """The file was changed by another program: what we know of it is not true any more."""


class Files:
    """Reads and writes of whole files. Methods raise StoreFailed.

    What is below the line is one call of the kernel each; tests cut the power there.
    """

    def read(self, path: Path) -> bytes:
        """Nothing, if there is no such file."""
        with _translate_errors(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return b""

    def tail(self, path: Path, most: int) -> tuple[bytes, int]:
        """The last bytes of a file, and its size."""
        with _translate_errors(path):
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                return b"", 0
            with _closing(file):
                size = os.fstat(file).st_size
                return os.pread(file, most, max(0, size - most)), size

    def append(self, path: Path, at: int, data: bytes) -> None:
        """Put the data at the end, which must be at `at`: what is behind it was never believed and goes."""
        with _translate_errors(path):
            created = not path.exists()
            file = self.open(path)
            with _closing(file):
                size = os.fstat(file).st_size
                if size < at:
                    raise FileChanged(f"{str(path)!r} became shorter under us; whoever edits it must stop the gateway")
                if size > at:
                    self.truncate(file, path, at)
                try:
                    self.write(file, path, data, at)
                    self.sync(file, path)
                    if created:
                        self.sync_directory(path.parent)
                except OSError:
                    with suppress(OSError):  # if this fails too, the next append cuts it off
                        path.unlink() if created else self.truncate(file, path, at)
                    raise

    def cut(self, path: Path, at: int) -> None:
        """Take off what is behind `at`. Not synced: what comes back after a power cut is known to be of no use."""
        with _translate_errors(path):
            try:
                file = os.open(path, _FLAGS)
            except FileNotFoundError:
                return
            with _closing(file):
                if os.fstat(file).st_size > at:
                    self.truncate(file, path, at)

    def replace(self, path: Path, data: bytes) -> None:
        """The old content or the new, whatever happens."""
        fresh = path.with_name(f".{path.name}.new")
        with _translate_errors(path):
            file = self.open(fresh)
            with _closing(file):
                self.truncate(file, fresh, 0)
                self.write(file, fresh, data, 0)
                self.sync(file, fresh)
            self.rename(fresh, path)
            self.sync_directory(path.parent)

    def make(self, directory: Path) -> None:
        """With its parents; each is there for good before anything is put into it."""
        if directory.is_dir():
            return
        self.make(directory.parent)
        with _translate_errors(directory):
            self.make_directory(directory)
            self.sync_directory(directory.parent)

    def move(self, path: Path, target: Path) -> None:
        with _translate_errors(path):
            self.rename(path, target)
            self.sync_directory(path.parent)

    @staticmethod
    def free_name(path: Path, what: str) -> Path:
        """A name beside it that nobody has: `base.jsonl.bak-1`."""
        names = (path.with_name(f"{path.name}.{what}-{number}") for number in count(1))
        return next(name for name in names if not name.exists())

    def keep_names(self, directory: Path) -> None:
        """What was made in it stays in it."""
        with _translate_errors(directory):
            self.sync_directory(directory)

    def remove(self, path: Path) -> None:
        """A file, or an empty directory."""
        with _translate_errors(path), suppress(FileNotFoundError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def erase(self, path: Path) -> None:
        """Overwrite a file's content before it is removed. A symbolic link is only removed."""
        if path.is_file() and not path.is_symlink():
            with _translate_errors(path):
                file = os.open(path, _FLAGS)
                with _closing(file):
                    self.write(file, path, bytes(os.fstat(file).st_size), 0)
                    self.sync(file, path)
        self.remove(path)

    # ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────

    def open(self, path: Path) -> int:
        return os.open(path, _FLAGS | os.O_CREAT, 0o600)

    def write(self, file: int, path: Path, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(file, view, at)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view, at = view[written:], at + written

    def sync(self, file: int, path: Path) -> None:
        os.fsync(file)

    def truncate(self, file: int, path: Path, size: int) -> None:
        os.ftruncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=0o700, exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with _closing(file):
            os.fsync(file)


@contextmanager
def _closing(file: int) -> Generator[None]:
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def _translate_errors(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise _explain_error(path, error) from error


def _explain_error(path: Path, error: OSError) -> StoreFailed:
    where = repr(str(path))
    if error.errno == errno.ENOENT:
        return FileChanged(f"{where} was taken away under us; whoever moves it must stop the gateway")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = f"the disk of {where} is full; free some space, nothing that was accepted is lost"
        return StoreFailed(message, why="full")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.EISDIR, errno.ENOTDIR):
        message = f"cannot write {where} ({error.strerror}); check its owner, permissions and kind"
        return StoreFailed(message, why="read_only")
    return StoreFailed(f"the disk under {where} refused ({error.strerror}); check its health and free space")
