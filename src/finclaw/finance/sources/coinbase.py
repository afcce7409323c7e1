"""Coinbase: coins in real dollars. A candle is `[time, low, high, open, close, volume]`, in this odd order."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.vendor_symbols import vendor_symbol
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import DataError
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange, BarSeries
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.reading import Number, make_coin_bar, merge_bars, read_epoch, read_number, read_time

_DAY: Final = 86_400
_QUARTER: Final = 900
"""Seconds of the candles that are asked for when minutes are wanted: there are none of half an hour."""
_MOST: Final = 300
_BASIS: Final = "00:00 UTC"

_Candle = tuple[int, Number, Number, Number, Number, Number]


class _Ticker(Struct):
    price: str
    time: str


class Coinbase(DataSource):
    """Coinbase Exchange. Its ticker has no close of the day before, which comes from the daily candles."""

    info = SOURCES["coinbase"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind in ("quote", "bars", "minutes") and vendor_symbol("coinbase", instrument) is not None

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        (instrument,) = instruments
        today = client.now().date()
        ticker, bars = await asyncio.gather(
            client.get(_Ticker, f"products/{vendor_symbol('coinbase', instrument)}/ticker"),
            _ask_candles(client, instrument, today - timedelta(days=1), today, _DAY),
        )
        days = {bar.day: bar for bar in bars}
        as_of = read_time(ticker.time, client.name)
        running = days.get(as_of.date())
        before = days.get(as_of.date() - timedelta(days=1))
        reading = PriceReading(
            instrument=instrument,
            source=client.name,
            price=read_number(ticker.price, client.name, "a price"),
            currency="USD",
            as_of=as_of,
            previous_close=before.close if before is not None else None,
            volume=running.volume if running is not None else 0,
            venue=client.name,
            day_basis=_BASIS,
        )
        return {instrument.symbol: reading}

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> BarSeries:
        bars: list[Bar] = []
        if span.minutes:
            day = span.first
            while day <= span.last:
                midnight = datetime.combine(day, datetime.min.time(), UTC)
                quarters = await _ask_candles(client, instrument, day, day, _QUARTER)
                bars += merge_bars(quarters, span.minutes, midnight)
                day += timedelta(days=1)
        else:
            first = span.first
            while first <= span.last:
                last = min(first + timedelta(days=_MOST - 1), span.last)
                bars += await _ask_candles(client, instrument, first, last, _DAY)
                first = last + timedelta(days=1)
        return BarSeries(
            instrument=instrument, bars=tuple(bars), adjustment="none", source=client.name, day_basis=_BASIS
        )


async def _ask_candles(
    client: SourceClient, instrument: Instrument, first: date, last: date, seconds: int
) -> list[Bar]:
    query = {
        "granularity": str(seconds),
        "start": f"{first.isoformat()}T00:00:00Z",
        "end": f"{last.isoformat()}T23:59:59Z",
    }
    path = f"products/{vendor_symbol('coinbase', instrument)}/candles"
    candles = await client.get(list[_Candle], path, query)
    bars = [_read_candle(client, each, seconds) for each in candles]
    return [each for each in bars if first <= each.day <= last]


def _read_candle(client: SourceClient, candle: _Candle, seconds: int) -> Bar:
    stamp, *figures = candle
    low, high, opened, close, volume = (read_number(each, client.name, "a figure of a bar") for each in figures)
    step = timedelta(seconds=seconds)
    return make_coin_bar(client, read_epoch(stamp, client.name), step, (opened, high, low, close), int(volume))
