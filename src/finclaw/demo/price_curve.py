"""Price curves of the demo market: prices and volumes as pure functions of seed, instrument and minute.

Whole numbers until the last step, so that every machine, in any order of asking, sees the same market.
"""

from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b

from finclaw.demo.listings import Listing
from finclaw.finance.venue import to_tick
from finclaw.kernel.calendar import Session

_WAVES = (
    (259_200, 90_000),
    (43_200, 60_000),
    (7_200, 40_000),
    (1_440, 22_000),
    (240, 9_000),
    (30, 3_000),
    (1, 500),
)
"""Length in minutes and greatest height in millionths: half a year's trend down to the flicker of a minute."""

_MILLION = 1_000_000


def demo_price(seed: int, listing: Listing, minute: datetime) -> Decimal:
    """The price of that minute."""
    return _price(listing, _drift(seed, listing.instrument.symbol, _minutes(minute)))


@lru_cache(maxsize=1_024)
def demo_range(seed: int, listing: Listing, first: datetime, last: datetime) -> tuple[Decimal, Decimal]:
    """The lowest and the highest price of all minutes from `first` to `last`, both included."""
    symbol = listing.instrument.symbol
    drifts = [_drift(seed, symbol, at) for at in range(_minutes(first), _minutes(last) + 1)]
    return _price(listing, min(drifts)), _price(listing, max(drifts))


def demo_volume(seed: int, listing: Listing, session: Session, until: datetime) -> int:
    """Pieces traded since the session opened: a day's worth by its close, more at its ends than at noon."""
    if not listing.volume:
        return 0
    name = f"{seed}:{listing.instrument.symbol}:volume"
    day = listing.volume * (_MILLION + _random(name, session.day.toordinal()) // 2) // _MILLION
    length = _minutes(session.closes) - _minutes(session.opens)
    into = min(max(_minutes(until) - _minutes(session.opens), 0), length)
    # x + x(1-x)(1-2x)/2 never falls, and rises twice as fast at the ends as in the middle.
    bent = into * (length - into) * (length - 2 * into)
    return day * (2 * into * length**2 + bent) // (2 * length**3)


def _price(listing: Listing, drift: int) -> Decimal:
    price = listing.base * (_MILLION + drift * listing.swing // 100) / _MILLION
    return to_tick(listing.instrument.exchange, price, listing.instrument.kind)


def _drift(seed: int, symbol: str, at: int) -> int:
    waves = _named_waves(seed, symbol)
    return sum(height * _wave(name, length, at) // _MILLION for name, length, height in waves)


@lru_cache(maxsize=256)
def _named_waves(seed: int, symbol: str) -> tuple[tuple[str, int, int], ...]:
    return tuple((f"{seed}:{symbol}:{length}", length, height) for length, height in _WAVES)


def _minutes(moment: datetime) -> int:
    return int(moment.timestamp()) // 60


def _wave(name: str, length: int, at: int) -> int:
    """Between minus and plus one million: random at every multiple of `length`, smooth on the way to the next."""
    knot, into = divmod(at, length)
    before = _random(name, knot)
    if not into:
        return before
    return before + (_random(name, knot + 1) - before) * into * into * (3 * length - 2 * into) // length**3


@lru_cache(maxsize=8_192)
def _random(name: str, knot: int) -> int:
    digest = blake2b(f"{name}:{knot}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (2 * _MILLION + 1) - _MILLION
