"""Naver's own pages. Prices come as texts with commas, and a change as its size with a direction code."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, ExtendedPrice
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.plausible import PriceAnswer, PriceReading
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient, ask_each
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources import reading
from finclaw.finance.venue import VENUES
from finclaw.redaction import hide_and_cut

_HEADERS: Final = {**reading.BROWSER, "Referer": "https://m.stock.naver.com/"}
_ROUNDING: Final = Decimal("0.02")
_UNITS: Final = {"FX_JPYKRW": 100}  # rates that are for more than one unit
_VENUES: Final = {"rate": "bank posted rate"}
"""By the kind of instrument; of others it does not say where they are traded."""
_EXTENDED: Final[dict[str, Literal["pre", "after"]]] = {"PRE_MARKET": "pre", "AFTER_MARKET": "after"}
_SLACK: Final = timedelta(minutes=60)
"""The last figures of a session are stamped up to so long after its close."""


class _Code(Struct):
    code: str


class _Exchange(Struct, rename="camel"):
    delay_time: int = 0


class _OverMarket(Struct, rename="camel"):
    """A price of the pre- or after-market. The block comes and goes, and never spoils the price above it."""

    trading_session_type: str = ""
    over_price: reading.Number = None
    local_traded_at: str = ""


class _Price(Struct, rename="camel"):
    """A price in any of the answers: those of the polling API, of `basic`, and of a rate."""

    close_price: reading.Number
    fluctuations_ratio: reading.Number
    local_traded_at: str
    compare_to_previous_close_price: reading.Number = None
    fluctuations: reading.Number = None
    compare_to_previous_price: _Code | None = None
    fluctuations_type: _Code | None = None
    item_code: str = ""
    reuters_code: str = ""
    high_price: reading.Number = None
    low_price: reading.Number = None
    accumulated_trading_volume: reading.Number = None
    currency_type: _Code | None = None
    stock_exchange_type: _Exchange | None = None
    over_market_price_info: _OverMarket | None = None


class _Polled(Struct):
    datas: list[_Price]


class _Rate(Struct, rename="camel"):
    exchange_info: _Price


class _Candle(Struct, rename="camel"):
    open_price: reading.Number
    high_price: reading.Number
    low_price: reading.Number
    accumulated_trading_volume: reading.Number
    local_date: str = ""
    local_date_time: str = ""
    close_price: reading.Number = None
    current_price: reading.Number = None


class Naver(DataSource):
    """Naver's JSON. Several Korean instruments go into one request, US ones and rates are asked for one by one."""

    info = SOURCES["naver"]
    kinds = ("quote",)
    adjustment = "split"

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        if kind in ("bars", "minutes"):
            return instrument.exchange == "KRX" and instrument.kind in ("stock", "etf")
        return super().has(instrument, kind)

    async def read_quotes(self, client: SourceClient, instruments: Sequence[Instrument]) -> Mapping[str, PriceAnswer]:
        found: dict[str, PriceAnswer] = {}
        korean = [each for each in instruments if each.exchange == "KRX"]
        for path, kinds in (("stock", ("stock", "etf")), ("index", ("index",))):
            asked = {self.symbol_of(each): each for each in korean if each.kind in kinds}
            if asked:
                url = f"api/realtime/domestic/{path}/{','.join(asked)}"
                polled = await client.get(_Polled, url, api="polling", headers=_HEADERS)
                prices = {each.item_code: each for each in polled.datas}
                found |= reading.read_each(asked, partial(_read_polled, prices))
        others = [each for each in instruments if each.exchange != "KRX"]
        return found | await ask_each(others, lambda each: self._ask_price(client, each))

    async def _ask_price(self, client: SourceClient, instrument: Instrument) -> PriceReading:
        code = self.symbol_of(instrument)
        if instrument.kind == "rate":
            rate = await client.get(_Rate, f"marketindex/exchange/{code}", headers=_HEADERS)
            return _read_price(instrument, rate.exchange_info, per=_UNITS.get(code, 1))
        path = {"index": "index"}.get(instrument.kind, "stock")
        price = await client.get(_Price, f"{path}/{code}/basic", headers=_HEADERS)
        if price.reuters_code and price.reuters_code != code:
            raise errors.DataMalformed(f"gave {price.reuters_code} for {code}")
        return _read_price(instrument, price)

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        size = "minute" if span.minutes else "day"
        path = f"chart/domestic/item/{self.symbol_of(instrument)}/{size}"
        query = {"startDateTime": f"{span.first:%Y%m%d}0000", "endDateTime": f"{span.last:%Y%m%d}2359"}
        candles = await client.get(list[_Candle], path, query, headers=_HEADERS)
        if span.minutes:
            return _read_minutes(client, instrument, candles, span)
        return _read_days(client, instrument, candles, span)


def _read_polled(prices: Mapping[str, _Price], code: str, instrument: Instrument) -> PriceReading:
    if code not in prices:
        raise errors.DataUnsupported(f"does not have {code}")
    return _read_price(instrument, prices[code])


def _read_price(instrument: Instrument, price: _Price, per: int = 1) -> PriceReading:
    last = reading.read_number(price.close_price, "a price")
    change = _read_change(price, last)
    volume = reading.read_optional(price.accumulated_trading_volume, "a volume")
    currency = price.currency_type or _Code(instrument.currency)
    exchange = price.stock_exchange_type or _Exchange()
    return PriceReading(
        instrument=instrument,
        price=reading.trim(last / per),
        currency=currency.code,
        as_of=reading.read_time(price.local_traded_at),
        previous_close=reading.trim((last - change) / per),
        low=reading.read_optional(price.low_price, "a low"),
        high=reading.read_optional(price.high_price, "a high"),
        volume=int(volume or 0),
        venue=_VENUES.get(instrument.kind, ""),
        delay=exchange.delay_time,
        extended=_read_extended(price.over_market_price_info),
        slack=_SLACK,
    )


def _read_change(price: _Price, last: Decimal) -> Decimal:
    """The signed change: some answers give its size alone, and the direction beside it. The ratio must fit."""
    written = price.compare_to_previous_close_price
    if written is None:
        written = price.fluctuations
    told = reading.read_number(written, "a change")
    ratio = reading.read_number(price.fluctuations_ratio, "a change in percent")
    direction = price.compare_to_previous_price or price.fluctuations_type
    sign: int | None = (told > 0) - (told < 0)
    if direction is not None:
        sign = reading.DIRECTIONS.get(direction.code)
    if sign is None:
        raise errors.DataMalformed("gave a direction that is not documented")
    change = abs(told) * sign
    contradicts = (told < 0 or ratio < 0) and sign >= 0 and (told, ratio) != (0, 0)
    before = last - change
    if contradicts or before <= 0 or abs(change / before * 100 - abs(ratio) * sign) > _ROUNDING:
        raise errors.DataMalformed(f"'s change of {told} ({ratio} %) does not fit its price {last}")
    return change


def _read_extended(over: _OverMarket | None) -> ExtendedPrice | None:
    if over is None or over.trading_session_type not in _EXTENDED:
        return None
    try:
        return ExtendedPrice(
            price=reading.read_number(over.over_price, "a price after hours"),
            phase=_EXTENDED[over.trading_session_type],
            venue="",  # the exchange's own or Nextrade's: it does not say
            as_of=reading.read_time(over.local_traded_at),
        )
    except errors.DataError:
        return None


def _read_days(client: SourceClient, instrument: Instrument, candles: list[_Candle], span: BarRange) -> list[Bar]:
    bars: list[Bar] = []
    for each in candles:
        day = reading.read_day(each.local_date)
        if not span.first <= day <= span.last:
            continue
        prices = (each.open_price, each.high_price, each.low_price, each.close_price)
        bars += reading.make_day_bars(client, instrument, day, prices, each.accumulated_trading_volume)
    return bars


def _read_minutes(client: SourceClient, instrument: Instrument, candles: list[_Candle], span: BarRange) -> list[Bar]:
    zone = VENUES[instrument.exchange].tz
    bars: list[Bar] = []
    for each in candles:
        try:
            starts = datetime.strptime(each.local_date_time, "%Y%m%d%H%M%S").replace(tzinfo=zone).astimezone(UTC)
        except ValueError as error:
            raise errors.DataMalformed(f"gave {hide_and_cut(each.local_date_time, 20)!r} as a time") from error
        ends = starts + timedelta(minutes=1)
        prices = (each.open_price, each.high_price, each.low_price, each.current_price)
        volume = each.accumulated_trading_volume
        bars.append(reading.make_bar(starts.astimezone(zone).date(), starts, ends, prices, volume))
    merged: list[Bar] = []
    for day in sorted({each.day for each in bars}):
        session = client.calendar.session_on(instrument.exchange, day)
        if session is not None:  # what was traded before and after it is another price
            inside = [each for each in bars if each.day == day and session.opens <= each.starts <= session.closes]
            merged += reading.merge_bars(inside, span.minutes, session.opens)
    return merged
