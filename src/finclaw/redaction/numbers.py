"""Numbers that are secret: payment cards, national identity numbers and bank accounts.

The digit map of a text has '0' for a digit, 'A' for a letter, '-' for a space or hyphen, '.' for itself, else 'x'.
Numbers stand out in it by their shape: a search of the map finds where a number may begin, and only there are the exact
patterns of the table tried. Exact patterns over the whole text would take a hundred times as long (`cpu_plain_alone`).
"""

import re
import string
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from finclaw.redaction.patterns import (
    ACCOUNT_LABELS,
    CARD,
    RESIDENT,
    SOCIAL_SECURITY,
    SOCIAL_SECURITY_LABELS,
    UNIT,
    Span,
    labels_in,
    says,
    says_market,
)


def find_numbers(text: str, lowered: str) -> Iterator[Span]:
    """Find the secret numbers of a text with plain digits, spaces and hyphens."""
    digit_map = _map_digits(text)
    for candidates, numbers in _TABLE:
        for candidate in candidates.finditer(digit_map):
            for number in numbers:
                found = number.pattern.match(text, candidate.start())
                if found is not None and (span := number.check(found)) is not None:
                    yield span
    for label in labels_in(lowered):
        if label in SOCIAL_SECURITY_LABELS:
            yield from filter(None, map(_check_social_security, _NINE_DIGITS.finditer(text)))
        if label in ACCOUNT_LABELS:
            yield from _find_labelled_accounts(text, lowered, label)


def may_hold_number(text: str) -> bool:
    """Return whether a text has the shape of a number, labels aside."""
    digit_map = _map_digits(text)
    if b"0-0-0-0-0-0-0-0-0-0-0-0-0" in digit_map:
        return True
    return b"00" in digit_map and (_GROUPS.search(digit_map) is not None or _IBAN_MAP.search(digit_map) is not None)


# ── the digit map ─────────────────────────────────────────────────────────────────────────────────────────


def _map_code(code: int) -> int:
    character = chr(code)
    if character in string.digits:
        return ord("0")
    if character in string.ascii_letters:
        return ord("A")
    return ord({" ": "-", "-": "-", ".": "."}.get(character, "x"))


_DIGIT_MAP: Final = bytes(map(_map_code, range(256)))


def _map_digits(text: str) -> bytes:
    return text.encode("ascii", "replace").translate(_DIGIT_MAP)


_GAPS: Final = "(?:-|---)?"
_SHAPES: Final = (
    "0{10,16}",
    # Not out of the middle of a table of fours.
    f"0(?<!0000-0000)(?:{_GAPS}0000){{3}}(?:{_GAPS}0{{1,3}})?(?!0)(?!-0000(?!0))",
    r"0\.0000\.0000\.0000",
    f"0{_GAPS}000000{_GAPS}00000?",
    "000-{1,3}0000000",
    "-00-0000",
    "-(?:000-000000|00-000000|0000-0000-00|000000-00000|000000-00-000)",
    "0-(?:000-000000|00-0000000)",
    "000-00-000000",
)
"""The shapes of numbers in the map after the first three digits."""
_GROUPS: Final = re.compile(f"000(?<!0000)(?=-?0)(?=(?:{'|'.join(_SHAPES)})(?!0))0*+".encode())
"""The first group of a number. The three zeros stand first because the engine searches for literal text fastest, and
what every shape goes on with before the shapes: thousands with commas are no number here."""
_IBAN_MAP: Final = re.compile(rb"AA00(?<![0A]AA00)(?=" + rb"-?+[0A]" * 11 + rb")")
_ONES: Final = re.compile(rb"0(?<!00)(?<!0-0)(?=(?:-0){12})")


# ── payment cards ─────────────────────────────────────────────────────────────────────────────────────────

_GAP: Final = r"(?:[ -]| - |)"
_RANGES: Final = (
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{17,18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720))[0-9]{12}"  # Mastercard
    r"|(?:6[0-9]{3}|5[0678][0-9]{2}|35(?:2[89]|[3-8][0-9]))[0-9]{12,15}"  # Discover, UnionPay, Maestro, JCB
    r"|3(?:[47][0-9]{13}|(?:0[0-5]|[689][0-9])[0-9]{11})"  # American Express, Diners
    r"|9[0-9]{15}"  # Korea's own
)
_IN_RANGE: Final = re.compile(_RANGES)
_USUAL_LENGTH: Final = 16
_UNLABELLED_LENGTHS: Final = (15, 16, 19)
"""13 and 14 digits are won amounts and timestamps, 17 and 18 are ids, unless a word says card."""
_SUM_OF_DOUBLED: Final = {"0": 0, "1": 2, "2": 4, "3": 6, "4": 8, "5": 1, "6": 3, "7": 5, "8": 7, "9": 9}
"""The sum of the digits of each digit's double: of 7 it is 1 + 4."""


def _check_card(found: re.Match[str]) -> Span | None:
    """A card in one run. It is not part of a hash or a longer name, unless that name is 'card', nor a market value."""
    digits = found[0]
    if not passes_luhn(digits):
        return None
    text = found.string
    start = found.start()
    end = found.end()
    before = text[max(0, start - 4) : start].lower()
    after = text[end : end + 2]
    if _is_letter(after) or (_is_letter(before[-1:]) and not before.endswith(("card", "visa", "pan"))):
        return None
    has_decimals = after[:1] == "." and after[1:].isdigit()
    is_fraction = before[-1:] == "." and before[-2:-1].isdigit()
    is_figure = len(digits) not in _UNLABELLED_LENGTHS or has_decimals or is_fraction or says_market(found)
    if is_figure and not says(CARD, found):
        return None
    return Span(start, end, "card", digits[-4:])


def _is_letter(characters: str) -> bool:
    return characters[:1].isascii() and characters[:1].isalpha()


def _check_card_in_groups(found: re.Match[str]) -> Span | None:
    """All the digits, or as many as most cards have: a security code may follow."""
    digits = re.sub("[ .-]", "", found[0])
    if len(digits) == len(found[0]):
        return None
    for code in (digits, digits[:_USUAL_LENGTH]):
        if _IN_RANGE.fullmatch(code) is not None and passes_luhn(code):
            return Span(found.start(), _end_of_code(found, len(code)), "card", code[-4:])
    return None


def passes_luhn(digits: str) -> bool:
    """The check of a card number: every second digit from the right is doubled, and the sum of all ends in 0."""
    return (sum(map(int, digits[-1::-2])) + sum(map(_SUM_OF_DOUBLED.__getitem__, digits[-2::-2]))) % 10 == 0


def _end_of_code(found: re.Match[str], length: int) -> int:
    """Return the position after so many letters and digits, whatever stands between them."""
    position = found.start()
    while length:
        length -= found.string[position].isalnum()
        position += 1
    return position


# ── national identity numbers ─────────────────────────────────────────────────────────────────────────────

_CENTURY: Final = {"1": 1900, "2": 1900, "5": 1900, "6": 1900, "3": 2000, "4": 2000, "7": 2000, "8": 2000}
_YEARS: Final = range(1920, 2036)
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS: Final = frozenset(
    f"{month:02}{day:02}" for month, length in enumerate(_LENGTHS, 1) for day in range(1, length + 1)
)
_TIMESTAMPS: Final = range(1_400_000_000_000, 2_100_000_000_000)
"""In milliseconds, from 2014 to 2036: thirteen digits too, and far more often in a tool's result."""
_WEIGHTS: Final = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
_KINDS_OF_COMPANY: Final = frozenset(("11", "12", "13", "14", "15", "21", "22", "31"))


def _check_resident_number(found: re.Match[str]) -> Span | None:
    gap = found[2] or ""
    digits = found[1] + found[3]
    if not _has_birthday(digits):
        return None
    if "-" in gap:
        is_other = _is_company(digits)
    else:
        is_figure = not gap and (int(digits) in _TIMESTAMPS or says_market(found))
        is_other = is_figure or not _passes_resident_check(digits)
    if is_other and not says(RESIDENT, found):
        return None
    return Span(found.start(), found.end(), "resident number")


def _has_birthday(digits: str) -> bool:
    """Numbers given since October 2020 have no check digit: the day of birth and the century must do."""
    year = _CENTURY[digits[6]] + int(digits[:2])
    day = digits[2:6]
    return year in _YEARS and (day in _DAYS or (day == "0229" and year % 4 == 0))


def _passes_resident_check(digits: str) -> bool:
    total = sum(int(digit) * weight for digit, weight in zip(digits, _WEIGHTS, strict=False))
    base = 13 if digits[6] in "5678" else 11  # foreign and domestic
    return int(digits[12]) == (base - total % 11) % 10


def _is_company(digits: str) -> bool:
    """A company's public registration number has the same form, and a check digit of its own."""
    if digits[4:6] not in _KINDS_OF_COMPANY:
        return False
    total = sum(int(digit) * (1 + place % 2) for place, digit in enumerate(digits[:12]))
    return int(digits[12]) == -total % 10 and not _passes_resident_check(digits)


_NINE_DIGITS: Final = re.compile(r"([0-9](?<![0-9A-Za-z-][0-9])[0-9]{2})([ -]?)([0-9]{2})\2([0-9]{4})(?![0-9A-Za-z-])")


def _check_social_security(found: re.Match[str]) -> Span | None:
    """Nine digits are a volume, too: without hyphens a word must say what they are. No last four: they open doors."""
    area, gap, group, serial = found.groups()
    is_valid = area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"
    if not is_valid or (gap != "-" and not says(SOCIAL_SECURITY, found)):
        return None
    return Span(found.start(), found.end(), "social security number")


# ── bank accounts ─────────────────────────────────────────────────────────────────────────────────────────

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
_DATE: Final = re.compile(r"(?:19|20)[0-9]{2}(?:-[01][0-9]-[0-3][0-9]|[01][0-9][0-3][0-9])")
_IBAN_LENGTHS: Final = {
    country: length
    for length, countries in {
        15: "no", 16: "be", 18: "dk fi fo gl nl", 19: "mk si", 20: "at ba ee kz lt lu xk", 21: "ch hr li lv",
        22: "bg bh cr de gb ge ie me rs va", 23: "ae gi il iq tl", 24: "ad cz es md pk ro sa se sk tn vg", 25: "pt st",
        26: "is tr", 27: "fr gr it mc mr sm", 28: "al az by cy do gt hu lb pl sv", 29: "br eg ps qa ua",
        30: "jo kw mu", 31: "mt sc", 32: "lc",
    }.items()
    for country in countries.split()
}  # fmt: skip
_LETTERS_AS_NUMBERS: Final = str.maketrans({letter: str(int(letter, 36)) for letter in string.ascii_lowercase})
"""As the check of an IBAN reads them: a is 10, z is 35."""


def _find_labelled_accounts(text: str, lowered: str, label: str) -> Iterator[Span]:
    for place in re.finditer(re.escape(label), lowered):
        found = _AFTER_LABEL.match(text, place.end())
        if found is not None:
            digits = re.sub("[ -]", "", found["number"])
            if 8 <= len(digits) <= 20 and not _DATE.fullmatch(found["number"]):
                yield Span(found.start("number"), found.end("number"), "account", digits[-4:])


def _check_korean_account(found: re.Match[str]) -> Span | None:
    if says_market(found):
        return None
    return Span(found.start(), found.end(), "account", found[0].replace("-", "")[-4:])


def _check_iban(found: re.Match[str]) -> Span | None:
    """As many characters as the country's IBANs have. With country and check digits last it is 1 modulo 97."""
    length = _IBAN_LENGTHS.get(found[0][:2].lower(), 0)
    code = found[0].replace(" ", "")[:length].lower()
    if not length or len(code) < length or int((code[4:] + code[:4]).translate(_LETTERS_AS_NUMBERS)) % 97 != 1:
        return None
    return Span(found.start(), _end_of_code(found, length), "account", code[-4:].upper())


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────


class _Number(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    check: Callable[[re.Match[str]], Span | None]


def _number(name: str, expression: str, check: Callable[[re.Match[str]], Span | None]) -> _Number:
    return _Number(name, re.compile(expression), check)


_TABLE: Final = (
    (
        _GROUPS,
        (
            _number("card", rf"(?<![0-9])(?:{_RANGES})(?![0-9])", _check_card),
            _number(
                "card in fours",
                # Not out of the middle of a table of fours; a date or a security code may follow.
                rf"(?<![0-9A-Za-z])(?<![0-9]{{4}}[ -])[0-9]{{4}}(?:{_GAP}[0-9]{{4}}){{3}}(?:{_GAP}[0-9]{{1,3}})?"
                r"(?![0-9A-Za-z])(?![ -][0-9]{4}(?![0-9]))",
                _check_card_in_groups,
            ),
            _number("card with dots", r"(?<![0-9.])[2-69][0-9]{3}(?:\.[0-9]{4}){3}(?![0-9.])", _check_card_in_groups),
            _number(
                "card in groups of four, six and five",
                rf"(?<![0-9A-Za-z])3[0-9]{{3}}{_GAP}[0-9]{{6}}{_GAP}[0-9]{{4,5}}(?![0-9A-Za-z])",
                _check_card_in_groups,
            ),
            _number(
                "Korean resident",
                r"(?<![0-9A-Za-z])([0-9]{2}[01][0-9][0-3][0-9])( ?- ?| )?([1-8][0-9]{6})(?![0-9A-Za-z])",
                _check_resident_number,
            ),
            _number("American social security", _NINE_DIGITS.pattern, _check_social_security),
            _number(
                "Korean account",
                # How Korean banks hyphenate.
                r"(?<![0-9A-Za-z-])(?:[0-9]{3}-[0-9]{3}-[0-9]{6}|[0-9]{3}-[0-9]{2}-[0-9]{6}"
                r"|[0-9]{3}-[0-9]{4}-[0-9]{4}-[0-9]{2}|[0-9]{3}-[0-9]{6}-[0-9]{5}|[0-9]{3}-[0-9]{6}-[0-9]{2}-[0-9]{3}"
                r"|[0-9]{4}-[0-9]{3}-[0-9]{6}|[0-9]{4}-[0-9]{2}-[0-9]{7}|[0-9]{6}-[0-9]{2}-[0-9]{6})(?![0-9A-Za-z-])",
                _check_korean_account,
            ),
        ),
    ),
    (_IBAN_MAP, (_number("IBAN", "[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]){11,28}", _check_iban),)),
    (
        _ONES,
        (
            _number(
                "card in single digits",
                r"(?<![0-9])(?<![0-9][ -])[2-69](?:[ -][0-9]){12,18}(?![0-9])(?![ -][0-9])",
                _check_card_in_groups,
            ),
        ),
    ),
)
"""Where a number may begin in the map, and the kinds it may be of."""
