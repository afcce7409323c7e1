"""What may be seen of an answer that is still being written: whole sentences, list items, lines or fences, never less.

What the gate would take away must not flash up first, so a line that may turn out to be a control token waits until
the text behind it shows that it is not.
"""

import re
from typing import Final

from finclaw.delivery.control import control_token

_SEGMENT: Final = re.compile(r"""[.!?。…]["')\]]*\s|\n""")
_LAST_SEGMENT: Final = re.compile(rf"""(?s:.*)(?:{_SEGMENT.pattern})""")
_CLOSING: Final = "\"')]"
_FENCE: Final = "```"
_CLOSED: Final = re.compile(r"\n[ \t]*```[ \t]*\n")


class Preview:
    """Feed it the model's words; it gives back those that may be seen by now, each once and in order."""

    def __init__(self) -> None:
        self._held = ""
        self._searched = 0
        """No segment ends before this place of what is held."""
        self._gap = ""
        self._begun = False
        self._at_line_start = True

    def feed(self, text: str) -> str:
        self._held += text
        if "`" not in self._held and "<<" not in self._held:
            return self._feed_plain()
        pieces: list[str] = []
        while (segment := self._next_segment()) is not None:
            pieces.append(self._admit(segment))
        return "".join(pieces)

    def _feed_plain(self) -> str:
        """Neither a fence nor a token can be in it: then all up to the end of its last segment may be seen."""
        found = _LAST_SEGMENT.match(self._held, self._searched)
        if found is None:
            self._searched = max(0, len(self._held.rstrip(_CLOSING)) - 1)
            return ""
        segments, self._held = self._held[: found.end()], self._held[found.end() :]
        self._searched = 0
        self._at_line_start = segments.endswith("\n")
        whole = self._gap + segments if self._begun else segments.lstrip()
        piece = whole.rstrip()
        self._begun = self._begun or bool(piece)
        self._gap = whole[len(piece) :]
        return piece

    def _next_segment(self) -> str | None:
        """Cut the next complete segment off what is held; None while it is incomplete."""
        fenced = self._at_line_start and self._held.lstrip(" \t").startswith(_FENCE)
        found = _CLOSED.search(self._held) if fenced else _SEGMENT.search(self._held, self._searched)
        if found is None or (self._at_line_start and not fenced and _may_become_fence(self._held)):
            if found is None and not fenced:  # a mark at the end may still close a sentence
                self._searched = max(0, len(self._held.rstrip(_CLOSING)) - 1)
            return None
        segment, self._held = self._held[: found.end()], self._held[found.end() :]
        self._searched = 0
        self._at_line_start = segment.endswith("\n")
        return segment

    def _admit(self, segment: str) -> str:
        if not segment.strip() or control_token(segment):
            self._gap += segment if self._begun else ""
            return ""
        if not self._begun:
            segment = segment.lstrip()
        body = segment.rstrip()
        piece, self._gap = self._gap + body, segment[len(body) :]
        self._begun = True
        return piece


def _may_become_fence(held: str) -> bool:
    return held.lstrip(" \t") in ("`", "``")
