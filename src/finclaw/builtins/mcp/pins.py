"""Pins: which definition of each tool the operator has let in, and whether anybody has read it.

Another definition, by a single byte, is not that tool. One that nobody has read is a stranger's text like any other.
A tool is known by its name here, as grants and rules know it: `get.time` and `get_time` are the same `clock__get_time`,
so the one does not take the other's place unseen.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.builtins.mcp.definition import ReadTool, local_name
from finclaw.errors import ExtensionError
from finclaw.kernel.extension import Database, Transaction

MIGRATIONS: Final = (
    """CREATE TABLE pins (
        server TEXT NOT NULL, tool TEXT NOT NULL,
        pinned TEXT, pinned_text TEXT,
        offered TEXT NOT NULL, offered_text TEXT NOT NULL, offered_at TEXT NOT NULL,
        PRIMARY KEY (server, tool)
    ) STRICT, WITHOUT ROWID""",
    "ALTER TABLE pins ADD COLUMN is_read INTEGER NOT NULL DEFAULT 0",
)
_MOST: Final = 500
"""Tools of one server that are remembered: one that invents new ones each time must not fill the disk."""


class Pin(Struct, frozen=True, kw_only=True):
    """`pinned` is what was let in, if anything was; `offered` what the server showed last.

    `is_read`: somebody has approved what is pinned. Else it was let in at first sight.
    """

    server: str
    tool: str
    pinned: str | None = None
    pinned_text: str | None = None
    offered: str = ""
    offered_text: str = ""
    offered_at: str = ""
    is_read: int = 0

    @property
    def holds(self) -> bool:
        return self.pinned == self.offered

    @property
    def state(self) -> str:
        if self.pinned is None:
            return "new"
        if not self.holds:
            return "changed"
        return "pinned" if self.is_read else "unread"


class Pins:
    """The pins in their database.

    Every read and write is one transaction in the extension's own file, so a terminal may approve meanwhile.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def every(self) -> Sequence[Pin]:
        return await self._database.transaction(lambda rows: _read(rows, ""))

    async def see(self, server: str, tools: Sequence[ReadTool], now: datetime, *, trust_new: bool) -> dict[str, Pin]:
        """Note what a server shows, and give what is known of each of these tools now, by its name here."""
        return await self._database.transaction(lambda rows: _see(rows, server, tools, now, trust_new))

    async def approve(self, server: str, tool: str, digest: str | None = None) -> Pin:
        """Let in what the server showed last; a digest makes sure that it is what was looked at."""
        return await self._database.transaction(lambda rows: _approve(rows, server, tool, digest))


def _see(rows: Transaction, server: str, tools: Sequence[ReadTool], now: datetime, trust_new: bool) -> dict[str, Pin]:
    known = _by_local_name(rows, server)
    names = [local_name(server, each.definition.name) for each in tools]
    for name, each in zip(names, tools, strict=True):
        pin = known.get(name)
        if pin is None:
            if len(known) >= _MOST:
                continue
            pin = Pin(server=server, tool=each.definition.name)
            if trust_new:
                pin = replace(pin, pinned=each.digest, pinned_text=each.text)
        if pin.offered == each.digest:
            continue
        offered_at = now.isoformat(timespec="seconds")
        known[name] = replace(pin, offered=each.digest, offered_text=each.text, offered_at=offered_at)
        _write(rows, known[name])
    return {name: known[name] for name in names if name in known}


def _by_local_name(rows: Transaction, server: str) -> dict[str, Pin]:
    """The pins of a server, one for each name here.

    Earlier releases kept one for each name on the server. Of several that are the same name here, the one that
    somebody has read counts, and else the one that was seen first; the others are forgotten.
    """
    known: dict[str, Pin] = {}
    for pin in sorted(_read(rows, "WHERE server = ?", server), key=lambda each: (-each.is_read, each.offered_at)):
        if known.setdefault(local_name(server, pin.tool), pin) is not pin:
            rows.execute("DELETE FROM pins WHERE server = ? AND tool = ?", (server, pin.tool))
    return known


def _approve(rows: Transaction, server: str, tool: str, digest: str | None) -> Pin:
    pin = _by_local_name(rows, server).get(local_name(server, tool))
    if pin is None:
        raise ExtensionError(f"no tool {tool!r} of a server {server!r} was ever seen; look at: finclaw mcp pins")
    if digest is not None and (len(digest) < 8 or not pin.offered.startswith(digest)):
        raise ExtensionError(f"{tool!r} is {pin.offered[:12]} by now, not {digest}; look again: finclaw mcp pins")
    _write(rows, replace(pin, pinned=pin.offered, pinned_text=pin.offered_text, is_read=1))
    return pin


_COLUMNS: Final = "server, tool, pinned, pinned_text, offered, offered_text, offered_at, is_read"


def _read(rows: Transaction, where: str, *values: str) -> list[Pin]:
    found = rows.execute(f"SELECT {_COLUMNS} FROM pins {where} ORDER BY server, tool", values)
    return [Pin(**dict(zip(_COLUMNS.split(", "), row, strict=True))) for row in found]


def _write(rows: Transaction, pin: Pin) -> None:
    values = [getattr(pin, column) for column in _COLUMNS.split(", ")]
    renewed = ", ".join(f"{column} = excluded.{column}" for column in _COLUMNS.split(", ")[2:])
    rows.execute(
        f"INSERT INTO pins ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
        f"ON CONFLICT (server, tool) DO UPDATE SET {renewed}",
        values,
    )
