"""What a search for secrets finds: a place in a text and what to write there instead."""

import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, Literal, NamedTuple, get_args

from msgspec import Struct

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
    start: int
    end: int
    kind: Kind
    last_four: str = ""

    @property
    def placeholder(self) -> str:
        return f"[{self.kind} …{self.last_four}]" if self.last_four else f"[{self.kind}]"


def few(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """These, which come in their order; if they are too many to look at, the text behind them goes with them."""
    for count, span in enumerate(spans):
        if count == MOST:
            yield Span(span.start, len(text), "many secrets")
            return
        yield span


_START: Final = itemgetter(0)
_END: Final = itemgetter(1)


class Replaced(NamedTuple):
    text: str
    kinds: frozenset[Kind]
    places: list[int]
    """Where in it the placeholders begin."""


def replaced(text: str, spans: Iterable[Span]) -> Replaced:
    """Each span gives way to its placeholder; where two overlap, the first and longest names what both cover."""
    parts, kinds, places, position, longer = list[str](), set[Kind](), list[int](), 0, 0
    for span in sorted(sorted(spans, key=_END, reverse=True), key=_START):
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


class Redacted(Struct, frozen=True):
    text: str
    kinds: frozenset[Kind] = frozenset()


def end_of(text: str, start: int, length: int) -> int:
    """Behind so many letters and digits, whatever stands between them."""
    position = start
    while length:
        length -= text[position].isalnum()
        position += 1
    return position
