from datetime import UTC, datetime
from decimal import Decimal

import pytest

from finclaw.errors import InvalidArguments, ToolError
from finclaw.finance.market import DemoMarket
from finclaw.finance.quote import quote_tool
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import Clock, ToolScope
from finclaw.tools.arguments import ArgumentCheck

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))


async def test_every_figure_is_a_fact_with_its_origin(clock: Clock):
    market = DemoMarket(clock)
    output = await quote_tool(market).run({"symbol": "삼성전자는"}, SCOPE)
    quote = await market.quote("005930")
    figures = {fact.field: (fact.value, fact.currency, fact.unit) for fact in output.facts}
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
    assert {field: Decimal(lines[field]) for field in ("price", "change", "change_percent", "previous_close")} == {
        fact.field: fact.value for fact in output.facts
    }
    assert lines["source"] == "demo market"


@pytest.mark.parametrize(
    ("symbol", "said"),
    [
        ("삼성", 'No instrument is called "삼성". Did you mean "Samsung Electronics (삼성전자)" [005930]?'),
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
    assert check.check(spec, {"symbol": "AAPL"}) == {"symbol": "AAPL"}
    for wrong in ({}, {"symbol": ""}, {"symbol": "x" * 81}, {"symbol": "AAPL", "at": "now"}):
        with pytest.raises(InvalidArguments):
            check.check(spec, wrong)
