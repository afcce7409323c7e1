"""Turns and conversations: claim, log, fold. Each function is one all-or-nothing piece of a group commit."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import assert_never

import apsw

from finclaw.errors import Superseded
from finclaw.kernel.crash import crash_point
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, ToolStarted, Truncate, TurnEvent
from finclaw.kernel.record import Accepted, Claim, Finish, TurnRecord, Unit
from finclaw.kernel.scope import Outcome
from finclaw.storage.sqlite import inbox
from finclaw.storage.sqlite.codec import (
    Ids,
    events_of,
    from_micros,
    messages_of,
    read_event,
    read_message,
    read_messages,
    read_usage,
    to_micros,
    write,
)


def claim(
    db: apsw.Connection,
    ids: Ids,
    accepted: Accepted,
    first: Sequence[TurnEvent],
    known_version: int | None,
    reserve: Decimal,
    now: datetime,
) -> Claim:
    """Begin the turn, or take up the one that a crash left: then the log so far comes back with the claim."""
    row = inbox.must_row(ids, accepted.id)
    attempt, owner = db.execute(
        "UPDATE inbound SET state = 'running', attempts = attempts + 1 WHERE id = ? AND kind IS NULL "
        "RETURNING attempts, session",
        (row,),
    ).fetchone() or _already_ended(accepted.id)
    epoch, version, began = db.execute(
        "SELECT epoch, version, created_at FROM session WHERE id = ?", (owner,)
    ).fetchall()[0]
    db.execute(
        "INSERT INTO turn (id, session, epoch, status, started_at, reserved) VALUES (?, ?, ?, 'running', ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch",
        (row, owner, epoch, to_micros(now), str(reserve)),
    )
    events = tuple(read_event(str(body)) for (body,) in _log(db, row))
    if not events:
        _append(db, row, 0, first)
        events = tuple(first)
    crash_point("claim:before_commit")
    return Claim(
        turn_id=ids.turn(row),
        session=accepted.session,
        inbound_id=accepted.id,
        epoch=int(epoch),
        attempt=int(attempt),
        version=int(version),
        session_started_at=from_micros(int(began)),
        base=None if version == known_version else messages(db, int(owner)),
        events=events,
    )


def _already_ended(inbound_id: str) -> tuple[int, int]:
    raise Superseded(f"message {inbound_id} has already ended; its turn cannot begin again")


def _log(db: apsw.Connection, turn: int) -> apsw.Cursor:
    return db.execute("SELECT body FROM event WHERE id BETWEEN ? AND ? ORDER BY id", events_of(turn))


def _append(db: apsw.Connection, turn: int, seq: int, events: Sequence[TurnEvent]) -> None:
    first, _ = events_of(turn)
    rows = ((first + seq + place, write(event)) for place, event in enumerate(events))
    db.executemany("INSERT INTO event (id, body) VALUES (?, ?)", rows)


def record(db: apsw.Connection, ids: Ids, claim: Claim, seq: int, events: Sequence[TurnEvent]) -> None:
    row = inbox.must_row(ids, claim.turn_id)
    _must_own(db, row, claim.epoch)
    _append(db, row, seq, events)


def release(db: apsw.Connection, ids: Ids, claim: Claim) -> None:
    db.execute(
        "UPDATE inbound SET state = 'received', attempts = attempts - 1 WHERE id = ? AND state = 'running'",
        (inbox.must_row(ids, claim.inbound_id),),
    )


def _must_own(db: apsw.Connection, turn: int, epoch: int) -> int:
    """The session, if the writer's epoch is still the session's; a newer writer makes this piece fail."""
    session, current = db.execute(
        "SELECT session.id, session.epoch FROM turn JOIN session ON session.id = turn.session WHERE turn.id = ?",
        (turn,),
    ).fetchall()[0]
    if current != epoch:
        raise Superseded("the session was reset or taken over while this turn ran; its answer is not kept")
    return int(session)


def end(
    db: apsw.Connection, ids: Ids, inbound_id: str, outcome: Outcome, units: tuple[Unit, ...], now: datetime
) -> bool:
    """End a message without a fold. A turn that it had begun ends with it, and what that logged is of no more use."""
    if not inbox.end(db, ids, inbound_id, outcome, units, now):
        return False
    row = inbox.must_row(ids, inbound_id)
    db.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", events_of(row))
    db.execute("UPDATE turn SET status = 'aborted', ended_at = ?, reserved = '0' WHERE id = ?", (to_micros(now), row))
    return True


def finish(db: apsw.Connection, ids: Ids, finish: Finish, now: datetime) -> bool:
    """Outcome, fold, units and spend in one piece. False, and nothing, if the message had already ended."""
    row = inbox.must_row(ids, finish.turn_id)
    session = _must_own(db, row, finish.epoch)
    if not inbox.end(db, ids, finish.inbound_id, finish.outcome, finish.units, now):
        return False
    log = [read_event(str(body)) for (body,) in _log(db, row)]
    fold(db, session, [*log, *finish.events])
    db.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", events_of(row))
    db.execute("UPDATE session SET version = version + 1 WHERE id = ?", (session,))
    result = finish.outcome
    db.execute(
        "UPDATE turn SET status = ?, ended_at = ?, steps = ?, usage = ?, cost = ?, reserved = '0' WHERE id = ?",
        (finish.status, to_micros(now), finish.steps, write(result.usage), str(result.cost), row),
    )
    crash_point("finish:before_commit")
    return True


def fold(db: apsw.Connection, session: int, events: Sequence[TurnEvent]) -> None:
    """Apply the turn's events to the base. A turn appends; rows are rewritten only where an event says so."""
    for event in events:
        match event:
            case Append(message):
                _append_message(db, session, message)
            case Replace(target, message):
                _update(db, session, target, message)
            case Remove(target):
                _remove(db, session, target)
            case Truncate(keep_last):
                _truncate(db, session, max(0, keep_last))
            case Patch(target, metadata):
                _patch(db, session, target, dict(metadata))
            case ToolStarted():
                pass  # it spoke of this turn only
            case _:
                assert_never(event)


def _append_message(db: apsw.Connection, session: int, message: Message) -> None:
    first, last = messages_of(session)
    db.execute(
        "INSERT INTO message (id, name, body) "
        "VALUES (coalesce((SELECT max(id) FROM message WHERE id BETWEEN ?1 AND ?2), ?1) + 1, ?3, ?4)",
        (first, last, message.id, write(message)),
    )


def _update(db: apsw.Connection, session: int, target: str, message: Message) -> None:
    db.execute(
        "UPDATE message SET name = ?, body = ? WHERE id BETWEEN ? AND ? AND name = ?",
        (message.id, write(message), *messages_of(session), target),
    )


def _remove(db: apsw.Connection, session: int, target: str) -> None:
    db.execute("DELETE FROM message WHERE id BETWEEN ? AND ? AND name = ?", (*messages_of(session), target))


def _truncate(db: apsw.Connection, session: int, keep_last: int) -> None:
    db.execute(
        "DELETE FROM message WHERE id BETWEEN ?1 AND ?2 AND id NOT IN "
        "(SELECT id FROM message WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3)",
        (*messages_of(session), keep_last),
    )


def _patch(db: apsw.Connection, session: int, target: str, metadata: dict[str, object]) -> None:
    found = db.execute(
        "SELECT body FROM message WHERE id BETWEEN ? AND ? AND name = ?", (*messages_of(session), target)
    ).fetchone()
    if found is not None:
        old = read_message(str(found[0]))
        fresh = Message(old.id, old.role, old.blocks, old.source, old.created_at, {**old.metadata, **metadata})
        _update(db, session, target, fresh)


def messages(db: apsw.Connection, session: int) -> tuple[Message, ...]:
    rows = db.execute("SELECT body FROM message WHERE id BETWEEN ? AND ? ORDER BY id", messages_of(session))
    return read_messages([str(body) for (body,) in rows])


def session_row(db: apsw.Connection, key: str) -> int | None:
    found = db.execute("SELECT id FROM session WHERE key = ?", (key,)).fetchone()
    return None if found is None else int(found[0])


def reset(db: apsw.Connection, key: str) -> None:
    session = session_row(db, key)
    if session is None:
        return
    db.execute("DELETE FROM message WHERE id BETWEEN ? AND ?", messages_of(session))
    db.execute("UPDATE session SET epoch = epoch + 1, version = version + 1 WHERE id = ?", (session,))


def turns(db: apsw.Connection, ids: Ids, limit: int) -> list[TurnRecord]:
    rows = db.execute(
        "SELECT turn.id, key, status, started_at, ended_at, steps, usage, cost FROM turn "
        "JOIN session ON session.id = turn.session ORDER BY turn.id DESC LIMIT ?",
        (limit,),
    )
    return [
        TurnRecord(
            turn_id=ids.turn(int(row)),
            session=str(key),
            inbound_id=ids.inbound(int(row)),
            status=str(status),
            started_at=from_micros(int(started)),
            ended_at=None if ended is None else from_micros(int(ended)),
            steps=int(steps),
            usage=read_usage(str(usage or "{}")),
            cost=Decimal(str(cost)),
        )
        for row, key, status, started, ended, steps, usage, cost in rows
    ]
