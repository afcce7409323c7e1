"""The screener: those of a person's watchlist for which simple conditions hold, and how many could not be looked at."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct

from finclaw.errors import ToolError
from finclaw.finance.market import Market, Quote, percent
from finclaw.finance.output import minute, plain_fact, price_fact, record
from finclaw.finance.quote import describe, facts_of, load_quotes, name_missing
from finclaw.finance.resolve import resolve
from finclaw.finance.watchlist.tools import FewNames, WatchDesk, person_of
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_DESCRIPTION = (
    "Finds those of the person's watchlist, or of `symbols`, that meet every condition given: change in percent, price "
    "in its own currency, within so many percent of the highest or lowest close of 52 weeks. Tell how many were looked "
    "at and which could not be read."
)
_YEAR: Final = timedelta(weeks=52)
_SHORTEST: Final = timedelta(weeks=50)
"""A history that begins later is no year's."""
_AT_ONCE: Final = 4


class ScreenArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    change_above: float | None = None
    change_below: float | None = None
    price_above: float | None = None
    price_below: float | None = None
    near_52_week_high: float | None = None
    near_52_week_low: float | None = None
    symbols: FewNames | None = None


_CONDITIONS: Final = tuple(name for name in ScreenArguments.__struct_fields__ if name != "symbols")


class NoCondition(ToolError):
    """A screen without any condition."""


class YearRange(Struct, frozen=True):
    """The highest and the lowest close of the last 52 weeks."""

    high: Decimal
    low: Decimal
    source: str


def screen_tool(desk: WatchDesk) -> Tool:
    @tool("market__screen", _DESCRIPTION, group="finance", timeout=60.0)
    async def screen(args: ScreenArguments, scope: ToolScope) -> ToolOutput:
        if all(getattr(args, name) is None for name in _CONDITIONS):
            raise NoCondition("Give at least one condition. Ask the user what to look for.")
        if args.symbols is None:
            symbols: Sequence[str] = await desk.lists.symbols(person_of(desk, scope))
        else:
            symbols = tuple(dict.fromkeys(resolve(desk.market, each).symbol for each in args.symbols))
        if not symbols:
            raise ToolError("The watchlist is empty, so there is nothing to look through. Say so.")
        watched = await load_quotes(desk.market, desk.data(), symbols)
        found = [quote for quote in watched.quotes if _meets(quote, args)]
        ranges, failed = await _load_ranges(desk.market, found, args)
        found = [quote for quote in found if _is_near(quote, args, ranges)]
        unread = [*name_missing(watched), *failed]
        head = record(
            {
                "looked_at": watched.count,
                "met": len(found),
                "could_not_read": len(unread),
                "unread": "; ".join(unread) or None,
                "as_of": minute(desk.market.now()),
            }
        )
        records = [_describe_found(each, ranges.get(each.instrument.symbol)) for each in found]
        facts = [fact for each in found for fact in _facts_of(each, ranges.get(each.instrument.symbol))]
        counts = _count_facts((watched.count, len(found), len(unread)), desk.market.now())
        return ToolOutput("\n\n".join([head, *records]), (*counts, *facts))

    return screen


def _exact(number: float) -> Decimal:
    """The figure as the model wrote it."""
    return Decimal(str(number))


def _meets(quote: Quote, args: ScreenArguments) -> bool:
    change, price = quote.change_percent, quote.price
    return (
        (args.change_above is None or change > _exact(args.change_above))
        and (args.change_below is None or change < _exact(args.change_below))
        and (args.price_above is None or price > _exact(args.price_above))
        and (args.price_below is None or price < _exact(args.price_below))
    )


# ── 52 weeks ────────────────────────────────────────────────────────────────────────────────────────────────


async def _load_ranges(
    market: Market, quotes: Sequence[Quote], args: ScreenArguments
) -> tuple[dict[str, YearRange], list[str]]:
    """Of those that are left, a few at a time: a year of bars is a request for each."""
    if args.near_52_week_high is None and args.near_52_week_low is None:
        return {}, []
    gate, ranges, failed = asyncio.Semaphore(_AT_ONCE), dict[str, YearRange](), list[str]()

    async def load(quote: Quote) -> None:
        symbol = quote.instrument.symbol
        async with gate:
            try:
                ranges[symbol] = await load_year_range(market, quote)
            except ToolError as error:
                failed.append(f"{symbol}: {error.suggestion or error}")

    await asyncio.gather(*map(load, quotes))
    return ranges, failed


async def load_year_range(market: Market, quote: Quote) -> YearRange:
    """Raises ToolError where a year's closes are not to be had."""
    symbol, now = quote.instrument.symbol, market.now()
    closes = await market.closes(symbol, (now - _YEAR).date())
    if not closes.prices or closes.prices[0][0] > now - _SHORTEST:
        raise ToolError(f"{symbol} has no prices of a whole year", suggestion="no prices of a whole year")
    prices = [price for _, price in closes.prices]
    return YearRange(max(prices), min(prices), closes.source)


def _is_near(quote: Quote, args: ScreenArguments, ranges: dict[str, YearRange]) -> bool:
    if args.near_52_week_high is None and args.near_52_week_low is None:
        return True
    year = ranges.get(quote.instrument.symbol)
    if year is None:
        return False
    high, low = args.near_52_week_high, args.near_52_week_low
    return (high is None or percent(year.high - quote.price, year.high) <= _exact(high)) and (
        low is None or percent(quote.price - year.low, year.low) <= _exact(low)
    )


# ── output ──────────────────────────────────────────────────────────────────────────────────────────────────


def _describe_found(quote: Quote, year: YearRange | None) -> str:
    if year is None:
        return describe(quote)
    return f"{describe(quote)}\nhighest_close_52_weeks: {year.high}\nlowest_close_52_weeks: {year.low}"


def _facts_of(quote: Quote, year: YearRange | None) -> tuple[Fact, ...]:
    if year is None:
        return facts_of(quote)
    of, at = quote.instrument, quote.as_of
    high = price_fact(of, "highest_close_52_weeks", year.high, at, year.source)
    return (*facts_of(quote), high, price_fact(of, "lowest_close_52_weeks", year.low, at, year.source))


def _count_facts(counts: tuple[int, int, int], now: datetime) -> tuple[Fact, ...]:
    fields = ("looked_at", "met", "could_not_read")
    return tuple(
        plain_fact("watchlist", field, Decimal(count), "instruments", now, "watchlist")
        for field, count in zip(fields, counts, strict=True)
    )
