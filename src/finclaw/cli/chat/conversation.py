"""The conversation of a chat: what is sent of the typed lines, and which answer is shown when.

Answers are shown in the order of their questions, the first one as it is made. Everything arrives as an event, and only
one thread takes events and draws.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from finclaw.cli.chat.commands import MOST_BACK, Completer, answers_wanted, is_help, is_leaving, waits_for_end
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, Item, News, TypedLine, UnsolicitedMessage
from finclaw.cli.chat.gateway_link import GatewayLink
from finclaw.cli.chat.keyboard import PROMPT
from finclaw.cli.chat.questions import PendingQuestion, PendingQuestions, QuestionEnd
from finclaw.cli.chat.screen import Screen, show_ending, sources, status_line
from finclaw.cli.chat.texts import Texts, has_hangul, texts_for
from finclaw.cli.formatting import one_line
from finclaw.clock import SystemClock
from finclaw.web.view import OutcomeView

TICK: Final = 0.5
"""Seconds between two looks at the clock while an answer is awaited."""
_IDLE: Final = 3_600.0
_FRAME: Final = 0.05
_LOOK_WITHIN: Final = 3.0
_TAKE_WITHIN: Final = 2.0
_STOP_WITHIN: Final = 5.0
_AT_ONCE: Final = 2.0
"""Seconds in which a second Ctrl-C belongs to the first."""
_RECENT: Final = 50
"""Questions among which the one is sought that another was answered with."""


class TerminalChat:
    """A conversation at a terminal, from the first line to leaving."""

    def __init__(
        self,
        link: GatewayLink,
        questions: PendingQuestions,
        events: EventQueue,
        screen: Screen,
        completer: Completer,
        texts: Texts,
        max_bytes: int,
    ) -> None:
        self.texts = texts
        self._completer = completer
        self._link = link
        self._questions = questions
        self._events = events
        self._screen = screen
        self._max_bytes = max_bytes
        self._asked: deque[PendingQuestion] = deque()
        """Questions whose answers are to be shown in this order."""
        self._recent: deque[PendingQuestion] = deque(maxlen=_RECENT)
        self._lines: deque[str] = deque()
        """Lines that wait for the end of the answer."""
        self._held: deque[Item] = deque()
        """What the person did while a message was looked up."""
        self._needs_heading = False
        self._is_about_to_leave = False
        self._is_over = False
        self._now = SystemClock().monotonic
        self._began = 0.0
        """When the question whose answer is drawn was asked, or stopped."""
        self._drawn_at = -_FRAME
        self._stopped_at = -_AT_ONCE

    def run(self, read_line: Callable[[], None] | None = None) -> None:
        """Take events until the person leaves.

        `read_line` waits for a line and puts it into the queue. Without it lines come by themselves, at any time.
        """
        while not self._is_over:
            item = self._next(0)
            if item is None and read_line is not None and not self._asked:
                read_line()
                continue
            if item is None:
                item = self._draw_and_wait()
            if isinstance(item, TypedLine) and read_line is None:
                self._echo(item.text)
            self._take(item)
            self._advance()
        self._screen.status("")
        self._screen.end_answer(self.texts)
        self._wait_until_taken()

    def _next(self, seconds: float) -> Item | None:
        return self._held.popleft() if self._held else self._events.get(seconds)

    def _draw_and_wait(self) -> Item | None:
        """Wait for the next item, and draw first unless that was done just now: setting a long answer takes time."""
        pause = self._drawn_at + _FRAME - self._now()
        if pause > 0 and (item := self._next(pause)) is not None:
            return item
        self._draw()
        self._drawn_at = self._now()
        return self._next(TICK if self._questions.open else _IDLE)

    def _take(self, item: Item | None) -> None:
        match item:
            case None:
                self._questions.tick()
            case TypedLine(text=text) if self._must_wait(text):
                self._lines.append(text)
            case TypedLine(text=text):
                self._obey(text)
            case Interrupted(leaves=leaves):
                self._interrupt(leaves=leaves)
            case _:
                self._receive(item)

    def _wait_until_taken(self) -> None:
        """Give what is on its way a moment to be taken, or stopped."""
        give_up = self._now() + _TAKE_WITHIN
        while self._questions.on_its_way and self._now() < give_up:
            item = self._next(TICK)
            if isinstance(item, Interrupted):
                return
            if item is not None:
                self._questions.take(item)

    # ── what the person does ────────────────────────────────────────────────────────────────────────────────

    def _echo(self, text: str) -> None:
        if text.strip():
            note = self.texts.draft_waits if self._must_wait(text) else ""
            self._screen.echo(PROMPT + text.replace("\n", "\n" + " " * len(PROMPT)) + note)

    def _must_wait(self, text: str) -> bool:
        return bool(self._asked) and (bool(self._lines) or waits_for_end(text))

    def _obey(self, text: str) -> None:
        self._is_about_to_leave = False
        if is_leaving(text):
            self._is_over = True
            return
        if has_hangul(text) or not text.startswith("/"):
            self.texts = texts_for(text)
        count = answers_wanted(text)
        if count is not None:
            self._show_last_answers(count)
        elif refusal := self._refuse(text):
            self._screen.line(refusal)
        elif text.strip():
            self._send(text)

    def _refuse(self, text: str) -> str:
        """Return why the text is not sent; empty if it is."""
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            return self.texts.not_text
        if size > self._max_bytes:
            return self.texts.too_long.format(limit=self._max_bytes)
        return self._link.commands.refuse_unknown(text, self.texts)

    def _send(self, text: str) -> None:
        question = self._questions.ask(text)
        if not self._asked:
            self._began = self._now()
            self._needs_heading = False
        self._asked.append(question)
        self._recent.append(question)

    def _interrupt(self, *, leaves: bool) -> None:
        """Esc and the first Ctrl-C stop the answer, for good; the next Ctrl-C leaves."""
        if self._asked and not self._asked[0].stopping:
            self._questions.stop(self._asked[0])
            self._began = self._now()
        elif not leaves:
            return
        elif self._asked or self._is_about_to_leave or self._now() - self._stopped_at < _AT_ONCE:
            self._is_over = True
        else:
            self._is_about_to_leave = True
            self._screen.line(self.texts.once_more)

    def _show_last_answers(self, count: int) -> None:
        """Show the last answer again, or several, the oldest first."""
        if count == 0:
            self._screen.line(self.texts.which_last.format(most=MOST_BACK))
            return
        latest = self._recent[-1] if self._recent and count == 1 else None
        was_shown = latest is None or latest.shown
        first = latest.inbound_id or None if latest is not None else None
        views = [self._look(first, back) for back in reversed(range(count))]
        if not was_shown and latest is not None and latest.shown:
            return  # it came just now, and was shown as it came
        ended = [view for view in views if view is not None and view.outcome is not None]
        for view in ended:
            self._show_ending(QuestionEnd(str(view.outcome), view.reason, view.reply, view.is_markdown))
            self._end_with(sources(view, self.texts))
        if not ended:
            self._screen.line(self.texts.still_open if any(views) else self.texts.no_last)

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _draw(self) -> None:
        if problem := self._questions.take_store_problem():
            self._screen.line(self.texts.say_not_recorded(problem))
        if not self._asked:
            return
        question = self._asked[0]
        if question.withdrawn:
            question.withdrawn = False
            self._screen.answer("", self.texts)
            self._screen.line(self.texts.back_anew)
        if question.preview:
            self._show_heading(question)
        self._screen.answer(question.preview, self.texts)
        waited = self._now() - self._began
        self._screen.status(status_line(question, self._questions, self.texts, waited))

    def _advance(self) -> None:
        """Show the answers that are complete, up to one that is not, and then obey the lines that waited."""
        while self._asked and not self._is_over:
            question = self._asked[0]
            other = next(filter(question.was_answered_with, self._asked), None)
            if question.ending is None:
                if not self._gave_up_stopping(question):
                    return
                self._let_go(question)
            elif other is not None:  # the answer that is drawn is the other one's too, and goes on as such
                self._asked.remove(other)
                self._asked.appendleft(other)
                other.preview = other.preview or question.preview
            else:
                self._asked.popleft()
                self._show_answer(question, question.ending)
        while self._lines and not self._asked and not self._is_over:
            self._obey(self._lines.popleft())

    def _gave_up_stopping(self, question: PendingQuestion) -> bool:
        is_late = self._now() - self._began > _STOP_WITHIN
        return question.stopping and (bool(question.unstoppable) or is_late or not self._questions.connected)

    def _let_go(self, question: PendingQuestion) -> None:
        """Give up waiting for the end of a stopped answer, and of all that were asked after it."""
        self._stopped_at = self._now()
        self._is_about_to_leave = True
        self._screen.end_answer(self.texts)
        if question.unstoppable:
            self._screen.line(self.texts.not_stopped.format(reason=question.unstoppable))
        elif question.inbound_id and self._questions.connected:
            self._screen.line(self.texts.let_go)
        else:
            self._screen.line(self.texts.let_go_unheard)
        self._screen.status("")
        later = list(self._asked)
        self._asked.clear()
        for each in later:
            self._show_late(each)

    def _show_answer(self, question: PendingQuestion, ending: QuestionEnd) -> None:
        if ending.outcome == "joined":
            self._screen.end_answer(self.texts)
            self._show_joined(question)
        else:
            question.shown = True
            self._show_heading(question)
            self._show_ending(ending, wanted=not question.stopping)
            unsaid = ending.outcome == "answered" and bool(ending.reply)
            view = self._look(question.inbound_id) if unsaid else None
            self._end_with(sources(view, self.texts) if view else ())
            self._show_own_commands(question)
        self._screen.status("")
        self._needs_heading = True
        self._began = self._now()
        if question.stopping:
            self._stopped_at = self._now()

    def _show_heading(self, question: PendingQuestion) -> None:
        if self._needs_heading:
            self._needs_heading = False
            self._screen.line(self.texts.answer_to.format(question=one_line(question.text)))

    def _show_joined(self, question: PendingQuestion) -> None:
        question.shown = True
        name = one_line(question.text)
        other = next(filter(question.was_answered_with, self._recent), None)
        if other is None or not other.shown:
            self._end_with((self.texts.joined_elsewhere.format(question=name),))
        else:
            self._end_with((self.texts.joined_above.format(question=name, other=one_line(other.text)),))

    def _receive(self, item: Item) -> None:
        """Show at once what nobody waits for, and what need not wait for the answers before it."""
        if isinstance(item, News) and item.type == "approval":
            self._completer.note_change(item.data)
        news = self._questions.take(item)
        if isinstance(news, UnsolicitedMessage):
            with self._screen.apart():
                self._show_ending(QuestionEnd("answered", reply=news.text, is_markdown=news.is_markdown))
                self._end_with(())
        elif news is not None and news.ending is not None and not self._is_in_turn(news, news.ending):
            if news in self._asked:
                self._asked.remove(news)
            self._show_late(news)

    def _is_in_turn(self, question: PendingQuestion, ending: QuestionEnd) -> bool:
        if question not in self._asked:
            return False
        return question is self._asked[0] or ending.outcome in ("answered", "joined", "stopped")

    def _show_late(self, question: PendingQuestion) -> None:
        ending = question.ending
        if ending is None or question.shown:
            return
        with self._screen.apart():
            if ending.outcome == "joined":
                self._show_joined(question)
                return
            question.shown = True
            self._screen.line(self.texts.answer_to.format(question=one_line(question.text)))
            self._show_ending(ending, wanted=not question.stopping)
            self._end_with(())
            self._show_own_commands(question)

    def _show_ending(self, ending: QuestionEnd, *, wanted: bool = True) -> None:
        self._completer.note(ending.reply or "")
        show_ending(self._screen, self.texts, ending, wanted=wanted)

    def _show_own_commands(self, question: PendingQuestion) -> None:
        if is_help(question.text):
            self._end_with(tuple(self.texts.own_commands.splitlines()))

    def _end_with(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self._screen.line(line)
        self._screen.line("")

    def _look(self, inbound_id: str | None, back: int = 0) -> OutcomeView | None:
        """Look up the message with this id, or the conversation's last; if it joined another, that one."""
        view = self._look_up(inbound_id, back)
        if view is None or view.outcome != "joined":
            return view
        return self._look_up(view.reason.rpartition(" ")[2]) or view

    def _look_up(self, inbound_id: str | None, back: int = 0) -> OutcomeView | None:
        self._questions.seen = None
        self._link.look(inbound_id, back)
        give_up = self._now() + _LOOK_WITHIN
        while self._questions.seen is None and self._now() < give_up:
            item = self._events.get(TICK)
            if isinstance(item, TypedLine | Interrupted):
                self._held.append(item)
            elif item is not None:
                self._receive(item)
        return None if self._questions.seen is None else self._questions.seen.view
