"""The answers that a chat awaits: drawn as they are made, one after the other, until each has ended or is stopped.

Meanwhile the next message may be typed and sent, and what comes unsolicited is shown.
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Literal

from finclaw.cli.chat.commands import is_help
from finclaw.cli.chat.editor import PROMPT, quiet_keys
from finclaw.cli.chat.event_queue import DraftChanged, EventQueue, Interrupted, Item, TypedLine, UnsolicitedMessage
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
_RECENT: Final = 50
"""Questions among which the one is sought that another was answered with."""

Ended = Literal["done", "interrupted", "late"]


class Answers:
    """The questions of a chat whose answers are drawn, and those that were let go and are shown when they end."""

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
        self.events = events
        self._screen = screen
        self.texts = texts
        self._max_bytes = max_bytes
        self.latest: PendingQuestion | None = None
        self._awaited: PendingQuestion | None = None
        """The one whose answer is being drawn as it is made."""
        self._asked: deque[PendingQuestion] = deque()
        """Those whose answers are to be drawn after it."""
        self._recent: deque[PendingQuestion] = deque(maxlen=_RECENT)
        self._heading = ""
        """A line to be drawn above the answer."""
        self._typed: list[str] = []
        """Messages that were typed while an answer was awaited, and are not sent yet."""
        self._draft = DraftChanged("")
        self._unshown: list[PendingQuestion | UnsolicitedMessage] = []
        self._interrupted = False
        """Ctrl-C came when neither an answer was awaited nor a line read."""
        self.is_about_to_leave = False
        self.is_leaving = False
        self.watch_keys: Callable[[], AbstractContextManager[None]] = quiet_keys
        """The keyboard while an answer is awaited, as the editor has it."""
        self.remember: Callable[[str], None] = _forget
        """Puts a message that was typed meanwhile into the history."""
        self._now = SystemClock().monotonic
        self._stopped_at = -_AT_ONCE

    # ── news, for who reads a line ──────────────────────────────────────────────────────────────────────────────

    def has_news(self) -> bool:
        """Whether there is something to show; never waits."""
        while (item := self.events.get(0)) is not None:
            self._interrupted = self._interrupted or (isinstance(item, Interrupted) and item.leaves)
            if isinstance(item, TypedLine):
                self._typed.append(item.text)
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

    def has_just_stopped(self) -> bool:
        """Whether an answer was stopped a moment ago, perhaps by the Ctrl-C before this one."""
        return self._now() - self._stopped_at < _AT_ONCE

    def take_typed(self) -> str | None:
        """A message that was sent by Enter just as the last answer ended; shown here as at the prompt."""
        if not self._typed:
            return None
        self._screen.line(_quote(self._typed[0]))
        return self._typed.pop(0)

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────

    def choose_language(self, text: str) -> None:
        if has_hangul(text) or not text.startswith("/"):
            self.texts = texts_for(text)

    def send(self, text: str) -> None:
        """Send a message to the gateway, or say why it is not sent."""
        if refusal := self._link.commands.refuse_unknown(text, self.texts):
            self._screen.line(refusal)
        elif len(text.encode(errors="replace")) > self._max_bytes:
            self._screen.line(self.texts.too_long.format(limit=self._max_bytes))
        else:
            self.latest = self._questions.ask(text)
            self._asked.append(self.latest)
            self._recent.append(self.latest)

    def _send_typed(self) -> None:
        """Send what was typed while an answer is awaited. It is shown above the answer, which goes on."""
        while self._typed:
            text = self._typed.pop(0)
            self.remember(text)
            self.choose_language(text)
            with self._screen.apart(self.texts.goes_on):
                self._screen.line(_quote(text))
                self.send(text)

    def await_all(self) -> None:
        """Draw the answers to what was asked, one after the other, also to what is sent meanwhile."""
        heading = ""
        while self._asked and not self.is_leaving:
            question = self._asked.popleft()
            if not question.shown:
                self._heading = heading.format(question=one_line(question.text))
                self._await(question)
                while question.ending is None and self._asked:  # let go; the others are shown when they end
                    self._show_late(self._asked.popleft())
            heading = self.texts.answer_to if self._asked else ""
            self._send_typed()

    # ── an answer on its way ────────────────────────────────────────────────────────────────────────────────────

    def _await(self, question: PendingQuestion) -> None:
        began = self._now()
        self._awaited = question
        if self.was_interrupted():  # since the line was sent
            self.events.put(Interrupted())
        how = self._until(lambda: question.is_over, lambda: self._draw(question, self._now() - began))
        self._awaited = None
        if how == "interrupted":
            self._stop(question)
        elif (other := next(filter(question.was_answered_with, self._asked), None)) is not None:
            # The answer that was being drawn is that one's too, and goes on as such.
            self._asked.remove(other)
            other.preview = other.preview or question.preview
            self._await(other)
            self._show_joined(question)
        elif question.ending is not None:
            self._show_answer(question.ending, question)

    def _stop(self, question: PendingQuestion) -> None:
        """Esc or the first Ctrl-C stops the answer, for good; the next Ctrl-C leaves."""
        began = self._now()
        self._awaited = question
        self._questions.stop(question)
        how = self._until(
            lambda: question.is_over or not self._questions.connected,
            lambda: self._draw(question, self._now() - began),
            seconds=_STOP_WITHIN,
            is_stopping=True,
        )
        self._awaited = None
        self._stopped_at = self._now()
        self.is_leaving = how == "interrupted"
        if question.ending is not None:
            self._show_answer(question.ending, question)
            return
        self._screen.end_answer()
        if not self.is_leaving:
            self.is_about_to_leave = True
            self._screen.line(self._why_not_stopped(question))

    def _why_not_stopped(self, question: PendingQuestion) -> str:
        if question.unstoppable:
            return self.texts.not_stopped.format(reason=question.unstoppable)
        heard = question.inbound_id and self._questions.connected
        return self.texts.let_go if heard else self.texts.let_go_unheard

    def wait_until_taken(self) -> None:
        """Who leaves in haste has still said it: give what is on its way a moment to be taken, or stopped."""
        self._until(lambda: not self._questions.on_its_way, _do_nothing, seconds=_TAKE_WITHIN)

    def look(self, inbound_id: str | None, back: int = 0) -> OutcomeView | None:
        """The message with this id, or the conversation's last; if it joined another, that one: it has the answer."""
        view = self._look_up(inbound_id, back)
        if view is None or view.outcome != "joined":
            return view
        return self._look_up(view.reason.rpartition(" ")[2]) or view

    def _look_up(self, inbound_id: str | None, back: int = 0) -> OutcomeView | None:
        self._questions.seen = None
        self._link.look(inbound_id, back)
        self._until(lambda: self._questions.seen is not None, _do_nothing, seconds=_LOOK_WITHIN)
        return None if self._questions.seen is None else self._questions.seen.view

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
        self._draft = DraftChanged("")
        with self.watch_keys():
            while not done():
                if self._now() > give_up:
                    return "late"
                draw()
                item = self.events.get(TICK)
                if isinstance(item, Interrupted):
                    if is_stopping and not item.leaves:
                        continue
                    return "interrupted"
                self._take(item)
        return "done"

    def _take(self, item: Item | None) -> None:
        match item:
            case None:
                self._questions.tick()
            case DraftChanged():
                self._draft = item
            case TypedLine(text=text):
                self._typed.append(text)
                if self._awaited is not None:
                    self._send_typed()
            case _:
                changed = self._questions.take(item)
                if changed is not self._awaited and not self._has_its_turn(changed):
                    self._show_late(changed)

    def _has_its_turn(self, changed: PendingQuestion | UnsolicitedMessage | None) -> bool:
        """Whether this is shown after those that were asked before it."""
        if not isinstance(changed, PendingQuestion) or changed.ending is None or changed not in self._asked:
            return False
        return changed.ending.outcome in ("answered", "joined", "stopped")

    def _draw(self, question: PendingQuestion, waited: float) -> None:
        texts = self.texts
        if problem := self._questions.take_store_problem():
            with self._screen.apart(texts.goes_on):
                self._screen.line(texts.say_not_recorded(problem))
        if question.withdrawn:
            question.withdrawn = False
            self._screen.answer("", texts.rewritten)
            self._screen.line(texts.back_anew)
        if question.preview:
            self._show_heading()
        self._screen.answer(question.preview, texts.rewritten)
        if self._draft.text and not question.stopping:
            self._screen.draft(self._draft.text, texts.draft_waits if self._draft.waits else "")
        else:
            self._screen.status(status_line(question, self._questions, texts, waited))

    # ── how it ended ────────────────────────────────────────────────────────────────────────────────────────────

    def _show_answer(self, ending: QuestionEnd, question: PendingQuestion) -> None:
        if ending.outcome == "joined":
            self._show_joined(question)
            return
        question.shown = True
        self._show_heading()
        self.show_ending(ending, wanted=not question.stopping)
        unsaid = ending.outcome == "answered" and bool(ending.reply)
        view = self.look(question.inbound_id) if unsaid else None
        self._end_with_help(question, sources(view, self.texts) if view else ())

    def _show_heading(self) -> None:
        if self._heading:
            self._screen.line(self._heading)
            self._heading = ""

    def _show_joined(self, question: PendingQuestion) -> None:
        question.shown = True
        other = next(filter(question.was_answered_with, self._recent), None)
        texts, name = self.texts, one_line(question.text)
        if other is None or not other.shown:
            self.end_with((texts.joined_elsewhere.format(question=name),))
        else:
            self.end_with((texts.joined_above.format(question=name, other=one_line(other.text)),))

    def _show_late(self, news: PendingQuestion | UnsolicitedMessage | None) -> None:
        """What nobody waits for any more, or never did: an answer under its question, a card as it is."""
        if isinstance(news, UnsolicitedMessage):
            with self._screen.apart(self.texts.goes_on):
                self.show_ending(QuestionEnd("answered", reply=news.text, is_markdown=news.is_markdown))
                self.end_with(())
        elif news is not None and news.ending is not None and not news.shown:
            with self._screen.apart(self.texts.goes_on):
                self._show_late_ending(news, news.ending)

    def _show_late_ending(self, question: PendingQuestion, ending: QuestionEnd) -> None:
        if ending.outcome == "joined":
            self._show_joined(question)
            return
        question.shown = True
        self._screen.line(self.texts.answer_to.format(question=one_line(question.text)))
        self.show_ending(ending, wanted=not question.stopping)
        self._end_with_help(question, ())

    def show_ending(self, ending: QuestionEnd, *, wanted: bool = True) -> None:
        show_ending(self._screen, self.texts, ending, wanted=wanted)

    def _end_with_help(self, question: PendingQuestion, lines: tuple[str, ...]) -> None:
        self.end_with(lines)
        if is_help(question.text):
            self.end_with(tuple(self.texts.own_commands.splitlines()))

    def end_with(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self._screen.line(line)
        self._screen.line("")


def _quote(text: str) -> str:
    """A message as it stands at the prompt."""
    return PROMPT + text.replace("\n", "\n" + " " * len(PROMPT))


def _do_nothing() -> None:
    pass


def _forget(_: str) -> None:
    pass
