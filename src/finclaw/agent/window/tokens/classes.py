"""Character classes of a text, by the first byte of a character in UTF-8, and what lies between two neighbours."""

from collections.abc import Iterable, Mapping
from typing import Final

NAMES: Final = "-aA0 \nxtsjcke."
"""Small letters, capitals, digits, blanks, line ends, other letters of two bytes (`x`) and of three (`t`), symbols,
kana (`j`), ideographs (`c`), Hangul (`k`), emoji, signs. A class is the place of its name: two have room in a byte.
"""


def classes_of(encoded: bytes) -> bytes:
    return encoded.translate(_CLASSES) if encoded.isascii() else encoded.translate(_CLASSES, _CONTINUATIONS)


def pairs_of(classes: bytes) -> bytes:
    """Each class and the one before it in one byte: as one large number the text is shifted against itself.

    Before the first stands none (0), and at the end one more pair, with none behind it.
    """
    number = int.from_bytes(classes, "little")
    return (number << 12 | number).to_bytes(len(classes) + 1, "little")


def named(names: str) -> bytes:
    return bytes(map(NAMES.index, names))


def pair(names: str) -> int:
    before, behind = named(names)
    return before << 4 | behind


def only(name: str) -> bytes:
    """A table that leaves one class, under its name, and makes all others a dash."""
    return _table({ord(name): named(name)}, other=ord("-"))


def _table(entries: Mapping[int, Iterable[int]], other: int) -> bytes:
    table = bytearray([other] * 256)
    for value, characters in entries.items():
        for each in characters:
            table[each] = value
    return bytes(table)


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
