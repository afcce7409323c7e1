"""Accepting, joining and ending messages. Each function is one all-or-nothing piece of a group commit.

A message that joins another's turn is answered by the turn and has none of its own. The model has seen it once an
answer stands behind it in the turn's log, or the beginning of one in the outbox; until then it can go back to its place
in the session, where nobody notices that it was away.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import apsw
from msgspec.structs import replace

from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import InboundConflict
from finclaw.kernel.envelope import Attachment, Inbound
from finclaw.kernel.message import Append, Remove, Replace, TurnEvent
from finclaw.kernel.record import (
    Accepted,
    Counts,
    InboundRecord,
    JoinedMessage,
    JoinedOutcome,
    OutboxItem,
    StopMark,
    Unsolicited,
)
from finclaw.kernel.scope import Outcome
from finclaw.storage.blobs import rows as blobs
from finclaw.storage.sqlite import outbox
from finclaw.storage.sqlite.codec import (
    PublicIds,
    body_digest,
    from_micros,
    inbound_name,
    key_name,
    read_inbound,
    read_outcome,
    read_stop_mark,
    to_micros,
    units_of,
    write,
    write_inbound,
    write_outcome,
)

ERASED: Final = "erased"
"""The kind of a row whose words were erased; `storage/upkeep/erasure.py` makes it."""

LOOKED_BACK: Final = 10_000
"""Rows that `find_unsolicited` reads at most. A person who was away for longer has other ways to find out, and the
query must stay a short one."""

_UNSOLICITED: Final = (
    "SELECT inbound.id, kind FROM inbound JOIN session ON session.id = session WHERE key = ? AND inbound.id > ? "
    "AND (body ->> 'said_by' IS NOT NULL OR body ->> 'limits' IS NOT NULL OR body ->> 'again_for' IS NOT NULL) "
    "ORDER BY inbound.id"
)


def accept(db: apsw.Connection, ids: PublicIds, inbound: Inbound, session: str, now: datetime) -> Accepted:
    """Make the message ours, with the next ticket of its session; or recognise that it is ours already."""

    def repeated(row: int) -> Accepted:
        """Of the first message nothing may be left but that it was here."""
        name = ids.inbound(row)
        return Accepted(id=name, session=session, ticket=0, inbound=inbound, accepted_at=now, duplicate=True)

    digest = body_digest(inbound)
    name, known = _look_up(db, inbound, digest)
    if known is not None:
        if known[2] == ERASED:
            return repeated(int(known[0]))
        # An extension's key is said once, whatever the words; a message is deleted once, whoever did it.
        if known[1] != digest and inbound.from_extension is None and inbound.kind != "delete":
            raise InboundConflict(f"message id {inbound.message_id!r} was already used for another text")
        return find_accepted(db, ids, int(known[0]), duplicate=True)
    key = key_name(inbound)
    if key is not None and (said := db.execute("SELECT inbound FROM said_key WHERE name = ?", (key,)).get) is not None:
        return repeated(int(said))
    at = to_micros(now)
    owner, ticket = db.execute(
        "INSERT INTO session (key, tickets, created_at, updated_at) VALUES (?1, 1, ?2, ?2) "
        "ON CONFLICT (key) DO UPDATE SET tickets = tickets + 1, updated_at = excluded.updated_at RETURNING id, tickets",
        (session, at),
    ).fetchall()[0]
    sql = "INSERT INTO inbound (name, digest, session, ticket, body, accepted_at) VALUES (?, ?, ?, ?, ?, ?)"
    db.execute(sql, (name, digest, owner, ticket, write_inbound(inbound), at))
    row = db.last_insert_rowid()
    if key is not None:
        db.execute("INSERT INTO said_key (name, inbound) VALUES (?, ?)", (key, row))
    if inbound.attachments:
        blobs.use_attachments(db, row, inbound.attachments)
    if inbound.saying is not None:  # its files are counted again as the answer's, once that is planned
        blobs.use(db, "message", row, [file.blob for file in inbound.saying.attachments])
    crash_point("accept:before_commit")
    return Accepted(id=ids.inbound(row), session=session, ticket=int(ticket), inbound=inbound, accepted_at=now)


def keep_attachments(db: apsw.Connection, ids: PublicIds, inbound_id: str, kept: Sequence[Attachment]) -> None:
    """Write what became of a message's files. Its digest stays: the platform knows nothing of our blobs."""
    row = ids.must_row(inbound_id)
    found = db.execute("SELECT body FROM inbound WHERE id = ? AND kind IS NULL", (row,)).fetchone()
    if found is None:  # it has ended
        return
    inbound = read_inbound(str(found[0]))
    by_id = {each.id: each for each in kept}
    attachments = tuple(by_id.get(each.id, each) for each in inbound.attachments)
    body = write_inbound(replace(inbound, attachments=attachments))
    db.execute("UPDATE inbound SET body = ? WHERE id = ?", (body, row))
    blobs.use_attachments(db, row, attachments)


def _look_up(db: apsw.Connection, inbound: Inbound, digest: bytes) -> tuple[bytes, tuple[Any, ...] | None]:
    """The name of a message, and what is known under it. An edit with other words is another edit, never a conflict."""
    again = 0
    while True:
        name = inbound_name(inbound, again)
        known = db.execute("SELECT id, digest, kind FROM inbound WHERE name = ?", (name,)).fetchone()
        if known is None or inbound.kind != "edit" or known[1] == digest or known[2] == ERASED:
            return name, known
        again += 1


def accept_again(db: apsw.Connection, ids: PublicIds, inbound_id: str, now: datetime) -> Accepted | None:
    """Accept a question a second time, linked to the first; never a third time."""
    row = ids.must_row(inbound_id)
    if db.execute("SELECT 1 FROM inbound WHERE id = ? AND kind = ?", (row, ERASED)).fetchone():
        return None
    first = find_accepted(db, ids, row)
    if first.inbound.reissue_of is not None or first.inbound.from_extension is not None:
        return None
    again = replace(first.inbound, message_id=f"{first.inbound.message_id}#again", reissue_of=first.id)
    accepted = accept(db, ids, again, first.session, now)
    return None if accepted.duplicate else accepted


def is_behind_another(db: apsw.Connection, ids: PublicIds, accepted: Accepted) -> bool:
    earlier = db.execute(
        "SELECT 1 FROM inbound AS this JOIN inbound AS other ON other.session = this.session "
        "AND other.ticket < this.ticket AND other.kind IS NULL WHERE this.id = ? LIMIT 1",
        (ids.must_row(accepted.id),),
    )
    return earlier.fetchone() is not None


_ACCEPTED = (
    "SELECT inbound.id, key, inbound.ticket, inbound.body, inbound.accepted_at, inbound.attempts, "
    "coalesce(host.state, inbound.state), host.id, inbound.stop "
    "FROM inbound JOIN session ON session.id = inbound.session "
    "LEFT JOIN joined ON joined.id = inbound.id LEFT JOIN inbound AS host ON host.id = joined.turn "
)


def find_accepted(db: apsw.Connection, ids: PublicIds, row: int, *, duplicate: bool = False) -> Accepted:
    (found,) = db.execute(_ACCEPTED + "WHERE inbound.id = ?", (row,)).fetchall()
    return _read_accepted(ids, found, duplicate=duplicate)


def _read_accepted(ids: PublicIds, row: tuple[Any, ...], *, duplicate: bool = False, left: bool = False) -> Accepted:
    number, key, ticket, body, at, attempts, state, host, stop = row
    return Accepted(
        id=ids.inbound(int(number)),
        session=str(key),
        ticket=int(ticket),
        inbound=read_inbound(str(body)),
        accepted_at=from_micros(int(at)),
        attempts=int(attempts),
        begun=state == "running",
        left=left,
        duplicate=duplicate,
        joined_to=host and ids.inbound(host),
        stop=stop and read_stop_mark(stop),
    )


def unfinished(db: apsw.Connection, ids: PublicIds) -> list[Accepted]:
    rows = db.execute(_ACCEPTED + "WHERE inbound.kind IS NULL ORDER BY inbound.session, inbound.ticket")
    found = [_read_accepted(ids, row, left=True) for row in rows]
    items = {
        ids.inbound(int(row)): int(number)
        for row, number in db.execute(
            "SELECT inbound.id, count(*) FROM inbound JOIN unit "
            "ON unit.id BETWEEN inbound.id << 10 AND inbound.id << 10 | 1023 WHERE kind IS NULL GROUP BY inbound.id"
        )
    }
    return [replace(each, items=items.get(each.id, 0)) for each in found]


def mark_stopped(db: apsw.Connection, ids: PublicIds, inbound_ids: Sequence[str], mark: StopMark) -> None:
    """Keep that these are stopped, and withdraw what of their answers nobody has begun to send. The outcome says so."""
    for row in (ids.must_row(each) for each in inbound_ids):
        db.execute("UPDATE inbound SET stop = ? WHERE id = ? AND kind IS NULL", (write(mark), row))
        if outbox.withdraw_replies(db, row):
            _add_reason(db, row, f"its answer was withdrawn: {mark.reason}")
    crash_point("stop:before_commit")


def _add_reason(db: apsw.Connection, turn: int, reason: str) -> None:
    sql = "SELECT id, body FROM outcome WHERE id = ?1 OR id IN (SELECT id FROM joined WHERE turn = ?1)"
    found = db.execute(sql, (turn,)).fetchall()
    for row, body in found:
        outcome = read_outcome(str(body))
        amended = replace(outcome, reason="; ".join(filter(None, (outcome.reason, reason))))
        db.execute("UPDATE outcome SET body = ? WHERE id = ?", (write_outcome(amended), row))


def find_target(db: apsw.Connection, ids: PublicIds, inbound: Inbound) -> Accepted | None:
    name = inbound_name(replace(inbound, kind="message", message_id=inbound.target or ""))
    found = db.execute("SELECT id, kind FROM inbound WHERE name = ?", (name,)).fetchone()
    return None if found is None or found[1] == ERASED else find_accepted(db, ids, int(found[0]))


def amend(db: apsw.Connection, ids: PublicIds, inbound_id: str, inbound: Inbound) -> Accepted | None:
    """Write the new words. The digest stays that of the first ones, by which the platform may deliver it again."""
    row = ids.must_row(inbound_id)
    db.execute(
        "UPDATE inbound SET body = ? WHERE id = ? AND kind IS NULL AND state = 'received' AND attempts = 0 "
        "AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.id = inbound.id)",
        (write_inbound(inbound), row),
    )
    amended = find_accepted(db, ids, row) if db.changes() else None
    crash_point("amend:before_commit")
    return amended


def mark_all_received(db: apsw.Connection) -> None:
    db.execute("UPDATE inbound SET state = 'received' WHERE kind IS NULL AND state = 'running'")


def end(
    db: apsw.Connection, ids: PublicIds, inbound_id: str, outcome: Outcome, units: tuple[OutboxItem, ...], now: datetime
) -> bool:
    """Write the one outcome, and what the sender is told with it. False, and nothing, if there was one."""
    row = ids.must_row(inbound_id)
    sql = "UPDATE inbound SET kind = ?, state = 'ended', ended_at = ? WHERE id = ? AND kind IS NULL"
    db.execute(sql, (outcome.kind, to_micros(now), row))
    if not db.changes():
        return False
    if len(units) == 1 and units[0].seq == 0 and units[0].outbound.text == outcome.reply:
        outcome = replace(outcome, reply=None)  # it is on disk as that part; a long text need not be written twice
    db.execute("INSERT INTO outcome (id, body) VALUES (?, ?)", (row, write_outcome(outcome)))
    outbox.plan(db, row, units)
    return True


def _outcome(db: apsw.Connection, row: int, body: str) -> Outcome:
    outcome = read_outcome(body)
    if outcome.reply is None and len(parts := outbox.texts(db, row)) == 1:
        return replace(outcome, reply=parts[0])
    return outcome


def find(db: apsw.Connection, ids: PublicIds, inbound_id: str) -> InboundRecord | None:
    row = ids.row(inbound_id)
    if row is None or ids.inbound(row) != inbound_id:
        return None
    found = db.execute(
        "SELECT key, state, outcome.body, accepted_at, attempts, inbound.body FROM inbound "
        "JOIN session ON session.id = session LEFT JOIN outcome ON outcome.id = inbound.id WHERE inbound.id = ?",
        (row,),
    ).fetchone()
    if found is None:
        return None
    key, state, outcome, at, attempts, body = found
    inbound = read_inbound(str(body))
    return InboundRecord(
        inbound_id=inbound_id,
        session=str(key),
        channel=inbound.channel,
        account=inbound.account,
        state=state,
        outcome=outcome and _outcome(db, row, outcome),
        delivery=outbox.delivery(db, row),
        accepted_at=from_micros(int(at)),
        attempts=int(attempts),
    )


def find_unsolicited(db: apsw.Connection, ids: PublicIds, session: str, after: str | None) -> Unsolicited:
    """Messages to people who had not asked: cards, reminders, expiries, results of approved actions. The place to go
    on from is just before the first that has not ended, so that it is not passed by."""
    newest = int(db.execute("SELECT coalesce(max(id), 0) FROM inbound").get)
    known = ids.row(after or "")
    since = max(0, newest - LOOKED_BACK, known or 0)
    found = [(int(row), kind is not None) for row, kind in db.execute(_UNSOLICITED, (session, since))]
    place = min((row - 1 for row, has_ended in found if not has_ended), default=newest)
    rows = [row for row, has_ended in found if has_ended and known is not None]
    records = [find(db, ids, ids.inbound(row)) for row in rows]
    return Unsolicited(items=tuple(each for each in records if each is not None), after=ids.inbound(place))


def counts(db: apsw.Connection) -> Counts:
    def count(rows: str) -> int:
        return int(db.execute(f"SELECT count(*) FROM {rows}").get)

    waiting = count("inbound WHERE kind IS NULL AND state = 'received'")
    running = count("inbound WHERE kind IS NULL AND state != 'received'")
    return Counts(
        sessions=count("session"),
        waiting=waiting,
        running=running,
        ended=count("inbound") - waiting - running,
        units_pending=count("unit WHERE state IN ('planned', 'sending', 'unknown')"),
        dead_letters=count("inbound WHERE kind IN ('failed', 'expired', 'dropped')"),
        units_dead=count("unit WHERE state = 'dead'"),
    )


# ── messages that join the turn of another ─────────────────────────────────────────────────────────


def join(db: apsw.Connection, session: int, turn: int, message: int, name: str) -> bool:
    """False, and nothing, for a message that has ended, is not behind the turn's own, or was tried before.

    What was in the pipeline when a process died may have caused it, and must not take a turn with it. `name` is the id
    of its words in the conversation.
    """
    db.execute(
        "UPDATE inbound SET state = 'joined', attempts = attempts + 1 WHERE id = ?1 AND session = ?2 "
        "AND kind IS NULL AND state = 'received' AND attempts = 0 "
        "AND ticket > (SELECT ticket FROM inbound WHERE id = ?3) "
        "AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.id = ?1)",
        (message, session, turn),
    )
    if not db.changes():
        return False
    db.execute("INSERT INTO joined (id, turn, name) VALUES (?, ?, ?)", (message, turn, name))
    return True


def resume_joined(
    db: apsw.Connection, ids: PublicIds, turn: int, events: Sequence[TurnEvent]
) -> tuple[tuple[Accepted, ...], tuple[Remove, ...]]:
    """Count an attempt of those that the model has seen, and put the others back, with the attempts that they had.

    Return the former, which the turn answers too, and the events that take the words of the others out of its log.
    """
    joined: list[Accepted] = []
    removed = unseen_words(db, turn, events)
    has_begun = _has_begun(db, turn, events)
    for row, name in _open_joined(db, turn):
        if _is_seen(events, name, has_begun=has_begun):
            db.execute("UPDATE inbound SET attempts = attempts + 1 WHERE id = ?", (row,))
            joined.append(find_accepted(db, ids, row))
        else:
            _put_back(db, row, tried=True)
    return tuple(joined), removed


def unseen_words(db: apsw.Connection, turn: int, events: Sequence[TurnEvent]) -> tuple[Remove, ...]:
    """Events that take what the model has not seen out of the log; none for what is out of it already."""
    has_begun = _has_begun(db, turn, events)
    unseen = [name for _, name in _open_joined(db, turn) if not _is_seen(events, name, has_begun=has_begun)]
    names = [_present_name(events, name) for name in unseen]
    return tuple(Remove(name) for name in names if name is not None)


def _open_joined(db: apsw.Connection, turn: int) -> list[tuple[int, str]]:
    rows = db.execute(
        "SELECT joined.id, joined.name FROM joined JOIN inbound ON inbound.id = joined.id "
        "WHERE turn = ? AND kind IS NULL ORDER BY joined.id",
        (turn,),
    )
    return [(int(row), str(name)) for row, name in rows]


def _place_of(events: Sequence[TurnEvent], name: str) -> int | None:
    found = (place for place, each in enumerate(events) if isinstance(each, Append) and each.message.id == name)
    return next(found, None)


def _is_seen(events: Sequence[TurnEvent], name: str, *, has_begun: bool) -> bool:
    """`has_begun`: a person sees, or will see, the beginning of an answer to all that the log holds."""
    place = _place_of(events, name)
    behind = () if place is None else events[place + 1 :]
    return (has_begun and place is not None) or any(map(_is_answer, behind))


def _is_answer(event: TurnEvent) -> bool:
    return isinstance(event, Append) and event.message.source.kind == "assistant"


def _has_begun(db: apsw.Connection, turn: int, events: Sequence[TurnEvent]) -> bool:
    """Whether parts of an answer are in the outbox that the log does not have yet."""
    begun = db.execute(
        "SELECT 1 FROM unit JOIN unit_body ON unit_body.id = unit.id WHERE unit.id BETWEEN ? AND ? "
        "AND state != 'superseded' AND body ->> '$.span.answer' >= ? LIMIT 1",
        (*units_of(turn), sum(map(_is_answer, events))),
    )
    return begun.fetchone() is not None


def _present_name(events: Sequence[TurnEvent], name: str) -> str | None:
    """The id under which the words are in the conversation: a layer may have replaced them. None: they are not."""
    place = _place_of(events, name)
    if place is None:
        return None
    for event in events[place + 1 :]:
        match event:
            case Replace(target, message) if target == name:
                name = message.id
            case Remove(target) if target == name:
                return None
            case _:
                pass
    return name


def end_joined(db: apsw.Connection, ids: PublicIds, turn: int, ends: Sequence[JoinedOutcome], now: datetime) -> None:
    """End those that are named, and put back all others that had joined the turn, as if they had not been tried."""
    for each in ends:
        end(db, ids, each.inbound_id, each.outcome, (), now)
    for row, _ in _open_joined(db, turn):
        _put_back(db, row, tried=False)


def _put_back(db: apsw.Connection, row: int, *, tried: bool) -> None:
    sql = "UPDATE inbound SET state = 'received', attempts = attempts - ? WHERE id = ? AND state = 'joined'"
    db.execute(sql, (0 if tried else 1, row))
    db.execute("DELETE FROM joined WHERE id = ?", (row,))


def count_joined(db: apsw.Connection, turn: int, attempts: int) -> None:
    """Count an attempt of the turn for those that joined it too, or take one back."""
    db.execute(
        "UPDATE inbound SET attempts = attempts + ? WHERE state = 'joined' AND kind IS NULL "
        "AND id IN (SELECT id FROM joined WHERE turn = ?)",
        (attempts, turn),
    )


def forget_joined(db: apsw.Connection, row: int) -> None:
    """Of a message, or of all that had joined its turn."""
    db.execute("DELETE FROM joined WHERE id = ?1 OR turn = ?1", (row,))


def find_joined(db: apsw.Connection, ids: PublicIds, turn: int) -> tuple[JoinedMessage, ...]:
    """All that joined a turn, also after their end."""
    rows = db.execute("SELECT id, name FROM joined WHERE turn = ? ORDER BY id", (turn,)).fetchall()
    found = [(find_accepted(db, ids, int(row)), str(name)) for row, name in rows]
    return tuple(
        JoinedMessage(inbound_id=each.id, inbound=each.inbound, accepted_at=each.accepted_at, message_id=name)
        for each, name in found
    )
