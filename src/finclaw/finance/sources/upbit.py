"""Upbit and Bithumb: coins against the won. Bithumb answers in Upbit's shape, and its day begins at another hour.

The change of a coin is counted from 09:00 in Seoul at one of them and from midnight at the other, so both say it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.vendor_symbols import vendor_symbol
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import DataError, DataMalformed, DataUnsupported
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange, BarSeries
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.reading import Number, make_coin_bar, read_each, read_epoch, read_number, read_prices
from finclaw.finance.venue import KRX

_MOST: Final = 200
"""Candles of one request."""
_FLOAT_NOISE: Final = Decimal("0.000001")
_MINUTES: Final = frozenset({1, 3, 5, 10, 15, 30, 60, 240})


class _Ticker(Struct):
    market: str
    trade_price: Number
    prev_closing_price: Number
    signed_change_price: Number
    high_price: Number
    low_price: Number
    trade_timestamp: int
    acc_trade_volume: Number


class _Candle(Struct):
    market: str
    candle_date_time_utc: str
    opening_price: Number
    high_price: Number
    low_price: Number
    trade_price: Number
    candle_acc_trade_volume: Number


class Upbit(DataSource):
    """Upbit's quotation API. No Origin header may be sent: with one, it answers once in ten seconds."""

    info = SOURCES["upbit"]
    vendor: Literal["upbit", "bithumb"] = "upbit"
    day_basis = "09:00 KST"

    @property
    def zone(self) -> tzinfo:
        """The zone of the days of its bars: midnight UTC is 09:00 in Seoul."""
        return UTC

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind in ("quote", "bars", "minutes") and vendor_symbol(self.vendor, instrument) is not None

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        asked = {vendor_symbol(self.vendor, each) or "": each for each in instruments}
        tickers = await client.get(list[_Ticker], "ticker", {"markets": ",".join(asked)})
        found = {each.market: each for each in tickers}
        return read_each(client.name, asked, lambda pair, each: self._read_ticker(client, each, found.get(pair)))

    def _read_ticker(self, client: SourceClient, instrument: Instrument, ticker: _Ticker | None) -> PriceReading:
        name = client.name
        if ticker is None:
            raise DataUnsupported(f"{name} does not have {instrument.symbol}", source=name)
        price = read_number(ticker.trade_price, name, "a price")
        before = read_number(ticker.prev_closing_price, name, "a close")
        change = read_number(ticker.signed_change_price, name, "a change")
        if abs(price - before - change) > abs(price) * _FLOAT_NOISE:
            raise DataMalformed(f"{name}'s change of {instrument.symbol} does not fit its price", source=name)
        return PriceReading(
            instrument=instrument,
            source=name,
            price=price,
            currency="KRW",
            as_of=read_epoch(ticker.trade_timestamp / 1_000, name),
            previous_close=before,
            low=read_number(ticker.low_price, name, "a low"),
            high=read_number(ticker.high_price, name, "a high"),
            volume=int(read_number(ticker.acc_trade_volume, name, "a volume")),
            venue=name,
            day_basis=self.day_basis,
        )

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> BarSeries:
        if span.minutes and span.minutes not in _MINUTES:
            raise DataUnsupported(f"{client.name} has no bars of {span.minutes} minutes", source=client.name)
        path = "candles/days"
        step = timedelta(days=1)
        if span.minutes:
            path = f"candles/minutes/{span.minutes}"
            step = timedelta(minutes=span.minutes)
        first, end = self._bounds(span)
        bars: list[Bar] = []
        while end > first:
            # The end of a request is exclusive; an offset is written out, because the two differ in what they assume.
            query = {
                "market": vendor_symbol(self.vendor, instrument) or "",
                "to": end.isoformat(),
                "count": str(min(_MOST, -(-(end - first) // step))),
            }
            candles = await client.get(list[_Candle], path, query)
            page = [self._read_candle(client, each, step) for each in candles]
            bars += [each for each in page if first <= each.starts < end]
            earliest = min((each.starts for each in page), default=first)
            if earliest >= end or len(page) < _MOST:
                break
            end = earliest
        return BarSeries(
            instrument=instrument, bars=tuple(bars), adjustment="none", source=client.name, day_basis=self.day_basis
        )

    def _bounds(self, span: BarRange) -> tuple[datetime, datetime]:
        """The first moment of the span, and the one after its last."""
        first = datetime.combine(span.first, time(0), self.zone)
        last = datetime.combine(span.last + timedelta(days=1), time(0), self.zone)
        return first.astimezone(UTC), last.astimezone(UTC)

    def _read_candle(self, client: SourceClient, candle: _Candle, step: timedelta) -> Bar:
        try:
            starts = datetime.fromisoformat(candle.candle_date_time_utc).replace(tzinfo=UTC)
        except ValueError as error:
            raise DataMalformed(f"{client.name} gave a time that cannot be read", source=client.name) from error
        figures = (candle.opening_price, candle.high_price, candle.low_price, candle.trade_price)
        volume = int(read_number(candle.candle_acc_trade_volume, client.name, "a volume"))
        return make_coin_bar(client, starts, step, read_prices(figures, client.name), volume, self.zone)


class Bithumb(Upbit):
    """Bithumb's API: the same fields, days of Seoul, and errors that may come as a success."""

    info = SOURCES["bithumb"]
    vendor: Literal["upbit", "bithumb"] = "bithumb"
    day_basis = "00:00 KST"

    @property
    def zone(self) -> tzinfo:
        return KRX.tz
