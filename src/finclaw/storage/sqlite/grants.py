"""Grants as rows: approvals that hold more than once, for exactly this action and exactly this person."""

from datetime import datetime
from typing import Any

import apsw

from finclaw.kernel.approval import Approval, ApprovalScope, Grant
from finclaw.storage.sqlite.codec import from_micros, to_micros

_SELECT = "SELECT id, tool, hash, requester, session, granted_by, granted_at FROM standing_grant "


def give(db: apsw.Connection, asked: Approval, scope: ApprovalScope, by: str, now: datetime) -> None:
    session = asked.session if scope == "session" else None
    db.execute(
        "INSERT INTO standing_grant (id, tool, hash, requester, session, granted_by, granted_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (asked.id, asked.tool, asked.hash, asked.asked_by, session, by, to_micros(now)),
    )


def find_grant(db: apsw.Connection, tool: str, action: str, requester: str, session: str) -> Grant | None:
    row = db.execute(
        _SELECT + "WHERE requester = ? AND hash = ? AND tool = ? AND (session IS NULL OR session = ?) "
        "ORDER BY rowid LIMIT 1",
        (requester, action, tool, session),
    ).fetchone()
    return None if row is None else _read(row)


def list_grants(db: apsw.Connection, limit: int) -> list[Grant]:
    return [_read(row) for row in db.execute(_SELECT + "ORDER BY rowid DESC LIMIT ?", (limit,)).fetchall()]


def revoke(db: apsw.Connection, grant_id: str) -> bool:
    db.execute("DELETE FROM standing_grant WHERE id = ?", (grant_id,))
    return bool(db.changes())


def forget(db: apsw.Connection, session: str) -> None:
    """The conversation starts anew: what was granted for it ends with it."""
    db.execute("DELETE FROM standing_grant WHERE session = ?", (session,))


def _read(row: tuple[Any, ...]) -> Grant:
    name, tool, action, requester, session, by, at = row
    return Grant(
        id=str(name),
        tool=str(tool),
        hash=str(action),
        requester=str(requester),
        session=None if session is None else str(session),
        granted_by=str(by),
        granted_at=from_micros(int(at)),
    )
