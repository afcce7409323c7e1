"""Bank accounts: a number with the word for it, a Korean one by its hyphens, or an IBAN with the right check."""

import re
import string
from collections.abc import Iterator
from itertools import islice
from typing import Final

from finclaw.tools.guard.context import UNIT, says_market
from finclaw.tools.guard.sketch import IBAN
from finclaw.tools.guard.span import Span, end_of, few
from finclaw.tools.guard.view import View

_LETTER: Final = "가-힣A-Za-zİıſ\u212a"
"""As if case were ignored, which would take most of the time if it were."""
_BANK: Final = (
    # The whole word first, and only then how it ends: nothing is given back.
    rf"(?:[{_LETTER}]{{2,14}}+(?:(?<=은행|뱅크|증권|농협|수협|신협|금고|토스|국민|신한|우리|하나|기업|(?i:KB)|(?i:NH))"
    r"|(?<=우체국|카카오|(?i:IBK))|(?<=(?i:bank)))[)\]]?[ :]{1,2})?"
)
_AFTER_LABEL: Final = re.compile(
    r"(?:[ _-]?(?:(?i:number|num|nr|no|id)|번호))?\.?(?:으?로 ?(?:입금|송금|이체))?"
    r"""\\?["']?[ \t]{0,3}+(?:[:=#]|(?i:is)|->|은|는|이|가|로|으로)?[ \t]{0,3}+\\?["'(\[]?#?""" + _BANK + "(?P<number>"
    r"[0-9]{1,14}+(?:-[0-9]{1,14}+){1,5}+|[0-9]{8,20}+|[0-9]{2,6}+(?: [0-9]{2,7}+){1,4})(?![0-9-])(?![.,][0-9])"
    rf"(?!(?i:{UNIT}))"
)
_NEAR_A_DIGIT: Final = r"[^0-9]{0,63}+[0-9]"
"""The number stands no farther behind its label."""
LABELS: Final = ("account", "acct", "a/c", "계좌", "통장")
_FORMS: Final = ("3-(?:3-6|2-6|4-4-2|6-5|6-2-3)", "4-(?:3-6|2-7)", "6-2-6")
"""How Korean banks hyphenate: how many digits first, and then."""
_BY_HYPHENS: Final = re.compile(
    "(?<![0-9A-Za-z-])(?:" + re.sub("[2-7]", r"[0-9]{\g<0>}", "|".join(_FORMS)) + ")(?![0-9A-Za-z-])"
)
_DATE: Final = re.compile(r"(?:19|20)[0-9]{2}(?:-[01][0-9]-[0-3][0-9]|[01][0-9][0-3][0-9])")
_IBAN: Final = re.compile(IBAN)
_IBAN_LENGTHS: Final = {
    country.encode(): length
    for length, countries in {
        15: "no", 16: "be", 18: "dk fi fo gl nl", 19: "mk si", 20: "at ba ee kz lt lu xk", 21: "ch hr li lv",
        22: "bg bh cr de gb ge ie me rs va", 23: "ae gi il iq tl", 24: "ad cz es md pk ro sa se sk tn vg", 25: "pt st",
        26: "is tr", 27: "fr gr it mc mr sm", 28: "al az by cy do gt hu lb pl sv", 29: "br eg ps qa ua",
        30: "jo kw mu", 31: "mt sc", 32: "lc",
    }.items()
    for country in countries.split()
}  # fmt: skip
_LONGEST_IBAN: Final = 2 * max(_IBAN_LENGTHS.values())
"""With a space behind every character."""


def account_numbers(view: View) -> Iterator[Span]:
    for label in LABELS:
        if view.may_have(label):
            yield from few(view.text, _labelled(view, label))
    yield from few(view.text, _by_hyphens(view))
    yield from few(view.text, _ibans(view))


def _labelled(view: View, label: str) -> Iterator[Span]:
    for place in view.places(label, _NEAR_A_DIGIT):
        if (found := _AFTER_LABEL.match(view.text, place + len(label))) is not None:
            number = found["number"]
            digits = number.replace("-", "").replace(" ", "")
            if 8 <= len(digits) <= 20 and not _DATE.fullmatch(number):
                yield Span(found.start("number"), found.end("number"), "account", digits[-4:])


def _by_hyphens(view: View) -> Iterator[Span]:
    for found in view.matches("hyphenated", _BY_HYPHENS):
        if not says_market(view.text, *found.span()):
            yield Span(found.start(), found.end(), "account", found[0].replace("-", "")[-4:])


def _ibans(view: View) -> Iterator[Span]:
    """A thousand at a time, and what is written alike once: a hostile text has the same code over and over."""
    places = view.sketched(_IBAN)
    while starts := [place.start() for place in islice(places, 1_000)]:
        written = [view.lower[start : start + _LONGEST_IBAN] for start in starts]
        codes = {each: code for each in set(written) if (code := _code_in(each))}
        right = _right_ones(set(codes.values()))
        for start, each in zip(starts, written, strict=True) if right else ():
            if (code := codes.get(each)) in right:
                yield Span(start, end_of(view.text, start, len(code)), "account", code[-4:].decode().upper())


def _code_in(written: bytes) -> bytes:
    """As many letters and digits as the country's codes have, with or without single spaces between them."""
    length = _IBAN_LENGTHS.get(written[:2], 0)
    code = written[:length]
    if not code.isalnum():
        code = written[: 2 * length].partition(b"  ")[0].replace(b" ", b"")[:length]
    return code if len(code) == length and code.isalnum() else b""


def _right_ones(codes: set[bytes]) -> set[bytes]:
    """Those whose number, its country and check digits last and its letters written as numbers, is 1 modulo 97."""
    numbers = b" ".join([code[4:] + code[:4] for code in codes])
    for letter, number in _IN_DIGITS:
        numbers = numbers.replace(letter, number)
    return {code for code, number in zip(codes, numbers.split(), strict=True) if int(number) % 97 == 1}


_IN_DIGITS: Final = [(letter.encode(), str(int(letter, 36)).encode()) for letter in string.ascii_lowercase]
