"""Every vendor with every fault: the next source answers, or nobody does. A wrong number is never shown."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from tests.finance.sources.bench import CASES, KEYED, Bench, open_keyed
from tests.finance.sources.documents import KEYS
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import Vendors

from finclaw.finance.market import Quote
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.settings import DEFAULT_CHAINS, MarketDataSettings
from finclaw.finance.market_data.source_info import SOURCES

TRUE: Final = {
    "005930": {(100_500, 102_000), (100_600, 102_000)},
    "KOSPI": {(Decimal("3951.24"), Decimal("3983.35")), (Decimal("3952.1"), Decimal("3983.35"))},
    "AAPL": {
        *((Decimal("250.12"), Decimal("251.3")), (Decimal("250.1"), Decimal("251.3"))),
        (Decimal("251.3"), Decimal(250)),  # Alpaca's
    },
    "USD/KRW": {(Decimal("1400.5"), Decimal(1403)), (Decimal("1401.1"), Decimal("1403.2"))},
    "BTC-KRW": {(141_000_000, 140_000_000), (141_050_000, 140_600_000)},
    "BTC-USD": {(Decimal("100210.55"), Decimal("99480.1")), (Decimal(100_215), Decimal(99_490))},
}
"""Price and previous close as one vendor or the other has them in the fixtures."""
BARS: Final = [(vendor, symbol) for vendor, symbol in CASES if symbol not in ("KOSPI", "USD/KRW")]
CLOSES: Final = {
    "005930": {98_000, 98_700, 99_100, 99_900, 100_400, 101_100, 100_900, 101_500, 102_000, 100_500, 100_600},
    "AAPL": {Decimal(each) for each in ("246", "247.5", "249", "251.3", "250.12")},
    "BTC-KRW": {each + more for each in (141_000_000, 140_000_000, 139_500_000, 138_800_000) for more in (0, 50_000)},
    "BTC-USD": {Decimal(each) + more for each in ("100210.55", "99480.1", "98790", "98120") for more in (0, 4)},
}
BELIEVABLE: Final = ("zeros", "NaN as text", "nulls", "future", "wrong currency", "times 100", "last price times 100")
"""Faults that leave an answer in its shape: they are tried in more ways than the others."""
FIXINGS: Final = {Decimal("1402.31"), Decimal("1402.308403")}


def test_every_source_is_in_the_table() -> None:
    settings = MarketDataSettings(keys=KEYS)
    priced = {each for key in DEFAULT_CHAINS if key.endswith(".quote") for each in settings.chain(key)}
    assert set(SOURCES) & priced == {vendor for vendor, _ in (*CASES, *KEYED)}


@pytest.mark.parametrize(("vendor", "symbol"), KEYED)
async def test_a_source_with_a_key_is_asked_first(tmp_path: Path, vendor: str, symbol: str) -> None:
    quote = (await open_keyed(tmp_path, Vendors(), vendor).quotes([symbol]))[symbol]
    assert isinstance(quote, Quote)
    assert (quote.source, quote.failed) == (SOURCES[vendor].name, ())
    assert (quote.price, quote.previous_close) in TRUE[symbol]


@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("vendor", "symbol"), KEYED)
async def test_a_fault_of_a_source_with_a_key_never_becomes_a_price(
    tmp_path: Path, vendor: str, symbol: str, fault: str, *, is_alone: bool
) -> None:
    """Alone it has been right before, so that a changed unit shows although nobody confirms anything."""
    vendors = Vendors()
    others = tuple(each for each in SOURCES if each != vendor) if is_alone else ()
    if is_alone:
        await open_keyed(tmp_path, vendors, vendor).quotes([symbol])
    vendors.faults[vendor] = FAULTS[fault]
    answer = (await open_keyed(tmp_path, vendors, vendor, disabled=others).quotes([symbol]))[symbol]
    if isinstance(answer, Quote):
        assert (answer.price, answer.previous_close) in TRUE[symbol]
    else:
        assert isinstance(answer, AllSourcesFailed)
        assert answer.causes


@pytest.mark.parametrize(
    ("fault", "known"), [*((fault, False) for fault in FAULTS), *((fault, True) for fault in BELIEVABLE)]
)
@pytest.mark.parametrize(("vendor", "symbol"), CASES)
async def test_a_fault_never_becomes_a_price(
    bench: Bench, vendor: str, symbol: str, fault: str, *, known: bool
) -> None:
    if known:
        await bench.quote(symbol)
        bench.clock.advance(60)
    bench.vendors.faults[vendor] = FAULTS[fault]
    answer = (await bench.open().quotes([symbol]))[symbol]
    if isinstance(answer, DataError):
        assert isinstance(answer, AllSourcesFailed)
        assert answer.causes
        assert all(each.source in str(each) for each in answer.causes)
        assert all(each.source for each in answer.causes)
        assert "give no figure" in str(answer)
        return
    assert isinstance(answer, Quote)
    assert (answer.price, answer.previous_close) in TRUE[symbol]
    assert answer.as_of <= bench.clock.now()


@pytest.mark.parametrize("fault", BELIEVABLE)
@pytest.mark.parametrize(("vendor", "symbol"), CASES)
async def test_with_nobody_else_to_ask_a_fault_is_refused(bench: Bench, vendor: str, symbol: str, fault: str) -> None:
    """The price is known from before, so that a changed unit shows although nobody confirms anything."""
    others = tuple(each for each in SOURCES if each != vendor)
    await bench.quote(symbol)
    bench.clock.advance(60)
    bench.vendors.faults[vendor] = FAULTS[fault]
    answer = (await bench.open(disabled=others).quotes([symbol]))[symbol]
    if isinstance(answer, Quote):
        assert (answer.price, answer.previous_close) in TRUE[symbol]
    else:
        assert isinstance(answer, AllSourcesFailed)


@pytest.mark.parametrize("fault", [*BELIEVABLE, "html", "error note", "NaN", "renamed column", "empty list", "500"])
@pytest.mark.parametrize(("vendor", "symbol"), BARS)
async def test_a_fault_never_becomes_a_bar(bench: Bench, vendor: str, symbol: str, fault: str) -> None:
    span = BarRange(first=date(2026, 11, 9), last=date(2026, 11, 16))
    bench.vendors.faults[vendor] = FAULTS[fault]
    try:
        series = await bench.open().bars(symbol, span)
    except AllSourcesFailed:
        return
    assert {bar.close for bar in series.bars} <= CLOSES[symbol]
    assert all(0 < bar.low <= bar.close <= bar.high for bar in series.bars)
    assert all(span.first <= bar.day <= span.last and bar.starts <= bench.clock.now() for bar in series.bars)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("vendor", ["frankfurter", "ecb"])
async def test_a_fault_never_becomes_a_fixing(bench: Bench, vendor: str, fault: str) -> None:
    """The other one is switched off for the second, which would never be asked."""
    bench.vendors.faults[vendor] = FAULTS[fault]
    data = bench.open(disabled=("frankfurter",) if vendor == "ecb" else ())
    try:
        rate = await data.fx("USD", "KRW", "fixing")
    except AllSourcesFailed:
        return
    assert rate.rate in FIXINGS
    assert rate.day == date(2026, 11, 13)
