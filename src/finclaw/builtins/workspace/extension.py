"""The workspace extension: one tool that reads a file of it, and one that lists a folder."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.builtins.workspace.root import DirectoryEntry, NotReadable, Root
from finclaw.builtins.workspace.text import TextPage, decode, page
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_SHOWN: Final = 500
"""Entries of a folder."""

Path = Annotated[str, Meta(max_length=1_024, description="From the workspace on, such as reports/2026.md")]


class WorkspaceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    root: str = ""
    """The directory whose files may be read. There is no other, and without it the extension does not start."""
    largest: Annotated[int, Meta(ge=1, le=100_000_000)] = 5_000_000
    """Bytes of a file that is read; a larger one is refused."""


class Read(Struct, frozen=True, forbid_unknown_fields=True):
    path: Path
    start_line: Annotated[int, Meta(ge=1, description="The first line to read, counted from 1.")] = 1
    lines: Annotated[int, Meta(ge=1, le=2_000, description="How many lines at most.")] = 400


class List(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(max_length=1_024, description="A folder; left out, the workspace itself.")] = ""


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
        return "\n".join([*_about(args.path, encoding, shown), "", *shown.lines])

    def _list(self, args: List) -> str:
        entries, hidden = self._root.entries(args.path)
        lines = [f"folder: {args.path.strip('/') or '.'}", f"entries: {len(entries)}"]
        lines += [f"note: {hidden} hidden entries, links and devices are not shown"] if hidden else []
        lines += [f"note: only the first {_SHOWN} are shown"] if len(entries) > _SHOWN else []
        return "\n".join([*lines, "", *map(_line, entries[:_SHOWN])]).rstrip()


def _about(path: str, encoding: str, shown: TextPage) -> Iterator[str]:
    yield f"path: {path}"
    yield f"encoding: {encoding}"
    yield f"lines: {shown.first}-{shown.last} of {shown.total}" if shown.lines else "lines: none, the file is empty"
    if shown.is_cut:
        yield "note: this line is longer than a page, and its end is left out"
    if shown.last < shown.total:
        yield f"next: start_line {shown.last + 1}"


def _line(entry: DirectoryEntry) -> str:
    if entry.is_folder:
        return f"{entry.name}/"
    return f"{entry.name} ({entry.size:,} bytes, {entry.modified:%Y-%m-%d %H:%M} UTC)"
