"""The screen of the chat, and how a question is drawn on it.

The cursor always stands behind the answer so far; what is in progress stands below it.

The status below is one line that never wraps, so erasing everything behind the cursor erases it. A preview that turns
out differently is erased as a whole if it is still on the screen, and else marked as written anew.
"""

import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC
from typing import Final, TextIO

from finclaw.cli.chat.markdown import GrowingMarkdown, apply_styles, clean_text, find_unchanged, set_markdown
from finclaw.cli.chat.questions import PendingQuestion, PendingQuestions, QuestionEnd
from finclaw.cli.chat.texts import Texts
from finclaw.cli.formatting import cut, rows_down, text_columns, wrap
from finclaw.web.view import OutcomeView

_TAB = " " * 4
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_ERASE_BEHIND = "\x1b[J"
_ROOM_BELOW = "\x1bD\x1b[A"  # scrolls if the cursor is on the last row, and keeps its column
_SEEN_OF_DRAFT: Final = 500
"""Characters: more than fit into a line."""
_REMEMBER, _RETURN = "\x1b7", "\x1b8"


def can_move_cursor(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the cursor can be moved there."""
    return out.isatty() and environ.get("TERM", "dumb") != "dumb"


class Screen:
    """A terminal on which an answer grows, with a status line below it."""

    def __init__(self, out: TextIO, environ: dict[str, str] | None = None) -> None:
        environ = dict(os.environ) if environ is None else environ
        self._out = out
        self._moves = can_move_cursor(out, environ)
        self._dims = self._moves and not environ.get("NO_COLOR")
        self._growing = GrowingMarkdown(styled=self._dims)
        self._shown = ""
        self._status = ""

    def line(self, text: str) -> None:
        """A line of our own, between answers."""
        self.status("")
        if self._shown:
            self._end_answer()
        self._write(self._dim(self._wrap_text(text)) + "\n")

    def status(self, text: str) -> None:
        """What is going on, until something else is drawn."""
        if not self._moves or text == self._status:
            return
        self._write(_ERASE_BEHIND)
        self._status = text
        if text:
            shown = self._dim(cut(" ".join(clean_text(text).split()), self._columns - 1))
            if self._shown:
                self._write(f"{_ROOM_BELOW}{_REMEMBER}\n{shown}{_RETURN}")
            else:
                self._write(f"{shown}\r")

    def draft(self, text: str, note: str = "") -> None:
        """The message that is being typed, in place of the status. Its end is what has to be seen."""
        line, room = " ".join(clean_text(text[-_SEEN_OF_DRAFT:]).split()), self._columns - 1 - text_columns("> " + note)
        if text_columns(line) > room:
            line = "…" + cut(line[::-1], room - 1)[::-1]
        self.status(f"> {line}{note}")

    def answer(self, text: str, rewritten: str, *, is_markdown: bool = True, is_whole: bool = False) -> None:
        """Make the answer so far read like this. `rewritten` marks a new version below one that cannot be erased."""
        text = self._set_text(text, is_whole=is_whole) if is_markdown else self._wrap_text(text)
        if text == self._shown:
            return
        self.status("")
        if not text.startswith(self._shown):
            self._take_back(text, rewritten)
        self._write(text[len(self._shown) :])
        self._shown = text

    def would_lose(self, text: str) -> bool:
        """Whether something was shown that is not the beginning of this text."""
        return bool(self._shown.strip()) and not self._wrap_text(text).startswith(self._shown)

    def end_answer(self) -> None:
        self.status("")
        self._end_answer()

    @contextmanager
    def apart(self, goes_on: str) -> Generator[None]:
        """Inside, something else is shown whole, though an answer is on its way: above it, as far as it can be moved.

        `goes_on` marks where an answer goes on that had to be left standing.
        """
        self.status("")
        begun, movable = self._shown, self._can_erase()
        if begun and movable:
            self._erase()
        self._end_answer()
        yield
        self.end_answer()
        if begun and movable:
            self._write(begun)
        elif begun:
            self.line(goes_on)
        self._shown = begun

    def _end_answer(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            self._write("\n")
        self._shown = ""

    def _take_back(self, text: str, rewritten: str) -> None:
        """Erase what this text does not begin with, or say that it is written anew."""
        kept = find_unchanged(self._shown, text)
        if self._can_erase(kept):
            self._erase(kept)
        else:
            self.line(rewritten)

    def _can_erase(self, kept: int = 0) -> bool:
        return self._moves and rows_down(self._shown[kept:], self._columns) < self._rows

    def _erase(self, kept: int = 0) -> None:
        up = rows_down(self._shown[kept:], self._columns)
        self._write("\r" + (f"\x1b[{up}A" if up else "") + _ERASE_BEHIND)
        self._shown = self._shown[:kept]

    def _set_text(self, text: str, *, is_whole: bool) -> str:
        """Markdown as it is read. Where the cursor cannot be moved a paragraph is shown once nothing changes it any
        more: it could not be taken back."""
        text = clean_text(text)
        text = set_markdown(text, styled=self._dims) if is_whole else self._growing.set(text, is_final=not self._moves)
        return self._wrap_lines(text) if self._moves else text

    def _wrap_text(self, text: str) -> str:
        return self._wrap_lines(clean_text(text)) if self._moves else clean_text(text)

    def _wrap_lines(self, text: str) -> str:
        # Not into the last column: there terminals wait to wrap, and what is erased "behind" takes a character along.
        return wrap(text.replace("\t", _TAB), self._columns - 1)

    def _dim(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self._dims and text else text

    @property
    def _columns(self) -> int:
        return max(10, shutil.get_terminal_size().columns)

    @property
    def _rows(self) -> int:
        return max(2, shutil.get_terminal_size().lines)

    def _write(self, text: str) -> None:
        self._out.write(apply_styles(text))
        self._out.flush()


# ── one question: its answer so far, what is being done, how it ended, and its sources ──────────────────────────


_SECONDS_SHOWN_AFTER: Final = 3


def status_line(question: PendingQuestion, questions: PendingQuestions, texts: Texts, waited: float) -> str:
    """What is being done, in a line that stands below the answer until something else is drawn."""
    if question.stopping:
        status = texts.stopping
    elif not questions.connected:
        status = questions.lost_because or texts.away
    elif question.trouble:
        status = texts.not_taken_yet.format(reason=question.trouble)
    elif question.tool:
        status = texts.looking_up.format(tool=question.tool)
    else:
        status = texts.waiting
    return status + (f" ({int(waited)} s)" if waited > _SECONDS_SHOWN_AFTER else "")


def show_ending(screen: Screen, texts: Texts, ending: QuestionEnd, *, wanted: bool = True) -> None:
    """Draw how a question ended, below what of its answer was seen.

    Not `wanted`: the person has stopped it, so the end is no surprise. What was read of an answer that was stopped or
    broke off stays on the screen.
    """
    if ending.outcome == "stopped":
        screen.end_answer()
    elif ending.outcome in _BROKEN and screen.would_lose(ending.reply or ""):
        screen.end_answer()
        screen.line(texts.unfinished)
    if ending.reply is not None:
        screen.answer(ending.reply, texts.rewritten, is_markdown=ending.is_markdown, is_whole=True)
    screen.end_answer()
    if ending.outcome == "not taken":
        screen.line(texts.refused.format(reason=ending.reason))
    elif _is_surprise(ending) and (wanted or ending.outcome != "stopped"):
        screen.line(_describe_surprise(ending, texts))
    if not wanted and ending.outcome != "stopped":
        screen.line(texts.too_late)


def _is_surprise(ending: QuestionEnd) -> bool:
    """Whether the end needs a line of its own. A reply to what was refused or stopped has said why."""
    has_said = ending.outcome in ("refused", "stopped") and bool(ending.reply)
    return ending.outcome not in ("answered", "command") and not has_said


def _describe_surprise(ending: QuestionEnd, texts: Texts) -> str:
    if ending.outcome == "stopped":
        return texts.stopped
    reason = f": {ending.reason}" if ending.reason else ""
    return texts.ended_as.format(outcome=ending.outcome, reason=reason)


_BROKEN: Final = ("failed", "expired", "dropped")


_SAID = ("source:", "출처")


def sources(view: OutcomeView, texts: Texts) -> tuple[str, ...]:
    """One line for each source, with the age of its oldest figure."""
    reply = (view.reply or "").casefold()
    if any(word in reply for word in _SAID):
        return ()
    oldest = {fact.source: fact.as_of for fact in sorted(view.facts, key=lambda fact: fact.as_of, reverse=True)}
    return tuple(
        texts.source.format(source=source, as_of=as_of.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"))
        for source, as_of in sorted(oldest.items())
    )
