"""A runner of one question, for `finclaw ask`. Ctrl-C stops its turn, a second Ctrl-C leaves at once."""

import os
from typing import Final, NoReturn

from finclaw.cli.chat.event_queue import EventQueue, Interrupted, News, Seen
from finclaw.cli.chat.gateway_link import GatewayLink
from finclaw.cli.chat.progress import status_line
from finclaw.cli.chat.questions import Ending, PendingQuestions, Question
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.terminal import interrupts_to, quiet_keys
from finclaw.cli.chat.texts import Texts
from finclaw.errors import ChannelError
from finclaw.kernel.clock import SystemClock
from finclaw.web.view import MessageView

INTERRUPTED: Final = 130
_TICK: Final = 0.5
_PATIENCE: Final = 10.0
"""Seconds to wait for a gateway that went away, or that cannot take the message yet."""
_LOOK_WITHIN: Final = 5.0


class Asker:
    """A runner of one question, from sending it to its end.

    `screen` is None where nobody watches; `streams`: the answer is drawn there as it is written.
    """

    def __init__(
        self,
        link: GatewayLink,
        questions: PendingQuestions,
        events: EventQueue,
        texts: Texts,
        screen: Screen | None,
        *,
        streams: bool,
    ) -> None:
        self._link = link
        self._questions = questions
        self._events = events
        self._texts = texts
        self._screen = screen
        self._streams = streams
        self._now = SystemClock().monotonic
        self._well_at = self._now()
        """When the gateway was last known to be there and to take messages."""

    def ask(self, text: str, model: str | None = None) -> tuple[Question, Ending]:
        """Raises ChannelError: the gateway refused the message, or went away for too long."""
        with interrupts_to(self._events), quiet_keys():
            question = self._questions.ask(text, model)
            began = self._well_at = self._now()
            while question.ending is None:
                self._draw(question, began)
                self._take_one(question)
                self._lose_patience(question)
            self._clear_status()
        if question.ending.outcome == "not taken":
            raise ChannelError(question.ending.reason)
        return question, question.ending

    def look_up(self, question: Question) -> MessageView | None:
        """Everything the gateway keeps of an ended question; None if it does not say in time."""
        give_up = self._now() + _LOOK_WITHIN
        self._link.look(question.inbound_id)
        while self._now() < give_up:
            item = self._events.get(_TICK)
            if isinstance(item, Seen) and item.view is not None and item.view.inbound_id == question.inbound_id:
                return item.view
        return None

    def follow(self, session: str, seconds: float) -> str | None:
        """The next thing that the gateway tells this session without having been asked; None: not within the seconds.

        Ctrl-C ends the waiting, and nothing else.
        """
        give_up = self._now() + seconds
        with interrupts_to(self._events):
            while self._now() < give_up:
                item = self._events.get(_TICK)
                if isinstance(item, Interrupted):
                    return None
                match item:
                    case News(type="outcome", data={"unasked": True, "session": told, "reply": str(reply)}):
                        if told == session:
                            return reply
                    case _:
                        pass
        return None

    def _draw(self, question: Question, began: float) -> None:
        if self._screen is None:
            return
        if question.withdrawn:
            question.withdrawn = False
            self._screen.answer("", self._texts.rewritten)
            self._screen.line(self._texts.back_anew)
        if self._streams:
            self._screen.answer(question.preview, self._texts.rewritten)
        self._screen.status(status_line(question, self._questions, self._texts, self._now() - began))

    def _take_one(self, question: Question) -> None:
        """What is told unasked is left for the next chat, which shows it."""
        item = self._events.get(_TICK)
        if isinstance(item, Interrupted):
            if question.stopping:
                self._leave()
            self._questions.stop(question)
        elif item is None:
            self._questions.tick()
        else:
            self._questions.take(item)

    def _lose_patience(self, question: Question) -> None:
        if self._questions.connected and not (question.trouble and not question.inbound_id):
            self._well_at = self._now()
        elif self._now() - self._well_at > _PATIENCE:
            self._clear_status()
            raise ChannelError(self._questions.lost_because or question.trouble or _went_away(question))

    def _leave(self) -> None:
        self._clear_status()
        if self._screen is not None:
            self._screen.end_answer()
        raise KeyboardInterrupt

    def _clear_status(self) -> None:
        if self._screen is not None:
            self._screen.status("")


def leave_at_once() -> NoReturn:
    """End the process here: the threads of a gateway in this process would hold up the interpreter's own end.

    What was taken is on disk, and a crash may not lose it either.
    """
    os._exit(INTERRUPTED)


def _went_away(question: Question) -> str:
    if question.stopping:
        return "the gateway went away before it was told to stop; it answers when it runs again: finclaw serve"
    return "the gateway went away; if it had taken the message, it answers when it runs again: finclaw serve"
