"""Sessions as wholes: listed, filled from a copy, mended. Each function is one all-or-nothing piece of a commit."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import apsw

from finclaw.errors import SessionError
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message
from finclaw.kernel.record import IntegrityFinding, SessionPage, SessionRecord
from finclaw.storage.blobs import rows as blobs
from finclaw.storage.sqlite import conversation, facts, pages, transcript
from finclaw.storage.sqlite.codec import from_micros, to_micros
from finclaw.text import fix_surrogates
from finclaw.transcript.integrity import mend

EMPTY_FOR: Final = timedelta(days=1)
"""How long a session that holds no message stays listed."""


def page(db: apsw.Connection, limit: int, after: str | None, containing: str, now: datetime) -> SessionPage:
    """By last use and row number, going back from the last one seen: whoever moves to the front disturbs nobody.

    What holds no message, was not used for a day and has none that waits is listed only to who asks for a part of
    its key.
    """
    used, row = _read_cursor(after)
    since = 0 if containing else to_micros(now - EMPTY_FOR)
    found = db.execute(
        "SELECT id, key, created_at, updated_at, messages, turns FROM session "
        "WHERE (updated_at, id) < (?, ?) AND instr(key, ?) > 0 AND (messages != 0 OR updated_at >= ? "
        "OR EXISTS (SELECT 1 FROM inbound WHERE inbound.session = session.id AND kind IS NULL)) "
        "ORDER BY updated_at DESC, id DESC LIMIT ?",
        (used, row, fix_surrogates(containing), since, limit + 1),
    ).fetchall()
    shown = found[:limit]
    items = tuple(
        SessionRecord(
            key=key, created_at=from_micros(created), updated_at=from_micros(used), messages=messages, turns=turns
        )
        for _, key, created, used, messages, turns in shown
    )
    cursor = None
    if len(found) > limit and shown:
        last, _, _, used, *_ = shown[-1]
        cursor = f"{used:x}-{last:x}"
    return SessionPage(items=items, after=cursor)


_LAST = (1 << 63) - 1


def _read_cursor(after: str | None) -> tuple[int, int]:
    if after is None:
        return _LAST, _LAST
    if not re.fullmatch("-?[0-9a-f]{1,15}-[0-9a-f]{1,15}", after):
        raise SessionError("this is no place in the list of sessions; start again without one")
    used, _, row = after.rpartition("-")
    return int(used, 16), int(row, 16)


def restore(db: apsw.Connection, key: str, messages: Sequence[Message], earlier: Sequence[Fact], now: datetime) -> None:
    """`earlier` are facts that no message tells any more."""
    transcript.add(db, fill(db, key, messages, earlier, now), messages)


def fill(db: apsw.Connection, key: str, messages: Sequence[Message], earlier: Sequence[Fact], now: datetime) -> int:
    """Make a session with all that is kept beside these messages, of which nobody knows an older state; return its
    row. Its version is one that no copy in memory can have, not even of a namesake that was removed."""
    if len({message.id for message in messages}) < len(messages):
        raise SessionError("two of the messages have the same id; ids are unique in a conversation")
    at = to_micros(now)
    session, held = db.execute(
        "INSERT INTO session (key, created_at, updated_at, epoch, version) VALUES (?1, ?2, ?2, 1, ?2) "
        "ON CONFLICT (key) DO UPDATE SET updated_at = excluded.updated_at, epoch = epoch + 1, "
        "version = max(version + 1, excluded.version) RETURNING id, messages",
        (key, at),
    ).fetchall()[0]
    if held:
        raise SessionError(f"session {key!r} has {held} messages already; choose another key, or reset it first")
    if db.execute("SELECT 1 FROM inbound WHERE session = ? AND kind IS NULL", (session,)).fetchone():
        raise SessionError(f"session {key!r} has a message that is not answered yet; try again when it is")
    facts.restore(db, session, messages, earlier)
    blobs.use(db, "session", session, blobs.blobs_in(messages))
    return int(session)


def repair(db: apsw.Connection, key: str, *, dry_run: bool) -> tuple[IntegrityFinding, ...]:
    """Make the conversation whole. The epoch stays: a turn that runs meanwhile goes on. Messages up to the first
    change stay in their rows, and the rest gets new ones: no row ever means another message."""
    session = conversation.session_row(db, key)
    if session is None:
        return ()
    old = transcript.messages(db, session)
    mended = mend(old)
    if mended.messages != old and not dry_run:
        pages.unpack(db, session)
        rows = db.execute("SELECT id FROM message WHERE session = ? ORDER BY id", (session,)).fetchall()
        last = transcript.last_message(db)
        same = _common(old, mended.messages)
        db.executemany("DELETE FROM message WHERE id = ?", rows[same:])
        transcript.add(db, session, mended.messages[same:], last)
        db.execute("UPDATE session SET version = version + 1 WHERE id = ?", (session,))
    return mended.findings


def _common(old: Sequence[Message], fresh: Sequence[Message]) -> int:
    pairs = enumerate(zip(old, fresh, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(old), len(fresh)))
