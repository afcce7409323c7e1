"""`finclaw chat`: a conversation at the terminal, with the running gateway or one of its own."""

import importlib.util
import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from functools import partial

from finclaw.cli.arguments import add_market_options, add_state_options, settings_from, settings_to_look
from finclaw.cli.chat.commands import Completer, KnownCommands, is_leaving
from finclaw.cli.chat.conversation import TerminalChat
from finclaw.cli.chat.event_queue import EventQueue, Item, UnsolicitedMessage
from finclaw.cli.chat.gateway_link import GatewayLink, connect, own_session
from finclaw.cli.chat.keyboard import LineHistory, PlainKeyboard, echoing_keys, interrupts_to
from finclaw.cli.chat.markdown import write_reply
from finclaw.cli.chat.questions import PendingQuestion, PendingQuestions, QuestionEnd
from finclaw.cli.chat.screen import Screen, can_move_cursor
from finclaw.cli.chat.texts import Texts, greeting, texts_at_start, texts_for
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.cli.formatting import clean, one_line
from finclaw.clock import SystemClock
from finclaw.config.problems import say_budget
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.errors import ChannelError, ConfigError
from finclaw.finance.market_data.source_info import name_price_sources

INTERRUPTED = 130
_ENVELOPE = 1_024
"""Bytes of a request that are not the text."""


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("--session", default="main", metavar="KEY", help="the conversation to continue")
    add_market_options(parser)


def run(args: Namespace) -> int:
    settings = settings_to_look(args, {"market": args.market})
    conversation = _session(args.session)
    # The outcome says what went wrong; a log between question and answer helps nobody.
    logging.getLogger("finclaw").addHandler(logging.NullHandler())
    logging.getLogger("finclaw").propagate = False
    events, is_terminal = EventQueue(), sys.stdin.isatty() and sys.stdout.isatty()
    # What a script is told nobody may have read; the next chat shows it.
    marker = ReadMarker(conversation, settings.state if is_terminal else None)
    with_keys = partial(settings_from, args, {"market": args.market})
    link = connect(settings, marker, conversation, args.market, events, with_keys, shared=True)
    questions = PendingQuestions(link, conversation, Unread(own_session(settings, conversation), marker))
    if is_terminal:
        return _talk(settings, link, questions, events)
    try:
        return run_script(sys.stdin.buffer, questions, events, link.commands)
    finally:
        link.close()


def _talk(settings: Settings, link: GatewayLink, questions: PendingQuestions, events: EventQueue) -> int:
    history = LineHistory(settings.state)
    completer = Completer(link.commands)
    terminal = None
    screen = Screen(sys.stdout)
    if can_move_cursor(sys.stdout, os.environ) and importlib.util.find_spec("prompt_toolkit"):
        from finclaw.cli.chat.toolkit import ToolkitTerminal  # noqa: PLC0415  optional: the extra `chat`

        screen = terminal = ToolkitTerminal(sys.stdout, events, history, completer)
    _greet(settings, link, screen)
    language = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    limit = settings.web.max_body // 6 - _ENVELOPE  # a character of one byte may need six in JSON
    chat = TerminalChat(link, questions, events, screen, completer, texts_at_start(language), limit)
    with interrupts_to(events):
        if terminal is not None:
            terminal.run(chat.run)
        else:
            with echoing_keys(on=False):
                chat.run(PlainKeyboard(history, events, completer).read_line)
    return _leave(link, questions, screen, chat.texts)


def _greet(settings: Settings, link: GatewayLink, screen: Screen) -> None:
    sources = name_price_sources(settings.market_data.used()) if settings.market == "live" else ""
    for line in greeting(link.market, link.url, sources):
        screen.line(line)
    if link.url is None and not chosen_model(settings).startswith("offline/"):
        screen.line(f"Budget / 예산: {say_budget(settings)}")


def _leave(link: GatewayLink, questions: PendingQuestions, screen: Screen, texts: Texts) -> int:
    for question in questions.untaken:
        screen.line(texts.never_taken.format(question=one_line(question.text)))
    if link.url is None and questions.open:
        screen.line(texts.finishing)
    try:
        link.close()
    except KeyboardInterrupt:
        # The gateway's own threads would hold up the interpreter. What was taken is on disk; a crash may not lose it,
        # so neither does this.
        os._exit(INTERRUPTED)
    return 0


def _session(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError:
        key = ""
    if not 1 <= len(key) <= 200:
        raise ConfigError("--session takes a name of 1 to 200 characters")
    return key


# ── without a terminal: a line in, its answer out, until the input ends ─────────────────────────────────────────


PATIENCE = 60.0
"""Seconds for which a script waits for a gateway that went away."""

_GOOD = ("answered", "command", "skipped", "joined")


def run_script(lines: Iterable[bytes], questions: PendingQuestions, events: EventQueue, commands: KnownCommands) -> int:
    """The exit code: 1 if any line was not answered."""
    code = 0
    for line in lines:
        text = _text(line)
        if is_leaving(text):
            break
        if refusal := commands.refuse_unknown(text, texts_for(text)):
            print(f"finclaw: {refusal}", file=sys.stderr)
            code = 1
        elif text.strip() and not _answer(text, questions, events):
            code = 1
    while (item := events.get(0)) is not None:
        _take(item, questions)
    return code


def _answer(text: str, questions: PendingQuestions, events: EventQueue) -> bool:
    ending = _wait(questions.ask(text), questions, events)
    if ending.reply is not None:
        print(write_reply(ending.reply, is_markdown=ending.is_markdown), flush=True)
    if ending.outcome not in ("answered", "command"):
        reason = f": {clean(ending.reason)}" if ending.reason else ""
        print(f"finclaw: the message ended as {ending.outcome}{reason}", file=sys.stderr)
    return ending.outcome in _GOOD


def _wait(question: PendingQuestion, questions: PendingQuestions, events: EventQueue) -> QuestionEnd:
    now = SystemClock().monotonic
    connected_at = now()
    while question.ending is None:
        item = events.get(0.5)
        if item is None:
            questions.tick()
        else:
            _take(item, questions)
        if problem := questions.take_store_problem():
            print(f"finclaw: {texts_for(question.text).say_not_recorded(problem)}", file=sys.stderr, flush=True)
        if questions.connected:
            connected_at = now()
        elif now() - connected_at > PATIENCE:
            raise ChannelError(
                "the gateway went away; if it had taken the message, it answers when it runs again: finclaw serve"
            )
    return question.ending


def _take(item: Item, questions: PendingQuestions) -> None:
    """Standard output is for answers; what nobody asked for goes beside it."""
    told = questions.take(item)
    if isinstance(told, UnsolicitedMessage):
        print(write_reply(told.text, is_markdown=told.is_markdown), file=sys.stderr, flush=True)


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip()
    except UnicodeDecodeError as error:
        raise ConfigError("standard input is not UTF-8 text; convert it first, for example with iconv") from error
