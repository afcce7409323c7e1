"""Turns and conversations: claim, log, fold. Each function is one all-or-nothing piece of a group commit."""

from collections.abc import Sequence
from datetime import datetime

import apsw
from msgspec.structs import replace

from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import SessionError, Superseded
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Append, TurnEvent
from finclaw.kernel.record import (
    Accepted,
    Claim,
    ClaimOnAccept,
    Finish,
    OutboxItem,
    Reserve,
    Spend,
    TurnCalls,
)
from finclaw.kernel.scope import Outcome
from finclaw.storage.blobs import rows as blobs
from finclaw.storage.sqlite import costs, facts, inbox, outbox, persons
from finclaw.storage.sqlite.codec import PublicIds, from_micros, to_micros, write
from finclaw.storage.sqlite.costs import SettledCalls
from finclaw.storage.sqlite.transcript import Transcript


def accept(
    db: apsw.Connection,
    ids: PublicIds,
    transcript: Transcript,
    inbound: Inbound,
    session: str,
    claim_on_accept: ClaimOnAccept,
    now: datetime,
) -> Accepted:
    """Make the message ours and, unless another of its session is before it, claim its turn at once."""
    accepted = inbox.accept(db, ids, inbound, session, now)
    if accepted.duplicate or inbox.is_behind_another(db, ids, accepted):
        return accepted
    version = claim_on_accept.known_version
    claim = _claim(db, ids, transcript, accepted, version, now, claim_on_accept.reserve, SettledCalls())
    return replace(accepted, claim=claim)


def claim(
    db: apsw.Connection,
    ids: PublicIds,
    transcript: Transcript,
    accepted: Accepted,
    first: Sequence[TurnEvent],
    known_version: int | None,
    now: datetime,
    reserve: Reserve | None = None,
) -> Claim:
    """Begin the turn, or take up the one that a crash left: then the log so far comes back with the claim."""
    row = ids.must_row(accepted.id)
    events = transcript.begin(db, row, first)
    calls_next = len(events) <= len(first[:1])  # a turn with more in its log may have tools to run before
    left = costs.interrupt(db, row)
    claim = _claim(db, ids, transcript, accepted, known_version, now, reserve if calls_next else None, left)
    claim = replace(claim, events=events, items=outbox.items_of(db, ids, row))
    if not claim.resumed and len(events) <= 1:
        return claim
    joined, removed = inbox.resume_joined(db, ids, row, events)
    transcript.append(db, row, len(events), removed)
    return replace(claim, events=(*events, *removed), joined=joined)


def _claim(
    db: apsw.Connection,
    ids: PublicIds,
    transcript: Transcript,
    accepted: Accepted,
    known_version: int | None,
    now: datetime,
    reserve: Reserve | None,
    left: SettledCalls,
) -> Claim:
    row = ids.must_row(accepted.id)
    begun = db.execute(
        "UPDATE inbound SET state = 'running', attempts = attempts + 1 WHERE id = ? AND kind IS NULL "
        "RETURNING attempts, session",
        (row,),
    ).fetchone()
    if begun is None:
        raise Superseded(f"message {accepted.id} has already ended; its turn cannot begin again")
    attempt, owner = begun
    persons.admit(db, accepted.inbound, now)
    sql = "SELECT epoch, version, created_at, tokens FROM session WHERE id = ?"
    epoch, version, began, tokens = db.execute(sql, (owner,)).fetchall()[0]
    reserved = () if reserve is None else (reserve(int(tokens)),)
    calls = costs.encode_calls(TurnCalls(reserved=reserved, beside=left.beside), booked=left.booked)
    db.execute(
        "INSERT INTO turn (id, session, epoch, status, started_at, reserved) VALUES (?, ?, ?, 'running', ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, reserved = excluded.reserved",
        (row, owner, epoch, to_micros(now), calls),
    )
    crash_point("claim:before_commit")
    return Claim(
        turn_id=ids.turn(row),
        session=accepted.session,
        inbound_id=accepted.id,
        epoch=int(epoch),
        attempt=int(attempt),
        version=int(version),
        session_started_at=from_micros(int(began)),
        base=None if version == known_version else transcript.messages(db, int(owner)),
        context=int(tokens),
        reserved=reserved,
        beside=left.beside,
        booked=left.booked,
    )


def record(
    db: apsw.Connection,
    ids: PublicIds,
    transcript: Transcript,
    claim: Claim,
    seq: int,
    events: Sequence[TurnEvent],
    calls: TurnCalls | None,
) -> None:
    row = ids.must_row(claim.turn_id)
    _must_own(db, row, claim.epoch, running=True)
    transcript.append(db, row, seq, events)
    if files := blobs.files_in_events(events):
        blobs.use(db, "answer", row, files)
    if calls is not None:
        costs.keep_calls(db, row, calls)


def join(
    db: apsw.Connection,
    ids: PublicIds,
    transcript: Transcript,
    claim: Claim,
    accepted: Accepted,
    seq: int,
    events: Sequence[TurnEvent],
) -> bool:
    """Write the message into the turn's log, and that the turn answers it. False, and nothing, where it may not be."""
    row = ids.must_row(claim.turn_id)
    session = _must_own(db, row, claim.epoch, running=True)
    last = events[-1] if events else None
    if not isinstance(last, Append):
        raise SessionError("a message joins a turn by its words; let the last event append them")
    if not inbox.join(db, session, row, ids.must_row(accepted.id), last.message.id):
        return False
    transcript.append(db, row, seq, events)
    crash_point("join:before_commit")
    return True


def append_items(
    db: apsw.Connection, ids: PublicIds, claim: Claim, items: Sequence[OutboxItem]
) -> tuple[OutboxItem, ...]:
    row = ids.must_row(claim.turn_id)
    _must_own(db, row, claim.epoch, running=True)
    written = outbox.append(db, row, items)
    crash_point("items:before_commit")
    return written


def mark_attempt(db: apsw.Connection, ids: PublicIds, inbound_id: str) -> None:
    row = ids.must_row(inbound_id)
    sql = "UPDATE inbound SET state = 'running', attempts = attempts + 1 WHERE id = ? AND state = 'received'"
    db.execute(sql, (row,))
    if db.changes():
        inbox.count_joined(db, row, 1)


def release(db: apsw.Connection, ids: PublicIds, inbound_id: str, calls: TurnCalls | None) -> None:
    row = ids.must_row(inbound_id)
    sql = "UPDATE inbound SET state = 'received', attempts = attempts - 1 WHERE id = ? AND state = 'running'"
    db.execute(sql, (row,))
    if db.changes():
        inbox.count_joined(db, row, -1)
        if calls is not None:
            costs.keep_calls(db, row, calls)


def take_back(db: apsw.Connection, ids: PublicIds, inbound_id: str) -> None:
    """The turn of a message that ended before it came to it."""
    db.execute("DELETE FROM turn WHERE id = ? AND ended_at IS NULL", (ids.must_row(inbound_id),))


def _must_own(db: apsw.Connection, turn: int, epoch: int, *, running: bool = False) -> int:
    """The session, if the writer's epoch is still the session's; a newer writer makes this piece fail."""
    session, current, ended = db.execute(
        "SELECT session.id, session.epoch, turn.ended_at FROM turn JOIN session ON session.id = turn.session "
        "WHERE turn.id = ?",
        (turn,),
    ).fetchall()[0]
    if current != epoch or (running and ended is not None):
        raise Superseded("the session was reset or taken over while this turn ran; its answer is not kept")
    return int(session)


def end(
    db: apsw.Connection,
    ids: PublicIds,
    transcript: Transcript,
    inbound_id: str,
    outcome: Outcome,
    units: tuple[OutboxItem, ...],
    spend: tuple[Spend, ...],
    now: datetime,
) -> bool:
    """End a message without a fold. A turn that it had begun ends with it, and what that logged is of no more use."""
    if not inbox.end(db, ids, inbound_id, outcome, units, now):
        return False
    row = ids.must_row(inbound_id)
    transcript.drop(db, row)
    costs.enter(db, spend)
    sql = "UPDATE turn SET status = 'aborted', ended_at = ?, reserved = ? WHERE id = ?"
    db.execute(sql, (to_micros(now), costs.NOTHING, row))
    return True


def finish(db: apsw.Connection, ids: PublicIds, transcript: Transcript, finish: Finish, now: datetime) -> bool:
    """Outcome, fold, units and spend in one piece. False, and nothing, if the message had already ended."""
    row = ids.must_row(finish.turn_id)
    session = _must_own(db, row, finish.epoch)
    if finish.status == "aborted":
        outbox.withdraw(db, row)
    if not inbox.end(db, ids, finish.inbound_id, finish.outcome, finish.units, now):
        return False
    inbox.end_joined(db, ids, row, finish.joined, now)
    folded = transcript.fold(db, session, row, finish.events)
    blobs.use(db, "session", session, folded.blobs)
    db.execute("UPDATE session SET version = version + 1, tokens = ? WHERE id = ?", (finish.context, session))
    costs.enter(db, finish.spend)
    if finish.outcome.facts:
        facts.keep(db, session, row, finish.outcome.facts)
    if finish.asks:
        carry_over(db, row, None)
    if finish.told:
        remove_carried_over(db, [ids.must_row(each) for each in finish.told])
    if finish.undoes:  # what was sent of it stays sent; what it has cost, and its facts, stay too
        undone = ids.must_row(finish.undoes)
        db.execute("UPDATE turn SET status = 'undone' WHERE id = ?", (undone,))
        outbox.withdraw_replies(db, undone)
    result = finish.outcome
    db.execute(
        "UPDATE turn SET status = ?, ended_at = ?, reserved = ?, steps = ?, usage = ?, cost = ?, "
        "first_message = ?, last_message = ?, last_event = ? WHERE id = ?",
        (
            finish.status,
            to_micros(now),
            costs.NOTHING,
            finish.steps,
            write(result.usage),
            str(result.cost),
            folded.first_message,
            folded.last_message,
            folded.events,
            row,
        ),
    )
    crash_point("finish:before_commit")
    return True


def session_row(db: apsw.Connection, key: str) -> int | None:
    return db.execute("SELECT id FROM session WHERE key = ?", (key,)).get


def reset(db: apsw.Connection, transcript: Transcript, key: str) -> None:
    session = session_row(db, key)
    if session is None:
        return
    transcript.clear(db, session)
    facts.forget_session(db, session)
    forget_carried_over(db, session)
    blobs.release(db, "session", session)
    sql = "UPDATE session SET epoch = epoch + 1, version = version + 1, cleared = version + 1, tokens = 0 WHERE id = ?"
    db.execute(sql, (session,))


def begin_session(db: apsw.Connection, key: str, now: datetime) -> None:
    sql = "INSERT INTO session (key, created_at, updated_at) VALUES (?1, ?2, ?2) ON CONFLICT DO NOTHING"
    db.execute(sql, (key, to_micros(now)))


def touch(db: apsw.Connection, key: str) -> None:
    """The conversation is another now."""
    db.execute("UPDATE session SET version = version + 1 WHERE key = ?", (key,))


def turn_of(db: apsw.Connection, ids: PublicIds, inbound_id: str) -> tuple[str, str] | None:
    row = ids.must_row(inbound_id)
    sql = "SELECT key FROM turn JOIN session ON session.id = turn.session WHERE turn.id = ?"
    found = db.execute(sql, (row,)).fetchone()
    return None if found is None else (ids.turn(row), str(found[0]))


def count_added(db: apsw.Connection, turn: int) -> int:
    return int(db.execute("SELECT last_message - first_message + 1 FROM turn WHERE id = ?", (turn,)).get or 0)


def carry_over(db: apsw.Connection, row: int, line: str | None) -> None:
    """Keep an ended message for the next turn of its sender, until that has told its model: a crash loses nothing.

    `line` is what is kept of a message that was left out; None for one whose turn has asked something.
    """
    db.execute("INSERT OR REPLACE INTO carried_over (id, line) VALUES (?, ?)", (row, line))


def remove_carried_over(db: apsw.Connection, rows: Sequence[int]) -> None:
    db.executemany("DELETE FROM carried_over WHERE id = ?", [(row,) for row in rows])


def forget_carried_over(db: apsw.Connection, session: int) -> None:
    of_session = "SELECT 1 FROM inbound WHERE inbound.id = carried_over.id AND inbound.session = ?"
    db.execute(f"DELETE FROM carried_over WHERE EXISTS ({of_session})", (session,))


def find_carried_over(db: apsw.Connection, ids: PublicIds) -> list[tuple[Accepted, datetime, str | None]]:
    """In the order in which they were accepted, each with the time of its end and its line."""
    rows = db.execute(
        "SELECT carried_over.id, ended_at, line FROM carried_over JOIN inbound ON inbound.id = carried_over.id "
        "ORDER BY carried_over.id"
    ).fetchall()
    return [(inbox.find_accepted(db, ids, int(row)), from_micros(int(at)), line) for row, at, line in rows]
