"""Yahoo's chart, read: the session before, units, and ranges."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.finance.sources.bench import Bench, error_of, quotes_of
from tests.finance.sources.vendors import load_fixture

from finclaw.finance.market_data.errors import AllSourcesFailed, DataMalformed
from finclaw.finance.market_data.port import BarRange

ALONE: dict[str, Any] = {"disabled": ("naver",)}


async def test_quotes_come_from_the_chart_with_the_close_of_the_session_before(bench: Bench) -> None:
    """Trap 1: `chartPreviousClose` is the close before the range, here a fifth lower."""
    found = await quotes_of(bench.open(**ALONE), ["AAPL", "005930", "SPX", "EUR/USD"])
    apple = found["AAPL"]
    assert load_fixture("yahoo_AAPL")["chart"]["result"][0]["meta"]["chartPreviousClose"] == 196.8
    assert (apple.price, apple.previous_close) == (Decimal("250.12"), Decimal("251.3"))
    assert str(apple.previous_close) == "251.30"
    assert (apple.phase, apple.close, apple.delay) == ("closed", Decimal("250.12"), 0)  # the close is not late
    assert apple.as_of == datetime(2026, 11, 13, 21, 0, tzinfo=UTC)
    assert (found["005930"].previous_close, found["005930"].delay) == (102_000, 20)
    assert found["SPX"].previous_close == Decimal("6791.26")
    assert found["EUR/USD"].previous_close == Decimal("1.0825")


async def test_a_hole_where_yesterday_was_is_not_filled_with_the_day_before(bench: Bench) -> None:
    body = load_fixture("yahoo_AAPL")
    body["chart"]["result"][0]["indicators"]["quote"][0]["close"][3] = None
    bench.vendors.changes["yahoo_AAPL"] = body
    error = await error_of(bench.open(**ALONE), "AAPL")
    assert isinstance(error, AllSourcesFailed)
    assert isinstance(error.causes[0], DataMalformed)


@pytest.mark.parametrize(("symbol", "path"), [("005930", "005930.KS"), ("BRK.B", "BRK-B"), ("KOSDAQ", "%5EKQ11")])
async def test_the_suffix_comes_from_the_record_and_is_not_tried_out(bench: Bench, symbol: str, path: str) -> None:
    """Trap 5: one request, for the right twin."""
    await bench.open(**ALONE).quotes([symbol])
    assert bench.vendors.asked == [f"/yahoo/api/v8/finance/chart/{path}?range=5d&interval=1d"]


async def test_a_range_is_the_same_days_as_everywhere(bench: Bench) -> None:
    """Trap 16: the end of a range is exclusive here, and the newest price comes as a row of its own."""
    body = load_fixture("yahoo_005930.KS")
    result = body["chart"]["result"][0]
    result["timestamp"].append(result["meta"]["regularMarketTime"])
    for column in result["indicators"]["quote"][0].values():
        column.append(column[-1])
    bench.vendors.changes["yahoo_005930.KS"] = body
    span = BarRange(first=date(2026, 11, 11), last=date(2026, 11, 16))
    series = await bench.open(**ALONE).bars("005930", span)
    assert [bar.day.day for bar in series.bars] == [11, 12, 13, 16]
    assert series.bars[-1].close == 100_600
    same_days = await bench.open(disabled=("yahoo",)).bars("005930", span)
    assert [bar.day for bar in same_days.bars] == [bar.day for bar in series.bars]
    query = bench.vendors.asked[1].partition("?")[2]
    assert query == "period1=1794322800&period2=1794841200&interval=1d"  # midnights in Seoul


async def test_what_a_client_sends_is_what_a_browser_would_and_nothing_more(bench: Bench) -> None:
    """Trap 22: no Origin header, to nobody."""
    await bench.open().quotes(["005930", "AAPL"])
    assert all({"user-agent"} <= sent.keys() <= {"user-agent", "referer", "accept"} for sent in bench.vendors.headers)
