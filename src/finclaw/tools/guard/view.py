"""A text as the searches see it: plain digits, spaces and hyphens, and a sketch of it in which a number stands out.

All forms have the same length, so that a place in one is the place in every other.
"""

import re
import string
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal

_FOLDED: Final = {
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
_TABLE: Final = {**_FOLDED, **_DIGITS}
_IN_PLANE: Final = "".join(chr(code) for code in _TABLE if code < 0x10000)
_FOLDABLE: Final = re.compile(rf"[{_IN_PLANE}\U000104a0-\U0001fbff]++")

_SKETCH: Final = bytes(
    ord("0") if chr(code) in string.digits
    else ord("A") if chr(code) in string.ascii_letters
    else ord("-") if chr(code) in " -"
    else ord(".") if chr(code) == "."
    else ord("x")
    for code in range(256)
)  # fmt: skip
_ISLAND: Final = re.compile(rb"0(?<!00)(?:-{0,3}+0){8,}+|0000\.0000\.0000\.0000(?!0)")

Form = Literal[
    "thirteen", "fours", "dotted fours", "four, six, five", "ones", "resident", "social", "hyphenated"
]  # fmt: skip
_GAP: Final = rb"(?:-|---)?"
_FORMS: Final[dict[Form, re.Pattern[bytes]]] = {
    "thirteen": re.compile(rb"0{13}"),
    "fours": re.compile(
        rb"(?<!0)(?<!0000-)(?!0{16}(?!-))0000(?:%b0000){3}(?:%b0{1,3})?(?!0)(?!-0000(?!0))" % (_GAP, _GAP)
    ),
    "dotted fours": re.compile(rb"\."),
    "four, six, five": re.compile(rb"(?<!0)0000(?:-|---)000000%b00000?(?!0)" % _GAP),
    "ones": re.compile(rb"0(?:-0){12}"),
    "resident": re.compile(rb"(?<!0)000000-{0,3}0000000(?!0)"),
    "social": re.compile(rb"(?<!0)000-00-0000(?!0)"),
    "hyphenated": re.compile(
        rb"(?<!0)(?:000-(?:000-000000|00-000000|0000-0000-00|000000-00000|000000-00-000)"
        rb"|0000-(?:000-000000|00-0000000)|000000-00-000000)(?!0)"
    ),
}
"""What the sketch of an island has in it that may be a number of this form."""


def folded(text: str) -> str:
    """The same text, character for character, with every script's digits, spaces and hyphens as the plain ones."""
    if text.isascii():
        return text
    return _FOLDABLE.sub(lambda run: run[0].translate(_TABLE), text)


class View:
    def __init__(self, text: str) -> None:
        self.text: Final = folded(text)
        self.lower: Final = self.text.encode("ascii", "replace").lower()

    @cached_property
    def sketch(self) -> bytes:
        """'0' for a digit, 'A' for a letter, '-' for a space or hyphen, '.' for itself, 'x' for the rest."""
        return self.lower.translate(_SKETCH)

    @cached_property
    def numbers(self) -> list[tuple[int, int]]:
        """Where nine digits or more stand together, with nothing but spaces and hyphens between them."""
        return [found.span() for found in _ISLAND.finditer(self.sketch)]

    @cached_property
    def islands(self) -> dict[Form, list[tuple[int, int]]]:
        """Where the numbers of each form may be. A table has thousands of numbers, but few sketches of one."""
        islands: dict[Form, list[tuple[int, int]]] = {form: [] for form in _FORMS}
        known = dict[bytes, list[list[tuple[int, int]]]]()
        for start, end in self.numbers:
            sketch = self.sketch[start:end]
            if (places := known.get(sketch)) is None:
                places = [islands[form] for form, mark in _FORMS.items() if mark.search(sketch)]
                known[sketch] = places
            for place in places:
                place.append((start, end))
        return islands

    def places(self, word: str) -> Iterator[int]:
        """Where a lower-case word begins, however it is written there."""
        found = self._find(word, 0)
        while found >= 0:
            yield found
            found = self._find(word, found + len(word))

    def has(self, word: str) -> bool:
        return self._find(word, 0) >= 0

    def _find(self, word: str, start: int) -> int:
        return self.lower.find(word.encode(), start) if word.isascii() else self.text.find(word, start)
