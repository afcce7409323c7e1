"""Outbox items: planned with the outcome, marked before the socket write, settled by the platform's answer."""

from collections.abc import Sequence
from typing import Any

import apsw

from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import SessionError
from finclaw.kernel.record import DeliveryState, OutboxItem
from finclaw.storage.sqlite.codec import UNITS, PublicIds, from_micros, read_unit, to_micros, units_of, write_unit


def plan(db: apsw.Connection, inbound: int, units: Sequence[OutboxItem]) -> None:
    first, last = units_of(inbound)
    if len(units) > last - first:
        raise SessionError(f"an answer in {len(units)} parts is too long to be sent; {last - first} are possible")
    for unit in units:
        db.execute(
            "INSERT INTO unit (id, state, planned_at) VALUES (?, ?, ?)",
            (first + unit.seq, unit.state, to_micros(unit.planned_at)),
        )
        db.execute("INSERT INTO unit_body (id, body) VALUES (?, ?)", (first + unit.seq, write_unit(unit)))


def pending(db: apsw.Connection, ids: PublicIds) -> list[OutboxItem]:
    """In order of accept, which is the order of turns in a session; times would follow a clock that is set back."""
    rows = db.execute(
        "SELECT unit.id, unit.state, unit_body.body, planned_at, unit.attempts, doubts, platform_id, key FROM unit "
        "JOIN unit_body ON unit_body.id = unit.id "
        "JOIN inbound ON inbound.id = unit.id >> 10 JOIN session ON session.id = session "
        "WHERE unit.state IN ('planned', 'sending', 'unknown') ORDER BY unit.id"
    )
    return [_read(ids, row) for row in rows]


def texts(db: apsw.Connection, inbound: int) -> list[str]:
    """What a message was answered, part by part."""
    rows = db.execute("SELECT body FROM unit_body WHERE id BETWEEN ? AND ? ORDER BY id", units_of(inbound))
    return [read_unit(str(body)).outbound.text for (body,) in rows]


def delivery(db: apsw.Connection, inbound: int) -> DeliveryState:
    """What became of all the units of a message."""
    states = {
        str(state) for (state,) in db.execute("SELECT state FROM unit WHERE id BETWEEN ? AND ?", units_of(inbound))
    }
    if not states:
        return "none"
    if states & {"planned", "sending", "unknown"}:
        return "pending"
    return "expired" if "expired" in states else "dead" if "dead" in states else "delivered"


def _read(ids: PublicIds, row: tuple[Any, ...]) -> OutboxItem:
    number, state, text, at, attempts, doubts, platform_id, key = row
    inbound, seq = divmod(int(number), UNITS)
    body = read_unit(str(text))
    return OutboxItem(
        id=ids.unit(inbound, seq),
        session=str(key),
        inbound_id=ids.inbound(inbound),
        turn_id=body.turn_id,
        seq=seq,
        channel=body.channel,
        account=body.account,
        conversation=body.conversation,
        outbound=body.outbound,
        planned_at=from_micros(int(at)),
        state=state,
        attempts=int(attempts),
        doubts=int(doubts),
        platform_id=None if platform_id is None else str(platform_id),
    )


def settle(db: apsw.Connection, ids: PublicIds, unit: OutboxItem) -> None:
    """Write a unit's state. What follows a lost part would not make sense without it, and is lost with it."""
    first, last = units_of(ids.row(unit.id) or 0)
    db.execute(
        "UPDATE unit SET state = ?, attempts = ?, doubts = ?, platform_id = ? WHERE id = ?",
        (unit.state, unit.attempts, unit.doubts, unit.platform_id, first + unit.seq),
    )
    if unit.state in ("dead", "expired"):
        db.execute(
            "UPDATE unit SET state = ? WHERE id > ? AND id <= ? AND state = 'planned'",
            (unit.state, first + unit.seq, last),
        )
    crash_point("receipt:before_commit")
