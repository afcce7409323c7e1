"""Numbers as people write them: 1,234.5, 1.2조, 3억 5,000만, $4.2bn, 25bp. What has two readings is refused."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from finclaw.builtins.calculator.problem import CannotCalculate

_KOREAN: Final = {"천": 10**3, "만": 10**4, "억": 10**8, "조": 10**12, "경": 10**16} | {
    small + large: factor * unit
    for small, factor in {"십": 10, "백": 100, "천": 1_000}.items()
    for large, unit in {"만": 10**4, "억": 10**8, "조": 10**12}.items()
}
_ENGLISH: Final = {
    **{"k": 10**3, "m": 10**6, "mn": 10**6, "mm": 10**6, "b": 10**9, "bn": 10**9, "tn": 10**12, "trn": 10**12},
    **{"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12},
    **{"bp": Fraction(1, 10_000), "bps": Fraction(1, 10_000)},
}
SIGNS: Final = {"$": "$", "€": "€", "£": "£", "¥": "¥", "￥": "¥", "₩": "₩", "￦": "₩"}
CURRENCY_WORDS: Final = {
    **{"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥", "krw": "₩"},
    **{"원": "₩", "달러": "$", "유로": "€", "파운드": "£", "엔": "¥"},
}

_GROUPED: Final = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])|[0-9]+")
_PLAIN: Final = re.compile(r"[0-9]+")
_TWO_READINGS: Final = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])")
_STRAY_COMMA: Final = re.compile(r",[0-9]")
_DECIMALS: Final = re.compile(r"\.[0-9]+")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)(?![A-Za-z])")
_LETTERS: Final = re.compile(r"[A-Za-z가-힣]+")
_MAGNITUDE_WORD: Final = re.compile(r" ?(thousand|million|billion|trillion)\b", re.IGNORECASE)
_NEXT_PART: Final = re.compile(r" ?(?=[0-9])")

_MOST_DIGITS: Final = 400
_LARGEST_EXPONENT: Final = 1_000


@dataclass(frozen=True, slots=True)
class Numeral:
    value: Fraction
    end: int
    """Where the next character stands."""
    currency: str = ""
    unit: int | Fraction = 1
    korean: bool = False


def read_numeral(text: str, start: int, *, commas_separate: bool) -> Numeral:
    """The number that begins here. Raises CannotCalculate. `commas_separate`: we are among a function's arguments."""
    part = _read_part(text, start, commas_separate=commas_separate)
    value = part.value
    while part.korean and not part.currency and (gap := _NEXT_PART.match(text, part.end)):
        previous, part = part, _read_part(text, gap.end(), commas_separate=commas_separate)
        _check_part(previous, part, gap.end())
        value += part.value
    return Numeral(value, part.end, part.currency)


def _check_part(previous: Numeral, part: Numeral, start: int) -> None:
    """3억 5,000만 is one number. In 3억 5000 a 만 may be missing, so it is not."""
    if (previous.value / previous.unit).denominator != 1 or part.value >= previous.unit:
        raise CannotCalculate(start + 1, "an operator is missing between these two numbers")
    if not part.korean and previous.unit > 10_000:
        raise CannotCalculate(start + 1, "say the unit of this part too, such as 5000만, or put an operator before it")


def _read_part(text: str, start: int, *, commas_separate: bool) -> Numeral:
    digits, end = _read_digits(text, start, commas_separate=commas_separate)
    exponent, end = _read_exponent(text, end)
    unit, korean, currency, end = _read_suffix(text, end)
    return Numeral(Fraction(digits) * Fraction(10) ** exponent * unit, end, currency, unit, korean)


def _read_digits(text: str, start: int, *, commas_separate: bool) -> tuple[str, int]:
    if commas_separate and (unclear := _TWO_READINGS.match(text, start)):
        raise CannotCalculate(
            start + 1,
            f"{unclear[0]!r} among a function's arguments may be one number or several: "
            f"write {unclear[0].replace(',', '')}, or {unclear[0].replace(',', ', ')}",
        )
    whole = (_PLAIN if commas_separate else _GROUPED).match(text, start)
    end = whole.end() if whole else start
    if not commas_separate and _STRAY_COMMA.match(text, end):
        raise CannotCalculate(end + 1, "a thousands separator stands before every group of three digits, as in 1,234")
    decimals = _DECIMALS.match(text, end)
    end = decimals.end() if decimals else end
    if text[end : end + 1] == ".":
        raise CannotCalculate(end + 1, "a number has one decimal point, with digits behind it")
    digits = text[start:end].replace(",", "")
    if len(digits) > _MOST_DIGITS:
        raise CannotCalculate(start + 1, f"this number has more than {_MOST_DIGITS} digits")
    return digits, end


def _read_exponent(text: str, end: int) -> tuple[int, int]:
    found = _EXPONENT.match(text, end)
    if not found:
        return 0, end
    if len(found[1]) > 5 or abs(int(found[1])) > _LARGEST_EXPONENT:
        raise CannotCalculate(end + 1, f"a power of ten may go up to {_LARGEST_EXPONENT}")
    return int(found[1]), found.end()


def _read_suffix(text: str, end: int) -> tuple[int | Fraction, bool, str, int]:
    """The unit, whether it is a Korean one, the currency, and where it all ends."""
    if word := _MAGNITUDE_WORD.match(text, end):
        return _ENGLISH[word[1].lower()], False, "", word.end()
    letters = _LETTERS.match(text, end)
    if not letters:
        return 1, False, "", end
    glued = letters[0].lower()
    for length in range(len(glued), -1, -1):
        unit, money = glued[:length], glued[length:]
        known = {"": 1, **_KOREAN, **_ENGLISH}.get(unit)
        if known is not None and (not money or money in CURRENCY_WORDS):
            return known, unit in _KOREAN, CURRENCY_WORDS.get(money, ""), letters.end()
    raise CannotCalculate(
        end + 1,
        f"{letters[0]!r} is no unit; there are k, m, mn, bn, trn, bp, 천, 만, 억, 조, and * is written between factors",
    )
