from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.finance.venue import Kind, tick_size, to_tick


@pytest.mark.parametrize(
    ("price", "step"),
    [
        (1_999, 1),
        (2_000, 5),
        (4_999, 5),
        (5_000, 10),
        (19_999, 10),
        (20_000, 50),
        (49_999, 50),
        (50_000, 100),
        (199_999, 100),
        (200_000, 500),
        (499_999, 500),
        (500_000, 1_000),
    ],
)
def test_the_steps_of_the_korean_exchange(price: int, step: int):
    assert tick_size("KRX", Decimal(price)) == step


def test_dollars_have_cents_and_rates_have_jeon():
    assert str(to_tick("NASDAQ", Decimal("228.4049"))) == "228.40"
    assert str(to_tick("FX", Decimal("1392.06"), "rate")) == "1392.10"


@pytest.mark.parametrize(
    ("exchange", "kind", "price", "step"),
    [
        ("KRX", "etf", "33250", "5"),
        ("KRX", "index", "2560", "0.01"),
        ("NYSE", "stock", "45.80", "0.01"),
        ("FX", "rate", "1.0560", "0.0001"),
        ("FX", "rate", "154.30", "0.01"),
        ("FX", "rate", "1392", "0.10"),
        ("CRYPTO", "coin", "1.12", "0.0001"),
        ("CRYPTO", "coin", "91200", "0.01"),
    ],
)
def test_the_steps_of_other_kinds(exchange: str, kind: Kind, price: str, step: str):
    assert tick_size(exchange, Decimal(price), kind) == Decimal(step)


def test_an_unknown_exchange_has_no_default():
    with pytest.raises(KeyError):
        tick_size("MOON", Decimal(1))


@given(
    st.sampled_from([("KRX", "stock"), ("KRX", "etf"), ("NASDAQ", "stock"), ("CRYPTO", "coin"), ("FX", "rate")]),
    st.decimals(min_value="1", max_value="2000000", places=4),
)
def test_a_rounded_price_stands_on_a_step_of_its_own_row(listed: tuple[str, Kind], price: Decimal):
    exchange, kind = listed
    rounded = to_tick(exchange, price, kind)
    assert rounded % tick_size(exchange, rounded, kind) == 0
    assert abs(rounded - price) <= tick_size(exchange, price, kind) / 2
    assert to_tick(exchange, rounded, kind) == rounded
