"""The market data port on the demo market: made-up prices and dates of made-up reports, under its own name."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Literal

from finclaw.demo.market import DemoMarket
from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE, Bar, Quote
from finclaw.finance.market_data.errors import DataEmpty, DataError, DataNotFound, DataUnsupported
from finclaw.finance.market_data.port import (
    BarRange,
    BarSeries,
    CompanyProfile,
    EarningsDate,
    ExchangeRate,
    Filing,
    NewsItem,
)
from finclaw.finance.venue import VENUES

_LONGEST = 400
"""Sessions that are looked through for a range of days."""


class DemoMarketData:
    """Everything that the live sources give, without a network. Texts say that nothing of it happened."""

    def __init__(self, market: DemoMarket) -> None:
        self._market = market
        self._by_symbol = {each.symbol: each for each in market.instruments}

    async def quotes(self, symbols: Sequence[str]) -> Mapping[str, Quote | DataError]:
        found: dict[str, Quote | DataError] = {}
        for symbol in symbols:
            try:
                self._find(symbol)
                found[symbol] = await self._market.quote(symbol)
            except DataError as error:
                found[symbol] = error
        return found

    async def bars(self, symbol: str, span: BarRange) -> BarSeries:
        instrument = self._find(symbol)
        bars = await self._all_bars(symbol, span)
        inside = tuple(bar for bar in bars if span.first <= bar.day <= span.last)
        if not inside:
            raise DataEmpty(f"The demo market has no session of {symbol} in that time", source=DEMO_SOURCE)
        basis = "00:00 UTC" if instrument.kind == "coin" else ""
        return BarSeries(instrument=instrument, bars=inside, adjustment="split", source=DEMO_SOURCE, day_basis=basis)

    async def fx(self, base: str, quote: str, basis: Literal["spot", "fixing"] = "spot") -> ExchangeRate:
        symbol = f"{base}/{quote}"
        self._find(symbol)
        latest = await self._market.quote(symbol)
        return ExchangeRate(
            base=base,
            quote=quote,
            rate=latest.price if basis == "spot" else latest.previous_close,
            basis=basis,
            day=latest.as_of.astimezone(VENUES["FX"].tz).date(),
            as_of=latest.as_of,
            source=DEMO_SOURCE,
        )

    async def news(self, symbol: str | None = None, limit: int = 10) -> Sequence[NewsItem]:
        instruments = [self._find(symbol)] if symbol else self._companies()[:limit]
        return [
            NewsItem(
                title=_headline(each),
                url=f"https://example.com/demo/{each.symbol}",
                publisher=DEMO_SOURCE,
                published_at=self._morning(),
                source=DEMO_SOURCE,
                symbols=(each.symbol,),
            )
            for each in instruments
        ]

    async def filings(self, symbol: str, limit: int = 10) -> Sequence[Filing]:
        instrument = self._find(symbol)
        if instrument.kind != "stock":
            raise DataUnsupported(f"{symbol} is no company, so it files nothing", source=DEMO_SOURCE)
        filing = Filing(
            symbol=symbol,
            form="demo report",
            title=f"{instrument.name_en}: a made-up quarterly report",
            filed_on=self._morning().date(),
            url=f"https://example.com/demo/{symbol}/report",
            source=DEMO_SOURCE,
        )
        return [filing][:limit]

    async def earnings(self, first: date, last: date) -> Sequence[EarningsDate]:
        days = max((last - first).days + 1, 0)
        dates = ((each, first + timedelta(days=number)) for number, each in enumerate(self._companies()))
        return [
            EarningsDate(
                symbol=each.symbol, name=each.name_en, day=day, moment="unknown", estimate=None, source=DEMO_SOURCE
            )
            for each, day in list(dates)[:days]
        ]

    async def profile(self, symbol: str) -> CompanyProfile:
        instrument = self._find(symbol)
        fields = {"name": instrument.name_en, "name_ko": instrument.name_ko, "exchange": instrument.exchange}
        return CompanyProfile(instrument=instrument, fields=fields, as_of=self._market.now(), source=DEMO_SOURCE)

    async def _all_bars(self, symbol: str, span: BarRange) -> tuple[Bar, ...]:
        try:
            if span.minutes:
                return await self._market.intraday(symbol, span.minutes)
            age = (self._market.now().date() - span.first).days + 2
            return await asyncio.to_thread(self._market.daily_bars, symbol, min(max(age, 1), _LONGEST))
        except ToolError as error:
            raise DataEmpty(str(error), source=DEMO_SOURCE) from error

    def _companies(self) -> Sequence[Instrument]:
        return [each for each in self._market.instruments if each.kind == "stock"]

    def _morning(self) -> datetime:
        now = self._market.now()
        return datetime.combine(now.date(), time(0), now.tzinfo)

    def _find(self, symbol: str) -> Instrument:
        found = self._by_symbol.get(symbol)
        if found is None:
            raise DataNotFound(f"There is no instrument {symbol!r} in our records. Ask for another one.")
        return found


def _headline(instrument: Instrument) -> str:
    """In the language of its market's own press."""
    if instrument.exchange == "KRX":
        return f"{instrument.name_ko}: 데모 시장의 지어낸 제목이며 실제로 일어난 일이 아닙니다"
    return f"{instrument.name_en} in the demo market: nothing has happened, and this headline is made up"
