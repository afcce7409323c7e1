"""Spans of time that end now, and what a price did in one of them."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, percent
from finclaw.finance.telling import plain_fact, price_fact
from finclaw.finance.venue import VENUES
from finclaw.kernel.fact import Fact

Period = Literal["day", "yesterday", "week", "month", "quarter", "year", "year_to_date"]

_DAYS = {"week": 7, "month": 30, "quarter": 91, "year": 365}
_LONGEST = 385
"""Days to look back: a year, and the longest break before it, whose last close is where the year starts."""


class Move(Struct, frozen=True, kw_only=True):
    """From the last close before the period to the latest price in it. Highs and lows are of closes."""

    instrument: Instrument
    period: Period
    starts: datetime
    start: Decimal
    ends: datetime
    end: Decimal
    highest_close: Decimal
    lowest_close: Decimal
    closes: tuple[tuple[datetime, Decimal], ...]
    source: str

    @property
    def change(self) -> Decimal:
        return self.end - self.start

    @property
    def change_percent(self) -> Decimal:
        return percent(self.change, self.start)


async def move(market: Market, instrument: Instrument, period: Period) -> Move:
    today = market.now().astimezone(VENUES[instrument.exchange].tz).date()
    closes = await market.closes(instrument.symbol, today - timedelta(days=_LONGEST))
    inside = _inside(closes, instrument, period, today)
    before = closes.index(inside[0]) - 1 if inside else -1
    starts, start = closes[before]
    inside = inside or closes[-1:]  # on New Year's Day the year has had no session yet, and nothing has moved
    prices = [price for _, price in inside]
    return Move(
        instrument=instrument,
        period=period,
        starts=starts,
        start=start,
        ends=inside[-1][0],
        end=inside[-1][1],
        highest_close=max(prices),
        lowest_close=min(prices),
        closes=inside,
        source=market.source,
    )


def _inside(
    closes: tuple[tuple[datetime, Decimal], ...], instrument: Instrument, period: Period, today: date
) -> tuple[tuple[datetime, Decimal], ...]:
    """The closes of the period; for a day the latest session, for yesterday the one before today's."""
    if period == "day":
        return closes[-1:]
    if period == "yesterday":
        zone = VENUES[instrument.exchange].tz
        ended = [each for each in closes if (each[0] - timedelta(minutes=1)).astimezone(zone).date() < today]
        return (ended[-1],)
    first = date(today.year, 1, 1) if period == "year_to_date" else today - timedelta(days=_DAYS[period])
    return tuple(each for each in closes if each[0].date() > first)


def move_facts(move: Move) -> tuple[Fact, ...]:
    """`start` is as of the beginning, the rest as of the end: the dates of a period are the times of its facts."""
    instrument, ends, source = move.instrument, move.ends, move.source
    return (
        price_fact(instrument, "start", move.start, move.starts, source),
        price_fact(instrument, "end", move.end, ends, source),
        price_fact(instrument, "period_change", move.change, ends, source),
        plain_fact(instrument.symbol, "period_change_percent", move.change_percent, "%", ends, source),
        price_fact(instrument, "highest_close", move.highest_close, ends, source),
        price_fact(instrument, "lowest_close", move.lowest_close, ends, source),
    )
