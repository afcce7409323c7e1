"""Payment cards: a number in a card's range whose check digit is right. A market value that happens to fit is left."""

import re
from collections.abc import Iterator
from typing import Final

from finclaw.redaction.labels import says_card, says_market
from finclaw.redaction.scan_text import NumberForm, ScanText, Span, end_of_code, limit_spans

_GAP: Final = r"(?:[ -]| - |)"
_FOURS: Final = re.compile(
    # Not out of the middle of a table of fours; behind it may stand a date or a security code.
    rf"(?<![0-9A-Za-z])(?<![0-9]{{4}}[ -])[0-9]{{4}}(?:{_GAP}[0-9]{{4}}){{3}}(?:{_GAP}[0-9]{{1,3}})?"
    r"(?![0-9A-Za-z])(?![ -][0-9]{4}(?![0-9]))"
)
_DOTTED: Final = re.compile(r"(?<![0-9.])[2-69][0-9]{3}(?:\.[0-9]{4}){3}(?![0-9.])")
_FOUR_SIX_FIVE: Final = re.compile(rf"(?<![0-9A-Za-z])3[0-9]{{3}}{_GAP}[0-9]{{6}}{_GAP}[0-9]{{4,5}}(?![0-9A-Za-z])")
_ONES: Final = re.compile(r"(?<![0-9])(?<![0-9][ -])[2-69](?:[ -][0-9]){12,18}(?![0-9])(?![ -][0-9])")
_RANGES: Final = (
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{17,18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720))[0-9]{12}"  # Mastercard
    r"|(?:6[0-9]{3}|5[0678][0-9]{2}|35(?:2[89]|[3-8][0-9]))[0-9]{12,15}"  # Discover, UnionPay, Maestro, JCB
    r"|3(?:[47][0-9]{13}|(?:0[0-5]|[689][0-9])[0-9]{11})"  # American Express, Diners
    r"|9[0-9]{15}"  # Korea's own
)
_IN_RANGE: Final = re.compile(_RANGES)
_RUN: Final = re.compile(rf"(?<![0-9])(?:{_RANGES})(?![0-9])")

_USUAL_LENGTH: Final = 16
_GROUPED: Final[dict[NumberForm, re.Pattern[str]]] = {
    "fours": _FOURS,
    "dotted fours": _DOTTED,
    "four, six, five": _FOUR_SIX_FIVE,
    "ones": _ONES,
}

_UNLABELLED_LENGTHS: Final = (15, 16, 19)
"""13 and 14 digits are won amounts and timestamps, 17 and 18 are ids, unless a word says card."""

_SUM_OF_DOUBLED: Final = {"0": 0, "1": 2, "2": 4, "3": 6, "4": 8, "5": 1, "6": 3, "7": 5, "8": 7, "9": 9}
"""The sum of the digits of each digit's double: of 7 it is 1 + 4."""


def passes_luhn(digits: str) -> bool:
    """The check of a card number: every second digit from the right is doubled, and the sum of all ends in 0."""
    plain, doubled = digits[-1::-2], digits[-2::-2]
    return (sum(map(int, plain)) + sum(_SUM_OF_DOUBLED[digit] for digit in doubled)) % 10 == 0


def find_cards(scanned: ScanText) -> Iterator[Span]:
    yield from limit_spans(scanned.text, _find_runs(scanned))
    for form in _GROUPED:
        yield from limit_spans(scanned.text, _find_grouped(scanned, form))


def _find_runs(scanned: ScanText) -> Iterator[Span]:
    """Cards written without a gap."""
    for found in scanned.numbers("run", _RUN):
        digits, (start, end) = found[0], found.span()
        if passes_luhn(digits) and _stands_as_card(scanned.text, start, end):
            yield Span(start, end, "card", digits[-4:])


def _find_grouped(scanned: ScanText, form: NumberForm) -> Iterator[Span]:
    """Cards written in groups."""
    for found in scanned.numbers(form, _GROUPED[form]):
        digits = found[0].replace(" ", "").replace("-", "").replace(".", "")
        if len(digits) < len(found[0]) and (length := _length_of_card(digits)):
            end = found.start() + end_of_code(found[0], 0, length)
            yield Span(found.start(), end, "card", digits[length - 4 : length])


def _length_of_card(digits: str) -> int:
    """All the digits, or as many as most cards have, for behind those may stand a security code; 0 if it is no card."""
    if _is_card(digits):
        return len(digits)
    return _USUAL_LENGTH if len(digits) > _USUAL_LENGTH and _is_card(digits[:_USUAL_LENGTH]) else 0


def _is_card(digits: str) -> bool:
    return _IN_RANGE.fullmatch(digits) is not None and passes_luhn(digits)


def _stands_as_card(text: str, start: int, end: int) -> bool:
    return _stands_alone(text, start, end) and (not _is_figure(text, start, end) or says_card(text, start))


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Not part of a hash or a longer name, unless that name is 'card'."""
    before, after = text[max(0, start - 4) : start].lower(), text[end : end + 1]
    apart = not (before[-1:].isascii() and before[-1:].isalpha()) or before.endswith(("card", "visa", "pan"))
    return apart and not (after.isascii() and after.isalpha())


def _is_figure(text: str, start: int, end: int) -> bool:
    decimals = text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit()
    fraction = text[start - 1 : start] == "." and text[start - 2 : start - 1].isdigit()
    return end - start not in _UNLABELLED_LENGTHS or decimals or fraction or says_market(text, start, end)
