"""KIS (한국투자증권), with the key of an account: Korean stocks and funds in real time, and their daily bars.

Only requests that look are in here. A business error comes with status 200 and `rt_cd` other than 0. A price has no
time of its own, so it is asked for only while the session runs; what counts as its price after the close is not known.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, TypeVar

from msgspec import DecodeError, Struct, field, json

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import (
    DataAuthExpired,
    DataError,
    DataMalformed,
    DataRateLimited,
    DataStale,
    DataUnsupported,
)
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source import DataKind, SourceClient, TokenAnswer, TokenSource
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.reading import ask_each, make_day_bars, read_day, read_number, read_prices, read_volume

T = TypeVar("T")

_PRICE: Final = ("uapi/domestic-stock/v1/quotations/inquire-price", "FHKST01010100")
_DAYS: Final = ("uapi/domestic-stock/v1/quotations/inquire-daily-itemchartprice", "FHKST03010100")
_KRX: Final = "J"
"""Of three venues: NX is Nextrade, UN both together, and each has prices of its own."""
_ADJUSTED: Final = "0"
"""For Korean bars 0 is adjusted and 1 is not; for US bars it is the other way round."""
_SIGNS: Final = {"1": 1, "2": 1, "3": 0, "4": -1, "5": -1}
_WAITS: Final = {"EGW00133": timedelta(minutes=1), "EGW00201": timedelta(seconds=2)}
"""How long to wait where too many tokens or too many answers were asked for."""
_MOST_ROWS: Final = 100
_MOST_PAGES: Final = 12


class _Price(Struct):
    stck_prpr: str
    prdy_vrss: str
    prdy_vrss_sign: str
    stck_sdpr: str
    """The base price: the close before, or what it was set to on the day of a split or of rights."""
    stck_hgpr: str
    stck_lwpr: str
    acml_vol: str
    stck_shrn_iscd: str


class PriceAnswer(Struct):
    rt_cd: str
    msg_cd: str = ""
    output: _Price | None = None


class _Day(Struct):
    stck_bsop_date: str = ""
    stck_oprc: str = ""
    stck_hgpr: str = ""
    stck_lwpr: str = ""
    stck_clpr: str = ""
    acml_vol: str = ""


class DaysAnswer(Struct):
    rt_cd: str
    msg_cd: str = ""
    output2: list[_Day] = field(default_factory=list[_Day])


class _Problem(Struct):
    msg_cd: str = ""
    error_code: str = ""


class Kis(TokenSource):
    """KIS Open API."""

    info = SOURCES["kis"]
    kinds = ("quote", "bars")
    adjustment = "split"

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        is_listed = instrument.exchange == "KRX" and instrument.kind in ("stock", "etf")
        return is_listed and super().has(instrument, kind)

    def symbol_of(self, instrument: Instrument) -> str:
        return super().symbol_of(instrument).removeprefix("J:")

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        if client.calendar.session_at("KRX", client.now()) is None:
            raise DataStale("is asked for prices only while KRX trades")

        async def ask(instrument: Instrument) -> PriceReading:
            query = {"FID_COND_MRKT_DIV_CODE": _KRX, "FID_INPUT_ISCD": self.symbol_of(instrument)}
            answer = await self._ask(client, PriceAnswer, _PRICE, query)
            _check(client, answer.rt_cd, answer.msg_cd)
            if answer.output is None:
                raise DataMalformed("answered without a price")
            if answer.output.stck_shrn_iscd != self.symbol_of(instrument).removeprefix("Q"):
                raise DataMalformed(f"gave {answer.output.stck_shrn_iscd!r} for {instrument.symbol}")
            return _read_price(client, instrument, answer.output)

        return await ask_each(instruments, ask)

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
            answer = await self._ask(client, DaysAnswer, _DAYS, query)
            _check(client, answer.rt_cd, answer.msg_cd)
            rows = [each for each in answer.output2 if each.stck_bsop_date]
            bars |= {bar.day: bar for row in rows for bar in _read_bars(client, instrument, row)}
            oldest = min(bars, default=span.first)
            if len(rows) < _MOST_ROWS or oldest <= span.first or oldest > last:
                break
            last = oldest - timedelta(days=1)
        return list(bars.values())

    async def _ask(self, client: SourceClient, kind: type[T], call: tuple[str, str], query: Mapping[str, str]) -> T:
        path, number = call

        async def ask(key: str, secret: str, token: str) -> T:
            headers = {"authorization": f"Bearer {token}", "appkey": key, "appsecret": secret}
            headers |= {"tr_id": number, "custtype": "P"}
            return await client.get(kind, path, query, headers=headers, explain=lambda body: _explain(client, body))

        return await self.ask_with_token(client, ask)

    async def request_token(self, client: SourceClient, key: str, secret: str) -> TokenAnswer:
        wanted = {"grant_type": "client_credentials", "appkey": key, "appsecret": secret}
        return await client.post(TokenAnswer, "oauth2/tokenP", wanted, explain=lambda body: _explain(client, body))


def _read_price(client: SourceClient, instrument: Instrument, found: _Price) -> PriceReading:
    """Raises DataMalformed for figures that contradict each other: the sign is a code of its own."""
    price = read_number(found.stck_prpr, "a price")
    base = read_number(found.stck_sdpr, "a base price")
    sign = _SIGNS.get(found.prdy_vrss_sign)
    change = abs(read_number(found.prdy_vrss, "a change")) * Decimal(sign or 0)
    if sign is None or price - change != base:
        raise DataMalformed(f"'s change does not fit its price of {instrument.symbol}")
    return PriceReading(
        instrument=instrument,
        source=client.name,
        price=price,
        currency="KRW",
        as_of=client.now(),
        previous_close=base,
        low=read_number(found.stck_lwpr, "a low") or None,
        high=read_number(found.stck_hgpr, "a high") or None,
        volume=read_volume(found.acml_vol),
        venue="KRX",
    )


def _read_bars(client: SourceClient, instrument: Instrument, row: _Day) -> Sequence[Bar]:
    prices = read_prices((row.stck_oprc, row.stck_hgpr, row.stck_lwpr, row.stck_clpr))
    return make_day_bars(client, instrument, read_day(row.stck_bsop_date), prices, read_volume(row.acml_vol))


def _check(client: SourceClient, result: str, code: str) -> None:
    if result != "0":
        raise _error_of(client, code)


def _explain(client: SourceClient, body: bytes) -> DataError | None:
    """The error in an answer whose status alone says too little."""
    try:
        problem = json.decode(body, type=_Problem)
    except (DecodeError, UnicodeDecodeError):
        return None
    code = problem.msg_cd or problem.error_code
    if not code:
        return None
    return _error_of(client, code)


def _error_of(client: SourceClient, code: str) -> DataError:
    if code in _WAITS:
        return DataRateLimited(f"wants fewer requests ({code})", retry_at=client.now() + _WAITS[code])
    if code in ("EGW00121", "EGW00123", "EGW00103", "EGW00105"):
        return DataAuthExpired(f"refused the key or its token ({code})")
    if code.isascii() and code.isalnum():
        return DataUnsupported(f"answered {code}")
    return DataUnsupported("answered an error")
