"""The chat at a terminal: read a line, show its answer as it is made, and again."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Literal

from finclaw.cli.chat.commands import MOST_BACK, answers_wanted, is_help, is_leaving
from finclaw.cli.chat.editor import Editor, interrupts_to, quiet_keys
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, UnsolicitedMessage
from finclaw.cli.chat.gateway_link import GatewayLink
from finclaw.cli.chat.questions import PendingQuestion, PendingQuestions, QuestionEnd
from finclaw.cli.chat.screen import Screen, show_ending, sources, status_line
from finclaw.cli.chat.texts import Texts, has_hangul, texts_for
from finclaw.cli.formatting import one_line
from finclaw.clock import SystemClock
from finclaw.web.view import OutcomeView

TICK: Final = 0.5
"""Seconds between two looks at the clock while an answer is awaited."""
_LOOK_WITHIN: Final = 3.0
_TAKE_WITHIN: Final = 2.0
_STOP_WITHIN: Final = 5.0
_AT_ONCE: Final = 2.0
"""Seconds in which a second Ctrl-C belongs to the first."""

Ended = Literal["done", "interrupted", "late"]


class Console:
    """A conversation at a terminal: reads lines, shows answers as they are made, and what comes unsolicited."""

    def __init__(
        self,
        link: GatewayLink,
        questions: PendingQuestions,
        events: EventQueue,
        screen: Screen,
        texts: Texts,
        max_bytes: int,
    ) -> None:
        self._link = link
        self._questions = questions
        self._events = events
        self._screen = screen
        self.texts = texts
        self._max_bytes = max_bytes
        self._latest: PendingQuestion | None = None
        self._awaited: PendingQuestion | None = None
        """The one whose answer is being drawn as it is made."""
        self._unshown: list[PendingQuestion | UnsolicitedMessage] = []
        self._interrupted = False
        """Ctrl-C came when neither an answer was awaited nor a line read."""
        self._about_to_leave = False
        self._leaving = False
        self.watch_keys: Callable[[], AbstractContextManager[None]] = quiet_keys
        """The keyboard while an answer is awaited, as the editor has it."""
        self._now = SystemClock().monotonic
        self._stopped_at = -_AT_ONCE

    def run(self, editor: Editor) -> None:
        with interrupts_to(self._events):
            while (text := self._read(editor)) is not None:
                if text.strip():
                    editor.remember(text)
                    self._obey(text)
            # Who leaves in haste has still said it: give what is on its way a moment to be taken, or stopped.
            self._until(lambda: not self._questions.on_its_way, _do_nothing, seconds=_TAKE_WITHIN)

    def has_news(self) -> bool:
        """Whether there is something to show; never waits."""
        while (item := self._events.get(0)) is not None:
            self._interrupted = self._interrupted or (isinstance(item, Interrupted) and item.leaves)
            changed = self._questions.take(item)
            if isinstance(changed, UnsolicitedMessage) or (changed is not None and changed.ending is not None):
                self._unshown.append(changed)
        return bool(self._unshown)

    def show_news(self) -> None:
        """Answers that have come since somebody looked, and what was told unasked; never waits."""
        while self.has_news():
            self._show_late(self._unshown.pop(0))

    def was_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed in between, where nobody could heed it; told once."""
        pressed, self._interrupted = self._interrupted, False
        return pressed

    # ── at the prompt ───────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, editor: Editor) -> str | None:
        """An entry, perhaps an empty one; None when it is time to leave."""
        self.show_news()
        if self._leaving:
            return None
        if self.was_interrupted():
            return self._handle_interrupt("")
        try:
            text = editor.read()
        except EOFError:
            return None
        except UnicodeDecodeError:
            self._screen.line(self.texts.not_text)
            return ""
        except KeyboardInterrupt:
            return self._handle_interrupt(editor.left)
        self._about_to_leave = False
        return None if is_leaving(text) else text

    def _handle_interrupt(self, left: str) -> str | None:
        """Ctrl-C takes back what stands on the line; on an empty line it leaves, the second time.

        The first time may have been the one that stopped the answer, if that was just now.
        """
        if left.strip():
            return ""
        if self._about_to_leave or self._now() - self._stopped_at < _AT_ONCE:
            return None
        self._about_to_leave = True
        self._screen.line(self.texts.once_more)
        return ""

    def _obey(self, text: str) -> None:
        if has_hangul(text) or not text.startswith("/"):
            self.texts = texts_for(text)
        if (count := answers_wanted(text)) is not None:
            self._show_last_answers(count)
        elif refusal := self._link.commands.refuse_unknown(text, self.texts):
            self._screen.line(refusal)
        elif len(text.encode(errors="replace")) > self._max_bytes:
            self._screen.line(self.texts.too_long.format(limit=self._max_bytes))
        else:
            self.show_news()  # what came while the line was being sent is older than its answer
            self._latest = self._questions.ask(text)
            self._await(self._latest)
            if is_help(text):
                self._end_with(tuple(self.texts.own_commands.splitlines()))

    def _show_last_answers(self, count: int) -> None:
        """Show the last answer again, or several, the oldest first."""
        if count == 0:
            self._screen.line(self.texts.which_last.format(most=MOST_BACK))
        elif count == 1:
            self._last_one()
        else:
            self.show_news()
            views = [self._look(None, back) for back in reversed(range(count))]
            for view in (each for each in views if each is not None and each.outcome is not None):
                self._show_ending(QuestionEnd(str(view.outcome), view.reason, view.reply, view.is_markdown))
                self._end_with(sources(view, self.texts))
            if not any(views):
                self._screen.line(self.texts.no_last)

    def _last_one(self) -> None:
        latest = self._latest
        was_open = latest is not None and latest.ending is None
        self.show_news()
        view = self._look(latest.inbound_id or None if latest else None)
        if was_open and latest is not None and latest.ending is not None:
            return  # it came just now, and was shown as it came
        if view is None or (latest is not None and not latest.inbound_id):
            self._screen.line(self.texts.no_last)
        elif view.outcome is None:
            self._screen.line(self.texts.still_open)
        else:
            self._show_ending(QuestionEnd(view.outcome, view.reason, view.reply, view.is_markdown))
            self._end_with(sources(view, self.texts))

    # ── an answer on its way ────────────────────────────────────────────────────────────────────────────────────

    def _await(self, question: PendingQuestion) -> None:
        began = self._now()
        self._awaited = question
        if self.was_interrupted():  # since the line was sent
            self._events.put(Interrupted())
        how = self._until(lambda: _is_over(question), lambda: self._draw(question, self._now() - began))
        if how == "interrupted":
            self._stop(question)
        elif question.ending is not None:
            self._show_answer(question.ending, question)
        self._awaited = None

    def _stop(self, question: PendingQuestion) -> None:
        """Esc or the first Ctrl-C stops the answer, for good; the next Ctrl-C leaves."""
        began = self._now()
        self._questions.stop(question)
        how = self._until(
            lambda: _is_over(question) or not self._questions.connected,
            lambda: self._draw(question, self._now() - began),
            seconds=_STOP_WITHIN,
            is_stopping=True,
        )
        self._stopped_at = self._now()
        self._leaving = how == "interrupted"
        if question.ending is not None:
            self._show_answer(question.ending, question)
            return
        self._screen.end_answer()
        if not self._leaving:
            self._about_to_leave = True
            self._screen.line(self._why_not_stopped(question))

    def _why_not_stopped(self, question: PendingQuestion) -> str:
        if question.unstoppable:
            return self.texts.not_stopped.format(reason=question.unstoppable)
        heard = question.inbound_id and self._questions.connected
        return self.texts.let_go if heard else self.texts.let_go_unheard

    def _show_answer(self, ending: QuestionEnd, question: PendingQuestion) -> None:
        self._show_ending(ending, wanted=not question.stopping)
        unsaid = ending.outcome == "answered" and bool(ending.reply)
        view = self._look(question.inbound_id) if unsaid else None
        self._end_with(sources(view, self.texts) if view else ())

    def _until(
        self,
        done: Callable[[], bool],
        draw: Callable[[], None],
        seconds: float = float("inf"),
        *,
        is_stopping: bool = False,
    ) -> Ended:
        """Take what comes until this is so, Ctrl-C or Esc is pressed or the seconds are over.

        `is_stopping`: another Esc has nothing more to say.
        """
        give_up = self._now() + seconds
        with self.watch_keys():
            while not done():
                if self._now() > give_up:
                    return "late"
                draw()
                item = self._events.get(TICK)
                if isinstance(item, Interrupted):
                    if is_stopping and not item.leaves:
                        continue
                    return "interrupted"
                if item is None:
                    self._questions.tick()
                elif (changed := self._questions.take(item)) is not self._awaited:
                    self._show_late(changed)
        return "done"

    def _draw(self, question: PendingQuestion, waited: float) -> None:
        texts = self.texts
        if question.withdrawn:
            question.withdrawn = False
            self._screen.answer("", texts.rewritten)
            self._screen.line(texts.back_anew)
        self._screen.answer(question.preview, texts.rewritten)
        self._screen.status(status_line(question, self._questions, texts, waited))

    def _look(self, inbound_id: str | None, back: int = 0) -> OutcomeView | None:
        self._questions.seen = None
        self._link.look(inbound_id, back)
        self._until(lambda: self._questions.seen is not None, _do_nothing, seconds=_LOOK_WITHIN)
        return None if self._questions.seen is None else self._questions.seen.view

    # ── how it ended ────────────────────────────────────────────────────────────────────────────────────────────

    def _show_late(self, news: PendingQuestion | UnsolicitedMessage | None) -> None:
        """What nobody waits for any more, or never did: an answer under its question, a card as it is."""
        if isinstance(news, UnsolicitedMessage):
            with self._screen.apart(self.texts.goes_on):
                self._show_ending(QuestionEnd("answered", reply=news.text, is_markdown=news.is_markdown))
                self._end_with(())
        elif news is not None and news.ending is not None:
            with self._screen.apart(self.texts.goes_on):
                self._screen.line(self.texts.answer_to.format(question=one_line(news.text)))
                self._show_ending(news.ending, wanted=not news.stopping)
                self._end_with(())

    def _show_ending(self, ending: QuestionEnd, *, wanted: bool = True) -> None:
        show_ending(self._screen, self.texts, ending, wanted=wanted)

    def _end_with(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self._screen.line(line)
        self._screen.line("")


def _is_over(question: PendingQuestion) -> bool:
    return question.ending is not None or bool(question.unstoppable)


def _do_nothing() -> None:
    pass
