"""Readers of figures and times in vendors' answers. What is not plainly a number is malformed, and never a zero."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from itertools import groupby
from typing import Final

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, join_bars
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.plausible import PriceAnswer, PriceReading
from finclaw.finance.market_data.source import SourceClient
from finclaw.redaction import hide_and_cut

Number = str | int | float | None
"""A figure as JSON has it. Some vendors write texts, some numbers, and some change their mind."""
Prices = Iterable[Number | Decimal]  # open, high, low and close of a bar

BROWSER: Final = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36",
    "Accept": "application/json",
}
"""Headers for sources that serve their own pages."""
DIRECTIONS: Final = {"1": 1, "2": 1, "3": 0, "4": -1, "5": -1}
"""Signs by the Korean codes of a change: upper limit, up, unchanged, lower limit, down."""

_NUMBER: Final = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d{1,18})(\.\d{1,20})?([eE][+-]?\d{1,2})?")
_TOO_LARGE: Final = Decimal("1e15")
"""No price or volume reaches it. Twelve digits more are within the precision of decimals."""


def read_each(
    asked: Mapping[str, Instrument], read: Callable[[str, Instrument], PriceReading]
) -> dict[str, PriceAnswer]:
    """Read the part of an answer for each vendor symbol. One that cannot be read leaves the others."""
    answers: dict[str, PriceAnswer] = {}
    for code, instrument in asked.items():
        try:
            with errors.refuse_unreadable():
                answers[instrument.symbol] = read(code, instrument)
        except errors.DataError as error:
            answers[instrument.symbol] = error
    return answers


def read_number(value: Number | Decimal, what: str) -> Decimal:
    text = str(value).strip()
    is_number = value is not None and not isinstance(value, bool) and _NUMBER.fullmatch(text)
    if not is_number or abs(number := Decimal(text.replace(",", ""))) >= _TOO_LARGE:
        raise errors.DataMalformed(f"gave {hide_and_cut(text, 40)!r} as {what}")
    return trim(number)


def read_volume(value: Number) -> int:
    return int(read_number(value, "a volume"))


def trim(value: Decimal, digits: int = 12) -> Decimal:
    """A price without the noise of a float and without zeros behind the point: 100600.0 is 100600."""
    rounded = round(value, digits)
    whole = rounded.to_integral_value()
    if rounded == whole:
        return Decimal(int(whole))
    return Decimal(f"{rounded:f}".rstrip("0"))


def read_optional(value: Number, what: str) -> Decimal | None:
    """None for what is left out, and for the zero that stands for a day without a trade."""
    if value in (None, "", "-", "N/A", "."):
        return None
    return read_number(value, what) or None


def read_day(text: str, form: str = "%Y%m%d") -> date:
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).date()
    except ValueError as error:
        raise errors.DataMalformed(f"gave {hide_and_cut(text, 20)!r} as a day") from error


def read_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise errors.DataMalformed(f"gave a time without its zone, {hide_and_cut(text, 40)!r}")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise errors.DataMalformed(f"gave {hide_and_cut(text, 40)!r} as a time") from error


def read_epoch(value: float) -> datetime:
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise errors.DataMalformed(f"gave {value} as a time") from error


def make_bar(day: date, starts: datetime, ends: datetime, prices: Prices, volume: Number) -> Bar:
    opened, high, low, close = (read_number(each, "a price of a bar") for each in prices)
    pieces = read_volume(volume)
    return Bar(day=day, starts=starts, ends=ends, open=opened, high=high, low=low, close=close, volume=pieces)


def make_day_bars(client: SourceClient, instrument: Instrument, day: date, prices: Prices, volume: Number) -> list[Bar]:
    """The bar of one session by our own calendar; none for a day on which there was no session."""
    session = client.calendar.session_on(instrument.exchange, day)
    if session is None:
        return []
    ends = min(max(client.now(), session.opens), session.closes)
    return [make_bar(day, session.opens, ends, prices, volume)]


def make_coin_bar(
    client: SourceClient, starts: datetime, step: timedelta, prices: Prices, volume: Number, zone: tzinfo = UTC
) -> Bar:
    """A bar of a market that never rests; `zone` is the one whose days its source counts."""
    ends = min(starts + step, max(client.now(), starts))
    return make_bar(starts.astimezone(zone).date(), starts, ends, prices, volume)


def merge_bars(bars: Iterable[Bar], minutes: int, opens: datetime) -> list[Bar]:
    step = timedelta(minutes=minutes)
    in_order = sorted(bars, key=lambda each: each.starts)
    groups = groupby(in_order, key=lambda each: (each.starts - opens) // step)
    return [join_bars(list(group), opens + number * step) for number, group in groups]
