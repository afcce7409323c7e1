"""The price history tool: an instrument's bars, and the change over a period."""

from datetime import date
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, Market
from finclaw.finance.output import identity, minute, plain_fact, price_fact, record
from finclaw.finance.period import Move, Period, move, move_facts, session_day
from finclaw.finance.quote import SymbolName
from finclaw.finance.resolve import resolve
from finclaw.finance.venue import VENUES
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_DESCRIPTION = (
    "How one instrument's price moved over a period: start, end, change from the last close before it, extremes, and "
    "bars or closes. `week`, `month`, `quarter`, `year` end now; `this_…`, `last_…` are those of the calendar. With "
    "`on`: the close of that day instead."
)
_FIRST_DAY = date(2025, 1, 1)
"""Holidays before it are not known."""
_MOST_CLOSES = 24
"""A year has 250; the model needs the shape and not every day."""


OneDay = Annotated[
    str,
    Meta(
        description="2026-03-03; or 03-03, the latest such day.",
        pattern=r"^(\d{4}-)?\d{2}-\d{2}$",
    ),
]


class HistoryArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName
    period: Annotated[Period, Meta(description="`day` is the running or last session.")] = "month"
    on: OneDay | None = None


class NoSuchSession(ToolError):
    """There is no close of that day: a weekend, a holiday, a day ahead, or one too long ago. Suggestion: the day."""


def history_tool(market: Market) -> Tool:
    @tool("market__history", _DESCRIPTION, group="finance")
    async def history(args: HistoryArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(market, args.symbol)
        if args.on is not None:
            return await _close_on(market, instrument, args.on)
        moved = await move(market, instrument, args.period)
        bars = await _bars(market, moved)
        text = record(
            {
                **identity(instrument),
                "period": args.period,
                "start": f"{moved.start} ({minute(moved.starts)})",
                "end": f"{moved.end} ({minute(moved.ends)})",
                "change": f"{moved.change:+}",
                "change_percent": f"{moved.change_percent:+}",
                "highest_close": moved.highest_close,
                "lowest_close": moved.lowest_close,
                "source": moved.source,
            }
        )
        return ToolOutput(f"{text}\n\n{_table(moved, bars)}", (*move_facts(moved), *_bar_facts(moved, bars)))

    return history


async def _close_on(market: Market, instrument: Instrument, wanted: str) -> ToolOutput:
    today = market.now().astimezone(VENUES[instrument.exchange].tz).date()
    day = _date(wanted, today)
    found = await market.closes(instrument.symbol, day) if day and _FIRST_DAY <= day <= today else None
    if found is None or not found.prices or session_day(instrument, found.prices[0][0]) != day:
        raise NoSuchSession(
            f"There is no close of {instrument.symbol} on {day or wanted}. Say so and give no figure.",
            suggestion=str(day or wanted),
        )
    (at, close), source = found.prices[0], found.source
    text = record({**identity(instrument), "date": day, "close": close, "as_of": minute(at), "source": source})
    return ToolOutput(text, (price_fact(instrument, "close", close, at, source),))


def _date(wanted: str, today: date) -> date | None:
    """None when there is no such day, as on the thirtieth of February."""
    try:
        if len(wanted) > len("03-03"):
            return date.fromisoformat(wanted)
        this_year = date.fromisoformat(f"{today.year}-{wanted}")
        return this_year if this_year <= today else this_year.replace(year=today.year - 1)
    except ValueError:
        return None


async def _bars(market: Market, moved: Move) -> tuple[Bar, ...]:
    symbol = moved.instrument.symbol
    if moved.period == "day":
        return await market.intraday(symbol, 30)
    return await market.daily(symbol, len(moved.closes)) if moved.period == "week" else ()


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
    instrument, at, source = moved.instrument, moved.ends, moved.source
    volume = Decimal(sum(bar.volume for bar in bars))
    return (
        price_fact(instrument, "open", bars[0].open, bars[0].starts, source),
        price_fact(instrument, "high", max(bar.high for bar in bars), at, source),
        price_fact(instrument, "low", min(bar.low for bar in bars), at, source),
        *([plain_fact(instrument.symbol, "volume", volume, "pieces", at, source)] if volume else []),
    )
