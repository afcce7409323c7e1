"""Finnhub: zeros are no price, headlines and dates have their source, and the key is in no address."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.finance.sources.documents import FINNHUB_QUOTE, KEYS, DocumentBench

from finclaw.finance.market_data.errors import AllSourcesFailed
from finclaw.testing import FakeClock

FINNHUB: dict[str, Any] = {
    "keys": {"finnhub.key": KEYS["finnhub.key"]},
    "disabled": ("naver", "yahoo", "google_news", "edgar", "nasdaq"),
}


@pytest.fixture
def bench(tmp_path: Path) -> DocumentBench:
    return DocumentBench(tmp_path, FakeClock(datetime(2026, 11, 16, 5, tzinfo=UTC)))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"c": 0, "d": None, "dp": None, "h": 0, "l": 0, "o": 0, "pc": 0, "t": 0}, "does not have it"),
        ({"d": 1.2}, "cannot be read"),
        ({"c": 250.1, "h": 240.0, "l": 230.0}, "cannot be right"),
        ({"t": 1_794_000_000}, "is behind"),
    ],
)
async def test_what_only_looks_like_a_price_is_refused(bench: DocumentBench, wrong: dict[str, Any], says: str) -> None:
    """Trap 9: an unknown symbol is answered with zeros and status 200."""
    bench.answers["finnhub/api/quote"] = json.dumps(FINNHUB_QUOTE | wrong).encode()
    found = (await bench.open(**FINNHUB).quotes(["AAPL"]))["AAPL"]
    assert isinstance(found, AllSourcesFailed)
    assert f"Finnhub {says}" in str(found) or says in str(found)


async def test_headlines_and_dates_have_their_source_and_the_key_is_in_a_header(bench: DocumentBench) -> None:
    data = bench.open(**FINNHUB)
    (headline,) = await data.news("AAPL")
    assert (headline.title, headline.publisher, headline.source) == ("Apple & suppliers", "Example Wire", "Finnhub")
    (report,) = await data.earnings(date(2026, 11, 17), date(2026, 11, 18))
    assert (report.symbol, report.moment, report.estimate) == ("AAPL", "after close", Decimal("1.2"))
    assert all(each.headers["X-Finnhub-Token"] == "finnhub-key-made-up" for each in bench.requests)
    assert not any("made-up" in each.url for each in bench.requests)
