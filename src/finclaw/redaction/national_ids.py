"""National identity numbers: the Korean resident number and the American social security number."""

import re
from collections.abc import Iterator
from typing import Final

from finclaw.redaction.labels import says_market, says_resident, says_social_security
from finclaw.redaction.patterns import SOCIAL_SECURITY_LABELS
from finclaw.redaction.scan_text import ScanText, Span, limit_spans

_RESIDENT: Final = re.compile(r"(?<![0-9A-Za-z])([0-9]{2}[01][0-9][0-3][0-9])( ?- ?| )?([1-8][0-9]{6})(?![0-9A-Za-z])")
_SOCIAL_SECURITY: Final = re.compile(
    r"([0-9](?<![0-9A-Za-z-][0-9])[0-9]{2})([ -]?)([0-9]{2})\2([0-9]{4})(?![0-9A-Za-z-])"
)
_SPOKEN: Final = ("ssn", "social", "사회")
_CENTURY: Final = {"1": 1900, "2": 1900, "5": 1900, "6": 1900, "3": 2000, "4": 2000, "7": 2000, "8": 2000}
_OLDEST, _YOUNGEST = 1920, 2035
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS: Final = frozenset(
    f"{month:02}{day:02}" for month, length in enumerate(_LENGTHS, 1) for day in range(1, length + 1)
)
_TIMESTAMPS: Final = range(1_400_000_000_000, 2_100_000_000_000)
"""In milliseconds, from 2014 to 2036: thirteen digits too, and far more often in a tool's result."""


_WEIGHTS: Final = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
_KINDS_OF_COMPANY: Final = frozenset(("11", "12", "13", "14", "15", "21", "22", "31"))


def find_resident_numbers(scanned: ScanText) -> Iterator[Span]:
    return limit_spans(scanned.text, _find_residents(scanned))


def _find_residents(scanned: ScanText) -> Iterator[Span]:
    for found in scanned.numbers("resident", _RESIDENT):
        digits = found[1] + found[3]
        if _has_birthday(digits) and _is_resident(scanned.text, found, digits):
            yield Span(found.start(), found.end(), "resident number")


def _is_resident(text: str, found: re.Match[str], digits: str) -> bool:
    if "-" in (found[2] or ""):
        is_other = _is_company(digits)
    else:
        is_other = not _passes_resident_check(digits) or (found[2] is None and _is_figure(text, found, digits))
    return not is_other or says_resident(text, found.start())


def _is_figure(text: str, found: re.Match[str], digits: str) -> bool:
    return int(digits) in _TIMESTAMPS or says_market(text, found.start(), found.end())


def _has_birthday(digits: str) -> bool:
    """Numbers given since October 2020 have no check digit: the day of birth and the century must do."""
    century = _CENTURY.get(digits[6])
    if century is None:
        return False
    year, day = century + int(digits[:2]), digits[2:6]
    return _OLDEST <= year <= _YOUNGEST and (day in _DAYS or (day == "0229" and year % 4 == 0))


def _passes_resident_check(digits: str) -> bool:
    total = sum(int(digit) * weight for digit, weight in zip(digits, _WEIGHTS, strict=False))
    domestic = (11 - total % 11) % 10
    foreign = (13 - total % 11) % 10
    return int(digits[12]) == (foreign if digits[6] in "5678" else domestic)


def _is_company(digits: str) -> bool:
    """A company's public registration number has the same form, and a check digit of its own."""
    if digits[4:6] not in _KINDS_OF_COMPANY:
        return False
    total = sum(int(digit) * (1 + place % 2) for place, digit in enumerate(digits[:12]))
    return int(digits[12]) == -total % 10 and not _passes_resident_check(digits)


def find_social_security_numbers(scanned: ScanText) -> Iterator[Span]:
    return limit_spans(scanned.text, _find_social_security(scanned))


def _find_social_security(scanned: ScanText) -> Iterator[Span]:
    """Nine digits are a volume, too: without hyphens a word must say what they are. No last four: they open doors."""
    for found in _find_nine_digits(scanned):
        area, gap, group, serial = found.groups()
        is_valid = area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"
        if is_valid and (gap == "-" or says_social_security(scanned.text, found.start())):
            yield Span(found.start(), found.end(), "social security number")


def _find_nine_digits(scanned: ScanText) -> Iterator[re.Match[str]]:
    is_spoken = any(map(scanned.may_have, _SPOKEN))
    if not (is_spoken or scanned.is_rescan) or not any(map(scanned.has, SOCIAL_SECURITY_LABELS)):
        return scanned.numbers("social", _SOCIAL_SECURITY)
    # A placeholder says "social security" only about the number beside it.
    return _SOCIAL_SECURITY.finditer(scanned.text) if is_spoken else scanned.find_near_changes(_SOCIAL_SECURITY)
