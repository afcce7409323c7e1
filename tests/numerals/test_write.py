"""Numbers that code writes: right for the locale, exact, and with the sign that they have."""

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.numerals.read import read_numeral
from finclaw.numerals.write import format_financial_number

D = Decimal


@pytest.mark.spec("F-04", "F-05")
@pytest.mark.parametrize(
    ("value", "options", "english", "korean"),
    [
        (D("1234567.891"), {}, "1,234,567.891", "1,234,567.891"),
        (D("71200"), {"currency": "KRW"}, "₩71,200", "₩71,200"),
        (D("71200"), {"currency": "KRW", "currency_display": "name"}, "71,200 South Korean won", "71,200원"),
        (D("190.5"), {"currency": "USD"}, "$190.50", "US$190.50"),
        (D("190.5"), {"currency": "USD", "currency_display": "code"}, "190.50 USD", "190.50 USD"),
        (D("190.5"), {"currency": "USD", "currency_display": "name"}, "190.50 US dollars", "190.50달러"),
        (D("-1234.5"), {"currency": "USD", "show_sign": True}, "-$1,234.50", "-US$1,234.50"),
        (D("1234.5"), {"currency": "USD", "show_sign": True}, "+$1,234.50", "+US$1,234.50"),
        (D("0.00123456"), {"currency": "BTC"}, "0.00123456 BTC", "0.00123456 BTC"),
        (D("1234.5"), {"currency": "JPY"}, "¥1,235", "JP¥1,235"),
        (D("0.0123"), {"style": "percent"}, "1.23%", "1.23%"),
        (D("-0.05"), {"style": "percent", "min_digits": 1, "show_sign": True}, "-5.0%", "-5.0%"),
        (D("0.05"), {"style": "percent", "show_sign": True}, "+5%", "+5%"),
        (D("123456789"), {"style": "compact"}, "123.5M", "1.2억"),
        (D("123456789"), {"style": "compact", "currency": "KRW"}, "₩123.5M", "₩1.2억"),
        (D("1450000000000"), {"style": "compact", "currency": "KRW"}, "₩1.5T", "₩1.5조"),
        (D("15000"), {"style": "compact", "currency": "USD", "currency_display": "code"}, "15K USD", "1.5만 USD"),
        (D("2.345"), {"max_digits": 2}, "2.35", "2.35"),
        (D("2.675"), {"currency": "USD"}, "$2.68", "US$2.68"),
        (D("2"), {"min_digits": 2}, "2.00", "2.00"),
        (D("-0.001"), {"max_digits": 2, "show_sign": True}, "0", "0"),
        (D("0.001"), {"currency": "USD", "show_sign": True}, "$0.00", "US$0.00"),
        (7, {"show_sign": True}, "+7", "+7"),
        (10**40 + 1, {}, f"{10**40 + 1:,}", f"{10**40 + 1:,}"),
    ],
)  # fmt: skip
def test_values_have_the_form_of_their_locale(
    value: Decimal | int, options: dict[str, Any], english: str, korean: str
) -> None:
    assert format_financial_number(value, "en", **options) == english
    assert format_financial_number(value, "ko-KR", **options) == korean


@pytest.mark.spec("F-05")
def test_other_locales_have_their_own_form() -> None:
    assert format_financial_number(D("1234.5"), "de", "EUR") == "1.234,50\xa0€"
    assert format_financial_number(D("0.125"), "fr_FR", style="percent", max_digits=1) == "12,5\xa0%"
    assert format_financial_number(D("1234.5"), "xx-nowhere") == "1,234.5", "nobody knows it: as in English"


@pytest.mark.spec("F-04")
@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=D(-(10**18)), max_value=D(10**18)),
    st.sampled_from(["en", "ko"]),
)
def test_no_digit_is_invented_or_lost(value: Decimal, locale: str) -> None:
    written = format_financial_number(value, locale, show_sign=True)
    sign, digits = re.fullmatch(r"([-+]?)(.*)", written, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    assert read_numeral(digits, 0).value == abs(value)
    assert sign == ("-" if value < 0 else "+" if value > 0 else "")


@pytest.mark.parametrize("value", [1.5, True, "1", D("NaN"), D("Infinity"), D("1e500")])
def test_what_is_not_exact_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        format_financial_number(value)
