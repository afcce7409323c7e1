"""Reservations of model calls in the rows of their turns: on disk before a request leaves, so that no call is unbooked.

A process that dies leaves them there. The next process enters them into the books, at the most that they may have
cost and marked as interrupted, and takes them out of the row in the same commit: once, however often it is tried.
"""

from typing import Final

import apsw
import msgspec

from finclaw.kernel.record import Spend, TurnCalls
from finclaw.spend_lines import mark_interrupted, merge_lines
from finclaw.storage.sqlite import costs
from finclaw.storage.sqlite.codec import write

NOTHING: Final = "0"
"""In the column of a turn that has ended, and of one that an older release has begun."""


class _Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The column `turn.reserved`."""

    reserved: tuple[Spend, ...] = ()
    beside: tuple[Spend, ...] = ()
    unbooked: bool = False
    """Whether the books lack what the turn's log tells of; see `Claim.booked`."""


class SettledCalls(msgspec.Struct, frozen=True):
    """The calls of a turn once none is open any more: side costs, and whether all of it is in the books."""

    beside: tuple[Spend, ...] = ()
    booked: bool = True


_read: Final = msgspec.json.Decoder(_Row).decode


def encode(calls: TurnCalls, *, booked: bool = True) -> str:
    return write(_Row(reserved=calls.reserved, beside=calls.beside, unbooked=not booked))


def keep(db: apsw.Connection, turn: int, calls: TurnCalls) -> None:
    """Enter what is settled, and note what is open."""
    costs.enter(db, calls.spend)
    db.execute("UPDATE turn SET reserved = ? WHERE id = ?", (encode(calls), turn))


def interrupt(db: apsw.Connection, turn: int) -> SettledCalls:
    """Enter what a turn has left open as interrupted; the row itself is the caller's to write."""
    column = db.execute("SELECT reserved FROM turn WHERE id = ?", (turn,)).get
    if column is None:
        return SettledCalls()
    if column == NOTHING:
        return SettledCalls(booked=False)
    row = _read(str(column))
    cut_off = [mark_interrupted(line) for line in row.reserved]
    costs.enter(db, cut_off)
    return SettledCalls(merge_lines((*row.beside, *cut_off)), not row.unbooked)


def interrupt_all(db: apsw.Connection) -> None:
    """Of every turn that has not ended: whoever ran it cannot commit any more."""
    left = db.execute(
        "SELECT turn.id FROM inbound JOIN turn ON turn.id = inbound.id "
        "WHERE inbound.kind IS NULL AND turn.reserved LIKE '%\"reserved\"%'"
    ).fetchall()
    for (turn,) in left:
        found = interrupt(db, int(turn))
        column = encode(TurnCalls(beside=found.beside), booked=found.booked)
        db.execute("UPDATE turn SET reserved = ? WHERE id = ?", (column, turn))
