from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import ToolError
from finclaw.finance.listings import DEMO_LISTINGS, Listing
from finclaw.finance.market import DemoMarket, Market, demo_price
from finclaw.finance.tick import tick_size
from finclaw.kernel.port import Clock

LISTINGS = st.sampled_from(DEMO_LISTINGS)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTES = st.integers(0, 60_000_000).map(lambda minutes: EPOCH + timedelta(minutes=minutes))


@given(LISTINGS, MINUTES, st.integers())
def test_the_price_is_a_pure_function_on_a_legal_step(listing: Listing, minute: datetime, seed: int):
    price = demo_price(seed, listing, minute)
    assert price == demo_price(seed, listing, minute.replace(second=59))
    assert price % tick_size(listing.instrument.exchange, price) == 0
    assert listing.base / 2 < price < listing.base * 2


@given(LISTINGS, MINUTES, st.integers())
def test_no_minute_and_no_day_moves_more_than_an_exchange_allows(listing: Listing, minute: datetime, seed: int):
    price = demo_price(seed, listing, minute)
    step = tick_size(listing.instrument.exchange, price * 2)
    assert abs(demo_price(seed, listing, minute + timedelta(minutes=1)) - price) <= price * Decimal("0.02") + step
    assert abs(demo_price(seed, listing, minute + timedelta(days=1)) - price) <= price * Decimal("0.30")


def test_the_market_is_the_same_on_every_machine():
    samsung, apple = DEMO_LISTINGS[0], DEMO_LISTINGS[4]
    moment = datetime(2026, 11, 16, 5, 32, tzinfo=UTC)
    assert demo_price(0, samsung, moment) == Decimal("72800")
    assert demo_price(0, apple, moment) == Decimal("223.72")
    assert demo_price(1, apple, moment) != demo_price(0, apple, moment)


def test_it_moves():
    minutes = [datetime(2026, 11, 16, tzinfo=UTC) + timedelta(minutes=each) for each in range(0, 1_440, 10)]
    for listing in DEMO_LISTINGS:
        assert len({demo_price(0, listing, minute) for minute in minutes}) > 5


async def test_a_quote_is_of_the_minute_and_compares_with_the_day_before(clock: Clock):
    market: Market = DemoMarket(clock, seed=7)
    quote = await market.quote("AAPL")
    apple = DEMO_LISTINGS[4]
    assert quote.as_of == datetime(2026, 11, 16, 5, 32, tzinfo=UTC)
    assert quote.price == demo_price(7, apple, quote.as_of)
    assert quote.previous_close == demo_price(7, apple, datetime(2026, 11, 15, 23, 59, tzinfo=UTC))
    assert quote.change == quote.price - quote.previous_close
    assert abs(quote.change_percent - quote.change / quote.previous_close * 100) <= Decimal("0.005")
    assert quote.source == "demo market"


async def test_what_is_not_listed_has_no_price(clock: Clock):
    with pytest.raises(ToolError, match="no price for 'IBM'"):
        await DemoMarket(clock).quote("IBM")


def test_the_listed_are_about_a_dozen_with_their_own_currency():
    currencies = {listing.instrument.symbol: listing.instrument.currency for listing in DEMO_LISTINGS}
    assert currencies == {
        **dict.fromkeys(("005930", "000660", "035420", "035720", "USD/KRW"), "KRW"),
        **dict.fromkeys(("AAPL", "MSFT", "NVDA", "TSLA", "GOOGL", "AMZN", "BTC-USD"), "USD"),
    }
