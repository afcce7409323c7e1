"""What is believed of a source's price, and what is not."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, ExtendedPrice
from finclaw.finance.market_data.errors import DataError, DataImplausible, DataMalformed, DataStale
from finclaw.finance.market_data.plausible import (
    PriceReading,
    accept_reading,
    check_bars,
    check_reading,
    has_price_limit,
    is_rare,
)

CALENDAR = TableCalendar()
SAMSUNG = Instrument(symbol="005930", exchange="KRX", name_en="Samsung", name_ko="삼성전자", currency="KRW")
KODEX = replace(SAMSUNG, symbol="069500", kind="etf")
APPLE = Instrument(symbol="AAPL", exchange="NASDAQ", name_en="Apple", name_ko="애플", currency="USD")
BITCOIN = Instrument(symbol="BTC-USD", exchange="CRYPTO", name_en="B", name_ko="B", currency="USD", kind="coin")
WON = Instrument(symbol="USD/KRW", exchange="FX", name_en="won", name_ko="원", currency="KRW", kind="rate")
MORNING = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)  # 11:00 in Seoul, a Monday
EVENING = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)  # 17:00 in Seoul
CLOSE = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
FRIDAY = datetime(2026, 11, 13, 6, 30, tzinfo=UTC)


def reading(**fields: Any) -> PriceReading:
    return replace(
        PriceReading(
            instrument=SAMSUNG,
            source="Somebody",
            price=Decimal(100_500),
            currency="KRW",
            as_of=MORNING,
            previous_close=Decimal(102_000),
            low=Decimal(100_000),
            high=Decimal(102_500),
        ),
        **fields,
    )


def test_a_price_of_the_running_session_is_believed() -> None:
    check_reading(reading(), CALENDAR, MORNING)
    quote = accept_reading(reading(), CALENDAR, MORNING)
    assert (quote.price, quote.previous_close, quote.phase, quote.close) == (100_500, 102_000, "regular", None)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"price": Decimal(0)}, DataImplausible),
        ({"price": Decimal(-5)}, DataImplausible),
        ({"price": Decimal("NaN")}, DataImplausible),
        ({"price": Decimal("Infinity")}, DataImplausible),
        ({"previous_close": Decimal(0)}, DataImplausible),
        ({"previous_close": Decimal("NaN")}, DataImplausible),
        ({"previous_close": None}, DataMalformed),
        ({"currency": "USD"}, DataImplausible),
        ({"price": Decimal(99_999)}, DataImplausible),
        ({"price": Decimal(10_050_000)}, DataImplausible),
        ({"as_of": MORNING + timedelta(minutes=3)}, DataImplausible),
        ({"as_of": MORNING - timedelta(hours=8)}, DataImplausible),
        ({"as_of": FRIDAY}, DataStale),
        ({"as_of": FRIDAY - timedelta(days=7)}, DataStale),
    ],
)
def test_what_cannot_be_right_is_refused(wrong: dict[str, Any], error: type[DataError]) -> None:
    with pytest.raises(error):
        check_reading(reading(**wrong), CALENDAR, MORNING)


def test_right_after_the_open_the_last_session_still_holds() -> None:
    early = MORNING - timedelta(hours=1, minutes=50)
    last = reading(as_of=FRIDAY)
    check_reading(last, CALENDAR, early)
    assert accept_reading(last, CALENDAR, early).phase == "closed"


def test_after_the_close_the_price_is_the_close_and_a_later_stamp_is_the_close() -> None:
    late = reading(as_of=CLOSE + timedelta(minutes=12))
    check_reading(late, CALENDAR, EVENING)
    quote = accept_reading(late, CALENDAR, EVENING)
    assert (quote.close, quote.phase, quote.as_of) == (Decimal(100_500), "closed", CLOSE)


AFTER = ExtendedPrice(price=Decimal(100_900), phase="after", venue="NXT", as_of=EVENING - timedelta(minutes=1))


def test_the_after_market_is_a_line_of_its_own() -> None:
    """Trap 2: after 15:30 the newer price is not the close."""
    quote = accept_reading(reading(as_of=CLOSE, extended=AFTER), CALENDAR, EVENING)
    assert (quote.price, quote.close) == (Decimal(100_500), Decimal(100_500))
    assert quote.extended == AFTER


@pytest.mark.parametrize(
    ("instrument", "now", "extended"),
    [
        (KODEX, EVENING, AFTER),
        (SAMSUNG, MORNING, AFTER),
        (SAMSUNG, EVENING, replace(AFTER, price=Decimal(0))),
        (SAMSUNG, EVENING, replace(AFTER, price=Decimal(1_009_000))),
        (SAMSUNG, EVENING, replace(AFTER, as_of=FRIDAY + timedelta(hours=4))),
        (SAMSUNG, EVENING, replace(AFTER, as_of=EVENING + timedelta(hours=1))),
    ],
)
def test_an_after_market_price_that_cannot_be_is_left_out(
    instrument: Instrument, now: datetime, extended: ExtendedPrice
) -> None:
    at = min(now, CLOSE)
    quote = accept_reading(reading(instrument=instrument, as_of=at, extended=extended), CALENDAR, now)
    assert quote.extended is None


@pytest.mark.parametrize(
    ("instrument", "price", "last", "rare"),
    [
        (SAMSUNG, "132600", None, False),
        (SAMSUNG, "71400", None, False),
        (SAMSUNG, "140000", None, True),
        (SAMSUNG, "102000", "1020", True),
        (KODEX, "150000", None, False),
        (KODEX, "170000", None, True),
        (APPLE, "140000", None, True),
    ],
)
def test_a_move_beyond_thirty_percent_wants_a_second_word(
    instrument: Instrument, price: str, last: str | None, *, rare: bool
) -> None:
    word = reading(instrument=instrument, price=Decimal(price))
    assert is_rare(word, Decimal(last) if last else None) is rare


def test_only_korea_forbids_a_large_move() -> None:
    assert has_price_limit(SAMSUNG)
    assert not has_price_limit(APPLE)


def test_a_rate_per_hundred_or_upside_down_is_refused() -> None:
    """Trap 8."""
    rate = reading(instrument=WON, low=None, high=None, previous_close=Decimal(1_400))
    check_reading(replace(rate, price=Decimal("1400.5")), CALENDAR, MORNING)
    for wrong in ("140050", "14.005", "0.000714"):
        with pytest.raises(DataImplausible):
            check_reading(replace(rate, price=Decimal(wrong)), CALENDAR, MORNING)


@pytest.mark.parametrize(
    ("day", "error"),
    [
        (date(2026, 11, 13), None),
        (date(2026, 11, 17), None),
        (date(2026, 11, 18), DataImplausible),
        (date(2026, 11, 1), DataStale),
    ],
)
def test_a_fixing_may_be_of_tomorrow_and_not_of_the_day_after(day: date, error: type[DataError] | None) -> None:
    """Trap 21."""
    rate = reading(instrument=WON, price=Decimal(1_400), previous_close=Decimal(1_400), low=None, high=None, fixing=day)
    if error is None:
        check_reading(rate, CALENDAR, MORNING)
        return
    with pytest.raises(error):
        check_reading(rate, CALENDAR, MORNING)


def test_a_coin_is_never_closed_and_goes_stale_in_an_hour() -> None:
    coin = reading(instrument=BITCOIN, currency="USD", day_basis="00:00 UTC")
    check_reading(coin, CALENDAR, MORNING)
    assert accept_reading(coin, CALENDAR, MORNING).phase == "continuous"
    with pytest.raises(DataStale):
        check_reading(replace(coin, as_of=MORNING - timedelta(hours=2)), CALENDAR, MORNING)


@given(
    price=st.decimals(allow_nan=True, allow_infinity=True),
    before=st.one_of(st.none(), st.decimals(allow_nan=True, allow_infinity=True)),
)
def test_whatever_is_accepted_is_a_positive_number_within_the_day(price: Decimal, before: Decimal | None) -> None:
    word = reading(price=price, previous_close=before)
    try:
        check_reading(word, CALENDAR, MORNING)
    except DataError:
        return
    quote = accept_reading(word, CALENDAR, MORNING)
    assert 100_000 <= quote.price <= 102_500
    assert quote.previous_close > 0


def bar(day: int, *prices: int, volume: int = 1) -> Bar:
    opens = datetime(2026, 11, day, tzinfo=UTC)
    first, high, low, close = map(Decimal, prices)
    return Bar(day=opens.date(), starts=opens, ends=opens, open=first, high=high, low=low, close=close, volume=volume)


def test_a_day_without_a_trade_is_no_low_of_zero() -> None:
    """Trap 11."""
    kept = check_bars((bar(13, 5, 6, 4, 5), bar(12, 0, 0, 0, 5, volume=0), bar(11, 4, 5, 4, 5)), "X")
    assert [each.day.day for each in kept] == [11, 13]
    assert min(each.low for each in kept) == 4


@pytest.mark.parametrize("wrong", [bar(13, 5, 4, 6, 5), bar(13, 5, 6, 4, 9), bar(13, 5, 6, 4, 0), bar(13, 0, 6, 4, 5)])
def test_bars_that_cannot_be_are_refused(wrong: Bar) -> None:
    """Trap 15: fields taken in the wrong order show in the order of low, open, close and high."""
    with pytest.raises(DataImplausible):
        check_bars((wrong,), "X")


def test_two_bars_of_one_day_are_refused() -> None:
    with pytest.raises(DataMalformed):
        check_bars((bar(13, 5, 6, 4, 5), bar(13, 5, 6, 4, 5)), "X")
