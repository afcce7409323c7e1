"""Where prices come from. The demo market makes them up, the same ones for the same seed and minute, and says so."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Protocol

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument, Instruments
from finclaw.finance.listings import DEMO_LISTINGS, Listing
from finclaw.finance.tick import to_tick
from finclaw.kernel.port import Clock

DEMO_SOURCE = "demo market"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One price in the instrument's currency, with the last price of the day before it."""

    instrument: Instrument
    price: Decimal
    previous_close: Decimal
    as_of: datetime
    source: str

    @property
    def change(self) -> Decimal:
        return self.price - self.previous_close

    @property
    def change_percent(self) -> Decimal:
        return (self.change / self.previous_close * 100).quantize(Decimal("0.01"))


class Market(Protocol):
    """A source of prices. Who opens it closes it."""

    @property
    def source(self) -> str:
        """The name under which its figures are shown."""
        ...

    @property
    def instruments(self) -> Instruments: ...

    async def quote(self, symbol: str) -> Quote:
        """The latest price of an exact symbol. Raises ToolError when there is none to be had."""
        ...


class DemoMarket:
    """It never closes, and its day ends at midnight UTC: when Seoul opens and New York has closed."""

    def __init__(self, clock: Clock, *, seed: int = 0, listings: Iterable[Listing] = DEMO_LISTINGS) -> None:
        self._clock = clock
        self._seed = seed
        self._listings = {listing.instrument.symbol: listing for listing in listings}
        self._instruments = Instruments(listing.instrument for listing in self._listings.values())

    @property
    def source(self) -> str:
        return DEMO_SOURCE

    @property
    def instruments(self) -> Instruments:
        return self._instruments

    async def quote(self, symbol: str) -> Quote:
        listing = self._listings.get(symbol)
        if listing is None:
            raise ToolError(f"The demo market has no price for {symbol!r}. Ask for another instrument.")
        minute = self._clock.now().astimezone(UTC).replace(second=0, microsecond=0)
        midnight = minute.replace(hour=0, minute=0)
        return Quote(
            instrument=listing.instrument,
            price=demo_price(self._seed, listing, minute),
            previous_close=demo_price(self._seed, listing, midnight - timedelta(minutes=1)),
            as_of=minute,
            source=DEMO_SOURCE,
        )


_WAVES = ((43_200, 90_000), (7_200, 40_000), (1_440, 22_000), (240, 9_000), (30, 3_000), (1, 500))
"""Length in minutes and greatest height in millionths: a month's trend down to the flicker of a minute."""

_MILLION = 1_000_000


def demo_price(seed: int, listing: Listing, minute: datetime) -> Decimal:
    """The price of that minute, on any machine and in any order of asking: whole numbers only until the last step."""
    at = int(minute.timestamp()) // 60
    symbol = listing.instrument.symbol
    drift = sum(height * _wave(f"{seed}:{symbol}:{length}", length, at) // _MILLION for length, height in _WAVES)
    price = listing.base * (_MILLION + drift * listing.swing // 100) / _MILLION
    return to_tick(listing.instrument.exchange, price)


def _wave(name: str, length: int, at: int) -> int:
    """Between minus and plus one million: random at every multiple of `length`, smooth on the way to the next."""
    knot, into = divmod(at, length)
    before, after = _random(name, knot), _random(name, knot + 1)
    return before + (after - before) * into * into * (3 * length - 2 * into) // length**3


def _random(name: str, knot: int) -> int:
    digest = blake2b(f"{name}:{knot}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (2 * _MILLION + 1) - _MILLION
