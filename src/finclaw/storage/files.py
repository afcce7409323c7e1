"""File operations that are whole on disk or undone, with errors that tell the operator what to do."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from finclaw.errors import StoreFailed

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class FileChanged(StoreFailed):
    """Another program changed the file: what is remembered of it is out of date."""


class Files:
    """Reads and writes of whole files. Methods raise StoreFailed. Tests cut the power in those below the line."""

    def read(self, path: Path) -> bytes:
        """Return the content; empty if there is no such file."""
        with _translate_errors(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return b""

    def size(self, path: Path) -> int:
        """Return the number of bytes; 0 if there is no such file."""
        with _translate_errors(path):
            try:
                return path.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                return 0

    def append(self, path: Path, at: int, data: bytes) -> None:
        """Append the data at `at`, and sync. Bytes after `at` are left over from a failed append and are cut off."""
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
                        if created:
                            path.unlink()
                        else:
                            self.truncate(file, path, at)
                    raise

    def cut(self, path: Path, at: int) -> None:
        """Cut the file at `at`. Not synced: readers recognise and ignore what a power cut brings back."""
        with _translate_errors(path):
            try:
                file = os.open(path, _FLAGS)
            except FileNotFoundError:
                return
            with _closing(file):
                if os.fstat(file).st_size > at:
                    self.truncate(file, path, at)

    def replace(self, path: Path, data: bytes) -> None:
        """Write the data under this name; after a crash the file has the old content or the new one."""
        fresh = path.with_name(f".{path.name}.new")
        with _translate_errors(path):
            file = self.open(fresh)
            try:
                with _closing(file):
                    with suppress(FileNotFoundError):
                        os.fchmod(file, path.stat().st_mode & 0o777)
                    self.truncate(file, fresh, 0)
                    self.write(file, fresh, data, 0)
                    self.sync(file, fresh)
                self.rename(fresh, path)
            except OSError:
                fresh.unlink(missing_ok=True)
                raise
            self.sync_directory(path.parent)

    def back_up(self, path: Path, data: bytes) -> None:
        """Keep the data beside the file, under the first free number: `base.jsonl.bak-1`."""
        self.replace(_free_name(path, "bak"), data)

    def put_away(self, path: Path, reason: str) -> None:
        """Rename a file or a directory, such as `base.jsonl` to `base.jsonl.unreadable-1`."""
        with _translate_errors(path):
            self.rename(path, _free_name(path, reason))
            self.sync_directory(path.parent)

    def make(self, directory: Path) -> None:
        """Make the directory and its parents; each is synced before anything is put into it."""
        if directory.is_dir():
            return
        self.make(directory.parent)
        with _translate_errors(directory):
            self.make_directory(directory)
            self.sync_directory(directory.parent)

    def keep_names(self, directory: Path) -> None:
        """Sync the directory, so that the files made in it stay in it."""
        with _translate_errors(directory):
            self.sync_directory(directory)

    def remove(self, path: Path) -> None:
        with _translate_errors(path), suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()

    def erase(self, path: Path) -> None:
        """Overwrite the file's content before removing it. A symbolic link is only removed."""
        if path.is_file() and not path.is_symlink():
            with _translate_errors(path):
                file = os.open(path, _FLAGS)
                with _closing(file):
                    self.write(file, path, bytes(os.fstat(file).st_size), 0)
                    self.sync(file, path)
        self.remove(path)

    # ── system calls ────────────────────────────────────────────────────────────────────────────────────────

    def open(self, path: Path) -> int:
        return os.open(path, _FLAGS | os.O_CREAT, 0o600)

    def write(self, file: int, path: Path, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(file, view, at)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view = view[written:]
            at += written

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


def _free_name(path: Path, suffix: str) -> Path:
    names = (path.with_name(f"{path.name}.{suffix}-{number}") for number in count(1))
    return next(name for name in names if not name.exists())


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
        raise _explain_error(repr(str(path)), error) from error


def _explain_error(where: str, error: OSError) -> StoreFailed:
    if error.errno == errno.ENOENT:
        return FileChanged(f"{where} was taken away under us; whoever moves it must stop the gateway")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = f"the disk of {where} is full; free some space, nothing that was accepted is lost"
        return StoreFailed(message, why="full")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.EISDIR, errno.ENOTDIR):
        message = f"cannot write {where} ({error.strerror}); check its owner, permissions and kind"
        return StoreFailed(message, why="read_only")
    return StoreFailed(f"the disk under {where} refused ({error.strerror}); check its health and free space")
