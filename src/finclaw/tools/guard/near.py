"""A second look at a text that was changed in a few places: what stands near them, and not all of it again."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from finclaw.tools.guard.span import Span

_NEAR: Final = 4_000
"""Longer than anything with a space in it that a search takes or looks at beside it, a private key apart.

A replacement makes no new beginning of a private key.
"""
_EDGE: Final = 200
"""What is found so near to where a stretch was cut out may not be there in the whole text."""


def near(text: str, places: Sequence[int], spans_in: Callable[[str], Iterator[Span]]) -> list[Span]:
    """The spans that are new after a change at these places."""
    if not places:
        return []
    stretches = _stretches(text, places)
    if sum(end - start for start, end in stretches) > len(text) // 2:
        return list(spans_in(text))
    spans = list[Span]()
    for start, end in stretches:
        for span in spans_in(text[start:end]):
            moved = span._replace(start=span.start + start, end=span.end + start)
            if (start and moved.start < start + _EDGE) or (end < len(text) and moved.end > end - _EDGE):
                return list(spans_in(text))
            spans.append(moved)
    return spans


def _stretches(text: str, places: Sequence[int]) -> list[tuple[int, int]]:
    """From space to space: a key without one may be of any length."""
    stretches = list[tuple[int, int]]()
    for place in places:
        looked_at = stretches[-1][1] if stretches else 0
        if min(place + _NEAR, len(text)) <= looked_at:
            continue
        start, end = _space_before(text, place - _NEAR, looked_at), _space_behind(text, place + _NEAR)
        if stretches and start <= looked_at:
            start = stretches.pop()[0]
        stretches.append((start, end))
    return stretches


def _space_before(text: str, place: int, lowest: int) -> int:
    while place > lowest and not text[place].isspace():
        place -= 1
    return max(lowest, place)


def _space_behind(text: str, place: int) -> int:
    while place < len(text) and not text[place].isspace():
        place += 1
    return min(len(text), place)
