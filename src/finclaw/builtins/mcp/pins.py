"""Definitions of the tools of MCP servers, and pins: which definition of each tool the operator has let in.

A definition that differs by a single byte is another tool. One that nobody has approved is untrusted text. A tool is
known by its name here, as grants and rules know it: `get.time` and `get_time` are the same `clock__get_time`, so the
one does not take the other's place unseen.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.extension import Database, Transaction
from finclaw.redaction import hide_and_cut, hide_known_secrets
from finclaw.redaction.clean import clean
from finclaw.tools.arguments import must_be_schema
from finclaw.tools.schema_limits import must_be_bounded

_LARGEST: Final = 32_000  # characters of a whole definition
_LONGEST_DESCRIPTION: Final = 1_000  # characters of a description
_LONGEST_NAME: Final = 200
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_SHOWN_TO_MODELS: Final = ("description", "title")


class Definition(Struct, frozen=True):
    """A tool definition, exactly as the server gave it."""

    name: str
    description: str
    schema: dict[str, Any]

    def text(self) -> str:
        """The canonical JSON. Raises ExtensionError for what is too long or too deep."""
        if len(self.name) > _LONGEST_NAME:
            raise ExtensionError(f"its name has {len(self.name):,} characters, and {_LONGEST_NAME} are read at most")
        what = {"name": self.name, "description": self.description, "schema": self.schema}
        try:
            text = json.dumps(what, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise ExtensionError("its definition cannot be written as JSON") from error
        if len(text) > _LARGEST:
            raise ExtensionError(f"its definition has {len(text):,} characters, and {_LARGEST:,} are read at most")
        return text

    def digest(self) -> str:
        return hashlib.sha256(self.text().encode()).hexdigest()


class ReadTool(Struct, frozen=True):
    """A definition that was read: with the spec for the model, or with the reason why there is none."""

    definition: Definition
    digest: str = ""
    text: str = ""
    spec: ToolSpec | None = None
    problem: str = ""


def read_tool(server: str, definition: Definition) -> ReadTool:
    text = ""
    digest = ""
    try:
        text = definition.text()
        digest = hashlib.sha256(text.encode()).hexdigest()
        return ReadTool(definition, digest, text, spec_of(server, definition))
    except ExtensionError as error:
        problem = str(error)
    except RecursionError:
        problem = "its schema is nested too deep"
    return ReadTool(definition, digest, text, problem=problem)


def local_name(server: str, tool: str) -> str:
    return f"{server}__{_UNFIT.sub('_', tool[:64])}"[:64]


def spec_of(server: str, definition: Definition) -> ToolSpec:
    """What a model sees. Raises ExtensionError for a definition that hides something or that nobody can use."""
    schema = cast("dict[str, Any]", _visible(definition.schema))
    if _is_hiding(schema):
        raise ExtensionError("its schema has invisible characters in a name or a value")
    about = hide_known_secrets(clean(definition.description)).strip()
    if len(about) > _LONGEST_DESCRIPTION:
        about = f"{about[:_LONGEST_DESCRIPTION]}…"
    spec = ToolSpec(
        local_name(server, definition.name),
        f"[A tool of the MCP server {server}, described by that server and not by us] {about}".rstrip(),
        schema,
    )
    must_be_bounded(schema)
    must_be_schema(spec)
    return spec


def _visible(schema: Any) -> Any:
    """The same schema with its words cleaned. What a value means is not touched."""
    if isinstance(schema, list):
        return [_visible(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {key: _keyword(key, value) for key, value in cast("dict[str, Any]", schema).items()}


def _keyword(key: str, value: Any) -> Any:
    if key in _SHOWN_TO_MODELS and isinstance(value, str):
        return hide_and_cut(clean(value), _LONGEST_DESCRIPTION)
    if key == "properties" and isinstance(value, dict):  # names of the server's own, whatever they are
        return {name: _schema_object(_visible(each)) for name, each in cast("dict[str, Any]", value).items()}
    return _visible(value)


def _schema_object(schema: Any) -> Any:
    """Write the schemas `true` and `false` as objects, which is what most readers of a schema expect."""
    if schema is True:
        return {}
    if schema is False:
        return {"not": {}}
    return schema


def _is_hiding(node: Any) -> bool:
    if isinstance(node, str):
        return clean(node) != node
    if isinstance(node, list):
        return any(map(_is_hiding, cast("list[Any]", node)))
    if isinstance(node, dict):
        return any(clean(key) != key or _is_hiding(value) for key, value in cast("dict[str, Any]", node).items())
    return False


# ── pins ────────────────────────────────────────────────────────────────────────────────────────────────────

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
