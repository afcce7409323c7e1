"""Fixings of the European Central Bank, with their day, from two places."""

from datetime import date
from decimal import Decimal

import pytest
from tests.finance.sources.bench import Bench

from finclaw.finance.market_data.errors import AllSourcesFailed, DataImplausible, DataStale


@pytest.mark.parametrize(
    ("disabled", "source", "rate"),
    [((), "Frankfurter (ECB)", Decimal("1402.31")), (("frankfurter",), "ECB", Decimal("1402.308403"))],
)
async def test_a_fixing_says_whose_it_is_and_of_which_day(
    bench: Bench, disabled: tuple[str, ...], source: str, rate: Decimal
) -> None:
    """Trap 8: Frankfurter is asked for the ECB alone, and on a Monday the day is Friday's."""
    fixing = await bench.open(disabled=disabled).fx("USD", "KRW", "fixing")
    assert (fixing.source, fixing.rate, fixing.basis, fixing.day) == (source, rate, "fixing", date(2026, 11, 13))
    if source != "ECB":
        assert bench.vendors.asked == ["/frankfurter/api/rates?base=USD&quotes=KRW&providers=ECB"]


@pytest.mark.parametrize(
    ("day", "error"),
    [("2026-11-17", None), ("2026-11-18", DataImplausible), ("2026-11-06", DataStale), ("2026-11-13", None)],
)
async def test_tomorrows_date_is_allowed_and_no_later_one(
    bench: Bench, day: str, error: type[Exception] | None
) -> None:
    """Trap 21: what is published in the evening may carry the next day."""
    bench.vendors.changes["frankfurter_rates"] = [{"date": day, "base": "USD", "quote": "KRW", "rate": 1402.31}]
    data = bench.open(disabled=("ecb",))
    if error is None:
        assert (await data.fx("USD", "KRW", "fixing")).day == date.fromisoformat(day)
        return
    with pytest.raises(AllSourcesFailed) as refused:
        await data.fx("USD", "KRW", "fixing")
    (cause,) = refused.value.causes
    assert isinstance(cause, error)
    assert cause.source == "Frankfurter (ECB)"
    assert str(cause).startswith("Frankfurter (ECB)'s fixing of USD/KRW is of ")


async def test_a_rate_of_the_moment_is_no_fixing(bench: Bench) -> None:
    spot = await bench.open().fx("USD", "KRW")
    assert (spot.basis, spot.rate, spot.source) == ("spot", Decimal("1400.5"), "Naver")
