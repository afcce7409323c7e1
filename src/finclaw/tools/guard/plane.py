"""Classes of characters that the engine finds fast: a class within the first plane is looked up in a table."""

import re
from functools import cache, cached_property
from typing import Final


@cache
def or_beyond(characters: str) -> str:
    """A class of these and of whatever lies beyond the first plane.

    Written as all the others negated: a single range beyond it would take three times as long in every text.
    """
    others = re.finditer(f"[^{characters}]+", _plane())
    return "[^" + "".join(f"\\u{ord(run[0][0]):04x}-\\u{ord(run[0][-1]):04x}" for run in others) + "]"


@cache
def _plane() -> str:
    """Row by row, for all its characters in one list would take 5 MB."""
    rows = (map(chr, range(first, first + 0x100)) for first in range(0, 0x10000, 0x100))
    return "".join(map("".join, rows))


class Seldom:
    """A search for characters that are seldom there, fast in a text that has none beyond the first plane.

    Made when it is first needed: a class of so many takes milliseconds to compile, and plain English needs none.
    """

    def __init__(self, characters: str, behind: str = "") -> None:
        self._characters: Final = characters
        self._behind: Final = behind

    @cached_property
    def _first(self) -> re.Pattern[str]:
        return re.compile(or_beyond(self._characters) + self._behind)

    @cached_property
    def _exact(self) -> re.Pattern[str]:
        return re.compile(f"[{self._characters}]" + self._behind)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self._first.search(text, start)
        return found if found is None or found[0] <= "\uffff" else self._exact.search(text, found.start())
