"""Bank accounts: a number with the word for it, a Korean one by its hyphens, or an IBAN with the right check."""

import re
import string
from collections.abc import Iterator
from typing import Final

from finclaw.tools.guard.context import UNIT, says_market
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
    r"""\\?["']?[ \t]{0,3}(?:[:=#]|(?i:is)|->|은|는|이|가|로|으로)?[ \t]{0,3}\\?["'(\[]?#?""" + _BANK + "(?P<number>"
    r"[0-9]{1,14}(?:-[0-9]{1,14}){1,5}|[0-9]{8,20}|[0-9]{2,6}(?: [0-9]{2,7}){1,4})(?![0-9-])(?![.,][0-9])"
    rf"(?!(?i:{UNIT}))"
)
_FARTHEST: Final = 64
"""The number stands no farther behind its label."""
LABELS: Final = ("account", "acct", "a/c", "계좌", "통장")
_FORMS: Final = ((3, 3, 6), (3, 2, 6), (6, 2, 6), (4, 3, 6), (3, 4, 4, 2), (3, 6, 5), (4, 2, 7), (3, 6, 2, 3))
"""How Korean banks hyphenate."""
_BY_HYPHENS: Final = re.compile(
    "(?<![0-9A-Za-z-])(?:"
    + "|".join("-".join(f"[0-9]{{{size}}}" for size in form) for form in _FORMS)
    + ")(?![0-9A-Za-z-])"
)
_DATE: Final = re.compile(r"(?:19|20)[0-9]{2}(?:-[01][0-9]-[0-3][0-9]|[01][0-9][0-3][0-9])")
IBAN_SKETCH: Final = re.compile(rb"AA00(?<![0A]AA00)(?=(?:-?[0A]){11})")
_IBAN_LENGTHS: Final = dict(
    AD=24, AE=23, AL=28, AT=20, AZ=28, BA=20, BE=16, BG=22, BH=22, BR=29, BY=28, CH=21, CR=22, CY=28, CZ=24, DE=22,
    DK=18, DO=28, EE=20, EG=29, ES=24, FI=18, FO=18, FR=27, GB=22, GE=22, GI=23, GL=18, GR=27, GT=28, HR=21, HU=28,
    IE=22, IL=23, IQ=23, IS=26, IT=27, JO=30, KW=30, KZ=20, LB=28, LC=32, LI=21, LT=20, LU=20, LV=21, MC=27, MD=24,
    ME=22, MK=19, MR=27, MT=31, MU=30, NL=18, NO=15, PK=24, PL=28, PS=29, PT=25, QA=29, RO=24, RS=22, SA=24, SC=31,
    SE=24, SI=19, SK=24, SM=27, ST=25, SV=28, TL=23, TN=24, TR=26, UA=29, VA=22, VG=24, XK=20,
)  # fmt: skip


def account_numbers(view: View) -> Iterator[Span]:
    for label in LABELS:
        if view.may_have(label):
            yield from few(view.text, _labelled(view, label))
    yield from few(view.text, _by_hyphens(view))
    yield from few(view.text, _ibans(view))


def _labelled(view: View, label: str) -> Iterator[Span]:
    for place in view.places(label):
        behind = place + len(label)
        if (
            view.sketch.find(b"0", behind, behind + _FARTHEST) >= 0
            and (found := _AFTER_LABEL.match(view.text, behind)) is not None
        ):
            number = found["number"]
            digits = number.replace("-", "").replace(" ", "")
            if 8 <= len(digits) <= 20 and not _DATE.fullmatch(number):
                yield Span(found.start("number"), found.end("number"), "account", digits[-4:])


def _by_hyphens(view: View) -> Iterator[Span]:
    for found in view.matches("hyphenated", _BY_HYPHENS):
        if not says_market(view.text, *found.span()):
            yield Span(found.start(), found.end(), "account", found[0].replace("-", "")[-4:])


def _ibans(view: View) -> Iterator[Span]:
    for place in IBAN_SKETCH.finditer(view.sketch):
        start = place.start()
        length = _IBAN_LENGTHS.get(view.text[start : start + 2].upper(), 0)
        code = view.text[start : start + 2 * length].partition("  ")[0].replace(" ", "")[:length]
        is_code = 0 < length == len(code) and code.isascii() and code.isalnum()
        if is_code and _passes_mod_97(code.upper()):
            yield Span(start, end_of(view.text, start, length), "account", code[-4:].upper())


_IN_DIGITS: Final = {letter: str(int(letter, 36)) for letter in string.digits + string.ascii_uppercase}


def _passes_mod_97(code: str) -> bool:
    return int("".join(map(_IN_DIGITS.__getitem__, code[4:] + code[:4]))) % 97 == 1
