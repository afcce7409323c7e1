"""Toss Securities (토스증권), with the key of an account: Korean and US prices and daily bars, with their currency.

Only requests that look are in here. A price comes without the close before it, which the daily bars have. What counts
as its price outside of the regular session is not documented, so it is asked for only while that runs.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import (
    DataAuthExpired,
    DataError,
    DataMalformed,
    DataStale,
    DataUnsupported,
)
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source import DataKind, SourceClient, TokenAnswer, TokenSource
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.reading import (
    Number,
    ask_each,
    make_day_bars,
    read_number,
    read_prices,
    read_time,
    read_volume,
)
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Session
from finclaw.redaction import hide_and_cut

T = TypeVar("T")

_MOST_BARS: Final = 200
_MOST_PAGES: Final = 12
_NEWER: Final = Decimal("0.02")
_BEFORE: Final = 4
"""Daily bars in which the close before the running session is looked for."""


class _Result(Struct, Generic[T]):
    """Every success is wrapped; an error has no result."""

    result: T


class _Price(Struct, rename="camel"):
    symbol: str
    currency: str
    last_price: Number
    timestamp: str | None = None


class _Candle(Struct, rename="camel"):
    timestamp: str
    open_price: Number
    high_price: Number
    low_price: Number
    close_price: Number
    currency: str
    volume: Number = 0


class _Candles(Struct, rename="camel"):
    candles: list[_Candle] = field(default_factory=list[_Candle])
    next_before: str | None = None


class Toss(TokenSource):
    """Toss Open API."""

    info = SOURCES["toss"]
    kinds = ("quote", "bars")
    adjustment = "split"

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        is_listed = instrument.exchange in ("KRX", "NYSE", "NASDAQ") and instrument.kind in ("stock", "etf")
        return is_listed and super().has(instrument, kind)

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        """All in one request, and one more for the close before each."""
        now = client.now()
        running = [each for each in instruments if client.calendar.session_at(each.exchange, now) is not None]
        closed = DataStale("is asked for prices only in the regular session")
        if not running:
            raise closed
        names = ",".join(map(self.symbol_of, running))
        found = await self._get(client, _Result[list[_Price]], "api/v1/prices", {"symbols": names})
        prices = {each.symbol: each for each in found.result}

        async def ask(instrument: Instrument) -> PriceReading:
            price = prices.get(self.symbol_of(instrument))
            if price is None:
                raise DataUnsupported(f"said nothing of {instrument.symbol}")
            session = client.calendar.session_at(instrument.exchange, client.now())
            if session is None:
                raise DataStale(f"'s session of {instrument.symbol} has just ended")
            page = await self._read_page(client, instrument, _BEFORE, None)
            return parse_price(client, instrument, price, page.candles, session)

        read = await ask_each(running, ask)
        return {each.symbol: read.get(each.symbol, closed) for each in instruments}

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        bars: dict[date, Bar] = {}
        end = datetime.combine(span.last + timedelta(days=1), time(0), VENUES[instrument.exchange].tz)
        before: str | None = end.isoformat()
        for _ in range(_MOST_PAGES):
            page = await self._read_page(client, instrument, _MOST_BARS, before)
            bars |= {bar.day: bar for each in page.candles for bar in _read_bars(client, instrument, each)}
            if not page.next_before or not page.candles or min(bars, default=span.first) <= span.first:
                break
            before = page.next_before
        return list(bars.values())

    async def _read_page(
        self, client: SourceClient, instrument: Instrument, count: int, before: str | None
    ) -> _Candles:
        query = {"symbol": self.symbol_of(instrument), "interval": "1d", "count": str(count), "adjusted": "true"}
        if before:
            query["before"] = before
        return (await self._get(client, _Result[_Candles], "api/v1/candles", query)).result

    async def _get(self, client: SourceClient, kind: type[T], path: str, query: Mapping[str, str]) -> T:
        async def ask(_key: str, _secret: str, token: str) -> T:
            try:
                return await client.get(kind, path, query, headers={"Authorization": f"Bearer {token}"})
            except DataAuthExpired as error:
                text = f"{error}; Toss answers only addresses that are registered in its Open API settings"
                raise DataAuthExpired(text) from error

        return await self.ask_with_token(client, ask)

    async def request_token(self, client: SourceClient, key: str, secret: str) -> TokenAnswer:
        wanted = {"grant_type": "client_credentials", "client_id": key, "client_secret": secret}
        return await client.post(TokenAnswer, "oauth2/token", wanted, is_form=True)


def parse_price(
    client: SourceClient, instrument: Instrument, price: _Price, candles: Sequence[_Candle], session: Session
) -> PriceReading:
    """Raises DataError. The close before is that of the last bar of an earlier day; today's bar bounds the price."""
    if price.timestamp is None:
        raise DataStale(f"'s price of {instrument.symbol} has no time")
    bars = [bar for each in candles for bar in _read_bars(client, instrument, each)]
    earlier = [bar for bar in bars if bar.day < session.day]
    if not earlier:
        raise DataMalformed(f"has no close of {instrument.symbol} before today")
    today = next((bar for bar in bars if bar.day == session.day), None)
    last = read_number(price.last_price, "a price")
    reading = PriceReading(
        instrument=instrument,
        source=client.name,
        price=last,
        currency=price.currency,
        as_of=read_time(price.timestamp),
        previous_close=max(earlier, key=lambda bar: bar.day).close,
    )
    if today is None:
        return reading
    low, high = _widen(today, last)
    return replace(reading, low=low, high=high, volume=today.volume)


def _widen(bar: Bar, price: Decimal) -> tuple[Decimal, Decimal]:
    """The day's range. A trade may be newer than the bar and a little outside of it."""
    if bar.low * (1 - _NEWER) <= price <= bar.high * (1 + _NEWER):
        return min(bar.low, price), max(bar.high, price)
    return bar.low, bar.high


def _read_bars(client: SourceClient, instrument: Instrument, row: _Candle) -> Sequence[Bar]:
    if row.currency != instrument.currency:
        raise DataMalformed(f"'s bars of {instrument.symbol} are in {hide_and_cut(row.currency, 10)!r}")
    day = read_time(row.timestamp).astimezone(VENUES[instrument.exchange].tz).date()
    prices = read_prices((row.open_price, row.high_price, row.low_price, row.close_price))
    return make_day_bars(client, instrument, day, prices, read_volume(row.volume))
