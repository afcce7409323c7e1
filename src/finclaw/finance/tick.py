"""Tick sizes: the smallest step a price can move by.

A price between two steps was never traded and betrays itself as invented.
"""

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal

Kind = Literal["stock", "etf", "index", "rate", "coin"]

_Steps = tuple[tuple[int, str], ...]
"""Below this price, this step; the last step is for everything above."""

_KRX: _Steps = (
    (2_000, "1"),
    (5_000, "5"),
    (20_000, "10"),
    (50_000, "50"),
    (200_000, "100"),
    (500_000, "500"),
    (0, "1000"),
)
"""The exchange's table of January 2023."""

_STEPS: dict[tuple[str, Kind], _Steps] = {
    ("KRX", "stock"): _KRX,
    ("KRX", "etf"): ((2_000, "1"), (0, "5")),
    ("KRX", "index"): ((0, "0.01"),),
    ("NYSE", "stock"): ((0, "0.01"),),
    ("NYSE", "etf"): ((0, "0.01"),),
    ("NYSE", "index"): ((0, "0.01"),),
    ("NASDAQ", "stock"): ((0, "0.01"),),
    ("NASDAQ", "etf"): ((0, "0.01"),),
    ("NASDAQ", "index"): ((0, "0.01"),),
    ("FX", "rate"): ((10, "0.0001"), (1_000, "0.01"), (0, "0.10")),
    ("CRYPTO", "coin"): ((10, "0.0001"), (0, "0.01")),
}


def tick_size(exchange: str, price: Decimal, kind: Kind = "stock") -> Decimal:
    """Raises KeyError for an exchange whose rules we do not know: no default can be right."""
    *rows, (_, top) = _STEPS[exchange, kind]
    return Decimal(next((step for below, step in rows if price < below), top))


def to_tick(exchange: str, price: Decimal, kind: Kind = "stock") -> Decimal:
    """The nearest price that can be traded. Every bound of a table is a step of the row above it too."""
    size = tick_size(exchange, price, kind)
    return (price / size).to_integral_value(ROUND_HALF_EVEN) * size
