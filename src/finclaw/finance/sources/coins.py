"""Exchanges of coins in won and dollars. Each counts the change of a coin from another hour, and says from which."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Final

from msgspec import Struct, field

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.plausible import PriceAnswer, PriceReading
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources import reading
from finclaw.finance.venue import KRX
from finclaw.redaction import hide_and_cut

_FLOAT_NOISE: Final = Decimal("0.000001")
_MOST_WON_CANDLES: Final = 200
_MOST_DOLLAR_CANDLES: Final = 300
_DAY: Final = timedelta(days=1)
_QUARTER: Final = timedelta(minutes=15)
"""Coinbase's candles that are asked for when minutes are wanted: it has none of half an hour."""


class _CoinSource(DataSource):
    kinds = ("quote", "bars", "minutes")
    minutes: frozenset[int] = frozenset()  # the lengths of its bars in minutes

    def check_minutes(self, span: BarRange) -> None:
        if span.minutes and span.minutes not in self.minutes:
            raise errors.DataUnsupported(f"has no bars of {span.minutes} minutes")


class _WonTicker(Struct):
    market: str
    trade_price: reading.Number
    prev_closing_price: reading.Number
    signed_change_price: reading.Number
    high_price: reading.Number
    low_price: reading.Number
    trade_timestamp: int
    acc_trade_volume: reading.Number


class _WonCandle(Struct):
    market: str
    candle_date_time_utc: str
    opening_price: reading.Number
    high_price: reading.Number
    low_price: reading.Number
    trade_price: reading.Number
    candle_acc_trade_volume: reading.Number


class Upbit(_CoinSource):
    """Upbit's quotation API. No Origin header may be sent: with one, it answers once in ten seconds."""

    info = SOURCES["upbit"]
    minutes = frozenset({1, 3, 5, 10, 15, 30, 60, 240})
    day_basis = "09:00 KST"

    @property
    def zone(self) -> tzinfo:
        """The zone of the days of its bars: midnight UTC is 09:00 in Seoul."""
        return UTC

    async def read_quotes(self, client: SourceClient, instruments: Sequence[Instrument]) -> Mapping[str, PriceAnswer]:
        asked = {self.symbol_of(each): each for each in instruments}
        tickers = await client.get(list[_WonTicker], "ticker", {"markets": ",".join(asked)})
        found = {each.market: each for each in tickers}
        return reading.read_each(asked, lambda pair, each: self._read_ticker(each, found.get(pair)))

    def _read_ticker(self, instrument: Instrument, ticker: _WonTicker | None) -> PriceReading:
        if ticker is None:
            raise errors.DataUnsupported(f"does not have {instrument.symbol}")
        price = reading.read_number(ticker.trade_price, "a price")
        before = reading.read_number(ticker.prev_closing_price, "a close")
        change = reading.read_number(ticker.signed_change_price, "a change")
        if abs(price - before - change) > abs(price) * _FLOAT_NOISE:
            raise errors.DataMalformed(f"'s change of {instrument.symbol} does not fit its price")
        return PriceReading(
            instrument=instrument,
            price=price,
            currency="KRW",
            as_of=reading.read_epoch(ticker.trade_timestamp / 1_000),
            previous_close=before,
            low=reading.read_number(ticker.low_price, "a low"),
            high=reading.read_number(ticker.high_price, "a high"),
            volume=reading.read_volume(ticker.acc_trade_volume),
            venue=self.info.name,
        )

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        self.check_minutes(span)
        path = "candles/days"
        step = _DAY
        if span.minutes:
            path = f"candles/minutes/{span.minutes}"
            step = timedelta(minutes=span.minutes)
        first = datetime.combine(span.first, time(0), self.zone).astimezone(UTC)
        end = datetime.combine(span.last + _DAY, time(0), self.zone).astimezone(UTC)
        bars: list[Bar] = []
        while end > first:
            # The end of a request is exclusive; an offset is written out, because the two differ in what they assume.
            query = {
                "market": self.symbol_of(instrument),
                "to": end.isoformat(),
                "count": str(min(_MOST_WON_CANDLES, -(-(end - first) // step))),
            }
            candles = await client.get(list[_WonCandle], path, query)
            page = [self._read_candle(client, each, step) for each in candles]
            bars += [each for each in page if first <= each.starts < end]
            earliest = min((each.starts for each in page), default=first)
            if earliest >= end or len(page) < _MOST_WON_CANDLES:
                break
            end = earliest
        return bars

    def _read_candle(self, client: SourceClient, candle: _WonCandle, step: timedelta) -> Bar:
        try:
            starts = datetime.fromisoformat(candle.candle_date_time_utc).replace(tzinfo=UTC)
        except ValueError as error:
            raise errors.DataMalformed("gave a time that cannot be read") from error
        prices = (candle.opening_price, candle.high_price, candle.low_price, candle.trade_price)
        return reading.make_coin_bar(client, starts, step, prices, candle.candle_acc_trade_volume, self.zone)


class Bithumb(Upbit):
    """Bithumb's API: the same fields, days of Seoul, and errors that may come as a success."""

    info = SOURCES["bithumb"]
    day_basis = "00:00 KST"

    @property
    def zone(self) -> tzinfo:
        return KRX.tz


_CoinbaseCandle = tuple[int, reading.Number, reading.Number, reading.Number, reading.Number, reading.Number]
"""Time, low, high, open, close, volume, in this odd order."""


class _CoinbaseTicker(Struct):
    price: str
    time: str


class Coinbase(_CoinSource):
    """Coinbase Exchange. Its ticker has no close of the day before, which comes from the daily candles."""

    info = SOURCES["coinbase"]
    day_basis = "00:00 UTC"

    async def read_quote(self, client: SourceClient, instrument: Instrument) -> PriceReading:
        today = client.now().date()
        ticker, bars = await asyncio.gather(
            client.get(_CoinbaseTicker, f"products/{self.symbol_of(instrument)}/ticker"),
            self._ask_candles(client, instrument, today - _DAY, today, _DAY),
        )
        days = {bar.day: bar for bar in bars}
        as_of = reading.read_time(ticker.time)
        running = days.get(as_of.date())
        before = days.get(as_of.date() - _DAY)
        return PriceReading(
            instrument=instrument,
            price=reading.read_number(ticker.price, "a price"),
            currency="USD",
            as_of=as_of,
            previous_close=before and before.close,
            volume=running.volume if running is not None else 0,
            venue=self.info.name,
        )

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        bars: list[Bar] = []
        step = _QUARTER if span.minutes else _DAY
        days = timedelta(days=1 if span.minutes else _MOST_DOLLAR_CANDLES)
        first = span.first
        while first <= span.last:
            last = min(first + days - _DAY, span.last)
            candles = await self._ask_candles(client, instrument, first, last, step)
            if span.minutes:
                candles = reading.merge_bars(candles, span.minutes, datetime.combine(first, time(0), UTC))
            bars += candles
            first += days
        return bars

    async def _ask_candles(
        self, client: SourceClient, instrument: Instrument, first: date, last: date, step: timedelta
    ) -> Sequence[Bar]:
        query = {
            "granularity": str(int(step.total_seconds())),
            "start": f"{first.isoformat()}T00:00:00Z",
            "end": f"{last.isoformat()}T23:59:59Z",
        }
        path = f"products/{self.symbol_of(instrument)}/candles"
        candles = await client.get(list[_CoinbaseCandle], path, query)
        bars = [
            reading.make_coin_bar(client, reading.read_epoch(stamp), step, (opened, high, low, close), volume)
            for stamp, low, high, opened, close, volume in candles
        ]
        return [each for each in bars if first <= each.day <= last]


_KrakenCandle = tuple[int, str, str, str, str, str, str, int]
"""Time, open, high, low, close, weighted average, volume, count."""


class _KrakenPair(Struct):
    c: tuple[str, str]
    l: tuple[str, str]  # noqa: E741  the vendor's names
    h: tuple[str, str]
    v: tuple[str, str]
    o: str  # today's open, from midnight UTC: a market that never rests opens where it closed


class _KrakenTickers(Struct):
    error: list[str] = field(default_factory=list[str])
    result: dict[str, _KrakenPair] = field(default_factory=dict[str, _KrakenPair])


class _KrakenCandles(Struct):
    error: list[str] = field(default_factory=list[str])
    result: dict[str, list[_KrakenCandle] | int] = field(default_factory=dict[str, "list[_KrakenCandle] | int"])


class Kraken(_CoinSource):
    """Kraken. Errors come with status 200, in a list beside an empty result."""

    info = SOURCES["kraken"]
    minutes = frozenset({1, 5, 15, 30, 60, 240})
    day_basis = "00:00 UTC"

    async def read_quote(self, client: SourceClient, instrument: Instrument) -> PriceReading:
        """One pair a request: the answer names pairs differently. It has no time, so that of the request is taken."""
        answer = await client.get(_KrakenTickers, "Ticker", {"pair": self.symbol_of(instrument)})
        _check_errors(client, answer.error)
        if len(answer.result) != 1:
            raise errors.DataMalformed(f"gave {len(answer.result)} pairs for one")
        (pair,) = answer.result.values()
        return PriceReading(
            instrument=instrument,
            price=reading.read_number(pair.c[0], "a price"),
            currency="USD",
            as_of=client.now(),
            previous_close=reading.read_number(pair.o, "an open"),
            low=reading.read_number(pair.l[0], "a low"),
            high=reading.read_number(pair.h[0], "a high"),
            volume=reading.read_volume(pair.v[0]),
            venue=self.info.name,
        )

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        self.check_minutes(span)
        minutes = span.minutes or 1_440
        # What began at `since` itself is left out.
        since = datetime.combine(span.first, time(0), UTC) - timedelta(minutes=1)
        query = {"pair": self.symbol_of(instrument), "interval": str(minutes), "since": str(int(since.timestamp()))}
        answer = await client.get(_KrakenCandles, "OHLC", query)
        _check_errors(client, answer.error)
        rows = [each for each in answer.result.values() if isinstance(each, list)]
        if len(rows) != 1:
            raise errors.DataMalformed(f"gave {len(rows)} series for one")
        step = timedelta(minutes=minutes)
        return [
            reading.make_coin_bar(client, reading.read_epoch(stamp), step, prices, volume)
            for stamp, *prices, _, volume, _ in rows[0]
        ]


def _check_errors(client: SourceClient, problems: list[str]) -> None:
    if not problems:
        return
    text = f"answered {hide_and_cut(problems[0], 80)!r}"
    if any("limit" in each.lower() or "too many" in each.lower() for each in problems):
        raise errors.DataRateLimited(text, retry_at=client.now() + timedelta(seconds=client.info.rest))
    raise errors.DataUnsupported(text)
