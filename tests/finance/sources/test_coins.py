"""Coins at four exchanges: the day that a change is counted from, the order of a candle, and ends of ranges."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from tests.finance.sources.bench import Bench, error_of, quote_of
from tests.finance.sources.faults import FAULTS

from finclaw.finance.market_data.errors import AllSourcesFailed, DataMalformed, DataRateLimited, DataUnsupported
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.quote import describe

WEEK = BarRange(first=date(2026, 11, 14), last=date(2026, 11, 16))


@pytest.mark.parametrize(
    ("symbol", "disabled", "source", "basis", "price", "before"),
    [
        ("BTC-KRW", (), "Upbit", "09:00 KST", 141_000_000, 140_000_000),
        ("BTC-KRW", ("upbit",), "Bithumb", "00:00 KST", 141_050_000, 140_600_000),
        ("BTC-USD", (), "Coinbase", "00:00 UTC", Decimal("100210.55"), Decimal("99480.1")),
        ("BTC-USD", ("coinbase",), "Kraken", "00:00 UTC", 100_215, 99_490),
    ],
)
async def test_a_coin_says_from_when_its_change_is_counted(
    bench: Bench,
    symbol: str,
    disabled: tuple[str, ...],
    source: str,
    basis: str,
    price: Decimal,
    before: Decimal,
) -> None:
    """Trap 7: one coin, four answers to how much it has moved today."""
    quote = await bench.quote(symbol, disabled=disabled)
    assert (quote.price, quote.previous_close, quote.source) == (price, before, source)
    assert (quote.day_basis, quote.phase) == (basis, "continuous")
    assert f"change_counted_from: {basis}" in describe(quote).splitlines()
    shown = str(price) if quote.instrument.currency == "KRW" else f"{price:.2f}"
    assert f"price: {shown}" in describe(quote).splitlines()  # written out, not 1.41E+8
    assert quote.source_label == f"{source} (change since {basis}{'' if quote.is_confirmed else ', unconfirmed'})"


async def test_several_coins_are_one_request_and_no_pair_of_a_dollar_token_is_asked_for(bench: Bench) -> None:
    await bench.open(disabled=("bithumb",)).quotes(["BTC-KRW", "ETH-KRW"])
    assert bench.vendors.asked == ["/upbit/api/ticker?markets=KRW-BTC%2CKRW-ETH"]
    bench.vendors.asked.clear()
    await bench.open().quotes(["BTC-USD"])
    assert not any("USDT" in path for path in bench.vendors.asked)


@pytest.mark.parametrize(
    ("symbol", "disabled", "starts"),
    [
        ("BTC-KRW", (), datetime(2026, 11, 14, 0, 0, tzinfo=UTC)),
        ("BTC-KRW", ("upbit",), datetime(2026, 11, 13, 15, 0, tzinfo=UTC)),
        ("BTC-USD", (), datetime(2026, 11, 14, 0, 0, tzinfo=UTC)),
        ("BTC-USD", ("coinbase",), datetime(2026, 11, 14, 0, 0, tzinfo=UTC)),
    ],
)
async def test_a_range_is_the_same_days_everywhere(
    bench: Bench, symbol: str, disabled: tuple[str, ...], starts: datetime
) -> None:
    """Trap 16: ends that are exclusive here and inclusive there. Trap 15: Coinbase writes low and high before open."""
    series = await bench.open(disabled=disabled).bars(symbol, WEEK)
    assert [bar.day.day for bar in series.bars] == [14, 15, 16]
    assert series.bars[0].starts == starts
    assert series.bars[-1].ends == bench.clock.now()  # the day is not over
    assert all(bar.low < bar.open < bar.high for bar in series.bars)
    assert series.day_basis


async def test_an_end_is_written_with_its_offset(bench: Bench) -> None:
    """Bithumb takes an end without one for a time in Seoul, Upbit for one in UTC."""
    await bench.open(disabled=("upbit",)).bars("BTC-KRW", WEEK)
    assert "to=2026-11-16T15%3A00%3A00%2B00%3A00" in bench.vendors.asked[-1]


async def test_what_looks_like_a_success_is_read_as_the_failure_that_it_is(bench: Bench) -> None:
    """Trap 9: Bithumb's errors may come with status 200, and Kraken's always do."""
    bench.vendors.faults |= {"bithumb": FAULTS["error note"], "kraken": FAULTS["kraken error"]}
    data = bench.open(disabled=("upbit", "coinbase"))
    won, dollars = await error_of(data, "BTC-KRW"), await error_of(data, "BTC-USD")
    assert isinstance(won, AllSourcesFailed)
    assert isinstance(dollars, AllSourcesFailed)
    assert isinstance(won.causes[0], DataMalformed)
    assert isinstance(dollars.causes[0], DataRateLimited)


async def test_a_coin_that_is_missing_from_an_answer_is_unsupported(bench: Bench) -> None:
    error = await error_of(bench.open(disabled=("bithumb",)), "SOL-KRW")
    assert isinstance(error, AllSourcesFailed)
    assert isinstance(error.causes[0], DataUnsupported)


async def test_a_ban_opens_the_breaker_at_once(bench: Bench) -> None:
    """Trap 22: 418 comes before longer and longer bans."""
    bench.vendors.faults["upbit"] = FAULTS["418"]
    data = bench.open()
    for _ in range(3):
        bench.clock.advance(6)
        assert (await quote_of(data, "BTC-KRW")).source == "Bithumb"
    assert bench.vendors.count("upbit") == 1


async def test_prices_in_won_and_in_dollars_are_two_instruments(bench: Bench) -> None:
    """Neither is ever converted into the other: the Korean market has a price of its own."""
    data = bench.open(disabled=("upbit", "bithumb"))
    assert isinstance(await error_of(data, "BTC-KRW"), DataUnsupported)
    assert bench.vendors.asked == []
