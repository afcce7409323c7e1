"""Bars, fixings and documents through a chain of sources: the first believable answer is enough."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Final, TypeVar

from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import (
    AllSourcesFailed,
    DataEmpty,
    DataError,
    DataImplausible,
    DataUnsupported,
    name_failures,
    refuse_unreadable,
)
from finclaw.finance.market_data.plausible import PriceReading, check_bars, check_reading, pad_price
from finclaw.finance.market_data.port import (
    BarRange,
    BarSeries,
    CompanyProfile,
    EarningsDate,
    ExchangeRate,
    Filing,
    NewsItem,
    Purpose,
)
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_access import SourceAccess

_JUMP: Final = 5
"""From one bar to the next a price is at most so many times itself: more is a change of unit, or a split left out."""
_SAME_UNIT: Final = Decimal("0.50")
_RECENT: Final = timedelta(days=10)


T = TypeVar("T")


async def read_bars(
    access: SourceAccess, instrument: Instrument, span: BarRange, purpose: Purpose, last_price: Decimal | None
) -> BarSeries:
    """A series from the first source that has a believable one.

    Raises AllSourcesFailed, or DataUnsupported where no source is switched on; so do the others here.
    """
    size: DataKind = "minutes" if span.minutes else "bars"

    def accept(series: BarSeries, failed: tuple[str, ...]) -> BarSeries:
        return replace(check_series(series, span, last_price, access.clock.now()), failed=failed)

    return await _ask_chain(
        access,
        access.chain(instrument, size),
        purpose,
        f"price history of {instrument.symbol}",
        lambda source, client: source.read_bars(client, instrument, span),
        accept,
        offer=f"bars of {instrument.symbol}",
    )


def check_series(series: BarSeries, span: BarRange, last_price: Decimal | None, now: datetime) -> BarSeries:
    """The series with the bars of the span alone. Raises DataError for one that cannot be right."""
    source, symbol = series.source, series.instrument.symbol
    asked = tuple(bar for bar in series.bars if span.first <= bar.day <= span.last)
    if any(bar.starts > now for bar in asked):
        raise DataImplausible(f"{source} has a bar of {symbol} that lies ahead", source=source)
    bars = check_bars(asked, source, symbol)
    if not bars:
        raise DataEmpty(f"{source} has no bars of {symbol} for that time", source=source)
    for before, after in pairwise(bars):
        if not before.close < after.close * _JUMP or not after.close < before.close * _JUMP:
            raise DataImplausible(f"{source}'s bars of {symbol} jump on {after.day}", source=source)
    latest = bars[-1]
    if last_price is not None and now - latest.ends < _RECENT and abs(latest.close / last_price - 1) > _SAME_UNIT:
        raise DataImplausible(f"{source}'s bars of {symbol} are far from its last price", source=source)
    return replace(series, bars=tuple(_pad_bar(each, series.instrument) for each in bars))


def _pad_bar(bar: Bar, instrument: Instrument) -> Bar:
    opened, high, low, close = (pad_price(each, instrument) for each in (bar.open, bar.high, bar.low, bar.close))
    return replace(bar, open=opened, high=high, low=low, close=close)


async def read_fixing(access: SourceAccess, base: str, quote: str, purpose: Purpose) -> ExchangeRate:
    """An exchange rate that a central bank publishes once a business day."""
    symbol = f"{base}/{quote}"
    pair = Instrument(symbol=symbol, exchange="FX", name_en=symbol, name_ko=symbol, currency=quote, kind="rate")

    def accept(rate: ExchangeRate, failed: tuple[str, ...]) -> ExchangeRate:
        _check_fixing(rate, pair, access)
        return replace(rate, failed=failed)

    return await _ask_chain(
        access,
        access.chain(pair, "fixing"),
        purpose,
        f"fixing of {symbol}",
        lambda source, client: source.read_fixing(client, base, quote),
        accept,
    )


def _check_fixing(rate: ExchangeRate, pair: Instrument, access: SourceAccess) -> None:
    """Raises DataError. The rules of prices hold; the close before it is not part of a fixing."""
    if (rate.base, rate.quote, rate.basis) != (pair.symbol[:3], pair.currency, "fixing"):
        raise DataImplausible(
            f"{rate.source} spoke of {rate.base}/{rate.quote}, not of {pair.symbol}", source=rate.source
        )
    reading = PriceReading(
        instrument=pair,
        source=rate.source,
        price=rate.rate,
        currency=rate.quote,
        as_of=rate.as_of,
        previous_close=rate.rate,
        fixing=rate.day,
    )
    check_reading(reading, access.calendar, access.clock.now())


async def read_news(
    access: SourceAccess, instrument: Instrument | None, limit: int, purpose: Purpose
) -> Sequence[NewsItem]:
    if instrument is None:
        chain = access.named_chain("market.ALL.news")
        what = "news of the market"
    else:
        chain = access.chain(instrument, "news")
        what = f"news of {instrument.symbol}"
    return await _ask_chain(
        access, chain, purpose, what, lambda source, client: source.read_news(client, instrument, limit)
    )


async def read_filings(access: SourceAccess, instrument: Instrument, limit: int, purpose: Purpose) -> Sequence[Filing]:
    chain = access.chain(instrument, "filings")
    what = f"list of filings of {instrument.symbol}"
    return await _ask_chain(
        access, chain, purpose, what, lambda source, client: source.read_filings(client, instrument, limit)
    )


async def read_earnings(access: SourceAccess, first: date, last: date, purpose: Purpose) -> Sequence[EarningsDate]:
    chain = access.named_chain("stock.US.earnings")
    what = "calendar of earnings"
    return await _ask_chain(
        access, chain, purpose, what, lambda source, client: source.read_earnings(client, first, last)
    )


async def read_profile(access: SourceAccess, instrument: Instrument, purpose: Purpose) -> CompanyProfile:
    chain = access.chain(instrument, "profile")
    what = f"profile of {instrument.symbol}"
    return await _ask_chain(
        access, chain, purpose, what, lambda source, client: source.read_profile(client, instrument)
    )


def _accept_as_is(answer: T, failed: tuple[str, ...]) -> T:
    return answer


async def _ask_chain(
    access: SourceAccess,
    chain: Sequence[DataSource],
    purpose: Purpose,
    what: str,
    read: Callable[[DataSource, SourceClient], Awaitable[T]],
    accept: Callable[[T, tuple[str, ...]], T] = _accept_as_is,
    *,
    offer: str = "",
) -> T:
    """The first answer that `accept` takes; it is given the sources that failed before, and raises DataError."""
    if not chain:
        raise DataUnsupported(f"No source that is switched on has {offer or f'a {what}'}. Say so.")
    causes: list[DataError] = []
    for source in chain:
        try:
            answer = await access.ask(source, purpose, lambda client: read(source, client))  # noqa: B023  it is awaited in the same round
            with refuse_unreadable(source.info.name):
                return accept(answer, name_failures(causes))
        except DataError as error:
            causes.append(error)
    raise AllSourcesFailed(what, tuple(causes))
