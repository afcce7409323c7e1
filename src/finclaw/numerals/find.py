"""Numerals in running text: amounts, percentages, ranges and dates, told apart by what stands around them.

The patterns are strings: `re` compiles one when it is first used and keeps it, and most commands end before. Every one
takes time in proportion to the text: repetitions are bounded or begin with a digit. No group is possessive: before
Python 3.11.5 one that matches in part leaves its part in the match.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from finclaw.numerals.read import NumeralError, read_korean, read_numeral
from finclaw.numerals.tables import CURRENCY_WORDS, ENGLISH_CURRENCY, FIAT, KOREAN_CURRENCY, VULGAR, find_currency

# ── patterns ────────────────────────────────────────────────────────────────────────────────────────────────

NUMBER: Final = r"\d{1,15}+(?:,\d{2,3}+){0,8}(?:\.\d{1,12}+)?"
CODES: Final = r"(?:USD|KRW|EUR|JPY|GBP|CNY|HKD|CHF|CAD|AUD|BTC|ETH)"
SIGNS: Final = "-+\u2212\u00b1"
SIGN: Final = rf"(?:(?<![A-Za-z0-9_.,%)])[{SIGNS}])?"
"""A loss is no gain. Behind a number it is not a sign but a range."""
_MONTH: Final = (
    r"(?-i:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
DATE: Final = (
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2})?"
    r"|\d{4}[./]\d{1,2}[./]\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}"
    r"|\d{4}년(?:[ ]?\d{1,2}월)?(?:[ ]?\d{1,2}일)?|\d{1,2}월[ ]?\d{1,2}일"
    rf"|\b{_MONTH}[ ]\d{{1,2}}(?:,?[ ]\d{{4}})?\b|\b\d{{1,2}}[ ]{_MONTH}(?:[ ]\d{{4}})?"
    r"|\b[1-4]?Q[1-4]?[ ]?\d{4}\b"
)
_SCALE: Final = (
    r"(?:[ ]?(?:million|billion|trillion|thousand|bn|mn|[kKmM]\b)"
    r"|[ ]?[백천만억조]{1,2}(?:[ ]?\d[\d,]{0,12}[백천만억조]{1,2}){0,3}(?:[ ]?\d[\d,]{0,12})?)?"  # 1억 2,000만 500
)
_UNIT: Final = (
    r"(?:%|％|퍼센트|bps?\b|원|달러|엔|유로|위안|계약"
    r"|주(?![가-힣])|(?<=[0-9백천만억])주(?=[를는의도만씩와로에매까정])"  # shares, and not a word that begins so
    rf"|shares?\b|contracts?\b|dollars?\b|won\b|{CODES}\b)"
)
AMOUNT: Final = (
    rf"{SIGN}(?:[$€£¥₩￦]|(?<![A-Za-z0-9_]){CODES}[ ]?)[-\u2212]?{NUMBER}{_SCALE}"
    rf"|{SIGN}(?<![A-Za-z0-9_.])(?<!\d,){NUMBER}{_SCALE}[ ]?{_UNIT}"
    rf"|{SIGN}(?<![A-Za-z0-9_.,])(?:\d{{1,3}}+(?:,\d{{3}}){{1,8}}(?:\.\d{{1,12}}+)?|\d{{1,15}}+\.\d{{1,12}}+)"
    r"(?![.,]?[A-Za-z0-9_])"  # a price, as "at 187.20"
)
"""What is surely a figure: with a currency or a unit, or written as a price. For texts full of other numbers."""

HANGUL: Final = "(?-i:[가-힣])"
"""A syllable. It has no case: to look for one in all eleven thousand takes a millisecond of `cold_cpu` each time."""
DIGITS: Final = r"\d[\d,]*(?:\.\d+)?"
CURRENCY_SIGN: Final = r"(?<![A-Za-z])[$₩€¥£￦￥]"
_PREFIX: Final = rf"(?:{CURRENCY_SIGN}\s?)?(?:\b(?:usd|krw|eur|jpy|gbp|btc|eth)\s)?"
_KOREAN: Final = (
    r"(?<!\d)(?<!\d[.,])"  # begun anew at each digit, it would take the square of their number
    rf"(?-i:(?:{DIGITS}\s?[천백십]?\s?[경조억만]\s?|{DIGITS}\s?[천백십]\s?)+(?:{DIGITS})?)"
)
_VULGAR: Final = "".join(VULGAR)
_SHORT: Final = "k|mn|m|bn|b|tn|trn|thousand|million|billion|trillion"
_LATIN: Final = rf"(?<![\w.])(?:{DIGITS}[{_VULGAR}]?|[{_VULGAR}])\s?(?:(?:{_SHORT})(?![a-z]))?"
_PERCENT: Final = r"\s?(?:%p?|％|퍼센트|(?:percent|bps?)(?![a-z]))"
_PARTICLE: Final = rf"(?-i:은|는|이|가|을|를|의|에|로|으로|와|과|도|보다|까지|부터|에서)(?!{HANGUL})"
_AFTER: Final = rf"(?:{ENGLISH_CURRENCY}|[$₩€¥£])(?![a-z])|(?:{KOREAN_CURRENCY})(?![a-z\d%])"
_FIAT: Final = "|".join(CURRENCY_WORDS[code][0] for code in sorted(FIAT))
_FIGURE: Final = (
    rf"(?P<date>(?<![\w.-])(?a:{DATE})(?![\d-]))"
    rf"|(?P<minus>(?<![\w.,%)])[-\u2212])?(?P<before>{_PREFIX})(?P<inner_minus>(?<=[$₩€¥£])[-\u2212])?"
    rf"(?:(?P<korean>{_KOREAN})|(?P<latin>{_LATIN}))"
    rf"(?:\s?(?P<after>{_AFTER})|(?P<percent>{_PERCENT})|(?<!\d)(?<=[경조억만천백십\s])|(?![\w%]|\.\d)|(?={_PARTICLE}))"
    rf"|(?<!{HANGUL}|\d)(?P<words>(?-i:[천백십]?[만억]|[천백]))\s?(?P<after_words>{KOREAN_CURRENCY})"
    rf"|\b(?P<one>one|an?)\s(?P<after_one>{_FIAT})(?![a-z])"
)
_BETWEEN: Final = re.compile(r"\s?[-–~∼]\s?")
_GAP_BEFORE_UNIT: Final = re.compile(r"(?<!\s)\s++(?=[^\W\d])")
_ONE_NUMBER: Final = re.compile(r"[\d,]+\.\d+")
_ONE_UNIT: Final = re.compile(r"[\d.,]+\s?([^\W\d]+)")


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────

FigureKind = Literal["amount", "percent", "date", "unclear"]


class Figure(Struct, frozen=True):
    """A figure in a text. A range is one figure with two ends."""

    kind: FigureKind  # `unclear`: it can be read in two ways, or not at all
    start: int
    end: int
    value: Fraction = Fraction(0)
    """Of a percentage its hundredth: 12.5% is 0.125. A date has none."""
    high: Fraction | None = None  # the other end of a range
    currency: str = ""
    scale: Fraction = Fraction(1)
    """What its digits are counted in, where that is one thing: 만 in 5만, a hundredth in 5%."""
    decimals: int = 0  # digits behind its point, as they were written


def find_figures(text: str) -> list[Figure]:
    found: list[Figure] = []
    for figure in _single_figures(text):
        if found and _is_range(text, found[-1], figure):
            low = found.pop()
            value = low.value
            if low.scale == 1:
                value *= figure.scale
            currency = figure.currency or low.currency
            found.append(replace(figure, start=low.start, value=value, high=figure.value, currency=currency))
        else:
            found.append(figure)
    return found


def read_value(text: str) -> Fraction:
    """The value of a numeral that stands alone, in digits or Korean units. Raises NumeralError."""
    plain = _GAP_BEFORE_UNIT.sub("", " ".join(text.split()))
    if plain[:1] in "십백천만억조경":
        return read_korean(plain, None, 0)[0]
    numeral = read_numeral(plain)
    if numeral.end != len(plain):
        raise NumeralError(numeral.end + 1, "there is more behind the number")
    return numeral.value


def _single_figures(text: str) -> Iterator[Figure]:
    for match in re.finditer(_FIGURE, text, re.IGNORECASE):
        written = match["korean"] or match["latin"] or match["words"] or (match["one"] and "1")
        if not written:
            yield Figure("date", *match.span())
            continue
        start = match.start()
        end = start + len(match[0].rstrip())
        said = (*(match["before"] or "").split(), match["after"], match["after_words"], match["after_one"])
        currency = next((find_currency(each) or "" for each in said if each), "")
        try:
            value = read_value(written)
        except NumeralError:
            yield Figure("unclear", start, end, currency=currency)
            continue
        if match["minus"] or match["inner_minus"]:
            value = -value
        decimals = 0
        if _ONE_NUMBER.fullmatch(written.strip()):
            decimals = len(written.partition(".")[2].strip())
        scale = Fraction(1)
        if percent := match["percent"]:
            scale = Fraction(1, 10_000) if "b" in percent.lower() else Fraction(1, 100)
            yield Figure("percent", start, end, value * scale, scale=scale, decimals=decimals)
        else:
            if unit := _ONE_UNIT.fullmatch(written.strip()):
                scale = read_value(f"1{unit[1]}")
            yield Figure("amount", start, end, value, currency=currency, scale=scale, decimals=decimals)


def _is_range(text: str, low: Figure, high: Figure) -> bool:
    """5-10%, $10–12, 3~5만원: two figures with a dash between, of which the first leaves out what the second says."""
    return (
        _BETWEEN.fullmatch(text, low.end, high.start) is not None
        and low.high is None
        and high.kind in ("amount", "percent")
        and low.kind in ("amount", high.kind)
        and (low.currency == high.currency or not low.currency or not high.currency)
    )
