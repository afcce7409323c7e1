"""Alpaca, with a key: US quotes of one exchange, daily bars of all of them, and news.

The free plan's live prices are those of IEX alone: a few percent of the market, so they name their venue and bring no
volume. Bars of all exchanges must be at least fifteen minutes old.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

from msgspec import Struct, field

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data.errors import DataError, DataMalformed, DataStale, DataUnsupported
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange, NewsItem
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.feeds import is_web_address
from finclaw.finance.sources.headlines import make_headline, newest
from finclaw.finance.sources.reading import make_day_bars, read_each, read_number, read_prices, read_time
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Session
from finclaw.redaction import Secret

_TOO_NEW: Final = timedelta(minutes=16)
"""Prices of all exchanges are free once they are so old."""
_MOST_PAGES: Final = 5
_LONGEST_BREAK: Final = timedelta(days=10)
"""Within so many days there is a session before."""
_NEWS: Final = timedelta(days=7)


class _Trade(Struct):
    t: str
    p: float


class _Bar(Struct):
    t: str
    o: float
    h: float
    l: float  # noqa: E741  as they name it
    c: float
    v: float


class Snapshot(Struct, rename="camel"):
    """The latest of one symbol. Its daily bars are of IEX too, so that their closes are not the official ones."""

    latest_trade: _Trade


class _Bars(Struct):
    bars: dict[str, list[_Bar]] | None
    next_page_token: str | None = None


class _Article(Struct):
    headline: str
    url: str
    created_at: str
    source: str = ""
    symbols: list[str] = field(default_factory=list[str])


class _News(Struct):
    news: list[_Article]


class Alpaca(DataSource):
    """Alpaca's market data."""

    info = SOURCES["alpaca"]
    kinds = ("quote", "bars", "news")
    adjustment = "split"

    def __init__(self, id: Secret | None = None, secret: Secret | None = None) -> None:
        self._id = id
        self._secret = secret

    async def read_quotes(
        self, client: SourceClient, instruments: Sequence[Instrument]
    ) -> Mapping[str, PriceReading | DataError]:
        """The last trade on IEX in the session, the close of all exchanges after it; official closes to compare."""
        names = {self.symbol_of(each): each for each in instruments}
        now = client.now()
        session = next(client.calendar.sessions_before("NYSE", now))
        if session.closes <= now < session.closes + _TOO_NEW:
            raise DataStale("has a close a quarter of an hour after it")
        closes = await self._read_days(client, list(names), session.day - _LONGEST_BREAK, now)
        trades: dict[str, Snapshot] = {}
        if now < session.closes:
            query = {"symbols": ",".join(names), "feed": "iex"}
            trades = await client.get(dict[str, Snapshot], "v2/stocks/snapshots", query, headers=self._headers())

        def read(name: str, instrument: Instrument) -> PriceReading:
            return _make_reading(client, instrument, session, closes.get(name, ()), trades.get(name))

        return read_each(names, read)

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        name = self.symbol_of(instrument)
        zone = VENUES[instrument.exchange].tz
        end = datetime.combine(span.last + timedelta(days=1), time(0), zone)
        rows = (await self._read_days(client, [name], span.first, end)).get(name, ())
        bars: list[Bar] = []
        for row in rows:
            # A day's time is its midnight in New York, 04:00 or 05:00 UTC: the day is that of the exchange.
            day = read_time(row.t).astimezone(zone).date()
            bars += make_day_bars(client, instrument, day, read_prices((row.o, row.h, row.l, row.c)), int(row.v))
        return bars

    async def _read_days(
        self, client: SourceClient, names: Sequence[str], first: date, end: datetime
    ) -> Mapping[str, Sequence[_Bar]]:
        """Daily bars of all exchanges by symbol, adjusted for splits: as traded, which is their default, they jump."""
        query = {
            "symbols": ",".join(names),
            "timeframe": "1Day",
            "start": first.isoformat(),
            "end": min(end, client.now() - _TOO_NEW).isoformat(),
            "adjustment": "split",
            "feed": "sip",
            "limit": "10000",
        }
        found: dict[str, list[_Bar]] = {}
        for _ in range(_MOST_PAGES):
            answer = await client.get(_Bars, "v2/stocks/bars", query, headers=self._headers())
            for name, rows in (answer.bars or {}).items():
                found.setdefault(name, []).extend(rows)
            if not answer.next_page_token:
                return found
            query["page_token"] = answer.next_page_token
        raise DataMalformed("'s bars have no end")

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        query = {"limit": str(min(max(limit, 10), 50))}
        if instrument is not None:
            query["symbols"] = self.symbol_of(instrument)
        answer = await client.get(_News, "v1beta1/news", query, headers=self._headers())
        items = [
            make_headline(client, each.headline, each.url, each.source, read_time(each.created_at), each.symbols)
            for each in answer.news
            if is_web_address(each.url)
        ]
        return newest(items, client, _NEWS, limit)

    def _headers(self) -> Mapping[str, str]:
        id, secret = self.reveal_keys(self._id, self._secret)
        return {"APCA-API-KEY-ID": id, "APCA-API-SECRET-KEY": secret}


def _make_reading(
    client: SourceClient, instrument: Instrument, session: Session, rows: Sequence[_Bar], trade: Snapshot | None
) -> PriceReading:
    """A running session is priced by the trade, one that is over by its bar. Both stand against the bar before."""
    zone = VENUES[instrument.exchange].tz
    days = {read_time(row.t).astimezone(zone).date(): row for row in rows}
    earlier = [day for day in days if day < session.day]
    if not earlier:
        raise DataUnsupported(f"does not have {instrument.symbol}")
    before = read_number(days[max(earlier)].c, "a previous close")
    if client.now() < session.closes:
        if trade is None:
            raise DataUnsupported(f"has no trade of {instrument.symbol}")
        return PriceReading(
            instrument=instrument,
            source=client.name,
            price=read_number(trade.latest_trade.p, "a price"),
            currency="USD",
            as_of=read_time(_shorten(trade.latest_trade.t)),
            previous_close=before,
            venue="IEX",
        )
    if session.day not in days:
        raise DataStale(f"has no bar of {session.day} yet")
    return PriceReading(
        instrument=instrument,
        source=client.name,
        price=read_number(days[session.day].c, "a price"),
        currency="USD",
        as_of=session.closes,
        previous_close=before,
        volume=int(days[session.day].v),
    )


def _shorten(text: str) -> str:
    """Their times have nanoseconds, which Python's have not."""
    head, dot, tail = text.partition(".")
    if not dot:
        return text
    return f"{head}.{tail.removesuffix('Z')[:6]}Z"
