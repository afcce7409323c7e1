"""Thinking that a server left among the words: it was not told how its model marks them, and passes `<think>` on.

Only what stands first is looked at; behind the thoughts, or where there are none, words are words.
"""

from collections.abc import Callable, Sequence
from typing import Final

from finclaw.kernel.chunk import Chunk, TextDelta, ThinkingDelta

_BEGIN: Final = "<think>"
_END: Final = "</think>"
_MOST_SPACE: Final = 1_000
"""Characters before it: nobody waits for a tag behind more."""


class ThinkTag:
    """A parser of `<think>` at the beginning of an answer, fed with the words as they come.

    Once `passed`, it need not be asked any more.
    """

    def __init__(self, thinking: int, text: int) -> None:
        """The places of both in the answer."""
        self.passed = False
        self._thinking = thinking
        self._text = text
        self._held = ""
        self._read: Callable[[], Sequence[Chunk]] = self._before

    def feed(self, words: str) -> Sequence[Chunk]:
        self._held += words
        return self._read()

    def close(self) -> Sequence[Chunk]:
        """What was held back because a tag might have come of it, and none did."""
        within = self._read == self._within
        held, self._held, self.passed = self._held, "", True
        return self._thinking_chunks(held) if within else (TextDelta(held, self._text),) if held else ()

    def _before(self) -> Sequence[Chunk]:
        opening = self._held.lstrip()
        if opening.startswith(_BEGIN):
            self._held, self._read = opening.removeprefix(_BEGIN), self._within
            return self._within()
        undecided = _BEGIN.startswith(opening) and len(self._held) < _MOST_SPACE
        return () if undecided else self.close()

    def _within(self) -> Sequence[Chunk]:
        thought, end, answer = self._held.partition(_END)
        if end:
            self._held, self._read = answer, self._behind
            return (*self._thinking_chunks(thought), *self._behind())
        sure = len(thought) - _beginning_of_end(thought)
        self._held = thought[sure:]
        return self._thinking_chunks(thought[:sure])

    def _behind(self) -> Sequence[Chunk]:
        """The empty lines between thoughts and answer belong to neither."""
        self._held = self._held.lstrip()
        return self.close() if self._held else ()

    def _thinking_chunks(self, words: str) -> Sequence[Chunk]:
        return (ThinkingDelta(words, self._thinking),) if words else ()


def _beginning_of_end(thought: str) -> int:
    """How many of its last characters may be the first of the closing tag."""
    return next((size for size in range(len(_END) - 1, 0, -1) if thought.endswith(_END[:size])), 0)
