"""Words that came in one read are told in one piece: whoever follows an answer has nothing of fifty pieces at once."""

from collections.abc import Iterable, Iterator

from finclaw.errors import ProviderError
from finclaw.kernel.chunk import Chunk, TextDelta


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
