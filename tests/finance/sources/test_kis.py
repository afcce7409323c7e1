"""KIS: one token for all, prices with their sign and venue, bars that are adjusted, and errors with status 200."""

import asyncio
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.finance.sources.documents import KEYS, KIS_PRICE, DocumentBench, kis_day

from finclaw.finance.live_market import fetch_rules
from finclaw.finance.market import Quote
from finclaw.finance.market_data.chain import ChainedMarketData
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.testing import FakeClock

KIS: dict[str, Any] = {
    "keys": {name: key for name, key in KEYS.items() if name.startswith("kis")},
    "disabled": ("naver", "yahoo"),
}
TOKEN = "kis/api/oauth2/tokenP"
PRICE = "kis/api/uapi/domestic-stock/v1/quotations/inquire-price"
DAYS = "kis/api/uapi/domestic-stock/v1/quotations/inquire-daily-itemchartprice"
SPAN = BarRange(first=date(2026, 11, 12), last=date(2026, 11, 13))


@pytest.fixture
def bench(tmp_path: Path) -> DocumentBench:
    return DocumentBench(tmp_path, FakeClock(datetime(2026, 11, 16, 5, tzinfo=UTC)))  # 14:00 in Seoul


async def samsung(data: ChainedMarketData) -> Quote | DataError:
    return (await data.quotes(["005930"]))["005930"]


def tokens_asked(bench: DocumentBench) -> int:
    return sum("tokenP" in each.url for each in bench.requests)


async def test_a_price_has_its_base_and_its_venue_and_keys_are_in_headers(bench: DocumentBench) -> None:
    quote = await samsung(bench.open(**KIS))
    assert isinstance(quote, Quote)
    assert (quote.price, quote.previous_close, quote.venue) == (100_500, 102_000, "KRX")
    assert (bench.query()["FID_COND_MRKT_DIV_CODE"], bench.query()["FID_INPUT_ISCD"]) == ("J", "005930")
    headers = bench.requests[-1].headers
    assert headers["authorization"] == "Bearer kis-token-made-up"
    assert headers["tr_id"] == "FHKST01010100"
    assert not any("made-up" in each.url for each in bench.requests)


async def test_two_processes_and_many_askers_share_one_token(bench: DocumentBench) -> None:
    """Trap 23: one token a minute, and a message to the owner for each."""
    one, other = bench.open(**KIS), bench.open(**KIS)
    await asyncio.gather(samsung(one), one.bars("005930", SPAN), one.bars("005930", SPAN))
    await asyncio.gather(samsung(other), other.bars("005930", SPAN))
    assert tokens_asked(bench) == 1
    bench.clock.advance(20 * 3_600)
    await bench.open(**KIS).bars("005930", SPAN)
    assert tokens_asked(bench) == 1
    bench.clock.advance(3 * 3_600 + 60)
    await bench.open(**KIS).bars("005930", SPAN)
    assert tokens_asked(bench) == 2


async def test_a_token_that_is_refused_is_asked_for_again_after_a_minute_and_not_before(bench: DocumentBench) -> None:
    await samsung(bench.open(**KIS))
    bench.answers[PRICE] = (500, b'{"rt_cd": "1", "msg_cd": "EGW00123", "msg1": "expired"}')
    bench.clock.advance(30)
    assert "KIS refused access" in str(await samsung(bench.open(**KIS)))
    assert "KIS was asked too often" in str(await samsung(bench.open(**KIS)))
    assert tokens_asked(bench) == 1
    bench.clock.advance(60)
    await samsung(bench.open(**KIS))
    assert tokens_asked(bench) == 2


@pytest.mark.parametrize(
    ("path", "answer", "says"),
    [
        (PRICE, (500, b'{"rt_cd": "1", "msg_cd": "EGW00201"}'), "was asked too often"),
        (PRICE, b'{"rt_cd": "7", "msg_cd": "MCA05918", "msg1": "x"}', "does not have it"),
        (PRICE, b'{"rt_cd": "0", "msg_cd": "MCA00000"}', "cannot be read"),
        (PRICE, (500, b"<html>oops</html>"), "did not answer"),
        (TOKEN, (403, b'{"error_code": "EGW00133", "error_description": "1/min"}'), "was asked too often"),
        (TOKEN, (403, b'{"error_code": "EGW00103", "error_description": "bad key"}'), "refused access"),
        (TOKEN, b'{"access_token": "", "expires_in": 86400}', "cannot be read"),
        (TOKEN, b"{}", "cannot be read"),
    ],
)
async def test_an_error_is_told_apart_whatever_its_status(
    bench: DocumentBench, path: str, answer: bytes | tuple[int, bytes], says: str
) -> None:
    """Trap 9: `rt_cd` and not the status says whether it went well."""
    bench.answers[path] = answer
    found = await samsung(bench.open(**KIS))
    assert isinstance(found, AllSourcesFailed)
    assert f"KIS {says}" in str(found) or says in str(found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prdy_vrss_sign": "2"},  # up, with a base above the price
        {"prdy_vrss_sign": "9"},
        {"stck_prpr": "0"},
        {"stck_prpr": "NaN"},
        {"stck_prpr": "10050000"},
        {"stck_sdpr": "0"},
        {"stck_shrn_iscd": "005935"},
        {"stck_hgpr": "100000", "stck_lwpr": "99000"},
    ],
)
async def test_figures_that_contradict_each_other_are_no_price(bench: DocumentBench, wrong: dict[str, str]) -> None:
    body = KIS_PRICE | {"output": KIS_PRICE["output"] | wrong}
    bench.answers[PRICE] = json.dumps(body).encode()
    assert isinstance(await samsung(bench.open(**KIS)), AllSourcesFailed)


async def test_an_unsigned_change_is_read_by_its_code(bench: DocumentBench) -> None:
    """Trap 3."""
    body = KIS_PRICE | {"output": KIS_PRICE["output"] | {"prdy_vrss": "1500"}}
    bench.answers[PRICE] = json.dumps(body).encode()
    quote = await samsung(bench.open(**KIS))
    assert isinstance(quote, Quote)
    assert quote.change == -1_500


async def test_after_the_close_it_is_not_asked_for_a_price(bench: DocumentBench) -> None:
    bench.clock.advance(3 * 3_600)
    assert "KIS is behind" in str(await samsung(bench.open(**KIS)))
    assert bench.requests == []


async def test_bars_are_adjusted_in_order_and_longer_than_a_page(bench: DocumentBench) -> None:
    """Trap 4: for Korean bars 0 is adjusted."""
    series = await bench.open(**KIS).bars("005930", SPAN)
    assert [(bar.day.day, bar.close) for bar in series.bars] == [(12, 101_000), (13, 102_000)]
    assert (series.adjustment, bench.query()["FID_ORG_ADJ_PRC"]) == ("split", "0")
    days = [date(2026, 11, 13) - timedelta(days=number) for number in range(200)]
    page = [day for day in days if day.weekday() < 5][:100]
    rows = [kis_day(f"{day:%Y%m%d}", 100_000) for day in page]
    bench.answers[DAYS] = json.dumps({"rt_cd": "0", "output2": rows}).encode()
    bench.requests.clear()
    await bench.open(**KIS).bars("005930", BarRange(first=date(2026, 1, 2), last=date(2026, 11, 13)))
    queries = [parse_qs(urlsplit(each.url).query) for each in bench.requests if "chart" in each.url]
    second = f"{page[-1] - timedelta(days=1):%Y%m%d}"
    assert [each["FID_INPUT_DATE_2"][0] for each in queries] == ["20261113", second]  # nothing older came: no third


def test_its_port_is_open_only_when_it_has_its_keys() -> None:
    assert fetch_rules(MarketDataSettings()).ports == (80, 443)
    rules = fetch_rules(MarketDataSettings(keys=KIS["keys"]))
    assert rules.ports == (80, 443, 9443)
    assert "openapi.koreainvestment.com" in rules.allow
