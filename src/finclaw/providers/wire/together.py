"""Events that came in one read are decoded in one go, and their words are told in one piece: whoever follows an answer
has nothing of fifty pieces at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from finclaw.errors import ProviderError
from finclaw.kernel.chunk import Chunk, TextDelta
from finclaw.providers.wire.sse import Event

T = TypeVar("T")


def decode_all(decode_lines: Callable[[bytes], list[T]], events: Sequence[Event]) -> list[T] | None:
    """The data of several events, one of each; None when they have to be looked at one by one.

    Each is one line that begins with `{` and ends with `}`. JSON knows no place for those two side by side, so
    nothing reaches from one line into the next, and each is what it would be alone.
    """
    lines, ends = b"\n".join([data for _, data in events]), len(events) - 1
    if ends < 1 or lines.count(b"}\n{") != ends or lines.count(b"\n") != ends:
        return None
    if not (lines.startswith(b"{") and lines.endswith(b"}")):
        return None
    try:
        decoded = decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return decoded if len(decoded) == len(events) else None


def together(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same chunks, with neighbouring text of one block joined. What stands before an error is told before it."""
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
