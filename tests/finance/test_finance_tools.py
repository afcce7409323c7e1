"""The tools beside the quote: history, comparison, hours, calendar, conversion, portfolio, alerts."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, get_args

import pytest
from tests.finance.desk import Desk, scope

from finclaw.errors import InvalidArguments, ToolError
from finclaw.finance.history import Period
from finclaw.kernel.port import Clock


@pytest.fixture
def desk(clock: Clock) -> Desk:
    return Desk(clock)


@pytest.mark.parametrize("period", get_args(Period))
@pytest.mark.parametrize("symbol", ["005930", "AAPL", "BTC", "환율", "KOSPI"])
async def test_a_change_is_the_difference_of_its_ends(desk: Desk, symbol: str, period: str):
    facts = await desk.facts("market__history", symbol=symbol, period=period)
    start, end = facts["start"], facts["end"]
    no_session_yet = (symbol, period) == ("AAPL", "this_week")  # it is Monday, before New York opens
    assert start.as_of == end.as_of if no_session_yet else start.as_of < end.as_of
    assert facts["period_change"].value == end.value - start.value
    assert abs(facts["period_change_percent"].value - (end.value / start.value - 1) * 100) <= Decimal("0.005")
    assert facts["lowest_close"].value <= end.value <= facts["highest_close"].value
    if "high" in facts:
        assert facts["low"].value <= end.value <= facts["high"].value


@pytest.mark.parametrize("symbol", ["005930", "AAPL", "BTC", "환율"])
@pytest.mark.parametrize("hour", [0, 5, 15, 23])
async def test_on_new_years_day_the_year_has_not_moved(clock: Any, symbol: str, hour: int):
    clock.moment = datetime(2027, 1, 1, hour, tzinfo=UTC)
    facts = await Desk(clock).facts("market__history", symbol=symbol, period="year_to_date")
    assert facts["period_change"].value == facts["end"].value - facts["start"].value
    if symbol == "005930":
        assert facts["period_change"].value == 0


async def test_a_comparison_is_ordered_and_takes_names_without_a_joint(desk: Desk):
    output = await desk.use("market__compare", {"symbols": ["apple tesla", "005930"]})
    shares = [fact.value for fact in output.facts if fact.field == "period_change_percent"]
    assert len(shares) == 3
    assert shares == sorted(shares, reverse=True)
    with pytest.raises(ToolError, match="only one"):
        await desk.use("market__compare", {"symbols": ["apple", "AAPL"]})


async def test_hours_are_facts(desk: Desk):
    facts = await desk.facts("market__hours", market="코인은")
    assert facts["is_open"].value == 1
    facts = await desk.facts("market__hours", market="애플")
    opens = datetime.fromtimestamp(int(facts["opens_at"].value), UTC)
    assert (facts["opens_at"].subject, opens) == ("NASDAQ", datetime(2026, 11, 16, 14, 30, tzinfo=UTC))
    assert {fact.subject for fact in (await desk.use("market__hours", {})).facts} == {"KRX", "NYSE"}


async def test_the_calendar_tells_what_comes(desk: Desk):
    output = await desk.use("market__calendar", {"market": "NYSE", "limit": 2})
    closed = [fact.field for fact in output.facts if fact.field.startswith("closed")]
    assert closed == ["closed 2026-11-26", "closed 2026-12-25"]
    assert "holiday_ko: 추수감사절" in output.content
    (none,) = (await desk.use("market__calendar", {"market": "crypto"})).facts
    assert (none.field, none.value) == ("holidays_ahead", 0)


@pytest.mark.parametrize(
    ("amount", "source", "target", "pairs"),
    [
        ("100", "USD", "KRW", ["USD/KRW"]),
        ("500000", "KRW", "USD", ["USD/KRW"]),
        ("100", "EUR", "KRW", ["EUR/USD", "USD/KRW"]),
        ("100", "JPY", "GBP", ["USD/JPY", "GBP/USD"]),
        ("0.5", "BTC", "KRW", ["BTC-USD", "USD/KRW"]),
    ],
)
async def test_a_conversion_shows_its_rates(desk: Desk, amount: str, source: str, target: str, pairs: list[str]):
    output = await desk.use("fx__convert", {"amount": amount, "from": source, "to": target})
    assert [fact.subject for fact in output.facts if fact.field == "rate"] == pairs
    given, result = output.facts[:2]
    assert (given.field, given.value, given.source) == ("amount", Decimal(amount), "user")
    value = Decimal(amount)
    for fact in output.facts[2:]:
        first, _, second = fact.subject.replace("-", "/").partition("/")
        at_first = first == source or (pairs[-1] == fact.subject and first == "USD" and second == target)
        value = value * fact.value if at_first else value / fact.value
    assert abs(result.value - value) <= (1 if target == "KRW" else Decimal("0.01"))


@pytest.mark.parametrize("amount", ["-1", "1e9", "1,000", "", "١٢"])
async def test_only_plain_digits_are_an_amount(desk: Desk, amount: str):
    with pytest.raises(InvalidArguments):
        await desk.use("fx__convert", {"amount": amount, "from": "USD", "to": "KRW"})


@pytest.mark.parametrize("currency", ["KRW", "USD"])
async def test_the_sample_portfolio_adds_up(desk: Desk, currency: str):
    output = await desk.use("portfolio__show", {"in_currency": currency})
    assert "not the user's own" in output.content
    sums = {fact.currency: fact.value for fact in output.facts if fact.field == "subtotal"}
    for unit, total in sums.items():
        values = [fact.value for fact in output.facts if fact.field == "value" and fact.currency == unit]
        assert sum(values) == total
    rate = next(fact.value for fact in output.facts if fact.field == "rate")
    other = sums["USD"] * rate if currency == "KRW" else sums["KRW"] / rate
    total = next(fact for fact in output.facts if fact.field == "total")
    assert abs(total.value - sums[currency] - other) <= 1


async def test_an_alert_is_set_once_listed_and_removed(desk: Desk):
    first, again = [
        await desk.use("alert__add", {"symbol": "apple", "price": "250", "side": "above"}) for _ in range(2)
    ]
    assert "alert: above 250" in first.content == again.content
    listed = await desk.use("alert__list", {})
    assert [(f.subject, f.field, f.source) for f in listed.facts if f.field == "threshold"] == [
        ("AAPL#0", "threshold", "user")
    ]
    assert "none" in (await desk.use("alert__remove", {"symbol": "AAPL", "price": "251"})).content
    assert "above 250" in (await desk.use("alert__remove", {"symbol": "AAPL"})).content
    assert "none" in (await desk.use("alert__list", {})).content


async def test_alerts_are_the_persons_own(desk: Desk):
    await desk.use("alert__add", {"symbol": "apple", "price": "250"}, scope("me"))
    for other in (scope("you"), scope("me", "elsewhere")):
        assert "none" in (await desk.use("alert__list", {}, other)).content
        assert "none" in (await desk.use("alert__remove", {"all": True}, other)).content
    assert "AAPL" in (await desk.use("alert__list", {}, scope("me"))).content


async def test_without_a_side_the_alert_waits_for_the_price_to_come(desk: Desk):
    assert "side: below" in (await desk.use("alert__add", {"symbol": "apple", "price": "100"})).content
    assert "side: above" in (await desk.use("alert__add", {"symbol": "apple", "price": "900"})).content


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"symbol": "005930", "price": "80050"}, "ImpossiblePrice"),
        ({"symbol": "AAPL", "price": "0"}, "ImpossiblePrice"),
        ({"symbol": "AAPL", "price": "300000", "currency": "KRW"}, "WrongCurrency"),
        ({"symbol": "samsung", "price": "80000"}, "AmbiguousName"),
    ],
)
async def test_what_could_never_ring_is_not_set(desk: Desk, args: dict[str, str], error: str):
    with pytest.raises(ToolError) as caught:
        await desk.use("alert__add", args)
    assert type(caught.value).__name__ == error
    assert "none" in (await desk.use("alert__list", {})).content


async def test_there_is_room_for_twenty(desk: Desk):
    for price in range(300, 320):
        await desk.use("alert__add", {"symbol": "apple", "price": str(price)})
    with pytest.raises(ToolError, match="20 alerts"):
        await desk.use("alert__add", {"symbol": "apple", "price": "400"})


async def test_nothing_named_is_nothing_removed(desk: Desk):
    with pytest.raises(ToolError, match="Say which alert"):
        await desk.use("alert__remove", {})
