"""Readers of figures and times in vendors' answers. What is not plainly a number is malformed, and never a zero."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from itertools import groupby
from typing import Final

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, join_bars
from finclaw.finance.market_data.errors import (
    DataAuthExpired,
    DataError,
    DataMalformed,
    DataRateLimited,
    DataTransport,
    refuse_unreadable,
)
from finclaw.finance.market_data.plausible import PriceReading
from finclaw.finance.market_data.source import SourceClient
from finclaw.redaction import hide_and_cut

Number = str | int | float | None
"""A figure as JSON has it. Some vendors write texts, some numbers, and some change their mind."""
Prices = tuple[Decimal, Decimal, Decimal, Decimal]
"""Open, high, low and close."""

_NUMBER: Final = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d{1,18})(\.\d{1,20})?([eE][+-]?\d{1,2})?")
_TOO_LARGE: Final = Decimal("1e15")
"""No price or volume reaches it. Twelve digits more are within the precision of decimals."""


def read_each(
    source: str, asked: Mapping[str, Instrument], read: Callable[[str, Instrument], PriceReading]
) -> dict[str, PriceReading | DataError]:
    """Read the part of an answer for each vendor symbol. One that cannot be read leaves the others."""
    answers: dict[str, PriceReading | DataError] = {}
    for code, instrument in asked.items():
        try:
            with refuse_unreadable(source):
                answers[instrument.symbol] = read(code, instrument)
        except DataError as error:
            answers[instrument.symbol] = error
    return answers


async def ask_each(
    source: str, instruments: Sequence[Instrument], ask: Callable[[Instrument], Awaitable[PriceReading]]
) -> dict[str, PriceReading | DataError]:
    """Ask for all instruments at once. An error that is about one of them leaves the others."""

    async def ask_one(instrument: Instrument) -> PriceReading | DataError:
        try:
            with refuse_unreadable(source):
                return await ask(instrument)
        except (DataTransport, DataRateLimited, DataAuthExpired):
            raise
        except DataError as error:
            return error

    answers = await asyncio.gather(*map(ask_one, instruments))
    return {each.symbol: answer for each, answer in zip(instruments, answers, strict=True)}


def read_number(value: Number, source: str, what: str) -> Decimal:
    """Raises DataMalformed."""
    text = str(value).strip()
    if value is None or isinstance(value, bool) or not _NUMBER.fullmatch(text):
        raise DataMalformed(f"{source} gave {hide_and_cut(text, 40)!r} as {what}", source=source)
    number = Decimal(text.replace(",", ""))
    if abs(number) >= _TOO_LARGE:
        raise DataMalformed(f"{source} gave {hide_and_cut(text, 40)!r} as {what}", source=source)
    return trim(number)


def trim(value: Decimal, digits: int = 12) -> Decimal:
    """A price without the noise of a float and without zeros behind the point: 100600.0 is 100600."""
    rounded = round(value, digits)
    whole = rounded.to_integral_value()
    if rounded == whole:
        return Decimal(int(whole))
    return Decimal(f"{rounded:f}".rstrip("0"))


def read_optional(value: Number, source: str, what: str) -> Decimal | None:
    """None for what is left out, and for the zero that stands for a day without a trade."""
    if value in (None, "", "-", "N/A", "."):
        return None
    return read_number(value, source, what) or None


def read_prices(values: Iterable[Number], source: str, what: str = "a price of a bar") -> Prices:
    """The open, high, low and close of a bar."""
    opened, high, low, close = (read_number(each, source, what) for each in values)
    return opened, high, low, close


def read_day(text: str, source: str, form: str = "%Y%m%d") -> date:
    """Raises DataMalformed."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).date()
    except ValueError as error:
        raise DataMalformed(f"{source} gave {hide_and_cut(text, 20)!r} as a day", source=source) from error


def read_time(text: str, source: str) -> datetime:
    """An ISO time with its offset. Raises DataMalformed."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise DataMalformed(f"{source} gave a time without its zone, {hide_and_cut(text, 40)!r}", source=source)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DataMalformed(f"{source} gave {hide_and_cut(text, 40)!r} as a time", source=source) from error


def read_epoch(value: float, source: str) -> datetime:
    """Seconds since 1970. Raises DataMalformed."""
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise DataMalformed(f"{source} gave {value} as a time", source=source) from error


def make_bar(day: date, starts: datetime, ends: datetime, prices: Prices, volume: int) -> Bar:
    opened, high, low, close = prices
    return Bar(day=day, starts=starts, ends=ends, open=opened, high=high, low=low, close=close, volume=volume)


def make_day_bar(client: SourceClient, instrument: Instrument, day: date, prices: Prices, volume: int) -> Bar | None:
    """A bar of one session by our own calendar; None for a day on which there was none."""
    session = client.calendar.session_on(instrument.exchange, day)
    if session is None:
        return None
    ends = min(max(client.now(), session.opens), session.closes)
    return make_bar(day, session.opens, ends, prices, volume)


def make_coin_bar(
    client: SourceClient, starts: datetime, step: timedelta, prices: Prices, volume: int, zone: tzinfo = UTC
) -> Bar:
    """A bar of a market that never rests; `zone` is the one whose days its source counts."""
    ends = min(starts + step, max(client.now(), starts))
    return make_bar(starts.astimezone(zone).date(), starts, ends, prices, volume)


def merge_bars(bars: Iterable[Bar], minutes: int, opens: datetime) -> Iterator[Bar]:
    """Longer bars of shorter ones, counted from the open of the session."""

    def number(bar: Bar) -> int:
        return int((bar.starts - opens).total_seconds() // (minutes * 60))

    for place, group in groupby(sorted(bars, key=lambda each: each.starts), key=number):
        yield join_bars(list(group), opens + timedelta(minutes=place * minutes))
