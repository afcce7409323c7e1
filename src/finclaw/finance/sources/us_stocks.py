"""Vendors of US stocks: Alpaca and Finnhub with a free key, and Nasdaq's calendar of earnings."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct, field

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.plausible import PriceAnswer, PriceReading
from finclaw.finance.market_data.port import BarRange, EarningsDate, NewsItem
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources import reading
from finclaw.finance.sources.feeds import JsonHeadline, clean_line, is_web_address, make_headline, newest
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Session

_TOO_NEW: Final = timedelta(minutes=16)  # prices of all exchanges are free once they are so old
_MOST_PAGES: Final = 5
_LONGEST_BREAK: Final = timedelta(days=10)  # within so many days there is a session before
_ALPACA_NEWS: Final = timedelta(days=7)


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


class _Snapshot(Struct, rename="camel"):
    """The latest of one symbol. Its daily bars are of IEX too, so that their closes are not the official ones."""

    latest_trade: _Trade


class _Bars(Struct):
    bars: dict[str, list[_Bar]] | None
    next_page_token: str | None = None


class _Article(JsonHeadline, kw_only=True):
    created_at: str
    symbols: list[str] = field(default_factory=list[str])


class _News(Struct):
    news: list[_Article]


class Alpaca(DataSource):
    """Alpaca: quotes of one exchange, daily bars of all of them, and news.

    The free plan's live prices are those of IEX alone: a few percent of the market, so they name their venue and bring
    no volume. Bars of all exchanges must be at least fifteen minutes old.
    """

    info = SOURCES["alpaca"]
    kinds = ("quote", "bars", "news")
    adjustment = "split"

    async def read_quotes(self, client: SourceClient, instruments: Sequence[Instrument]) -> Mapping[str, PriceAnswer]:
        """The last trade on IEX in the session, the close of all exchanges after it; official closes to compare."""
        names = {self.symbol_of(each): each for each in instruments}
        now = client.now()
        session = next(client.calendar.sessions_before("NYSE", now))
        if session.closes <= now < session.closes + _TOO_NEW:
            raise errors.DataStale("has a close a quarter of an hour after it")
        closes = await self._read_days(client, list(names), session.day - _LONGEST_BREAK, now)
        trades: dict[str, _Snapshot] = {}
        if now < session.closes:
            query = {"symbols": ",".join(names), "feed": "iex"}
            trades = await client.get(dict[str, _Snapshot], "v2/stocks/snapshots", query, headers=self._headers())

        def read(name: str, instrument: Instrument) -> PriceReading:
            return _make_reading(client, instrument, session, closes.get(name, ()), trades.get(name))

        return reading.read_each(names, read)

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        name = self.symbol_of(instrument)
        zone = VENUES[instrument.exchange].tz
        end = datetime.combine(span.last + timedelta(days=1), time(0), zone)
        rows = (await self._read_days(client, [name], span.first, end)).get(name, ())
        bars: list[Bar] = []
        for row in rows:
            # A day's time is its midnight in New York, 04:00 or 05:00 UTC: the day is that of the exchange.
            day = reading.read_time(row.t).astimezone(zone).date()
            bars += reading.make_day_bars(client, instrument, day, (row.o, row.h, row.l, row.c), int(row.v))
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
        raise errors.DataMalformed("'s bars have no end")

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        query = {"limit": str(min(max(limit, 10), 50))}
        if instrument is not None:
            query["symbols"] = self.symbol_of(instrument)
        answer = await client.get(_News, "v1beta1/news", query, headers=self._headers())
        items = [
            make_headline(client, each, reading.read_time(each.created_at), each.symbols)
            for each in answer.news
            if is_web_address(each.url)
        ]
        return newest(items, client, _ALPACA_NEWS, limit)

    def _headers(self) -> Mapping[str, str]:
        id, secret = self.reveal_keys()
        return {"APCA-API-KEY-ID": id, "APCA-API-SECRET-KEY": secret}


def _make_reading(
    client: SourceClient, instrument: Instrument, session: Session, rows: Sequence[_Bar], trade: _Snapshot | None
) -> PriceReading:
    """A running session is priced by the trade, one that is over by its bar. Both stand against the bar before."""
    zone = VENUES[instrument.exchange].tz
    days = {reading.read_time(row.t).astimezone(zone).date(): row for row in rows}
    earlier = [day for day in days if day < session.day]
    if not earlier:
        raise errors.DataUnsupported(f"does not have {instrument.symbol}")
    before = reading.read_number(days[max(earlier)].c, "a previous close")
    if client.now() < session.closes:
        if trade is None:
            raise errors.DataUnsupported(f"has no trade of {instrument.symbol}")
        return PriceReading(
            instrument=instrument,
            price=reading.read_number(trade.latest_trade.p, "a price"),
            currency="USD",
            as_of=reading.read_time(trade.latest_trade.t),
            previous_close=before,
            venue="IEX",
        )
    if session.day not in days:
        raise errors.DataStale(f"has no bar of {session.day} yet")
    return PriceReading(
        instrument=instrument,
        price=reading.read_number(days[session.day].c, "a price"),
        currency="USD",
        as_of=session.closes,
        previous_close=before,
        volume=int(days[session.day].v),
    )


_FINNHUB_NEWS: Final = timedelta(days=14)
_ROUNDING: Final = Decimal("0.011")  # the change is rounded to cents, and so are the prices
_MOMENTS: Final[Mapping[str, Literal["before open", "after close", "during session"]]] = {
    "bmo": "before open",
    "amc": "after close",
    "dmh": "during session",
}


class _Quote(Struct):
    c: reading.Number
    d: reading.Number
    h: reading.Number
    l: reading.Number  # noqa: E741  their name for the low
    pc: reading.Number
    t: int


class _Headline(JsonHeadline, kw_only=True):
    datetime: int
    related: str = ""


class _Report(Struct, rename="camel"):
    date: date
    symbol: str
    hour: str = ""
    eps_estimate: reading.Number = None


class _Calendar(Struct, rename="camel"):
    earnings_calendar: list[_Report] = field(default_factory=list[_Report])


class Finnhub(DataSource):
    """Finnhub, without bars, which are not free. It answers zeros with status 200 for what it does not know."""

    info = SOURCES["finnhub"]
    kinds = ("quote", "news", "earnings")

    async def read_quote(self, client: SourceClient, instrument: Instrument) -> PriceReading:
        query = {"symbol": self.symbol_of(instrument)}
        found = await client.get(_Quote, "quote", query, headers=self._headers())
        return _parse_quote(found, client, instrument)

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        if instrument is None:
            path = "news"
            query = {"category": "general"}
        else:
            today = client.now().date()
            path = "company-news"
            query = {"symbol": self.symbol_of(instrument), "from": str(today - _FINNHUB_NEWS), "to": str(today)}
        found = await client.get(list[_Headline], path, query, headers=self._headers())
        items = [
            make_headline(client, each, reading.read_epoch(each.datetime), [each.related])
            for each in found
            if is_web_address(each.url) and clean_line(each.headline)
        ]
        return newest(items, client, _FINNHUB_NEWS, limit)

    async def read_earnings(self, client: SourceClient, first: date, last: date) -> Sequence[EarningsDate]:
        query = {"from": str(first), "to": str(last)}
        found = await client.get(_Calendar, "calendar/earnings", query, headers=self._headers())
        return [
            EarningsDate(
                symbol=clean_line(each.symbol, 20).upper(),
                name="",
                day=each.date,
                moment=_MOMENTS.get(each.hour, "unknown"),
                estimate=reading.read_optional(each.eps_estimate, "an estimate"),
                source=client.name,
            )
            for each in found.earnings_calendar
            if first <= each.date <= last
        ]

    def _headers(self) -> Mapping[str, str]:
        (key,) = self.reveal_keys()
        return {"X-Finnhub-Token": key}


def _parse_quote(found: _Quote, client: SourceClient, instrument: Instrument) -> PriceReading:
    """Raises DataUnsupported for the zeros of an unknown symbol, DataMalformed for what contradicts itself."""
    if found.t == 0 or not found.c:
        raise errors.DataUnsupported(f"does not have {instrument.symbol}: it answered zeros")
    price = reading.read_number(found.c, "a price")
    before = reading.read_number(found.pc, "a previous close")
    change = reading.read_number(found.d, "a change")
    if abs(price - before - change) > _ROUNDING:
        raise errors.DataMalformed(f"'s change does not fit its price of {instrument.symbol}")
    return PriceReading(
        instrument=instrument,
        price=price,
        currency="USD",
        as_of=reading.read_epoch(found.t),
        previous_close=before,
        low=reading.read_optional(found.l, "a low"),
        high=reading.read_optional(found.h, "a high"),
    )


_NASDAQ_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36",
    "Accept": "application/json",
}
"""Without a browser's name it never answers."""
_MOST_DAYS: Final = 10
_FURTHEST: Final = timedelta(days=55)
_NASDAQ_MOMENTS: Final[dict[str, Literal["before open", "after close", "unknown"]]] = {
    "time-pre-market": "before open",
    "time-after-hours": "after close",
    "time-not-supplied": "unknown",
}


class _NasdaqRow(Struct, rename="camel"):
    symbol: str
    name: str
    time: str = "time-not-supplied"
    eps_forecast: str | None = None


class _NasdaqRows(Struct):
    rows: list[_NasdaqRow] | None  # null on a day without any, and beyond what it knows


class _NasdaqStatus(Struct, rename="camel"):
    r_code: int = 200


class _NasdaqAnswer(Struct):
    data: _NasdaqRows | None
    status: _NasdaqStatus | None = None


class NasdaqCalendar(DataSource):
    """The calendar of nasdaq.com, a request for each day. Most of its dates are estimates."""

    info = SOURCES["nasdaq"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "earnings" and instrument.exchange in ("NYSE", "NASDAQ") and instrument.kind == "stock"

    async def read_earnings(self, client: SourceClient, first: date, last: date) -> Sequence[EarningsDate]:
        span = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        days = [day for day in span if client.calendar.session_on("NASDAQ", day) is not None]
        if len(days) > _MOST_DAYS:
            raise errors.DataUnsupported(f"is asked for at most {_MOST_DAYS} trading days; ask for a shorter time")
        if first > client.now().date() + _FURTHEST:
            raise errors.DataUnsupported("knows no dates so far ahead")
        answers = await asyncio.gather(*(self._read_day(client, day) for day in days))
        return [each for answer in answers for each in answer]

    async def _read_day(self, client: SourceClient, day: date) -> list[EarningsDate]:
        query = {"date": day.isoformat()}
        answer = await client.get(_NasdaqAnswer, "api/calendar/earnings", query, headers=_NASDAQ_HEADERS)
        status = answer.status or _NasdaqStatus()
        if answer.data is None or status.r_code != 200:
            raise errors.DataMalformed(f"answered without data for {day}")
        return [
            EarningsDate(
                symbol=clean_line(row.symbol, 20).upper(),
                name=clean_line(row.name, 100),
                day=day,
                moment=_NASDAQ_MOMENTS.get(row.time, "unknown"),
                estimate=_read_dollars(row.eps_forecast or ""),
                source=client.name,
            )
            for row in answer.data.rows or ()
        ]


def _read_dollars(text: str) -> Decimal | None:
    """`$1.20`, and `($0.15)` for a loss. None for what is no amount: an estimate is left out, never guessed."""
    plain = text.strip().replace("$", "").replace(",", "")
    is_loss = plain.startswith("-") or (plain.startswith("(") and plain.endswith(")"))
    digits = plain.strip("()-")
    if not digits.replace(".", "", 1).isdecimal() or not digits.isascii():
        return None
    return -Decimal(digits) if is_loss else Decimal(digits)
