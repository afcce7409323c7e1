"""Classes of characters that the engine finds fast: a class within the first plane is looked up in a table."""

import re
from functools import cache
from typing import Final

_PLANE: Final = "".join(map(chr, range(0x10000)))


@cache
def or_beyond(characters: str) -> str:
    """A class of these and of whatever lies beyond the first plane.

    Written as all the others negated: a single range beyond it would take three times as long in every text.
    """
    others = re.finditer(f"[^{characters}]+", _PLANE)
    return "[^" + "".join(f"\\u{ord(run[0][0]):04x}-\\u{ord(run[0][-1]):04x}" for run in others) + "]"


class Seldom:
    """A search for characters that are seldom there, fast in a text that has none beyond the first plane."""

    def __init__(self, characters: str, behind: str = "") -> None:
        self._first: Final = re.compile(or_beyond(characters) + behind)
        self._exact: Final = re.compile(f"[{characters}]" + behind)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self._first.search(text, start)
        return found if found is None or found[0] <= "\uffff" else self._exact.search(text, found.start())
