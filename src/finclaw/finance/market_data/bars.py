"""Bars through a chain of sources, with the checks that a single bar cannot fail."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Final

from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import (
    AllSourcesFailed,
    DataEmpty,
    DataError,
    DataImplausible,
    DataUnsupported,
    refuse_unreadable,
)
from finclaw.finance.market_data.plausible import check_bars, pad_price
from finclaw.finance.market_data.port import BarRange, BarSeries, Purpose
from finclaw.finance.market_data.source_access import SourceAccess

_JUMP: Final = 5
"""From one bar to the next a price is at most so many times itself: more is a change of unit, or a split left out."""
_SAME_UNIT: Final = Decimal("0.50")
_RECENT: Final = timedelta(days=10)


async def read_bars(
    access: SourceAccess, instrument: Instrument, span: BarRange, purpose: Purpose, last_price: Decimal | None
) -> BarSeries:
    """A series from the first source that has a believable one. Raises AllSourcesFailed or DataUnsupported."""
    chain = access.chain(instrument, "minutes" if span.minutes else "bars")
    if not chain:
        raise DataUnsupported(f"No source that is switched on has bars of {instrument.symbol}. Say so.")
    causes: list[DataError] = []
    for source in chain:
        try:
            series = await access.ask(source, purpose, lambda client: source.read_bars(client, instrument, span))  # noqa: B023  it is awaited in the same round
            with refuse_unreadable(source.info.name):
                series = check_series(series, span, last_price, access.clock.now())
        except DataError as error:
            causes.append(error)
            continue
        return replace(series, failed=tuple(f"{each.source} {each.kind}" for each in causes))
    raise AllSourcesFailed(f"price history of {instrument.symbol}", tuple(causes))


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


def merge_bars(bars: Iterable[Bar], minutes: int, opens: datetime) -> Iterator[Bar]:
    """Longer bars of shorter ones, counted from the open of the session."""

    def number(bar: Bar) -> int:
        return int((bar.starts - opens).total_seconds() // (minutes * 60))

    for place, group in groupby(sorted(bars, key=lambda each: each.starts), key=number):
        parts = list(group)
        yield Bar(
            day=parts[0].day,
            starts=opens + timedelta(minutes=place * minutes),
            ends=parts[-1].ends,
            open=parts[0].open,
            high=max(each.high for each in parts),
            low=min(each.low for each in parts),
            close=parts[-1].close,
            volume=sum(each.volume for each in parts),
        )
