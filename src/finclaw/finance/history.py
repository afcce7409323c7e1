"""The tool that tells how a price got where it is: its bars, and the change over a period."""

from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.finance.market import Bar, Market
from finclaw.finance.period import Move, Period, move, move_facts
from finclaw.finance.quote import SymbolName
from finclaw.finance.resolve import resolve
from finclaw.finance.telling import identity, minute, plain_fact, price_fact, record
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_DESCRIPTION = (
    "How one instrument's price moved over a period that ends now: start, end, change, extremes, and bars (half-hour "
    "bars for a day, daily bars for a week, closes for anything longer). The change runs from the last close before "
    "the period."
)
_MOST_CLOSES = 24
"""A year has 250; the model needs the shape and not every day."""


class HistoryArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName
    period: Annotated[
        Period, Meta(description="`day` is the running or last session, `yesterday` the one before today.")
    ] = "month"


def history_tool(market: Market) -> Tool:
    @tool("market__history", _DESCRIPTION, group="finance")
    async def history(args: HistoryArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(market, args.symbol)
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
                "source": market.source,
            }
        )
        return ToolOutput(f"{text}\n\n{_table(moved, bars)}", (*move_facts(moved), *_bar_facts(moved, bars)))

    return history


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
        price_fact(instrument, "high", max(bar.high for bar in bars), at, source),
        price_fact(instrument, "low", min(bar.low for bar in bars), at, source),
        *([plain_fact(instrument.symbol, "volume", volume, "pieces", at, source)] if volume else []),
    )
