"""The port to market data: quotes, bars, rates, news, filings, earnings dates and profiles, by our own symbols."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, Protocol

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, Quote
from finclaw.finance.market_data.errors import DataError
from finclaw.kernel.fact import Fact

Adjustment = Literal["none", "split", "split+dividend"]
Purpose = Literal["people", "alerts", "briefings"]
"""Who wants the data. A poller leaves room in a source's budget for people who wait."""


class BarRange(Struct, frozen=True, kw_only=True):
    """Bars from one day to another of the venue's calendar, both included. Minutes are for intraday bars alone."""

    first: date
    last: date
    minutes: int = 0


class BarSeries(Struct, frozen=True, kw_only=True):
    instrument: Instrument
    bars: tuple[Bar, ...]
    adjustment: Adjustment
    source: str
    day_basis: str = ""  # of a coin: when its day begins, as `00:00 UTC`
    failed: tuple[str, ...] = ()
    stale: bool = False


class ExchangeRate(Struct, frozen=True, kw_only=True):
    base: str
    quote: str
    rate: Decimal
    basis: Literal["spot", "fixing"]
    day: date
    as_of: datetime
    source: str
    failed: tuple[str, ...] = ()
    stale: bool = False


class NewsItem(Struct, frozen=True, kw_only=True):
    """A headline with its link; the text behind it belongs to its publisher."""

    title: str
    url: str
    publisher: str
    published_at: datetime
    source: str
    symbols: tuple[str, ...] = ()


class Filing(Struct, frozen=True, kw_only=True):
    symbol: str
    form: str
    title: str
    filed_on: date
    url: str
    source: str


class EarningsDate(Struct, frozen=True, kw_only=True):
    """A day on which a company is expected to report; `is_expected`: nobody has confirmed it."""

    symbol: str
    name: str
    day: date
    moment: Literal["before open", "after close", "during session", "unknown"]
    estimate: Decimal | None
    source: str
    is_expected: bool = True


class CompanyProfile(Struct, frozen=True, kw_only=True):
    """What a source says about a company, field by field, in its own words; `facts` are the figures in them."""

    instrument: Instrument
    fields: Mapping[str, str]
    as_of: datetime
    source: str
    facts: tuple[Fact, ...] = ()


class MarketData(Protocol):
    """Plausible data with its source. Methods raise DataNotFound for an unknown symbol, else another DataError."""

    # The latest price of each, asked for together; an error stands where there is none.
    async def quotes(self, symbols: Sequence[str]) -> Mapping[str, Quote | DataError]: ...
    async def bars(self, symbol: str, span: BarRange) -> BarSeries: ...
    async def fx(self, base: str, quote: str, basis: Literal["spot", "fixing"] = "spot") -> ExchangeRate: ...
    # Newest first, of one instrument or of the whole market.
    async def news(self, symbol: str | None = None, limit: int = 10) -> Sequence[NewsItem]: ...
    async def filings(self, symbol: str, limit: int = 10) -> Sequence[Filing]: ...
    # Of all companies, from one day to another, both included.
    async def earnings(self, first: date, last: date) -> Sequence[EarningsDate]: ...
    async def profile(self, symbol: str) -> CompanyProfile: ...
