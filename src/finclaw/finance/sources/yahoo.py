"""Yahoo Finance: quotes from its chart, bars, indices and rates. One symbol a request.

The close of the session before comes from the bars by our own calendar: what the answer calls previous close is that
of the day before the range.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import islice
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, join_bars
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources import reading
from finclaw.finance.venue import VENUES

_DELAYS: Final = {"KRX": 20, "NYSE": 15, "NASDAQ": 15}
"""Minutes. The answer does not say, so the longest that is known holds."""
_OLDEST_CLOSE: Final = timedelta(days=5)
_FINEST: Final = 15
"""Minutes of the bars that are asked for: those of 30 come back as bars of 60, so they are merged here."""


class _Meta(Struct, rename="camel"):
    symbol: str
    currency: str | None
    regular_market_price: reading.Number
    regular_market_time: int
    gmtoffset: Annotated[int, Meta(gt=-86_400, lt=86_400)]
    price_hint: Annotated[int, Meta(ge=0, le=12)] = 2
    """Digits behind the point; what is behind those is the noise of a float."""
    regular_market_volume: int | None = None
    regular_market_day_high: reading.Number = None
    regular_market_day_low: reading.Number = None


class _Columns(Struct):
    open: list[reading.Number]
    high: list[reading.Number]
    low: list[reading.Number]
    close: list[reading.Number]
    volume: list[int | None]


class _Indicators(Struct):
    quote: list[_Columns]


class _Result(Struct):
    meta: _Meta
    indicators: _Indicators
    timestamp: list[int] | None = None


class _Problem(Struct):
    code: str = ""


class _Chart(Struct):
    result: list[_Result] | None = None
    error: _Problem | None = None


class _Answer(Struct):
    chart: _Chart


class Yahoo(DataSource):
    info = SOURCES["yahoo"]
    kinds = ("quote", "bars", "minutes")
    adjustment = "split"

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return instrument.kind != "coin" and super().has(instrument, kind)

    async def read_quote(self, client: SourceClient, instrument: Instrument) -> PriceReading:
        result = await self._ask(client, instrument, {"range": "5d", "interval": "1d"})
        meta = result.meta
        as_of = reading.read_epoch(meta.regular_market_time)
        rows = list(_rows(result))
        return PriceReading(
            instrument=instrument,
            price=reading.trim(reading.read_number(meta.regular_market_price, "a price"), meta.price_hint),
            currency=meta.currency or "",
            as_of=as_of,
            previous_close=_previous_close(client, instrument, rows, as_of, meta.gmtoffset),
            low=reading.read_optional(meta.regular_market_day_low, "a low"),
            high=reading.read_optional(meta.regular_market_day_high, "a high"),
            volume=meta.regular_market_volume or 0,
            delay=_DELAYS.get(instrument.exchange, 0),
        )

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: BarRange) -> Sequence[Bar]:
        zone = VENUES[instrument.exchange].tz
        first = datetime.combine(span.first, time(0), zone)
        end = datetime.combine(span.last + timedelta(days=1), time(0), zone)  # exclusive
        query = {"period1": str(int(first.timestamp())), "period2": str(int(end.timestamp())), "interval": "1d"}
        if span.minutes:
            query["interval"] = f"{_FINEST}m"
        result = await self._ask(client, instrument, query)
        rows = list(_rows(result))
        if span.minutes:
            bars = _minute_bars(client, instrument, rows, span)
        else:
            bars = _day_bars(client, instrument, rows, result)
        if bars and result.meta.currency != instrument.currency and instrument.kind != "index":
            raise errors.DataMalformed(f"'s bars are in {result.meta.currency}")
        return bars

    async def _ask(self, client: SourceClient, instrument: Instrument, query: Mapping[str, str]) -> _Result:
        symbol = self.symbol_of(instrument)
        answer = await client.get(_Answer, f"v8/finance/chart/{symbol}", query, headers=reading.BROWSER)
        if answer.chart.error is not None:
            raise errors.DataUnsupported(f"does not have {symbol}")
        if not answer.chart.result:
            raise errors.DataEmpty(f"has nothing for {symbol}")
        result = answer.chart.result[0]
        if result.meta.symbol != symbol:
            raise errors.DataMalformed(f"gave {result.meta.symbol} for {symbol}")
        return result


def _rows(result: _Result) -> Iterator[Bar]:
    """Whole bars alone, each at its moment: some places in the columns are null, and some are zero."""
    stamps = result.timestamp or []
    if not result.indicators.quote or not stamps:
        return
    columns = result.indicators.quote[0]
    digits = result.meta.price_hint
    parts = (columns.open, columns.high, columns.low, columns.close)
    if {len(each) for each in (*parts, columns.volume)} != {len(stamps)}:
        raise errors.DataMalformed("gave columns of different lengths")
    for place, stamp in enumerate(stamps):
        figures = (reading.read_optional(column[place], "a price of a bar") for column in parts)
        opened, high, low, close = (reading.trim(each or Decimal(0), digits) for each in figures)
        if opened and high and low and close:
            starts = reading.read_epoch(stamp)
            yield reading.make_bar(
                starts.date(), starts, starts, (opened, high, low, close), columns.volume[place] or 0
            )


def _previous_close(
    client: SourceClient, instrument: Instrument, rows: Sequence[Bar], as_of: datetime, offset: int
) -> Decimal | None:
    """The close of the session before the price's own; None where the bars do not have exactly that one."""
    if instrument.kind == "rate":
        local = timezone(timedelta(seconds=offset))
        today = as_of.astimezone(local).date()
        before = [each for each in rows if each.starts.astimezone(local).date() < today]
        if not before or as_of - before[-1].starts >= _OLDEST_CLOSE:
            return None
        return before[-1].close
    _, before_it = islice(client.calendar.sessions_before(instrument.exchange, as_of), 2)
    zone = VENUES[instrument.exchange].tz
    closes = [each.close for each in rows if each.starts.astimezone(zone).date() == before_it.day]
    if not closes:
        return None
    return closes[-1]


def _day_bars(client: SourceClient, instrument: Instrument, rows: Sequence[Bar], result: _Result) -> list[Bar]:
    """One bar a day: the newest price is sometimes added as a row of its own, and then it is the day's last word."""
    zone = VENUES[instrument.exchange].tz
    if instrument.kind == "rate":
        zone = timezone(timedelta(seconds=result.meta.gmtoffset))
    days: dict[date, list[Bar]] = {}
    for row in rows:
        days.setdefault(row.starts.astimezone(zone).date(), []).append(row)
    bars: list[Bar] = []
    for day, parts in sorted(days.items()):
        whole = join_bars(parts, parts[0].starts)
        volume = max(each.volume for each in parts)
        bars += reading.make_day_bars(client, instrument, day, (whole.open, whole.high, whole.low, whole.close), volume)
    return bars


def _minute_bars(client: SourceClient, instrument: Instrument, rows: Sequence[Bar], span: BarRange) -> list[Bar]:
    bars: list[Bar] = []
    day = span.first
    while day <= span.last:
        session = client.calendar.session_on(instrument.exchange, day)
        if session is not None:
            inside = [
                replace(each, day=day, ends=each.starts + timedelta(minutes=_FINEST))
                for each in rows
                if session.opens <= each.starts < session.closes
            ]
            bars += reading.merge_bars(inside, span.minutes, session.opens)
        day += timedelta(days=1)
    return bars
