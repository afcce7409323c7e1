"""Approvals and grants as rows. A state changes only by an UPDATE that names the state it comes from."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from finclaw.errors import SessionError
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, Decision, Grant, Refusal, RefusalReason
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted
from finclaw.storage.sqlite import inbox
from finclaw.storage.sqlite.codec import PublicIds, from_micros, maybe_from_micros, to_micros, write
from finclaw.transcript.approval_ids import action_hash, canonical_args

Words = Callable[[Approval], Inbound]

_read_body: Final = msgspec.json.Decoder(Approval).decode

_SLACK: Final = 5_000_000
"""Microseconds by which a clock may be corrected without a question being older than its own asking."""
_OVER: Final = f"(expires_at <= :now OR asked_at > :now + {_SLACK} OR id IN (SELECT value FROM json_each(:late)))"
"""Its time is over: by the wall clock, because that clock was set back behind the question, or by the time that has
passed in this process (`ApprovalTimes`)."""
_NOW: Final = f"CASE WHEN state IN ('pending', 'granted') AND {_OVER} THEN 'expired' ELSE state END"
"""The state as it is now: nobody need have written yet that the time is over."""
Expiry = Mapping[str, Any]
"""The parameters `now` and `late` of `_OVER`."""
_SELECT: Final = (
    f"SELECT body, args, {_NOW}, scope, decided_by, decided_at, reason, reminded_at, used_by FROM approval "
)
# A grant holds more than once, for exactly this action and exactly this person.
_GRANTS: Final = "SELECT id, tool, hash, requester, session, granted_by, granted_at FROM standing_grant "
_OPEN: Final = "INDEXED BY approval_open WHERE state IN ('pending', 'granted') "
"""A few of many, and SQLite would rather look at all of them in their order."""

_CLOSED: Final[dict[ApprovalState, RefusalReason]] = {
    "granted": "already_granted",
    "denied": "already_denied",
    "expired": "expired",
    "used": "already_used",
    "failed": "failed",
}


def ask(db: apsw.Connection, approval: Approval) -> Approval:
    args = canonical_args(approval.args)
    if approval.state != "pending" or approval.hash != _hash_of(approval):
        raise SessionError("an approval is asked for with the hash of its own action, and nothing decided yet")
    db.execute(
        "INSERT INTO approval (id, turn, call, session, asked_at, expires_at, body, args) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (turn, call) DO NOTHING",
        (
            approval.id,
            approval.turn_id,
            approval.call_id,
            approval.session,
            to_micros(approval.asked_at),
            to_micros(approval.expires_at),
            write(replace(approval, args={})),
            args,
        ),
    )
    names = {"turn": approval.turn_id, "call": approval.call_id, **expiry_at(approval.asked_at)}
    (row,) = db.execute(_SELECT + "WHERE turn = :turn AND call = :call", names).fetchall()
    return _read(row)


def _hash_of(approval: Approval) -> str:
    return action_hash(approval.tool, approval.args, approval.definition)


def find(db: apsw.Connection, approval_id: str, expiry: Expiry) -> Approval | None:
    row = db.execute(_SELECT + "WHERE id = :id", {"id": approval_id, **expiry}).fetchone()
    return None if row is None else _read(row)


def list_approvals(
    db: apsw.Connection, states: Collection[ApprovalState], session: str | None, limit: int, expiry: Expiry
) -> list[Approval]:
    among = _OPEN if {"pending", "granted"}.issuperset(states) else "WHERE TRUE "
    wanted = f"AND (:session IS NULL OR session = :session) AND {_NOW} IN (SELECT value FROM json_each(:states)) "
    names = {"session": session, "states": json.dumps(list(states)), "limit": limit, **expiry}
    rows = db.execute(_SELECT + among + wanted + "ORDER BY rowid DESC LIMIT :limit", names)
    return [_read(row) for row in rows.fetchall()]


def decide(
    db: apsw.Connection,
    ids: PublicIds,
    approval_id: str,
    decision: Decision,
    inbound: Inbound | None,
    now: datetime,
    expiry: Expiry,
) -> tuple[Approval, Accepted | None] | Refusal:
    """The decision and the message that acts on it are one piece: neither is there without the other."""
    asked = find(db, approval_id, expiry)
    if asked is None:
        return Refusal("unknown")
    if asked.state != "pending":
        return Refusal(_CLOSED[asked.state], asked)
    yes = decision.verdict == "granted"
    if yes and decision.scope not in asked.scopes:
        return Refusal("scope", asked)
    db.execute(
        "UPDATE approval SET state = ?, scope = ?, decided_by = ?, decided_at = ?, reason = ? "
        "WHERE id = ? AND state = 'pending'",
        (decision.verdict, decision.scope if yes else None, decision.by, to_micros(now), decision.reason, asked.id),
    )
    if yes and decision.scope != "once":
        _give_grant(db, asked, decision.scope, decision.by, now)
    accepted = inbound and inbox.accept(db, ids, inbound, asked.session, now)
    return _must(db, asked.id, expiry), accepted


def use(db: apsw.Connection, approval_id: str, turn_id: str, action: str, expiry: Expiry) -> bool:
    """Granted becomes used, for one turn. What is kept must still be what was hashed."""
    asked = find(db, approval_id, expiry)
    if asked is None or action != asked.hash or _hash_of(asked) != action:
        return False
    db.execute(
        "UPDATE approval SET state = 'used', used_by = :turn WHERE id = :id "
        f"AND NOT {_OVER} AND (state = 'granted' OR (state = 'used' AND used_by = :turn))",
        {"turn": turn_id, "id": approval_id, **expiry},
    )
    return bool(db.changes())


def fail(db: apsw.Connection, approval_id: str, turn_id: str) -> bool:
    db.execute(
        "UPDATE approval SET state = 'failed', used_by = :turn "
        "WHERE id = :id AND (state = 'granted' OR (state = 'used' AND used_by = :turn))",
        {"turn": turn_id, "id": approval_id},
    )
    return bool(db.changes())


def expire(
    db: apsw.Connection, ids: PublicIds, words: Words, now: datetime, expiry: Expiry
) -> tuple[list[Approval], list[Accepted]]:
    """Of one that was granted and never ran, the turn that comes too late tells; of the others, we do."""
    rows = db.execute(
        f"UPDATE approval INDEXED BY approval_open SET state = 'expired' "
        f"WHERE state IN ('pending', 'granted') AND {_OVER} RETURNING id, decided_at",
        expiry,
    ).fetchall()
    gone = [_must(db, str(name), expiry) for name, _ in rows]
    told = [asked for asked in gone if asked.decided_at is None]
    return gone, [inbox.accept(db, ids, words(asked), asked.session, now) for asked in told]


def remind(
    db: apsw.Connection, ids: PublicIds, words: Words, now: datetime, expiry: Expiry
) -> tuple[list[Approval], list[Accepted]]:
    rows = db.execute(
        "UPDATE approval INDEXED BY approval_open SET reminded_at = :now "
        "WHERE state IN ('pending', 'granted') AND state = 'pending' AND reminded_at IS NULL "
        f"AND NOT {_OVER} AND (asked_at + expires_at) / 2 <= :now RETURNING id",
        expiry,
    ).fetchall()
    late = [_must(db, str(name), expiry) for (name,) in rows]
    return late, [inbox.accept(db, ids, words(asked), asked.session, now) for asked in late]


def _must(db: apsw.Connection, approval_id: str, expiry: Expiry) -> Approval:
    found = find(db, approval_id, expiry)
    if found is None:
        raise SessionError(f"approval {approval_id} was there and is gone")
    return found


def _read(row: tuple[Any, ...]) -> Approval:
    body, args, state, scope, decided_by, decided_at, reason, reminded_at, used_by = row
    return replace(
        _read_body(str(body)),
        args=json.loads(str(args)),
        state=state,
        scope=scope,
        decided_by=decided_by,
        decided_at=maybe_from_micros(decided_at),
        reason=str(reason),
        reminded_at=maybe_from_micros(reminded_at),
        used_by=used_by,
    )


def _give_grant(db: apsw.Connection, asked: Approval, scope: ApprovalScope, by: str, now: datetime) -> None:
    session = asked.session if scope == "session" else None
    db.execute(
        "INSERT INTO standing_grant (id, tool, hash, requester, session, granted_by, granted_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (asked.id, asked.tool, asked.hash, asked.asked_by, session, by, to_micros(now)),
    )


def find_grant(db: apsw.Connection, tool: str, action: str, requester: str, session: str) -> Grant | None:
    row = db.execute(
        _GRANTS + "WHERE requester = ? AND hash = ? AND tool = ? AND (session IS NULL OR session = ?) "
        "ORDER BY rowid LIMIT 1",
        (requester, action, tool, session),
    ).fetchone()
    return None if row is None else _read_grant(row)


def list_grants(db: apsw.Connection, limit: int) -> list[Grant]:
    return [_read_grant(row) for row in db.execute(_GRANTS + "ORDER BY rowid DESC LIMIT ?", (limit,)).fetchall()]


def revoke_grant(db: apsw.Connection, grant_id: str) -> bool:
    db.execute("DELETE FROM standing_grant WHERE id = ?", (grant_id,))
    return bool(db.changes())


def forget_grants(db: apsw.Connection, session: str) -> None:
    db.execute("DELETE FROM standing_grant WHERE session = ?", (session,))


def _read_grant(row: tuple[Any, ...]) -> Grant:
    *known, at = row
    names = ("id", "tool", "hash", "requester", "session", "granted_by")
    return Grant(**dict(zip(names, known, strict=True)), granted_at=from_micros(at))


class ApprovalTimes:
    """Waiting times of open approvals in this process, by a clock that nobody can set.

    The wall clock decides after a restart. While the process runs it may be set back, and a question that is good for
    five minutes must not be good for an hour because of that.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        """When the time of an approval is over, on the monotonic clock, by its id."""

    def see(self, approvals: Iterable[Approval]) -> None:
        now = self._clock.now()
        elapsed = self._clock.monotonic()
        for each in approvals:
            if each.state in ("pending", "granted"):
                self._due.setdefault(each.id, elapsed + (each.expires_at - now).total_seconds())

    def forget(self, ids: Iterable[str]) -> None:
        """Those that are over on disk: what only reads as expired is still measured."""
        for each in ids:
            self._due.pop(each, None)

    def now(self) -> dict[str, Any]:
        elapsed = self._clock.monotonic()
        late = [approval_id for approval_id, due in self._due.items() if due <= elapsed]
        return expiry_at(self._clock.now(), late)


def expiry_at(now: datetime, late: Iterable[str] = ()) -> dict[str, Any]:
    return {"now": to_micros(now), "late": json.dumps(list(late))}
