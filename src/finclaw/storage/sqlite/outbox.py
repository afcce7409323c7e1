"""Outbox items: planned with the outcome, marked before the socket write, settled by the platform's answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import apsw
from msgspec.structs import asdict, replace

from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import SessionError
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.record import Accepted, DeliveryState, OutboxItem, OutboxState, TextRange
from finclaw.storage.blobs import rows as blobs
from finclaw.storage.sqlite.codec import UNITS, PublicIds, from_micros, read_unit, to_micros, units_of, write_unit
from finclaw.text import fix_surrogates

_ITEMS: Final = (
    "SELECT unit.id, unit.state, unit_body.body, planned_at, unit.attempts, doubts, platform_id, key FROM unit "
    "JOIN unit_body ON unit_body.id = unit.id "
    "JOIN inbound ON inbound.id = unit.id >> 10 JOIN session ON session.id = session "
)


def freeze(
    ids: PublicIds,
    accepted: Accepted,
    outbounds: Sequence[Outbound],
    turn_id: str | None,
    first: int,
    now: datetime,
) -> tuple[OutboxItem, ...]:
    row = ids.must_row(accepted.id)
    return tuple(
        OutboxItem(
            id=ids.unit(row, seq),
            session=accepted.session,
            inbound_id=accepted.id,
            turn_id=turn_id,
            seq=seq,
            channel=accepted.inbound.channel,
            account=accepted.inbound.account,
            conversation=accepted.inbound.conversation,
            outbound=_with_whole_characters(outbound),
            planned_at=now,
        )
        for seq, outbound in enumerate(outbounds, start=first)
    )


def _with_whole_characters(outbound: Outbound) -> Outbound:
    text = fix_surrogates(outbound.text)
    if text is outbound.text:
        return outbound
    rendered = outbound.rendered and fix_surrogates(outbound.rendered)
    plain = outbound.plain and fix_surrogates(outbound.plain)
    return replace(outbound, text=text, rendered=rendered, plain=plain)


def plan(db: apsw.Connection, inbound: int, units: Sequence[OutboxItem]) -> tuple[OutboxItem, ...]:
    """Write units, and give them back as they are on disk: what follows a lost part is lost with it."""
    first, last = units_of(inbound)
    if units and units[-1].seq >= last - first:
        parts = units[-1].seq + 1
        raise SessionError(f"an answer in {parts} parts is too long to be sent; {last - first} are possible")
    if units and units[0].seq:
        sql = "SELECT state FROM unit WHERE id >= ? AND id < ? AND state IN ('dead', 'expired') LIMIT 1"
        lost: OutboxState | None = db.execute(sql, (first, first + units[0].seq)).get
        if lost is not None:
            units = [replace(unit, state=lost) for unit in units]
    for unit in units:
        sql = "INSERT INTO unit (id, state, planned_at) VALUES (?, ?, ?)"
        db.execute(sql, (first + unit.seq, unit.state, to_micros(unit.planned_at)))
        db.execute("INSERT INTO unit_body (id, body) VALUES (?, ?)", (first + unit.seq, write_unit(unit)))
        if unit.outbound.attachments:
            blobs.use(db, "answer", inbound, [file.blob for file in unit.outbound.attachments])
    return tuple(units)


def withdraw(db: apsw.Connection, inbound: int) -> None:
    """A stopped turn: what it has appended and nobody has begun to send is not sent any more."""
    db.execute("UPDATE unit SET state = 'superseded' WHERE id BETWEEN ? AND ? AND state = 'planned'", units_of(inbound))


def withdraw_replies(db: apsw.Connection, inbound: int) -> bool:
    """Withdraw an answer that a person does not want any more; gives whether there was something to withdraw. What
    confirms an order, or is the gateway's own, stays."""
    db.execute(
        "UPDATE unit SET state = 'superseded' WHERE id BETWEEN ? AND ? AND state = 'planned' "
        "AND (SELECT body ->> '$.outbound.kind' FROM unit_body WHERE unit_body.id = unit.id) = 'reply'",
        units_of(inbound),
    )
    return db.changes() > 0


def append(db: apsw.Connection, inbound: int, items: Sequence[OutboxItem]) -> tuple[OutboxItem, ...]:
    """Write the items that are not there yet, each behind the last."""
    first, last = units_of(inbound)
    known = int(db.execute("SELECT count(*) FROM unit WHERE id BETWEEN ? AND ?", (first, last)).get)
    for item in items:
        if item.seq >= known:
            break
        body = read_unit(str(db.execute("SELECT body FROM unit_body WHERE id = ?", (first + item.seq,)).get))
        if body.turn_id != item.turn_id or _bounds(body.span) != _bounds(item.span):
            raise SessionError(f"item {item.id!r} is in the outbox with other words; append behind it")
    new = [item for item in items if item.seq >= known]
    if [item.seq for item in new] != list(range(known, known + len(new))):
        raise SessionError(f"item {new[0].id!r} is not the next of its turn, which has {known}; append them in order")
    return plan(db, inbound, new)


def _bounds(span: TextRange | None) -> tuple[int, int, int] | None:
    return None if span is None else (span.answer, span.start, span.start + len(span.text))


def pending(db: apsw.Connection, ids: PublicIds) -> list[OutboxItem]:
    """In order of accept, which is the order of turns in a session; times would follow a clock that is set back."""
    rows = db.execute(f"{_ITEMS} WHERE unit.state IN ('planned', 'sending', 'unknown') ORDER BY unit.id")
    return [_read(ids, row) for row in rows]


def find(db: apsw.Connection, ids: PublicIds, item_id: str) -> OutboxItem | None:
    row = ids.row(item_id)
    items = () if row is None else items_of(db, ids, row)
    return next((item for item in items if item.id == item_id), None)


def items_of(db: apsw.Connection, ids: PublicIds, inbound: int) -> tuple[OutboxItem, ...]:
    rows = db.execute(f"{_ITEMS} WHERE unit.id BETWEEN ? AND ? ORDER BY unit.id", units_of(inbound))
    return tuple(_read(ids, row) for row in rows)


def texts(db: apsw.Connection, inbound: int) -> list[str]:
    rows = db.execute("SELECT body FROM unit_body WHERE id BETWEEN ? AND ? ORDER BY id", units_of(inbound))
    bodies = [read_unit(str(body)) for (body,) in rows]
    return [body.outbound.text for body in bodies if not body.is_preview]


def delivery(db: apsw.Connection, inbound: int) -> DeliveryState:
    rows = db.execute("SELECT state FROM unit WHERE id BETWEEN ? AND ?", units_of(inbound))
    states = {str(state) for (state,) in rows} - {"superseded"}
    if not states:
        return "none"
    if states & {"planned", "sending", "unknown"}:
        return "pending"
    if "expired" in states:
        return "expired"
    return "dead" if "dead" in states else "delivered"


def _read(ids: PublicIds, row: tuple[Any, ...]) -> OutboxItem:
    number, state, text, at, attempts, doubts, platform_id, key = row
    inbound, seq = divmod(int(number), UNITS)
    return OutboxItem(
        id=ids.unit(inbound, seq),
        session=str(key),
        inbound_id=ids.inbound(inbound),
        seq=seq,
        planned_at=from_micros(int(at)),
        state=state,
        attempts=int(attempts),
        doubts=int(doubts),
        platform_id=platform_id,
        **asdict(read_unit(str(text))),
    )


def settle(db: apsw.Connection, ids: PublicIds, unit: OutboxItem) -> None:
    """Write a unit's state. What follows a lost part would not make sense without it, and is lost with it."""
    first, last = units_of(ids.row(unit.id) or 0)
    sql = "UPDATE unit SET state = ?, attempts = ?, doubts = ?, platform_id = ? WHERE id = ?"
    db.execute(sql, (unit.state, unit.attempts, unit.doubts, unit.platform_id, first + unit.seq))
    if unit.state in ("dead", "expired"):
        sql = "UPDATE unit SET state = ? WHERE id > ? AND id <= ? AND state = 'planned'"
        db.execute(sql, (unit.state, first + unit.seq, last))
    crash_point("receipt:before_commit")
