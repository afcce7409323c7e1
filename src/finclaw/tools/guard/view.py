"""A text as the searches see it: plain digits, spaces and hyphens, and a sketch of it in which a number stands out.

All forms have the same length, so that a place in one is the place in every other.
"""

import re
import string
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from itertools import islice
from typing import AnyStr, Final, Literal, NamedTuple, get_args

from finclaw.tools.guard.plane import Seldom

_ALIKE: Final = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # fullwidth
    **dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "),
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2043, 0x2212, 0x2E3A, 0x2E3B, 0x30FC, 0xFE58, 0xFE63, 0xFF70], "-"),
}
_DIGITS: Final = {
    code: str(value)
    for first, last in [(0xB2, 0x3000), (0xA620, 0xABFF), (0x104A0, 0x11FFF), (0x16A60, 0x16BFF), (0x1D7CE, 0x1FBFF)]
    for code in range(first, last)
    if (value := unicodedata.digit(chr(code), -1)) >= 0
}
_TABLE: Final = {**_ALIKE, **_DIGITS}
FOLDED: Final = frozenset(map(chr, _TABLE))
FOLDABLE: Final = "".join(filter("\U00010000".__gt__, FOLDED)) + "\U000104a0-\U0001f10a\U0001fbf0-\U0001fbf9"
"""Beyond the first plane a little more than these, but no pictures: a chat is full of them."""
_TO_FOLD: Final = Seldom(FOLDABLE)
_MANY: Final = 16
"""Up to here each kind is replaced by itself: in a table of prices there are two or three, a hundred thousand times."""
_FOLDABLE: Final = re.compile(f"[{FOLDABLE}]++")

SKETCH: Final = bytes(
    ord("0") if chr(code) in string.digits
    else ord("A") if chr(code) in string.ascii_letters
    else ord("-") if chr(code) in " -"
    else ord(".") if chr(code) == "."
    else ord("x")
    for code in range(256)
)  # fmt: skip

Form = Literal["together", "fours", "dotted fours", "four, six, five", "ones", "resident", "social", "hyphenated"]
NUMBER: Final = re.compile(
    rb"""
    000(?<!0000)(?:
        -(?= (?:00-0000 | 00-000000 | 000-000000 | 0000-0000-00 | 000000-00000 | 000000-00-000)(?!0) )()
      | 0(?: -(?<!0000\.0000\.0000\.0000-)(?:
                  (?<!0000-0000-)(?= (?:--)?0000(?:GAP0000){2}(?:GAP0{1,3})?(?!0)(?!-0000(?!0)) )()
                | (?= (?:--)?000000GAP00000?(?!0) )()
                | (?= 000-000000(?!0) | 00-0000000(?!0) )())
           | \.(?= 0000\.0000\.0000(?!0) )()
           | 00(?: -(?= -{0,2}0000000(?!0) | 00-000000(?!0) )()
                 | 00(?: -(?= (?:--)?0000GAP0000(?:GAP0{1,3})?(?!0)(?!-0000(?!0)) )()
                       | 0000(?: -(?= (?:--)?0000(?:GAP0{1,3})?(?!0)(?!-0000(?!0)) )()
                               | 0(?!0)()
                               | 0000(?!0)(?= (?:-|---)0{1,3}(?!0) )()
                               | 00{1,6}(?!0)()
                               | 0{8}0*+)))))
    """.replace(b"GAP", b"(?:-|---)?"),
    re.VERBOSE,
)
"""The first digits of what may be a card, an account or a person's number, in a sketch.

Of each branch the first mark behind the digits decides, so that the numbers of a table are passed over fast.
"""
_FORMS: Final[dict[int | None, tuple[Form, ...]]] = {
    1: ("social", "hyphenated"), 2: ("fours",), 3: ("four, six, five",), 4: ("hyphenated",), 5: ("dotted fours",),
    6: ("resident", "hyphenated"), 7: ("fours",), 8: ("fours",), 9: ("together", "resident"), 10: ("together", "fours"),
    11: ("together",), None: (),
}  # fmt: skip
"""What each branch may be the beginning of; the last one is too long for anything."""
ONES: Final = b"-".join([b"0"] * 13)
_ONES: Final = re.compile(rb"0(?<!00)(?<!0-0)(?=(?:-0){12})")

_BEFORE: Final = 100
_BEHIND: Final = 100
"""How far around the first digit is looked at: words before it and a replacement among them, all of it, its unit."""


def folded(text: str) -> str:
    """The same text, character for character, with every script's digits, spaces and hyphens as the plain ones."""
    if text.isascii():
        return text
    first = _TO_FOLD.search(text)
    if first is None:
        return text
    runs = set[str](_FOLDABLE.findall(text, first.start()))
    characters = FOLDED.intersection("".join(runs))
    if len(characters) > _MANY:
        return _FOLDABLE.sub(lambda run: run[0].translate(_TABLE), text)
    for character in characters:
        text = text.replace(character, _TABLE[ord(character)])
    return text


class Known(NamedTuple):
    """What is known of a text that was looked at before it was changed in places: the rest need not be again."""

    changed: Sequence[int]
    absent: Set[str]

    def changed_near(self, place: int) -> bool:
        near = bisect_left(self.changed, place - _BEFORE)
        return near < len(self.changed) and self.changed[near] <= place + _BEHIND


class View:
    def __init__(self, text: str, known: Known | None = None) -> None:
        self.text: Final = folded(text)
        self.lower: Final = self.text.encode("ascii", "replace").lower()
        self._known: Final = known
        self.absent: Final = set[str](known.absent if known else ())
        self._read_until = -1
        self.hidden_from = len(text)
        """From here on everything is hidden whatever it is, and need not be looked at."""

    @cached_property
    def sketch(self) -> bytes:
        """'0' for a digit, 'A' for a letter, '-' for a space or hyphen, '.' for itself, 'x' for the rest."""
        return self.lower.translate(SKETCH)

    def matches(self, form: Form, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """The numbers of a form, none of them within another, as far as anything may still be seen."""
        text, position, at, places = self.text, 0, 0, self._numbers[form]
        while at < len(places) or self._read_on():
            for place in places[at:]:
                at += 1
                if place >= self.hidden_from:
                    return
                if place >= position and (found := pattern.match(text, place)) is not None:
                    position = found.end()
                    yield found

    @cached_property
    def _numbers(self) -> dict[Form, list[int]]:
        """Where a number of each form may begin, as far as was read by now."""
        numbers: dict[Form, list[int]] = {form: [] for form in get_args(Form)}
        if ONES in self.sketch:
            numbers["ones"] = [found.start() for found in _ONES.finditer(self.sketch)]
        return numbers

    @cached_property
    def _unread(self) -> Iterator[re.Match[bytes]]:
        return NUMBER.finditer(self.sketch)

    def _read_on(self) -> bool:
        """A thousand numbers at a time: of a text full of secrets only the beginning is needed."""
        numbers, known, start = self._numbers, self._known, -1
        if self._read_until >= self.hidden_from:
            return False
        for found in islice(self._unread, 1_000):
            start = found.start()
            if known is None or known.changed_near(start):
                for form in _FORMS[found.lastindex]:
                    numbers[form].append(start)
        self._read_until = start
        return start >= 0

    def places(self, word: str) -> Iterator[int]:
        """Where a lower-case word begins, however it is written there."""
        return _places(self.lower, word.encode()) if word.isascii() else _places(self.text, word)

    def has(self, word: str) -> bool:
        """Whether a lower-case word is there, however it is written."""
        return word.encode() in self.lower if word.isascii() else word in self.text

    def may_have(self, word: str) -> bool:
        """The same, but of a text that was looked at before only words it had then: a replacement labels nothing."""
        if word not in self.absent and not self.has(word):
            self.absent.add(word)
        return word not in self.absent

    def may_begin(self, beginning: str) -> bool:
        """Whether a key's beginning is there, letter for letter; likewise."""
        if beginning not in self.absent and beginning not in self.text:
            self.absent.add(beginning)
        return beginning not in self.absent


def _places(text: AnyStr, word: AnyStr) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))
