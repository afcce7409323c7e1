"""Units: planned with the outcome, marked before the socket write, settled with the platform's word."""

from collections.abc import Sequence
from typing import Any

import apsw

from finclaw.kernel.crash import crash_point
from finclaw.kernel.record import Unit
from finclaw.storage.sqlite.codec import Ids, UnitBody, from_micros, read_unit, to_micros, write


def plan(db: apsw.Connection, inbound: int, units: Sequence[Unit]) -> None:
    for unit in units:
        body = UnitBody(unit.channel, unit.account, unit.conversation, unit.outbound, unit.turn_id)
        db.execute(
            "INSERT INTO unit (inbound, seq, state, body, planned_at) VALUES (?, ?, ?, ?, ?)",
            (inbound, unit.seq, unit.state, write(body), to_micros(unit.planned_at)),
        )


def pending(db: apsw.Connection, ids: Ids) -> list[Unit]:
    """In order of accept, which is the order of turns in a session; times would follow a clock that is set back."""
    rows = db.execute(
        "SELECT inbound, seq, unit.state, unit.body, planned_at, unit.attempts, doubts, platform_id, key FROM unit "
        "JOIN inbound ON inbound.id = inbound JOIN session ON session.id = session "
        "WHERE unit.state IN ('planned', 'sending', 'unknown') ORDER BY inbound, seq"
    )
    return [_read(ids, row) for row in rows]


def _read(ids: Ids, row: tuple[Any, ...]) -> Unit:
    inbound, seq, state, text, at, attempts, doubts, platform_id, key = row
    body = read_unit(str(text))
    return Unit(
        id=ids.unit(int(inbound), int(seq)),
        session=str(key),
        inbound_id=ids.inbound(int(inbound)),
        turn_id=body.turn_id,
        seq=int(seq),
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


def settle(db: apsw.Connection, ids: Ids, unit: Unit) -> None:
    """Write a unit's state and, with the last one of its message, what became of the delivery."""
    row = ids.row(unit.id)
    db.execute(
        "UPDATE unit SET state = ?, attempts = ?, doubts = ?, platform_id = ? WHERE inbound = ? AND seq = ?",
        (unit.state, unit.attempts, unit.doubts, unit.platform_id, row, unit.seq),
    )
    if unit.state in ("dead", "expired"):  # what follows a lost part would not make sense without it
        db.execute(
            "UPDATE unit SET state = ? WHERE inbound = ? AND seq > ? AND state = 'planned'", (unit.state, row, unit.seq)
        )
    db.execute(
        "UPDATE inbound SET delivery = (SELECT CASE "
        "WHEN sum(state IN ('planned', 'sending', 'unknown')) THEN 'pending' "
        "WHEN sum(state = 'expired') THEN 'expired' "
        "WHEN sum(state = 'dead') THEN 'dead' ELSE 'delivered' END FROM unit WHERE inbound = ?1) WHERE id = ?1",
        (row,),
    )
    crash_point("receipt:before_commit")
