"""The port to a source of prices, and what it gives: quotes and bars."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, Protocol

from msgspec import Struct

from finclaw.finance.instrument import Instrument, InstrumentIndex
from finclaw.kernel.calendar import Opening

DEMO_SOURCE = "demo market"
"""The source of made-up prices. Replies with figures of it are labelled."""

Phase = Literal["regular", "closed", "pre", "after", "continuous"]
"""Of the trading day. A market that never rests is `continuous`."""


class ExtendedPrice(Struct, frozen=True, kw_only=True):
    """A price before or after the regular session. It is told beside the regular one, against today's close."""

    price: Decimal
    phase: Literal["pre", "after"]
    venue: str  # empty where the source does not say it
    as_of: datetime


class Quote(Struct, frozen=True, kw_only=True):
    """A price in the instrument's currency; outside trading hours the last close, with its time.

    `previous_close` is that of the session before the price's own; on the day of a split or of rights, the base price.
    """

    instrument: Instrument
    price: Decimal
    previous_close: Decimal
    volume: int
    as_of: datetime
    opening: Opening
    source: str
    venue: str = ""
    phase: Phase = "regular"
    close: Decimal | None = None
    extended: ExtendedPrice | None = None
    day_basis: str = ""  # of a coin: since when its change is counted, as `09:00 KST`
    fixing: date | None = None  # of a rate that a bank fixes once a day: that day
    delay: int = 0
    is_confirmed: bool = True
    """False for a move so large that a second source should have agreed, and none did."""
    stale: bool = False
    failed: tuple[str, ...] = ()
    """Sources that were to answer before this one, each with what it did instead."""

    @property
    def change(self) -> Decimal:
        return self.price - self.previous_close

    @property
    def change_percent(self) -> Decimal:
        return percent(self.change, self.previous_close)

    @property
    def extended_change_percent(self) -> Decimal:
        """Of the price before or after the session, against the close; zero without one."""
        if self.extended is None:
            return Decimal(0)
        return percent(self.extended.price - self.price, self.price)

    @property
    def source_label(self) -> str:
        """The source with what a reader of its figures must know: late, old, or nobody's word but its own."""
        notes = {
            f"fixing of {self.fixing}": self.fixing,
            f"change since {self.day_basis}": self.day_basis,
            f"delayed {self.delay} min": self.delay,
            "unconfirmed": not self.is_confirmed,
            "stale": self.stale,
        }
        holding = [note for note, holds in notes.items() if holds]
        if not holding:
            return self.source
        return f"{self.source} ({', '.join(holding)})"


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


def join_bars(bars: Sequence[Bar], starts: datetime) -> Bar:
    return Bar(
        day=bars[0].day,
        starts=starts,
        ends=bars[-1].ends,
        open=bars[0].open,
        high=max(bar.high for bar in bars),
        low=min(bar.low for bar in bars),
        close=bars[-1].close,
        volume=sum(bar.volume for bar in bars),
    )


class Closes(Struct, frozen=True):
    prices: tuple[tuple[datetime, Decimal], ...]
    source: str


def percent(change: Decimal, base: Decimal) -> Decimal:
    return (change / base * 100).quantize(Decimal("0.01"))


class Market(Protocol):
    """A source of prices. Methods raise ToolError when there is no price to be had."""

    @property
    def source(self) -> str: ...
    @property
    def instruments(self) -> InstrumentIndex: ...
    def now(self) -> datetime: ...
    async def quote(self, symbol: str) -> Quote: ...
    # The last price of every session from that day on, the running one included, oldest first.
    async def closes(self, symbol: str, since: date) -> Closes: ...
    # The last so many sessions, oldest first.
    async def daily(self, symbol: str, sessions: int) -> tuple[Bar, ...]: ...
    # The running or last session in bars of so many minutes, oldest first.
    async def intraday(self, symbol: str, minutes: int) -> tuple[Bar, ...]: ...
