"""Amounts and currencies as people write them: $100, 1.5k USD, 50만원, 3만5천 원, "in won", 달러로."""

import re
from decimal import Decimal
from fractions import Fraction

from msgspec import Struct

from finclaw.numerals.find import CURRENCY_SIGN, DIGITS, HANGUL, Figure, find_figures, read_value
from finclaw.numerals.tables import ENGLISH_CURRENCY, KOREAN_CURRENCY, find_currency

_CODES = rf"{ENGLISH_CURRENCY}|[$₩€¥£]"
_TARGET = re.compile(
    rf"\b(?:in|to|into|as)\s+(?:the\s+)?(?P<english>{_CODES})(?![a-z])"
    rf"|(?:^|(?<=\s))(?P<korean>{KOREAN_CURRENCY})\s?(?:으로|로)(?:는|도|요|은)?(?=\s|\W|$|{HANGUL}*[?？]|환전|환산|바꾸|바꿔|하면|얼마|계산)"
    rf"|\bhow many\s+(?P<how_many_en>{_CODES})(?![a-z])"
    rf"|몇\s?(?P<how_many>{KOREAN_CURRENCY})(?:이야|야|예요|이에요|에요|인가요?|인지|임|이지|지|이죠|죠|이니|니|이냐|냐|정도야?)?(?!{HANGUL})",
    re.IGNORECASE,
)
_CODE = re.compile(r"\d{6}|\d[MB]")
"""A KRX code, or a name such as 3M, unless a currency stands beside it."""
_PARTICLE = re.compile("(?:은|는|이|가|을|를|도|요|로|으로|로는|으로는)$")


class Amount(Struct, frozen=True):
    """The person's own figure. `currency` is None when they gave none."""

    value: Decimal
    currency: str | None


def currency_of(word: str) -> str | None:
    """The currency that a word is, with or without a Korean particle."""
    return find_currency(word.strip()) or find_currency(_PARTICLE.sub("", word.strip()))


def take_target(text: str) -> tuple[str | None, str]:
    """The currency that is wanted, and the text without the words for it."""
    found = _TARGET.search(text)
    if found is None:
        return None, text
    word = next(filter(None, found.groups()), "")
    asks = " 얼마 " if found["how_many"] else " "
    return currency_of(word), text[: found.start()] + asks + text[found.end() :]


def take_amounts(text: str, *, bare: bool = True) -> tuple[tuple[Amount, ...], str]:
    """The person's figures, and the text without them. A bare six-digit figure is a KRX code before it is an amount.

    Not `bare`: a figure without a currency stays in the text, where it may be part of a name (KODEX 200) or too much.
    """
    found = [
        each
        for each in find_figures(text)
        if each.kind == "amount" and (each.currency or bare) and not _is_code(text, each)
    ]
    amounts = [
        Amount(_as_decimal(value, figure.decimals), figure.currency or None)
        for figure in found
        for value in (figure.value, figure.high)
        if value is not None
    ]
    for figure in reversed(found):
        text = f"{text[: figure.start]} {text[figure.end :]}"
    return tuple(amounts), text


_SHARES = re.compile(
    rf"(?<![\w.,-])(?:(?P<count>{DIGITS})\s?(?P<hundred>[만천백])?|(?P<word>한|두|세|네|다섯|열))\s?(?:주|개)"
    rf"(?:는|은|면|이면|에|의|를|을|요|만)?(?!{HANGUL})"
    rf"|(?<![\w.,-])(?:(?P<count2>{DIGITS})|(?P<word2>a|an|one))\s+(?:shares?|stocks?|units?|coins?)\b(?:\s+of\b)?",
    re.IGNORECASE,
)
_FEW = {"한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "열": 10, "a": 1, "an": 1, "one": 1}


def take_quantity(text: str) -> tuple[Decimal | None, str]:
    """How many pieces are meant, and the text without the words for it. Several are none: they stay in the text."""
    found = list(_SHARES.finditer(text))
    if len(found) != 1:
        return None, text
    given = found[0].groupdict()
    digits = given["count"] or given["count2"]
    if digits:
        count = _as_decimal(read_value(digits.replace(",", "") + (given["hundred"] or "")))
    else:
        count = Decimal(_FEW[(given["word"] or given["word2"]).casefold()])
    return count, text[: found[0].start()] + " " + text[found[0].end() :]


_NUMERAL = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)+(?![\d])")
_PLAIN = re.compile(r"(?!0?[1-9]\d{0,2}\.\d{3}$)(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\d{6}(?:,\d{6})+")
_NEGATIVE = re.compile(
    rf"(?:^|(?<=\s)|(?<=\())[-−–]\s?(?:{CURRENCY_SIGN})?\s?\d[\d.,]*|{CURRENCY_SIGN}\s?[-−–]\s?\d[\d.,]*"
)


def unclear_number(text: str) -> str | None:
    """A figure that two countries read differently: 1.234,56 and 1,5; and 5.000, which is five or five thousand."""
    return next((each for each in _NUMERAL.findall(text) if not _PLAIN.fullmatch(each)), None)


def negative_number(text: str) -> str | None:
    found = _NEGATIVE.search(text)
    return found.group().strip() if found else None


def _is_code(text: str, figure: Figure) -> bool:
    return not figure.currency and _CODE.fullmatch(text[figure.start : figure.end]) is not None


def _as_decimal(value: Fraction, decimals: int = 0) -> Decimal:
    """With the zeros that the person wrote, but for those of a whole number."""
    number = Decimal(value.numerator) / Decimal(value.denominator)
    is_whole = number == number.to_integral_value()
    return number if is_whole or not decimals else number.quantize(Decimal(1).scaleb(-decimals))
