"""A transcript without rows, for a turn whose conversation is in files: its events are given back as they came."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import apsw

from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message, TurnEvent
from finclaw.storage.blobs.rows import blobs_in_events
from finclaw.storage.sqlite import sessions
from finclaw.storage.sqlite.transcript import Folded
from finclaw.transcript.fold import fold, touches_only_own

UNCOUNTED: Final = -1
"""How many messages a session has must be looked up in its files: they were changed otherwise than by appending."""


class NullTranscript:
    """A transcript that keeps nothing in the database but the number of a session's messages."""

    def begin(self, db: apsw.Connection, turn: int, first: Sequence[TurnEvent]) -> tuple[TurnEvent, ...]:
        return tuple(first)

    def append(self, db: apsw.Connection, turn: int, seq: int, events: Sequence[TurnEvent]) -> None: ...

    def fold(self, db: apsw.Connection, session: int, turn: int, last: Sequence[TurnEvent]) -> Folded:
        """All events come as the last ones; its messages are counted from 1, for they have no rows."""
        own = fold((), last)
        if not touches_only_own(last):
            db.execute("UPDATE session SET messages = ? WHERE id = ?", (UNCOUNTED, session))
        else:
            db.execute("UPDATE session SET messages = messages + ? WHERE id = ? AND messages >= 0", (len(own), session))
        return Folded(1, len(own), len(last), blobs_in_events(last))

    def drop(self, db: apsw.Connection, turn: int) -> None: ...

    def messages(self, db: apsw.Connection, session: int) -> tuple[Message, ...]:
        return ()

    def clear(self, db: apsw.Connection, session: int) -> None:
        db.execute("UPDATE session SET messages = 0 WHERE id = ?", (session,))


def set_count(db: apsw.Connection, key: str, messages: int) -> None:
    db.execute("UPDATE session SET messages = ? WHERE key = ?", (messages, key))


def restore_count(
    db: apsw.Connection, key: str, messages: Sequence[Message], earlier: Sequence[Fact], now: datetime
) -> None:
    """Make a session that these messages are given to; all but the messages themselves is the database's."""
    sessions.fill(db, key, messages, earlier, now)
    set_count(db, key, len(messages))
