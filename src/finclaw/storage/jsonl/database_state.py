"""The database's knowledge of conversations that are kept in files: how far each has come, and which turns it has."""

from collections.abc import Mapping, Sequence

import apsw
from msgspec import Struct

from finclaw.storage.sqlite.codec import PublicIds, write


class ConversationState(Struct, frozen=True, kw_only=True):
    """The database's state of a conversation that is kept in files."""

    version: int
    cleared: int
    """The version that its last reset made; whatever is older is forgotten."""
    began: int
    live: frozenset[str]
    """Of the turns that were asked for: those that have not ended."""
    ended: Mapping[str, int]
    """Those that were folded, with the number of their events."""


def read_state(db: apsw.Connection, ids: PublicIds, key: str, turns: Sequence[str]) -> ConversationState | None:
    """None: there is no such session."""
    found = db.execute("SELECT id, version, cleared, created_at FROM session WHERE key = ?", (key,)).fetchone()
    if found is None:
        return None
    session, version, cleared, began = map(int, found)
    rows = {
        turn: db.execute(
            "SELECT ended_at, last_event FROM turn WHERE id = ? AND session = ?", (ids.row(turn), session)
        ).fetchone()
        for turn in turns
    }
    return ConversationState(
        version=version,
        cleared=cleared,
        began=began,
        live=frozenset(turn for turn, row in rows.items() if row is not None and row[0] is None),
        ended={turn: int(row[1]) for turn, row in rows.items() if row is not None and row[1] is not None},
    )


def start_times(db: apsw.Connection, keys: Sequence[str]) -> dict[str, int]:
    """When each of these sessions began, as far as they are there."""
    rows = db.execute(
        "SELECT key, created_at FROM session WHERE key IN (SELECT value FROM json_each(?))", (write(keys),)
    )
    return {str(key): int(at) for key, at in rows}
