"""Prices may move a little between the card and the yes; whatever else is another action is asked for anew."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.approvals.action import has_drifted

HALF = Decimal("0.5")


@pytest.mark.spec("DX-22")
@pytest.mark.parametrize(
    ("shown", "now", "drifted"),
    [
        (None, None, False),
        ({}, None, False),
        ({"price": 200}, {"price": 200}, False),
        ({"price": 200}, {"price": 201}, False),
        ({"price": 200}, {"price": 199}, False),
        ({"price": 200}, {"price": "201.01"}, True),
        ({"price": "200.00"}, {"price": Decimal("198.99")}, True),
        ({"price": 0}, {"price": 0}, False),
        ({"price": 0}, {"price": Decimal("0.0001")}, True),
        ({"price": -200}, {"price": 200}, True),
        ({"price": 200}, {}, True),
        ({"price": 200}, {"price": 200, "fee": 1}, True),
        (None, {"price": 200}, True),
        ({"currency": "USD"}, {"currency": "USD"}, False),
        ({"currency": "USD"}, {"currency": "KRW"}, True),
        ({"open": True}, {"open": 1.001}, True),
        ({"open": True}, {"open": False}, True),
        ({"price": 200}, {"price": "NaN"}, True),
        ({"price": 200}, {"price": float("inf")}, True),
        ({"price": 200}, {"price": None}, True),
        ({"legs": [1]}, {"legs": [1]}, False),
        ({"legs": [1]}, {"legs": [2]}, True),
    ],
    ids=str,
)
def test_what_has_moved_too_far(shown: Any, now: Any, drifted: bool) -> None:
    assert has_drifted(shown, now, HALF) is drifted


PRICES = st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=4)


@given(PRICES, PRICES)
def test_no_percent_is_exact_and_more_percent_is_never_stricter(before: Decimal, after: Decimal) -> None:
    shown, now = {"price": before}, {"price": after}
    assert has_drifted(shown, now, Decimal(0)) is (before != after)
    assert has_drifted(shown, now, Decimal(50)) >= has_drifted(shown, now, Decimal(60))
