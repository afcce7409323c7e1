"""What a search for secrets finds: a place in a text and what to write there instead."""

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

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
]

PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(get_args(Kind))})(?: …[0-9A-Z]{{4}})?\]")


class Span(NamedTuple):
    start: int
    end: int
    kind: Kind
    last_four: str = ""

    @property
    def placeholder(self) -> str:
        return f"[{self.kind} …{self.last_four}]" if self.last_four else f"[{self.kind}]"


def replaced(text: str, spans: Iterable[Span]) -> tuple[str, frozenset[Kind]]:
    """Each span gives way to its placeholder; where two overlap, the first and longest names what both cover."""
    parts, kinds, position = list[str](), set[Kind](), 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start < position:
            position = max(position, span.end)
            continue
        parts += [text[position : span.start], span.placeholder]
        kinds.add(span.kind)
        position = span.end
    return "".join([*parts, text[position:]]), frozenset(kinds)


def end_of(text: str, start: int, length: int) -> int:
    """Behind so many letters and digits, whatever stands between them."""
    position = start
    while length:
        length -= text[position].isalnum()
        position += 1
    return position
