"""A table of the sources of market data, for the start line, the doctor and the guide, without the sources' code."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

Standing = Literal["official", "unofficial"]


class SourceInfo(Struct, frozen=True, kw_only=True):
    """A source of market data. `unofficial`: it serves the source's own pages, and no contract promises it to us."""

    id: str
    name: str
    standing: Standing = "official"
    terms: str  # on what terms it is used, in a sentence for the operator
    urls: Mapping[str, str]
    """Where it answers, by the name of the API. The settings may give others."""
    per_minute: int  # requests that we allow ourselves; a minute's worth may be sent at once
    batch: int = 1
    rest: int = 60
    """Seconds for which it is left alone after it has refused us without saying for how long."""
    has_prices: bool = True
    """Of anything that is traded; others have documents or a bank's fixings."""
    keys: tuple[str, ...] = ()  # names in `market_data.keys` without which it is not asked


_ALL: Final = (
    SourceInfo(
        id="naver",
        name="Naver",
        standing="unofficial",
        terms="no licence for re-use is published: for personal display, at a low rate, with the source named",
        urls={"polling": "https://polling.finance.naver.com", "api": "https://api.stock.naver.com"},
        per_minute=60,
        batch=50,
        rest=300,
    ),
    SourceInfo(
        id="yahoo",
        name="Yahoo Finance",
        standing="unofficial",
        terms="for personal use; KRX prices are 20 minutes late, US prices up to 15",
        urls={"api": "https://query2.finance.yahoo.com"},
        per_minute=60,
        rest=900,
    ),
    SourceInfo(
        id="upbit",
        name="Upbit",
        terms="public quotation API, no key; the day of its prices begins at 09:00 in Seoul",
        urls={"api": "https://api.upbit.com/v1"},
        per_minute=240,
        batch=100,
    ),
    SourceInfo(
        id="bithumb",
        name="Bithumb",
        terms="public quotation API, no key; the day of its prices begins at 00:00 in Seoul",
        urls={"api": "https://api.bithumb.com/v1"},
        per_minute=240,
        batch=100,
    ),
    SourceInfo(
        id="coinbase",
        name="Coinbase",
        terms="public market data API of Coinbase Exchange, no key; prices in real dollars",
        urls={"api": "https://api.exchange.coinbase.com"},
        per_minute=240,
    ),
    SourceInfo(
        id="kraken",
        name="Kraken",
        terms="public market data API, no key; prices in real dollars",
        urls={"api": "https://api.kraken.com/0/public"},
        per_minute=60,
    ),
    SourceInfo(
        id="frankfurter",
        name="Frankfurter (ECB)",
        terms="open API; asked for the reference rates of the European Central Bank alone, one a business day",
        urls={"api": "https://api.frankfurter.dev/v2"},
        per_minute=30,
        has_prices=False,
    ),
    SourceInfo(
        id="ecb",
        name="ECB",
        terms="reference rates of the European Central Bank, for information, one a business day",
        urls={"api": "https://www.ecb.europa.eu/stats/eurofxref"},
        per_minute=10,
        has_prices=False,
    ),
    SourceInfo(
        id="edgar",
        name="SEC EDGAR",
        terms="public domain; wants an address of mail in every request (`market_data.contact`)",
        urls={"data": "https://data.sec.gov", "www": "https://www.sec.gov"},
        per_minute=60,
        has_prices=False,
        rest=600,
    ),
    SourceInfo(
        id="dart",
        name="DART",
        terms="public RSS of the Korean supervisor, with the source named; today's filings alone",
        urls={"api": "https://dart.fss.or.kr"},
        per_minute=10,
        has_prices=False,
    ),
    SourceInfo(
        id="opendart",
        name="OpenDART",
        terms="free key of the Korean supervisor, 10,000 requests a day, with the source named",
        urls={"api": "https://opendart.fss.or.kr/api"},
        per_minute=30,
        has_prices=False,
        keys=("opendart.key",),
    ),
    SourceInfo(
        id="nasdaq",
        name="Nasdaq",
        standing="unofficial",
        terms="the calendar of Nasdaq's own pages, for personal use; its dates are expected ones",
        urls={"api": "https://api.nasdaq.com"},
        per_minute=20,
        has_prices=False,
        rest=600,
    ),
    SourceInfo(
        id="google_news",
        name="Google News",
        standing="unofficial",
        terms="RSS for personal, non-commercial use: headlines with their links, nothing of the articles",
        urls={"api": "https://news.google.com"},
        per_minute=10,
        has_prices=False,
        rest=900,
    ),
    SourceInfo(
        id="central_banks",
        name="central banks",
        terms="public press feeds of the Federal Reserve, the ECB and the Bank of Korea: headlines with their links",
        urls={
            "fed": "https://www.federalreserve.gov",
            "ecb": "https://www.ecb.europa.eu",
            "bok": "https://www.bok.or.kr",
        },
        per_minute=10,
        has_prices=False,
    ),
    SourceInfo(
        id="kis",
        name="KIS",
        terms="key of an account at Korea Investment & Securities; Korean prices in real time; looking only, no orders",
        urls={"api": "https://openapi.koreainvestment.com:9443"},
        per_minute=300,
        batch=20,
        keys=("kis.key", "kis.secret"),
    ),
    SourceInfo(
        id="toss",
        name="Toss Securities",
        terms="key of an account, for registered addresses alone; Korean and US prices; looking only, no orders",
        urls={"api": "https://openapi.tossinvest.com"},
        per_minute=60,
        batch=20,
        keys=("toss.id", "toss.secret"),
    ),
    SourceInfo(
        id="finnhub",
        name="Finnhub",
        terms="free key, 60 requests a minute; US prices, headlines and earnings dates, no bars",
        urls={"api": "https://finnhub.io/api/v1"},
        per_minute=50,
        keys=("finnhub.key",),
    ),
    SourceInfo(
        id="alpaca",
        name="Alpaca",
        terms="free key; live prices of IEX alone, bars of all US exchanges fifteen minutes late",
        urls={"api": "https://data.alpaca.markets"},
        per_minute=150,
        batch=50,
        keys=("alpaca.id", "alpaca.secret"),
    ),
)

SOURCES: Final[Mapping[str, SourceInfo]] = {each.id: each for each in _ALL}


def describe_sources(ids: tuple[str, ...]) -> str:
    return ", ".join(f"{SOURCES[each].name} ({SOURCES[each].standing})" for each in ids)


def name_price_sources(ids: tuple[str, ...]) -> str:
    return ", ".join(SOURCES[each].name for each in ids if SOURCES[each].has_prices)
