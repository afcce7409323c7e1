"""The contract of the market data port."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from tests.finance.sources.bench import Bench

from finclaw.demo.market import DemoMarket
from finclaw.demo.market_data import DemoMarketData
from finclaw.finance.market import Quote
from finclaw.finance.market_data.errors import DataError, DataNotFound
from finclaw.finance.market_data.port import BarRange, MarketData
from finclaw.testing import FakeClock

NOW = datetime(2026, 11, 16, 5, 32, tzinfo=UTC)


def open_demo() -> MarketData:
    return DemoMarketData(DemoMarket(FakeClock(NOW)))


@pytest.fixture(params=["demo", "chains of sources"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> MarketData:
    return open_demo() if request.param == "demo" else Bench(tmp_path).open()


async def test_quotes_are_given_together_each_with_its_source_and_time(data: MarketData) -> None:
    found = await data.quotes(["005930", "AAPL", "BTC-USD", "USD/KRW"])
    assert list(found) == ["005930", "AAPL", "BTC-USD", "USD/KRW"]
    for symbol, quote in found.items():
        assert isinstance(quote, Quote)
        assert quote.instrument.symbol == symbol
        assert quote.price > 0
        assert quote.previous_close > 0
        assert quote.source
        assert quote.as_of <= NOW


async def test_a_symbol_that_the_records_lack_is_not_found_and_spoils_no_other(data: MarketData) -> None:
    found = await data.quotes(["AAPL", "NOPE"])
    assert isinstance(found["AAPL"], Quote)
    assert isinstance(found["NOPE"], DataNotFound)
    for asked in (data.bars("NOPE", BarRange(first=NOW.date(), last=NOW.date())), data.profile("NOPE")):
        with pytest.raises(DataNotFound):
            await asked


async def test_bars_are_of_the_days_asked_for_and_in_order(data: MarketData) -> None:
    span = BarRange(first=date(2026, 11, 9), last=date(2026, 11, 13))
    series = await data.bars("005930", span)
    assert [bar.day.day for bar in series.bars] == [9, 10, 11, 12, 13]
    assert all(0 < bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high for bar in series.bars)
    assert series.adjustment in ("none", "split", "split+dividend")


async def test_days_without_a_session_give_an_error_and_no_bars(data: MarketData) -> None:
    with pytest.raises(DataError):
        await data.bars("005930", BarRange(first=date(2026, 11, 14), last=date(2026, 11, 15)))


async def test_a_rate_says_whether_it_is_of_the_moment_or_of_a_day(data: MarketData) -> None:
    spot = await data.fx("USD", "KRW")
    fixing = await data.fx("USD", "KRW", "fixing")
    assert (spot.basis, fixing.basis) == ("spot", "fixing")
    assert fixing.day <= NOW.date() + timedelta(days=1)
    assert 500 < spot.rate < 3_000


async def test_texts_name_their_source_and_their_time() -> None:
    """Of the demo market; the sources of texts have tests of their own."""
    data = open_demo()
    assert all(each.source and each.published_at <= NOW for each in await data.news("AAPL"))
    assert all(each.source and each.filed_on <= NOW.date() for each in await data.filings("AAPL"))
    assert all(each.source and each.is_expected for each in await data.earnings(NOW.date(), NOW.date()))
    assert (await data.profile("AAPL")).fields
