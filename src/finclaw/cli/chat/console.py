"""The chat at a terminal: read a line, show its answer as it is made, and again."""

from collections.abc import Callable
from typing import Final

from finclaw.cli.chat.clean import one_line
from finclaw.cli.chat.desk import Desk, Ending, Question
from finclaw.cli.chat.editor import Editor
from finclaw.cli.chat.feed import Feed, Interrupted
from finclaw.cli.chat.link import Link
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.sources import sources
from finclaw.cli.chat.terminal import interrupts_to, quiet_keys
from finclaw.cli.chat.words import Words, has_hangul, words_for
from finclaw.kernel.clock import SystemClock
from finclaw.web.view import OutcomeView

TICK: Final = 0.5
"""Seconds between two looks at the clock while an answer is awaited."""
_LOOK_WITHIN: Final = 3.0
_TAKE_WITHIN: Final = 2.0
_SECONDS_SHOWN_AFTER: Final = 3


class Console:
    def __init__(self, link: Link, desk: Desk, feed: Feed, screen: Screen, words: Words, max_bytes: int) -> None:
        self._link = link
        self._desk = desk
        self._feed = feed
        self._screen = screen
        self.words = words
        self._max_bytes = max_bytes
        self._latest: Question | None = None
        self._about_to_leave = False
        self._now = SystemClock().monotonic

    def run(self, editor: Editor) -> None:
        with interrupts_to(self._feed):
            while (text := self._read(editor)) is not None:
                if text.strip():
                    editor.remember(text)
                    self._obey(text)
            # Who leaves in haste has still said it: give what is on its way a moment to be taken.
            self._until(lambda: not self._desk.untaken, lambda: None, seconds=_TAKE_WITHIN)

    def show_news(self) -> None:
        """Answers that have come since somebody looked; never waits."""
        while (item := self._feed.get(0)) is not None:
            self._show_late(self._desk.take(item))

    # ── at the prompt ───────────────────────────────────────────────────────────────────────────────────────

    def _read(self, editor: Editor) -> str | None:
        """An entry, perhaps an empty one; None when it is time to leave."""
        self.show_news()
        try:
            text = editor.read()
        except EOFError:
            return None
        except UnicodeDecodeError:
            self._screen.line(self.words.not_text)
            return ""
        except KeyboardInterrupt:
            return self._pressed(editor.left)
        self._about_to_leave = False
        return None if text.strip() == "/quit" else text

    def _pressed(self, left: str) -> str | None:
        """Ctrl-C takes back what stands on the line; on an empty line it leaves, the second time."""
        if left.strip():
            return ""
        if self._about_to_leave:
            return None
        self._about_to_leave = True
        self._screen.line(self.words.once_more)
        return ""

    def _obey(self, text: str) -> None:
        if has_hangul(text) or not text.startswith("/"):
            self.words = words_for(text)
        if text.strip() == "/last":
            self._last()
        elif len(text.encode(errors="replace")) > self._max_bytes:
            self._screen.line(self.words.too_long.format(limit=self._max_bytes))
        else:
            self._latest = self._desk.ask(text)
            self._await(self._latest)

    def _last(self) -> None:
        latest = self._latest
        was_open = latest is not None and latest.ending is None
        self.show_news()
        view = self._look(latest.inbound_id or None if latest else None)
        if was_open and latest is not None and latest.ending is not None:
            return  # it came just now, and was shown as it came
        if view is None or (latest is not None and not latest.inbound_id):
            self._screen.line(self.words.no_last)
        elif view.outcome is None:
            self._screen.line(self.words.still_open)
        else:
            self._show_ending(Ending(view.outcome, view.reason, view.reply))
            self._end_with(sources(view, self.words))

    # ── an answer on its way ────────────────────────────────────────────────────────────────────────────────

    def _await(self, question: Question) -> None:
        began = self._now()
        if not self._until(lambda: question.ending is not None, lambda: self._draw(question, self._now() - began)):
            self._screen.end_answer()
            self._about_to_leave = True
            self._screen.line(self.words.let_go if question.inbound_id else self.words.let_go_untaken)
        elif question.ending is not None:
            self._show_ending(question.ending)
            unsaid = question.ending.outcome == "answered" and bool(question.ending.reply)
            view = self._look(question.inbound_id) if unsaid else None
            self._end_with(sources(view, self.words) if view else ())

    def _until(self, done: Callable[[], bool], draw: Callable[[], None], seconds: float = float("inf")) -> bool:
        """Take what comes until this is so. False: Ctrl-C, or the seconds are over."""
        give_up = self._now() + seconds
        with quiet_keys():
            while not done():
                draw()
                item = self._feed.get(TICK)
                if isinstance(item, Interrupted) or self._now() > give_up:
                    return False
                if item is None:
                    self._desk.tick()
                elif (changed := self._desk.take(item)) is not self._latest:
                    self._show_late(changed)
        return True

    def _draw(self, question: Question, waited: float) -> None:
        words = self.words
        if question.withdrawn:
            question.withdrawn = False
            self._screen.answer("", words.rewritten)
            self._screen.line(words.back_anew)
        self._screen.answer(question.preview, words.rewritten)
        if not self._desk.connected:
            status = self._desk.lost_because or words.away
        elif question.trouble:
            status = words.not_taken_yet.format(reason=question.trouble)
        elif question.tool:
            status = words.looking_up.format(tool=question.tool)
        else:
            status = words.waiting
        seconds = f" ({int(waited)} s)" if waited > _SECONDS_SHOWN_AFTER else ""
        self._screen.status(status + seconds)

    def _look(self, inbound_id: str | None) -> OutcomeView | None:
        self._desk.seen = None
        self._link.look(inbound_id)
        self._until(lambda: self._desk.seen is not None, lambda: None, seconds=_LOOK_WITHIN)
        return None if self._desk.seen is None else self._desk.seen.view

    # ── how it ended ────────────────────────────────────────────────────────────────────────────────────────

    def _show_late(self, question: Question | None) -> None:
        """An answer that nobody waits for any more, under the question it belongs to."""
        if question is not None and question.ending is not None:
            self._screen.line(self.words.answer_to.format(question=one_line(question.text)))
            self._show_ending(question.ending)
            self._end_with(())

    def _show_ending(self, ending: Ending) -> None:
        if ending.reply is not None:
            self._screen.answer(ending.reply, self.words.rewritten)
        self._screen.end_answer()
        if ending.outcome == "not taken":
            self._screen.line(self.words.refused.format(reason=ending.reason))
        elif ending.outcome not in ("answered", "command"):
            reason = f": {ending.reason}" if ending.reason else ""
            self._screen.line(self.words.ended_as.format(outcome=ending.outcome, reason=reason))

    def _end_with(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self._screen.line(line)
        self._screen.line("")
