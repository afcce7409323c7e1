from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from msgspec.structs import replace

from finclaw.demo.market import DemoMarket
from finclaw.errors import InvalidArguments, ToolError
from finclaw.finance.market import ExtendedPrice
from finclaw.finance.quote import facts_of, quote_tool, read_quote
from finclaw.finance.words import describe_quote
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import Clock, ToolScope
from finclaw.tools.arguments import ArgumentCheck

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))


async def test_every_figure_is_a_fact_with_its_origin(clock: Clock):
    market = DemoMarket(clock)
    output = await quote_tool(market).run({"symbol": "삼성전자는"}, SCOPE)
    quote = await market.quote("005930")
    figures = {fact.field: (fact.value, fact.currency, fact.unit) for fact in output.facts}
    assert figures.pop("volume") == (Decimal(quote.volume), None, "pieces")
    assert figures == {
        "price": (quote.price, "KRW", ""),
        "change": (quote.change, "KRW", ""),
        "change_percent": (quote.change_percent, None, "%"),
        "previous_close": (quote.previous_close, "KRW", ""),
    }
    assert {fact.subject for fact in output.facts} == {"005930"}
    assert {fact.source for fact in output.facts} == {"demo market"}
    assert {fact.as_of for fact in output.facts} == {datetime(2026, 11, 16, 5, 32, tzinfo=UTC)}


async def test_the_text_tells_the_model_the_same(clock: Clock):
    output = await quote_tool(DemoMarket(clock)).run({"symbol": "apple"}, SCOPE)
    lines = dict(line.split(": ", 1) for line in output.content.splitlines())
    assert (lines["symbol"], lines["name"], lines["name_ko"], lines["currency"]) == ("AAPL", "Apple", "애플", "USD")
    assert {
        field: Decimal(lines[field]) for field in ("price", "change", "change_percent", "previous_close", "volume")
    } == {fact.field: fact.value for fact in output.facts if fact.field != "close"}
    assert lines["market"].startswith("closed"), "so the price is the close"
    assert lines["source"] == "demo market"


@pytest.mark.parametrize(
    ("symbol", "said"),
    [
        ("삼성전지", 'No instrument is called "삼성전지". Did you mean "Samsung Electronics (삼성전자)" [005930]'),
        ("apple tesla", '"apple tesla" are several: apple, tesla. Call once for each.'),
        ("네카오", '"네카오" may mean "NAVER (네이버)" [035420] or "Kakao (카카오)" [035720].'),
        ('xy"zzy', 'No instrument is called "xy\'zzy". Ask the user for its symbol'),
    ],
)
async def test_what_is_not_certain_is_not_priced(clock: Clock, symbol: str, said: str):
    with pytest.raises(ToolError) as caught:
        await quote_tool(DemoMarket(clock)).run({"symbol": symbol}, SCOPE)
    assert str(caught.value).startswith(said)


def test_the_schema_asks_for_one_name_and_nothing_else(clock: Clock):
    spec, check = quote_tool(DemoMarket(clock)).spec, ArgumentCheck()
    assert spec.name == "market__quote"
    assert check.check(spec, {"symbol": "AAPL"}).args == {"symbol": "AAPL"}
    for wrong in ({}, {"symbol": ""}, {"symbol": "x" * 81}, {"symbol": "AAPL", "at": "now"}):
        with pytest.raises(InvalidArguments):
            check.check(spec, wrong)


async def test_another_currency_comes_with_its_rate(clock: Clock):
    market = DemoMarket(clock)
    output = await quote_tool(market).run({"symbol": "AAPL", "in_currency": "KRW"}, SCOPE)
    facts = {fact.field: fact for fact in output.facts}
    assert (facts["rate"].subject, facts["price_in"].currency) == ("USD/KRW", "KRW")
    assert facts["price_in"].value == (facts["price"].value * facts["rate"].value).quantize(Decimal(1))


@pytest.mark.parametrize("symbol", ["KOSPI", "USD/KRW"])
async def test_what_cannot_be_paid_is_not_converted(clock: Clock, symbol: str):
    output = await quote_tool(DemoMarket(clock)).run({"symbol": symbol, "in_currency": "USD"}, SCOPE)
    assert "price_in" not in {fact.field for fact in output.facts}


async def test_an_index_is_counted_in_points(clock: Clock):
    output = await quote_tool(DemoMarket(clock)).run({"symbol": "KOSPI"}, SCOPE)
    assert {(fact.unit, fact.currency) for fact in output.facts} == {("points", None), ("%", None)}


async def test_the_suggestion_is_for_code(clock: Clock):
    with pytest.raises(ToolError) as caught:
        await quote_tool(DemoMarket(clock)).run({"symbol": " 네카오 "}, SCOPE)
    assert caught.value.suggestion == "네카오\n035420 | NAVER | 네이버\n035720 | Kakao | 카카오"


@pytest.mark.parametrize("symbol", ["005930", "AAPL", "BTC-USD", "USD/KRW", "KOSPI"])
async def test_quote_is_read_back_from_its_facts(clock: Clock, symbol: str) -> None:
    """The offline assistant shows a quote in the words of `/price`, from the facts that the tool gave."""
    plain = await DemoMarket(clock).quote(symbol)
    late = replace(plain, delay=20, stale=True, fixing=date(2026, 11, 13), day_basis="09:00 KST", is_confirmed=False)
    at = datetime(2026, 11, 16, 9, 5, tzinfo=UTC)
    extended = replace(plain, extended=ExtendedPrice(price=Decimal(101_900), phase="after", venue="NXT", as_of=at))
    for quote in (plain, late, extended):
        read = read_quote(facts_of(quote), quote.instrument)
        assert describe_quote(read, None, "ko") == describe_quote(quote, None, "ko")
        assert read.source_label == quote.source_label
