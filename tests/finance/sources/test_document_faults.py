"""Every source of documents with every fault: what it really had, or a typed refusal. Nothing is made up of a fault."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from tests.finance.sources.documents import KEYS, DocumentBench
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import Reply

from finclaw.finance.market_data.chain import ChainedMarketData
from finclaw.finance.market_data.errors import AllSourcesFailed
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.kernel.fetch import FetchReply, FetchRequest

Ask = Callable[[ChainedMarketData], Awaitable[Sequence[Any]]]
DAY: Final = date(2026, 11, 17)
CASES: Final[list[tuple[str, Ask]]] = [
    ("edgar", lambda data: data.filings("AAPL")),
    ("edgar", lambda data: data.news("AAPL")),
    ("dart", lambda data: data.filings("005930")),
    ("opendart", lambda data: data.filings("005930")),
    ("nasdaq", lambda data: data.earnings(DAY, DAY)),
    ("google_news", lambda data: data.news("AAPL")),
    ("central_banks", lambda data: data.news()),
    ("finnhub", lambda data: data.news("AAPL")),
    ("finnhub", lambda data: data.earnings(DAY, DAY)),
    ("alpaca", lambda data: data.news("AAPL")),
]


class FaultyBench(DocumentBench):
    fault = ""

    async def fetch(self, request: FetchRequest) -> FetchReply:
        reply = await super().fetch(request)
        if not self.fault:
            return reply
        given = Reply(reply.body, reply.status)
        try:
            broken = FAULTS[self.fault]("", given)
        except ValueError:  # a fault of JSON, and this is a feed
            return replace(reply, body=reply.body[: len(reply.body) // 2])
        return replace(reply, body=broken.body, status=broken.status, headers=broken.headers)


def test_every_source_of_documents_is_in_the_table() -> None:
    without_prices = {each.id for each in SOURCES.values() if not each.has_prices} - {"ecb", "frankfurter"}
    assert {source for source, _ in CASES} == without_prices | {"finnhub", "alpaca"}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("source", "ask"), CASES)
async def test_a_fault_never_becomes_a_document(tmp_path: Path, source: str, ask: Ask, fault: str) -> None:
    bench = FaultyBench(tmp_path)
    others = tuple(each for each in SOURCES if each != source)
    settings: dict[str, Any] = {"disabled": others, "keys": KEYS}
    true = {_identity(each) for each in await ask(bench.open(**settings))}
    assert true
    bench.fault = fault
    try:
        found = await ask(bench.open(**settings))
    except AllSourcesFailed as error:
        found, named = (), str(error)
    else:
        named = SOURCES[source].name
    assert SOURCES[source].name in named
    assert {_identity(each) for each in found} <= true


def _identity(document: Any) -> tuple[object, ...]:
    return tuple(
        getattr(document, name, None) for name in ("title", "url", "form", "filed_on", "symbol", "day", "published_at")
    )
