"""A preview of an answer that is still being written: whole sentences, list items, lines or fences, never less.

What the gate would take away must not flash up first, so a line that may turn out to be a control token waits until
the text behind it shows that it is not.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from finclaw.delivery.control import ControlTokenStream
from finclaw.delivery.visible import SENTENCE_END, Check, clean_words, find_objection
from finclaw.kernel.event import Emit, Event, PreviewUpdated, StepStarted, TextStreamed
from finclaw.kernel.scope import Draft, DraftKind

# Each of these ends within a bounded number of characters, so that a piece of text is searched once and not again with
# every piece that follows it.
_LAST_SEGMENT: Final = re.compile(rf"""(?s:.*)(?:{SENTENCE_END.pattern})""")
_FENCE: Final = re.compile(r"[ \t]{0,100}```")
_CLOSED: Final = re.compile(r"\n[ \t]{0,100}```[ \t]{0,100}\n")
_LOOK_BACK: Final = 210
"""Characters before a new piece in which the end of a segment or fence may have begun."""


class Preview:
    """A preview. Feed it the model's words; it gives back those that may be seen by now, each once and in order."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        """What is held, because its segment is not complete."""
        self._tail = ""
        """The end of it."""
        self._in_fence = False
        self._at_line_start = True
        self._segments = ControlTokenStream()

    @property
    def held(self) -> int:
        """Characters at the end of what it was fed that wait for the end of their segment, or for words behind them."""
        return sum(map(len, self._pieces)) + self._segments.held

    def feed(self, text: str) -> str:
        self._pieces.append(text)
        window = self._tail + text
        self._tail = window[-_LOOK_BACK:]
        if (_CLOSED if self._in_fence else SENTENCE_END).search(window) is None:
            return ""
        held = "".join(self._pieces)
        if "`" not in held and "<<" not in held:
            shown, rest = self._feed_plain(held)
        else:
            shown, rest = self._feed_segments(held)
        self._pieces, self._tail = [rest], rest[-_LOOK_BACK:]
        return shown

    def _feed_plain(self, held: str) -> tuple[str, str]:
        """Neither a fence nor a token can be in it: then all up to the end of its last segment may be seen."""
        found = _LAST_SEGMENT.match(held)
        if found is None:
            return "", held
        segments = found[0]
        self._at_line_start = segments.endswith("\n")
        return self._segments.feed(segments), held[found.end() :]

    def _feed_segments(self, held: str) -> tuple[str, str]:
        pieces: list[str] = []
        start = 0
        while (end := self._segment_end(held, start)) is not None:
            segment, start = held[start:end], end
            self._at_line_start = segment.endswith("\n")
            pieces.append(self._segments.feed(segment))
        return "".join(pieces), held[start:]

    def _segment_end(self, held: str, start: int) -> int | None:
        """Where the segment that begins here ends; None while it is incomplete."""
        fenced = self._at_line_start and _FENCE.match(held, start) is not None
        found = (_CLOSED if fenced else SENTENCE_END).search(held, start)
        self._in_fence = fenced and found is None
        return None if found is None else found.end()


class PreviewEvents:
    """A stream of events with a PreviewUpdated behind each piece of text that may be seen by now.

    Once a check objects to what the person would have seen by then, nothing more of that answer is shown.
    """

    __slots__ = ("_checks", "_emit", "_is_withheld", "_make_draft", "_make_safe", "_preview", "_shown")

    def __init__(
        self,
        emit: Emit,
        checks: Sequence[Check] = (),
        make_safe: Callable[[str], str] = str,
        make_draft: Callable[[DraftKind, str], Draft] = lambda kind, text: Draft(text, kind),
    ) -> None:
        self._emit = emit
        self._checks = checks
        self._make_safe = make_safe
        self._make_draft = make_draft
        self._start_answer()

    def _start_answer(self) -> None:
        self._preview: Preview | None = None  # made with the first text: a turn that waits for its model holds none
        self._shown = ""
        self._is_withheld = False

    def emit(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, StepStarted):  # each model call writes its answer anew
            self._start_answer()
        elif isinstance(event, TextStreamed) and not self._is_withheld:
            self._preview = self._preview or Preview()
            seen = self._preview.feed(event.text)
            if seen and (seen := self._make_safe(clean_words(seen))):
                self._show(seen, event)

    def _show(self, seen: str, event: TextStreamed) -> None:
        if self._checks:
            draft = self._make_draft("preview", self._shown + seen)
            self._is_withheld = find_objection(self._checks, draft) is not None
        if not self._is_withheld:
            self._emit(
                PreviewUpdated(
                    at=len(self._shown),
                    text=seen,
                    agent=event.agent,
                    session=event.session,
                    inbound_id=event.inbound_id,
                    turn_id=event.turn_id,
                )
            )
            self._shown += seen
