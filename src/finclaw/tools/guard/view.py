"""A text as the searches see it: plain digits, spaces and hyphens, and a sketch of it in which a number stands out.

All forms have the same length, so that a place in one is the place in every other.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import cache, cached_property
from itertools import chain, islice, repeat
from typing import AnyStr, Final, Literal, NamedTuple, get_args

from finclaw.tools.guard.fold import folded
from finclaw.tools.guard.sketch import NUMBER, ONES, SKETCH

Form = Literal["together", "fours", "dotted fours", "four, six, five", "ones", "resident", "social", "hyphenated"]
_NUMBER: Final = re.compile(NUMBER, re.VERBOSE)
_FORMS: Final[tuple[tuple[Form, ...], ...]] = (
    (), ("social",), ("hyphenated",), ("fours",), ("four, six, five",), ("hyphenated",), ("dotted fours",),
    ("resident",), ("hyphenated",), ("fours",), ("fours",), ("together", "resident"), ("together", "fours"),
    ("together",),
)  # fmt: skip
"""What each branch may be the beginning of; what has no number is too long for anything."""
_ONES: Final = re.compile(rb"0(?<!00)(?<!0-0)(?=(?:-0){12})")

_BEFORE: Final = 100
_BEHIND: Final = 100
"""How far around the first digit is looked at: words before it and a replacement among them, all of it, its unit."""
_AT_A_TIME: Final = 1_000
_LONGEST: Final = 64
"""Longer than any number: what begins at the end of a stretch is read as a whole."""


class Known(NamedTuple):
    """What is known of a text that was looked at before it was changed in places: the rest need not be again."""

    changed: Sequence[int]
    absent: Set[str]

    def within(self, start: int, end: int) -> "Known":
        first, behind = bisect_left(self.changed, start), bisect_left(self.changed, end)
        return Known([place - start for place in self.changed[first:behind]], self.absent)

    def stretches(self) -> Iterator[tuple[int, int]]:
        """From where to where a number may begin that has a change near it."""
        first = last = self.changed[0] if self.changed else 0
        for place in self.changed:
            if place - _BEHIND > last + _BEFORE:
                yield max(0, first - _BEHIND), last + _BEFORE
                first = place
            last = place
        if self.changed:
            yield max(0, first - _BEHIND), last + _BEFORE


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
        return chain.from_iterable(self.batches(form, pattern))

    def batches(self, form: Form, pattern: re.Pattern[str]) -> Iterator[list[re.Match[str]]]:
        """The same, as many at a time as are read at a time."""
        position, at, places = 0, 0, self._numbers[form]
        while at < len(places) or self._read_on():
            unmatched, hidden_from = places[at : at + _AT_A_TIME], self.hidden_from
            at += len(unmatched)
            batch: list[re.Match[str]] = []
            for found in filter(None, map(pattern.match, repeat(self.text), unmatched)):
                if position <= found.start() < hidden_from:
                    position = found.end()
                    batch.append(found)
            if batch:
                yield batch
            if unmatched and unmatched[-1] >= self.hidden_from:
                return

    @property
    def is_second_look(self) -> bool:
        return self._known is not None

    def near_changes(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Of a text that was looked at before: what the pattern finds near a change."""
        return _near(self._known, pattern, self.text) if self._known else iter(())

    def sketched(self, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        """What the pattern finds in the sketch; on a second look, near a change."""
        return _near(self._known, pattern, self.sketch) if self._known else pattern.finditer(self.sketch)

    @cached_property
    def _numbers(self) -> dict[Form, list[int]]:
        """Where a number of each form may begin, as far as was read by now."""
        numbers: dict[Form, list[int]] = {form: [] for form in get_args(Form)}
        if ONES in self.sketch:
            numbers["ones"] = [found.start() for found in self.sketched(_ONES)]
        return numbers

    @cached_property
    def _unread(self) -> Iterator[re.Match[bytes]]:
        return self.sketched(_NUMBER)

    def _read_on(self) -> bool:
        """A thousand numbers at a time: of a text full of secrets only the beginning is needed."""
        if self._read_until >= self.hidden_from:
            return False
        found: re.Match[bytes] | None = None
        starts: defaultdict[int, list[int]] = defaultdict(list)
        for found in islice(self._unread, _AT_A_TIME):
            starts[found.lastindex or 0].append(found.start())
        begun: dict[Form, list[int]] = {}
        for branch, places in starts.items():
            for form in _FORMS[branch]:
                begun[form] = sorted(begun[form] + places) if form in begun else places
        for form, places in begun.items():
            self._numbers[form] += places
        self._read_until = found.start() if found is not None else len(self.text)
        return found is not None

    def places(self, word: str, behind: str) -> Iterator[int]:
        """Where a lower-case word begins, however it is written there, and has such a thing behind it.

        Of what stands behind it, too, everything is lower-case, and what is not ASCII may be a question mark.
        """
        if word.isascii():
            return (found.start() for found in _in_bytes(word, behind).finditer(self.lower))
        return (found.start() for found in _in_text(word, behind).finditer(self.text))

    def has(self, word: str) -> bool:
        """Whether a lower-case word is there, however it is written. One of its characters is found much faster."""
        if not word.isascii():
            return word[-1] in self.text and word in self.text
        mark, sought = _sought(word)
        return mark in self.lower and sought in self.lower

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


@cache
def _sought(word: str) -> tuple[int, bytes]:
    return max(word.encode()), word.encode()


@cache
def _in_bytes(word: str, behind: str) -> re.Pattern[bytes]:
    """Made when it is first needed, for most texts have none of the words."""
    return re.compile(f"{re.escape(word)}(?={behind})".encode())


@cache
def _in_text(word: str, behind: str) -> re.Pattern[str]:
    return re.compile(f"{re.escape(word)}(?={behind})")


def _near(known: Known, pattern: re.Pattern[AnyStr], text: AnyStr) -> Iterator[re.Match[AnyStr]]:
    for first, last in known.stretches():
        for found in pattern.finditer(text, first, last + _LONGEST):
            if found.start() > last:
                break
            yield found
