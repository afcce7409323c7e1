"""The port to a source of prices, and what it gives: quotes and bars."""

from datetime import date, datetime
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from finclaw.finance.instrument import Instrument, Instruments
from finclaw.kernel.calendar import Opening

DEMO_SOURCE = "demo market"
"""The source of made-up prices. Replies with figures of it are labelled."""


class Quote(Struct, frozen=True, kw_only=True):
    """One price in the instrument's currency, with the close of the session before it.

    Outside trading hours the price stands still: it is the last close, and `as_of` is when that was.
    """

    instrument: Instrument
    price: Decimal
    previous_close: Decimal
    volume: int
    as_of: datetime
    opening: Opening
    source: str

    @property
    def change(self) -> Decimal:
        return self.price - self.previous_close

    @property
    def change_percent(self) -> Decimal:
        return percent(self.change, self.previous_close)


class Bar(Struct, frozen=True, kw_only=True):
    """A bar: what happened to a price in one piece of time. `ends` is the last minute that is in it."""

    day: date
    starts: datetime
    ends: datetime
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: int


def percent(change: Decimal, base: Decimal) -> Decimal:
    return (change / base * 100).quantize(Decimal("0.01"))


class Market(Protocol):
    """A source of prices.

    The caller that opens it closes it. Methods raise ToolError when there is no price to be had.
    """

    @property
    def source(self) -> str:
        """The name under which its figures are shown."""
        ...

    @property
    def instruments(self) -> Instruments: ...

    def now(self) -> datetime: ...

    async def quote(self, symbol: str) -> Quote:
        """The latest price of an exact symbol."""
        ...

    async def close_before(self, symbol: str, day: date) -> tuple[datetime, Decimal]:
        """The close of the last session before that day of the venue's calendar, and when it was."""
        ...

    async def closes(self, symbol: str, since: date) -> tuple[tuple[datetime, Decimal], ...]:
        """The last price of every session from that day on, the running one included, oldest first."""
        ...

    async def daily(self, symbol: str, sessions: int) -> tuple[Bar, ...]:
        """The last so many sessions, oldest first."""
        ...

    async def intraday(self, symbol: str, minutes: int) -> tuple[Bar, ...]:
        """The running or last session in bars of so many minutes, oldest first."""
        ...
