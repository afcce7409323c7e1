"""Payment cards: a number in a card's range whose check digit is right. A market value that happens to fit is left."""

import re
from collections.abc import Iterator
from typing import Final

from finclaw.tools.guard.context import says_card, says_market
from finclaw.tools.guard.span import Span, end_of, few
from finclaw.tools.guard.view import Form, View

_GAP: Final = r"(?:[ -]| - )?"
_FOURS: Final = re.compile(
    # Not out of the middle of a table of fours; behind it may stand a date or a security code.
    rf"(?<![0-9A-Za-z])(?<![0-9]{{4}}[ -])[0-9]{{4}}(?:{_GAP}[0-9]{{4}}){{3}}(?:{_GAP}[0-9]{{1,3}})?"
    r"(?![0-9A-Za-z])(?![ -][0-9]{4}(?![0-9]))"
)
_DOTTED: Final = re.compile(r"(?<![0-9.])[2-69][0-9]{3}(?:\.[0-9]{4}){3}(?![0-9.])")
_FOUR_SIX_FIVE: Final = re.compile(rf"(?<![0-9A-Za-z])3[0-9]{{3}}{_GAP}[0-9]{{6}}{_GAP}[0-9]{{4,5}}(?![0-9A-Za-z])")
_ONES: Final = re.compile(r"(?<![0-9])(?<![0-9][ -])[2-69](?:[ -][0-9]){12,18}(?![0-9])(?![ -][0-9])")
_TOGETHER: Final = re.compile(r"(?<![0-9])[2-69][0-9]{12,18}(?![0-9])")

_GROUPED: Final[dict[Form, re.Pattern[str]]] = {
    "fours": _FOURS,
    "dotted fours": _DOTTED,
    "four, six, five": _FOUR_SIX_FIVE,
    "ones": _ONES,
}

_UNLABELLED_LENGTHS: Final = (15, 16, 19)
"""13 and 14 digits are won amounts and timestamps, 17 and 18 are ids, unless a word says card."""


def card_numbers(view: View) -> Iterator[Span]:
    yield from few(view.text, _all_together(view))
    for form in _GROUPED:
        yield from few(view.text, _all_grouped(view, form))


def _all_together(view: View) -> Iterator[Span]:
    for found in view.matches("together", _TOGETHER):
        if (card := _together(view.text, found)) is not None:
            yield card


def _all_grouped(view: View, form: Form) -> Iterator[Span]:
    for found in view.matches(form, _GROUPED[form]):
        if (card := _grouped(found)) is not None:
            yield card


def _together(text: str, found: re.Match[str]) -> Span | None:
    digits, (start, end) = found[0], found.span()
    standing = _is_card(digits) and _stands_alone(text, start, end)
    if standing and (not _is_figure(text, start, end) or says_card(text, start)):
        return Span(start, end, "card", digits[-4:])
    return None


def _grouped(found: re.Match[str]) -> Span | None:
    digits = found[0].translate(_GAPS)
    for length in dict.fromkeys((len(digits), 16)):
        if length <= len(digits) < len(found[0]) and _is_card(digits[:length]):
            end = end_of(found[0], 0, length)
            return Span(found.start(), found.start() + end, "card", digits[length - 4 : length])
    return None


_GAPS: Final = dict.fromkeys(map(ord, " -."))


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Not part of a hash or a longer name, unless that name is 'card'."""
    before, after = text[max(0, start - 4) : start].lower(), text[end : end + 1]
    apart = not (before[-1:].isascii() and before[-1:].isalpha()) or before.endswith(("card", "visa", "pan"))
    return apart and not (after.isascii() and after.isalpha())


def _is_figure(text: str, start: int, end: int) -> bool:
    decimals = text[end : end + 1] == "." and text[end + 1 : end + 2].isdigit()
    fraction = text[start - 1 : start] == "." and text[start - 2 : start - 1].isdigit()
    return end - start not in _UNLABELLED_LENGTHS or decimals or fraction or says_market(text, start, end)


def _is_card(digits: str) -> bool:
    return _in_card_range(digits) and passes_luhn(digits)


def _in_card_range(digits: str) -> bool:
    """Visa, Mastercard, American Express, Diners, JCB, Discover, UnionPay, Maestro, and Korea's own with a 9."""
    if digits[0] in "0178":
        return False
    two, four, length = int(digits[:2]), int(digits[:4]), len(digits)
    if length in (14, 15):
        return two in (34, 37) if length == 15 else two in (36, 38, 39) or 3000 <= four < 3060
    master = (51 <= two <= 55 or 2221 <= four <= 2720) and length == 16
    visa = digits[0] == "4" and length in (13, 16, 18, 19)
    other = length >= 16 and (digits[0] == "6" or 3528 <= four <= 3589 or two in (50, 56, 57, 58))
    return visa or master or other or (digits[0] == "9" and length == 16)


_PLAIN: Final = bytes.maketrans(b"0123456789", bytes(range(10)))
_DOUBLED: Final = bytes.maketrans(b"0123456789", bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))


def passes_luhn(digits: str) -> bool:
    backwards = digits.encode()[::-1]
    return (sum(backwards[::2].translate(_PLAIN)) + sum(backwards[1::2].translate(_DOUBLED))) % 10 == 0
