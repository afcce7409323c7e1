"""All sources by their names in the settings, and the market data that they make together."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from finclaw.finance.instrument import Instrument, InstrumentIndex
from finclaw.finance.live import LiveProbe
from finclaw.finance.market_data.chain import ChainedMarketData, LiveMarket
from finclaw.finance.market_data.quotes import LAST_PRICE_TABLE, LastPrices
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.finance.market_data.source import TOKEN_TABLE, DataSource, TokenStore
from finclaw.finance.market_data.source_access import BUDGET_TABLE, RequestBudget, SourceAccess
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.alpaca import Alpaca
from finclaw.finance.sources.coinbase import Coinbase
from finclaw.finance.sources.dart import DartFeed, OpenDart
from finclaw.finance.sources.ecb import EuropeanCentralBank, Frankfurter
from finclaw.finance.sources.edgar import Edgar
from finclaw.finance.sources.finnhub import Finnhub
from finclaw.finance.sources.headlines import CentralBanks, GoogleNews
from finclaw.finance.sources.kis import Kis
from finclaw.finance.sources.kraken import Kraken
from finclaw.finance.sources.nasdaq import NasdaqCalendar
from finclaw.finance.sources.naver import Naver
from finclaw.finance.sources.toss import Toss
from finclaw.finance.sources.upbit import Bithumb, Upbit
from finclaw.finance.sources.yahoo import Yahoo
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.extension import Database, ExtensionApi
from finclaw.kernel.fetch import Fetcher, FetchRules
from finclaw.kernel.port import Clock

MIGRATIONS: Final = (BUDGET_TABLE, LAST_PRICE_TABLE, TOKEN_TABLE)
"""The tables of the finance extension. Others are added behind these, never between."""


def _make_sources(settings: MarketDataSettings, tokens: TokenStore) -> Mapping[str, DataSource]:
    keys = settings.keys
    sources: tuple[DataSource, ...] = (
        Naver(),
        Yahoo(),
        Upbit(),
        Bithumb(),
        Coinbase(),
        Kraken(),
        Frankfurter(),
        EuropeanCentralBank(),
        Edgar(settings.contact),
        DartFeed(),
        OpenDart(keys.get("opendart.key")),
        NasdaqCalendar(),
        GoogleNews(),
        CentralBanks(),
        Kis(keys.get("kis.key"), keys.get("kis.secret"), tokens),
        Toss(keys.get("toss.id"), keys.get("toss.secret"), tokens),
        Finnhub(keys.get("finnhub.key")),
        Alpaca(keys.get("alpaca.id"), keys.get("alpaca.secret")),
    )
    return {each.info.id: each for each in sources}


def fetch_rules(settings: MarketDataSettings) -> FetchRules:
    """Only the hosts of the sources that are used, and of them only what the settings call private."""
    used = (SOURCES[each] for each in settings.used())
    addresses = [urlsplit(settings.url(info.id, api)) for info in used for api in info.urls]
    hosts = {each.hostname for each in addresses if each.hostname}
    ports = {80, 443} | {each.port for each in addresses if each.port}
    return FetchRules(allow=tuple(sorted(hosts)), private=settings.private, ports=tuple(sorted(ports)))


def open_market_data(
    settings: MarketDataSettings,
    fetcher: Fetcher,
    database: Database,
    clock: Clock,
    calendar: Calendar,
    find: Callable[[str], Instrument | None],
) -> ChainedMarketData:
    """`find` gives the instrument of an exact symbol of our records."""
    sources = _make_sources(settings, TokenStore(database, clock))
    access = SourceAccess(sources, settings, fetcher, RequestBudget(database, clock), clock, calendar)
    return ChainedMarketData(access, LastPrices(database), find)


def open_probe(
    settings: MarketDataSettings,
    fetcher: Fetcher,
    database: Database,
    clock: Clock,
    calendar: Calendar,
    find: Callable[[str], Instrument | None],
) -> LiveProbe:
    """For the doctor and the live report; its requests are counted as those of people."""
    sources = _make_sources(settings, TokenStore(database, clock))
    access = SourceAccess(sources, settings, fetcher, RequestBudget(database, clock), clock, calendar)
    return LiveProbe(access, sources, settings, find)


def open_live_market(
    settings: MarketDataSettings, api: ExtensionApi, calendar: Calendar, instruments: InstrumentIndex
) -> LiveMarket:
    """The market of the tools, on what an extension is given: its fetcher, its database and its clock."""
    fetcher = api.fetcher(fetch_rules(settings))
    database = api.database(MIGRATIONS)
    data = open_market_data(settings, fetcher, database, api.clock, calendar, instruments.get)
    api.on_close(data.close)
    return LiveMarket(data, instruments, calendar, api.clock)
