"""Nasdaq's calendar of earnings: days on which US companies are expected to report. Most of them are estimates."""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data.errors import DataMalformed, DataUnsupported
from finclaw.finance.market_data.port import EarningsDate
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.feeds import clean_line

_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36",
    "Accept": "application/json",
}
"""Without a browser's name it never answers."""
_MOST_DAYS: Final = 10
_FURTHEST: Final = timedelta(days=55)
_MOMENTS: Final[dict[str, Literal["before open", "after close", "unknown"]]] = {
    "time-pre-market": "before open",
    "time-after-hours": "after close",
    "time-not-supplied": "unknown",
}


class _Row(Struct, rename="camel"):
    symbol: str
    name: str
    time: str = "time-not-supplied"
    eps_forecast: str | None = None


class _Rows(Struct):
    rows: list[_Row] | None
    """Null on a day without any, and beyond what it knows."""


class _Status(Struct, rename="camel"):
    r_code: int = 200


class _EarningsAnswer(Struct):
    """A day of the calendar. `data` is null when the request was wrong."""

    data: _Rows | None
    status: _Status | None = None


class NasdaqCalendar(DataSource):
    info = SOURCES["nasdaq"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "earnings" and instrument.exchange in ("NYSE", "NASDAQ") and instrument.kind == "stock"

    async def read_earnings(self, client: SourceClient, first: date, last: date) -> Sequence[EarningsDate]:
        span = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        days = [day for day in span if client.calendar.session_on("NASDAQ", day) is not None]
        if len(days) > _MOST_DAYS:
            raise DataUnsupported(f"is asked for at most {_MOST_DAYS} trading days; ask for a shorter time")
        if first > client.now().date() + _FURTHEST:
            raise DataUnsupported("knows no dates so far ahead")
        answers = await asyncio.gather(*(self._read_day(client, day) for day in days))
        return [each for answer in answers for each in answer]

    async def _read_day(self, client: SourceClient, day: date) -> list[EarningsDate]:
        query = {"date": day.isoformat()}
        answer = await client.get(_EarningsAnswer, "api/calendar/earnings", query, headers=_HEADERS)
        status = answer.status or _Status()
        if answer.data is None or status.r_code != 200:
            raise DataMalformed(f"answered without data for {day}")
        return [
            EarningsDate(
                symbol=clean_line(row.symbol, 20).upper(),
                name=clean_line(row.name, 100),
                day=day,
                moment=_MOMENTS.get(row.time, "unknown"),
                estimate=_read_dollars(row.eps_forecast or ""),
                source=client.name,
            )
            for row in answer.data.rows or ()
        ]


def _read_dollars(text: str) -> Decimal | None:
    """`$1.20`, and `($0.15)` for a loss. None for what is no amount: an estimate is left out, never guessed."""
    plain = text.strip().replace("$", "").replace(",", "")
    is_loss = plain.startswith("(") and plain.endswith(")")
    digits = plain.strip("()-")
    if not digits.replace(".", "", 1).isdecimal() or not digits.isascii():
        return None
    if is_loss or plain.startswith("-"):
        return -Decimal(digits)
    return Decimal(digits)
