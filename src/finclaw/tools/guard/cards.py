"""Payment cards: a number in a card's range whose check digit is right. A market value that happens to fit is left."""

import re
from collections.abc import Iterator
from itertools import compress
from typing import Final

from finclaw.tools.guard.context import says_card, says_market
from finclaw.tools.guard.luhn import passes_luhn, which_pass_luhn
from finclaw.tools.guard.span import Span, end_of, few
from finclaw.tools.guard.view import Form, View

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
_TOGETHER: Final = re.compile(rf"(?<![0-9])(?:{_RANGES})(?![0-9])")

_USUAL: Final = 16
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
    for batch in view.batches("together", _TOGETHER):
        for found in compress(batch, which_pass_luhn([found[0] for found in batch])):
            start, end = found.span()
            if _stands_as_card(view.text, start, end):
                yield Span(start, end, "card", found[0][-4:])


def _all_grouped(view: View, form: Form) -> Iterator[Span]:
    for batch in view.batches(form, _GROUPED[form]):
        numbers = _digits_of(batch)
        for found, digits, passes in zip(batch, numbers, which_pass_luhn(numbers), strict=True):
            length = _length_of_card(digits, bool(passes)) if passes or len(digits) > _USUAL else 0
            if length and len(digits) < len(found[0]):
                end = found.start() + end_of(found[0], 0, length)
                yield Span(found.start(), end, "card", digits[length - 4 : length])


def _digits_of(batch: list[re.Match[str]]) -> list[str]:
    together = "\n".join([found[0] for found in batch])
    return together.replace(" ", "").replace("-", "").replace(".", "").split("\n")


def _length_of_card(digits: str, passes: bool) -> int:
    """All the digits, or as many as most cards have, for behind those may stand a security code."""
    if passes and _IN_RANGE.fullmatch(digits) is not None:
        return len(digits)
    usual = digits[:_USUAL]
    return _USUAL if len(digits) > _USUAL and _IN_RANGE.fullmatch(usual) and passes_luhn(usual) else 0


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
