"""Every vendor with every fault: the next source answers, or nobody does. A wrong number is never shown."""

from decimal import Decimal
from typing import Final

import pytest
from tests.finance.sources.bench import Bench
from tests.finance.sources.faults import FAULTS

from finclaw.finance.market import Quote
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError
from finclaw.finance.sources.registry import make_sources

TRUE: Final = {
    "005930": {(100_500, 102_000), (100_600, 102_000)},
    "KOSPI": {(Decimal("3951.24"), Decimal("3983.35")), (Decimal("3952.10"), Decimal("3983.35"))},
    "AAPL": {(Decimal("250.12"), Decimal("251.30")), (Decimal("250.10"), Decimal("251.30"))},
    "USD/KRW": {(Decimal("1400.50"), Decimal("1403.00")), (Decimal("1401.10"), Decimal("1403.2"))},
}
"""Price and previous close as one vendor or the other has them in the fixtures."""
CASES: Final = [("naver", "005930"), ("naver", "KOSPI"), ("naver", "USD/KRW"), ("yahoo", "AAPL"), ("yahoo", "005930")]


def test_every_source_is_in_the_table() -> None:
    assert set(make_sources()) == {vendor for vendor, _ in CASES}


@pytest.mark.parametrize("known", [False, True], ids=["first price", "price known before"])
@pytest.mark.parametrize("fault", FAULTS)
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
        assert "give no figure" in str(answer)
        return
    assert isinstance(answer, Quote)
    assert (answer.price, answer.previous_close) in TRUE[symbol]
    assert answer.as_of <= bench.clock.now()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("vendor", "symbol"), CASES)
async def test_with_nobody_else_to_ask_a_fault_is_refused(bench: Bench, vendor: str, symbol: str, fault: str) -> None:
    """The price is known from before, so that a changed unit shows; nobody else confirms anything."""
    others = tuple(each for each in make_sources() if each != vendor)
    await bench.quote(symbol)
    bench.clock.advance(60)
    bench.vendors.faults[vendor] = FAULTS[fault]
    answer = (await bench.open(disabled=others).quotes([symbol]))[symbol]
    if isinstance(answer, Quote):
        # A rare move outside of Korea may be real: it is shown, and called unconfirmed.
        assert (answer.price, answer.previous_close) in TRUE[symbol] or not answer.is_confirmed
    else:
        assert isinstance(answer, AllSourcesFailed)
