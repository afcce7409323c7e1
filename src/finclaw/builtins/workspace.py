"""The workspace extension: two tools that read files of one directory, and nothing outside of it or hidden in it.

A path is walked name by name. Each name is opened relative to the open directory before it and never through a link, so
what was checked is what is open, whatever somebody does to the directory meanwhile.
"""

import asyncio
import codecs
import errno
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from finclaw.errors import ExtensionError, ToolError
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

LONGEST_PAGE: Final = 40_000
"""Characters. What is longer fills a model's window with one look."""
_MOST_SHOWN: Final = 500  # entries of a folder
_MOST_ENTRIES: Final = 10_000
_STATE_FILES: Final = ("lock", "finclaw.db")
"""Files of every state directory. It holds tokens and conversations, so it is never read."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),  # begins as UTF-16 does, so it is asked first
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
_KNOWN: Final = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "an archive or an office document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\x1f\x8b": "a compressed file",
    b"\xd0\xcf\x11\xe0": "an office document",
    b"SQLite format 3": "a database",
    b"\x7fELF": "a program",
}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

name = "workspace"


def register(api: ExtensionApi) -> None:
    Workspace(api.read_settings(WorkspaceSettings)).register(api)


class WorkspaceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    root: str = ""
    """The directory whose files may be read. There is no other, and without it the extension does not start."""
    largest: Annotated[int, Meta(ge=1, le=100_000_000)] = 5_000_000
    """Bytes of a file that is read; a larger one is refused."""


class Read(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(max_length=1_024, description="From the workspace on, such as reports/2026.md")]
    start_line: Annotated[int, Meta(ge=1, description="The first line to read, counted from 1.")] = 1
    lines: Annotated[int, Meta(ge=1, le=2_000, description="How many lines at most.")] = 400


class List(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(max_length=1_024, description="A folder; left out, the workspace itself.")] = ""


class NotReadable(ToolError):
    """A path that cannot be read. The message says which, why not, and what to do."""


class NoText(ToolError):
    pass


class OpenFile(NamedTuple):
    content: bytes
    size: int
    """The size of the whole file; the content may be shorter."""


class DirectoryEntry(NamedTuple):
    name: str
    is_folder: bool
    size: int
    modified: datetime


class TextPage(NamedTuple):
    lines: list[str]
    first: int
    total: int
    is_cut: bool
    """The only line is longer than a page."""

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


class Workspace:
    name = "workspace"

    def __init__(self, settings: WorkspaceSettings) -> None:
        self._largest = settings.largest
        self._root = Root(settings.root)

    def register(self, api: ExtensionApi) -> None:
        for each in self.tools():
            api.tools.register(each)

    def tools(self) -> tuple[Tool, ...]:
        @tool("files__read", "Reads a text file of the workspace, or some of its lines.", group="data")
        async def read(args: Read, scope: ToolScope) -> ToolOutput:
            return ToolOutput(await asyncio.to_thread(self._read, args))

        @tool("files__list", "Lists the files and folders in a folder of the workspace.", group="data")
        async def list_folder(args: List, scope: ToolScope) -> ToolOutput:
            return ToolOutput(await asyncio.to_thread(self._list, args))

        return (read, list_folder)

    def _read(self, args: Read) -> str:
        file = self._root.read(args.path, self._largest + 1)
        if max(file.size, len(file.content)) > self._largest:
            raise NotReadable(
                f"{args.path!r} has {file.size:,} bytes, and {self._largest:,} are read at most; "
                "ask for a shorter file, or for a larger setting `largest`"
            )
        text, encoding = decode(file.content)
        shown = page(text, args.start_line, args.lines)
        return "\n".join([*_describe_page(args.path, encoding, shown), "", *shown.lines])

    def _list(self, args: List) -> str:
        entries, hidden = self._root.entries(args.path)
        lines = [f"folder: {args.path.strip('/') or '.'}", f"entries: {len(entries)}"]
        if hidden:
            lines.append(f"note: {hidden} hidden entries, links and devices are not shown")
        if len(entries) > _MOST_SHOWN:
            lines.append(f"note: only the first {_MOST_SHOWN} are shown")
        lines.append("")
        for entry in entries[:_MOST_SHOWN]:
            size = f"{entry.size:,} bytes, {entry.modified:%Y-%m-%d %H:%M} UTC"
            lines.append(f"{entry.name}/" if entry.is_folder else f"{entry.name} ({size})")
        return "\n".join(lines).rstrip()


def _describe_page(path: str, encoding: str, shown: TextPage) -> Iterator[str]:
    yield f"path: {path}"
    yield f"encoding: {encoding}"
    yield f"lines: {shown.first}-{shown.last} of {shown.total}" if shown.lines else "lines: none, the file is empty"
    if shown.is_cut:
        yield "note: this line is longer than a page, and its end is left out"
    if shown.last < shown.total:
        yield f"next: start_line {shown.last + 1}"


# ── the directory ───────────────────────────────────────────────────────────────────────────────────────────


class Root:
    def __init__(self, directory: str) -> None:
        """Raises ExtensionError, which stops the start."""
        self._path = _usable(directory)

    def read(self, path: str, most: int) -> OpenFile:
        """The first `most` bytes. Raises NotReadable."""
        names = _names(path)
        if not names:
            raise NotReadable(f"{path!r} is the workspace itself; files__list shows what is in it")
        with _explain_errors(path), self._folder(names[:-1]) as folder, _file(names[-1], folder) as file:
            status = os.fstat(file)
            if status.st_nlink > 1:  # a second name of it may lie anywhere on the disk, also beside our token
                raise NotReadable(
                    f"{path!r} has {status.st_nlink} names (hard links) and may also lie outside of the workspace, "
                    "so it is not read; ask the person to put a copy of it there"
                )
            with open(file, "rb", closefd=False) as content:
                return OpenFile(content.read(most), status.st_size)

    def entries(self, path: str) -> tuple[list[DirectoryEntry], int]:
        """The visible entries by name, and the number of hidden ones. Raises NotReadable."""
        visible: list[DirectoryEntry] = []
        hidden = 0
        with _explain_errors(path), self._folder(_names(path)) as folder, os.scandir(folder) as found:
            for each in found:
                if len(visible) + hidden == _MOST_ENTRIES:
                    raise NotReadable(f"{path!r} has more than {_MOST_ENTRIES:,} entries; nobody can list them here")
                entry = _entry(each, folder)
                if entry is None:
                    hidden += 1
                else:
                    visible.append(entry)
        return sorted(visible), hidden

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
        if not name.isprintable():
            raise NotReadable(f"{path!r} holds characters that no name here has")
    return names


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


def _entry(found: os.DirEntry[str], folder: int) -> DirectoryEntry | None:
    """None for what is hidden, and for a name that is not printable: it could look like a separate line."""
    if found.name.startswith(".") or not found.name.isprintable():
        return None
    try:
        status = found.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed since it was listed
        return None
    is_folder = S_ISDIR(status.st_mode)
    if not (is_folder or S_ISREG(status.st_mode)) or (is_folder and _is_state(folder, f"{found.name}/")):
        return None
    return DirectoryEntry(found.name, is_folder, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


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


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────


def decode(content: bytes) -> tuple[str, str]:
    """The text and its encoding. Raises NoText."""
    for magic, kind in _KNOWN.items():
        if content.startswith(magic):
            raise NoText(f"this is {kind}, not text; ask for it as text, Markdown or CSV")
    for mark, codec, encoding in _MARKS:
        if content.startswith(mark):
            return _decode_text(content, codec), encoding
    for codec, encoding in (("utf-8", "UTF-8"), ("cp949", "CP949")):
        try:
            return _decode_text(content, codec), encoding
        except NoText:
            continue
    raise NoText("this is no text in UTF-8, UTF-16 or CP949; ask for it as text, Markdown or CSV")


def _decode_text(content: bytes, codec: str) -> str:
    try:
        text = content.decode(codec)
    except UnicodeDecodeError as error:
        raise NoText("this claims to be text and is not; it may be damaged") from error
    if _CONTROL.search(text):
        raise NoText("this holds control characters, as only programs and pictures do; it is not text")
    return text


def page(text: str, start: int, count: int) -> TextPage:
    """Up to `count` lines from line `start` (counted from one) that fit a page. Raises NoText beyond the end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []
    if start > max(len(lines), 1):
        raise NoText(f"there is no line {start:,}: the file has {len(lines):,}")
    wanted = lines[start - 1 : start - 1 + count]
    if wanted and len(wanted[0]) >= LONGEST_PAGE:
        return TextPage([wanted[0][:LONGEST_PAGE]], start, len(lines), is_cut=True)
    room = LONGEST_PAGE
    for index, line in enumerate(wanted):
        room -= len(line) + 1
        if room < 0:
            return TextPage(wanted[:index], start, len(lines), is_cut=False)
    return TextPage(wanted, start, len(lines), is_cut=False)
