"""SQL of messages that the next turn of their sender has to know of. Each function is a part of a commit.

Such a message has ended: its turn has asked its sender something, or it was left out of a full line and a line of it is
kept. The row stays until a turn has told its model, so that a crash before that loses nothing.
"""

from collections.abc import Sequence
from datetime import datetime

import apsw

from finclaw.kernel.record import Accepted
from finclaw.storage.sqlite import inbox
from finclaw.storage.sqlite.codec import PublicIds, from_micros


def add(db: apsw.Connection, row: int, line: str | None) -> None:
    """`line`: what is kept of a message that was left out; None for one whose turn has asked something."""
    db.execute("INSERT OR REPLACE INTO carried_over (id, line) VALUES (?, ?)", (row, line))


def remove(db: apsw.Connection, rows: Sequence[int]) -> None:
    db.executemany("DELETE FROM carried_over WHERE id = ?", [(row,) for row in rows])


def forget_session(db: apsw.Connection, session: int) -> None:
    db.execute(
        "DELETE FROM carried_over WHERE EXISTS "
        "(SELECT 1 FROM inbound WHERE inbound.id = carried_over.id AND inbound.session = ?)",
        (session,),
    )


def read(db: apsw.Connection, ids: PublicIds) -> list[tuple[Accepted, datetime, str | None]]:
    """In the order in which they were accepted, each with the time of its end and its line."""
    rows = db.execute(
        "SELECT carried_over.id, ended_at, line FROM carried_over JOIN inbound ON inbound.id = carried_over.id "
        "ORDER BY carried_over.id"
    ).fetchall()
    return [(inbox.find_accepted(db, ids, int(row)), from_micros(int(at)), line) for row, at, line in rows]
