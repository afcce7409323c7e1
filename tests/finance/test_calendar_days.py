"""Days and periods of the calendar: this month, last year, one day, tomorrow, a holiday, a half day."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from tests.finance.desk import Desk

from finclaw.errors import ToolError
from finclaw.finance.history import days_of
from finclaw.kernel.port import Clock


@pytest.fixture
def desk(clock: Clock) -> Desk:
    return Desk(clock)


@pytest.mark.parametrize(
    ("period", "first", "last"),
    [
        ("this_week", "2026-11-16", "2026-11-16"),
        ("last_week", "2026-11-09", "2026-11-15"),
        ("this_month", "2026-11-01", "2026-11-16"),
        ("last_month", "2026-10-01", "2026-10-31"),
        ("this_quarter", "2026-10-01", "2026-11-16"),
        ("last_quarter", "2026-07-01", "2026-09-30"),
        ("year_to_date", "2026-01-01", "2026-11-16"),
        ("last_year", "2025-01-01", "2025-12-31"),
        ("month", "2026-10-18", "2026-11-16"),
    ],
)
def test_a_period_of_the_calendar_has_its_days(period: Any, first: str, last: str):
    """User trial H9: "this month" is not the past thirty days."""
    assert days_of(period, date(2026, 11, 16)) == (date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize("period", ["last_month", "last_quarter", "last_year", "last_week"])
@pytest.mark.parametrize("symbol", ["005930", "AAPL", "BTC", "환율"])
async def test_what_is_past_starts_at_the_close_before_it_and_ends_inside_it(desk: Desk, symbol: str, period: Any):
    facts = await desk.facts("market__history", symbol=symbol, period=period)
    first, last = days_of(period, date(2026, 11, 16))
    assert facts["start"].as_of.date() <= first
    assert first < facts["end"].as_of.date() <= date.fromordinal(last.toordinal() + 1)  # midnight is the next day


async def test_one_day_has_one_close(desk: Desk):
    """User trial H9: what was tesla's price on 2026-03-03."""
    facts = await desk.facts("market__history", symbol="TSLA", on="2026-03-03")
    assert facts.keys() == {"close"}
    assert facts["close"].as_of == datetime(2026, 3, 3, 21, tzinfo=UTC)
    assert await desk.facts("market__history", symbol="TSLA", on="03-03") == facts
    assert (await desk.facts("market__history", symbol="TSLA", on="12-01"))["close"].as_of.year == 2025


@pytest.mark.parametrize("day", ["2026-03-01", "2026-11-17", "2020-03-03", "2026-02-30", "2026-12-25", "02-30"])
async def test_a_day_without_a_close_has_none(desk: Desk, day: str):
    with pytest.raises(ToolError, match="no close"):
        await desk.use("market__history", {"symbol": "TSLA", "on": day})


async def test_the_day_has_an_opening_price(desk: Desk):
    facts = await desk.facts("market__history", symbol="AAPL", period="day")
    assert facts["open"].as_of == datetime(2026, 11, 13, 14, 30, tzinfo=UTC)
    assert facts["low"].value <= facts["open"].value <= facts["high"].value


@pytest.mark.parametrize(("day", "is_open"), [("tomorrow", True), ("2026-11-26", False), ("2026-11-28", False)])
async def test_a_market_has_a_session_on_a_day_or_not(desk: Desk, day: str, is_open: bool):
    facts = await desk.facts("market__hours", market="NYSE", on=day)
    assert ("opens_at" in facts) == is_open


async def test_a_half_day_closes_early_and_a_late_day_opens_late(desk: Desk):
    """User trial M14: the tools omit half and late days."""
    facts = await desk.facts("market__hours", market="NYSE", on="2026-11-27")
    assert datetime.fromtimestamp(int(facts["closes_at"].value), UTC) == datetime(2026, 11, 27, 18, tzinfo=UTC)
    facts = await desk.facts("market__calendar", market="KRX")
    assert datetime.fromtimestamp(int(facts["opens 2026-11-19"].value), UTC) == datetime(2026, 11, 19, 1, tzinfo=UTC)


@pytest.mark.parametrize("day", ["2030-01-01", "2026-13-01"])
async def test_a_day_beyond_the_calendar_is_not_guessed(desk: Desk, day: str):
    with pytest.raises(ToolError, match="does not know"):
        await desk.use("market__hours", {"market": "NYSE", "on": day})


@pytest.mark.parametrize(
    ("market", "holiday", "day"),
    [("NYSE", "Thanksgiving", "2026-11-26"), ("KRX", "추석", "2027-09-14"), ("미국", "성탄절", "2026-12-25")],
)
async def test_a_holiday_is_found_by_its_name(desk: Desk, market: str, holiday: str, day: str):
    facts = await desk.facts("market__calendar", market=market, holiday=holiday)
    assert f"closed {day}" in facts


async def test_a_holiday_nobody_keeps_is_said(desk: Desk):
    with pytest.raises(ToolError, match="no such holiday"):
        await desk.use("market__calendar", {"market": "KRX", "holiday": "Thanksgiving"})


@pytest.mark.parametrize(
    ("symbol", "price"), [("BTC", "100000000"), ("005930", "80"), ("AAPL", "300000"), ("XRP", "1500")]
)
async def test_a_price_far_away_without_a_currency_is_asked_back(desk: Desk, symbol: str, price: str):
    """User trial H4: 비트 1억 밑으로 is won and not dollars."""
    with pytest.raises(ToolError, match="which currency"):
        await desk.use("alert__add", {"symbol": symbol, "price": price})


async def test_one_won_is_not_zero_dollars(desk: Desk):
    facts = await desk.facts("fx__convert", **{"amount": "1", "from": "KRW", "to": "USD"})
    assert facts["result"].value > 0


@pytest.mark.parametrize("name", ["gold", "doge", "나스닥 지수", "코스닥", "write", "poem", "nikkei"])
async def test_nothing_is_offered_that_only_shares_a_few_letters(desk: Desk, name: str):
    """User trial M13: gold is neither Alphabet nor Solana."""
    with pytest.raises(ToolError) as caught:
        await desk.use("market__quote", {"symbol": name})
    assert caught.value.suggestion == name


async def test_a_share_is_not_zero_bitcoin(desk: Desk):
    assert (await desk.facts("market__quote", symbol="AAPL", in_currency="BTC"))["price_in"].value > 0
