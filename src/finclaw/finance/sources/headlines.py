"""Headlines from feeds: Google News by company, and the press releases of central banks. A title and its link, no more.

The words belong to their publishers: nothing behind a link is read or kept here.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from finclaw.finance.instrument import Instrument, key_of
from finclaw.finance.instruments.vendor_symbols import own_symbol
from finclaw.finance.market_data.errors import DataError, DataUnsupported
from finclaw.finance.market_data.port import NewsItem
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.feeds import clean_line, parse_feed

_AHEAD: Final = timedelta(minutes=10)
_WINDOW: Final = timedelta(days=7)
_XML: Final = {"Accept": "application/rss+xml, application/atom+xml, application/xml, text/xml"}
_BANKS: Final = {
    "fed": ("feeds/press_all.xml", "Federal Reserve"),
    "ecb": ("rss/press.html", "European Central Bank"),
    "bok": ("portal/bbs/P0000559/news.rss", "Bank of Korea"),
}
_PRESS_WINDOW: Final = timedelta(days=14)


class GoogleNews(DataSource):
    info = SOURCES["google_news"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "news"

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        if instrument is None:
            raise DataUnsupported("is asked about companies")
        if instrument.exchange == "KRX":
            name = instrument.name_ko
            edition = {"hl": "ko", "gl": "KR", "ceid": "KR:ko"}
        else:
            name = instrument.name_en
            edition = {"hl": "en-US", "gl": "US", "ceid": "US:en"}
        query = {"q": f'"{name}" when:{_WINDOW.days}d', **edition}
        body = await client.get_body("rss/search", query, headers=_XML)
        entries = await asyncio.to_thread(parse_feed, body, client.now())
        items = [
            NewsItem(
                title=each.title.removesuffix(f" - {each.author}"),  # the publisher has an element of its own
                url=each.url,
                publisher=each.author,
                published_at=each.published_at,
                source=client.name,
                symbols=(instrument.symbol,),
            )
            for each in entries
        ]
        return newest(items, client, _WINDOW, limit)


class CentralBanks(DataSource):
    info = SOURCES["central_banks"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return False

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        if instrument is not None:
            raise DataUnsupported("publish nothing about one company")
        answers = await asyncio.gather(*(self._read_bank(client, bank) for bank in _BANKS))
        items = [item for answer in answers if not isinstance(answer, DataError) for item in answer]
        failures = [answer for answer in answers if isinstance(answer, DataError)]
        if len(failures) == len(answers):
            raise failures[0]
        return newest(items, client, _PRESS_WINDOW, limit)

    async def _read_bank(self, client: SourceClient, bank: str) -> list[NewsItem] | DataError:
        """One bank that does not answer leaves the others."""
        path, publisher = _BANKS[bank]
        try:
            body = await client.get_body(path, api=bank, headers=_XML)
            entries = await asyncio.to_thread(parse_feed, body, client.now())
        except DataError as error:
            return error
        return [
            NewsItem(
                title=each.title, url=each.url, publisher=publisher, published_at=each.published_at, source=client.name
            )
            for each in entries
        ]


def newest(items: Iterable[NewsItem], client: SourceClient, window: timedelta, limit: int) -> list[NewsItem]:
    """Newest first, each once, none of the future and none older than was asked for, even where a source lists it."""
    oldest = client.now() - window
    latest = client.now() + _AHEAD
    seen: set[str] = set()
    kept: list[NewsItem] = []
    for item in sorted(items, key=lambda each: each.published_at, reverse=True):
        keys = {key_of(item.title), item.url.partition("?")[0].partition("#")[0]}
        if oldest <= item.published_at <= latest and not keys & seen:
            kept.append(item)
        seen |= keys
    return kept[:limit]


def make_headline(
    client: SourceClient, title: str, url: str, publisher: str, published_at: datetime, symbols: Iterable[str]
) -> NewsItem:
    """A headline in a vendor's JSON; `symbols` are the vendor's."""
    return NewsItem(
        title=clean_line(title),
        url=url,
        publisher=clean_line(publisher, 100),
        published_at=published_at,
        source=client.name,
        symbols=tuple(filter(None, map(own_symbol, symbols))),
    )
