"""Every script's digits, spaces and hyphens read as the plain ones, character for character."""

import unicodedata
from typing import Final

from finclaw.kernel.lazy_pattern import LazyPattern
from finclaw.tools.guard.plane import Seldom

_ALIKE: Final = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # fullwidth
    **dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "),
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2043, 0x2212, 0x2E3A, 0x2E3B, 0x30FC, 0xFE58, 0xFE63, 0xFF70], "-"),
}
_DIGITS: Final = {
    ord(digit): str(unicodedata.digit(digit))
    for first, last in [(0xB2, 0x3000), (0xA620, 0xABFF), (0x104A0, 0x11FFF), (0x16A60, 0x16BFF), (0x1D7CE, 0x1FBFF)]
    for digit in filter(str.isdigit, map(chr, range(first, last)))
}
_TABLE: Final = {**_ALIKE, **_DIGITS}
FOLDED: Final = frozenset(map(chr, _TABLE))
FOLDABLE: Final = "".join(filter("\U00010000".__gt__, FOLDED)) + "\U000104a0-\U0001f10a\U0001fbf0-\U0001fbf9"
"""Beyond the first plane a little more than these, but no pictures: a chat is full of them."""
_TO_FOLD: Final = Seldom(FOLDABLE)
_MANY: Final = 64
"""Up to here each is replaced everywhere at once: in a table of prices there are two or three, a thousand times."""
_FOLDABLE: Final = LazyPattern(f"[{FOLDABLE}]++")


def folded(text: str) -> str:
    """The same text, character for character, with every script's digits, spaces and hyphens as the plain ones."""
    if text.isascii():
        return text
    position = 0
    for _ in range(_MANY):
        found = _TO_FOLD.search(text, position)
        if found is None:
            return text
        position, character = found.end(), found[0]
        text = text.replace(character, _TABLE.get(ord(character), character))
    return _FOLDABLE.sub(lambda run: run[0].translate(_TABLE), text)
