"""Kraken: coins in real dollars. Errors come with status 200, in a list beside an empty result."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct, field

from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.vendor_symbols import vendor_symbol
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import DataError, DataMalformed, DataRateLimited, DataUnsupported
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange, BarSeries
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.reading import make_coin_bar, read_epoch, read_number, read_prices
from finclaw.redaction import hide_and_cut

_BASIS: Final = "00:00 UTC"
_MINUTES: Final = frozenset({1, 5, 15, 30, 60, 240})

_Candle = tuple[int, str, str, str, str, str, str, int]
"""Time, open, high, low, close, weighted average, volume, count."""


class _Pair(Struct):
    c: tuple[str, str]
    """The last trade: price and size."""
    l: tuple[str, str]  # noqa: E741  the vendor's names
    h: tuple[str, str]
    v: tuple[str, str]
    o: str
    """Today's open, from midnight UTC: a market that never rests opens where it closed."""


class _Tickers(Struct):
    error: list[str] = field(default_factory=list[str])
    result: dict[str, _Pair] = field(default_factory=dict[str, _Pair])


class _Candles(Struct):
    error: list[str] = field(default_factory=list[str])
    result: dict[str, list[_Candle] | int] = field(default_factory=dict[str, "list[_Candle] | int"])


class Kraken(DataSource):
    info = SOURCES["kraken"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind in ("quote", "bars", "minutes") and vendor_symbol("kraken", instrument) is not None

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        """One by one: the answer names pairs otherwise than the question, so that several could be mixed up."""
        found: dict[str, PriceReading | DataError] = {}
        for each in instruments:
            answer = await client.get(_Tickers, "Ticker", {"pair": vendor_symbol("kraken", each) or ""})
            _check_errors(client, answer.error)
            if len(answer.result) != 1:
                raise DataMalformed(f"{client.name} gave {len(answer.result)} pairs for one", source=client.name)
            (pair,) = answer.result.values()
            found[each.symbol] = _read_pair(client, each, pair)
        return found

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> BarSeries:
        if span.minutes and span.minutes not in _MINUTES:
            raise DataUnsupported(f"{client.name} has no bars of {span.minutes} minutes", source=client.name)
        minutes = span.minutes or 1_440
        # What began at `since` itself is left out.
        since = datetime.combine(span.first, datetime.min.time(), UTC) - timedelta(minutes=1)
        pair = vendor_symbol("kraken", instrument) or ""
        query = {"pair": pair, "interval": str(minutes), "since": str(int(since.timestamp()))}
        answer = await client.get(_Candles, "OHLC", query)
        _check_errors(client, answer.error)
        rows = [each for each in answer.result.values() if isinstance(each, list)]
        if len(rows) != 1:
            raise DataMalformed(f"{client.name} gave {len(rows)} series for one", source=client.name)
        bars = tuple(_read_candle(client, each, timedelta(minutes=minutes)) for each in rows[0])
        return BarSeries(instrument=instrument, bars=bars, adjustment="none", source=client.name, day_basis=_BASIS)


def _check_errors(client: SourceClient, errors: list[str]) -> None:
    if not errors:
        return
    text = f"{client.name} answered {hide_and_cut(errors[0], 80)!r}"
    if any("limit" in each.lower() or "too many" in each.lower() for each in errors):
        rest = client.now() + timedelta(seconds=client.info.rest)
        raise DataRateLimited(text, source=client.name, retry_at=rest)
    raise DataUnsupported(text, source=client.name)


def _read_pair(client: SourceClient, instrument: Instrument, pair: _Pair) -> PriceReading:
    """The answer has no time of its own: it is of the moment in which it was asked for."""
    name = client.name
    return PriceReading(
        instrument=instrument,
        source=name,
        price=read_number(pair.c[0], name, "a price"),
        currency="USD",
        as_of=client.now(),
        previous_close=read_number(pair.o, name, "an open"),
        low=read_number(pair.l[0], name, "a low"),
        high=read_number(pair.h[0], name, "a high"),
        volume=int(read_number(pair.v[0], name, "a volume")),
        venue=name,
        day_basis=_BASIS,
    )


def _read_candle(client: SourceClient, candle: _Candle, step: timedelta) -> Bar:
    stamp, *texts, _, volume, _ = candle
    name = client.name
    pieces = int(read_number(volume, name, "a volume"))
    return make_coin_bar(client, read_epoch(stamp, name), step, read_prices(texts, name), pieces)
