"""A migrated database in memory, of which every new one in this process becomes a copy.

The migrations take 15 ms, and a run of the tests makes thousands of databases. The template has gone through all of
them; a database of an older version, one on a disk that fails, and those of other processes still do so themselves.

Nor do databases in this process wait for the disk: only a loss of power could tell, and its tests have their own disk.
"""

import secrets
from functools import cache
from pathlib import Path

import apsw

from finclaw.storage.sqlite import database

_migrate = database._migrate  # pyright: ignore[reportPrivateUsage]
_SYSTEMS_OWN = apsw.vfs_names()[0]
"""The file system, before any test puts a disk of its own in its place."""


def copy_template_for_new_databases() -> None:
    database._migrate = _copy_or_migrate  # pyright: ignore[reportPrivateUsage]


@cache
def _template() -> apsw.Connection:
    template = apsw.Connection(":memory:")
    template.execute(f"PRAGMA page_size = {database.PAGE_SIZE}")
    template.create_scalar_function("exactly", database.exactly, 2, deterministic=True)
    _migrate(template, Path(":memory:"))
    return template


def _copy_or_migrate(db: apsw.Connection, path: Path) -> None:
    vfs = str(getattr(db, "open_vfs"))  # noqa: B009 - unknown to its type stub
    if vfs != apsw.vfs_names()[0]:
        _migrate(db, path)
        return
    if vfs == _SYSTEMS_OWN:
        db.execute("PRAGMA synchronous = OFF")
    if db.pragma("user_version") or db.execute("SELECT 1 FROM sqlite_schema").fetchone():
        _migrate(db, path)
        return
    with db.backup("main", _template(), "main") as backup:
        backup.step()
    db.execute("UPDATE meta SET value = ? WHERE key = 'name'", (secrets.token_hex(4),))
