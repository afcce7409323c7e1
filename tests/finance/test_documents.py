"""The tools for headlines, filings, earnings dates and profiles, on the demo market and on played vendors."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.finance.desk import scope
from tests.finance.sources.documents import INSTRUMENTS, DocumentBench

from finclaw.demo.market import DemoMarket
from finclaw.demo.market_data import DemoMarketData
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.documents import document_tools
from finclaw.finance.instrument import Instruments
from finclaw.finance.live_market import LiveMarket
from finclaw.finance.market import Market
from finclaw.finance.market_data.errors import DataUnsupported
from finclaw.finance.market_data.port import MarketData
from finclaw.kernel.port import ToolOutput
from finclaw.testing import FakeClock
from finclaw.tools.arguments import ArgumentCheck

TUESDAY = datetime(2026, 11, 17, 5, 0, tzinfo=UTC)


async def use(market: Market, data: MarketData, name: str, args: Mapping[str, Any]) -> ToolOutput:
    tool = next(each for each in document_tools(market, lambda: data) if each.spec.name == name)
    return await tool.run(ArgumentCheck().check(tool.spec, args).args, scope())


@pytest.mark.parametrize(
    ("name", "args", "line", "field"),
    [
        ("market__news", {"symbol": "삼성전자"}, "title: 삼성전자: 데모 시장의 지어낸 제목", "headline 1 published"),
        ("market__news", {"limit": 2}, "about: the whole market", "headline 2 published"),
        ("market__filings", {"symbol": "AAPL"}, "form: demo report", "filing 1 filed"),
        ("market__earnings", {"symbol": "005930"}, "confirmed: no, expected", "earnings_day"),
        ("market__earnings", {"days": 2}, "companies: 2", "earnings_day"),
        ("market__profile", {"symbol": "애플"}, "name: Apple", None),
    ],
)
async def test_the_demo_market_has_all_of_them_and_says_whose_they_are(
    name: str, args: dict[str, Any], line: str, field: str | None
) -> None:
    market = DemoMarket(FakeClock(TUESDAY), TableCalendar())
    output = await use(market, DemoMarketData(market), name, args)
    assert any(each.startswith(line) for each in output.content.splitlines()), output.content
    assert "source: demo market" in output.content
    assert output.origin == "", "our own words"
    assert {fact.source for fact in output.facts} <= {"demo market"}
    assert field is None or field in {fact.field for fact in output.facts}


async def test_live_documents_name_their_source_and_are_strangers_words(tmp_path: Path) -> None:
    bench = DocumentBench(tmp_path)
    data, instruments = bench.open(), Instruments(INSTRUMENTS.values())
    market = LiveMarket(data, instruments, TableCalendar(), bench.clock)
    news = await use(market, data, "market__news", {"symbol": "AAPL"})
    assert news.origin.startswith("headlines of ")
    assert "url: http" in news.content
    assert len(news.facts) == news.content.count("title: ")
    filings = await use(market, data, "market__filings", {"symbol": "AAPL", "limit": 1})
    assert "source: SEC EDGAR" in filings.content
    assert filings.origin == "filings of SEC EDGAR"
    profile = await use(market, data, "market__profile", {"symbol": "AAPL"})
    figures = {fact.field: (fact.value, fact.currency, fact.as_of.date().isoformat()) for fact in profile.facts}
    assert figures["annual_revenue"] == (410, "USD", "2026-09-26")
    assert next(fact.unit for fact in profile.facts if fact.field == "annual_eps_diluted") == "per share"
    with pytest.raises(DataUnsupported, match="KRX companies"):
        await use(market, data, "market__earnings", {"symbol": "005930", "days": 1})
