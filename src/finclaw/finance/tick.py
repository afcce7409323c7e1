"""The smallest step a price can move by. A price between two steps was never traded and betrays itself as invented."""

from decimal import ROUND_HALF_EVEN, Decimal

_KRX_STEPS = (
    (2_000, 1),
    (5_000, 5),
    (20_000, 10),
    (50_000, 50),
    (200_000, 100),
    (500_000, 500),
)
"""Below this price, this step; the exchange's table of January 2023."""
_KRX_TOP_STEP = 1_000

_FIXED_STEPS = {
    "NASDAQ": Decimal("0.01"),
    "CRYPTO": Decimal("0.01"),
    "FX": Decimal("0.10"),
}


def tick_size(exchange: str, price: Decimal) -> Decimal:
    """Raises KeyError for an exchange whose rules we do not know: no default can be right."""
    if exchange == "KRX":
        return Decimal(next((step for below, step in _KRX_STEPS if price < below), _KRX_TOP_STEP))
    return _FIXED_STEPS[exchange]


def to_tick(exchange: str, price: Decimal) -> Decimal:
    """The nearest price that can be traded. Every bound of the KRX table is a step of the row above it too."""
    size = tick_size(exchange, price)
    return (price / size).to_integral_value(ROUND_HALF_EVEN) * size
