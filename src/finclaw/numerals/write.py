"""Money, percentages and amounts in the reader's locale, from exact decimals; not for numerals in a model's text."""

from copy import copy
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from babel import Locale
    from babel.numbers import NumberPattern

NumberStyle = Literal["decimal", "percent", "compact"]
"""`percent`: the value is a ratio, 0.05 for 5%. `compact`: 1.2M, 1.2억."""
CurrencyDisplay = Literal["symbol", "code", "name"]

_DIGITS: Final = 8
"""The most behind the point of an amount that is no money, and of a currency that has no coins, as Bitcoin."""
_PERCENT_DIGITS: Final = 2
_COMPACT_DIGITS: Final = 1
_PRECISION: Final = 200  # digits of a value that are kept exactly
_SHORT_NAMES: Final = {
    "ko": {"KRW": "원", "USD": "달러", "JPY": "엔", "EUR": "유로", "CNY": "위안", "GBP": "파운드", "HKD": "홍콩달러"}
}
"""As people say them. The full names are for documents: 대한민국 원, 미국 달러."""


def format_financial_number(
    value: Decimal | int,
    locale: str = "en",
    currency: str = "",
    *,
    min_digits: int | None = None,
    max_digits: int | None = None,
    show_sign: bool = False,
    style: NumberStyle = "decimal",
    currency_display: CurrencyDisplay = "symbol",
) -> str:
    """A value in this locale, rounded half up. `show_sign`: a gain has a plus. What is rounded to 0 has no sign."""
    number = _read_value(value)
    known = _find_locale(locale)
    least, most = _choose_digits(currency, style, min_digits, max_digits)
    if style == "percent":
        number = _round(number, most + 2)
    elif style == "decimal":
        number = _round(number, most)
    with localcontext() as exact:
        exact.prec = _PRECISION
        exact.rounding = ROUND_HALF_UP
        if not currency:
            written = _write_amount(number, known, style, least, most)
        else:
            written = _write_money(number, known, currency, style, least, most, currency_display)
    if show_sign and number > 0 and any(each in written for each in "123456789"):
        return f"+{written}"
    return written


def _read_value(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise TypeError(f"a number is written from a Decimal or an int, not from {value!r}: a float is not exact")
    number = Decimal(value)
    if not number.is_finite() or number.adjusted() > _PRECISION // 2:
        raise ValueError(f"{value} is no amount that can be written")
    return number


@lru_cache(32)
def _find_locale(name: str) -> "Locale":
    """The locale of that name, or English."""
    from babel import Locale, UnknownLocaleError  # noqa: PLC0415 - 25 ms of `cold_start`

    try:
        return Locale.parse(name.replace("_", "-").partition(".")[0], sep="-")
    except (ValueError, UnknownLocaleError):
        return Locale("en")


def _choose_digits(currency: str, style: NumberStyle, least: int | None, most: int | None) -> tuple[int, int]:
    from babel.numbers import get_currency_precision, is_currency  # noqa: PLC0415 - 25 ms of `cold_start`

    usual_least = 0
    if style == "compact":
        usual_most = _COMPACT_DIGITS
    elif style == "percent":
        usual_most = _PERCENT_DIGITS
    elif currency and is_currency(currency):
        usual_least = usual_most = get_currency_precision(currency)
    else:
        usual_most = _DIGITS
    if most is None:
        most = max(usual_most, least or 0)
    if least is None:
        least = usual_least
    return min(least, most), most


def _round(number: Decimal, digits: int) -> Decimal:
    with localcontext() as exact:
        exact.prec = 2 * _PRECISION
        rounded = number.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return rounded or abs(rounded)


def _set_digits(pattern: "NumberPattern", least: int, most: int) -> "NumberPattern":
    changed = copy(pattern)
    changed.frac_prec = least, most
    return changed


def _write_amount(number: Decimal, locale: "Locale", style: NumberStyle, least: int, most: int) -> str:
    from babel.numbers import format_compact_decimal  # noqa: PLC0415 - 25 ms of `cold_start`

    if style == "compact":
        return format_compact_decimal(number, locale=locale, fraction_digits=most)
    formats = locale.percent_formats if style == "percent" else locale.decimal_formats
    return _set_digits(formats[None], least, most).apply(number, locale)


def _write_money(
    number: Decimal,
    locale: "Locale",
    currency: str,
    style: NumberStyle,
    least: int,
    most: int,
    display: CurrencyDisplay,
) -> str:
    from babel import numbers  # noqa: PLC0415 - 25 ms of `cold_start`

    symbol = numbers.get_currency_symbol(currency, locale)
    if display == "symbol" and symbol != currency:
        if style == "compact":
            return numbers.format_compact_currency(number, currency, locale=locale, fraction_digits=most)
        pattern = _set_digits(locale.currency_formats["standard"], least, most)
        return pattern.apply(number, locale, currency=currency, currency_digits=False)
    amount = _write_amount(number, locale, style, least, most)
    if display != "name":
        return f"{amount} {currency}"
    short = _SHORT_NAMES.get(locale.language, {}).get(currency)
    if short:
        return f"{amount}{short}"
    return f"{amount} {numbers.get_currency_name(currency, number, locale)}"
