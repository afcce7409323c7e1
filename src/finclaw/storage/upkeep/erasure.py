"""SQL that erases sessions and what one person wrote. Each function is one all-or-nothing piece of a commit.

An erased message leaves a row without words: its number, which no other message may get, and the digest of its name,
by which a second delivery is recognised. Such a row belongs to session 0, which does not exist.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import apsw
from msgspec import Struct

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.message import Message
from finclaw.kernel.record import SenderId
from finclaw.kernel.scope import Outcome
from finclaw.storage.blobs import rows as blobs
from finclaw.storage.sqlite import approvals, conversation, facts, inbox, state
from finclaw.storage.sqlite.codec import PublicIds, events_of, read_outcome, units_of, write_outcome
from finclaw.storage.sqlite.database import is_marked_open
from finclaw.storage.sqlite.transcript import Transcript
from finclaw.transcript.approval_ids import read_approval_id, read_short_id

_APPROVAL_ID: Final = re.compile(r"ap-[0-9a-z]{4,}", re.IGNORECASE)
_WROTE: Final = "body ->> '$.sender.id'"
_A_PERSON: Final = "body ->> '$.said_by' IS NULL AND body ->> '$.limits' IS NULL"


class Target(Struct, frozen=True):
    """A session to erase: as a whole, or one person's part in it."""

    row: int
    key: str
    person: SenderId | None = None


def targets_of_session(db: apsw.Connection, ids: PublicIds, key: str) -> list[Target]:
    row = conversation.session_row(db, key)
    if row is None:
        return []
    return [Target(row, key), *_helpers(db, ids, [row])]


def sessions_written_in(db: apsw.Connection, person: SenderId) -> set[int]:
    rows = db.execute(
        f"SELECT DISTINCT session FROM inbound WHERE session > 0 AND {_WROTE} = ? "
        "AND body ->> '$.channel' = ? AND body ->> '$.account' = ?",
        (person.sender, person.channel, person.account),
    )
    return {int(row) for (row,) in rows}


def others_wrote_in(db: apsw.Connection, session: int, person: SenderId) -> bool:
    sql = f"SELECT 1 FROM inbound WHERE session = ? AND {_WROTE} != ? AND {_A_PERSON} LIMIT 1"
    return db.execute(sql, (session, person.sender)).fetchone() is not None


def senders(messages: Iterable[Message]) -> set[str]:
    return {message.source.id for message in messages if message.source.kind == "user" and message.source.id}


def all_sessions(db: apsw.Connection) -> list[tuple[int, str]]:
    return [(int(row), str(key)) for row, key in db.execute("SELECT id, key FROM session ORDER BY id")]


def with_helpers(db: apsw.Connection, ids: PublicIds, targets: Sequence[Target]) -> list[Target]:
    known = {target.row for target in targets}
    helpers = _helpers(db, ids, [target.row for target in targets])
    return [*targets, *(helper for helper in helpers if helper.row not in known)]


def _helpers(db: apsw.Connection, ids: PublicIds, sessions: Sequence[int]) -> list[Target]:
    """The sessions of helpers are held under the id of the turn that started them."""
    place = f":{ids.turn(0)[:-1]}"
    found: list[Target] = []
    for row, key in all_sessions(db):
        parts = key.split(":")
        if place not in key or len(parts) < 5:
            continue
        parent = ids.row(parts[4].partition("+")[0])
        owner = db.execute("SELECT session FROM inbound WHERE id = ?", (parent,)).fetchone()
        if owner is not None and owner[0] in sessions:
            found.append(Target(row, key))
    return found


def count(db: apsw.Connection, target: Target) -> int:
    return len(_rows(db, target))


def erase(db: apsw.Connection, transcript: Transcript, target: Target) -> int:
    """Gives the number of messages whose words are gone. Raises SessionError while one waits for its answer."""
    if conversation.session_row(db, target.key) != target.row:
        return 0
    if db.execute("SELECT 1 FROM inbound WHERE session = ? AND kind IS NULL", (target.row,)).fetchone():
        advice = "stop it (/stop, or POST /api/v1/messages/ID/stop) or wait, then try again"
        raise SessionError(f"session {target.key!r} has a message that is not answered yet; {advice}")
    db.execute("PRAGMA secure_delete = ON")
    try:
        return _erase(db, transcript, target)
    finally:
        db.execute("PRAGMA secure_delete = OFF")


def _erase(db: apsw.Connection, transcript: Transcript, target: Target) -> int:
    rows = _rows(db, target)
    quoted = [str(name) for (name,) in db.execute("SELECT id FROM approval WHERE session = ?", (target.key,))]
    elsewhere = _messages_quoting(db, quoted, target.row)
    _remove_words(db, [*rows, *elsewhere])
    db.execute("DELETE FROM standing_grant WHERE id IN (SELECT id FROM approval WHERE session = ?)", (target.key,))
    db.execute("DELETE FROM approval WHERE session = ?", (target.key,))
    approvals.forget_grants(db, target.key)
    state.forget_session(db, target.key)
    if target.person is None:
        remove_session(db, transcript, target.row)
    else:
        _remove_answers(db, target.row, min(rows, default=0))
        conversation.reset(db, transcript, target.key)
    return len(rows) + len(elsewhere)


def _rows(db: apsw.Connection, target: Target) -> list[int]:
    sender = target.person and target.person.sender
    sql = f"SELECT id FROM inbound WHERE session = ?1 AND (?2 IS NULL OR {_WROTE} = ?2)"
    return [int(row) for (row,) in db.execute(sql, (target.row, sender))]


def erase_decisions(db: apsw.Connection, person: SenderId) -> int:
    """Erase the reasons that this person gave for decisions about others' approvals, and messages that quote them."""
    sql = "UPDATE approval SET reason = '' WHERE decided_by = ? AND reason != '' RETURNING id"
    decided = db.execute(sql, (str(person),)).fetchall()
    elsewhere = _messages_quoting(db, [str(name) for (name,) in decided], 0)
    _remove_words(db, elsewhere)
    return len(elsewhere)


def _messages_quoting(db: apsw.Connection, approvals: Sequence[str], session: int) -> list[int]:
    """Messages elsewhere that show these approvals: cards sent to approvers, and the answers to their decisions."""
    if not approvals:
        return []
    found: list[int] = []
    sql = "SELECT id, body FROM inbound WHERE session NOT IN (0, ?) AND kind IS NOT NULL AND body LIKE '%ap-%'"
    for row, body in db.execute(sql, (session,)).fetchall():
        shown = {read_approval_id(name) or read_short_id(name) or "?" for name in _APPROVAL_ID.findall(str(body))}
        if any(name.startswith(tuple(shown)) for name in approvals):
            found.append(int(row))
    return found


def _remove_words(db: apsw.Connection, rows: Iterable[int]) -> None:
    sql = "UPDATE inbound SET session = 0, body = '{}', digest = zeroblob(16), state = 'ended', kind = ? WHERE id = ?"
    for row in rows:
        remove_what_followed(db, row)
        db.execute(sql, (inbox.ERASED, row))


def _remove_answers(db: apsw.Connection, session: int, since: int) -> None:
    """Answers to others: each may quote what the person had said before."""
    rows = db.execute("SELECT id FROM inbound WHERE session = ? AND id >= ?", (session, since)).fetchall()
    for (row,) in rows:
        _remove_answer(db, int(row))
        ended = db.execute("SELECT body FROM outcome WHERE id = ?", (row,)).fetchone()
        if ended is not None:
            left = Outcome(kind=read_outcome(str(ended[0])).kind, reason="erased with what somebody else had said")
            db.execute("UPDATE outcome SET body = ? WHERE id = ?", (write_outcome(left), row))


def remove_what_followed(db: apsw.Connection, row: int) -> None:
    """Remove everything about a message but its own row and its facts."""
    _remove_answer(db, row)
    db.execute("DELETE FROM outcome WHERE id = ?", (row,))
    inbox.forget_joined(db, row)
    conversation.remove_carried_over(db, [row])
    blobs.release(db, "message", row)


def _remove_answer(db: apsw.Connection, row: int) -> None:
    db.execute("DELETE FROM unit_body WHERE id BETWEEN ? AND ?", units_of(row))
    db.execute("DELETE FROM unit WHERE id BETWEEN ? AND ?", units_of(row))
    db.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", events_of(row))
    db.execute("DELETE FROM turn WHERE id = ?", (row,))
    blobs.release(db, "answer", row)


def remove_session(db: apsw.Connection, transcript: Transcript, row: int) -> None:
    transcript.clear(db, row)
    facts.forget_session(db, row)
    blobs.release(db, "session", row)
    db.execute("DELETE FROM session WHERE id = ?", (row,))


def scrub(db: apsw.Connection) -> None:
    """Rebuild the file, so that no free page holds what was removed before, and empty the journal."""
    db.execute("VACUUM")
    busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    if busy:
        raise StoreFailed(
            "what was erased is gone from the records, but its journal could not be emptied because another program "
            "reads the database; run the same command again when that has ended"
        )
    if is_marked_open(db):  # a database in use has a journal that is not empty; see `database.py`
        db.execute("UPDATE meta SET value = 1 WHERE key = 'open'")
