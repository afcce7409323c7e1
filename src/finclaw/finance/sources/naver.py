"""Naver: Korean stocks, funds and indices, US stocks and indices, and the won rates that a bank posts.

It is the data of Naver's own pages. Prices come as texts with commas, and the change as a size with a direction code.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.vendor_symbols import vendor_symbol
from finclaw.finance.market import Bar, ExtendedPrice
from finclaw.finance.market_data.errors import (
    DataAuthExpired,
    DataError,
    DataMalformed,
    DataRateLimited,
    DataTransport,
    DataUnsupported,
    refuse_unreadable,
)
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange, BarSeries
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.reading import (
    Number,
    day_bar,
    merge_bars,
    read_each,
    read_number,
    read_optional,
    read_time,
    trim,
)
from finclaw.finance.venue import VENUES
from finclaw.redaction import hide_and_cut

_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36",
    "Referer": "https://m.stock.naver.com/",
    "Accept": "application/json",
}
_SIGNS: Final = {"1": 1, "2": 1, "3": 0, "4": -1, "5": -1}
"""Direction codes: upper limit, up, unchanged, lower limit, down."""
_ROUNDING: Final = Decimal("0.02")
_PER_HUNDRED: Final = frozenset({"FX_JPYKRW"})
_SLACK: Final = timedelta(minutes=60)
"""The last figures of a session are stamped up to so long after its close."""


class _Direction(Struct):
    code: str


class _Exchange(Struct, rename="camel"):
    delay_time: int = 0


class _Currency(Struct):
    code: str


class _OverMarket(Struct, rename="camel"):
    """A price of the pre- or after-market. The block comes and goes, and never spoils the price above it."""

    trading_session_type: str = ""
    over_price: Number = None
    local_traded_at: str = ""


class _Price(Struct, rename="camel"):
    """A price in any of the answers: those of the polling API, of `basic`, and of a rate."""

    close_price: Number
    fluctuations_ratio: Number
    local_traded_at: str
    compare_to_previous_close_price: Number = None
    fluctuations: Number = None
    compare_to_previous_price: _Direction | None = None
    fluctuations_type: _Direction | None = None
    item_code: str = ""
    reuters_code: str = ""
    high_price: Number = None
    low_price: Number = None
    accumulated_trading_volume: Number = None
    currency_type: _Currency | None = None
    stock_exchange_type: _Exchange | None = None
    over_market_price_info: _OverMarket | None = None


class _Polled(Struct):
    datas: list[_Price]


class _Rate(Struct, rename="camel"):
    exchange_info: _Price


class _Candle(Struct, rename="camel"):
    open_price: Number
    high_price: Number
    low_price: Number
    accumulated_trading_volume: Number
    local_date: str = ""
    local_date_time: str = ""
    close_price: Number = None
    current_price: Number = None


class Naver(DataSource):
    """Naver's JSON. Several Korean instruments go into one request, US ones and rates are asked for one by one."""

    info = SOURCES["naver"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        if kind in ("bars", "minutes"):
            return instrument.exchange == "KRX" and instrument.kind in ("stock", "etf")
        return kind == "quote" and vendor_symbol("naver", instrument) is not None

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        found: dict[str, PriceReading | DataError] = {}
        korean = [each for each in instruments if each.exchange == "KRX"]
        for path, kinds in (("stock", ("stock", "etf")), ("index", ("index",))):
            asked = {vendor_symbol("naver", each) or "": each for each in korean if each.kind in kinds}
            if asked:
                url = f"api/realtime/domestic/{path}/{','.join(asked)}"
                polled = await client.get(_Polled, url, api="polling", headers=_HEADERS)
                found |= _read_polled(client, asked, polled)
        others = [each for each in instruments if each.exchange != "KRX"]
        answers = await asyncio.gather(*(self._read_one(client, each) for each in others))
        return found | {each.symbol: answer for each, answer in zip(others, answers, strict=True)}

    async def _read_one(self, client: SourceClient, instrument: Instrument) -> PriceReading | DataError:
        code = vendor_symbol("naver", instrument) or ""
        try:
            if instrument.kind == "rate":
                rate = await client.get(_Rate, f"marketindex/exchange/{code}", headers=_HEADERS)
                with refuse_unreadable(client.name):
                    return _read_price(client, instrument, rate.exchange_info, per=100 if code in _PER_HUNDRED else 1)
            path = "index" if instrument.kind == "index" else "stock"
            price = await client.get(_Price, f"{path}/{code}/basic", headers=_HEADERS)
            if price.reuters_code and price.reuters_code != code:
                raise DataMalformed(f"{client.name} gave {price.reuters_code} for {code}", source=client.name)
            with refuse_unreadable(client.name):
                return _read_price(client, instrument, price)
        except (DataTransport, DataRateLimited, DataAuthExpired):
            raise
        except DataError as error:
            return error

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> BarSeries:
        path = f"chart/domestic/item/{vendor_symbol('naver', instrument)}/{'minute' if span.minutes else 'day'}"
        query = {"startDateTime": f"{span.first:%Y%m%d}0000", "endDateTime": f"{span.last:%Y%m%d}2359"}
        candles = await client.get(list[_Candle], path, query, headers=_HEADERS)
        read = _read_minutes if span.minutes else _read_days
        bars = read(client, instrument, candles, span)
        return BarSeries(instrument=instrument, bars=tuple(bars), adjustment="split", source=client.name)


def _read_polled(
    client: SourceClient, asked: Mapping[str, Instrument], polled: _Polled
) -> dict[str, PriceReading | DataError]:
    prices = {each.item_code: each for each in polled.datas}

    def read(code: str, instrument: Instrument) -> PriceReading:
        if code not in prices:
            raise DataUnsupported(f"{client.name} does not have {code}", source=client.name)
        return _read_price(client, instrument, prices[code])

    return read_each(client.name, asked, read)


def _read_price(client: SourceClient, instrument: Instrument, price: _Price, per: int = 1) -> PriceReading:
    name = client.name
    last = read_number(price.close_price, name, "a price")
    change = _read_change(price, last, name)
    volume = read_optional(price.accumulated_trading_volume, name, "a volume")
    return PriceReading(
        instrument=instrument,
        source=name,
        price=trim(last / per),
        currency=price.currency_type.code if price.currency_type else instrument.currency,
        as_of=read_time(price.local_traded_at, name),
        previous_close=trim((last - change) / per),
        low=read_optional(price.low_price, name, "a low"),
        high=read_optional(price.high_price, name, "a high"),
        volume=int(volume or 0),
        venue="bank posted rate" if instrument.kind == "rate" else "",
        delay=price.stock_exchange_type.delay_time if price.stock_exchange_type else 0,
        extended=_read_extended(price.over_market_price_info, name),
        slack=_SLACK,
    )


def _read_change(price: _Price, last: Decimal, name: str) -> Decimal:
    """The signed change: some answers give its size alone, and the direction beside it. The ratio must fit."""
    size_text = price.compare_to_previous_close_price
    told = read_number(price.fluctuations if size_text is None else size_text, name, "a change")
    ratio = read_number(price.fluctuations_ratio, name, "a change in percent")
    direction = price.compare_to_previous_price or price.fluctuations_type
    sign = _SIGNS.get(direction.code) if direction else (told > 0) - (told < 0)
    if sign is None:
        raise DataMalformed(f"{name} gave a direction that is not documented", source=name)
    change = abs(told) * sign
    contradicts = (told < 0 or ratio < 0) and sign >= 0 and (told, ratio) != (0, 0)
    before = last - change
    if contradicts or before <= 0 or abs(change / before * 100 - abs(ratio) * sign) > _ROUNDING:
        raise DataMalformed(f"{name}'s change of {told} ({ratio} %) does not fit its price {last}", source=name)
    return change


def _read_extended(over: _OverMarket | None, name: str) -> ExtendedPrice | None:
    if over is None or over.trading_session_type not in ("AFTER_MARKET", "PRE_MARKET"):
        return None
    try:
        return ExtendedPrice(
            price=read_number(over.over_price, name, "a price after hours"),
            phase="after" if over.trading_session_type == "AFTER_MARKET" else "pre",
            venue="",  # the exchange's own or Nextrade's: it does not say
            as_of=read_time(over.local_traded_at, name),
        )
    except DataError:
        return None


def _read_days(client: SourceClient, instrument: Instrument, candles: list[_Candle], span: BarRange) -> list[Bar]:
    bars: list[Bar] = []
    for each in candles:
        day = _read_day(each.local_date, client.name)
        if not span.first <= day <= span.last:
            continue
        bar = day_bar(client, instrument, day, _prices(each, client.name, each.close_price), _volume(each, client.name))
        if bar is not None:
            bars.append(bar)
    return bars


def _read_minutes(client: SourceClient, instrument: Instrument, candles: list[_Candle], span: BarRange) -> list[Bar]:
    zone, name = VENUES[instrument.exchange].tz, client.name
    bars: list[Bar] = []
    for each in candles:
        try:
            starts = datetime.strptime(each.local_date_time, "%Y%m%d%H%M%S").replace(tzinfo=zone).astimezone(UTC)
        except ValueError as error:
            raise DataMalformed(
                f"{name} gave {hide_and_cut(each.local_date_time, 20)!r} as a time", source=name
            ) from error
        opened, high, low, close = _prices(each, name, each.current_price)
        day = starts.astimezone(zone).date()
        bars.append(
            Bar(
                day=day,
                starts=starts,
                ends=starts + timedelta(minutes=1),
                open=opened,
                high=high,
                low=low,
                close=close,
                volume=_volume(each, name),
            )
        )
    return [merged for day in _days(bars) for merged in _merge_day(client, instrument, day, bars, span.minutes)]


def _merge_day(client: SourceClient, instrument: Instrument, day: date, bars: list[Bar], minutes: int) -> list[Bar]:
    """The regular session alone: what was traded before and after is another price."""
    session = client.calendar.session_on(instrument.exchange, day)
    if session is None:
        return []
    inside = [each for each in bars if each.day == day and session.opens <= each.starts <= session.closes]
    return list(merge_bars(inside, minutes, session.opens))


def _days(bars: list[Bar]) -> list[date]:
    return sorted({each.day for each in bars})


def _read_day(text: str, name: str) -> date:
    try:
        return datetime.strptime(text, "%Y%m%d").replace(tzinfo=UTC).date()
    except ValueError as error:
        raise DataMalformed(f"{name} gave {hide_and_cut(text, 20)!r} as a day", source=name) from error


def _prices(candle: _Candle, name: str, close: Number) -> tuple[Decimal, Decimal, Decimal, Decimal]:
    opened, high, low = (
        read_number(value, name, "a price of a bar")
        for value in (candle.open_price, candle.high_price, candle.low_price)
    )
    return opened, high, low, read_number(close, name, "a close")


def _volume(candle: _Candle, name: str) -> int:
    return int(read_number(candle.accumulated_trading_volume, name, "a volume"))
