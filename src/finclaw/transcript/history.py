"""The history of a long conversation: packed pages, each of which becomes messages when one of them is looked at.

A turn looks at the last few messages, and a model's API is told what was said and nothing else. So the pages of an
old conversation mostly stay what they are: that is less memory, and no thousand objects are made for every turn.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, overload

from finclaw.kernel.message import Message
from finclaw.transcript.page import Page, PlainText, plain_text


class PagedHistory(Sequence[Message]):
    """A sequence of messages: pages first, then messages.

    It equals the tuple of all its messages, and never changes.
    """

    __slots__ = ("_paged", "pages", "tail")

    def __init__(self, pages: tuple[Page, ...], tail: tuple[Message, ...]) -> None:
        self.pages: Final = pages
        self.tail: Final = tail
        self._paged: Final = sum(page.length for page in pages)

    @property
    def open_count(self) -> int:
        """How many of them are objects by now."""
        return len(self.tail) + sum(page.length for page in self.pages if page.is_open)

    def __len__(self) -> int:
        return self._paged + len(self.tail)

    def __iter__(self) -> Iterator[Message]:
        return chain(chain.from_iterable(page.messages for page in self.pages), self.tail)

    def __reversed__(self) -> Iterator[Message]:
        yield from reversed(self.tail)
        for page in reversed(self.pages):
            yield from reversed(page.messages)

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> "Messages": ...
    def __getitem__(self, place: int | slice) -> "Message | Messages":
        if isinstance(place, slice):
            return self._slice(*place.indices(len(self)))
        if place < 0:
            place += len(self)
        return self.tail[place - self._paged] if place >= self._paged else self._on_a_page(place)

    def _slice(self, start: int, stop: int, step: int) -> "Messages":
        """All pages or none, wherever that will do."""
        if step == 1 and start == 0 and stop >= self._paged:
            return PagedHistory(self.pages, self.tail[: stop - self._paged])
        if step == 1 and start >= self._paged:
            return self.tail[start - self._paged : max(start, stop) - self._paged]
        return tuple([self[place] for place in range(start, stop, step)])

    def _on_a_page(self, place: int) -> Message:
        if place >= 0:
            for page in self.pages:
                if place < page.length:
                    return page.messages[place]
                place -= page.length
        raise IndexError("no message stands there")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PagedHistory):
            if self.pages == other.pages:  # nearly always the very same
                return self.tail == other.tail
            return len(self) == len(other) and tuple(self) == tuple(other)
        return tuple(self) == other

    __hash__ = None  # pyright: ignore[reportAssignmentType]  messages hold what cannot be hashed, and so do tuples of them

    def __repr__(self) -> str:
        return f"PagedHistory({len(self)} messages, {self.open_count} of them opened)"


Messages = tuple[Message, ...] | PagedHistory
"""A conversation's, in order. A short one is a plain tuple."""


def as_messages(messages: Sequence[Message]) -> Messages:
    return messages if isinstance(messages, PagedHistory) else tuple(messages)


def pages_of(messages: Sequence[Message]) -> tuple[Page, ...]:
    return messages.pages if isinstance(messages, PagedHistory) else ()


def behind_pages(messages: Sequence[Message]) -> tuple[Message, ...]:
    return messages.tail if isinstance(messages, PagedHistory) else tuple(messages)


def with_pages(pages: tuple[Page, ...], tail: tuple[Message, ...]) -> Messages:
    return PagedHistory(pages, tail) if pages else tail


def with_more(messages: Sequence[Message], more: Sequence[Message]) -> Messages:
    if not messages:
        return as_messages(more)
    return with_pages(pages_of(messages), (*behind_pages(messages), *more))


def plain_texts(messages: Sequence[Message]) -> Iterator[PlainText]:
    """What was said, a page at a time."""
    yield from (page.plain_text() for page in pages_of(messages))
    yield plain_text(behind_pages(messages))
