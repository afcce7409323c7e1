"""Packing of a document's blocks into parts that are each within a channel's limit and complete by themselves.

A text is packed in several forms at once, such as HTML and the plain text to fall back on, so that part n of one says
what part n of the other says. A block goes into one part where it fits; one that is too long for any part is cut where
a reader would cut, and what was open there is closed, and opened again in the next part.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from finclaw.delivery.document import (
    Block,
    Escapes,
    Fixed,
    Forms,
    Inline,
    Leave,
    TextRun,
    Wrapper,
    escape_forms,
    join_forms,
    write_block,
)
from finclaw.text import LengthUnit, text_length

_LINE: Final = 3  # the best place for a cut; the worse ones follow
_SENTENCE: Final = 2
_WORD: Final = 1
_FORCED: Final = 0
_WORDS: Final = re.compile(r"(\s*)([^\s。、！？，]+[。、！？，]*|[。、！？，]+|$)")
_STOPS: Final = ("。", "、", "！", "？", "，")
_SENTENCE_END: Final = re.compile(r"""[.!?。！？…]["'”’)\]*_]{0,3}$""")
_MARKER: Final = re.compile(r"(?:[-+*>#=|]+|\d{1,9}[.)]|(?:```|~~~).*)$")
"""A word that would begin a list, a quote or code if a part began with it."""


class _Piece(NamedTuple):
    """A block, or a word of a paragraph that is cut: what stands before it, how good a cut there is, and sizes."""

    forms: Forms
    gap: Forms
    cut: int
    size: int
    gap_size: int
    marks: int = 0


_Event = _Piece | Wrapper | Leave


class Packer:
    """A packer for one limit. `counted`: how many of the forms have it, one or two. `most_marks`: tags of a part."""

    def __init__(self, limit: int, unit: LengthUnit, forms: int, counted: int, most_marks: int = 0) -> None:
        if limit < 1:
            raise ValueError(f"a part must hold at least one character, not {limit}")
        self._limit = limit
        self._unit: LengthUnit = unit
        self._nothing: Forms = ("",) * forms
        self._counted = counted
        self._counts_marks = most_marks > 0
        self._most_marks = most_marks or sys.maxsize
        self._marks = 0
        self._parts: list[Forms] = []
        self._open: list[Wrapper] = []
        self._begun = 0  # how many of the open wrappers have content
        self._reserved = 0  # what closing all that is open needs
        self._begin_part()

    def pack(self, blocks: Sequence[Block]) -> list[Forms]:
        for block in blocks:
            self._put(block)
        self._end_part()
        return self._parts

    def _put(self, block: Block) -> None:
        if block.resume is not None:
            self._open[-1] = self._open[-1]._replace(resume=block.resume)
        whole = self._write_whole(block)
        if whole is not None and self._has_room(whole):
            self._add(whole)
        elif whole is not None and block.keep and self._fits_alone(whole):
            self._cut()
            self._add(whole)
        else:
            if not block.children and self._is_half_full(self._used, self._marks):
                self._cut()
            entered = block.wrapper is not None and self._enter(block.gap, block.wrapper)
            gap = self._nothing if entered else block.gap
            if block.children:
                self._put(block.children[0]._replace(gap=gap))
                for child in block.children[1:]:
                    self._put(child)
            else:
                self._fill(gap, block.inlines)
            if entered:
                self._leave()

    def _fits_alone(self, whole: _Piece) -> bool:
        marks = sum([self._count_marks(wrapper.resume) for wrapper in self._open]) + whole.marks
        return marks <= self._most_marks and self._overhead() + whole.size <= self._limit

    def _write_whole(self, block: Block) -> _Piece | None:
        """The block with all that is in it; None: no part can hold it, which is known before all of it is written."""
        pieces = list[Forms]()
        least = 0
        for forms in write_block(block):
            pieces.append(forms)
            least += len(forms[0])  # no unit counts less than a character
            if least > self._limit:
                return None
        return self._measure(join_forms(pieces, self._nothing), block.gap, _FORCED)

    def _fill(self, gap: Forms, inlines: Sequence[Inline]) -> None:
        events = self._events(gap, inlines)
        start = 0
        while start < len(events):
            end = self._find_cut(events, start)
            for each in events[start:end]:
                if isinstance(each, _Piece):
                    self._add(each)
                elif isinstance(each, Wrapper):
                    self._open_wrapper(each)
                else:
                    self._leave()
            start = end
            if start < len(events):
                self._cut()

    def _find_cut(self, events: Sequence[_Event], start: int) -> int:
        """The end of what goes into this part: the best place in its second half, else the last good one."""
        used = self._used
        reserved = self._reserved
        is_fresh = self._is_fresh
        marks = self._marks
        opened = list(self._open)
        best = dict[int, int]()
        last = start
        for place in range(start, len(events)):
            event = events[place]
            if isinstance(event, _Piece):
                if event.cut and not is_fresh:
                    last = place
                    if self._is_half_full(used, marks):
                        best[event.cut] = place
                size = event.size
                if not is_fresh:
                    size += event.gap_size
                if used + size + reserved > self._limit or marks > self._most_marks:
                    if best:
                        return best[max(best)]
                    if last > start or not self._is_fresh:
                        return last
                    return place + 1 if is_fresh else place
                used += size
                is_fresh = is_fresh and not any(event.forms)
            elif isinstance(event, Wrapper):
                opened.append(event)
                used += self._size(event.open)
                reserved += self._closing_size(event)
                marks += self._count_marks(event.open)
            else:
                wrapper = opened.pop()
                used += self._size(wrapper.close)
                reserved -= self._closing_size(wrapper)
        return len(events)

    def _events(self, gap: Forms, inlines: Sequence[Inline]) -> list[_Event]:
        """Inline content word by word, each short enough for a part, and without marks that would fill a part."""
        events: list[_Event] = [self._measure(self._nothing, gap, _FORCED)]
        overhead = self._overhead()
        opened = list[int | None]()
        before = ""
        for inline in inlines:
            if isinstance(inline, TextRun):
                events += self._pieces(inline, before, max(self._limit - overhead, 1))
                before = inline.text[-20:] or before
            elif isinstance(inline, Fixed):
                if inline.is_line_end:
                    events.append(self._measure(self._nothing, inline.forms, _LINE))
                else:
                    events.append(self._measure(inline.forms, self._nothing, _FORCED))
                before = ""
            elif isinstance(inline, Wrapper):
                cost = self._get_cost(inline)
                if 2 * (overhead + cost) > self._limit:
                    opened.append(None)
                else:
                    opened.append(cost)
                    overhead += cost
                    events.append(inline)
            elif (cost := opened.pop()) is not None:
                overhead -= cost
                events.append(inline)
        return events

    def _pieces(self, words: TextRun, before: str, room: int) -> Iterator[_Piece]:
        found = _WORDS.findall(words.text) if words.breakable else [("", words.text)]
        for space, word in found:
            cut = _rate_cut(before, space, word)
            gap = self._nothing
            if space:
                gap = escape_forms(space, words.escapes)
            before = word or before
            piece = self._measure(escape_forms(word, words.escapes), gap, cut)
            if piece.size <= room:
                if word or space:
                    yield piece
                continue
            for chunk in self._chunks(word, words.escapes, room):
                yield self._measure(chunk, gap, cut)
                gap = self._nothing
                cut = _FORCED

    def _chunks(self, word: str, escapes: Escapes, room: int) -> Iterator[Forms]:
        """A word that no part can hold, cut between characters as people see them, unless one of those is too long."""
        from wcwidth import iter_graphemes  # noqa: PLC0415 - 35 ms of `cold_start`, for a word longer than a message

        chunk = list[Forms]()
        used = 0
        for grapheme in iter_graphemes(word):
            pieces = [escape_forms(grapheme, escapes)]
            if self._size(pieces[0]) > room:
                pieces = [escape_forms(character, escapes) for character in grapheme]
            for forms in pieces:
                size = self._size(forms)
                if chunk and used + size > room:
                    yield join_forms(chunk, self._nothing)
                    chunk = []
                    used = 0
                chunk.append(forms)
                used += size
        yield join_forms(chunk, self._nothing)

    def _begin_part(self) -> None:
        resumed = [wrapper.resume for wrapper in self._open[: self._begun]]
        self._written: list[Forms] = [*resumed, *[wrapper.open for wrapper in self._open[self._begun :]]]
        self._used = sum(map(self._size, self._written))
        self._marks = sum(map(self._count_marks, self._written))
        self._is_fresh = True
        self._complete = 0, 0
        """Up to where the part is written if it ends now: pieces, and open wrappers among them."""

    def _end_part(self) -> None:
        if not self._is_fresh:
            pieces, wrappers = self._complete
            closing = [wrapper.pause for wrapper in reversed(self._open[:wrappers])]
            self._parts.append(join_forms([*self._written[:pieces], *closing], self._nothing))

    def _cut(self) -> None:
        if not self._is_fresh:
            self._end_part()
            self._begin_part()

    def _has_room(self, piece: _Piece) -> bool:
        size = piece.size
        if not self._is_fresh:
            size += piece.gap_size
        has_marks_left = self._marks + piece.marks <= self._most_marks
        return has_marks_left and self._used + size + self._reserved <= self._limit

    def _add(self, piece: _Piece) -> None:
        if self._is_fresh and not any(piece.forms):
            return
        if not self._is_fresh:
            self._write_raw(piece.gap, piece.gap_size)
        self._write_raw(piece.forms, piece.size)
        self._is_fresh = False
        self._begun = len(self._open)
        self._complete = len(self._written), len(self._open)

    def _write_raw(self, forms: Forms, size: int) -> None:
        self._written.append(forms)
        self._used += size
        self._marks += self._count_marks(forms)

    def _enter(self, gap: Forms, wrapper: Wrapper) -> bool:
        """Open a wrapper, unless its marks would take half of every part."""
        if 2 * (self._overhead() + self._get_cost(wrapper)) > self._limit:
            return False
        opening = self._size(wrapper.open) + self._closing_size(wrapper)
        used = self._used + self._reserved + opening + self._size(gap)
        if not self._is_fresh and (4 * used > 3 * self._limit or 4 * self._marks > 3 * self._most_marks):
            self._cut()
        if not self._is_fresh:
            self._write_raw(gap, self._size(gap))
        self._open_wrapper(wrapper)
        return True

    def _open_wrapper(self, wrapper: Wrapper) -> None:
        self._write_raw(wrapper.open, self._size(wrapper.open))
        self._open.append(wrapper)
        self._reserved += self._closing_size(wrapper)

    def _leave(self) -> None:
        wrapper = self._open.pop()
        self._reserved -= self._closing_size(wrapper)
        if self._begun > len(self._open) and not self._is_fresh:
            self._write_raw(wrapper.close, self._size(wrapper.close))
            self._complete = len(self._written), len(self._open)
        elif self._is_fresh:
            self._begin_part()
        else:  # nothing was written inside, and marks around nothing would stay open
            marks = self._written.pop()
            self._used -= self._size(marks)
            self._marks -= self._count_marks(marks)
        self._begun = min(self._begun, len(self._open))

    def _overhead(self) -> int:
        return sum(map(self._get_cost, self._open))

    def _get_cost(self, wrapper: Wrapper) -> int:
        return max(self._size(wrapper.open), self._size(wrapper.resume)) + self._closing_size(wrapper)

    def _closing_size(self, wrapper: Wrapper) -> int:
        return max(self._size(wrapper.pause), self._size(wrapper.close))

    def _measure(self, forms: Forms, gap: Forms, cut: int) -> _Piece:
        return _Piece(forms, gap, cut, self._size(forms), self._size(gap), self._count_marks(forms))

    def _count_marks(self, forms: Forms) -> int:
        """How many tags are opened."""
        if not self._counts_marks:
            return 0
        marked = forms[-1]
        return marked.count("<") - marked.count("</")

    def _is_half_full(self, used: int, marks: int) -> bool:
        return 2 * used > self._limit or 2 * marks > self._most_marks

    def _size(self, forms: Forms) -> int:
        """The longest of those forms that are counted; sums of it are never too small."""
        first = forms[0]
        size = len(first)
        if not first.isascii():
            size = text_length(first, self._unit)
        if self._counted == 1:
            return size
        return max(size, text_length(forms[1], self._unit))


def _rate_cut(before: str, space: str, word: str) -> int:
    if not (space or before[-1:] in _STOPS) or _MARKER.match(word) or unicodedata.category(word[:1] or "a")[0] == "M":
        return _FORCED
    if "\n" in space:
        return _LINE
    if _SENTENCE_END.search(before):
        return _SENTENCE
    return _WORD
