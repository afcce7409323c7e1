"""The text that a scan for secrets reads, the digit map that shows its numbers, and the spans that a scan finds.

The text has plain digits, spaces and hyphens only. Its lower-case bytes and its digit map have the same length, so that
a place in one is the place in every other.
"""

import re
import string
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from operator import attrgetter
from typing import AnyStr, Final, Literal, NamedTuple, get_args

from msgspec import Struct

from finclaw.redaction.clean import fold_characters

# ── spans ───────────────────────────────────────────────────────────────────────────────────────────────────

Kind = Literal[
    "card",
    "resident number",
    "social security number",
    "account",
    "api key",
    "token",
    "private key",
    "secret",
    "private",
    "many secrets",
]

MOST: Final = 8_000
"""Of one kind in one text: more than fit into what is stored of a result. From there on the rest is hidden whole."""

PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(get_args(Kind))})(?: …[0-9A-Z]{{4}})?\]")


class Span(NamedTuple):
    """A place in a text that holds a secret."""

    start: int
    end: int
    kind: Kind
    last_four: str = ""

    @property
    def placeholder(self) -> str:
        return f"[{self.kind} …{self.last_four}]" if self.last_four else f"[{self.kind}]"


class Redacted(Struct, frozen=True):
    """A text without secrets, and the kinds that were in it."""

    text: str
    kinds: frozenset[Kind] = frozenset()


class Replaced(NamedTuple):
    """A text whose spans were replaced."""

    text: str
    kinds: frozenset[Kind]
    places: list[int]
    """Where the placeholders begin in it."""


def limit_spans(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """The first spans, which come in order; if there are too many to look at, the rest of the text is one span."""
    for count, span in enumerate(spans):
        if count == MOST:
            yield Span(span.start, len(text), "many secrets")
            return
        yield span


def replace_spans(text: str, spans: Iterable[Span]) -> Replaced:
    """The text with placeholders. Where two spans overlap, the first and longest names what both cover."""
    parts, kinds, places, position, longer = list[str](), set[Kind](), list[int](), 0, 0
    longest_first = sorted(spans, key=attrgetter("end"), reverse=True)
    for span in sorted(longest_first, key=attrgetter("start")):
        if span.start < position:
            longer -= max(0, span.end - position)
            position = max(position, span.end)
            continue
        placeholder = span.placeholder
        parts += [text[position : span.start], placeholder]
        kinds.add(span.kind)
        places.append(span.start + longer)
        longer += len(placeholder) - (span.end - span.start)
        position = span.end
    return Replaced("".join([*parts, text[position:]]), frozenset(kinds), places)


def end_of_code(text: str, start: int, length: int) -> int:
    """The place behind so many letters and digits, whatever stands between them."""
    position = start
    while length:
        length -= text[position].isalnum()
        position += 1
    return position


# ── the digit map ─────────────────────────────────────────────────────────────────────────────────────────

# The digit map of a text: '0' for a digit, 'A' for a letter, '-' for a space or hyphen, '.' for itself, else 'x'.
# Numbers stand out in it by their shape. One pass over the map finds where a card, an account or a personal number may
# begin; only there are the exact patterns tried. Eight exact patterns over the whole text instead of one pass would
# break the limit of `test_a_megabyte_of_anything_is_guarded_in_a_moment`.

NumberForm = Literal["run", "fours", "dotted fours", "four, six, five", "ones", "resident", "social", "hyphenated"]


def _map_code(code: int) -> int:
    character = chr(code)
    if character in string.digits:
        return ord("0")
    if character in string.ascii_letters:
        return ord("A")
    return ord({" ": "-", "-": "-", ".": "."}.get(character, "x"))


DIGIT_MAP: Final = bytes(map(_map_code, range(256)))
"""A table for `bytes.translate`."""

_GAP: Final = "(?:-|---)?"
_SHAPES: Final[tuple[tuple[str, tuple[NumberForm, ...]], ...]] = (
    ("0000000000000", ("run", "resident")),
    ("0000000000000000(?:-|---)0{1,3}", ("run", "fours")),  # a card in one run and its security code
    ("0000000000000" + "0{1,6}", ("run",)),
    # Not out of the middle of a table of fours.
    (f"0000(?<!0000-0000)(?:{_GAP}0000){{3}}(?:{_GAP}0{{1,3}})?(?!0)(?!-0000(?!0))", ("fours",)),
    (r"0000\.0000\.0000\.0000", ("dotted fours",)),
    (f"0000{_GAP}000000{_GAP}00000?", ("four, six, five",)),
    ("000000-{1,3}0000000", ("resident",)),
    ("000-00-0000", ("social",)),
    ("000-(?:000-000000|00-000000|0000-0000-00|000000-00000|000000-00-000)", ("hyphenated",)),
    ("0000-(?:000-000000|00-0000000)", ("hyphenated",)),
    ("000000-00-000000", ("hyphenated",)),
)
"""The shapes of numbers in the map and the forms each may be; the first that fits counts. Each begins with 000."""
FORMS: Final = tuple(forms for _, forms in _SHAPES)
"""The forms by the index of the group in NUMBER that matched, which counts from 1."""
_REST: Final = "|".join(f"({shape.removeprefix('000')})" for shape, _ in _SHAPES)
NUMBER: Final = re.compile(f"000(?<!0000)(?=-?0)(?=(?:{_REST})(?!0))0*+".encode())
"""The first group of a number. The three zeros stand first because the engine searches for literal text fastest, and
what every shape goes on with before the shapes: thousands with commas are no number here (`cpu_plain_alone`)."""
IBAN: Final = re.compile(rb"AA00(?<![0A]AA00)(?=" + rb"-?+[0A]" * 11 + rb")")
ONES: Final = b"-".join([b"0"] * 13)
"""A card with a space or hyphen behind every digit."""
ONES_NUMBER: Final = re.compile(rb"0(?<!00)(?<!0-0)(?=(?:-0){12})")


def may_hold_number(text: str) -> bool:
    """Whether an ASCII text has the shape of a number anywhere."""
    digit_map = text.encode("ascii", "replace").translate(DIGIT_MAP)
    if ONES in digit_map:
        return True
    return b"00" in digit_map and (NUMBER.search(digit_map) is not None or IBAN.search(digit_map) is not None)


# ── the text ──────────────────────────────────────────────────────────────────────────────────────────────

_NEAR: Final = 100
"""Characters around the first digit of a number that decide about it: the words before it, all of it, its unit."""
_LONGEST: Final = 64
"""Longer than any number: one that begins at the end of a stretch is read whole."""


class PriorScan(NamedTuple):
    """The knowledge from a scan before the text was changed in places: the rest need not be scanned again."""

    changed: Sequence[int]
    absent: Set[str]
    """Labels and prefixes that the text did not have: a placeholder labels nothing."""

    def within(self, start: int, end: int) -> "PriorScan":
        first, behind = bisect_left(self.changed, start), bisect_left(self.changed, end)
        return PriorScan([place - start for place in self.changed[first:behind]], self.absent)

    def stretches(self) -> Iterator[tuple[int, int]]:
        """The ranges in which a number may begin that has a change near it."""
        first = last = self.changed[0] if self.changed else 0
        for place in self.changed:
            if place - last > 2 * _NEAR:
                yield max(0, first - _NEAR), last + _NEAR
                first = place
            last = place
        if self.changed:
            yield max(0, first - _NEAR), last + _NEAR


class ScanText:
    """A text as the searches for secrets read it."""

    def __init__(self, text: str, prior: PriorScan | None = None) -> None:
        self.text: Final = fold_characters(text)
        self.lower: Final = self.text.encode("ascii", "replace").lower()
        self._prior: Final = prior
        self.absent: Final = set[str](prior.absent if prior else ())

    @property
    def is_rescan(self) -> bool:
        return self._prior is not None

    def may_have(self, label: str) -> bool:
        """Whether a lower-case label is there in any case and, on a rescan, was there before."""
        if label not in self.absent and not self.has(label):
            self.absent.add(label)
        return label not in self.absent

    # A single character is found ten times as fast as a word, and most texts have no '_' or 'x'. Sixty searches for
    # whole words would take a sixth of the limit of `test_a_megabyte_is_guarded_in_a_moment`.

    def has(self, label: str) -> bool:
        if not label.isascii():
            return label in self.text
        code = label.encode()
        return max(code) in self.lower and code in self.lower

    def may_have_prefix(self, prefix: str) -> bool:
        """Whether the prefix of a key is there, letter for letter, and was there before."""
        if prefix not in self.absent and not (max(prefix) in self.text and prefix in self.text):
            self.absent.add(prefix)
        return prefix not in self.absent

    def ends_of(self, label: str) -> Iterator[int]:
        """The places behind a lower-case label, in whatever case it is written."""
        found = re.finditer(re.escape(label.encode()), self.lower) if label.isascii() else re.finditer(label, self.text)
        return (each.end() for each in found)

    @cached_property
    def digit_map(self) -> bytes:
        return self.lower.translate(DIGIT_MAP)

    def numbers(self, form: NumberForm, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """The numbers of a form that its exact pattern matches, none of them within another."""
        position = 0
        for place in self._places[form]:
            if place >= position and (found := pattern.match(self.text, place)) is not None:
                position = found.end()
                yield found

    @cached_property
    def _places(self) -> dict[NumberForm, list[int]]:
        """Where a number of each form may begin."""
        places: dict[NumberForm, list[int]] = {form: [] for form in get_args(NumberForm)}
        for found in self.find_in_map(NUMBER):
            for form in FORMS[(found.lastindex or 1) - 1]:
                places[form].append(found.start())
        if ONES in self.digit_map:
            places["ones"] = [found.start() for found in self.find_in_map(ONES_NUMBER)]
        return places

    def find_in_map(self, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        """The matches in the digit map; on a rescan only those near a change."""
        return _find_near(self._prior, pattern, self.digit_map) if self._prior else pattern.finditer(self.digit_map)

    def find_near_changes(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """On a rescan: the matches near a change."""
        return _find_near(self._prior, pattern, self.text) if self._prior else iter(())


def _find_near(prior: PriorScan, pattern: re.Pattern[AnyStr], text: AnyStr) -> Iterator[re.Match[AnyStr]]:
    for first, last in prior.stretches():
        for found in pattern.finditer(text, first, last + _LONGEST):
            if found.start() > last:
                break
            yield found
