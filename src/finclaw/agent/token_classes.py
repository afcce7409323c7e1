"""One class for each character of a text, by the first byte of its UTF-8, and what lies between two neighbours."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final

NAMES: Final = "-aA0 \nxtsjcke."
"""Small letters, capitals, digits, blanks, line ends, other letters of two bytes (`x`) and of three (`t`), symbols,
kana (`j`), ideographs (`c`), Hangul (`k`), emoji, signs. A class is the place of its name: two have room in a byte.
"""


def classes_of(encoded: bytes) -> bytes:
    """Those of a text, behind a line end: so its first word has a border like any other."""
    return _LINE_END + encoded.translate(_CLASSES, _CONTINUATIONS)


def borders_of(classes: bytes) -> bytes:
    """A letter for each pair of neighbours that means something, as `_BORDERS` has them.

    As one large number the text is shifted against itself: so each class shares a byte with the one behind it.
    """
    number = int.from_bytes(classes, "little")
    pairs = (number << 4 | number >> 8).to_bytes(len(classes), "little")
    return pairs.translate(_LETTERS, _MEANINGLESS)


def named(names: str) -> bytes:
    return bytes(map(NAMES.index, names))


def only(name: str) -> bytes:
    """A table that leaves one class, under its name, and makes all others a dash."""
    return _table({ord(name): named(name)}, other=ord("-"))


def _table(entries: Mapping[int, Iterable[int]], other: int) -> bytes:
    table = bytearray([other] * 256)
    for value, characters in entries.items():
        for each in characters:
            table[each] = value
    return bytes(table)


_LINE_END: Final = named("\n")
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
_FIRST_BYTES: Final[Mapping[str, Iterable[int]]] = {
    "a": range(ord("a"), ord("z") + 1),
    "A": range(ord("A"), ord("Z") + 1),
    "0": range(ord("0"), ord("9") + 1),
    " ": b" \t",
    "\n": b"\r\n",
    "x": range(0xC2, 0xE0),
    "t": range(0xE0, 0xE2),
    "s": (0xE2, 0xEE, 0xEF),
    "j": (0xE3,),
    "c": range(0xE4, 0xEA),
    "k": range(0xEA, 0xEE),
    "e": range(0xF0, 0xF5),
}
_CLASSES: Final = _table(
    {NAMES.index(name): each for name, each in _FIRST_BYTES.items()},
    other=NAMES.index("."),
)

# ── borders ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_ANY: Final = NAMES[1:]
_NO_LETTER: Final = "".join(name for name in _ANY if name not in "aAx")
_BORDERS: Final[tuple[tuple[str, str, str], ...]] = (
    ("o", _NO_LETTER, "aAx"),  # a word begins
    ("w", " ", "aA"),  # behind a space
    ("b", "0", "a"),  # beside a digit
    ("d", "a", "0"),
    ("h", "a", "A"),
    ("s", _ANY, "."),
    ("k", _ANY, "k"),
    ("-", "k", "k"),
    ("A", "A", "A"),  # and these are no borders: they tell that something is repeated
    ("0", "0", "0"),
    (" ", " ", " "),
    ("n", "\n", "\n"),
    (".", ".", "."),
)
"""A letter, and the classes before and behind. The last that fits counts; a dash means nothing."""
_FOUND: Final = {
    NAMES.index(before) << 4 | NAMES.index(behind): letter
    for letter, befores, behinds in _BORDERS
    for before, behind in product(befores, behinds)
}
_LETTERS: Final = bytes(ord(_FOUND.get(pair, "-")) for pair in range(256))
_MEANINGLESS: Final = bytes(pair for pair in range(256) if _LETTERS[pair] == ord("-"))
