"""The root directory of a workspace: paths never lead out of it, whatever somebody does to it meanwhile.

A path is walked name by name, each opened inside the directory before it and never through a link. So there is no
moment between looking and opening: what was looked at is what is open.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from finclaw.errors import ExtensionError, ToolError

_STATE_FILES: Final = ("lock", "finclaw.db")
"""What lies in every state directory of a gateway: its tokens and conversations are nobody's reading."""
_MOST_ENTRIES: Final = 10_000
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotReadable(ToolError):
    """A path that cannot be read. The words say which, why not, and what to do."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    content: bytes
    size: int
    """What the file has; the content may be less."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    name: str
    is_folder: bool
    size: int
    modified: datetime


class Root:
    def __init__(self, directory: str) -> None:
        """Raises ExtensionError, which stops the start."""
        self._path = _usable(directory)

    def read(self, path: str, most: int) -> OpenFile:
        """The first `most` bytes. Raises NotReadable."""
        *folders, name = _names(path) or [""]
        if not name:
            raise NotReadable(f"{path!r} is the workspace itself; files__list shows what is in it")
        with _explain_errors(path), self._folder(folders) as folder, _file(name, folder) as file:
            about = os.fstat(file)
            if about.st_nlink > 1:  # a second name of it may lie anywhere on the disk, also beside our token
                raise NotReadable(
                    f"{path!r} has {about.st_nlink} names (hard links) and may also lie outside of the workspace, "
                    "so it is not read; ask the person to put a copy of it there"
                )
            return OpenFile(_bytes(file, most), about.st_size)

    def entries(self, path: str) -> tuple[list[DirectoryEntry], int]:
        """What may be seen there, in order of names, and how much may not. Raises NotReadable."""
        with _explain_errors(path), self._folder(_names(path)) as folder, os.scandir(folder) as found:
            seen, hidden = list[DirectoryEntry](), 0
            for each in found:
                if len(seen) + hidden == _MOST_ENTRIES:
                    raise NotReadable(f"{path!r} has more than {_MOST_ENTRIES:,} entries; nobody can list them here")
                entry = _entry(each, folder)
                hidden += entry is None
                seen += [entry] if entry else []
        return sorted(seen, key=lambda entry: entry.name), hidden

    @contextmanager
    def _folder(self, names: list[str]) -> Generator[int]:
        folder = os.open(self._path, _FOLDER)
        try:
            _refuse_state(folder)
            for name in names:
                inside = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inside
                _refuse_state(folder)
            yield folder
        finally:
            os.close(folder)


# ── which paths there are ───────────────────────────────────────────────────────────────────────────────────


def _usable(directory: str) -> Path:
    if not directory:
        raise ExtensionError("it needs the setting `root`: the directory whose files may be read, from / on")
    path = Path(directory).expanduser()
    if not path.is_absolute():
        raise ExtensionError(f"its root {directory!r} must begin with / or ~, for nobody knows where we are started")
    try:
        path = path.resolve(strict=True)
        os.close(os.open(path, _FOLDER))
    except (OSError, RuntimeError) as error:
        raise ExtensionError(f"its root {directory!r} is no directory we can read: {error}; make it first") from error
    if path == Path("/"):
        raise ExtensionError("its root is the whole disk; choose the one directory that may be read")
    for each in (path, *path.parents):
        if all((each / name).exists() for name in _STATE_FILES):
            raise ExtensionError(f"its root {directory!r} lies in the state of a gateway ({each}); choose another")
    return path


def _names(path: str) -> list[str]:
    """The steps of a path. Raises NotReadable for one that could lead out, or to what is hidden."""
    if path.startswith("/"):
        raise NotReadable(f"{path!r}: give the path from the workspace on, without a leading slash")
    names = [name for name in path.split("/") if name not in ("", ".")]
    for name in names:
        if name.startswith("."):
            raise NotReadable(f"{path!r}: hidden files and the way out of the workspace are closed")
        if not _is_plain(name):
            raise NotReadable(f"{path!r} holds characters that no name here has")
    return names


def _is_plain(name: str) -> bool:
    """Printable, so that a name cannot look like a line of its own."""
    return name.isprintable()


# ── what lies at the end of them ────────────────────────────────────────────────────────────────────────────


@contextmanager
def _file(name: str, folder: int) -> Generator[int]:
    if not S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):  # to open a device may do something
        raise OSError(errno.ELOOP, "no regular file")
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        if not S_ISREG(os.fstat(file).st_mode):  # it was exchanged just now
            raise OSError(errno.ELOOP, "no regular file")
        yield file
    finally:
        os.close(file)


def _bytes(file: int, most: int) -> bytes:
    parts, left = list[bytes](), most
    while left and (part := os.read(file, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _entry(found: os.DirEntry[str], folder: int) -> DirectoryEntry | None:
    if found.name.startswith(".") or not _is_plain(found.name):
        return None
    try:
        about = found.stat(follow_symlinks=False)
    except FileNotFoundError:  # gone while we looked
        return None
    is_folder = S_ISDIR(about.st_mode)
    if not (is_folder or S_ISREG(about.st_mode)) or (is_folder and _is_state(folder, f"{found.name}/")):
        return None
    return DirectoryEntry(found.name, is_folder, about.st_size, datetime.fromtimestamp(about.st_mtime, UTC))


def _refuse_state(folder: int) -> None:
    if _is_state(folder):
        raise OSError(errno.EACCES, "the state of a gateway")


def _is_state(folder: int, below: str = "") -> bool:
    try:
        for name in _STATE_FILES:
            os.stat(below + name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


@contextmanager
def _explain_errors(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        why = {
            errno.ENOENT: "there is nothing of that name; files__list shows what there is",
            errno.EACCES: "it may not be read",
            errno.ELOOP: "it is no plain file: links, folders and devices are not read",
            errno.ENOTDIR: "a part of it is no folder; links are not followed",
            errno.ENAMETOOLONG: "the name is too long",
        }.get(error.errno or 0, error.strerror or "it cannot be read")
        raise NotReadable(f"{path[:200]!r}: {why}") from error
