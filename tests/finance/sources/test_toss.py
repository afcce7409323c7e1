"""Toss: prices with the close before them from bars, one token, and a refusal that says what to do."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.finance.sources.documents import KEYS, TOSS_PRICES, DocumentBench

from finclaw.finance.market import Quote
from finclaw.finance.market_data.errors import AllSourcesFailed
from finclaw.finance.market_data.port import BarRange
from finclaw.testing import FakeClock

TOSS: dict[str, Any] = {
    "keys": {name: key for name, key in KEYS.items() if name.startswith("toss")},
    "disabled": ("naver", "yahoo"),
}
PRICES = "toss/api/api/v1/prices"


@pytest.fixture
def bench(tmp_path: Path) -> DocumentBench:
    return DocumentBench(tmp_path, FakeClock(datetime(2026, 11, 16, 5, tzinfo=UTC)))  # 14:00 in Seoul


async def test_a_price_stands_against_the_close_of_the_day_before(bench: DocumentBench) -> None:
    data = bench.open(**TOSS)
    quote = (await data.quotes(["005930"]))["005930"]
    assert isinstance(quote, Quote)
    assert (quote.price, quote.previous_close, quote.source) == (100_500, 102_000, "Toss Securities")
    token, *others = bench.requests
    assert (token.method, token.body.startswith(b"grant_type=client_credentials&client_id=")) == ("POST", True)
    assert all(each.headers["Authorization"] == "Bearer toss-token-made-up" for each in others)
    assert not any("made-up" in each.url for each in bench.requests)
    assert {each.method for each in others} == {"GET"}
    series = await data.bars("005930", BarRange(first=date(2026, 11, 12), last=date(2026, 11, 13)))
    assert [(bar.day.day, bar.close) for bar in series.bars] == [(12, 101_500), (13, 102_000)]
    assert series.adjustment == "split"
    assert sum("oauth2" in each.url for each in bench.requests) == 1


async def test_a_price_without_a_time_and_one_outside_of_the_session_are_left_to_others(bench: DocumentBench) -> None:
    row = TOSS_PRICES["result"][0] | {"timestamp": None}
    bench.answers[PRICES] = json.dumps({"result": [row]}).encode()
    found = (await bench.open(**TOSS).quotes(["005930"]))["005930"]
    assert isinstance(found, AllSourcesFailed)
    assert "Toss Securities is behind" in str(found)
    asked = len(bench.requests)
    bench.clock.advance(3 * 3_600)
    found = (await bench.open(**TOSS).quotes(["005930"]))["005930"]
    assert isinstance(found, AllSourcesFailed)
    assert len(bench.requests) == asked, "after the close nobody knows what its price means"


async def test_an_address_that_is_not_registered_is_told_what_to_do(bench: DocumentBench) -> None:
    bench.answers[PRICES] = (403, b'{"error": {"requestId": "x", "code": "FORBIDDEN", "message": "ip"}}')
    found = (await bench.open(**TOSS).quotes(["005930"]))["005930"]
    assert isinstance(found, AllSourcesFailed)
    assert "registered in its Open API settings" in str(found.causes[0])
