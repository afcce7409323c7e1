"""A long text made short: its head and its tail, whole lines or whole JSON values, and a note of what is missing."""

import re
import unicodedata
from typing import Final

from finclaw.tools.guard.markup import LEFT_OUT
from finclaw.tools.guard.storable import TRUNCATED

_TAIL_SHARE: Final = 0.3
_SHORTEST_WITH_TAIL: Final = 400
_SEARCHED: Final = 0.2
"""How much of a piece may be given up for a better place to cut."""

_ENDS: Final = ("\n", "},", "],", '",', ",", ". ", " ")
"""Where to cut, the best first: a line, a JSON value, a field, a word."""


def cut(text: str, limit: int, how_to_read_on: str = "") -> str:
    """At most `limit` characters, the note included. A text that is short enough is left as it is."""
    if len(text) <= limit:
        return text
    if limit < _SHORTEST_WITH_TAIL:
        return (_head(text, max(0, limit - len(TRUNCATED))) + TRUNCATED)[:limit]
    room = limit - len(_note(len(text), how_to_read_on)) - len(TRUNCATED)
    tail = _tail(text, int(room * _TAIL_SHARE))
    head = _head(text, room - len(tail))
    return head + _note(len(text) - len(head) - len(tail), how_to_read_on) + tail + TRUNCATED


def _note(left_out: int, how_to_read_on: str) -> str:
    return f"\n{LEFT_OUT}{left_out:,} characters left out here{how_to_read_on} …]\n"


def _head(text: str, room: int) -> str:
    lowest = room - int(room * _SEARCHED)
    for end in _ENDS:
        if (found := text.rfind(end, lowest, room)) >= 0:
            return text[: found + len(end)].rstrip("\r\n") if found + len(end) <= room else text[:found]
    return text[: _between_characters(text, room)]


def _tail(text: str, room: int) -> str:
    start = len(text) - room
    highest = start + int(room * _SEARCHED)
    for end in _ENDS:
        if (found := text.find(end, start, highest)) >= 0:
            return text[found + len(end) :]
    place = _between_characters(text, highest)
    return text[place if place >= start else highest :]


_JOINED: Final = re.compile(r"[\u200c\u200d\ufe00-\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff\u1160-\u11ff]")
_VIRAMA: Final = 9
"""The class of the mark that joins two letters of an Indic script."""
_FLAG: Final = range(0x1F1E6, 0x1F200)


def _between_characters(text: str, place: int) -> int:
    """The nearest place at or before this one that does not take apart what is seen as one character."""
    for nearer in range(place, max(0, place - 64), -1):
        if not _joined(text, nearer):
            return nearer
    return place


def _joined(text: str, place: int) -> bool:
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if before == "\r":
        return after == "\n"
    if ord(before) in _FLAG and ord(after) in _FLAG:
        return _flags_before(text, place) % 2 == 1
    if before == "\u200d" or unicodedata.combining(before) == _VIRAMA:
        return True
    return _JOINED.match(after) is not None or unicodedata.category(after).startswith("M")


def _flags_before(text: str, place: int) -> int:
    count = 0
    while count < min(place, 64) and ord(text[place - 1 - count]) in _FLAG:
        count += 1
    return count
