"""Spans of time, trailing ones that end now and those of the calendar, and what a price did in one of them."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, percent
from finclaw.finance.output import plain_fact, price_fact
from finclaw.finance.venue import VENUES
from finclaw.kernel.fact import Fact

Period = Literal[
    "day",
    "yesterday",
    "week",
    "month",
    "quarter",
    "year",
    "this_week",
    "last_week",
    "this_month",
    "last_month",
    "this_quarter",
    "last_quarter",
    "year_to_date",
    "last_year",
]

ChartPeriod = Literal["1D", "5D", "1M", "3M", "6M", "1Y", "5Y", "YTD"]
"""Periods as charts name them; each ends now."""

_DAYS = {"week": 7, "month": 30, "quarter": 91, "year": 365}
_LONGEST_BREAK = 20
"""Days to look back further than the period: its change starts from the last close before it."""


class Move(Struct, frozen=True, kw_only=True):
    """A price change: from the last close before the period to the latest price in it. Highs and lows are of closes."""

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


class HistoryTooShort(ToolError):
    """The first known price is inside the period: there is nothing that a change could start from."""


async def move(market: Market, instrument: Instrument, period: Period) -> Move:
    today = market.now().astimezone(VENUES[instrument.exchange].tz).date()
    first, last = days_of(period, today)
    found = await market.closes(instrument.symbol, first - timedelta(days=_LONGEST_BREAK))
    closes = found.prices
    inside = _inside(closes, instrument, period, first, last)
    before = closes.index(inside[0]) - 1 if inside else len(closes) - 1
    if before < 0:
        begins = session_day(instrument, closes[0][0])
        raise HistoryTooShort(
            f"The prices of {instrument.symbol} begin on {begins}, so that there is no close before that period. "
            "Say so and give no figure, or ask for a shorter one.",
            suggestion=f"{instrument.symbol}, {begins}",
        )
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
        source=found.source,
    )


def _inside(
    closes: tuple[tuple[datetime, Decimal], ...], instrument: Instrument, period: Period, first: date, last: date
) -> tuple[tuple[datetime, Decimal], ...]:
    """The closes of the period; for a day the latest session, for yesterday the one before today's."""
    if period == "day":
        return closes[-1:]
    if period == "yesterday":
        return tuple(each for each in closes if session_day(instrument, each[0]) <= last)[-1:]
    return tuple(each for each in closes if first <= session_day(instrument, each[0]) <= last)


def session_day(instrument: Instrument, ended: datetime) -> date:
    """The day of the venue's calendar on which a session ended; one that ends at midnight belongs to the day before."""
    return (ended - timedelta(minutes=1)).astimezone(VENUES[instrument.exchange].tz).date()


def days_of(period: Period, today: date) -> tuple[date, date]:
    """The first and the last day of a period, both included."""
    if period in _DAYS:
        return today - timedelta(days=_DAYS[period] - 1), today
    if period in ("day", "yesterday"):
        day = today - timedelta(days=period == "yesterday")
        return day, day
    which, _, unit = period.partition("_")
    first = _first_day("year" if period == "year_to_date" else unit, today)
    if which != "last":
        return first, today
    last = first - timedelta(days=1)
    return _first_day(unit, last), last


def _first_day(unit: str, day: date) -> date:
    """The first day of the week, month, quarter or year in which a day lies."""
    match unit:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return date(day.year, day.month - (day.month - 1) % 3, 1)
        case _:
            return date(day.year, 1, 1)


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
