"""Conversations in pages, as a store reads them."""

from collections.abc import Iterator, Sequence

import msgspec

from finclaw.kernel.message import Message
from finclaw.transcript.history import Page, PagedHistory, message_meta, words_of


def page(messages: Sequence[Message]) -> Page:
    """Every other one that is nothing but words has them apart: older rows have not."""
    rows = [_row(message, apart=place % 2 == 0) for place, message in enumerate(messages)]
    return Page(len(messages), b"\n".join(beside for beside, _ in rows), b"\n".join(words for _, words in rows))


def _row(message: Message, *, apart: bool) -> tuple[bytes, bytes]:
    encode = msgspec.json.encode
    if apart and (words := words_of(message)):
        return encode(message_meta(message)), message.role.encode() + b"\n" + encode(words)
    return encode(message), b"\n"


def paged(messages: Sequence[Message], *ends: int) -> PagedHistory:
    """One page up to each of these places, and the rest as messages."""
    return PagedHistory(tuple(_pages(messages, ends)), tuple(messages[max(ends, default=0) :]))


def _pages(messages: Sequence[Message], ends: Sequence[int]) -> Iterator[Page]:
    begin = 0
    for end in sorted(set(ends) - {0}):
        yield page(messages[begin:end])
        begin = end
