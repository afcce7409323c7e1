"""Batches of events: those that came in one read are decoded in one go, and their words passed on in one piece.

Whoever follows an answer gains nothing from fifty pieces at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from finclaw.errors import ProviderError
from finclaw.kernel.chunk import Chunk, TextDelta
from finclaw.providers.http.sse import Event

T = TypeVar("T")


def decode_all(decode: Callable[[bytes], T], events: Sequence[Event]) -> list[T] | None:
    """The data of several events; None when they have to be looked at one by one, for one cannot be read as it is."""
    try:
        return [decode(data) for _, data in events]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def join_text_deltas(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same chunks, with neighbouring text of one block joined. What stands before an error comes before it."""
    words: list[str] = []
    index = 0
    try:
        for chunk in chunks:
            if isinstance(chunk, TextDelta) and (not words or chunk.index == index):
                words.append(chunk.text)
                index = chunk.index
                continue
            if words:
                yield TextDelta("".join(words), index)
                words = []
            if isinstance(chunk, TextDelta):
                words, index = [chunk.text], chunk.index
            else:
                yield chunk
    except ProviderError:
        if words:
            yield TextDelta("".join(words), index)
        raise
    if words:
        yield TextDelta("".join(words), index)
