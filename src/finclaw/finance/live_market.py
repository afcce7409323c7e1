"""The live market: all sources by their names in the settings, and the market data that they make together."""

from datetime import UTC, date, datetime
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from finclaw.finance.instrument import InstrumentIndex
from finclaw.finance.market import Bar, Closes, Quote
from finclaw.finance.market_data.chain import ChainedMarketData
from finclaw.finance.market_data.errors import DataEmpty, DataError
from finclaw.finance.market_data.port import BarRange, BarSeries, MarketData
from finclaw.finance.market_data.quotes import LAST_PRICE_TABLE, LastPrices
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.finance.market_data.source import TOKEN_TABLE, DataSource, TokenStore
from finclaw.finance.market_data.source_access import BUDGET_TABLE, RequestBudget, SourceAccess
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.brokers import Kis, Toss
from finclaw.finance.sources.coins import Bithumb, Coinbase, Kraken, Upbit
from finclaw.finance.sources.ecb import EuropeanCentralBank, Frankfurter
from finclaw.finance.sources.feeds import CentralBanks, GoogleNews
from finclaw.finance.sources.filings import DartFeed, Edgar, OpenDart
from finclaw.finance.sources.naver import Naver
from finclaw.finance.sources.us_stocks import Alpaca, Finnhub, NasdaqCalendar
from finclaw.finance.sources.yahoo import Yahoo
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.extension import Database, ExtensionApi
from finclaw.kernel.fetch import Fetcher, FetchRules
from finclaw.kernel.port import Clock

MIGRATIONS: Final = (BUDGET_TABLE, LAST_PRICE_TABLE, TOKEN_TABLE)
"""The tables of the finance extension. Others are added behind these, never between."""

_SOURCES: Final[tuple[type[DataSource], ...]] = (
    *(Naver, Yahoo, Upbit, Bithumb, Coinbase, Kraken, Frankfurter, EuropeanCentralBank, Edgar, DartFeed, OpenDart),
    *(NasdaqCalendar, GoogleNews, CentralBanks, Kis, Toss, Finnhub, Alpaca),
)


class LiveMarket:
    source = "live market data"
    """The name of what was put together from several sources, or from our own calendar."""

    def __init__(self, data: MarketData, instruments: InstrumentIndex, calendar: Calendar, clock: Clock) -> None:
        self.data = data
        self.instruments = instruments
        self._calendar = calendar
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now().astimezone(UTC)

    async def quote(self, symbol: str) -> Quote:
        answer = (await self.data.quotes([symbol]))[symbol]
        if isinstance(answer, DataError):
            raise answer
        return answer

    async def closes(self, symbol: str, since: date) -> Closes:
        series = await self._bars_since(symbol, since)
        label = f"{series.source} (stale)" if series.stale else series.source
        return Closes(tuple((bar.ends, bar.close) for bar in series.bars), label)

    async def daily(self, symbol: str, sessions: int) -> tuple[Bar, ...]:
        past = list(islice(self._calendar.sessions_before(self._exchange(symbol), self.now()), sessions))
        series = await self._bars_since(symbol, past[-1].day)
        return series.bars[-sessions:]

    async def intraday(self, symbol: str, minutes: int) -> tuple[Bar, ...]:
        session = next(self._calendar.sessions_before(self._exchange(symbol), self.now()))
        series = await self.data.bars(symbol, BarRange(first=session.day, last=session.day, minutes=minutes))
        return series.bars

    async def _bars_since(self, symbol: str, first: date) -> BarSeries:
        today = self.now().astimezone(VENUES[self._exchange(symbol)].tz).date()
        if today < first:
            raise DataEmpty(f"There is no price of {symbol} before {first}. Say so and give no figure.")
        return await self.data.bars(symbol, BarRange(first=first, last=today))

    def _exchange(self, symbol: str) -> str:
        found = self.instruments.get(symbol)
        return found.exchange if found else "NYSE"  # the port refuses what the records lack


def open_live_market(
    settings: MarketDataSettings, api: ExtensionApi, calendar: Calendar, instruments: InstrumentIndex
) -> LiveMarket:
    """The market of the tools, on what an extension is given: its fetcher, its database and its clock."""
    fetcher = api.fetcher(fetch_rules(settings))
    database = api.database(MIGRATIONS)
    access = open_access(settings, fetcher, database, api.clock, calendar)
    data = ChainedMarketData(access, LastPrices(database), instruments.get)
    api.on_close(data.close)
    return LiveMarket(data, instruments, calendar, api.clock)


def open_access(
    settings: MarketDataSettings, fetcher: Fetcher, database: Database, clock: Clock, calendar: Calendar
) -> SourceAccess:
    tokens = TokenStore(database, clock)
    sources = [kind(settings, tokens) for kind in _SOURCES]
    by_id = {each.info.id: each for each in sources}
    return SourceAccess(by_id, settings, fetcher, RequestBudget(database, clock), clock, calendar)


def fetch_rules(settings: MarketDataSettings) -> FetchRules:
    """Only the hosts of the sources that are used, and of them only what the settings call private."""
    used = (SOURCES[each] for each in settings.used())
    addresses = [urlsplit(settings.url(info.id, api)) for info in used for api in info.urls]
    hosts = {each.hostname for each in addresses if each.hostname}
    ports = {80, 443} | {each.port for each in addresses if each.port}
    return FetchRules(allow=tuple(sorted(hosts)), private=settings.private, ports=tuple(sorted(ports)))
