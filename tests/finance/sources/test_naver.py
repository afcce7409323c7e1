"""Naver's answers, read: figures, signs, sessions and units."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.finance.sources.bench import Bench, error_of, quotes_of
from tests.finance.sources.vendors import load_fixture

from finclaw.finance.market_data.errors import AllSourcesFailed, DataMalformed
from finclaw.finance.market_data.port import BarRange

ALONE: dict[str, Any] = {"disabled": ("yahoo",)}


async def test_korean_stocks_funds_and_indices_come_in_two_requests(bench: Bench) -> None:
    data = bench.open(**ALONE)
    found = await quotes_of(data, ["005930", "000660", "069500", "KOSPI", "KOSDAQ"])
    assert [path for path in bench.vendors.asked if path.startswith("/naver/")] == [
        "/naver/polling/api/realtime/domestic/stock/005930,000660,069500",
        "/naver/polling/api/realtime/domestic/index/KOSPI,KOSDAQ",
    ]
    samsung = found["005930"]
    assert (samsung.price, samsung.previous_close, samsung.change) == (100_500, 102_000, -1_500)
    assert (samsung.source, samsung.phase, samsung.delay, samsung.volume) == ("Naver", "regular", 0, 9_000_000)
    assert samsung.as_of == datetime(2026, 11, 16, 4, 59, 37, 828638, UTC)
    assert samsung.extended is None  # the block is of Friday evening
    assert found["KOSPI"].price == Decimal("3951.24")
    assert bench.vendors.headers[0]["referer"] == "https://m.stock.naver.com/"


async def test_after_the_close_the_price_is_the_close_and_the_after_market_is_told_apart(bench: Bench) -> None:
    """Trap 2: what is traded after 15:30 is not the close."""
    body = load_fixture("naver_stocks")
    body["datas"][0]["localTradedAt"] = "2026-11-16T15:30:21+09:00"
    body["datas"][0]["overMarketPriceInfo"] |= {"overPrice": "101,900", "localTradedAt": "2026-11-16T17:00:02+09:00"}
    body["datas"][2]["localTradedAt"] = "2026-11-16T15:30:21+09:00"
    body["datas"][2]["overMarketPriceInfo"] = body["datas"][0]["overMarketPriceInfo"] | {"overPrice": "52,400"}
    bench.vendors.changes["naver_stocks"] = body
    bench.clock.advance(3 * 3_600 + 60)
    found = await quotes_of(bench.open(**ALONE), ["005930", "069500"])
    samsung = found["005930"]
    assert (samsung.price, samsung.close, samsung.phase) == (100_500, 100_500, "closed")
    assert samsung.as_of == datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
    assert samsung.extended is not None
    assert (samsung.extended.price, samsung.extended.phase) == (101_900, "after")
    assert found["069500"].extended is None  # funds are not traded there


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    ("code", "change", "before"),
    [("1", 23_190, 77_310), ("2", 1_500, 99_000), ("3", 0, 100_500), ("4", -43_070, 143_570), ("5", -1_500, 102_000)],
)
async def test_the_sign_comes_from_the_direction(
    bench: Bench, code: str, change: int, before: int, *, signed: bool
) -> None:
    """Trap 3: some answers give the size of a change alone."""
    body = load_fixture("naver_stocks")
    ratio = round(change / before * 100, 2)
    body["datas"][0] |= {
        "compareToPreviousPrice": {"code": code},
        "compareToPreviousClosePrice": f"{change if signed else abs(change):,}",
        "fluctuationsRatio": f"{ratio if signed else abs(ratio)}",
    }
    bench.vendors.changes["naver_stocks"] = body
    quote = await bench.quote("005930", **ALONE)
    assert (quote.previous_close, quote.change) == (before, change)


@pytest.mark.parametrize(
    "wrong",
    [
        {"compareToPreviousPrice": {"code": "2"}},  # up, with a change below zero
        {"compareToPreviousPrice": {"code": "9"}},
        {"fluctuationsRatio": "-4.47"},
        {"compareToPreviousClosePrice": "-15"},
        {"closePrice": "-"},
        {"localTradedAt": "2026-11-16 13:59"},
    ],
)
async def test_what_does_not_fit_together_is_no_price(bench: Bench, wrong: dict[str, Any]) -> None:
    body = load_fixture("naver_stocks")
    body["datas"][0] |= wrong
    bench.vendors.changes["naver_stocks"] = body
    error = await error_of(bench.open(**ALONE), "005930")
    assert isinstance(error, AllSourcesFailed)
    assert [type(each) for each in error.causes] == [DataMalformed]
    assert "give no figure" in str(error)


async def test_a_rate_for_a_hundred_units_is_given_for_one(bench: Bench) -> None:
    """Trap 8: yen are quoted by the hundred."""
    found = await quotes_of(bench.open(**ALONE), ["JPY/KRW", "USD/KRW"])
    assert found["JPY/KRW"].price == Decimal("9.082")
    assert found["USD/KRW"].price == Decimal("1400.50")
    assert found["USD/KRW"].venue == "bank posted rate"


async def test_days_without_a_trade_are_left_out_of_the_bars(bench: Bench) -> None:
    """Trap 11: on such a day open, high and low are zero."""
    series = await bench.open(**ALONE).bars("005930", BarRange(first=date(2026, 11, 2), last=date(2026, 11, 13)))
    assert [bar.day.day for bar in series.bars] == [2, 3, 4, 6, 9, 10, 11, 12, 13]
    assert min(bar.low for bar in series.bars) == 97_100
    assert (series.adjustment, series.source) == ("split", "Naver")


async def test_minutes_are_merged_from_the_open_of_the_session(bench: Bench) -> None:
    today = date(2026, 11, 16)
    series = await bench.open(**ALONE).bars("005930", BarRange(first=today, last=today, minutes=30))
    assert len(series.bars) == 10
    first = series.bars[0]
    assert first.starts == datetime(2026, 11, 16, 0, 0, tzinfo=UTC)
    assert first.volume == sum(1_000 + minute for minute in range(30))
    assert all(bar.low <= bar.close <= bar.high for bar in series.bars)


async def test_canaries_of_2026_11_16(bench: Bench) -> None:
    """Trap 5: what no shape can hold: which index is which, and orders of magnitude."""
    data = bench.open(**ALONE)
    found = await quotes_of(data, ["KOSPI", "KOSDAQ", "KOSPI200", "USD/KRW", "JPY/KRW", "005930"])
    assert found["KOSPI"].price > 2 * found["KOSDAQ"].price
    assert found["KOSDAQ"].price > found["KOSPI200"].price
    assert 100 < found["USD/KRW"].price / found["JPY/KRW"].price < 250
    names = {each["itemCode"]: each["stockName"] for each in load_fixture("naver_stocks")["datas"]}
    assert names["005930"] == "삼성전자"


async def test_canaries_between_sources(bench: Bench) -> None:
    """Trap 8: two vendors of one thing are near each other, and a coin in won is near its dollars times the rate."""
    data = bench.open()
    found = await quotes_of(data, ["USD/KRW", "BTC-KRW", "BTC-USD"])
    fixing = await data.fx("USD", "KRW", "fixing")
    assert abs(found["USD/KRW"].price / fixing.rate - 1) < Decimal("0.05")
    premium = found["BTC-KRW"].price / (found["BTC-USD"].price * found["USD/KRW"].price)
    assert Decimal("0.8") < premium < Decimal("1.25")


async def test_todays_candle_is_provisional_and_is_read_again_after_the_close(bench: Bench) -> None:
    """Trap 21: it changes until about 16:30, so it is as of now, and never kept for the day."""
    data, span = bench.open(**ALONE), BarRange(first=date(2026, 11, 13), last=date(2026, 11, 16))
    running = (await data.bars("005930", span)).bars[-1]
    assert (running.day, running.ends) == (date(2026, 11, 16), bench.clock.now()), "not the close that is yet to come"
    bench.clock.advance(100 * 60)  # 15:40 in Seoul
    closed = (await data.bars("005930", span)).bars[-1]
    assert (closed.close, closed.ends) == (100_500, datetime(2026, 11, 16, 6, 30, tzinfo=UTC))
    later = json.dumps(load_fixture("naver_days")).replace('"closePrice": 100500.0', '"closePrice": 100400.0')
    bench.vendors.changes["naver_days"] = json.loads(later)
    bench.clock.advance(11 * 60)
    assert (await data.bars("005930", span)).bars[-1].close == 100_400
