"""Cost accounting: what turns have cost, by day, agent, user and model, and reservations of model calls.

Sums are exact: Python adds amounts, not SQL.

A reservation is in the row of its turn, on disk before the request leaves, so that no call is unbooked. A process that
dies leaves it there. The next process enters it into the books, at the most that it may have cost and marked as
interrupted, and takes it out of the row in the same commit: once, however often it is tried.
"""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Final, cast

import apsw
import msgspec
from msgspec.structs import astuple

from finclaw.kernel.chunk import Usage
from finclaw.kernel.record import Cost, CostsBy, Spend, TurnCalls
from finclaw.spend_lines import mark_interrupted, merge_lines
from finclaw.storage.sqlite.codec import write
from finclaw.text import fix_surrogates

_COLUMNS: Final = (
    "calls, interrupted, overstated, input, output, cache_read, cache_write, cost, saved, interrupted_cost"
)
_MOST: Final = 1 << 62
"""What a column holds. A server that reports more must not keep a turn from ending."""
_Row = tuple[int, int, int, int, int, int, int, str, str, str]


def exactly(one: str, other: str) -> str:
    """The sum of two amounts; known to SQL under this name."""
    return str(Decimal(one) + Decimal(other))


_SUMS: Final = ", ".join(f"{name} = min({name} + excluded.{name}, {_MOST})" for name in _COLUMNS.split(", ")[:7])
_AMOUNTS: Final = ", ".join(
    f"{name} = iif(excluded.{name} = '0', {name}, exactly({name}, excluded.{name}))"
    for name in _COLUMNS.split(", ")[7:]
)
_ENTER: Final = (
    f"INSERT INTO spend (day, agent, user, model, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    f"ON CONFLICT (day, agent, user, model) DO UPDATE SET {_SUMS}, {_AMOUNTS}"
)


def enter(db: apsw.Connection, spend: Sequence[Spend]) -> None:
    """In a commit of the turn that also says what is booked, so that a call is in the books exactly once."""
    for each in spend:
        names = map(fix_surrogates, (each.agent, each.user, each.model))
        numbers = (each.calls, each.interrupted, each.overstated, *astuple(each.usage))
        if max(numbers) > _MOST:
            numbers = tuple(min(number, _MOST) for number in numbers)
        amounts = map(str, (each.cost, each.saved, each.interrupted_cost))
        db.execute(_ENTER, (each.day.isoformat(), *names, *numbers, *amounts))


def move(db: apsw.Connection, user: str, to: str) -> None:
    columns = f"day, agent, user, model, {_COLUMNS}"
    for day, agent, _, model, *row in db.execute(f"SELECT {columns} FROM spend WHERE user = ?", (user,)).fetchall():
        db.execute(_ENTER, (day, agent, to, model, *row))
    db.execute("DELETE FROM spend WHERE user = ?", (user,))


def read_costs(db: apsw.Connection, since: date, by: CostsBy) -> list[Cost]:
    """Days in their order; everything else the dearest first."""
    rows: dict[str, list[_Row]] = {}
    for name, *row in db.execute(f"SELECT {by}, {_COLUMNS} FROM spend WHERE day >= ?", (since.isoformat(),)):
        rows.setdefault(name, []).append(cast(_Row, row))
    found = [_sum(name, own) for name, own in rows.items()]
    if by == "day":
        return sorted(found, key=lambda each: each.name)
    return sorted(found, key=lambda each: (-each.cost, -each.calls, each.name))


def _sum(name: str, rows: Sequence[_Row]) -> Cost:
    *numbers, costs, saved, estimates = zip(*rows, strict=True)
    calls, interrupted, overstated, *tokens = (sum(map(int, each)) for each in numbers)
    return Cost(
        name=name,
        calls=calls,
        usage=Usage(*tokens),
        cost=sum(map(Decimal, costs), Decimal(0)),
        saved=sum(map(Decimal, saved), Decimal(0)),
        interrupted=interrupted,
        interrupted_cost=sum(map(Decimal, estimates), Decimal(0)),
        overstated=overstated,
    )


NOTHING: Final = "0"
"""In the column of a turn that has ended, and of one that an older release has begun."""


class _Reserved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The column `turn.reserved`."""

    reserved: tuple[Spend, ...] = ()
    beside: tuple[Spend, ...] = ()
    unbooked: bool = False
    """Whether the books lack what the turn's log tells of; see `Claim.booked`."""


class SettledCalls(msgspec.Struct, frozen=True):
    """The calls of a turn once none is open any more: side costs, and whether all of it is in the books."""

    beside: tuple[Spend, ...] = ()
    booked: bool = True


_read_reserved: Final = msgspec.json.Decoder(_Reserved).decode


def encode_calls(calls: TurnCalls, *, booked: bool = True) -> str:
    return write(_Reserved(reserved=calls.reserved, beside=calls.beside, unbooked=not booked))


def keep_calls(db: apsw.Connection, turn: int, calls: TurnCalls) -> None:
    """Enter what is settled, and note what is open."""
    enter(db, calls.spend)
    db.execute("UPDATE turn SET reserved = ? WHERE id = ?", (encode_calls(calls), turn))


def interrupt(db: apsw.Connection, turn: int) -> SettledCalls:
    """Enter what a turn has left open as interrupted; the row itself is the caller's to write."""
    column = db.execute("SELECT reserved FROM turn WHERE id = ?", (turn,)).get
    if column is None:
        return SettledCalls()
    if column == NOTHING:
        return SettledCalls(booked=False)
    row = _read_reserved(str(column))
    cut_off = [mark_interrupted(line) for line in row.reserved]
    enter(db, cut_off)
    return SettledCalls(merge_lines((*row.beside, *cut_off)), not row.unbooked)


def interrupt_all(db: apsw.Connection) -> None:
    """Of every turn that has not ended: whoever ran it cannot commit any more."""
    left = db.execute(
        "SELECT turn.id FROM inbound JOIN turn ON turn.id = inbound.id "
        "WHERE inbound.kind IS NULL AND turn.reserved LIKE '%\"reserved\"%'"
    ).fetchall()
    for (turn,) in left:
        found = interrupt(db, int(turn))
        column = encode_calls(TurnCalls(beside=found.beside), booked=found.booked)
        db.execute("UPDATE turn SET reserved = ? WHERE id = ?", (column, turn))
