"""Readers of figures: what stands for nothing is None, and what is no number is refused."""

from decimal import Decimal

import pytest

from finclaw.finance.market_data.errors import DataMalformed
from finclaw.finance.sources.reading import read_number, read_optional


@pytest.mark.parametrize("nothing", [None, "", "-", "N/A", "."])
def test_a_sign_for_a_missing_value_is_none_and_not_zero(nothing: str | None) -> None:
    """Trap 20: FRED and others write a point where a day has no value."""
    assert read_optional(nothing, "a level") is None
    with pytest.raises(DataMalformed):
        read_number(nothing, "a level")


@pytest.mark.parametrize("wrong", ["..", "1.2.3", "NaN", "1e999", "12%", "1,00", True])
def test_what_is_no_number_is_refused_and_never_guessed(wrong: str | bool) -> None:
    with pytest.raises(DataMalformed):
        read_optional(wrong, "a level")
    assert read_optional("4.25", "a level") == Decimal("4.25")
