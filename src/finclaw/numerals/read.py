"""The reader of one numeral: 1,234.5, 2½, 1e3, $4.2bn without its sign, 3만5천, 1조 2천억. Two readings are refused."""

import re
from fractions import Fraction
from typing import Final

from msgspec import Struct

from finclaw.numerals.tables import KOREAN_LARGE, KOREAN_SMALL, SCALES, VULGAR, find_currency

_GROUPED: Final = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])|[0-9]+")
_PLAIN: Final = re.compile(r"[0-9]+")
_TWO_READINGS: Final = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])")
_STRAY_COMMA: Final = re.compile(r",[0-9]")
_DECIMALS: Final = re.compile(r"\.[0-9]+")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)(?![A-Za-z])")
_LETTERS: Final = re.compile(r"[A-Za-z가-힣]+")
_SCALE_WORD: Final = re.compile(r" ?(thousand|million|billion|trillion)\b", re.IGNORECASE)
_KOREAN_UNITS: Final = re.compile(r"[십백천만억조경]+")
_NEXT_PART: Final = re.compile(r" ?(?=[0-9])")

_MOST_DIGITS: Final = 400
_LARGEST_EXPONENT: Final = 1_000
_UNITS: Final = {**SCALES, "": 1, "bp": Fraction(1, 10_000), "bps": Fraction(1, 10_000)}


class Numeral(Struct, frozen=True):
    value: Fraction
    end: int  # where the next character stands
    currency: str = ""  # the code of the one that is glued to it


class NumeralError(ValueError):
    """A numeral that cannot be read, or that can be read in two ways. `at` counts characters from one."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


def read_numeral(text: str, start: int = 0, *, commas_separate: bool = False) -> Numeral:
    """The numeral that begins here, with its unit. `commas_separate`: a comma may end it. Raises NumeralError."""
    number, end = read_digits(text, start, commas_separate=commas_separate)
    if units := _KOREAN_UNITS.match(text, end):
        number, end = read_korean(text, number, units.start(), commas_separate=commas_separate)
    else:
        exponent, end = _read_exponent(text, end)
        number *= Fraction(10) ** exponent
    unit, currency, end = _read_suffix(text, end)
    return Numeral(number * unit, end, currency)


def read_digits(text: str, start: int, *, commas_separate: bool = False) -> tuple[Fraction, int]:
    if commas_separate and (unclear := _TWO_READINGS.match(text, start)):
        raise NumeralError(
            start + 1,
            f"{unclear[0]!r} among a function's arguments may be one number or several: "
            f"write {unclear[0].replace(',', '')}, or {unclear[0].replace(',', ', ')}",
        )
    whole = (_PLAIN if commas_separate else _GROUPED).match(text, start)
    end = start
    if whole:
        end = whole.end()
    if not commas_separate and _STRAY_COMMA.match(text, end):
        raise NumeralError(end + 1, "a thousands separator stands before every group of three digits, as in 1,234")
    decimals = _DECIMALS.match(text, end)
    if decimals:
        end = decimals.end()
    if text[end : end + 1] == ".":
        raise NumeralError(end + 1, "a number has one decimal point, with digits behind it")
    digits = text[start:end].replace(",", "")
    if len(digits) > _MOST_DIGITS:
        raise NumeralError(start + 1, f"this number has more than {_MOST_DIGITS} digits")
    if not decimals and (part := VULGAR.get(text[end : end + 1])):
        return Fraction(digits or 0) + part, end + 1
    if not digits:  # such as a digit of another script, which only looks like a beginning
        raise NumeralError(start + 1, "a number begins with a digit from 0 to 9")
    return Fraction(digits), end


def read_korean(text: str, number: Fraction | None, at: int, *, commas_separate: bool = False) -> tuple[Fraction, int]:
    """The value and the end of a numeral whose first Korean unit stands `at`, behind the number if there is one.

    3천5백만 is one numeral, and so is 3억 5,000만. In 3억 5000 a 만 may be missing, so that is none.
    """
    total = Fraction(0)
    section = Fraction(0)
    small: int | None = None
    large: int | None = None
    begin = at
    while units := _KOREAN_UNITS.match(text, at):
        is_whole = number is None or number.denominator == 1
        for unit in units[0]:
            if unit in KOREAN_SMALL and (small is None or KOREAN_SMALL[unit] < small):
                small = KOREAN_SMALL[unit]
                if number is None:
                    number = Fraction(1)
                section += small * number
            elif unit in KOREAN_LARGE and (large is None or KOREAN_LARGE[unit] < large):
                part = ((section + (number or 0)) or 1) * KOREAN_LARGE[unit]
                if large is not None and part >= large:
                    raise NumeralError(begin + 1, "an operator is missing between these two numbers")
                total += part
                section = Fraction(0)
                small = None
                large = KOREAN_LARGE[unit]
            else:
                raise NumeralError(begin + 1, "an operator is missing between these two numbers")
            number = None
        at = units.end()
        last = small or large or 1
        gap = _NEXT_PART.match(text, at)
        if gap is None:
            break
        begin = gap.end()
        number, at = read_digits(text, begin, commas_separate=commas_separate)
        is_last = not _KOREAN_UNITS.match(text, at)
        if not is_whole or (is_last and number >= last):
            raise NumeralError(begin + 1, "an operator is missing between these two numbers")
        if is_last and last > 10_000:
            raise NumeralError(begin + 1, "say the unit of this part too, such as 5000만, or put an operator before it")
    return total + section + (number or 0), at


def _read_exponent(text: str, end: int) -> tuple[int, int]:
    found = _EXPONENT.match(text, end)
    if not found:
        return 0, end
    if len(found[1]) > 5 or abs(int(found[1])) > _LARGEST_EXPONENT:
        raise NumeralError(end + 1, f"a power of ten may go up to {_LARGEST_EXPONENT}")
    return int(found[1]), found.end()


def _read_suffix(text: str, end: int) -> tuple[int | Fraction, str, int]:
    if word := _SCALE_WORD.match(text, end):
        return SCALES[word[1].lower()], "", word.end()
    letters = _LETTERS.match(text, end)
    if not letters:
        return 1, "", end
    glued = letters[0].lower()
    for length in range(len(glued), -1, -1):
        unit = glued[:length]
        money = glued[length:]
        if unit not in _UNITS:
            continue
        currency: str | None = ""
        if money:
            currency = find_currency(money)
        if currency is not None:
            return _UNITS[unit], currency, letters.end()
    raise NumeralError(
        end + 1,
        f"{letters[0]!r} is no unit; there are k, m, mn, bn, trn, bp, 천, 만, 억, 조, and * is written between factors",
    )
