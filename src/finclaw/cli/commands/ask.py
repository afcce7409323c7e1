"""`finclaw ask`: one question, one answer. Through the running gateway if there is one, else right here.

Ctrl-C stops the turn, a second Ctrl-C leaves at once.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from typing import Final, NoReturn

from finclaw.builtins.approval_words import is_yes
from finclaw.cli.arguments import add_market_options, add_state_options, settings_from, settings_to_look
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, News, Seen
from finclaw.cli.chat.gateway_link import GatewayLink, connect, own_session
from finclaw.cli.chat.keyboard import echoing_keys, interrupts_to
from finclaw.cli.chat.markdown import write_reply
from finclaw.cli.chat.questions import PendingQuestion, PendingQuestions, QuestionEnd
from finclaw.cli.chat.screen import Screen, show_ending, status_line
from finclaw.cli.chat.texts import Texts, texts_for
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.cli.formatting import clean, json_line
from finclaw.clock import SystemClock
from finclaw.diagnostics.log import silence_logging, start_logging
from finclaw.errors import ChannelError, ConfigError
from finclaw.redaction.redact import redact_for_display
from finclaw.text import fix_surrogates
from finclaw.web.view import MessageView, OutcomeView

INTERRUPTED: Final = 130
_TICK: Final = 0.5
_AWAY_WITHIN: Final = 10.0
"""Seconds to wait for a gateway that went away, or that cannot take the message yet."""
_LOOK_WITHIN: Final = 5.0


class Asker:
    """A runner of one question, from sending it to its end. `screen` is None where nobody watches; `streams`: the
    answer is drawn there as it is written."""

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
        self._well_at = self._now()  # when the gateway was last known to be there and to take messages

    def ask(self, text: str, model: str | None = None) -> tuple[PendingQuestion, QuestionEnd]:
        """Raises ChannelError: the gateway refused the message, or went away for too long."""
        with interrupts_to(self._events), echoing_keys(on=False):
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

    def look_up(self, question: PendingQuestion) -> MessageView | None:
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
        Ctrl-C ends the waiting, and nothing else."""
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

    def _draw(self, question: PendingQuestion, began: float) -> None:
        problem = self._questions.take_store_problem()
        if self._screen is None:
            if problem:
                print(f"finclaw: {self._texts.say_not_recorded(problem)}", file=sys.stderr, flush=True)
            return
        if problem:
            self._screen.line(self._texts.say_not_recorded(problem))
        if question.withdrawn:
            question.withdrawn = False
            self._screen.answer("", self._texts)
            self._screen.line(self._texts.back_anew)
        if self._streams and self._events.is_empty():  # setting a long answer takes longer than reading an event
            self._screen.answer(question.preview, self._texts)
        self._screen.status(status_line(question, self._questions, self._texts, self._now() - began))

    def _take_one(self, question: PendingQuestion) -> None:
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

    def _lose_patience(self, question: PendingQuestion) -> None:
        if self._questions.connected and not (question.trouble and not question.inbound_id):
            self._well_at = self._now()
        elif self._now() - self._well_at > _AWAY_WITHIN:
            self._clear_status()
            raise ChannelError(self._questions.lost_because or question.trouble or _went_away(question))

    def _leave(self) -> None:
        self._clear_status()
        if self._screen is not None:
            self._screen.end_answer(self._texts)
        raise KeyboardInterrupt

    def _clear_status(self) -> None:
        if self._screen is not None:
            self._screen.status("")


def leave_at_once() -> NoReturn:
    """End the process here: the threads of a gateway in this process would hold up the interpreter's own end. What was
    taken is on disk, and a crash may not lose it either."""
    os._exit(INTERRUPTED)


def _went_away(question: PendingQuestion) -> str:
    if question.stopping:
        return "the gateway went away before it was told to stop; it answers when it runs again: finclaw serve"
    return "the gateway went away; if it had taken the message, it answers when it runs again: finclaw serve"


PATIENCE = 10.0
"""Seconds to wait for a state that is busy: a gateway is starting, or another `finclaw ask` is at it."""
FOLLOW: Final = 60.0  # seconds to wait for what comes of an approval
QUIET_SUCCESS: Final = ("answered", "command", "skipped", "joined")


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="the question; - or nothing reads standard input")
    parser.add_argument("--json", action="store_true", help="print the whole outcome as one JSON object")
    parser.add_argument("--session", default="main", metavar="KEY", help="the conversation to continue")
    parser.add_argument(
        "--model", metavar="NAME", help="the model or alias that answers this one question; no other is asked instead"
    )
    add_market_options(parser)
    parser.add_argument("--verbose", action="store_true", help="show the log, where this command runs the turn itself")


def run(args: Namespace) -> int:
    overrides = {"market": args.market}
    settings = settings_to_look(args, overrides)
    conversation, text = _session(args.session), _text(args.text)
    if args.verbose:
        start_logging(settings.log.level, "plain", redact_for_display)
    else:  # the outcome says what went wrong; a log between question and answer helps nobody
        silence_logging()
    events = EventQueue()
    marker = ReadMarker(conversation)  # it moves nobody's place: a chat shows what was told unasked
    with_keys = partial(settings_from, args, overrides)
    link = connect(settings, marker, conversation, args.market, events, with_keys, patience=PATIENCE)
    try:
        session = own_session(settings, conversation)
        questions = PendingQuestions(link, conversation, Unread(session, marker))
        if refusal := link.commands.refuse_unknown(text, texts_for(text)):
            raise ConfigError(refusal)
        screen, texts = Screen(sys.stdout) if sys.stdout.isatty() else None, texts_for(text)
        asker = Asker(link, questions, events, texts, screen, streams=not args.json)
        question, ending = asker.ask(text, _model(args.model))
        follows = is_yes(ending.reply or "") and not args.json and asker.follow(session, FOLLOW)
        if args.json:
            _print_json(asker.look_up(question))
        elif screen is not None:
            show_ending(screen, texts, ending, wanted=not question.stopping)
        else:
            _print_ending(ending, wanted=not question.stopping)
        if follows:  # what came of the approval, where it was given
            print(f"\n{clean(follows)}")
    except KeyboardInterrupt:
        leave_at_once()
    finally:
        link.close()
    if ending.outcome == "stopped":
        return INTERRUPTED
    return 0 if ending.outcome in QUIET_SUCCESS else 1


def _print_json(view: MessageView | None) -> None:
    if view is None:
        raise ChannelError("the message has ended, but the gateway does not say how; `finclaw turns` shows it")
    fields = {name: getattr(view, name) for name in OutcomeView.__struct_fields__}
    print(json_line(fields))


def _print_ending(ending: QuestionEnd, *, wanted: bool) -> None:
    """For a script: the answer on standard output and nothing else; how it ended otherwise, beside it."""
    stopped = not wanted and ending.outcome == "stopped"
    if ending.reply is not None:
        words = write_reply(ending.reply, is_markdown=ending.is_markdown)
        print(words, file=sys.stderr if stopped else sys.stdout)
    if ending.outcome not in ("answered", "command") and not stopped:
        reason = f": {clean(ending.reason)}" if ending.reason else ""
        print(f"finclaw: the message ended as {ending.outcome}{reason}", file=sys.stderr)


def _text(words: list[str]) -> str:
    if words == ["-"] or (not words and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise ConfigError("standard input is not UTF-8 text; convert it first, for example with iconv") from error
    else:
        text = " ".join(words)
    if not text.strip():
        raise ConfigError('there is no question; try: finclaw ask "What is AAPL trading at?"')
    if fix_surrogates(text) != text:
        raise ConfigError("the question is not UTF-8 text; check your terminal's character encoding")
    return text


def _session(key: str) -> str:
    if not _is_name(key):
        raise ConfigError("--session takes a name of 1 to 200 characters of UTF-8 text; try: --session main")
    return key


def _model(name: str | None) -> str | None:
    if name is not None and not _is_name(name):
        raise ConfigError("--model takes a model or an alias, as `finclaw models` lists them")
    return name


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= 200 and fix_surrogates(text) == text
