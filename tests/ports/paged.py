"""Conversations in pages, as a store reads them."""

from collections.abc import Iterator, Sequence

import msgspec

from finclaw.kernel.history import History, Page
from finclaw.kernel.message import Message


def page(messages: Sequence[Message]) -> Page:
    return Page(len(messages), b"\n".join(map(msgspec.json.encode, messages)))


def paged(messages: Sequence[Message], *ends: int) -> History:
    """One page up to each of these places, and the rest as messages."""
    return History(tuple(_pages(messages, ends)), tuple(messages[max(ends, default=0) :]))


def _pages(messages: Sequence[Message], ends: Sequence[int]) -> Iterator[Page]:
    begin = 0
    for end in sorted(set(ends) - {0}):
        yield page(messages[begin:end])
        begin = end
