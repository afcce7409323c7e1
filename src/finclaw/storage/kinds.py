"""Store selection. A state directory that holds conversations of the other kind is refused, so none are hidden."""

from pathlib import Path
from typing import Literal

import apsw

from finclaw.errors import ConfigError
from finclaw.kernel.event import Emit
from finclaw.kernel.port import Clock
from finclaw.kernel.store_port import Store
from finclaw.storage.jsonl.directory import SESSIONS, list_directories
from finclaw.storage.sqlite.database import DATABASE, close_quietly, explain, open_database
from finclaw.storage.sqlite.store import open_store

StoreKind = Literal["sqlite", "jsonl"]


def open_kind(kind: StoreKind, state: Path, clock: Clock, emit: Emit, *, threaded: bool = True) -> Store:
    """Raises ConfigError, StoreFailed or StoreCorrupt. Needs the state lock and a running loop."""
    path = state / DATABASE
    if kind == "sqlite":
        if list_directories(state / SESSIONS):
            raise _other("jsonl", f"in the files of {str(state / SESSIONS)!r}", "sqlite")
        return open_store(path, clock, threaded=threaded)
    from finclaw.storage.jsonl.store import open_jsonl_store  # noqa: PLC0415  start-up: another store

    db = open_database(path)
    try:
        has_conversations = db.execute(
            "SELECT EXISTS (SELECT 1 FROM message UNION ALL SELECT 1 FROM page UNION ALL SELECT 1 FROM event)"
        ).get
    except apsw.Error as error:
        close_quietly(db)
        raise explain(error, path) from error
    if has_conversations:
        close_quietly(db)
        raise _other("sqlite", f"in {str(path)!r}", "jsonl")
    return open_jsonl_store(state, path, clock, emit, threaded=threaded, database=db)


def _other(kept: StoreKind, where: str, wanted: StoreKind) -> ConfigError:
    return ConfigError(
        f"storage.kind is {wanted}, but this state has conversations {where}; write `storage: {{kind: {kept}}}` again, "
        f"or take them along: `finclaw sessions export` as {kept}, and `finclaw sessions import` as {wanted} "
        "into another directory, chosen with --state"
    )
