"""The demo market: the same for the same seed and minute, on legal steps, still when its venue is closed."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.demo.listings import DEMO_LISTINGS, Listing
from finclaw.demo.market import DemoMarket
from finclaw.demo.price_curve import demo_price, demo_range, demo_volume
from finclaw.errors import ToolError
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.market import Market
from finclaw.finance.venue import VENUES, tick_size
from finclaw.kernel.port import Clock

LISTINGS = st.sampled_from(DEMO_LISTINGS)
BY_SYMBOL = {listing.instrument.symbol: listing for listing in DEMO_LISTINGS}
SYMBOLS = st.sampled_from(sorted(BY_SYMBOL))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTES = st.integers(0, 60_000_000).map(lambda minutes: EPOCH + timedelta(minutes=minutes))
TRADED = st.integers(0, 3 * 365 * 1_440).map(lambda each: datetime(2025, 6, 1, tzinfo=UTC) + timedelta(minutes=each))


class At:
    """A clock that stands."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@given(LISTINGS, MINUTES, st.integers())
def test_the_price_is_a_pure_function_on_a_legal_step(listing: Listing, minute: datetime, seed: int):
    price = demo_price(seed, listing, minute)
    assert price == demo_price(seed, listing, minute.replace(second=59))
    assert price % tick_size(listing.instrument.exchange, price, listing.instrument.kind) == 0
    assert listing.base / 2 < price < listing.base * 2


@given(LISTINGS, MINUTES, st.integers())
def test_no_minute_and_no_day_moves_more_than_an_exchange_allows(listing: Listing, minute: datetime, seed: int):
    price = demo_price(seed, listing, minute)
    step = tick_size(listing.instrument.exchange, price * 2, listing.instrument.kind)
    assert abs(demo_price(seed, listing, minute + timedelta(minutes=1)) - price) <= price * Decimal("0.02") + step
    if listing.instrument.exchange == "KRX":
        assert abs(demo_price(seed, listing, minute + timedelta(days=1)) - price) <= price * Decimal("0.30")


def test_the_market_is_the_same_on_every_machine():
    moment = datetime(2026, 11, 16, 5, 32, tzinfo=UTC)
    assert demo_price(0, BY_SYMBOL["005930"], moment) == Decimal("75400")
    assert demo_price(0, BY_SYMBOL["USD/KRW"], moment) == Decimal("1362.20")
    assert demo_price(1, BY_SYMBOL["AAPL"], moment) != demo_price(0, BY_SYMBOL["AAPL"], moment)


def test_it_moves():
    minutes = [datetime(2026, 11, 16, tzinfo=UTC) + timedelta(minutes=each) for each in range(0, 1_440, 10)]
    for listing in DEMO_LISTINGS:
        assert len({demo_price(0, listing, minute) for minute in minutes}) > 5


@pytest.mark.parametrize(
    ("symbol", "now", "as_of", "is_open"),
    [
        ("005930", "2026-11-16T05:32", "2026-11-16T05:32", True),
        ("005930", "2026-11-16T06:31", "2026-11-16T06:30", False),  # after Monday's close
        ("005930", "2026-11-15T12:00", "2026-11-13T06:30", False),  # on Sunday
        ("AAPL", "2026-11-16T05:32", "2026-11-13T21:00", False),
        ("AAPL", "2026-07-06T13:31", "2026-07-06T13:31", True),  # summer: an hour earlier in UTC
        ("AAPL", "2026-11-27T18:01", "2026-11-27T18:00", False),  # the half day after Thanksgiving
        ("BTC-USD", "2026-11-15T12:00", "2026-11-15T12:00", True),
        ("USD/KRW", "2026-11-15T12:00", "2026-11-13T22:00", False),
        ("USD/KRW", "2026-11-15T22:00", "2026-11-15T22:00", True),  # Sunday, five in the afternoon in New York
    ],
)
async def test_prices_stand_still_while_the_venue_is_closed(symbol: str, now: str, as_of: str, is_open: bool):
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    quote = await DemoMarket(At(moment)).quote(symbol)
    assert quote.as_of == datetime.fromisoformat(as_of).replace(tzinfo=UTC)
    assert quote.price == demo_price(0, BY_SYMBOL[symbol], quote.as_of)
    assert quote.opening.is_open is is_open


async def test_a_quote_compares_with_the_session_before(clock: Clock):
    market: Market = DemoMarket(clock, seed=7)
    quote = await market.quote("AAPL")
    assert quote.previous_close == demo_price(7, BY_SYMBOL["AAPL"], datetime(2026, 11, 12, 21, 0, tzinfo=UTC))
    assert quote.change == quote.price - quote.previous_close
    assert abs(quote.change_percent - quote.change / quote.previous_close * 100) <= Decimal("0.005")
    assert quote.source == "demo market"


@settings(max_examples=examples(25), deadline=None)
@given(SYMBOLS, TRADED)
async def test_bars_hold_what_was_quoted(symbol: str, moment: datetime):
    market = DemoMarket(At(moment))
    quote = await market.quote(symbol)
    bars = await market.intraday(symbol, 30)
    (day,) = await market.daily(symbol, 1)
    assert (bars[-1].close, bars[-1].ends) == (quote.price, quote.as_of)
    assert (day.close, day.open) == (quote.price, bars[0].open)
    assert day.low == min(bar.low for bar in bars) <= quote.price <= max(bar.high for bar in bars) == day.high
    assert day.volume == sum(bar.volume for bar in bars) == quote.volume
    for bar in bars:
        assert bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high
    assert all(one.ends == two.starts for one, two in pairwise(bars))


def test_the_range_is_that_of_all_its_minutes():
    listing, first = BY_SYMBOL["TSLA"], datetime(2026, 11, 13, 14, 30, tzinfo=UTC)
    prices = [demo_price(0, listing, first + timedelta(minutes=each)) for each in range(61)]
    assert demo_range(0, listing, first, first + timedelta(minutes=60)) == (min(prices), max(prices))


def test_volume_only_grows():
    session = TableCalendar().session_on("KRX", date(2026, 11, 16))
    assert session is not None
    minutes = [session.opens + timedelta(minutes=each) for each in range(-5, 400)]
    volumes = [demo_volume(0, BY_SYMBOL["005930"], session, minute) for minute in minutes]
    assert volumes == sorted(volumes)
    assert volumes[0] == 0 < volumes[-1] == demo_volume(0, BY_SYMBOL["005930"], session, session.closes)


async def test_what_is_not_listed_has_no_price(clock: Clock):
    with pytest.raises(ToolError, match="no price for 'IBM'"):
        await DemoMarket(clock).quote("IBM")


def test_about_forty_are_listed_on_five_venues():
    assert 40 <= len(DEMO_LISTINGS) <= 50
    assert len(BY_SYMBOL) == len(DEMO_LISTINGS)
    assert {listing.instrument.exchange for listing in DEMO_LISTINGS} == VENUES.keys()
