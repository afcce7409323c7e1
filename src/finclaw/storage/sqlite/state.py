"""Extension state: one JSON value for each extension, and one for each of its sessions."""

from typing import Any, Final

import apsw
import msgspec

from finclaw.errors import SessionError, Superseded

LARGEST: Final = 1_048_576
"""Bytes of one value. It is written whole each time; what is larger belongs into the extension's own database."""


def encode(extension: str, value: Any) -> str:
    """Before the commit, so that whoever gave a value that cannot be kept hears it at once."""
    try:
        text = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise SessionError(f"extension {extension!r} cannot keep this as JSON: {error}") from error
    if len(text) > LARGEST:
        size = f"{len(text)} bytes; {LARGEST} are possible"
        raise SessionError(f"the state of extension {extension!r} has {size}: keep more in api.database")
    return text.decode()


def recall(db: apsw.Connection, extension: str, session: str) -> Any:
    text = db.execute("SELECT body FROM state WHERE extension = ? AND session = ?", (extension, session)).get
    return text and msgspec.json.decode(text)


def recall_sessions(db: apsw.Connection, extension: str) -> dict[str, Any]:
    rows = db.execute("SELECT session, body FROM state WHERE extension = ? AND session != ''", (extension,))
    return {str(session): msgspec.json.decode(str(body)) for session, body in rows}


def remember(db: apsw.Connection, extension: str, session: str, text: str, turn: int | None = None) -> None:
    """`turn` is the one that remembers it, if it is one: a reset that took its conversation took this with it. Also
    where the turn has ended: a tool that ignored its cancellation at the reset still knows what was forgotten."""
    superseded = db.execute(
        "SELECT 1 FROM turn JOIN session ON session.id = turn.session "
        "WHERE turn.id = ? AND key = ? AND turn.epoch < session.epoch",
        (turn, session),
    ).fetchone()
    if superseded is not None:
        raise Superseded("the session was reset since this turn began; what it wants to remember of it is not kept")
    db.execute(
        "INSERT INTO state (extension, session, body) VALUES (?, ?, ?) "
        "ON CONFLICT (extension, session) DO UPDATE SET body = excluded.body",
        (extension, session, text),
    )


def forget(db: apsw.Connection, extension: str, session: str) -> None:
    db.execute("DELETE FROM state WHERE extension = ? AND session = ?", (extension, session))


def forget_session(db: apsw.Connection, session: str) -> None:
    """What any extension remembers of this session; what is not of a session is no conversation's, and stays."""
    if session:
        # From name to name: the table is filed by extension, and may hold a value for every session there ever was.
        db.execute(
            "WITH RECURSIVE names (name) AS (SELECT min(extension) FROM state UNION ALL "
            "SELECT (SELECT min(extension) FROM state WHERE extension > name) FROM names WHERE name IS NOT NULL) "
            "DELETE FROM state WHERE extension IN (SELECT name FROM names) AND session = ?",
            (session,),
        )
