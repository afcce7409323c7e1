"""Cost accounting: what turns have cost, by day, agent, user and model.

Sums are exact: Python adds amounts, not SQL.
"""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Final, cast

import apsw
from msgspec.structs import astuple

from finclaw.kernel.chunk import Usage
from finclaw.kernel.record import Cost, CostsBy, Spend
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


_ENTER: Final = f"""
    INSERT INTO spend (day, agent, user, model, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (day, agent, user, model) DO UPDATE SET
    calls = min(calls + excluded.calls, {_MOST}),
    interrupted = min(interrupted + excluded.interrupted, {_MOST}),
    overstated = min(overstated + excluded.overstated, {_MOST}),
    input = min(input + excluded.input, {_MOST}),
    output = min(output + excluded.output, {_MOST}),
    cache_read = min(cache_read + excluded.cache_read, {_MOST}),
    cache_write = min(cache_write + excluded.cache_write, {_MOST}),
    cost = iif(excluded.cost = '0', cost, exactly(cost, excluded.cost)),
    saved = iif(excluded.saved = '0', saved, exactly(saved, excluded.saved)),
    interrupted_cost =
        iif(excluded.interrupted_cost = '0', interrupted_cost, exactly(interrupted_cost, excluded.interrupted_cost))
"""


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
    """Let another user have what this one has spent."""
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
