"""Canaries: right sources are called right, and what is wrong, down or refused says what to do."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.finance.sources.bench import BASE, INSTRUMENTS
from tests.finance.sources.documents import APPLE, KEYS
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import NOW, VendorFetcher, Vendors, load_fixture, settings_for

from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instrument import Instrument
from finclaw.finance.live import CANARIES, KNOWN_ON, LiveProbe, ProbeResult
from finclaw.finance.live_market import MIGRATIONS, open_access
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.testing import FakeClock

ROOT = Path(__file__).parents[3]


def open_bench(state: Path, vendors: Vendors, **settings: Any) -> LiveProbe:
    settings = {"keys": KEYS, "contact": "ops@example.com"} | settings
    spx = Instrument(symbol="SPX", exchange="NYSE", name_en="x", name_ko="x", currency="USD", kind="index")
    known: Mapping[str, Instrument] = {**INSTRUMENTS, "SPX": spx, "AAPL": APPLE}
    database = ExtensionDatabase(state, "finance", MIGRATIONS, threaded=False)
    made, fetcher = settings_for(BASE, **settings), VendorFetcher(vendors)
    return LiveProbe(open_access(made, fetcher, database, FakeClock(NOW), TableCalendar()), known.get)


async def ask(state: Path, source: str, fault: str, **settings: Any) -> ProbeResult:
    """The last word about a source with a fault."""
    vendors = Vendors()
    vendors.faults[source] = FAULTS[fault]
    return (await open_bench(state, vendors, **settings).ask(source))[-1]


def test_every_source_has_a_canary() -> None:
    assert set(CANARIES) == set(SOURCES)


async def test_healthy_sources_are_right_and_say_their_figures(tmp_path: Path) -> None:
    results = await open_bench(tmp_path, Vendors()).ask_all(tuple(SOURCES))
    assert {each.source for each in results} == set(SOURCES)
    assert [(each.source, each.figures) for each in results if each.verdict != "right"] == []
    told = {(each.source, each.question): each.figures for each in results}
    assert told["naver", "price of 005930"] == "100,500 KRW as of 2026-11-16 04:59 UTC"
    assert told["naver", "price of KOSPI"].startswith("3,951.24 points")
    assert told["frankfurter", "fixing of USD/KRW"].endswith("on 2026-11-13")


@pytest.mark.parametrize(
    ("fault", "verdict", "advice"),
    [
        ("times 100", "wrong", "market_data.disabled: [{}]"),
        ("renamed column", "wrong", "market_data.disabled: [{}]"),
        ("html called json", "wrong", "market_data.disabled: [{}]"),
        ("zeros", "wrong", "market_data.disabled: [{}]"),
        ("future", "wrong", "market_data.disabled: [{}]"),
        ("500", "down", "look at your network"),
        ("429", "limited", "wait (again at "),
        ("403", "refused", "check its key or contact"),
    ],
)
@pytest.mark.parametrize("source", ["naver", "yahoo", "upbit", "coinbase", "ecb"])
async def test_a_source_that_is_broken_says_how_and_what_to_do(
    tmp_path: Path, source: str, fault: str, verdict: str, advice: str
) -> None:
    result = await ask(tmp_path, source, fault)
    assert (result.verdict, advice.format(source) in result.advice) == (verdict, True), result
    assert SOURCES[source].name in result.figures


async def test_two_indices_that_are_mixed_up_are_wrong(tmp_path: Path) -> None:
    """Trap 5: both levels are in their ranges, and each is the other's."""
    vendors = Vendors()
    body = load_fixture("naver_indices")
    code = {"KOSPI": "KOSDAQ", "KOSDAQ": "KOSPI"}
    swapped = [each | {"itemCode": code.get(each["itemCode"], each["itemCode"])} for each in body["datas"]]
    vendors.changes["naver_indices"] = body | {"datas": swapped}
    results = await open_bench(tmp_path, vendors).ask("naver")
    (wrong,) = [each for each in results if each.verdict == "wrong"]
    assert "the two are mixed up" in wrong.figures


async def test_what_is_not_asked_says_why(tmp_path: Path) -> None:
    probe = open_bench(tmp_path, Vendors(), keys={}, contact="", disabled=("yahoo",))
    told = {each.source: each.figures for each in await probe.ask_all(("kis", "edgar", "yahoo"))}
    assert told["kis"] == "no key: set kis.key and kis.secret in market_data.keys to use it"
    assert "market_data.contact" in told["edgar"]
    assert "market_data.disabled" in told["yahoo"]


async def test_the_report_has_a_row_for_each_answer_with_its_verdict(tmp_path: Path) -> None:
    vendors = Vendors()
    vendors.faults["kraken"] = FAULTS["500"]
    results = await open_bench(tmp_path, vendors).ask_all(("naver", "kraken"))
    found = importlib.util.spec_from_file_location("finclaw_live_report", ROOT / "scripts" / "live_report.py")
    assert found is not None
    assert found.loader is not None
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    report: str = script.write_report(results, NOW)
    assert "on 2026-11-16 at 05:00 UTC" in report
    assert f"known on {KNOWN_ON}" in report
    rows = [line for line in report.splitlines() if line.startswith("| `")]
    assert len(rows) == len(results)
    assert rows[0].startswith("| `naver` | unofficial | price of 005930 | **right** | 100,500 KRW as of ")
    assert "**down**" in rows[-1]
    assert all(row.count("|") == 7 for row in rows)


@pytest.mark.parametrize("page", ["README.md", "README.ko.md"])
def test_until_there_is_a_report_the_readme_names_every_source_as_not_verified(page: str) -> None:
    text = (ROOT / page).read_text()
    if (ROOT / "docs" / "live-report.md").exists():
        assert "docs/live-report.md" in text, "link the report, and take away what it has verified"
        return
    said = next(each for each in text.split("\n- ") if "ot yet verified live" in each)
    assert [each.name for each in SOURCES.values() if each.name not in said] == []
