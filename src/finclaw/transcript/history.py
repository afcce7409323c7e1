"""The history of a long conversation: packed pages, each of which becomes messages when one of them is looked at.

A turn looks at the last few messages, and a model's API is told what was said and nothing else. So the pages of an
old conversation mostly stay what they are: that is less memory, and no thousand objects are made for every turn. Most
messages are nothing but words. These stand apart from what only we keep of a message, in the form in which every API
takes them: nobody reads them to pass them on."""

import operator
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple, overload

import msgspec
from msgspec import Struct

from finclaw.errors import SessionError
from finclaw.kernel.message import Message, Source, Text
from finclaw.text import fix_surrogates
from finclaw.transcript.approval_ids import without_ids_in_bytes, without_ids_in_message

_encode: Final = msgspec.json.Encoder().encode
_message: Final = msgspec.json.Decoder(Message)


class MessageMeta(Struct, frozen=True, gc=False, omit_defaults=True):
    """Metadata of a message: all but its role and its words."""

    id: str
    source: Source
    created_at: datetime
    metadata: dict[str, Any] = {}


_EMPTY_LINE: Final = re.compile(b"\n(?=\n)")
"""Searched for as one character, which is twice as fast as `in` with two (`us_per_history_message_evicted`)."""


class PlainText(NamedTuple):
    """The plain text of some messages, for the request to a model."""

    speakers: Sequence[bytes]
    """The role of each, as far as its words are here."""
    words: Sequence[bytes]
    """Each one's as a string of JSON; empty where it is something else than words, or more."""
    whole: Callable[[int], Message]
    """Each as it is, for those."""


def words_of(message: Message) -> str:
    """Empty where it is something else than words, or more."""
    blocks = message.blocks
    if len(blocks) == 1 and type(block := blocks[0]) is Text and not message.passing and not block.text.isspace():
        return block.text
    return ""


def message_meta(message: Message) -> MessageMeta:
    return MessageMeta(message.id, message.source, message.created_at, message.metadata)


def plain_text(messages: Sequence[Message]) -> PlainText:
    words = [_encode_words(words_of(message)) for message in messages]
    return PlainText([message.role.encode() for message in messages], words, messages.__getitem__)


def _encode_words(words: str) -> bytes:
    if not words:
        return b""
    try:
        return _encode(words)
    except UnicodeEncodeError:
        return _encode(fix_surrogates(words))


def compress_meta(beside: bytes) -> bytes:
    """For what is seldom looked at, and much the same in every line."""
    return zlib.compress(beside, 3)


def decompress_meta(beside: bytes) -> bytes:
    if beside.startswith(b"{"):
        return beside
    try:
        return zlib.decompress(beside)
    except zlib.error as error:
        raise _no_message(error) from error


class Page:
    """A packed page: messages of the base, none of them passing, as JSON until one of them is looked at.

    `words` has two lines for each: the role, and the words as a string. Where both are empty the line of `beside` is
    the message, else its `MessageMeta`. It may be compressed.
    """

    __slots__ = ("_messages", "_without_ids", "_written", "length", "size")

    def __init__(self, length: int, beside: bytes, words: bytes) -> None:
        self.length: Final = length
        self.size = len(beside) + len(words)
        """In bytes, as it was written; without packing once it is open."""
        self._written: tuple[bytes, bytes] | None = beside, words
        self._messages: tuple[Message, ...] = ()
        self._without_ids: Page | None = None

    def without_approval_ids(self) -> "Page":
        """The same page where it holds none, which is looked for once; else one with a mark in place of each."""
        if self._without_ids is None:
            self._without_ids = self._remove_ids()
        return self._without_ids

    def _remove_ids(self) -> "Page":
        if self._written is None:
            return self._of_messages(tuple(map(without_ids_in_message, self._messages)))
        beside, words = self._written
        clean = without_ids_in_bytes(words)
        if words.startswith(b"\n") or _EMPTY_LINE.search(words):  # some are more than words: beside
            read = decompress_meta(beside)
            rest = without_ids_in_bytes(read)
            if rest != read:
                return Page(self.length, rest, clean)
        return self if clean == words else Page(self.length, beside, clean)

    def _of_messages(self, messages: tuple[Message, ...]) -> "Page":
        if all(map(operator.is_, messages, self._messages)):
            return self
        page = Page(self.length, b"", b"")
        page.size = self.size
        page._messages = messages
        page._written = None
        return page

    @property
    def is_open(self) -> bool:
        """Whether it has become messages. They stay the same ones from then on."""
        return self._written is None

    @property
    def messages(self) -> tuple[Message, ...]:
        if self._written is not None:
            packed, words = self._written
            beside = decompress_meta(packed)
            self._messages = _read(beside, words)
            self._written = None
            self.size = len(beside) + len(words)
        return self._messages

    def plain_text(self) -> PlainText:
        """For who tells it to a model: it stays closed."""
        if self._written is None:
            return plain_text(self._messages)
        beside, words = self._written
        lines = words.split(b"\n")
        rest: list[bytes] = []

        def whole(place: int) -> Message:
            if not rest:
                rest.extend(decompress_meta(beside).split(b"\n"))
            with _explain_errors():
                return _message.decode(_whole(rest[place], *lines[2 * place : 2 * place + 2]))

        return PlainText(lines[::2], lines[1::2], whole)


def _read(beside: bytes, words: bytes) -> tuple[Message, ...]:
    lines = words.split(b"\n")
    with _explain_errors():
        whole = map(_whole, beside.split(b"\n"), lines[::2], lines[1::2])
        return tuple(_message.decode_lines(b"\n".join(whole)))


def _whole(beside: bytes, speaker: bytes, words: bytes) -> bytes:
    if not words:
        return beside
    return b'{"role":"%b","blocks":[{"type":"text","text":%b}],%b' % (speaker, words, beside[1:])


@contextmanager
def _explain_errors() -> Generator[None]:
    try:
        yield
    except msgspec.DecodeError as error:
        raise _no_message(error) from error


def _no_message(error: Exception) -> SessionError:
    return SessionError(
        f"the conversation holds what is no message ({error}); `finclaw restore FILE` puts a backup back, or reset it"
    )


class PagedHistory(Sequence[Message]):
    """Pages first, then messages. It equals the tuple of all its messages, and never changes."""

    __slots__ = ("_paged", "pages", "tail")

    def __init__(self, pages: tuple[Page, ...], tail: tuple[Message, ...]) -> None:
        self.pages: Final = pages
        self.tail: Final = tail
        self._paged: Final = sum(page.length for page in pages)

    @property
    def open_count(self) -> int:
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
        if place >= self._paged:
            return self.tail[place - self._paged]
        return self._on_a_page(place)

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
