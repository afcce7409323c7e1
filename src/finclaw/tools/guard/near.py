"""A second look at a text that was changed in a few places: what stands near them, and not all of it again."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from finclaw.tools.guard.span import Span
from finclaw.tools.guard.view import Known, View

_NEAR: Final = 4_000
"""Longer than anything with a space in it that a search takes or looks at beside it, a private key apart.

A replacement makes no new beginning of a private key.
"""
_SPACE: Final = re.compile(r"\s")
_EDGE: Final = 200
"""What is found so near to where a stretch was cut out may not be there in the whole text."""


def near(text: str, known: Known, spans_in: Callable[[View], Iterator[Span]]) -> list[Span]:
    """The spans that are new after a change."""
    if not known.changed:
        return []
    stretches = _stretches(text, known.changed)
    if sum(end - start for start, end in stretches) > len(text) // 2:
        return list(spans_in(View(text, known)))
    spans = list[Span]()
    for start, end in stretches:
        for span in spans_in(View(text[start:end], known.within(start, end))):
            moved = span._replace(start=span.start + start, end=span.end + start)
            if (start and moved.start < start + _EDGE) or (end < len(text) and moved.end > end - _EDGE):
                return list(spans_in(View(text, known)))
            spans.append(moved)
    return spans


def _stretches(text: str, places: Sequence[int]) -> list[tuple[int, int]]:
    """From space to space: a key without one may be of any length."""
    stretches = list[tuple[int, int]]()
    for first, last in _groups(places):
        looked_at = stretches[-1][1] if stretches else 0
        if min(last + _NEAR, len(text)) <= looked_at:
            continue
        start, end = _space_before(text, first - _NEAR, looked_at), _space_behind(text, last + _NEAR)
        if stretches and start <= looked_at:
            start = stretches.pop()[0]
        stretches.append((start, end))
    return stretches


def _groups(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of those whose surroundings meet."""
    first = last = places[0]
    for place in places:
        if place - last > 2 * _NEAR:
            yield first, last
            first = place
        last = place
    yield first, last


def _space_before(text: str, place: int, lowest: int) -> int:
    found = _SPACE.search(text[place:lowest:-1]) if place > lowest else None
    return place - found.start() if found is not None else lowest


def _space_behind(text: str, place: int) -> int:
    found = _SPACE.search(text, place)
    return found.start() if found is not None else len(text)
