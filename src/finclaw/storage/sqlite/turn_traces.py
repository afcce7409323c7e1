"""Traces of turns: the latest as records, and one with all that is left of it."""

from decimal import Decimal
from typing import Any

import apsw

from finclaw.kernel.message import Message
from finclaw.kernel.record import TurnRecord, TurnTrace
from finclaw.redaction import hide_and_cut
from finclaw.storage.sqlite import inbox, transcript
from finclaw.storage.sqlite.codec import PublicIds, from_micros, maybe_from_micros, read_inbound, read_usage
from finclaw.transcript.fold import fold

_TURNS = (
    "SELECT turn.id, key, turn.status, started_at, turn.ended_at, steps, usage, cost, inbound.body FROM turn "
    "JOIN session ON session.id = turn.session JOIN inbound ON inbound.id = turn.id "
)


def turns(db: apsw.Connection, ids: PublicIds, limit: int) -> list[TurnRecord]:
    return [_record(ids, row) for row in db.execute(_TURNS + "ORDER BY turn.id DESC LIMIT ?", (limit,))]


def find_last(db: apsw.Connection, ids: PublicIds, session: str) -> str | None:
    """The newest turn that has added messages and was not undone, by its id."""
    found = db.execute(
        "SELECT turn.id FROM turn JOIN session ON session.id = turn.session AND session.epoch = turn.epoch "
        "WHERE key = ? AND ended_at IS NOT NULL AND status != 'undone' AND last_message >= first_message "
        "ORDER BY turn.id DESC LIMIT 1",
        (session,),
    ).fetchone()
    return None if found is None else ids.turn(int(found[0]))


def turn(db: apsw.Connection, ids: PublicIds, name: str) -> TurnTrace | None:
    """By its own id or that of a message that it answered."""
    row = _row(db, ids, name)
    told = db.execute(_TURNS + "WHERE turn.id = ?", (row,)).fetchone()
    if row is None or told is None:
        return None
    message = inbox.find(db, ids, ids.inbound(row))
    assert message is not None  # its row was joined above
    before, own, whole = _find_messages(db, row)
    return TurnTrace(
        record=_record(ids, told),
        inbound=read_inbound(str(told[-1])),
        accepted_at=message.accepted_at,
        outcome=message.outcome,
        before=before,
        messages=own,
        whole=whole,
        joined=inbox.find_joined(db, ids, row),
    )


def _row(db: apsw.Connection, ids: PublicIds, name: str) -> int | None:
    row = ids.row(name)
    if row is None or name == ids.turn(row):
        return row
    message = inbox.find(db, ids, name)  # None for what is no message's id
    if message is None:
        return None
    if message.outcome is None or message.outcome.turn_id is None:
        return row
    return ids.row(message.outcome.turn_id)  # a joined message was answered by another's turn


def _record(ids: PublicIds, row: tuple[Any, ...]) -> TurnRecord:
    number, key, status, started, ended, steps, usage, cost, inbound = row
    return TurnRecord(
        turn_id=ids.turn(int(number)),
        session=str(key),
        inbound_id=ids.inbound(int(number)),
        status=str(status),
        started_at=from_micros(int(started)),
        ended_at=maybe_from_micros(ended),
        steps=int(steps),
        usage=read_usage(str(usage or "{}")),
        cost=Decimal(str(cost)),
        opening=hide_and_cut(read_inbound(str(inbound)).text, 80),
    )


def _find_messages(db: apsw.Connection, turn: int) -> tuple[tuple[Message, ...], tuple[Message, ...], bool]:
    """The messages before the turn, its own, and whether those are all it had."""
    sql = "SELECT session, ended_at, first_message, last_message FROM turn WHERE id = ?"
    session, ended, first, last = db.execute(sql, (turn,)).fetchall()[0]
    if ended is None:
        return transcript.messages(db, session), tuple(fold((), transcript.read_log(db, turn))), True
    if first is None:  # it was superseded, or ended before such things were noted
        return (), (), False
    # Numbers of messages that are gone are given out again, to later turns.
    later = db.execute("SELECT min(first_message) FROM turn WHERE id > ? AND session = ?", (turn, session)).get
    taken = transcript.HIGHEST if later is None else int(later) - 1
    own = transcript.messages(db, session, first, min(last, taken))
    whole = len(own) == last - first + 1 and bool(own) and own[0].role == "user"
    return transcript.messages(db, session, 0, min(first - 1, taken)), own, whole
