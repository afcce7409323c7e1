"""Retention: old rows are removed a bounded piece at a time, so that no writer waits for long."""

from datetime import datetime, timedelta
from typing import Final

import apsw
from msgspec.structs import replace

from finclaw.kernel.record import Pruned
from finclaw.kernel.store_port import DEDUPE_DAYS
from finclaw.storage.sqlite import facts
from finclaw.storage.sqlite.codec import write
from finclaw.storage.sqlite.transcript import Transcript
from finclaw.storage.upkeep import erasure

PIECE: Final = 250
"""Inbound rows looked at in one piece."""
MESSAGES: Final = 1_000
"""Messages removed with their sessions in one piece; one long conversation may have more."""


def limit_prune_time(before: datetime, now: datetime) -> datetime:
    """The latest time before which anything may be removed, if removing up to `before` was asked for."""
    return min(before, now - timedelta(days=DEDUPE_DAYS))


class Sweep:
    """One walk over everything. Each method is one piece, to be repeated until it says that there is no more.

    Never removed are messages without an outcome, messages with a part still to send, and the newest message of all:
    a row number that is free again would be given to another, and with it the names that people and platforms know.
    """

    def __init__(self, before: int, transcript: Transcript, *, dry_run: bool) -> None:
        self._before = before
        self._transcript = transcript
        self._dry_run = dry_run
        self._seen = 0
        self._session = 0
        self._still_used: set[int] = set()
        self.total = Pruned(messages=0, sessions=0)

    def messages(self, db: apsw.Connection) -> bool:
        """Remove messages with their outcome, turn and units."""
        rows = db.execute(
            "SELECT inbound.id, session, session.updated_at < ?1, "
            "inbound.kind IS NOT NULL AND accepted_at < ?1 AND ended_at < ?1 "
            "AND inbound.id < (SELECT max(id) FROM inbound) AND NOT EXISTS (SELECT 1 FROM unit "
            "WHERE unit.id BETWEEN inbound.id << 10 AND inbound.id << 10 | 1023 "
            "AND unit.state IN ('planned', 'sending', 'unknown')) "
            "FROM inbound LEFT JOIN session ON session.id = session WHERE inbound.id > ?2 ORDER BY inbound.id LIMIT ?3",
            (self._before, self._seen, PIECE),
        ).fetchall()
        old = [int(row) for row, _, _, is_old in rows if is_old]
        if not self._dry_run:
            _remove_messages(db, old)
        self._still_used.update(int(session) for _, session, is_idle, is_old in rows if is_idle and not is_old)
        self.total = replace(self.total, messages=self.total.messages + len(old))
        if rows:
            self._seen = int(rows[-1][0])
        return len(rows) == PIECE

    def sessions(self, db: apsw.Connection) -> bool:
        """Remove sessions that nobody used since, with their conversation."""
        rows = db.execute(
            # A clock that was set back may have dated a message of this very minute before them all.
            "SELECT id, key, messages FROM session WHERE id > ?1 AND updated_at < ?2 "
            "AND id NOT IN (SELECT session FROM inbound WHERE id > ?3) ORDER BY id LIMIT ?4",
            (self._session, self._before, self._seen, PIECE),
        ).fetchall()
        room = MESSAGES
        old = list[tuple[int, str]]()
        for row, key, messages in rows:
            if room <= 0:
                break
            self._session = int(row)
            if self._session not in self._still_used:
                old.append((self._session, str(key)))
                room -= max(1, int(messages))
        if not self._dry_run:
            _remove_sessions(db, self._transcript, old)
        self.total = replace(self.total, sessions=self.total.sessions + len(old))
        return len(rows) == PIECE or room <= 0


def _remove_messages(db: apsw.Connection, rows: list[int]) -> None:
    for row in rows:
        erasure.remove_what_followed(db, row)
        facts.forget_turn(db, row)
        db.execute("DELETE FROM inbound WHERE id = ?", (row,))


def _remove_sessions(db: apsw.Connection, transcript: Transcript, sessions: list[tuple[int, str]]) -> None:
    for row, _ in sessions:
        erasure.remove_session(db, transcript, row)
    # What extensions remember is not filed by session: one look through it serves them all.
    keys = write([key for _, key in sessions])
    db.execute("DELETE FROM state WHERE session IN (SELECT value FROM json_each(?))", (keys,))
