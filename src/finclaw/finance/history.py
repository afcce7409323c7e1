"""Price changes over a period, and the tools that show the history of one instrument and compare several."""

from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, Market, join_bars, percent
from finclaw.finance.output import identity, minute, plain_fact, price_fact, record
from finclaw.finance.quote import ListedName, SymbolName
from finclaw.finance.resolve import SeveralNames, resolve
from finclaw.finance.venue import VENUES
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_Rolling = Literal["day", "yesterday", "week", "month", "quarter", "year"]
_OfCalendar = Literal["this_week", "last_week", "this_month", "last_month", "this_quarter", "last_quarter"]
Period = Literal[_Rolling, _OfCalendar, "year_to_date", "last_year"]
ChartPeriod = Literal["1D", "5D", "1M", "3M", "6M", "1Y", "5Y", "YTD"]
"""Periods as charts name them; each ends now."""

_DAYS = {"week": 7, "month": 30, "quarter": 91, "year": 365}
_LONGEST_BREAK = 20
"""Days to look back further than the period: its change starts from the last close before it."""


class PriceChange(Struct, frozen=True, kw_only=True):
    instrument: Instrument
    starts: datetime
    start: Decimal
    ends: datetime
    end: Decimal
    source: str

    @property
    def change(self) -> Decimal:
        return self.end - self.start

    @property
    def change_percent(self) -> Decimal:
        return percent(self.change, self.start)

    def lines(self) -> dict[str, object]:
        return {
            "start": f"{self.start} ({minute(self.starts)})",
            "end": f"{self.end} ({minute(self.ends)})",
            "change": f"{self.change:+}",
            "change_percent": f"{self.change_percent:+}",
        }

    def change_facts(self) -> tuple[Fact, ...]:
        """`start` is as of the beginning, the rest as of the end: the dates of a period are the times of its facts."""
        symbol = self.instrument.symbol
        return (
            price_fact(self.instrument, "start", self.start, self.starts, self.source),
            price_fact(self.instrument, "end", self.end, self.ends, self.source),
            price_fact(self.instrument, "period_change", self.change, self.ends, self.source),
            plain_fact(symbol, "period_change_percent", self.change_percent, "%", self.ends, self.source),
        )


class Move(PriceChange, frozen=True, kw_only=True):
    """A price change: from the last close before the period to the latest price in it. Highs and lows are of closes."""

    period: Period
    highest_close: Decimal
    lowest_close: Decimal
    closes: tuple[tuple[datetime, Decimal], ...]

    def facts(self) -> tuple[Fact, ...]:
        return (
            *self.change_facts(),
            price_fact(self.instrument, "highest_close", self.highest_close, self.ends, self.source),
            price_fact(self.instrument, "lowest_close", self.lowest_close, self.ends, self.source),
        )


class HistoryTooShort(ToolError):
    """The first known price is inside the period: there is nothing that a change could start from."""


async def move(market: Market, instrument: Instrument, period: Period) -> Move:
    today = market.now().astimezone(VENUES[instrument.exchange].tz).date()
    first, last = days_of(period, today)
    found = await market.closes(instrument.symbol, first - timedelta(days=_LONGEST_BREAK))
    closes = found.prices
    inside = _inside(closes, instrument, period, first, last)
    before = len(closes) - 1
    if inside:
        before = closes.index(inside[0]) - 1
    if before < 0:
        begins = session_day(instrument, closes[0][0])
        raise HistoryTooShort(
            f"The prices of {instrument.symbol} begin on {begins}, so that there is no close before that period. "
            "Say so and give no figure, or ask for a shorter one.",
            suggestion=f"{instrument.symbol}, {begins}",
        )
    starts, start = closes[before]
    inside = inside or closes[-1:]  # on New Year's Day the year has had no session yet, and nothing has moved
    ends, end = inside[-1]
    prices = [price for _, price in inside]
    return Move(
        instrument=instrument,
        period=period,
        starts=starts,
        start=start,
        ends=ends,
        end=end,
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
    if period in _DAYS:
        return today - timedelta(days=_DAYS[period] - 1), today
    if period in ("day", "yesterday"):
        day = today - timedelta(days=period == "yesterday")
        return day, day
    which, _, unit = period.partition("_")
    first = _first_day(unit, today)
    if which != "last":
        return first, today
    last = first - timedelta(days=1)
    return _first_day(unit, last), last


def _first_day(unit: str, day: date) -> date:
    match unit:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return date(day.year, day.month - (day.month - 1) % 3, 1)
        case _:
            return date(day.year, 1, 1)


_HISTORY = (
    "How one instrument's price moved over a period: start, end, change from the last close before it, extremes, and "
    "bars or closes. `week`, `month`, `quarter`, `year` end now; `this_…`, `last_…` are those of the calendar. With "
    "`on`: the close of that day instead."
)
_FIRST_DAY = date(2025, 1, 1)
_MOST_CLOSES = 24  # a year has 250; the model needs the shape and not every day

OneDay = Annotated[
    str, Meta(description="2026-03-03; or 03-03, the latest such day.", pattern=r"^(\d{4}-)?\d{2}-\d{2}$")
]


class HistoryArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName
    period: Annotated[Period, Meta(description="`day` is the running or last session.")] = "month"
    on: OneDay | None = None


class NoSuchSession(ToolError):
    """There is no close of that day: a weekend, a holiday, a day ahead, or one too long ago. Suggestion: the day."""


def history_tool(market: Market) -> Tool:
    @tool("market__history", _HISTORY, group="finance")
    async def history(args: HistoryArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(market, args.symbol)
        if args.on is not None:
            return await _close_on(market, instrument, args.on)
        moved = await move(market, instrument, args.period)
        bars: tuple[Bar, ...] = ()
        if args.period == "day":
            bars = await market.intraday(instrument.symbol, 30)
        elif args.period == "week":
            bars = await market.daily(instrument.symbol, len(moved.closes))
        text = record(
            {
                **identity(instrument),
                "period": args.period,
                **moved.lines(),
                "highest_close": moved.highest_close,
                "lowest_close": moved.lowest_close,
                "source": moved.source,
            }
        )
        return ToolOutput(f"{text}\n\n{_table(moved, bars)}", (*moved.facts(), *_bar_facts(moved, bars)))

    return history


async def _close_on(market: Market, instrument: Instrument, wanted: str) -> ToolOutput:
    today = market.now().astimezone(VENUES[instrument.exchange].tz).date()
    day = _date(wanted, today)
    if day is not None and _FIRST_DAY <= day <= today:
        found = await market.closes(instrument.symbol, day)
        if found.prices and session_day(instrument, found.prices[0][0]) == day:
            at, close = found.prices[0]
            lines = {"date": day, "close": close, "as_of": minute(at), "source": found.source}
            fact = price_fact(instrument, "close", close, at, found.source)
            return ToolOutput(record({**identity(instrument), **lines}), (fact,))
    raise NoSuchSession(
        f"There is no close of {instrument.symbol} on {day or wanted}. Say so and give no figure.",
        suggestion=str(day or wanted),
    )


def _date(wanted: str, today: date) -> date | None:
    """None when there is no such day, as on the thirtieth of February."""
    with suppress(ValueError):
        if len(wanted) > len("03-03"):
            return date.fromisoformat(wanted)
        this_year = date.fromisoformat(f"{today.year}-{wanted}")
        if this_year > today:
            return this_year.replace(year=today.year - 1)
        return this_year
    return None


def _table(moved: Move, bars: tuple[Bar, ...]) -> str:
    if bars:
        rows = (f"{minute(b.starts)} {b.open} {b.high} {b.low} {b.close} {b.volume}" for b in bars)
        return "\n".join(("starts open high low close volume", *rows))
    every = -(-len(moved.closes) // _MOST_CLOSES)
    return "\n".join(("ended close", *(f"{minute(at)} {price}" for at, price in moved.closes[::-every][::-1])))


def _bar_facts(moved: Move, bars: tuple[Bar, ...]) -> tuple[Fact, ...]:
    """The highest and lowest price that was really traded, where bars reach far enough to know it."""
    if not bars:
        return ()
    instrument = moved.instrument
    at = moved.ends
    source = moved.source
    whole = join_bars(bars, bars[0].starts)
    facts = [
        price_fact(instrument, "open", whole.open, whole.starts, source),
        price_fact(instrument, "high", whole.high, at, source),
        price_fact(instrument, "low", whole.low, at, source),
    ]
    if whole.volume:
        facts.append(plain_fact(instrument.symbol, "volume", Decimal(whole.volume), "pieces", at, source))
    return tuple(facts)


_MOST_COMPARED = 6
_COMPARE = (
    "Compares two to six instruments over a period, best first: start, end and change of each in its own currency. "
    "Not adjusted for exchange rates; say so where currencies differ."
)


class OnlyOne(ToolError):
    """A comparison of a single instrument."""


class CompareArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbols: Annotated[tuple[ListedName, ...], Meta(min_length=1, max_length=_MOST_COMPARED)]
    period: Period = "month"


def compare_tool(market: Market) -> Tool:
    @tool("market__compare", _COMPARE, group="finance")
    async def compare(args: CompareArguments, scope: ToolScope) -> ToolOutput:
        instruments = [resolve(market, name) for each in args.symbols for name in _names(market, each)]
        chosen = tuple(dict.fromkeys(instruments))
        if len(chosen) < 2:
            raise OnlyOne("There is only one instrument to compare. Ask the user for another.")
        moves = [await move(market, each, args.period) for each in chosen[:_MOST_COMPARED]]
        moves.sort(key=lambda each: -each.change_percent)
        records = [
            record({**identity(each.instrument), "period": each.period, **each.lines(), "source": each.source})
            for each in moves
        ]
        return ToolOutput("\n\n".join(records), tuple(fact for each in moves for fact in each.facts()))

    return compare


def _names(market: Market, query: str) -> tuple[str, ...]:
    """Here several names in one place do no harm: all of them are wanted."""
    try:
        resolve(market, query)
    except SeveralNames as several:
        return several.names
    except ToolError:
        pass
    return (query,)
