"""Bank accounts: a number with the word for it, a Korean one by its hyphens, or an IBAN with the right check."""

import re
import string
from collections.abc import Iterator
from itertools import islice
from typing import Final

from finclaw.redaction.labels import UNIT, says_market
from finclaw.redaction.patterns import ACCOUNT_LABELS
from finclaw.redaction.scan_text import IBAN, ScanText, Span, end_of_code, limit_spans

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
    rf"(?!{UNIT})"
)
_KOREAN: Final = re.compile(
    # How Korean banks hyphenate.
    r"(?<![0-9A-Za-z-])(?:[0-9]{3}-[0-9]{3}-[0-9]{6}|[0-9]{3}-[0-9]{2}-[0-9]{6}|[0-9]{3}-[0-9]{4}-[0-9]{4}-[0-9]{2}"
    r"|[0-9]{3}-[0-9]{6}-[0-9]{5}|[0-9]{3}-[0-9]{6}-[0-9]{2}-[0-9]{3}|[0-9]{4}-[0-9]{3}-[0-9]{6}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{7}|[0-9]{6}-[0-9]{2}-[0-9]{6})(?![0-9A-Za-z-])"
)
_DATE: Final = re.compile(r"(?:19|20)[0-9]{2}(?:-[01][0-9]-[0-3][0-9]|[01][0-9][0-3][0-9])")
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


_LETTERS_AS_NUMBERS: Final = tuple(
    (letter.encode(), str(int(letter, 36)).encode()) for letter in string.ascii_lowercase
)
"""As the check of an IBAN reads them: a is 10, z is 35."""


def find_accounts(scanned: ScanText) -> Iterator[Span]:
    for label in ACCOUNT_LABELS:
        if scanned.may_have(label):
            yield from limit_spans(scanned.text, _find_labelled(scanned, label))
    yield from limit_spans(scanned.text, _find_korean(scanned))
    yield from limit_spans(scanned.text, _find_ibans(scanned))


def _find_labelled(scanned: ScanText, label: str) -> Iterator[Span]:
    for place in scanned.ends_of(label):
        if (found := _AFTER_LABEL.match(scanned.text, place)) is not None:
            number = found["number"]
            digits = number.replace("-", "").replace(" ", "")
            if 8 <= len(digits) <= 20 and not _DATE.fullmatch(number):
                yield Span(found.start("number"), found.end("number"), "account", digits[-4:])


def _find_korean(scanned: ScanText) -> Iterator[Span]:
    for found in scanned.numbers("hyphenated", _KOREAN):
        if not says_market(scanned.text, *found.span()):
            yield Span(found.start(), found.end(), "account", found[0].replace("-", "")[-4:])


def _find_ibans(scanned: ScanText) -> Iterator[Span]:
    """A thousand at a time, and equal text once.

    Read one by one, "codes of banks" and "one code of a bank" of tests/redaction/megabytes.py take too long.
    """
    places = scanned.find_in_map(IBAN)
    while starts := [place.start() for place in islice(places, 1_000)]:
        written = [scanned.lower[start : start + _LONGEST_IBAN] for start in starts]
        codes = {each: code for each in set(written) if (code := _read_iban(each))}
        valid = _select_valid(set(codes.values()))
        for start, each in zip(starts, written, strict=True) if valid else ():
            if (code := codes.get(each)) in valid:
                yield Span(start, end_of_code(scanned.text, start, len(code)), "account", code[-4:].decode().upper())


def _read_iban(written: bytes) -> bytes:
    """As many letters and digits as the country's IBANs have, with or without single spaces between them."""
    length = _IBAN_LENGTHS.get(written[:2], 0)
    code = written[:length]
    if not code.isalnum():
        code = written[: 2 * length].partition(b"  ")[0].replace(b" ", b"")[:length]
    return code if len(code) == length and code.isalnum() else b""


def _select_valid(codes: set[bytes]) -> set[bytes]:
    """The IBANs whose number, with the country and check digits last and letters as numbers, is 1 modulo 97."""
    numbers = b" ".join([code[4:] + code[:4] for code in codes])
    for letter, number in _LETTERS_AS_NUMBERS:
        numbers = numbers.replace(letter, number)
    return {code for code, number in zip(codes, numbers.split(), strict=True) if int(number) % 97 == 1}
