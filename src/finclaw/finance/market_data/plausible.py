"""Plausibility checks: what cannot be right is refused; what would be rare needs a second source."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice, pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, ExtendedPrice, Quote
from finclaw.finance.market_data.errors import DataEmpty, DataError, DataImplausible, DataMalformed, DataStale
from finclaw.finance.market_data.port import BarRange, BarSeries
from finclaw.kernel.calendar import Calendar, Session

_AHEAD: Final = timedelta(minutes=2)
_LATE_START: Final = timedelta(minutes=30)
"""What is seldom traded may have no price of today so soon after the open; then that of the session before holds."""
_OLDEST_COIN: Final = timedelta(hours=1)
_OLDEST_RATE: Final = timedelta(days=4)
_OLDEST_FIXING: Final = timedelta(days=8)
_RARE: Final = Decimal("0.30")
_LEVERAGED: Final = Decimal("0.60")
"""Korean funds that follow twice their index may move twice as far."""
_LONGEST_DELAY: Final = 1_440
_MOST_VOLUME: Final = 10**15
_ROUNDING: Final = Decimal("0.005")
_CENTS: Final = Decimal("0.01")
_JUMP: Final = 5
"""From one bar to the next a price is at most so many times itself: more is a change of unit, or a split left out."""
_SAME_UNIT: Final = Decimal("0.50")
_RECENT: Final = timedelta(days=10)
_AGREE: Final = Decimal("0.02")
"""How near two sources are when they mean the same price; one of them may be twenty minutes behind."""
_RATES: Final = {
    "USD/KRW": (500, 3_000),
    "USD/JPY": (50, 400),
    "EUR/USD": (Decimal("0.5"), 2),
    "GBP/USD": (Decimal("0.7"), 3),
    "JPY/KRW": (3, 30),
    "EUR/KRW": (600, 4_000),
}
"""Where a rate has been for decades with room to spare: one for 100 units, or upside down, is not in it."""


class PriceReading(Struct, frozen=True, kw_only=True):
    """A source's word about a price, not yet believed. Fields that it leaves open are None."""

    instrument: Instrument
    price: Decimal
    currency: str
    as_of: datetime
    previous_close: Decimal | None
    low: Decimal | None = None
    high: Decimal | None = None
    volume: int = 0
    venue: str = ""
    delay: int = 0
    fixing: date | None = None
    extended: ExtendedPrice | None = None
    slack: timedelta = timedelta(minutes=15)
    """How long after the close the source still stamps what was the last price of the session."""
    source: str = ""  # this and the next are filled in where the source was asked
    day_basis: str = ""


PriceAnswer = PriceReading | DataError
"""What a source gives for one of several instruments."""


def check_reading(reading: PriceReading, calendar: Calendar, now: datetime) -> None:
    """Raises DataImplausible or DataStale, or DataMalformed where a price has nothing to be compared with."""
    instrument = reading.instrument
    price = reading.price
    name = f"'s price of {instrument.symbol}"
    if not price.is_finite() or price <= 0:
        raise DataImplausible(f"{name} is {price}, which is no price")
    before = reading.previous_close
    if before is None:
        raise DataMalformed(f"{name} came without the close before it")
    if not before.is_finite() or before <= 0:
        raise DataImplausible(f"'s previous close of {instrument.symbol} is {before}")
    if instrument.kind != "index" and reading.currency != instrument.currency:
        raise DataImplausible(f"{name} is in {reading.currency}, not in {instrument.currency}")
    if reading.low is not None and reading.high is not None and not reading.low <= price <= reading.high:
        raise DataImplausible(f"{name}, {price}, is outside of the day's {reading.low} to {reading.high}")
    if not 0 <= reading.delay <= _LONGEST_DELAY or not 0 <= reading.volume < _MOST_VOLUME:
        raise DataMalformed(f"{name} came with a delay or a volume that cannot be right")
    least, most = _RATES.get(instrument.symbol, (0, price))
    if instrument.kind == "rate" and not least <= price <= most:
        raise DataImplausible(f"{name}, {price}, is not one of one unit")
    _check_time(reading, calendar, now)


def is_rare(reading: PriceReading, last_accepted: Decimal | None) -> bool:
    limit = _RARE
    if (reading.instrument.exchange, reading.instrument.kind) == ("KRX", "etf"):
        limit = _LEVERAGED
    bases = (reading.previous_close, last_accepted)
    return any(base is not None and abs(reading.price / base - 1) > limit + _ROUNDING for base in bases)


def has_price_limit(instrument: Instrument) -> bool:
    """Whether the exchange forbids a rare move. Its exceptions, such as a first day or a split, need two sources."""
    return instrument.exchange == "KRX" and instrument.kind in ("stock", "etf")


def has_known_range(instrument: Instrument) -> bool:
    """Whether it is known where its price can be at all, so that a first one needs no second source."""
    return instrument.kind == "rate" and instrument.symbol in _RATES


def agree(one: Decimal, other: Decimal) -> bool:
    return abs(one / other - 1) <= _AGREE


def accept_reading(
    reading: PriceReading, calendar: Calendar, now: datetime, *, is_confirmed: bool = True, failed: tuple[str, ...] = ()
) -> Quote:
    instrument = reading.instrument
    session = _session_of(reading, calendar, now)
    opening = calendar.opening(instrument.exchange, now)
    price = pad_price(reading.price, instrument)
    quote = Quote(
        instrument=instrument,
        price=price,
        previous_close=pad_price(reading.previous_close or price, instrument),
        volume=reading.volume,
        as_of=min(reading.as_of, now),
        opening=opening,
        source=reading.source,
        venue=reading.venue or instrument.exchange,
        day_basis=reading.day_basis,
        fixing=reading.fixing,
        delay=reading.delay,
        is_confirmed=is_confirmed,
        failed=failed,
    )
    if instrument.kind == "coin":
        return replace(quote, phase="continuous")
    if instrument.kind == "rate":  # a bank's fixing is of a day that is over, while currencies are traded on
        return quote if opening.is_open else replace(quote, phase="closed")
    if session is None:
        return replace(quote, phase="closed")
    if now < session.closes:
        return quote
    # A stamp that comes after the close belongs to the close.
    quote = replace(quote, phase="closed", close=price, as_of=min(reading.as_of, session.closes))
    # The last price of a session is no longer late once the source has had time to tell it.
    if now - session.closes > timedelta(minutes=reading.delay):
        quote = replace(quote, delay=0)
    # Before the session is over, what a source calls after-market is of another day.
    if reading.extended is not None and _is_believable(reading.extended, quote, session, now):
        quote = replace(quote, extended=reading.extended)
    return quote


def pad_price(price: Decimal, instrument: Instrument) -> Decimal:
    """The price as people write it: with two digits behind the point at least, but for won and yen."""
    is_whole_money = instrument.currency in ("KRW", "JPY") and instrument.kind not in ("index", "rate")
    exponent = price.as_tuple().exponent
    if is_whole_money or not isinstance(exponent, int) or exponent <= -2:
        return price
    return price.quantize(_CENTS)


def check_bars(bars: tuple[Bar, ...], symbol: str) -> tuple[Bar, ...]:
    """The bars in order, without days on which nothing was traded. Raises DataImplausible for one that cannot be."""
    kept: list[Bar] = []
    for bar in sorted(bars, key=lambda each: each.starts):
        if not bar.close.is_finite() or bar.close <= 0:
            raise DataImplausible(f"has a close of {bar.close} for {symbol} on {bar.day}")
        if not 0 <= bar.volume < _MOST_VOLUME:
            raise DataMalformed(f"has a volume for {symbol} on {bar.day} that cannot be right")
        if bar.volume == 0 and 0 in (bar.open, bar.high, bar.low):
            continue  # a day without a trade: the close is carried over, the rest is zero
        if not 0 < bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high:
            raise DataImplausible(f"'s bar of {symbol} on {bar.day} has a high below its low")
        if kept and kept[-1].starts == bar.starts:
            raise DataMalformed(f"has two bars of {symbol} for {bar.day}")
        kept.append(bar)
    return tuple(kept)


def check_series(series: BarSeries, span: BarRange, last_price: Decimal | None, now: datetime) -> BarSeries:
    symbol = series.instrument.symbol
    asked = tuple(bar for bar in series.bars if span.first <= bar.day <= span.last)
    if any(bar.starts > now for bar in asked):
        raise DataImplausible(f"has a bar of {symbol} that lies ahead")
    bars = check_bars(asked, symbol)
    if not bars:
        raise DataEmpty(f"has no bars of {symbol} for that time")
    for before, after in pairwise(bars):
        if not before.close < after.close * _JUMP or not after.close < before.close * _JUMP:
            raise DataImplausible(f"'s bars of {symbol} jump on {after.day}")
    latest = bars[-1]
    if last_price is not None and now - latest.ends < _RECENT and abs(latest.close / last_price - 1) > _SAME_UNIT:
        raise DataImplausible(f"'s bars of {symbol} are far from its last price")
    return replace(series, bars=tuple(_pad_bar(bar, series.instrument) for bar in bars))


def _pad_bar(bar: Bar, instrument: Instrument) -> Bar:
    opened, high, low, close = (pad_price(each, instrument) for each in (bar.open, bar.high, bar.low, bar.close))
    return replace(bar, open=opened, high=high, low=low, close=close)


def _check_time(reading: PriceReading, calendar: Calendar, now: datetime) -> None:
    instrument = reading.instrument
    if reading.fixing is not None:
        fixing = f"'s fixing of {instrument.symbol} is of {reading.fixing}"
        # One source dates what it publishes in the evening with the next day.
        if reading.fixing > (now + timedelta(days=1)).date():
            raise DataImplausible(f"{fixing}, which is ahead")
        if reading.fixing < (now - _OLDEST_FIXING).date():
            raise DataStale(fixing)
        return
    price = f"'s price of {instrument.symbol} is of {reading.as_of}"
    if reading.as_of > now + _AHEAD:
        raise DataImplausible(f"{price}, which is ahead")
    oldest = {"coin": _OLDEST_COIN, "rate": _OLDEST_RATE}.get(instrument.kind)
    if oldest is not None:
        if reading.as_of < now - oldest:
            raise DataStale(price)
        return
    latest, before = _last_two(calendar, instrument, now)
    if reading.as_of < before.opens - reading.slack:
        raise DataStale(f"{price}, two sessions ago")
    session = _session_of(reading, calendar, now)
    if session is None:
        raise DataImplausible(f"{price}, when {instrument.exchange} was closed")
    waited = now - latest.opens - timedelta(minutes=reading.delay)
    if session == before and waited > _LATE_START:
        raise DataStale(f"'s price of {instrument.symbol} is of the session before, {reading.as_of}")


def _session_of(reading: PriceReading, calendar: Calendar, now: datetime) -> Session | None:
    """The session that the price belongs to; None for a time at which nothing was traded."""
    for session in _last_two(calendar, reading.instrument, now):
        if session.opens <= reading.as_of <= session.closes + reading.slack:
            return session
    return None


def _last_two(calendar: Calendar, instrument: Instrument, now: datetime) -> Iterator[Session]:
    return islice(calendar.sessions_before(instrument.exchange, now), 2)


def _is_believable(extended: ExtendedPrice, quote: Quote, session: Session, now: datetime) -> bool:
    """Funds are not traded after hours in Korea; elsewhere the same limits hold as for the regular price."""
    traded = {"KRX": ("stock",), "NYSE": ("stock", "etf"), "NASDAQ": ("stock", "etf")}
    if quote.instrument.kind not in traded.get(quote.instrument.exchange, ()):
        return False
    is_price = extended.price.is_finite() and extended.price > 0
    is_timely = session.closes <= extended.as_of <= now + _AHEAD
    return is_price and is_timely and abs(extended.price / quote.price - 1) <= _RARE + _ROUNDING
