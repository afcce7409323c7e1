"""Finnhub, with a free key: US prices, headlines and earnings dates. Its bars are not free, so they are not asked for.

What it does not know it answers with zeros and status 200, which is never a price.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct, field

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data.errors import DataError, DataMalformed, DataUnsupported
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import EarningsDate, NewsItem
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.feeds import clean_line, is_web_address
from finclaw.finance.sources.headlines import make_headline, newest
from finclaw.finance.sources.reading import Number, ask_each, read_epoch, read_number, read_optional
from finclaw.redaction import Secret

_NEWS: Final = timedelta(days=14)
_ROUNDING: Final = Decimal("0.011")
"""The change is rounded to cents, and so are the prices."""
_MOMENTS: Final[Mapping[str, Literal["before open", "after close", "during session"]]] = {
    "bmo": "before open",
    "amc": "after close",
    "dmh": "during session",
}


class _Quote(Struct):
    c: Number
    d: Number
    h: Number
    l: Number  # noqa: E741  their name for the low
    pc: Number
    t: int


class _Headline(Struct):
    headline: str
    url: str
    datetime: int
    source: str = ""
    related: str = ""


class _Report(Struct, rename="camel"):
    date: date
    symbol: str
    hour: str = ""
    eps_estimate: Number = None


class _Calendar(Struct, rename="camel"):
    earnings_calendar: list[_Report] = field(default_factory=list[_Report])


class Finnhub(DataSource):
    """Finnhub's API. The key goes in a header, so that no address has it."""

    info = SOURCES["finnhub"]
    kinds = ("quote", "news", "earnings")

    def __init__(self, key: Secret | None = None) -> None:
        self._key = key

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        async def ask(instrument: Instrument) -> PriceReading:
            query = {"symbol": self.symbol_of(instrument)}
            return _parse_quote(await client.get(_Quote, "quote", query, headers=self._headers()), client, instrument)

        return await ask_each(instruments, ask)

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        if instrument is None:
            path = "news"
            query = {"category": "general"}
        else:
            today = client.now().date()
            path = "company-news"
            query = {"symbol": self.symbol_of(instrument), "from": str(today - _NEWS), "to": str(today)}
        found = await client.get(list[_Headline], path, query, headers=self._headers())
        items = [
            make_headline(client, each.headline, each.url, each.source, read_epoch(each.datetime), [each.related])
            for each in found
            if is_web_address(each.url) and clean_line(each.headline)
        ]
        return newest(items, client, _NEWS, limit)

    async def read_earnings(self, client: SourceClient, first: date, last: date) -> Sequence[EarningsDate]:
        query = {"from": str(first), "to": str(last)}
        found = await client.get(_Calendar, "calendar/earnings", query, headers=self._headers())
        return [
            EarningsDate(
                symbol=clean_line(each.symbol, 20).upper(),
                name="",
                day=each.date,
                moment=_MOMENTS.get(each.hour, "unknown"),
                estimate=read_optional(each.eps_estimate, "an estimate"),
                source=client.name,
            )
            for each in found.earnings_calendar
            if first <= each.date <= last
        ]

    def _headers(self) -> Mapping[str, str]:
        (key,) = self.reveal_keys(self._key)
        return {"X-Finnhub-Token": key}


def _parse_quote(found: _Quote, client: SourceClient, instrument: Instrument) -> PriceReading:
    """Raises DataUnsupported for the zeros of an unknown symbol, DataMalformed for what contradicts itself."""
    if found.t == 0 or not found.c:
        raise DataUnsupported(f"does not have {instrument.symbol}: it answered zeros")
    price = read_number(found.c, "a price")
    before = read_number(found.pc, "a previous close")
    change = read_number(found.d, "a change")
    if abs(price - before - change) > _ROUNDING:
        raise DataMalformed(f"'s change does not fit its price of {instrument.symbol}")
    return PriceReading(
        instrument=instrument,
        source=client.name,
        price=price,
        currency="USD",
        as_of=read_epoch(found.t),
        previous_close=before,
        low=read_optional(found.l, "a low"),
        high=read_optional(found.h, "a high"),
    )
