"""The screen of the chat: lines that stay, and below them what may still change: an answer that grows and a status.

What has outgrown the screen stays. An answer that turns out differently after that is marked as written again.
"""

import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC
from typing import Final, TextIO

from finclaw.cli.chat.markdown import MARKS, apply_styles, clean_text, set_markdown, without_last_table
from finclaw.cli.chat.questions import PendingQuestion, PendingQuestions, QuestionEnd
from finclaw.cli.chat.texts import Texts
from finclaw.cli.formatting import cut, wrap
from finclaw.web.view import OutcomeView

_TAB: Final = " " * 4
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_ROWS_BELOW: Final = 4
"""Rows that the answer leaves free for the status and the line that is typed."""


def can_move_cursor(out: TextIO, environ: Mapping[str, str]) -> bool:
    return out.isatty() and environ.get("TERM", "dumb") != "dumb"


class Screen:
    """A terminal on which an answer grows. Where the cursor cannot be moved, nothing is shown that may still change."""

    def __init__(self, out: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._out = out
        self._moves = can_move_cursor(out, environ)
        self._dims = self._moves and not environ.get("NO_COLOR")
        self._answer = ""
        """The answer so far, in rows."""
        self._printed = ""
        """The beginning of the answer that stays."""
        self._is_torn = False
        """Other lines stand below that beginning."""
        self._status = ""
        self._live = ""
        """What is drawn now below the lines that stay."""

    def line(self, text: str) -> None:
        """Print a line of our own above the answer."""
        self._print(self._dim(self._wrap_text(text)) + "\n")

    def echo(self, text: str) -> None:
        """Print a line that the person typed above the answer."""
        self._print(self._wrap_text(text) + "\n")

    def status(self, text: str) -> None:
        """Show what is going on; empty for nothing."""
        self._status = text
        self._draw()

    def answer(self, text: str, texts: Texts, *, is_markdown: bool = True, is_whole: bool = False) -> None:
        """Make the answer so far read like this."""
        text = clean_text(text)
        if is_markdown:
            text = set_markdown(text if is_whole else without_last_table(text), styled=self._dims)
        answer = self._wrap(text if is_whole else text.rstrip())
        if not f"{answer}\n\n".startswith(self._printed):
            self.end_answer(texts)
            self.line(texts.rewritten)
        self._answer = answer
        self._draw(self._take_outgrown(texts))

    def would_lose(self, text: str) -> bool:
        """Whether something was shown that is not the beginning of this text."""
        return bool(self._answer.strip()) and not self._wrap_text(text).startswith(self._answer)

    def end_answer(self, texts: Texts) -> None:
        """Let the answer stay as it is shown."""
        rest = self._rest.removesuffix("\n")
        if rest:
            rest = f"{self._goes_on(texts)}{rest}\n"
        self._answer = self._printed = ""
        self._is_torn = False
        self._draw(rest)

    @contextmanager
    def apart(self) -> Generator[None]:
        """Inside, another answer is shown above the one that grows."""
        answer, printed = self._answer, self._printed
        self._answer = self._printed = ""
        self._is_torn = False
        yield
        self._answer = answer
        self._printed = printed
        self._is_torn = bool(printed)
        self._draw()

    @property
    def _rest(self) -> str:
        return self._answer[len(self._printed) :]

    @property
    def _room(self) -> int:
        """Rows in which an answer may still change."""
        return max(1, shutil.get_terminal_size().lines - _ROWS_BELOW)

    def _take_outgrown(self, texts: Texts) -> str:
        """Return the rows that stay from now on: they do not fit any more, or nothing can be taken back."""
        rest = self._rest
        end = len(rest) - len("\n".join(rest.split("\n")[-self._room :]))
        if not self._moves:
            end = rest.rfind("\n\n") + 2 if "\n\n" in rest else 0
        settled = rest[:end]
        if not settled or len(MARKS.findall(settled)) % 2:
            return ""
        self._printed += settled
        return self._goes_on(texts) + settled

    def _goes_on(self, texts: Texts) -> str:
        """Return the mark above the rest of an answer if other lines stand between."""
        mark = f"{self._dim(self._wrap_text(texts.goes_on))}\n" if self._is_torn else ""
        self._is_torn = False
        return mark

    def _print(self, text: str) -> None:
        self._is_torn = self._is_torn or bool(self._printed)
        self._draw(text)

    def _draw(self, printed: str = "") -> None:
        """Print this text, and draw below it what may still change."""
        live: list[str] = []
        if self._moves:
            live = self._rest.split("\n")[-self._room :] if self._rest else []
            if self._status:
                live.append(self._dim(cut(" ".join(clean_text(self._status).split()), self._columns - 1)))
        drawn = apply_styles("\n".join(live))
        if printed or drawn != self._live:
            self._show(apply_styles(printed), drawn)

    def _show(self, printed: str, live: str) -> None:
        rows = self._live.count("\n")
        begin = "\r" if self._live else ""
        begin += f"\x1b[{rows}A" if rows else ""
        text = printed + live
        if self._moves:
            text = text.replace("\n", "\x1b[K\n") + "\x1b[J"
        self._out.write(begin + text)
        self._out.flush()
        self._live = live

    def _wrap_text(self, text: str) -> str:
        return self._wrap(clean_text(text))

    def _wrap(self, text: str) -> str:
        # Not into the last column: there terminals wait to wrap, and erasing what follows takes a character along.
        return wrap(text.replace("\t", _TAB), self._columns - 1) if self._moves else text

    def _dim(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self._dims and text else text

    @property
    def _columns(self) -> int:
        return max(10, shutil.get_terminal_size().columns)


_SECONDS_SHOWN_AFTER: Final = 3


def status_line(question: PendingQuestion, questions: PendingQuestions, texts: Texts, waited: float) -> str:
    """Return what is being done for the question."""
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


_BROKEN: Final = ("failed", "expired", "dropped")


def show_ending(screen: Screen, texts: Texts, ending: QuestionEnd, *, wanted: bool = True) -> None:
    """Show how a question ended, below what of its answer was seen.

    Not `wanted`: the person has stopped it, so the end is no surprise. What was read of an answer that was stopped or
    broke off stays on the screen.
    """
    if ending.outcome == "stopped":
        screen.end_answer(texts)
    elif ending.outcome in _BROKEN and screen.would_lose(ending.reply or ""):
        screen.end_answer(texts)
        screen.line(texts.unfinished)
    if ending.reply is not None:
        screen.answer(ending.reply, texts, is_markdown=ending.is_markdown, is_whole=True)
    screen.end_answer(texts)
    has_reason = ending.outcome in ("refused", "stopped") and bool(ending.reply)
    if ending.outcome == "not taken":
        screen.line(texts.refused.format(reason=ending.reason))
    elif ending.outcome == "stopped":
        if wanted and not has_reason:
            screen.line(texts.stopped)
    elif ending.outcome not in ("answered", "command") and not has_reason:
        reason = f": {ending.reason}" if ending.reason else ""
        screen.line(texts.ended_as.format(outcome=ending.outcome, reason=reason))
    if not wanted and ending.outcome != "stopped":
        screen.line(texts.too_late)


_NAMES_SOURCE: Final = ("source:", "출처")


def sources(view: OutcomeView, texts: Texts) -> tuple[str, ...]:
    """Return one line for each source, with the age of its oldest figure, unless the reply names sources."""
    reply = (view.reply or "").casefold()
    if any(word in reply for word in _NAMES_SOURCE):
        return ()
    oldest = {fact.source: fact.as_of for fact in sorted(view.facts, key=lambda fact: fact.as_of, reverse=True)}
    return tuple(
        texts.source.format(source=source, as_of=as_of.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"))
        for source, as_of in sorted(oldest.items())
    )
