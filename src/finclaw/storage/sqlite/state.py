"""What extensions remember: one JSON value each, and one each per session."""

from typing import Any, Final

import apsw
import msgspec

from finclaw.errors import SessionError

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
    row = db.execute("SELECT body FROM state WHERE extension = ? AND session = ?", (extension, session)).fetchone()
    return None if row is None else msgspec.json.decode(str(row[0]))


def remember(db: apsw.Connection, extension: str, session: str, text: str) -> None:
    db.execute(
        "INSERT INTO state (extension, session, body) VALUES (?, ?, ?) "
        "ON CONFLICT (extension, session) DO UPDATE SET body = excluded.body",
        (extension, session, text),
    )


def forget(db: apsw.Connection, extension: str, session: str) -> None:
    db.execute("DELETE FROM state WHERE extension = ? AND session = ?", (extension, session))
