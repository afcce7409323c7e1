"""Brokers, with the key of an account: KIS and Toss Securities. Only requests that look are in here."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, Generic, TypeVar

from msgspec import DecodeError, Struct, field, json
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.plausible import PriceAnswer, PriceReading
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source import DataKind, SourceClient, TokenAnswer, TokenSource, ask_each
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources import reading
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Session
from finclaw.redaction import hide_and_cut

T = TypeVar("T")

_PRICE: Final = ("uapi/domestic-stock/v1/quotations/inquire-price", "FHKST01010100")
_DAYS: Final = ("uapi/domestic-stock/v1/quotations/inquire-daily-itemchartprice", "FHKST03010100")
_KRX: Final = "J"
"""Of three venues: NX is Nextrade, UN both together, and each has prices of its own."""
_ADJUSTED: Final = "0"
"""For Korean bars 0 is adjusted and 1 is not; for US bars it is the other way round."""
_WAITS: Final = {"EGW00133": timedelta(minutes=1), "EGW00201": timedelta(seconds=2)}
"""How long to wait where too many tokens or too many answers were asked for."""
_MOST_ROWS: Final = 100
_MOST_PAGES: Final = 12


class _KisPrice(Struct):
    stck_prpr: str
    prdy_vrss: str
    prdy_vrss_sign: str
    stck_sdpr: str
    """The base price: the close before, or what it was set to on the day of a split or of rights."""
    stck_hgpr: str
    stck_lwpr: str
    acml_vol: str
    stck_shrn_iscd: str


class _KisAnswer(Struct):
    rt_cd: str
    msg_cd: str = ""


class _KisPriceAnswer(_KisAnswer):
    output: _KisPrice | None = None


class _KisDay(Struct):
    stck_bsop_date: str = ""
    stck_oprc: str = ""
    stck_hgpr: str = ""
    stck_lwpr: str = ""
    stck_clpr: str = ""
    acml_vol: str = ""


class _KisDaysAnswer(_KisAnswer):
    output2: list[_KisDay] = field(default_factory=list[_KisDay])


_Kis = TypeVar("_Kis", bound=_KisAnswer)


class _KisProblem(Struct):
    msg_cd: str = ""
    error_code: str = ""


class Kis(TokenSource):
    """KIS (한국투자증권): Korean stocks and funds in real time, and their daily bars.

    A business error comes with status 200 and `rt_cd` other than 0. A price has no time of its own, so it is asked for
    only while the session runs; what counts as its price after the close is not known.
    """

    info = SOURCES["kis"]
    kinds = ("quote", "bars")
    adjustment = "split"

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        is_listed = instrument.exchange == "KRX" and instrument.kind in ("stock", "etf")
        return is_listed and super().has(instrument, kind)

    def symbol_of(self, instrument: Instrument) -> str:
        return super().symbol_of(instrument).removeprefix("J:")

    async def read_quote(self, client: SourceClient, instrument: Instrument) -> PriceReading:
        if client.calendar.session_at("KRX", client.now()) is None:
            raise errors.DataStale("is asked for prices only while KRX trades")
        symbol = self.symbol_of(instrument)
        query = {"FID_COND_MRKT_DIV_CODE": _KRX, "FID_INPUT_ISCD": symbol}
        answer = await self._ask(client, _KisPriceAnswer, _PRICE, query)
        if answer.output is None:
            raise errors.DataMalformed("answered without a price")
        if answer.output.stck_shrn_iscd != symbol.removeprefix("Q"):
            raise errors.DataMalformed(f"gave {answer.output.stck_shrn_iscd!r} for {instrument.symbol}")
        return _read_kis_price(client, instrument, answer.output)

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        bars: dict[date, Bar] = {}
        last = span.last
        for _ in range(_MOST_PAGES):
            query = {
                "FID_COND_MRKT_DIV_CODE": _KRX,
                "FID_INPUT_ISCD": self.symbol_of(instrument),
                "FID_INPUT_DATE_1": f"{span.first:%Y%m%d}",
                "FID_INPUT_DATE_2": f"{last:%Y%m%d}",
                "FID_PERIOD_DIV_CODE": "D",
                "FID_ORG_ADJ_PRC": _ADJUSTED,
            }
            answer = await self._ask(client, _KisDaysAnswer, _DAYS, query)
            rows = [each for each in answer.output2 if each.stck_bsop_date]
            for row in rows:
                day = reading.read_day(row.stck_bsop_date)
                prices = (row.stck_oprc, row.stck_hgpr, row.stck_lwpr, row.stck_clpr)
                bars |= {bar.day: bar for bar in reading.make_day_bars(client, instrument, day, prices, row.acml_vol)}
            oldest = min(bars, default=span.first)
            if len(rows) < _MOST_ROWS or oldest <= span.first or oldest > last:
                break
            last = oldest - timedelta(days=1)
        return list(bars.values())

    async def _ask(
        self, client: SourceClient, kind: type[_Kis], call: tuple[str, str], query: Mapping[str, str]
    ) -> _Kis:
        path, number = call

        async def ask(key: str, secret: str, token: str) -> _Kis:
            headers = {"authorization": f"Bearer {token}", "appkey": key, "appsecret": secret}
            headers |= {"tr_id": number, "custtype": "P"}
            return await client.get(kind, path, query, headers=headers)

        answer = await self.ask_with_token(client, ask)
        if answer.rt_cd != "0":
            raise _error_of(client, answer.msg_cd)
        return answer

    async def request_token(self, client: SourceClient, key: str, secret: str) -> TokenAnswer:
        wanted = {"grant_type": "client_credentials", "appkey": key, "appsecret": secret}
        return await client.post(TokenAnswer, "oauth2/tokenP", wanted)

    def explain(self, client: SourceClient, body: bytes) -> errors.DataError | None:
        with suppress(DecodeError, UnicodeDecodeError):
            problem = json.decode(body, type=_KisProblem)
            if code := problem.msg_cd or problem.error_code:
                return _error_of(client, code)
        return None


def _read_kis_price(client: SourceClient, instrument: Instrument, found: _KisPrice) -> PriceReading:
    price = reading.read_number(found.stck_prpr, "a price")
    base = reading.read_number(found.stck_sdpr, "a base price")
    sign = reading.DIRECTIONS.get(found.prdy_vrss_sign)
    change = abs(reading.read_number(found.prdy_vrss, "a change")) * Decimal(sign or 0)
    if sign is None or price - change != base:
        raise errors.DataMalformed(f"'s change does not fit its price of {instrument.symbol}")
    return PriceReading(
        instrument=instrument,
        price=price,
        currency="KRW",
        as_of=client.now(),
        previous_close=base,
        low=reading.read_number(found.stck_lwpr, "a low") or None,
        high=reading.read_number(found.stck_hgpr, "a high") or None,
        volume=reading.read_volume(found.acml_vol),
        venue="KRX",
    )


def _error_of(client: SourceClient, code: str) -> errors.DataError:
    if code in _WAITS:
        return errors.DataRateLimited(f"wants fewer requests ({code})", retry_at=client.now() + _WAITS[code])
    if code in ("EGW00121", "EGW00123", "EGW00103", "EGW00105"):
        return errors.DataAuthExpired(f"refused the key or its token ({code})")
    if code.isascii() and code.isalnum():
        return errors.DataUnsupported(f"answered {code}")
    return errors.DataUnsupported("answered an error")


_MOST_BARS: Final = 200
_NEWER: Final = Decimal("0.02")
_BEFORE: Final = 4


class _TossResult(Struct, Generic[T]):
    result: T


class _TossPrice(Struct, rename="camel"):
    symbol: str
    currency: str
    last_price: reading.Number
    timestamp: str | None = None


class _TossCandle(Struct, rename="camel"):
    timestamp: str
    open_price: reading.Number
    high_price: reading.Number
    low_price: reading.Number
    close_price: reading.Number
    currency: str
    volume: reading.Number = 0


class _TossCandles(Struct, rename="camel"):
    candles: list[_TossCandle] = field(default_factory=list[_TossCandle])
    next_before: str | None = None


class Toss(TokenSource):
    """Toss Securities (토스증권): Korean and US prices and daily bars, with their currency.

    A price comes without the close before it, which the daily bars have. What counts as its price outside of the
    regular session is not documented, so it is asked for only while that runs.
    """

    info = SOURCES["toss"]
    kinds = ("quote", "bars")
    adjustment = "split"

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        is_listed = instrument.exchange in ("KRX", "NYSE", "NASDAQ") and instrument.kind in ("stock", "etf")
        return is_listed and super().has(instrument, kind)

    async def read_quotes(self, client: SourceClient, instruments: Sequence[Instrument]) -> Mapping[str, PriceAnswer]:
        """All in one request, and one more for the close before each."""
        now = client.now()
        running = [each for each in instruments if client.calendar.session_at(each.exchange, now) is not None]
        closed = errors.DataStale("is asked for prices only in the regular session")
        if not running:
            raise closed
        names = ",".join(map(self.symbol_of, running))
        found = await self._get(client, _TossResult[list[_TossPrice]], "api/v1/prices", {"symbols": names})
        prices = {each.symbol: each for each in found.result}

        async def ask(instrument: Instrument) -> PriceReading:
            price = prices.get(self.symbol_of(instrument))
            if price is None:
                raise errors.DataUnsupported(f"said nothing of {instrument.symbol}")
            session = client.calendar.session_at(instrument.exchange, client.now())
            if session is None:
                raise errors.DataStale(f"'s session of {instrument.symbol} has just ended")
            page = await self._read_page(client, instrument, _BEFORE, None)
            return _read_toss_price(client, instrument, price, page.candles, session)

        read = await ask_each(running, ask)
        return {each.symbol: read.get(each.symbol, closed) for each in instruments}

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        bars: dict[date, Bar] = {}
        end = datetime.combine(span.last + timedelta(days=1), time(0), VENUES[instrument.exchange].tz)
        before: str | None = end.isoformat()
        for _ in range(_MOST_PAGES):
            page = await self._read_page(client, instrument, _MOST_BARS, before)
            bars |= {bar.day: bar for each in page.candles for bar in _read_toss_bars(client, instrument, each)}
            if not page.next_before or not page.candles or min(bars, default=span.first) <= span.first:
                break
            before = page.next_before
        return list(bars.values())

    async def _read_page(
        self, client: SourceClient, instrument: Instrument, count: int, before: str | None
    ) -> _TossCandles:
        query = {"symbol": self.symbol_of(instrument), "interval": "1d", "count": str(count), "adjusted": "true"}
        if before:
            query["before"] = before
        return (await self._get(client, _TossResult[_TossCandles], "api/v1/candles", query)).result

    async def _get(self, client: SourceClient, kind: type[T], path: str, query: Mapping[str, str]) -> T:
        async def ask(_key: str, _secret: str, token: str) -> T:
            try:
                return await client.get(kind, path, query, headers={"Authorization": f"Bearer {token}"})
            except errors.DataAuthExpired as error:
                text = f"{error}; Toss answers only addresses that are registered in its Open API settings"
                raise errors.DataAuthExpired(text) from error

        return await self.ask_with_token(client, ask)

    async def request_token(self, client: SourceClient, key: str, secret: str) -> TokenAnswer:
        wanted = {"grant_type": "client_credentials", "client_id": key, "client_secret": secret}
        return await client.post(TokenAnswer, "oauth2/token", wanted, is_form=True)


def _read_toss_price(
    client: SourceClient, instrument: Instrument, price: _TossPrice, candles: Sequence[_TossCandle], session: Session
) -> PriceReading:
    """Raises DataError. The close before is that of the last bar of an earlier day; today's bar bounds the price."""
    if price.timestamp is None:
        raise errors.DataStale(f"'s price of {instrument.symbol} has no time")
    bars = [bar for each in candles for bar in _read_toss_bars(client, instrument, each)]
    earlier = [bar for bar in bars if bar.day < session.day]
    if not earlier:
        raise errors.DataMalformed(f"has no close of {instrument.symbol} before today")
    today = next((bar for bar in bars if bar.day == session.day), None)
    last = reading.read_number(price.last_price, "a price")
    quote = PriceReading(
        instrument=instrument,
        price=last,
        currency=price.currency,
        as_of=reading.read_time(price.timestamp),
        previous_close=max(earlier, key=lambda bar: bar.day).close,
    )
    if today is None:
        return quote
    low = today.low
    high = today.high
    if low * (1 - _NEWER) <= last <= high * (1 + _NEWER):  # a trade may be newer than the bar
        low = min(low, last)
        high = max(high, last)
    return replace(quote, low=low, high=high, volume=today.volume)


def _read_toss_bars(client: SourceClient, instrument: Instrument, row: _TossCandle) -> Sequence[Bar]:
    if row.currency != instrument.currency:
        raise errors.DataMalformed(f"'s bars of {instrument.symbol} are in {hide_and_cut(row.currency, 10)!r}")
    day = reading.read_time(row.timestamp).astimezone(VENUES[instrument.exchange].tz).date()
    prices = (row.open_price, row.high_price, row.low_price, row.close_price)
    return reading.make_day_bars(client, instrument, day, prices, row.volume)
